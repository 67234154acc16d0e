"""Rows of approvals. The newest one of a campaign counts, and its campaign is locked while it changes."""

from collections.abc import Mapping
from typing import Any, Final

import orjson
from sqlalchemy import and_, case, func, select, union_all, update

from mailwright.domain.approval import BINDING, VOIDABLE, ApprovalStatus
from mailwright.domain.clock import Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.outbox import audit_log
from mailwright.sources.campaigns.attachments import list_attachments
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import campaign_approvals, campaigns, send_approvals, tenants

# The actor in the audit log when a check makes an approval void.
ACTOR: Final = "approvals"
_a = campaign_approvals.c


@dataclass(frozen=True, slots=True)
class Approval:
    """A request and its decision, without the plan."""

    id: int
    tenant_id: int
    campaign_key: int
    status: ApprovalStatus
    digest: str
    digests: str
    recipients: int
    requested_by: str
    requested_at: Instant
    decided_by: str | None
    decided_at: Instant | None
    comment: str | None
    voided_at: Instant | None
    void_reason: str | None

    @property
    def is_binding(self) -> bool:
        return self.status in BINDING


COLUMNS: Final = [_a[name] for name in Approval.__slots__]


async def find_newest(tx: Transaction, campaign_key: int) -> Approval | None:
    rows = await tx.execute(select(*COLUMNS).where(_a.campaign_key == campaign_key).order_by(_a.id.desc()).limit(1))
    return approval_of_row(rows[0]) if rows else None


async def list_rejections(tx: Transaction, campaign_key: int) -> list[Approval]:
    """Return the rejected requests of a campaign, newest first."""
    rejected = (_a.campaign_key == campaign_key, _a.status == ApprovalStatus.REJECTED)
    return [approval_of_row(row) for row in await tx.execute(select(*COLUMNS).where(*rejected).order_by(_a.id.desc()))]


def newest_of(campaign_key: Any) -> Any:
    """Return a query for the ID of the newest approval of a campaign."""
    return select(func.max(_a.id)).where(_a.campaign_key == campaign_key).scalar_subquery()


async def count_waiting_for(database: Database, tenant_id: int, actor: str) -> int | None:
    """Count the requests in a tenant that other users made.

    None if the tenant requires no approvals and no request waits or was rejected.
    """
    open_ = (ApprovalStatus.WAITING, ApprovalStatus.REJECTED)
    requests = union_all(
        *(
            select(each.c.requested_by, each.c.status).where(each.c.tenant_id == tenant_id, each.c.status.in_(open_))
            for each in (campaign_approvals, send_approvals)
        )
    ).subquery()
    is_others = and_(requests.c.status == ApprovalStatus.WAITING, requests.c.requested_by != actor)
    by_others = func.coalesce(func.sum(case((is_others, 1), else_=0)), 0)
    async with database.read() as tx:
        [found] = await tx.execute(select(func.count().label("all"), by_others.label("others")).select_from(requests))
        [rule] = await tx.execute(select(tenants.c.approval_over).where(tenants.c.id == tenant_id))
    return int(found.others) if found.all or rule.approval_over is not None else None


async def load_plan(tx: Transaction, approval_id: int) -> dict[str, Any]:
    """Return the plan as it was when its approval was requested."""
    rows = await tx.execute(select(_a.plan).where(_a.id == approval_id))
    plan: dict[str, Any] = orjson.loads(rows[0].plan)
    return plan


async def change_status(tx: Transaction, approval_id: int, status: ApprovalStatus, **values: Any) -> None:
    await tx.execute(update(campaign_approvals).where(_a.id == approval_id).values(status=status, **values))


async def void(tx: Transaction, approval_id: int, reason: str, now: Instant, *, actor: str) -> None:
    """Make a request or an approval void, unless it already is."""
    changed = (
        update(campaign_approvals)
        .where(_a.id == approval_id, _a.status.in_(VOIDABLE))
        .values(status=ApprovalStatus.VOID, voided_at=now, void_reason=reason)
        .returning(_a.campaign_key, _a.tenant_id)
    )
    for row in await tx.execute(changed):
        [campaign] = await tx.execute(
            select(campaigns.c.campaign_id, campaigns.c.name).where(campaigns.c.id == row.campaign_key)
        )
        await audit_log.record(
            tx,
            now,
            actor=actor,
            action="campaign.approval_void",
            subject=campaign.campaign_id,
            tenant_id=row.tenant_id,
            detail={"name": campaign.name, "changed": reason},
        )


async def void_if_changed(tx: Transaction, campaign_key: int, now: Instant, *, actor: str) -> None:
    """Make the approval void if the campaign itself differs from the approved one."""
    approval = await find_newest(tx, campaign_key)
    if approval is None or approval.status not in VOIDABLE:
        return
    plan = await load_plan(tx, approval.id)
    [row] = await tx.execute(select(campaigns.c.definition).where(campaigns.c.id == campaign_key))
    changed = changed_fields(plan["definition"], orjson.loads(row.definition))
    files = [each.attachment_id for each in await list_attachments(tx, campaign_key)]
    if [each["attachmentId"] for each in plan["attachments"]] != files:
        changed.append("attachments")
    if changed:
        await void(tx, approval.id, ", ".join(changed), now, actor=actor)


def changed_fields(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return the names of the fields of a definition that differ."""
    return [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]


def approval_of_row(row: Any) -> Approval:
    values = {name: getattr(row, name) for name in Approval.__slots__}
    return Approval(**{**values, "status": ApprovalStatus(row.status)})
