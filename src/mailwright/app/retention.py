"""Run the retention rules in the background, in one process at a time and slowly enough not to delay sending."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Final

from mailwright.app.turns import has_turn
from mailwright.audience.importing.report import report_name
from mailwright.audience.importing.upload_files import PREFIX
from mailwright.domain.clock import DAY, MINUTE, Clock
from mailwright.domain.errors import MailwrightError, NotDurable
from mailwright.domain.retention import MIN_DAYS, RetentionCount, RetentionKind, RetentionRule
from mailwright.ops.logs import logger
from mailwright.ops.periodic import run_periodically
from mailwright.ops.settings import Settings
from mailwright.outbox.ledger import DatabaseLedger
from mailwright.outbox.queue_gauges import is_sending
from mailwright.outbox.retention import Retention, RetentionServices
from mailwright.outbox.retention_rules import list_rules
from mailwright.outbox.tallies import EventTallier
from mailwright.storage.database import Database
from mailwright.storage.hot import Runner
from mailwright.storage.partitions import drop_empty_partitions
from mailwright.storage.reclaim import release_pages
from mailwright.storage.stored_files import delete_files

log = logger(__name__)

TICK_SECONDS: Final = 10.0
# The time between the end of a rule's pass and its next pass.
PASS_EVERY: Final = DAY
# The target for how long a batch holds its locks. On SQLite, writes of workers wait for it. On PostgreSQL they do not
# wait, and a busy server would make the batches too small.
BATCH_SECONDS: Final = {"sqlite": 0.03, "postgresql": 0.25}
MIN_BATCH, FIRST_BATCH, MAX_BATCH = 20, 100, 1_000
# While a worker is sending, retention pauses this many times as long as it works: it takes a twentieth of the time.
YIELD_FACTOR: Final = 19.0
VACUUM_PAGES: Final = 500


def make_retention(settings: Settings, database: Database, clock: Clock) -> Retention:
    async def delete_import_files(tx: Runner, import_ids: Sequence[str]) -> None:
        names = [report_name(import_id) for import_id in import_ids]
        await delete_files(tx, [PREFIX + name for name in names])
        for name in names:
            (settings.imports / name).unlink(missing_ok=True)

    return Retention(
        RetentionServices(
            database,
            clock,
            settings.soft_bounce_days,
            settings.retention_export,
            settings.retention_export_format == "parquet",
            delete_import_files,
        )
    )


async def run_retention(settings: Settings, database: Database, clock: Clock) -> None:
    """Run the rules of all tenants until cancelled."""
    await run_periodically("retention", RetentionDuty(settings, database, clock).tick, seconds=TICK_SECONDS)


class RetentionDuty:
    """Runs the rules that are due, if no other process does, until the end of the current minute."""

    def __init__(self, settings: Settings, database: Database, clock: Clock) -> None:
        self._settings = settings
        self._database = database
        self._clock = clock
        self._ledger = DatabaseLedger(database, clock)

    async def tick(self) -> None:
        rules = [rule for rule in await list_rules(self._database) if self._is_due(rule)]
        if not rules or not await has_turn("retention", MINUTE, self._ledger, self._clock):
            return
        until = self._clock.now() // MINUTE * MINUTE + MINUTE
        sweep = RetentionSweep(self._settings, self._database, self._clock)
        async for _ in sweep.run(rules):
            if self._clock.now() >= until:
                return

    def _is_due(self, rule: RetentionRule) -> bool:
        now = self._clock.now()
        return rule.finished_at is None or rule.position > 0 or now - rule.finished_at >= PASS_EVERY


class RetentionSweep:
    """Runs rules batch by batch, and pauses between batches while a worker is sending."""

    def __init__(self, settings: Settings, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._retention = make_retention(settings, database, clock)
        self._batch = FIRST_BATCH
        self.failed: list[tuple[RetentionRule, str]] = []  # rules that could not be applied, and why

    async def run(self, rules: Sequence[RetentionRule]) -> AsyncIterator[tuple[RetentionRule, RetentionCount]]:
        """Run each rule to the end of its pass.

        After each batch, yield the rule and the number of deleted rows and bytes. A rule that fails is added to
        `failed`, and the other rules still run.
        """
        # Count new events first, because only counted events are deleted. `serve` does this all the time.
        await EventTallier(self._database, self._clock).add_existing()
        for rule in rules:
            current = replace(rule, finished_at=None)
            try:
                while current.finished_at is None:
                    before = current
                    current = await self._run_batch(before)
                    if current.finished_at is not None:
                        await self._retention.finish_exports(current)
                    yield current, RetentionCount(current.rows - before.rows, current.bytes - before.bytes)
            except NotDurable:
                raise
            except Exception as error:
                reason = str(error) if isinstance(error, MailwrightError) else type(error).__name__
                self.failed.append((rule, reason))
                log.error("retention_failed", kind=rule.kind, tenant=rule.tenant_id, reason=reason)
        await self._release_space()

    async def _run_batch(self, rule: RetentionRule) -> RetentionRule:
        began = perf_counter()
        after = await self._retention.run_batch(rule, self._batch)
        seconds = perf_counter() - began
        if after.rows > rule.rows:
            is_quick = self._retention.write_seconds < BATCH_SECONDS[self._database.dialect]
            self._batch = min(self._batch * 2, MAX_BATCH) if is_quick else max(self._batch // 2, MIN_BATCH)
        await self._yield_to_sending(seconds)
        return after

    async def _release_space(self) -> None:
        """Shrink a SQLite file step by step, or drop the partitions of PostgreSQL that are empty."""
        if self._database.dialect == "postgresql":
            await drop_empty_partitions(self._database, self._clock.now() - MIN_DAYS[RetentionKind.EVENTS] * DAY)
            return
        last, free = None, 0
        while last is None or 0 < free < last:
            began = perf_counter()
            last, free = (free if last is not None else 2**62), await release_pages(self._database, VACUUM_PAGES)
            await self._yield_to_sending(perf_counter() - began)

    async def _yield_to_sending(self, seconds: float) -> None:
        is_busy = await is_sending(self._database)
        await asyncio.sleep(seconds * YIELD_FACTOR if is_busy else 0)
