"""Create the monthly partitions of the events table on PostgreSQL ahead of time, and drop empty ones."""

from datetime import UTC, datetime

from sqlalchemy import text

from mailwright.domain.clock import Instant, to_instant
from mailwright.ops.logs import logger
from mailwright.storage.database import Database
from mailwright.storage.privileges import revoke_access

MONTHS_AHEAD = 2

log = logger(__name__)


async def ensure_event_partitions(database: Database, now: Instant) -> None:
    """Create the partitions of this and the next months. Events without a partition go to the default partition."""
    if database.dialect != "postgresql":
        return
    today = datetime.fromtimestamp(now / 1000, UTC)
    for offset in range(MONTHS_AHEAD + 1):
        begins, ends = _month(today, offset), _month(today, offset + 1)
        name = f"events_{begins:%Y_%m}"
        async with database.write() as tx:
            if await tx.execute(text("SELECT 1 FROM pg_class WHERE relname = :name"), {"name": name}):
                continue
            # Prevents events of this month from reaching the default partition between the check and the creation.
            await tx.execute(text("LOCK TABLE events IN ACCESS EXCLUSIVE MODE"))
            has_events = await tx.execute(
                text("SELECT 1 FROM events_default WHERE created_at >= :begins AND created_at < :ends LIMIT 1"),
                {"begins": to_instant(begins), "ends": to_instant(ends)},
            )
            if has_events:
                log.info(
                    "partition_not_created",
                    month=f"{begins:%Y-%m}",
                    message="The month already has events in the default partition.",
                )
                continue
            bounds = f"FROM ({to_instant(begins)}) TO ({to_instant(ends)})"
            await tx.execute(text(f"CREATE TABLE IF NOT EXISTS {name} PARTITION OF events FOR VALUES {bounds}"))
            await tx.execute(text(revoke_access(name)))


async def drop_empty_partitions(database: Database, before: Instant) -> list[str]:
    """Drop the partitions of earlier months that have no events any more. Return their names.

    Autovacuum has truncated their tables, but not their indexes, and every lookup of a message's events reads all
    partitions.
    """
    oldest_kept = f"events_{_month(datetime.fromtimestamp(before / 1000, UTC), 0):%Y_%m}"
    async with database.read() as tx:
        found = [row.relname for row in await tx.execute(text(_EMPTY_PARTITIONS), {"oldest_kept": oldest_kept})]
    for name in found:
        async with database.write() as tx:
            await tx.execute(text(_DROP_IF_EMPTY.format(name=name)))
    return found


_EMPTY_PARTITIONS = """
SELECT c.relname FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
WHERE i.inhparent = CAST('events' AS regclass) AND c.relname ~ '^events_[0-9]{4}_[0-9]{2}$'
  AND c.relname < :oldest_kept AND pg_relation_size(c.oid) = 0
ORDER BY c.relname
"""
# Waits for the lock only briefly, because all reads and writes of events wait behind it. The next pass tries again.
_DROP_IF_EMPTY = """
DO $$ BEGIN
  PERFORM set_config('lock_timeout', '100ms', true);
  LOCK TABLE events IN ACCESS EXCLUSIVE MODE;
  IF pg_relation_size('{name}') = 0 THEN DROP TABLE {name}; END IF;
EXCEPTION WHEN lock_not_available THEN NULL;
END $$
"""


def _month(day: datetime, offset: int) -> datetime:
    months = day.year * 12 + day.month - 1 + offset
    return datetime(months // 12, months % 12 + 1, 1, tzinfo=UTC)
