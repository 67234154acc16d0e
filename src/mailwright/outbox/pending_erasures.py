"""Erasures that wait for the result of a message. Until then, nobody may store or send anything for these addresses."""

from collections.abc import Iterable

from mailwright.domain.errors import NotPossibleNow
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement

FIND_ERASING = statement(__package__, "find_erasing")


class ErasurePending(NotPossibleNow):
    """The personal data of this address is being erased. Nothing is stored for it or sent to it until that is done."""

    code = "ERASURE_PENDING"


async def find_erasing(tx: Runner, addresses: Iterable[tuple[int, str]]) -> set[tuple[int, str]]:
    """Return those of the tenants' normalized addresses whose erasure has begun and is not finished."""
    wanted = sorted(set(addresses))
    return {(row.tenant_id, row.email) for row in await tx.run(FIND_ERASING, addresses=wanted)} if wanted else set()


async def refuse_erasing(tx: Runner, tenant_id: int, emails: Iterable[str]) -> None:
    """Raise `ErasurePending` if one of the normalized addresses is being erased.

    Lock the contacts first, so that no erasure begins afterwards.
    """
    if await find_erasing(tx, [(tenant_id, email) for email in emails]):
        raise ErasurePending
