"""Record the size of the database once a day, so that health checks know its growth."""

from typing import Final

from mailwright.domain.clock import Clock
from mailwright.ops.periodic import run_periodically
from mailwright.outbox.recorded_facts import record_size
from mailwright.storage.database import Database
from mailwright.storage.server_state import database_bytes

LOOK_SECONDS: Final = 3600.0


async def run_size_recorder(database: Database, clock: Clock) -> None:
    """Check every hour until cancelled. Any number of processes may do this; one of them records the size."""

    async def record() -> None:
        await record_size(database, clock.now(), await database_bytes(database))

    await run_periodically("database_size", record, seconds=LOOK_SECONDS)
