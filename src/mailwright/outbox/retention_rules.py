"""Store the retention rules of tenants."""

from typing import Any, Final

from sqlalchemy import delete, insert, select, update

from mailwright.domain.clock import Clock
from mailwright.domain.errors import NotFound
from mailwright.domain.retention import NOTHING, RetentionCount, RetentionKind, RetentionRule, check_days
from mailwright.outbox import audit_log
from mailwright.storage.database import Database, Transaction
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement
from mailwright.storage.tables import retention_rules, retention_tombstones

LOCK_RETENTION_RULE: Final = statement(__package__, "lock_retention_rule")
SAVE_RETENTION_PROGRESS: Final = statement(__package__, "save_retention_progress")

_R = retention_rules.c


async def list_rules(database: Database, tenant_id: int | None = None) -> list[RetentionRule]:
    """List the rules of a tenant, or of all tenants if `tenant_id` is None."""
    query = select(retention_rules).order_by(_R.tenant_id, _R.kind)
    async with database.read() as tx:
        rows = await tx.execute(query if tenant_id is None else query.where(_R.tenant_id == tenant_id))
    return [_rule(row) for row in rows]


async def set_rule(
    database: Database, clock: Clock, tenant_id: int, kind: RetentionKind, *, days: int, exports: bool, actor: str
) -> RetentionRule:
    """Switch a rule on or change it. The next pass starts at once."""
    check_days(kind, days)
    now = clock.now()
    values: dict[str, Any] = {"days": days, "exports": exports, "position": 0, "finished_at": None, "updated_at": now}
    async with database.write() as tx:
        changed = update(retention_rules).where(_R.tenant_id == tenant_id, _R.kind == kind).values(**values)
        rows = await tx.execute(changed.returning(retention_rules))
        if not rows:
            values |= {"tenant_id": tenant_id, "kind": kind.value, "deleted": 0, "bytes": 0}
            rows = await tx.execute(insert(retention_rules).values(**values).returning(retention_rules))
        detail = {"days": days, "exports": exports}
        entry: dict[str, Any] = {
            "actor": actor,
            "action": "retention.set",
            "subject": kind.value,
            "tenant_id": tenant_id,
        }
        await audit_log.record(tx, now, **entry, detail=detail)
    return _rule(rows[0])


async def remove_rule(database: Database, clock: Clock, tenant_id: int, kind: RetentionKind, *, actor: str) -> None:
    """Switch a rule off. Deleted data is not restored."""
    async with database.write() as tx:
        removed = delete(retention_rules).where(_R.tenant_id == tenant_id, _R.kind == kind)
        if not await tx.execute(removed.returning(_R.kind)):
            raise NotFound("Retention of {kind} is not switched on.", kind=kind)
        entry: dict[str, Any] = {
            "actor": actor,
            "action": "retention.remove",
            "subject": kind.value,
            "tenant_id": tenant_id,
        }
        await audit_log.record(tx, clock.now(), **entry)


async def lock_rule(tx: Runner, rule: RetentionRule) -> bool:
    """Lock the rule until the transaction ends. Return False if it was changed or removed meanwhile."""
    whose = {"tenant_id": rule.tenant_id, "kind": rule.kind.value}
    return bool(await tx.run(LOCK_RETENTION_RULE, **whose, days=rule.days, exports=rule.exports))


async def has_deleted_messages(tx: Transaction, tenant_id: int, lane: int) -> bool:
    """Return whether retention deleted messages of the lane. It deletes none until the transaction ends."""
    rule = (_R.tenant_id == tenant_id, _R.kind == RetentionKind.MESSAGES)
    await tx.execute(select(_R.kind).where(*rule).with_for_update())
    t = retention_tombstones.c
    return bool(await tx.execute(select(t.lane).where(t.lane == lane, t.kind == RetentionKind.MESSAGES).limit(1)))


async def save_progress(tx: Runner, rule: RetentionRule, deleted: RetentionCount = NOTHING) -> None:
    """Store the position of a rule, and add the number of deleted rows and bytes."""
    await tx.count(
        SAVE_RETENTION_PROGRESS,
        tenant_id=rule.tenant_id,
        kind=rule.kind.value,
        position=rule.position,
        finished_at=rule.finished_at,
        deleted=deleted.rows,
        bytes=deleted.bytes,
    )


def _rule(row: Any) -> RetentionRule:
    return RetentionRule(
        row.tenant_id,
        RetentionKind(row.kind),
        row.days,
        row.exports,
        row.position,
        row.finished_at,
        row.deleted,
        row.bytes,
        row.updated_at,
    )
