"""Enforce sending limits through Valkey.

The database counts a block of permits in advance, and workers take single permits from Valkey.

The module is imported only if Valkey is configured, because its client takes a tenth of a small installation's memory.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from mailwright.domain.clock import Clock, Instant
from mailwright.domain.message import Claimed
from mailwright.domain.permits import LimitWindow, SendRate
from mailwright.ops.logs import logger
from mailwright.outbox.ledger import NO_SPACING, Booking, DatabaseLedger, Grant, RateCheckpoint, SlotSpacing
from mailwright.outbox.valkey_address import parse_address

log = logger(__name__)

# Timeout of Valkey requests. Valkey is only an optimization, so it must never be slower than the database.
TIMEOUT_SECONDS = 0.5
# The errors that the Valkey client raises if the server does not respond.
# The event loop raises a RuntimeError for a connection that closes while it is being set up.
UNAVAILABLE = (RedisError, OSError, RuntimeError)


class _SentinelClient(Redis):
    """A client that also closes its connections to the Sentinels."""

    async def aclose(self, close_connection_pool: bool | None = True) -> None:
        await super().aclose(close_connection_pool)
        for sentinel in self.connection_pool.sentinel_manager.sentinels:  # type: ignore[attr-defined]
            await sentinel.aclose()


def valkey_client(url: str) -> Redis:
    """Return a client. With Sentinel, each new connection goes to the server that Sentinel names at that time."""
    address = parse_address(url)
    options: dict[str, Any] = {
        "socket_timeout": TIMEOUT_SECONDS,
        "socket_connect_timeout": TIMEOUT_SECONDS,
        # Do not retry. If Valkey is unavailable, the ledger uses the database instead.
        "retry": Retry(NoBackoff(), 0),
    }
    tls: dict[str, Any] = {"ssl": True} if address.is_tls else {}
    if address.service is not None:
        files = {name: value for name, value in address.login.items() if name.startswith("ssl_")}
        sentinel_options = {**options, **tls, **files, **address.sentinel_login}
        sentinels = Sentinel(  # type: ignore[no-untyped-call]
            address.servers, sentinel_kwargs=sentinel_options, **options, **tls, **address.login
        )
        client: Redis = sentinels.master_for(address.service, redis_class=_SentinelClient)
        return client
    if address.socket is not None:
        return Redis(unix_socket_path=address.socket, **options, **address.login)
    [(host, port)] = address.servers
    return Redis(host=host, port=port, **options, **tls, **address.login)


# A block is valid for one run of the server. After a restart from a snapshot, or on a replica that takes over, it could
# contain permits that were already handed out.
_IS_OF_THIS_RUN = """
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local is_ours = redis.call('HGET', KEYS[1], 'run') == run
"""
# Take up to ARGV[1] permits from the block in KEYS[1].
_TAKE = f"""{_IS_OF_THIS_RUN}
if not is_ours then return 0 end
local count = math.min(tonumber(redis.call('HGET', KEYS[1], 'left')), tonumber(ARGV[1]))
if count > 0 then redis.call('HINCRBY', KEYS[1], 'left', -count) end
return count
"""
# Add ARGV[1] permits to the block, which expires after ARGV[2] milliseconds.
_PUT = f"""{_IS_OF_THIS_RUN}
if not is_ours then redis.call('DEL', KEYS[1]) end
redis.call('HSET', KEYS[1], 'run', run)
redis.call('HINCRBY', KEYS[1], 'left', ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
"""

# Block size as a share of the limit: small enough that a loss of Valkey wastes few permits, and large enough that the
# database is queried rarely.
_BLOCKS_PER_WINDOW = 100


class ValkeyLedger:
    """Hands out permits from blocks that are already counted in the database."""

    def __init__(self, client: Redis, database_ledger: DatabaseLedger, clock: Clock) -> None:
        self._client = client
        self._database_ledger = database_ledger
        self._clock = clock
        self._take: Any = client.register_script(_TAKE)
        self._put: Any = client.register_script(_PUT)
        self._is_down = False

    async def reserve(self, windows: Sequence[LimitWindow], wanted: int, claims: Sequence[Claimed] = ()) -> Grant:
        if not windows or any(window.is_exact for window in windows):
            return await self._database_ledger.reserve(windows, wanted, claims)
        name = block_name(windows)
        count = await self._from_block(name, wanted)
        if count and claims:
            await self._database_ledger.record(windows, claims[:count])
        if count == wanted:
            return Grant(count)
        size = 0 if self._is_down else max(1, min(window.limit for window in windows) // _BLOCKS_PER_WINDOW)
        reserved = await self._database_ledger.reserve(windows, max(wanted - count, size), claims[count:])
        used = min(reserved.count, wanted - count)
        await self._keep(name, reserved.count - used, min(window.ends_at for window in windows))
        return Grant(count + used, reserved.blocked_by if count + used < wanted else None)

    async def reserve_each(self, wanted: Mapping[LimitWindow, int]) -> dict[LimitWindow, int]:
        """Reserve in the database, because one transaction for many windows is cheaper than a block for each."""
        return await self._database_ledger.reserve_each(wanted)

    async def give_back(self, windows: Sequence[LimitWindow], count: int) -> None:
        """Return permits to the database, so that any worker can use them."""
        await self._database_ledger.give_back(windows, count)

    async def give_back_of(self, windows: Sequence[LimitWindow], claims: Sequence[Claimed]) -> None:
        await self._database_ledger.give_back_of(windows, claims)

    async def book(
        self,
        paces: Sequence[SendRate],
        wanted: int,
        known: Mapping[str, RateCheckpoint],
        spacing: SlotSpacing = NO_SPACING,
    ) -> Booking:
        """Book in the database, because if Valkey lost a booking, two messages would get the same slot."""
        return await self._database_ledger.book(paces, wanted, known, spacing)

    async def release_rates(self, known: Mapping[str, RateCheckpoint]) -> None:
        await self._database_ledger.release_rates(known)

    async def _from_block(self, name: str, wanted: int) -> int:
        try:
            count = int(await self._take(keys=[name], args=[wanted]))
        except UNAVAILABLE as error:
            self._log_unavailable(error)
            return 0
        if self._is_down:
            self._is_down = False
            log.info("valkey_back", message="Permits come from Valkey again.")
        return count

    async def _keep(self, name: str, count: int, ends_at: Instant) -> None:
        """Store unused permits in Valkey. If it is down, they stay unused until the window ends."""
        if count <= 0:
            return
        try:
            await self._put(keys=[name], args=[count, max(1, ends_at - self._clock.now())])
        except UNAVAILABLE as error:
            self._log_unavailable(error)

    def _log_unavailable(self, error: Exception) -> None:
        if not self._is_down:
            self._is_down = True
            log.warning("valkey_lost", error=str(error), message="Permits come from the database until it is back.")


def block_name(windows: Sequence[LimitWindow]) -> str:
    """Return the name of the block for a set of windows and their limits.

    The limits are part of the name, so that permits reserved under a higher limit are not used under a lower one.
    """
    return "mailwright:permits:" + "+".join(sorted(f"{window.name}={window.limit}" for window in windows))
