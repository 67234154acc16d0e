"""Used signatures of webhooks whose signature does not cover the body.

All processes share them, because each signature is valid for one body only.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from mailwright.domain.clock import Instant
from mailwright.providers.inbound.parsed_events import UsedSignature
from mailwright.providers.inbound.rejected_events import ForgedEvent
from mailwright.storage.database import Database
from mailwright.storage.group_commit import GroupCommit
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement

FORGET_SIGNATURES: Final = statement(__package__, "forget_signatures")
USE_SIGNATURES: Final = statement(__package__, "use_signatures")

LARGEST_COMMIT: Final = 500


class UsedSignatures:
    """Stores signatures before their events are recorded. Concurrent callers share a commit."""

    def __init__(self, database: Database, *, after_commit: Callable[[], Awaitable[None]]) -> None:
        self._database = database
        self._group_commit = GroupCommit(self._commit, after_commit=after_commit, max_items=LARGEST_COMMIT)

    async def use(self, used: UsedSignature) -> None:
        """Raise `ForgedEvent` if the signature was used for another body. A repeated request is fine."""
        [is_first_body] = await self._group_commit.submit([used])
        if not is_first_body:
            raise ForgedEvent("The signature was used for another event.")

    async def close(self) -> None:
        await self._group_commit.close()

    async def _commit(self, used: Sequence[UsedSignature]) -> list[bool]:
        first: dict[str, UsedSignature] = {}
        for each in used:
            first.setdefault(each.signature, each)
        rows = [(each.signature, each.body, each.ends_at) for each in first.values()]

        async def work(tx: Runner) -> dict[str, str]:
            return {row.signature: row.body for row in await tx.run(USE_SIGNATURES, signatures=rows)}

        bodies = await self._database.transact(work)
        return [bodies[each.signature] == each.body for each in used]


async def forget_signatures(tx: Runner, now: Instant, most: int) -> int:
    """Delete a batch of signatures that are too old to be accepted, and return their number."""
    return await tx.count(FORGET_SIGNATURES, now=now, most=most)
