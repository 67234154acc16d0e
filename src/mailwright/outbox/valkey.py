"""Valkey: permits are handed out from blocks there, and workers of other processes are told of new mail.

A module of its own, which only those who have a Valkey load: its client is a tenth of a small installation's memory.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from redis.asyncio import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.permits import LimitWindow, SendRate
from mailwright.ops.logs import logger
from mailwright.outbox.ledger import Booking, DatabaseLedger, Grant, RateCheckpoint

log = logger(__name__)

# Valkey helps; waiting for it must never cost more than asking the database.
TIMEOUT_SECONDS = 0.5
# What its client raises where nobody answers.
SILENT = (RedisError, OSError)


def valkey_client(url: str) -> Redis:
    try:
        return Redis.from_url(
            url,
            socket_timeout=TIMEOUT_SECONDS,
            socket_connect_timeout=TIMEOUT_SECONDS,
            # The database answers where Valkey does not: trying again would only make a mail wait.
            retry=Retry(NoBackoff(), 0),
        )
    except (ValueError, RedisError) as error:
        raise ConfigurationInvalid(f"MAILWRIGHT_REDIS_URL: {error}") from error


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

    async def reserve(self, windows: Sequence[LimitWindow], wanted: int) -> Grant:
        if not windows or any(window.is_exact for window in windows):
            return await self._ground.reserve(windows, wanted)
        name = block_name(windows)
        count = await self._from_block(name, wanted)
        if count == wanted:
            return Grant(count)
        size = 0 if self._is_down else max(1, min(window.limit for window in windows) // _BLOCKS_PER_WINDOW)
        bought = await self._ground.reserve(windows, max(wanted - count, size))
        used = min(bought.count, wanted - count)
        await self._keep(name, bought.count - used, min(window.ends_at for window in windows))
        return Grant(count + used, bought.blocked_by if count + used < wanted else None)

    async def reserve_each(self, wanted: Mapping[LimitWindow, int]) -> dict[LimitWindow, int]:
        """Straight from the database: one turn there for many windows is cheaper than a block for each."""
        return await self._ground.reserve_each(wanted)

    async def give_back(self, windows: Sequence[LimitWindow], count: int) -> None:
        """Straight to the database: whoever is at the limit next finds them there."""
        await self._ground.give_back(windows, count)

    async def book(self, paces: Sequence[SendRate], wanted: int, known: Mapping[str, RateCheckpoint]) -> Booking:
        """Straight from the database: a moment that is lost with Valkey would be given to a second mail."""
        return await self._ground.book(paces, wanted, known)

    async def release_rates(self, known: Mapping[str, RateCheckpoint]) -> None:
        await self._ground.release_rates(known)

    async def _from_block(self, name: str, wanted: int) -> int:
        try:
            count = int(await self._take(keys=[name], args=[wanted]))
        except SILENT as error:
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
        except SILENT as error:
            self._lost(error)

    def _lost(self, error: Exception) -> None:
        if not self._is_down:
            self._is_down = True
            log.warning(
                "valkey_lost", error=str(error), message="Permits are counted in the database until it is back."
            )


def block_name(windows: Sequence[LimitWindow]) -> str:
    """One block for each set of windows that is used together, as long as their limits are these.

    What was bought under a higher limit is not handed out under a lower one.
    """
    return "mailer:permits:" + "+".join(sorted(f"{window.name}={window.limit}" for window in windows))
