"""Delete old data in small batches, as the retention rules of tenants say.

A batch is one transaction: it deletes the rows, counts them as tombstones, and moves the rule's position. An
interrupted pass continues at the position of its last batch.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Table, and_, delete, exists, func, or_, select, true, update
from sqlalchemy.sql.dml import Delete

from mailwright.domain.clock import DAY, Clock, Instant
from mailwright.domain.errors import InvalidInput
from mailwright.domain.retention import OF_MESSAGES, RetentionCount, RetentionKind, RetentionRule, check_days
from mailwright.outbox.retention_export import export_lines
from mailwright.outbox.retention_rules import lock_rule, save_progress
from mailwright.outbox.search import key_before
from mailwright.outbox.tallies import tallied_up_to
from mailwright.storage.database import Database, Transaction
from mailwright.storage.statements import Statement, statement
from mailwright.storage.tables import (
    audit_log,
    dead_letters,
    deliveries,
    events,
    imports,
    mailout_logs,
    messages,
    raw_contents,
    reports,
    webhook_cursor,
    webhook_deliveries,
    webhook_endpoints,
)

CANDIDATES: Final = statement(__package__, "retention_candidates")
ADD_TOMBSTONES: Final = statement(__package__, "add_tombstones")
_OLD: Final = {
    RetentionKind.REPORTS: (statement(__package__, "retention_old_reports"), reports),
    RetentionKind.AUDIT_LOG: (statement(__package__, "retention_old_audit_log"), audit_log),
    RetentionKind.IMPORTS: (statement(__package__, "retention_old_imports"), imports),
}

# Message keys that one query reads at most, and the keys of all messages.
WINDOW: Final = 5_000
_ALL: Final = 2**62
# Opens and clicks of campaigns are deleted with their message only: a later one would count as the first again.
_ENGAGEMENT: Final = ("open", "click")


@dataclass(frozen=True, slots=True)
class RetentionServices:
    """What retention needs besides the rules. `delete_import_files` gets the ids of deleted imports."""

    database: Database
    clock: Clock
    soft_bounce_days: int
    export_folder: Path | None = None
    delete_import_files: Callable[[Sequence[str]], None] = lambda import_ids: None


class Retention:
    def __init__(self, services: RetentionServices) -> None:
        self._database = services.database
        self._clock = services.clock
        self._services = services

    def check_export(self, *, exports: bool) -> None:
        """Raise an error if rows shall be exported and there is no folder for them."""
        if exports and self._services.export_folder is None:
            raise InvalidInput(
                "Set MAILWRIGHT_RETENTION_EXPORT to the folder for exported rows first.", field="exports"
            )

    async def preview(self, tenant_id: int, kind: RetentionKind, days: int) -> RetentionCount:
        """Return what a rule would delete now. Nothing is changed."""
        check_days(kind, days)
        rule = RetentionRule(tenant_id, kind, days, exports=False)
        async with self._database.read() as tx:
            if kind in OF_MESSAGES:
                values = await self._message_values(tx, rule)
                up_to = await key_before(tx, values["before"])
                rows = await tx.run(_counting(CANDIDATES), **values, after=0, up_to=up_to, limit=_ALL)
            else:
                old, _ = _OLD[kind]
                rows = await tx.run(_counting(old), **self._old_values(rule, old), limit=_ALL)
        return RetentionCount(int(rows[0].found), int(rows[0].bytes))

    async def run_batch(self, rule: RetentionRule, limit: int) -> RetentionRule:
        """Delete one batch and return the rule with its new position. `finished_at` changes at the end of a pass."""
        self.check_export(exports=rule.exports)
        if rule.kind in OF_MESSAGES:
            return await self._run_messages(rule, limit)
        return await self._run_old(rule, limit)

    async def _run_messages(self, rule: RetentionRule, limit: int) -> RetentionRule:
        async with self._database.read() as tx:
            values = await self._message_values(tx, rule)
            up_to = await key_before(tx, values["before"])
            m = messages.c
            next_keys = select(func.min(m.id)).where(m.tenant_id == rule.tenant_id, m.id > rule.position, m.id <= up_to)
            first = (await tx.execute(next_keys))[0][0]
            if first is not None:
                end = min(first + WINDOW - 1, up_to)
                found = await tx.run(_unlocked(CANDIDATES), **values, after=first - 1, up_to=end, limit=1)
        if first is None:
            return await self._finish(rule)
        if not found:
            return replace(rule, position=end)
        async with self._database.write() as tx:
            if not await lock_rule(tx, rule):
                return replace(rule, finished_at=self._clock.now())
            after = found[0].message_key - 1
            rows = await tx.run(CANDIDATES, **values, after=after, up_to=end, limit=limit)
            deleted = await self._delete_of_messages(tx, rule, rows, values["before"])
            position = rows[-1].message_key if len(rows) == limit else end
            return await self._record(tx, replace(rule, position=position), rows, deleted)

    async def _run_old(self, rule: RetentionRule, limit: int) -> RetentionRule:
        old, table = _OLD[rule.kind]
        async with self._database.write() as tx:
            if not await lock_rule(tx, rule):
                return replace(rule, finished_at=self._clock.now())
            rows = await tx.run(old, **self._old_values(rule, old), limit=limit)
            keys = [row.id for row in rows]
            deleted = await self._delete(tx, rule, [(table, delete(table).where(table.c.id.in_(keys)))]) if keys else 0
            if rule.kind is RetentionKind.IMPORTS:
                # Before the commit: a file without its row would never be deleted.
                self._services.delete_import_files([row.import_id for row in rows])
            recorded = await self._record(tx, rule, rows, deleted)
        return recorded if len(rows) == limit else await self._finish(recorded)

    async def _finish(self, rule: RetentionRule) -> RetentionRule:
        finished = replace(rule, position=0, finished_at=self._clock.now())
        async with self._database.write() as tx:
            await save_progress(tx, finished)
        return finished

    async def _delete_of_messages(
        self, tx: Transaction, rule: RetentionRule, rows: Sequence[Any], before: Instant
    ) -> int:
        keys = [row.message_key for row in rows]
        if not keys:
            return 0
        digests = {row.content_digest for row in rows} - {None}
        if rule.kind is RetentionKind.EVENTS:
            others = [row.message_key for row in rows if not row.is_of_campaign]
            e = events.c
            kept = or_(e.type.not_in(_ENGAGEMENT), e.message_key.in_(others))
            return await self._delete(tx, rule, [(events, delete(events).where(e.message_key.in_(keys), kept))])
        if rule.kind is RetentionKind.BODIES:
            await self._delete_bodies(tx, rule, keys)
            await self._delete_raw_contents(tx, rule, digests, before)
            return len(keys)
        of_keys = [
            (table, delete(table).where(table.c.message_key.in_(keys)))
            for table in (events, dead_letters, mailout_logs, deliveries)
        ]
        await self._delete(tx, rule, [*of_keys, (messages, delete(messages).where(messages.c.id.in_(keys)))])
        await self._delete_raw_contents(tx, rule, digests, before)
        return len(keys)

    async def _delete(self, tx: Transaction, rule: RetentionRule, deletions: Sequence[tuple[Table, Delete]]) -> int:
        """Delete rows and export exactly what was deleted. Return the number of rows."""
        count, lines = 0, []
        for table, deletion in deletions:
            columns = table.c if rule.exports else (next(iter(table.primary_key)),)
            rows = await tx.execute(deletion.returning(*columns))
            count += len(rows)
            lines += [{"table": table.name, **row._mapping} for row in rows] if rule.exports else []
        await self._export(tx, rule, lines)
        return count

    async def _delete_bodies(self, tx: Transaction, rule: RetentionRule, keys: Sequence[int]) -> None:
        m = messages.c
        if rule.exports:
            columns = (m.id, m.outbox_id, m.to_email, m.subject, m.created_at, m.payload, m.content_digest)
            rows = await tx.execute(select(*columns).where(m.id.in_(keys)))
            await self._export(tx, rule, [{"table": "messages", **row._mapping} for row in rows])
        await tx.execute(update(messages).where(m.id.in_(keys)).values(payload="{}", content_digest=None))

    async def _delete_raw_contents(
        self, tx: Transaction, rule: RetentionRule, digests: set[str], before: Instant
    ) -> None:
        """Delete the stored bytes of raw emails that no message uses any more."""
        c, m = raw_contents.c, messages.c
        is_used = exists().where(m.tenant_id == c.tenant_id, m.content_digest == c.digest)
        # A message that is being accepted now renews `created_at`, so its content is not deleted.
        old = and_(c.tenant_id == rule.tenant_id, c.digest.in_(sorted(digests)), c.created_at < before, ~is_used)
        if digests:
            await self._delete(tx, rule, [(raw_contents, delete(raw_contents).where(old))])

    async def _export(self, tx: Transaction, rule: RetentionRule, lines: list[dict[str, Any]]) -> None:
        if lines and rule.exports and self._services.export_folder is not None:
            await export_lines(tx, self._services.export_folder, rule, lines, self._clock.now())

    async def _record(self, tx: Transaction, rule: RetentionRule, rows: Sequence[Any], deleted: int) -> RetentionRule:
        """Count the deleted rows as tombstones, and save the progress of the rule."""
        size = sum(int(row.bytes) for row in rows)
        result = replace(rule, rows=rule.rows + deleted, bytes=rule.bytes + size)
        if rows:
            now = self._clock.now()
            counts = Counter[tuple[int, str]]()
            bytes_, resends = Counter[tuple[int, str]](), Counter[tuple[int, str]]()
            is_counted_by_result = rule.kind is RetentionKind.MESSAGES
            for row in rows:
                place = (row.lane, row.bucket) if is_counted_by_result else (0, "")
                counts[place] += 1
                bytes_[place] += int(row.bytes)
                resends[place] += row.resends if is_counted_by_result else 0
            if not is_counted_by_result:
                counts[0, ""] = deleted
            tombstones = [
                (rule.tenant_id, rule.kind.value, now - now % DAY, *place, number, bytes_[place], resends[place])
                for place, number in counts.items()
            ]
            await tx.run(ADD_TOMBSTONES, tombstones=tombstones)
        await save_progress(tx, result)
        return result

    def _old_values(self, rule: RetentionRule, old: Statement) -> dict[str, Any]:
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


def _unlocked(found: Statement) -> Statement:
    """Return the statement without its locks, for read transactions."""
    return Statement(found.name, found.text.replace("skip locked", ""))


def _counting(found: Statement) -> Statement:
    """Return a statement that counts the rows and bytes of another one."""
    totals = "CAST(COALESCE(sum(affected), 0) AS bigint) AS found, CAST(COALESCE(sum(bytes), 0) AS bigint) AS bytes"
    return Statement(found.name, f"SELECT {totals} FROM ({_unlocked(found).text}) AS old")  # noqa: S608 - only text from our files
