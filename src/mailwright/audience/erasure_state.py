"""The state of erasures: what waits for the result of a message, and what is done."""

from enum import StrEnum

from sqlalchemy import select

from mailwright.audience.contact_fields import normalize_email
from mailwright.audience.importing.store import ERASURE
from mailwright.audience.lists import GENERAL
from mailwright.audience.status import find_erased
from mailwright.domain.clock import Instant
from mailwright.domain.errors import NotFound
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import erasures, suppressions


class ErasureState(StrEnum):
    ERASING = "erasing"  # Everything has ended. The data is deleted as soon as a message has a result.
    ERASED = "erased"


@dataclass(frozen=True, slots=True)
class Erasure:
    """The state of an erasure. While it waits, `waits_for` is the outbox ID of the message that has no result yet."""

    email: str
    state: ErasureState
    requested_at: Instant
    erased_at: Instant | None = None
    waits_for: str | None = None
    expected_at: Instant | None = None  # when the data is deleted, at the latest
    messages: int = 0  # whose content was erased

    @property
    def is_finished(self) -> bool:
        return self.state is ErasureState.ERASED


async def find_erasure(database: Database, tenant_id: int, email: str) -> Erasure:
    """Return the state of the erasure of an address, or raise `NotFound` if it was not erased."""
    address = normalize_email(email)
    async with database.read() as tx:
        if (pending := await find_pending(tx, tenant_id, address)) is not None:
            return pending
        s = suppressions.c
        left = (s.tenant_id == tenant_id, s.email == address, s.list_key == GENERAL, s.source == ERASURE)
        rows = await tx.execute(select(s.created_at).where(*left))
        if rows and await find_erased(tx, [(tenant_id, address)]):
            return Erasure(address, ErasureState.ERASED, rows[0].created_at, rows[0].created_at)
    raise NotFound("Nobody has erased this address.")


async def find_pending(tx: Transaction, tenant_id: int, address: str) -> Erasure | None:
    """Return the erasure of a normalized address that is not finished."""
    e = erasures.c
    columns = (e.requested_at, e.waits_for, e.expected_at)
    for row in await tx.execute(select(*columns).where(e.tenant_id == tenant_id, e.email == address)):
        return Erasure(
            address,
            ErasureState.ERASING,
            row.requested_at,
            waits_for=row.waits_for,
            expected_at=row.expected_at,
        )
    return None
