"""Asking the providers for their quota: one process at a time, every few minutes. A failure keeps the old figure."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Protocol, runtime_checkable

from mailwright.app.providers import make_provider, providers_of
from mailwright.domain.clock import SECOND, Clock, Instant
from mailwright.domain.permits import LimitWindow
from mailwright.ops.logs import logger
from mailwright.ops.periodic import run_periodically
from mailwright.ops.settings import Settings
from mailwright.outbox import quotas
from mailwright.outbox.ledger import DatabaseLedger
from mailwright.outbox.quotas import QuotaReport
from mailwright.providers.protocol import AccountQuota
from mailwright.storage.database import Database

log = logger(__name__)

TICK_SECONDS = 5.0
# A provider that does not answer in this time is asked again in the next round.
ANSWER_SECONDS = 60.0
NO_ANSWER = "it did not tell; `mailwright check` says why"


@runtime_checkable
class QuotaSource(Protocol):
    """A provider that can be asked what it still takes."""

    async def quota(self) -> AccountQuota | None: ...


class QuotaSync:
    """Asks all that tell, in rounds: the figures of one round are counted on together."""

    def __init__(self, database: Database, clock: Clock, providers: Mapping[str, QuotaSource], every: Instant) -> None:
        self._database = database
        self._clock = clock
        self._ledger = DatabaseLedger(database, clock)
        self._providers = providers
        self._every = every
        self._has_synced = False

    async def tick(self) -> bool:
        """Syncs if it is time and nobody else does; true when there are new figures."""
        if self._has_synced:
            self._has_synced = False
            await quotas.end_quota_deferrals(self._database)
        if not self._providers or not await self._is_our_turn():
            return False
        self._has_synced = await self.sync()
        return self._has_synced

    async def sync(self) -> bool:
        before = await quotas.read_pre_sync_state(self._database, self._providers.keys())
        told: list[QuotaReport] = []
        for name, provider in self._providers.items():
            answer = await _ask(provider)
            if isinstance(answer, AccountQuota):
                told.append(reported_quota(name, answer))
            else:
                log.warning("quota_unknown", provider=name, reason=answer)
                await quotas.record_failure(self._database, self._clock, name, answer)
        if len(told) < len(self._providers):
            await quotas.record_rates(self._database, self._clock, told)
            return False
        return await quotas.record_sync(self._database, self._clock, told, before)

    async def _is_our_turn(self) -> bool:
        """One turn for each stretch of time: whoever takes it and dies leaves the next to others."""
        number = self._clock.now() // self._every
        ends = (number + 1) * self._every
        turn = LimitWindow(f"mailer:turn:quota:{number}", 1, ends, "quota_turn", ends)
        return (await self._ledger.reserve((turn,), 1)).count == 1


async def run_quota_sync(settings: Settings, database: Database, clock: Clock) -> None:
    """Until it is cancelled; at once over where no provider tells."""
    async with open_quota_sync(settings, database, clock) as sync:
        if sync is None:
            return

        async def tick() -> None:
            await sync.tick()

        await run_periodically("quota_sync", tick, seconds=TICK_SECONDS)


@asynccontextmanager
async def open_quota_sync(settings: Settings, database: Database, clock: Clock) -> AsyncIterator[QuotaSync | None]:
    """None where no provider of the route tells."""
    names = quota_source_names(settings)
    if not names:
        yield None
        return
    from mailwright.providers.http import HttpClient  # noqa: PLC0415 - a tenth of a second, for those who use it

    http = HttpClient(connections=2)
    made = {name: make_provider(name, settings, clock, http) for name in names}
    try:
        sources = {name: provider for name, provider in made.items() if isinstance(provider, QuotaSource)}
        yield QuotaSync(database, clock, sources, settings.quota_sync_seconds * SECOND)
    finally:
        for provider in made.values():
            await provider.close()
        await http.close()


def quota_source_names(settings: Settings) -> list[str]:
    """The providers of the route that can be asked. smtp.bz is asked with a key of its own."""
    can = {"ses": True, "smtpbz": settings.smtpbz_api_key is not None}
    return [name for name in providers_of(settings) if can.get(name)]


def reported_quota(provider: str, quota: AccountQuota) -> QuotaReport:
    """The tightest of what it says: what the account, the day and the hour still take."""
    left = [
        quota.remaining,
        _left(quota.limit_per_day, quota.sent_today),
        _left(quota.limit_per_hour, quota.sent_this_hour),
        None if quota.is_sending_enabled else 0,
    ]
    figures = [int(each) for each in left if each is not None]
    return QuotaReport(
        provider=provider,
        remaining=max(0, min(figures)) if figures else None,
        limit_per_day=None if quota.limit_per_day is None else int(quota.limit_per_day),
        rate_per_second=None if quota.rate_per_second is None else max(1, int(quota.rate_per_second)),
        detail=quota.detail,
    )


def _left(limit: float | None, used: float | None) -> float | None:
    return None if limit is None else limit - (used or 0)


async def _ask(provider: QuotaSource) -> AccountQuota | str:
    """The figures, or why there are none."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            return await provider.quota() or NO_ANSWER
    except TimeoutError:
        return "it did not answer in time"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
