"""Tallies: how many mails were sent, failed, opened and so on in each minute, so that no chart counts events itself.

They follow the events at a short distance, each event once, whichever process adds it up. The road of a message pays
nothing for them.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from mailwright.domain.clock import DAY, HOUR, MINUTE, Clock, Instant
from mailwright.domain.errors import NotDurable
from mailwright.ops.logs import logger
from mailwright.storage.database import Database
from mailwright.storage.horizon import Horizon, horizon
from mailwright.storage.statements import statement
from mailwright.storage.tables import installation, tallies

TALLY_EVENTS = statement(__package__, "tally_events")
ADD_TALLIES = statement(__package__, "add_tallies")

KEPT: Final[Instant] = 400 * DAY
# So many events at once take a fraction of a second to add up.
PORTION: Final = 50_000
LOOK_SECONDS: Final = 2.0
# Where the last process stopped, beside what else the installation keeps for itself.
_NAME: Final = "tallied_up_to"

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Stretch:
    """What happened from one moment on, for so long."""

    begins_at: Instant
    counts: Mapping[str, int]


class Tallying:
    def __init__(self, database: Database, clock: Clock, portion: int = PORTION) -> None:
        self._database = database
        self._clock = clock
        self._portion = portion
        self._seen: Horizon | None = None

    async def keep_up(self) -> None:
        """Until cancelled: adds up what is new, and forgets what is old."""
        forgets_at: Instant = 0
        while True:
            try:
                while await self.add_up():
                    pass
                if self._clock.now() >= forgets_at:
                    await self._forget()
                    forgets_at = self._clock.now() + HOUR
            except NotDurable as error:
                log.warning("not_tallied", reason=str(error))
            await asyncio.sleep(LOOK_SECONDS)

    async def add_up(self) -> bool:
        """One portion of what no transaction under way can still add to; whether there may be more."""
        async with self._database.read() as tx:
            seen, last = await horizon(tx), self._seen
            rows = await tx.execute(select(installation.c.value).where(installation.c.name == _NAME))
            after = int(rows[0].value) if rows else 0
            up_to = min(_settled(seen, last), after + self._portion)
            found = await tx.run(TALLY_EVENTS, after=after, up_to=up_to) if up_to > after else ()
        if last is None or seen.oldest_running >= last.next_to_run:
            self._seen = seen
        if up_to <= after:
            return False
        return await self._store(after, up_to, [dict(row._mapping) for row in found], is_first=not rows)

    async def _store(self, after: int, up_to: int, found: Sequence[dict[str, int]], *, is_first: bool) -> bool:
        """Whoever comes second finds that the place has moved, and stores nothing."""
        try:
            async with self._database.write() as tx:
                if is_first:
                    await tx.execute(insert(installation).values(name=_NAME, value=str(up_to)))
                else:
                    mine = (installation.c.name == _NAME, installation.c.value == str(after))
                    moved = update(installation).where(*mine).values(value=str(up_to))
                    if not await tx.execute(moved.returning(installation.c.name)):
                        return True
                if found:
                    await tx.run(ADD_TALLIES, tallies=found)
        except IntegrityError:
            return True  # another process began at the same moment
        return True

    async def _forget(self) -> None:
        async with self._database.write() as tx:
            await tx.execute(delete(tallies).where(tallies.c.minute < self._clock.now() - KEPT))


def _settled(seen: Horizon, last: Horizon | None) -> int:
    """Up to where nothing can appear any more."""
    if seen.is_still:
        return seen.newest
    return last.newest if last is not None and seen.oldest_running >= last.next_to_run else 0


async def stretches(
    database: Database, *, tenant_id: int | None, since: Instant, until: Instant, length: Instant = MINUTE
) -> list[Stretch]:
    """What happened in each stretch of this length, also where that is nothing; `tenant_id` None is all tenants."""
    t = tallies.c
    begins = since - since % length
    at = t.minute - t.minute % length
    query = select(at.label("begins_at"), t.type, func.sum(t.events).label("events"))
    query = query.where(t.minute >= begins, t.minute < until).group_by(at, t.type)
    if tenant_id is not None:
        query = query.where(t.tenant_id == tenant_id)
    async with database.read() as tx:
        rows = await tx.execute(query)
    counts: dict[Instant, dict[str, int]] = {}
    for row in rows:
        counts.setdefault(int(row.begins_at), {})[row.type] = int(row.events)
    return [Stretch(moment, counts.get(moment, {})) for moment in range(begins, until, length)]
