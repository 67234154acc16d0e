"""Read the feeds that sequences and recurring campaigns follow, in worker processes."""

from typing import Final

from mailwright.app.feeds import fetch_changed_feed
from mailwright.domain.clock import Clock
from mailwright.domain.errors import NotDurable
from mailwright.ops.logs import logger
from mailwright.ops.periodic import run_periodically
from mailwright.sources.feeds.reader import FeedReader
from mailwright.storage.database import Database

TICK_SECONDS: Final = 15.0

log = logger(__name__)


async def run_feed_reader(database: Database, clock: Clock) -> None:
    """Read due feeds until cancelled. Any number of processes may run this, because each feed is claimed by one."""
    reader = FeedReader(database, clock, fetch_changed_feed)

    async def read() -> float | None:
        return 0.0 if await reader.read_due() else None

    await run_periodically("feeds", read, seconds=TICK_SECONDS)


async def read_due_feeds(database: Database, clock: Clock) -> None:
    """Read all due feeds once, for a process that exits."""
    try:
        await FeedReader(database, clock, fetch_changed_feed).read_due()
    except NotDurable as error:
        log.warning("feeds_delayed", reason=str(error))
