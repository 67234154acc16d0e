"""Guesses: wrong passwords and codes are counted, by account and by address, and soon cost more than they are worth.

The counts are in the database: another process, or a restart, is no second chance. Within a process the guesses at one
account, and those from one address, are judged one after the other, so that a thousand at once count as a thousand.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Final, TypeVar
from weakref import WeakValueDictionary

from sqlalchemy import delete, select, update

from mailwright.domain.clock import DAY, HOUR, MINUTE, SECOND, Clock, Instant
from mailwright.domain.errors import MailwrightError
from mailwright.storage.database import Database
from mailwright.storage.statements import statement
from mailwright.storage.tables import failed_sign_ins

COUNT_FAILED_SIGN_IN = statement(__package__, "count_failed_sign_in")

T = TypeVar("T")


class TooManyFailedSignIns(MailwrightError):
    """Too many wrong passwords or codes came from here, or were meant for this account. Wait, then try again."""

    code = "TOO_MANY_GUESSES"

    def __init__(self, retry_after_seconds: int) -> None:
        super().__init__()
        self.retry_after_seconds = retry_after_seconds


@dataclass(frozen=True, slots=True)
class LockoutPolicy:
    """So many wrong ones are free. Each further one closes the door, at first briefly, then twice as long each time."""

    free: int
    first: Instant
    longest: Instant
    forgotten_after: Instant

    def block(self, wrong: int) -> Instant:
        if wrong < self.free:
            return 0
        # Any exponent beyond this is longer than the longest; the number stays small.
        return min(self.longest, self.first << min(wrong - self.free, 20))


# An address that guesses is shut out for long: nobody else suffers from that.
ADDRESS_POLICY: Final = LockoutPolicy(free=10, first=30 * SECOND, longest=HOUR, forgotten_after=HOUR)
# An account that is guessed at is shut for a short while only, or anybody could keep its owner out.
ACCOUNT_POLICY: Final = LockoutPolicy(free=20, first=5 * SECOND, longest=MINUTE, forgotten_after=DAY)


@dataclass(frozen=True, slots=True)
class LockoutKey:
    name: str
    patience: LockoutPolicy


def account_key(name: str) -> LockoutKey:
    return LockoutKey(f"account:{name}", ACCOUNT_POLICY)


def address_key(host: str | None) -> LockoutKey:
    """One household has a whole /64 of IPv6: counting each of its addresses alone would count nothing."""
    try:
        found = ip_address(host or "")
    except ValueError:
        return LockoutKey(f"address:{(host or 'unknown')[:100]}", ADDRESS_POLICY)
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped is not None:
            return LockoutKey(f"address:{found.ipv4_mapped}", ADDRESS_POLICY)
        return LockoutKey(f"address:{IPv6Address(int(found) >> 64 << 64)}/64", ADDRESS_POLICY)
    return LockoutKey(f"address:{found}", ADDRESS_POLICY)


class FailedSignIns:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def check(self, whom: Sequence[LockoutKey], verify: Callable[[], Awaitable[T | None]]) -> T | None:
        """What `verify` finds, or None, which counts as a wrong guess. While the door is closed nothing is verified.

        A right guess opens the account's door at once. What came from the address before stays counted: whoever has an
        account of their own could begin anew with it after each handful of guesses at another.
        """
        async with AsyncExitStack() as turns:
            for name in sorted(each.name for each in whom):
                await turns.enter_async_context(self._turns.setdefault(name, asyncio.Lock()))
            has_guessed = await self._require_open(whom)
            found = await verify()
            if found is None:
                await self._count(whom)
            elif has_guessed:
                await self._forgive(whom)
            return found

    async def delete_expired(self) -> None:
        async with self._database.write() as tx:
            longest = max(ADDRESS_POLICY.forgotten_after, ACCOUNT_POLICY.forgotten_after)
            await tx.execute(
                delete(failed_sign_ins).where(failed_sign_ins.c.last_failed_at < self._clock.now() - longest)
            )

    async def _require_open(self, whom: Sequence[LockoutKey]) -> bool:
        """Whether anything wrong is counted at all."""
        names = [each.name for each in whom]
        async with self._database.read() as tx:
            rows = await tx.execute(select(failed_sign_ins.c.blocked_until).where(failed_sign_ins.c.subject.in_(names)))
        now = self._clock.now()
        until = max((row.blocked_until for row in rows), default=0)
        if until > now:
            raise TooManyFailedSignIns(-(-(until - now) // SECOND))
        return bool(rows)

    async def _count(self, whom: Sequence[LockoutKey]) -> None:
        now = self._clock.now()
        async with self._database.write() as tx:
            # In one order everywhere: two processes that count the same names never wait for each other.
            for each in sorted(whom, key=lambda each: each.name):
                before = now - each.patience.forgotten_after
                [row] = await tx.run(COUNT_FAILED_SIGN_IN, subject=each.name, now=now, forgotten_before=before)
                until = now + each.patience.block(row.failures)
                await tx.execute(
                    update(failed_sign_ins).where(failed_sign_ins.c.subject == each.name).values(blocked_until=until)
                )

    async def _forgive(self, whom: Sequence[LockoutKey]) -> None:
        names = [each.name for each in whom if each.patience is ACCOUNT_POLICY]
        async with self._database.write() as tx:
            await tx.execute(delete(failed_sign_ins).where(failed_sign_ins.c.subject.in_(names)))
