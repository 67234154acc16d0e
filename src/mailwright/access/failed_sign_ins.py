"""Count failed sign-ins per account and per network address, and block further attempts for a growing time.

The counts are stored in the database, so that neither another process nor a restart resets them. Within one process,
attempts for one account or address are verified one after the other, so that parallel attempts all count.

A network from which an account has signed in before is a known network of this account. Failures from other networks do
not block sign-ins from it, so an attacker with many addresses cannot lock out the owner. Failures from all unknown
networks share one count, so the total number of attempts stays limited. The owner of a blocked account still signs in
from an unknown network with a second factor, or after a password reset, whose link reaches only them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Final, TypeVar
from weakref import WeakValueDictionary

from sqlalchemy import delete, select, update

from mailwright.access.sign_in_log import SignInMethod, record_failure
from mailwright.domain.clock import DAY, HOUR, MINUTE, SECOND, Clock, Instant
from mailwright.domain.errors import MailwrightError
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.network import network_of
from mailwright.storage.database import Database, Transaction
from mailwright.storage.statements import statement
from mailwright.storage.tables import failed_sign_ins, known_networks

REMEMBER_NETWORK = statement(__package__, "remember_network")
COUNT_FAILED_SIGN_IN = statement(__package__, "count_failed_sign_in")

T = TypeVar("T")


class TooManyFailedSignIns(MailwrightError):
    """Too many failed sign-ins from this address or for this account. Wait, then try again."""

    code = "TOO_MANY_GUESSES"

    def __init__(self, retry_after_seconds: int) -> None:
        super().__init__()
        self.retry_after_seconds = retry_after_seconds


@dataclass(frozen=True, slots=True)
class LockoutPolicy:
    """The number of failures without a block. Each further one blocks twice as long, up to `longest_block`."""

    free_failures: int
    first_block: Instant
    longest_block: Instant
    forgotten_after: Instant

    def block_time(self, failures: int) -> Instant:
        if failures < self.free_failures:
            return 0
        # Cap the exponent, because larger values exceed the longest block anyway.
        return min(self.longest_block, self.first_block << min(failures - self.free_failures, 20))


# A long block of an address affects nobody but the attacker.
ADDRESS_POLICY: Final = LockoutPolicy(
    free_failures=10, first_block=30 * SECOND, longest_block=HOUR, forgotten_after=HOUR
)
# A long block of an account would let anyone lock out its owner.
ACCOUNT_POLICY: Final = LockoutPolicy(
    free_failures=20, first_block=5 * SECOND, longest_block=MINUTE, forgotten_after=DAY
)


# How long a network stays known without a sign-in, and the maximum number of known networks per account.
KNOWN_FOR: Final[Instant] = 90 * DAY
MAX_KNOWN_NETWORKS: Final = 20


@dataclass(frozen=True, slots=True)
class LockoutKey:
    """The account or network address that failures are counted for."""

    name: str
    policy: LockoutPolicy


def account_key(name: str) -> LockoutKey:
    return LockoutKey(f"account:{name}", ACCOUNT_POLICY)


def known_network_key(name: str, network: str) -> LockoutKey:
    """Return the key that counts failures for an account from one of its known networks."""
    return LockoutKey(f"account:{name} at {network}", ACCOUNT_POLICY)


def address_key(host: str | None) -> LockoutKey:
    return LockoutKey(f"address:{_network(host)}", ADDRESS_POLICY)


class FailedSignIns:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._key_locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def check(
        self,
        account: str,
        host: str | None,
        verify: Callable[[], Awaitable[T | None]],
        method: SignInMethod = SignInMethod.PASSWORD,
        login: str | None = None,
        *,
        blocks_account: bool = True,
    ) -> T | None:
        """Return the result of `verify`; None counts as a failure. While a key is blocked, `verify` is not called.

        If `blocks_account` is false, only the network address can be blocked, because another factor is needed too.
        The audit log records a failure of the user `login`, who is the account if it has no other name.
        A success resets the account but not the address. Otherwise an attacker could sign in to an account of their
        own after every few attempts at another one, and would never be blocked.
        """
        network = _network(host)
        is_known = await self._is_known(account, network)
        keys = [known_network_key(account, network) if is_known else account_key(account), address_key(host)]
        async with AsyncExitStack() as locks:
            for name in sorted(key.name for key in keys):
                await locks.enter_async_context(self._key_locks.setdefault(name, asyncio.Lock()))
            has_failures = await self._require_unblocked(keys if blocks_account else keys[1:])
            result = await verify()
            if result is None:
                now = self._clock.now()
                async with self._database.write() as tx:
                    await _count(tx, keys, now)
                    await record_failure(tx, now, login or account, method, network)
                return None
            if has_failures:
                await self._reset_accounts(keys)
            if host is not None:
                await self._remember(account, network)
            return result

    async def _is_known(self, account: str, network: str) -> bool:
        k = known_networks.c
        matching = (k.account == account, k.network == network, k.seen_at > self._clock.now() - KNOWN_FOR)
        async with self._database.read() as tx:
            return bool(await tx.execute(select(k.account).where(*matching)))

    async def is_new_network(self, account: str, host: str | None) -> bool:
        """Return whether this account has not signed in from this network within the last months."""
        return host is not None and not await self._is_known(account, _network(host))

    async def remember(self, account: str, host: str | None) -> None:
        """Record a network from which the owner of an account has proved who they are."""
        if host is not None:
            await self._remember(account, _network(host))

    async def limit_requests(self, name: str, host: str | None) -> None:
        """Count a request that anybody can make, and raise if there were too many from this network."""
        keys = [LockoutKey(f"{name}:{_network(host)}", ADDRESS_POLICY)]
        await self._require_unblocked(keys)
        async with self._database.write() as tx:
            await _count(tx, keys, self._clock.now())

    async def record(self, method: SignInMethod, host: str | None, reason: str) -> None:
        """Record a failed sign-in without a known user, at most a few from one network."""
        try:
            await self.limit_requests("sign-in", host)
        except TooManyFailedSignIns:
            return
        async with self._database.write() as tx:
            await record_failure(tx, self._clock.now(), None, method, _network(host), reason=reason)

    async def _remember(self, account: str, network: str) -> None:
        k = known_networks.c
        newest = select(k.network).where(k.account == account).order_by(k.seen_at.desc()).limit(MAX_KNOWN_NETWORKS)
        async with self._database.write() as tx:
            await tx.run(REMEMBER_NETWORK, account=account, network=network, now=self._clock.now())
            await tx.execute(
                delete(known_networks).where(k.account == account, k.network.not_in(newest.scalar_subquery()))
            )

    async def delete_expired(self) -> None:
        async with self._database.write() as tx:
            longest = max(ADDRESS_POLICY.forgotten_after, ACCOUNT_POLICY.forgotten_after)
            await tx.execute(
                delete(failed_sign_ins).where(failed_sign_ins.c.last_failed_at < self._clock.now() - longest)
            )

    async def _require_unblocked(self, keys: Sequence[LockoutKey]) -> bool:
        """Raise if a key is blocked. Return whether any failure is stored."""
        names = [key.name for key in keys]
        async with self._database.read() as tx:
            rows = await tx.execute(select(failed_sign_ins.c.blocked_until).where(failed_sign_ins.c.subject.in_(names)))
        now = self._clock.now()
        until = max((row.blocked_until for row in rows), default=0)
        if until > now:
            raise TooManyFailedSignIns(-(-(until - now) // SECOND))
        return bool(rows)

    async def _reset_accounts(self, keys: Sequence[LockoutKey]) -> None:
        names = [key.name for key in keys if key.policy is ACCOUNT_POLICY]
        async with self._database.write() as tx:
            await tx.execute(delete(failed_sign_ins).where(failed_sign_ins.c.subject.in_(names)))


async def _count(tx: Transaction, keys: Sequence[LockoutKey], now: Instant) -> None:
    # Update the rows in a fixed order, so that two processes that count the same keys cannot deadlock.
    for key in sorted(keys, key=lambda key: key.name):
        before = now - key.policy.forgotten_after
        [row] = await tx.run(COUNT_FAILED_SIGN_IN, subject=key.name, now=now, forgotten_before=before)
        until = now + key.policy.block_time(row.failures)
        await tx.execute(
            update(failed_sign_ins).where(failed_sign_ins.c.subject == key.name).values(blocked_until=until)
        )


def _network(host: str | None) -> str:
    return network_of(host or "unknown")
