"""Delete old data in small batches, according to the retention rules of tenants.

A batch is one transaction: it deletes the rows, counts them as tombstones, and moves the rule's position. An
interrupted pass continues at the position of its last batch.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from sqlalchemy import func, select, true

from mailwright.domain.clock import DAY, Clock, Instant
from mailwright.domain.errors import InvalidInput
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.retention import NOTHING, OF_MESSAGES, RetentionCount, RetentionKind, RetentionRule, check_days
from mailwright.outbox.frequency import delete_unsent
from mailwright.outbox.reported import load_stored_copies
from mailwright.outbox.retention_export import export_line, export_lines
from mailwright.outbox.retention_parquet import require_parquet, rewrite_exports
from mailwright.outbox.retention_rules import lock_rule, save_progress
from mailwright.outbox.search import key_before
from mailwright.outbox.tallies import tallied_up_to
from mailwright.storage.database import Database, Transaction
from mailwright.storage.hot import Runner
from mailwright.storage.statements import Statement, statement
from mailwright.storage.tables import messages, webhook_cursor, webhook_deliveries, webhook_endpoints

CANDIDATES: Final = statement(__package__, "retention_candidates")
ADD_TOMBSTONES: Final = statement(__package__, "add_tombstones")
KEEP_COPIES: Final = statement(__package__, "keep_copies")
KEEP_RECIPIENTS: Final = statement(__package__, "keep_recipients")
READ_BODIES: Final = statement(__package__, "read_bodies")
RETIRE_BODIES: Final = statement(__package__, "retire_bodies")


def _without(found: Statement, words: str) -> Statement:
    return Statement(found.name, found.text.replace(words, ""))


def _counting(found: Statement) -> Statement:
    """Return a statement that counts the rows and bytes that another statement would delete.

    It runs in read transactions.
    """
    totals = "CAST(COALESCE(sum(affected), 0) AS bigint) AS found, CAST(COALESCE(sum(bytes), 0) AS bigint) AS bytes"
    inner = _without(found, "skip locked").text
    return Statement(found.name, f"SELECT {totals} FROM ({inner}) AS old")  # noqa: S608 - only text from our files


class _Deletion:
    """Deletes rows of one table, and returns them if they are exported."""

    def __init__(self, table: str) -> None:
        self.table = table
        self.exporting = statement(__package__, f"retire_{table}")
        self.plain = _without(self.exporting, "RETURNING *")


_DELETE_EVENTS: Final = _Deletion("events")
_DELETE_RAW_CONTENTS: Final = _Deletion("raw_contents")
_DELETE_MESSAGES: Final = _Deletion("messages")
_DELETE_BY_MESSAGE: Final = tuple(_Deletion(table) for table in ("message_dead_letters", "mailout_logs", "deliveries"))
_OLD: Final = {
    RetentionKind.REPORTS: (statement(__package__, "retention_old_reports"), (_Deletion("reports"),)),
    RetentionKind.AUDIT_LOG: (statement(__package__, "retention_old_audit_log"), (_Deletion("audit_log"),)),
    RetentionKind.IMPORTS: (statement(__package__, "retention_old_imports"), (_Deletion("imports"),)),
    RetentionKind.CONTACT_EVENTS: (
        statement(__package__, "retention_old_contact_events"),
        (_Deletion("contact_events"),),
    ),
    RetentionKind.SHADOW: (statement(__package__, "retention_old_shadow_emails"), (_Deletion("shadow_emails"),)),
    RetentionKind.FORM_SUBMISSIONS: (
        statement(__package__, "retention_old_form_submissions"),
        (_Deletion("form_submissions"),),
    ),
    RetentionKind.DMARC: (
        statement(__package__, "retention_old_dmarc_reports"),
        (_Deletion("dmarc_sources"), _Deletion("dmarc_reports")),
    ),
    RetentionKind.SEQUENCES: (
        statement(__package__, "retention_old_sequence_runs"),
        (_Deletion("sequence_steps"), _Deletion("sequence_enrolments")),
    ),
}
_COUNT_CANDIDATES: Final = _counting(CANDIDATES)
_COUNT_OLD: Final = {kind: _counting(old) for kind, (old, _) in _OLD.items()}
_FIND_CANDIDATES: Final = _without(CANDIDATES, "skip locked")

# Larger than every key.
_ALL: Final = 2**62
# The maximum number of keys that are read at once. Reading them takes a fraction of a second.
_MAX_RANGE: Final = 20_000
# A preview counts up to this many messages one by one, in a few seconds. If there are more, it reads samples.
EXACT_MESSAGES: Final = 100_000
SAMPLES: Final = 40
SAMPLE_MESSAGES: Final = 1_000


@dataclass(frozen=True, slots=True)
class RetentionServices:
    """The database, clock and settings of retention. `delete_import_files` gets the ids of deleted imports.

    `exports_parquet`: rewrite exports as Parquet at the end of a pass.
    """

    database: Database
    clock: Clock
    soft_bounce_days: int
    export_folder: Path | None = None
    exports_parquet: bool = False
    delete_import_files: Callable[[Runner, Sequence[str]], Awaitable[None]] | None = None


class Retention:
    def __init__(self, services: RetentionServices) -> None:
        self._database = services.database
        self._clock = services.clock
        self._services = services
        self._range = 0  # How many keys the next batch reads, if more than it deletes.
        self.write_seconds = 0.0  # How long the last batch held its locks.

    def check_export(self, *, exports: bool) -> None:
        """Raise an error if rows must be exported and there is no folder for them, or no package for their format."""
        if exports and self._services.export_folder is None:
            raise InvalidInput(
                "Set MAILWRIGHT_RETENTION_EXPORT to the folder for exported rows first.", field="exports"
            )
        if exports and self._services.exports_parquet:
            require_parquet()

    async def preview(self, tenant_id: int, kind: RetentionKind, days: int) -> RetentionCount:
        """Return what a rule would delete now, quickly: an estimate if the tenant has many messages."""
        check_days(kind, days)
        rule = RetentionRule(tenant_id, kind, days, exports=False)
        estimate = await self._estimate(rule) if kind in OF_MESSAGES else None
        return estimate or await self.count(tenant_id, kind, days)

    async def count(
        self, tenant_id: int, kind: RetentionKind, days: int, report: Callable[[float], None] = lambda share: None
    ) -> RetentionCount:
        """Count exactly what a rule would delete now. `report` gets the share of the messages that were counted."""
        check_days(kind, days)
        rule = RetentionRule(tenant_id, kind, days, exports=False)
        if kind in OF_MESSAGES:
            return await self._count_messages(rule, report)
        async with self._database.read() as tx:
            rows = await tx.run(_COUNT_OLD[kind], **self._old_values(rule), limit=_ALL)
        return RetentionCount(int(rows[0].found), int(rows[0].bytes))

    async def _count_messages(self, rule: RetentionRule, report: Callable[[float], None]) -> RetentionCount:
        """Count range by range: one query over millions of messages would take longer than its timeout."""
        total, after = NOTHING, 0
        while True:
            async with self._database.read() as tx:
                values, up_to = await self._old_messages(tx, rule)
                first = await _next_key(tx, rule.tenant_id, after, up_to)
                if first is None:
                    return total
                after = min(first + _MAX_RANGE - 1, up_to)
                total += await _count_range(tx, values, first - 1, after)
            report(after / up_to)

    async def _estimate(self, rule: RetentionRule) -> RetentionCount | None:
        """Estimate from samples that are spread over all messages, or return None if an exact count is quick."""
        async with self._database.read() as tx:
            values, up_to = await self._old_messages(tx, rule)
            first = await _next_key(tx, rule.tenant_id, 0, up_to) or 0
            messages_of_tenant = await _count_keys(tx, rule.tenant_id, 0, up_to)
        if messages_of_tenant <= EXACT_MESSAGES:
            return None
        step = (up_to + 1 - first) // SAMPLES
        width = step * SAMPLES * SAMPLE_MESSAGES // messages_of_tenant
        found, sampled = NOTHING, 0
        for after in range(first - 1 + (step - width) // 2, up_to - width, step):
            async with self._database.read() as tx:
                sampled += await _count_keys(tx, rule.tenant_id, after, after + width)
                found += await _count_range(tx, values, after, after + width)
        return found.extrapolate(messages_of_tenant / sampled) if sampled else None

    async def _old_messages(self, tx: Transaction, rule: RetentionRule) -> tuple[dict[str, Any], int]:
        values = await self._message_values(tx, rule)
        return {**values, "counted": _ALL}, await key_before(tx, values["before"])  # A run counts all events first.

    async def run_batch(self, rule: RetentionRule, limit: int) -> RetentionRule:
        """Delete one batch and return the rule with its new position. `finished_at` changes at the end of a pass."""
        self.check_export(exports=rule.exports)
        if rule.kind in OF_MESSAGES:
            return await self._run_messages(rule, limit)
        return await self._run_old(rule, limit)

    async def finish_exports(self, rule: RetentionRule) -> None:
        """Rewrite the exported files of the rule in the format that the settings name."""
        folder = self._services.export_folder
        if rule.exports and folder is not None and self._services.exports_parquet:
            await rewrite_exports(self._database, folder, rule, self._clock.now())

    async def _run_messages(self, rule: RetentionRule, limit: int) -> RetentionRule:
        async with self._database.read() as tx:
            values = await self._message_values(tx, rule)
            up_to = await key_before(tx, values["before"])
            first = await _next_key(tx, rule.tenant_id, rule.position, up_to)
            if first is not None:
                # SQLite reads the whole range before it applies a limit, so the range is as large as the batch. If
                # nothing is found, the range grows, because a pass reads rows again that earlier passes did not delete.
                window = {"after": first - 1, "up_to": min(first + max(limit, self._range) - 1, up_to)}
                found = await tx.run(_FIND_CANDIDATES, **values, **window)
        if first is None:
            return await self._finish(rule)
        self._range = 0 if found else min(2 * max(limit, self._range), _MAX_RANGE)
        if len(found) > limit:
            window["up_to"] = found[limit - 1].message_key

        async def work(tx: Runner) -> RetentionRule:
            began = perf_counter()
            if not await lock_rule(tx, rule):
                return replace(rule, finished_at=self._clock.now())
            rows = await tx.run(CANDIDATES, **values, **window) if found else ()
            deleted = await self._delete_of_messages(tx, rule, rows, values["before"]) if rows else 0
            recorded = await self._record(tx, replace(rule, position=window["up_to"]), rows, deleted)
            self.write_seconds = perf_counter() - began
            return recorded

        return await self._database.transact(work)

    async def _run_old(self, rule: RetentionRule, limit: int) -> RetentionRule:
        old, deletions = _OLD[rule.kind]

        async def work(tx: Runner) -> tuple[RetentionRule, bool]:
            if not await lock_rule(tx, rule):
                return replace(rule, finished_at=self._clock.now()), False
            rows = await tx.run(old, **self._old_values(rule), limit=limit)
            keys = {"keys": [(row.id,) for row in rows]}
            deleted = await self._delete(tx, rule, *((each, keys) for each in deletions)) if rows else 0
            delete_files = self._services.delete_import_files
            if rule.kind is RetentionKind.IMPORTS and delete_files is not None:
                # Before the commit: a file without its row would never be deleted.
                await delete_files(tx, [row.import_id for row in rows])
            return await self._record(tx, rule, rows, deleted), len(rows) < limit

        recorded, is_last = await self._database.transact(work)
        return await self._finish(recorded) if is_last else recorded

    async def _finish(self, rule: RetentionRule) -> RetentionRule:
        finished = replace(rule, position=0, finished_at=self._clock.now())
        await self._database.transact(lambda tx: save_progress(tx, finished))
        return finished

    async def _delete_of_messages(self, tx: Runner, rule: RetentionRule, rows: Sequence[Any], before: Instant) -> int:
        keys = [(row.message_key,) for row in rows]
        if rule.kind is RetentionKind.EVENTS:
            parts = [(row.message_key, row.is_of_campaign) for row in rows]
            return await self._delete(tx, rule, (_DELETE_EVENTS, {"keys": parts}))
        digests = sorted({row.content_digest for row in rows} - {None})
        unused = {"digests": [(digest,) for digest in digests], "tenant_id": rule.tenant_id, "before": before}
        contents = [(_DELETE_RAW_CONTENTS, unused)] if digests else []
        if rule.kind is RetentionKind.BODIES:
            await self._export(tx, rule, "messages", await tx.run(READ_BODIES, keys=keys) if rule.exports else ())
            await self._keep_copies(tx, keys)
            await tx.count(RETIRE_BODIES, keys=keys)
            await self._delete(tx, rule, *contents)
            return len(rows)
        await tx.count(KEEP_RECIPIENTS, keys=keys, now=self._clock.now())
        await self._keep_copies(tx, keys)
        all_events = (_DELETE_EVENTS, {"keys": [(row.message_key, 0) for row in rows]})
        others = [(deletion, {"keys": keys}) for deletion in (*_DELETE_BY_MESSAGE, _DELETE_MESSAGES)]
        await delete_unsent(tx, keys)
        await self._delete(tx, rule, all_events, *others, *contents)
        return len(rows)

    async def _keep_copies(self, tx: Runner, keys: Sequence[tuple[int]]) -> None:
        """Keep the recipients in Cc and Bcc, so that a late complaint still suppresses them."""
        copies = await load_stored_copies(tx, [key for (key,) in keys])
        if copies:
            rows = [(key, email) for key, emails in copies.items() for email in sorted(emails)]
            await tx.count(KEEP_COPIES, copies=rows, now=self._clock.now())

    async def _delete(self, tx: Runner, rule: RetentionRule, *deletions: tuple[_Deletion, dict[str, Any]]) -> int:
        """Delete rows and export exactly the deleted rows. Return their number."""
        count = 0
        for deletion, values in deletions:
            if not rule.exports:
                count += await tx.count(deletion.plain, **values)
                continue
            rows = await tx.run(deletion.exporting, **values)
            await self._export(tx, rule, deletion.table, rows)
            count += len(rows)
        return count

    async def _export(self, tx: Runner, rule: RetentionRule, table: str, rows: Sequence[Any]) -> None:
        if rows and rule.exports and self._services.export_folder is not None:
            lines = [export_line(table, row) for row in rows]
            await export_lines(tx, self._services.export_folder, rule, lines, self._clock.now())

    async def _record(self, tx: Runner, rule: RetentionRule, rows: Sequence[Any], deleted: int) -> RetentionRule:
        """Count the deleted rows as tombstones, and save the progress of the rule."""
        size = sum(int(row.bytes) for row in rows)
        if rows:
            await tx.count(ADD_TOMBSTONES, tombstones=_tombstones(rule, rows, deleted, self._clock.now()))
        await save_progress(tx, rule, RetentionCount(deleted, size))
        return replace(rule, rows=rule.rows + deleted, bytes=rule.bytes + size)

    def _old_values(self, rule: RetentionRule) -> dict[str, Any]:
        now = self._clock.now()
        values: dict[str, Any] = {"tenant_id": rule.tenant_id, "before": rule.before(now)}
        if rule.kind is RetentionKind.REPORTS:
            values["counted_since"] = now - self._services.soft_bounce_days * DAY
        return values

    async def _message_values(self, tx: Transaction, rule: RetentionRule) -> dict[str, Any]:
        return {
            "tenant_id": rule.tenant_id,
            "kind": rule.kind.value,
            "before": rule.before(self._clock.now()),
            "counted": await _counted_up_to(tx),
        }


def _tombstones(rule: RetentionRule, rows: Sequence[Any], deleted: int, now: Instant) -> list[tuple[Any, ...]]:
    """Return the counts of a batch: messages by lane and result, other kinds of data as one number."""
    head = (rule.tenant_id, rule.kind.value, now - now % DAY)
    if rule.kind is not RetentionKind.MESSAGES:
        return [(*head, 0, "", deleted, sum(int(row.bytes) for row in rows), 0)]
    groups: dict[tuple[int, str], list[Any]] = {}
    for row in rows:
        groups.setdefault((row.lane, row.bucket), []).append(row)
    return [
        (*head, *place, len(group), sum(int(row.bytes) for row in group), sum(row.resends for row in group))
        for place, group in groups.items()
    ]


async def _next_key(tx: Transaction, tenant_id: int, after: int, up_to: int) -> int | None:
    m = messages.c
    query = select(func.min(m.id)).where(m.tenant_id == tenant_id, m.id > after, m.id <= up_to)
    found: int | None = (await tx.execute(query))[0][0]
    return found


async def _count_keys(tx: Transaction, tenant_id: int, after: int, up_to: int) -> int:
    m = messages.c
    query = select(func.count()).where(m.tenant_id == tenant_id, m.id > after, m.id <= up_to)
    return int((await tx.execute(query))[0][0])


async def _count_range(tx: Transaction, values: dict[str, Any], after: int, up_to: int) -> RetentionCount:
    [row] = await tx.run(_COUNT_CANDIDATES, **values, after=after, up_to=up_to)
    return RetentionCount(int(row.found), int(row.bytes))


async def _counted_up_to(tx: Transaction) -> int:
    """Return the key of the last event that all tallies and webhooks have read. Later events are not deleted."""
    limits = [await tallied_up_to(tx)]
    e, d = webhook_endpoints.c, webhook_deliveries.c
    if await tx.execute(select(e.id).where(e.is_active == true(), e.paused_at.is_(None)).limit(1)):
        [cursor] = await tx.execute(select(func.coalesce(func.min(webhook_cursor.c.position), 0)))
        limits.append(int(cursor[0]))
    [pending] = await tx.execute(select(func.min(d.event_key)).where(d.status == "PENDING"))
    if pending[0] is not None:
        limits.append(int(pending[0]) - 1)
    return min(limits)
