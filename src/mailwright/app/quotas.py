"""Sync the quotas of providers every few minutes, in one process at a time. After a failure, keep the old figures."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Protocol, runtime_checkable

from mailwright.app.named_providers import NamedProviders
from mailwright.app.providers import make_provider
from mailwright.app.turns import has_turn
from mailwright.domain.clock import SECOND, Clock, Instant
from mailwright.ops.logs import logger
from mailwright.ops.periodic import run_periodically
from mailwright.ops.provider_kinds import KINDS
from mailwright.ops.settings import Settings
from mailwright.outbox import quotas
from mailwright.outbox.ledger import DatabaseLedger
from mailwright.outbox.quotas import QuotaReport
from mailwright.providers.protocol import AccountQuota
from mailwright.providers.route import providers_of
from mailwright.storage.database import Database

log = logger(__name__)

TICK_SECONDS = 5.0
# Timeout for a provider's response. After a timeout, the next round asks again.
RESPONSE_SECONDS = 60.0
NO_QUOTA = "the provider returned no quota; run `mailwright check` for details"


@runtime_checkable
class QuotaSource(Protocol):
    """A provider that reports its quota."""

    async def quota(self) -> AccountQuota | None: ...


class QuotaSync:
    """Syncs all providers in rounds; the figures of one round are applied together."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        providers: Mapping[str, QuotaSource],
        every: Instant,
        turn: str = "quota",
    ) -> None:
        """`turn` is the name of the round: each named provider has its own round."""
        self._turn = turn
        self._database = database
        self._clock = clock
        self._ledger = DatabaseLedger(database, clock)
        self._providers = providers
        self._every = every
        self._has_synced = False

    async def tick(self) -> bool:
        """Sync if a sync is due and no other process does it. Return whether there are new figures."""
        if self._has_synced:
            self._has_synced = False
            await quotas.end_quota_deferrals(self._database)
        if not self._providers or not await has_turn(self._turn, self._every, self._ledger, self._clock):
            return False
        self._has_synced = await self.sync()
        return self._has_synced

    async def sync(self) -> bool:
        before = await quotas.read_pre_sync_state(self._database, self._providers.keys())
        reports: list[QuotaReport] = []
        for name, provider in self._providers.items():
            response = await _ask(provider)
            if isinstance(response, AccountQuota):
                reports.append(reported_quota(name, response))
            else:
                log.warning("quota_unknown", provider=name, reason=response)
                await quotas.record_failure(self._database, self._clock, name, response)
        if len(reports) < len(self._providers):
            await quotas.record_rates(self._database, self._clock, reports)
            return False
        return await quotas.record_sync(self._database, self._clock, reports, before)


async def run_quota_syncs(settings: Settings, database: Database, clock: Clock, named: NamedProviders) -> None:
    """Sync the quotas of the installation's providers and of each named provider in use, until cancelled."""
    async with asyncio.TaskGroup() as syncs:
        syncs.create_task(_run_quota_sync(settings, database, clock))
        for each in named.used:
            if each.problem is None:
                syncs.create_task(_run_quota_sync(each.settings, database, clock, each.name))


async def _run_quota_sync(settings: Settings, database: Database, clock: Clock, name: str | None = None) -> None:
    """Sync until cancelled; return at once if no provider reports a quota."""
    async with open_quota_sync(settings, database, clock, name) as sync:
        if sync is None:
            return

        async def tick() -> None:
            await sync.tick()

        await run_periodically("quota_sync", tick, seconds=TICK_SECONDS)


@asynccontextmanager
async def open_quota_sync(
    settings: Settings, database: Database, clock: Clock, name: str | None = None
) -> AsyncIterator[QuotaSync | None]:
    """Open the quota sync.

    Yield None if no provider of the route reports a quota. `name` is the name of a named provider.
    """
    kinds = quota_source_names(settings)
    if not kinds:
        yield None
        return
    from mailwright.providers.http import HttpClient  # noqa: PLC0415 - takes 0.1 s, so imported on use

    http = HttpClient(connections=2)
    made = {name or kind: make_provider(kind, settings, clock, http) for kind in kinds}
    try:
        sources = {each: provider for each, provider in made.items() if isinstance(provider, QuotaSource)}
        turn = "quota" if name is None else f"quota:{name}"
        yield QuotaSync(database, clock, sources, settings.quota_sync_seconds * SECOND, turn)
    finally:
        for provider in made.values():
            await provider.close()
        await http.close()


def quota_source_names(settings: Settings) -> list[str]:
    """Return the providers of the route that report a quota. Some report it only with another key."""
    return [name for name in providers_of(settings) if KINDS[name].reports_quota(settings)]


def reported_quota(provider: str, quota: AccountQuota) -> QuotaReport:
    """Convert an account quota. The remainder is the lowest of the account's, the daily and the hourly remainder."""
    left = [
        quota.remaining,
        _remaining(quota.limit_per_day, quota.sent_today),
        _remaining(quota.limit_per_hour, quota.sent_this_hour),
        None if quota.is_sending_enabled else 0,
    ]
    figures = [int(count) for count in left if count is not None]
    return QuotaReport(
        provider=provider,
        remaining=max(0, min(figures)) if figures else None,
        limit_per_day=None if quota.limit_per_day is None else int(quota.limit_per_day),
        rate_per_second=None if quota.rate_per_second is None else max(1, int(quota.rate_per_second)),
        detail=quota.detail,
        left_today=_as_integer(_remaining(quota.limit_per_day, quota.sent_today)),
        limit_per_hour=quota.limit_per_hour,
        left_this_hour=_as_integer(_remaining(quota.limit_per_hour, quota.sent_this_hour)),
        left_in_plan=quota.left_in_plan,
    )


def _as_integer(number: float | None) -> int | None:
    return None if number is None else max(0, int(number))


def _remaining(limit: float | None, used: float | None) -> float | None:
    return None if limit is None else limit - (used or 0)


async def _ask(provider: QuotaSource) -> AccountQuota | str:
    """Return the quota, or the reason why there is none."""
    try:
        async with asyncio.timeout(RESPONSE_SECONDS):
            return await provider.quota() or NO_QUOTA
    except TimeoutError:
        return "the provider did not respond in time"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
