"""Partitions of the events table on PostgreSQL: one a month, made ahead of time. SQLite needs none."""

from datetime import UTC, datetime

from sqlalchemy import text

from mailwright.domain.clock import Instant, to_instant
from mailwright.ops.logs import logger
from mailwright.storage.database import Database

MONTHS_AHEAD = 2

log = logger(__name__)


async def ensure_event_partitions(database: Database, now: Instant) -> None:
    """This month and the next ones. Until a partition exists its events go to the default one, so nothing is lost."""
    if database.dialect != "postgresql":
        return
    moment = datetime.fromtimestamp(now / 1000, UTC)
    for offset in range(MONTHS_AHEAD + 1):
        begins, ends = _month(moment, offset), _month(moment, offset + 1)
        name = f"events_{begins:%Y_%m}"
        async with database.write() as tx:
            if await tx.execute(text("SELECT 1 FROM pg_class WHERE relname = :name"), {"name": name}):
                continue
            # Nobody may write an event of this month to the default partition between our look and our making it.
            await tx.execute(text("LOCK TABLE events IN ACCESS EXCLUSIVE MODE"))
            taken = await tx.execute(
                text("SELECT 1 FROM events_default WHERE created_at >= :begins AND created_at < :ends LIMIT 1"),
                {"begins": to_instant(begins), "ends": to_instant(ends)},
            )
            if taken:
                log.info(
                    "partition_not_made", month=f"{begins:%Y-%m}", message="Its first events are in the default one."
                )
                continue
            bounds = f"FROM ({to_instant(begins)}) TO ({to_instant(ends)})"
            await tx.execute(text(f"CREATE TABLE IF NOT EXISTS {name} PARTITION OF events FOR VALUES {bounds}"))


def _month(moment: datetime, offset: int) -> datetime:
    months = moment.year * 12 + moment.month - 1 + offset
    return datetime(months // 12, months % 12 + 1, 1, tzinfo=UTC)
