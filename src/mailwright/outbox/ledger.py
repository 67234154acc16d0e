"""The ledger of permits: counters that policies read, reserved before a send and given back when not used.

The database counts what was handed out and is always right. With Valkey, a block of permits is paid for in the database
at once and handed out from Valkey, so that many workers do not queue for one row. Whatever happens to Valkey (gone,
slow, flushed), a limit is never exceeded: at worst the rest of one block goes unused until its window ends.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from redis.asyncio import Redis
from redis.exceptions import RedisError

from mailwright.domain.clock import HOUR, Clock, Instant
from mailwright.domain.permits import Window
from mailwright.ops.logs import logger
from mailwright.storage.database import Database, Transaction
from mailwright.storage.statements import statement

OPEN_COUNTER = statement(__package__, "open_counter")
READ_COUNTER = statement(__package__, "read_counter")
ADD_TO_COUNTER = statement(__package__, "add_to_counter")
FORGET_COUNTERS = statement(__package__, "forget_counters")

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Grant:
    count: int
    blocked_by: Window | None = None  # the window that gave less than was asked


class Ledger(Protocol):
    async def reserve(self, windows: Sequence[Window], wanted: int) -> Grant: ...

    async def give_back(self, windows: Sequence[Window], count: int) -> None: ...


class DatabaseLedger:
    """Counters as rows. Right by itself, and the ground that Valkey stands on."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def reserve(self, windows: Sequence[Window], wanted: int) -> Grant:
        """As many as every window allows; all of them are counted in one transaction."""
        if not windows:
            return Grant(wanted)
        async with self._database.write() as tx:
            free = {window.name: await self._free(tx, window) for window in _in_order(windows)}
            tightest = min(windows, key=lambda window: free[window.name])
            count = max(0, min(wanted, free[tightest.name]))
            if count:
                await self._add(tx, windows, count)
        return Grant(count, tightest if count < wanted else None)

    async def give_back(self, windows: Sequence[Window], count: int) -> None:
        async with self._database.write() as tx:
            await self._add(tx, windows, -count)

    async def forget_expired(self) -> None:
        async with self._database.write() as tx:
            await tx.run(FORGET_COUNTERS, now=self._clock.now())

    async def _free(self, tx: Transaction, window: Window) -> int:
        # Kept for an hour past its end, so that what is given back late still finds its counter.
        await tx.run(OPEN_COUNTER, name=window.name, expires_at=window.ends_at + HOUR)
        rows = await tx.run(READ_COUNTER, name=window.name)
        return window.limit - int(rows[0].used)

    async def _add(self, tx: Transaction, windows: Sequence[Window], count: int) -> None:
        for window in _in_order(windows):
            await tx.run(ADD_TO_COUNTER, name=window.name, count=count)


def _in_order(windows: Sequence[Window]) -> list[Window]:
    """Whoever takes several counters takes them in this order, or two workers would wait for each other."""
    return sorted(windows, key=lambda window: window.name)


# A block belongs to one run of the server: after a restart from a snapshot, or on a replica that takes over, it could
# hold permits that were handed out since.
_IS_OF_THIS_RUN = """
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local is_ours = redis.call('HGET', KEYS[1], 'run') == run
"""
# Takes up to ARGV[1] permits of the block in KEYS[1]; what is not there is not given.
_TAKE = f"""{_IS_OF_THIS_RUN}
if not is_ours then return 0 end
local count = math.min(tonumber(redis.call('HGET', KEYS[1], 'left')), tonumber(ARGV[1]))
if count > 0 then redis.call('HINCRBY', KEYS[1], 'left', -count) end
return count
"""
# Puts ARGV[1] permits there, until ARGV[2] milliseconds have passed.
_PUT = f"""{_IS_OF_THIS_RUN}
if not is_ours then redis.call('DEL', KEYS[1]) end
redis.call('HSET', KEYS[1], 'run', run)
redis.call('HINCRBY', KEYS[1], 'left', ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
"""

# A hundredth of the limit keeps what a lost Valkey can waste small and the trips to the database few.
_BLOCKS_PER_WINDOW = 100


class ValkeyLedger:
    """Hands out permits from blocks that the database has already counted."""

    def __init__(self, client: Redis, ground: DatabaseLedger, clock: Clock) -> None:
        self._client = client
        self._ground = ground
        self._clock = clock
        self._take: Any = client.register_script(_TAKE)
        self._put: Any = client.register_script(_PUT)
        self._is_down = False

    async def reserve(self, windows: Sequence[Window], wanted: int) -> Grant:
        if not windows:
            return Grant(wanted)
        name = block_name(windows)
        count = await self._from_block(name, wanted)
        if count == wanted:
            return Grant(count)
        size = 0 if self._is_down else max(1, min(window.limit for window in windows) // _BLOCKS_PER_WINDOW)
        bought = await self._ground.reserve(windows, max(wanted - count, size))
        used = min(bought.count, wanted - count)
        await self._keep(name, bought.count - used, min(window.ends_at for window in windows))
        return Grant(count + used, bought.blocked_by if count + used < wanted else None)

    async def give_back(self, windows: Sequence[Window], count: int) -> None:
        """Straight to the database: whoever is at the limit next finds them there."""
        await self._ground.give_back(windows, count)

    async def _from_block(self, name: str, wanted: int) -> int:
        try:
            count = int(await self._take(keys=[name], args=[wanted]))
        except (RedisError, OSError) as error:
            self._lost(error)
            return 0
        if self._is_down:
            self._is_down = False
            log.info("valkey_back", message="Permits come from Valkey again.")
        return count

    async def _keep(self, name: str, count: int, ends_at: Instant) -> None:
        """Permits that cannot be put there are lost until the window ends: too few is allowed, too many never."""
        if count <= 0:
            return
        try:
            await self._put(keys=[name], args=[count, max(1, ends_at - self._clock.now())])
        except (RedisError, OSError) as error:
            self._lost(error)

    def _lost(self, error: Exception) -> None:
        if not self._is_down:
            self._is_down = True
            log.warning(
                "valkey_lost", error=str(error), message="Permits are counted in the database until it is back."
            )


def block_name(windows: Sequence[Window]) -> str:
    """One block for each set of windows that is used together."""
    return "mailer:permits:" + "+".join(sorted(window.name for window in windows))
