"""Pause sequences of a restored database: what is due may have happened after the backup, so a person decides."""

from sqlalchemy import select, update

from mailwright.domain.campaign import INDEFINITELY, PAUSED
from mailwright.domain.clock import Instant
from mailwright.domain.lanes import sequence_lane
from mailwright.outbox import audit_log
from mailwright.outbox.defer import record_lane_deferral
from mailwright.storage.database import Transaction
from mailwright.storage.tables import sequences, tenants


async def pause_sequences(tx: Transaction, now: Instant, *, actor: str) -> tuple[tuple[str, str], ...]:
    """Pause running sequences, and return the tenant and the id of each."""
    q = sequences.c
    owner = select(tenants.c.name).where(tenants.c.id == q.tenant_id).scalar_subquery().label("tenant")
    running = update(sequences).where(q.status == "running").values(status="paused", updated_at=now)
    entry = {"actor": actor, "action": "sequence.pause"}
    rows = await tx.execute(running.returning(q.id, q.sequence_id, q.tenant_id, q.name, owner))
    for row in rows:
        await record_lane_deferral(tx, sequence_lane(row.tenant_id, row.id), PAUSED, INDEFINITELY)
        detail = {"name": row.name, **audit_log.RESTORED}
        await audit_log.record(tx, now, **entry, subject=row.sequence_id, tenant_id=row.tenant_id, detail=detail)
    return tuple((row.tenant, row.sequence_id) for row in rows)
