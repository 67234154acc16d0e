"""Let a campaign start or grow only if a second person approved exactly what it sends, if its tenant requires that.

Every way to start or enlarge a campaign creates its messages in `enqueue_batch`, which checks each batch in the
transaction that creates it. `Campaigns.start` and `Campaigns.extend` check too, so that the user gets the error at
once.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
from sqlalchemy import select

from mailwright.domain.approval import ApprovalStatus, max_recipients
from mailwright.domain.campaign import AWAITS_APPROVAL, INDEFINITELY
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import NotPossibleNow
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import english_text, lazy_gettext, lazy_join, lazy_number
from mailwright.outbox import audit_log, defer
from mailwright.sources.campaigns.announce import AnnouncedCampaign, announce_hold
from mailwright.sources.campaigns.approval_records import ACTOR, COLUMNS, Approval, approval_of_row, newest_of, void
from mailwright.sources.campaigns.definition import CampaignDefinition
from mailwright.sources.campaigns.digests import changed_parts, digest_started
from mailwright.sources.campaigns.entries import QueueEntry
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import campaign_approvals, campaigns, lane_deferrals, queue_entries, tenants


class AwaitsApproval(NotPossibleNow):
    """A second person must approve the campaign first."""

    code = "AWAITS_APPROVAL"

    def __init__(self, message: str, /, *, voided: int | None = None, reason: str = "", **values: Any) -> None:
        super().__init__(message, **values)
        self.voided = voided  # the ID of the approval that is void now
        self.reason = english_text(reason)  # It is stored.


class KeyWithoutOwner(AwaitsApproval):
    """An API key without an owner cannot request an approval."""

    code = "KEY_WITHOUT_OWNER"


@dataclass(frozen=True, slots=True)
class ApprovalGate:
    """The requirements to start or enlarge a campaign: the rule of its tenant, and its newest approval if one is
    needed.
    """

    over: int | None
    approval: Approval | None

    @property
    def is_open(self) -> bool:
        """Whether there is nothing to check."""
        return self.over is None and self.approval is None

    def refusal(self, digests: str, recipients: int) -> str | None:
        """Return the message of the error that `require` would raise, or None."""
        try:
            self.require(digests, recipients)
        except AwaitsApproval as refused:
            return refused.text
        return None

    def require(self, digests: str, recipients: int) -> None:
        """Raise an error that says who must do what, unless the campaign may be sent to this many recipients."""
        approval = self.approval
        if approval is None:
            if self.over is not None and recipients > self.over:
                if self.over == 0:
                    raise AwaitsApproval("A second person must approve every campaign. Request approval.")
                raise AwaitsApproval(
                    "The campaign has {recipients} recipients, and a second person must approve campaigns with more "
                    "than {over}. Request approval.",
                    recipients=lazy_number(recipients),
                    over=lazy_number(self.over),
                )
            return
        match approval.status:
            case ApprovalStatus.APPROVED:
                self._require_same(approval, digests, recipients)
            case ApprovalStatus.REJECTED:
                if not approval.comment:
                    raise AwaitsApproval(
                        "The user {decided_by} rejected the campaign. Change it, and request approval again.",
                        decided_by=approval.decided_by,
                    )
                raise AwaitsApproval(
                    "The user {decided_by} rejected the campaign: {comment}. Change it, and request approval again.",
                    decided_by=approval.decided_by,
                    comment=approval.comment.rstrip("."),
                )
            case ApprovalStatus.VOID:
                raise AwaitsApproval(_void_text(approval, approval.void_reason or ""))
            case _:
                requester = audit_log.describe_actor(approval.requested_by)
                raise AwaitsApproval(
                    "The campaign waits for the approval of a second person, which {requester} requested.",
                    requester=requester,
                )

    def _require_same(self, approval: Approval, digests: str, recipients: int) -> None:
        changed = changed_parts(approval.digests, digests)
        if recipients > max_recipients(approval.recipients):
            changed.append(
                lazy_gettext(
                    "number of recipients ({approved} approved, now {recipients})",
                    approved=lazy_number(approval.recipients),
                    recipients=lazy_number(recipients),
                )
            )
        if changed:
            reason = lazy_join(", ", changed)
            raise AwaitsApproval(_void_text(approval, reason), voided=approval.id, reason=reason)


async def load_gate(tx: Transaction, tenant_id: int, campaign_key: int) -> ApprovalGate:
    newest = campaign_approvals.c.id == newest_of(campaign_key)
    query = select(tenants.c.approval_over, *COLUMNS).select_from(tenants.outerjoin(campaign_approvals, newest))
    [row] = await tx.execute(query.where(tenants.c.id == tenant_id))
    approval = approval_of_row(row) if row.status is not None else None
    return ApprovalGate(row.approval_over, approval if approval is not None and approval.is_binding else None)


async def digests_of(tx: Transaction, entry: QueueEntry, filter_: dict[str, Any] | None) -> str:
    """Return the digests of a started campaign, with the filter of its audience."""
    query = select(campaigns.c.definition, queue_entries.c.digests)
    joined = query.join(queue_entries, queue_entries.c.campaign_key == campaigns.c.id)
    [row] = await tx.execute(joined.where(campaigns.c.id == entry.campaign_key))
    if row.digests is None:
        raise NotPossibleNow("The content of this campaign comes from another source, so it has no plan.")
    definition = CampaignDefinition.model_validate(orjson.loads(row.definition))
    return digest_started(definition, filter_, row.digests)


async def is_held(tx: Transaction, lane: int) -> bool:
    """Return whether a campaign waits for an approval, which ends only by a person's decision."""
    held = (lane_deferrals.c.lane == lane, lane_deferrals.c.defer_reason == AWAITS_APPROVAL)
    return bool(await tx.execute(select(lane_deferrals.c.lane).where(*held)))


async def hold(tx: Transaction, entry: QueueEntry, refused: AwaitsApproval, now: Instant) -> None:
    """Let a started campaign wait until a person decides."""
    if refused.voided is not None:
        await void(tx, refused.voided, refused.reason, now, actor=ACTOR)
    await defer.record_lane_deferral(tx, entry.lane, AWAITS_APPROVAL, INDEFINITELY)
    campaign = AnnouncedCampaign(entry.campaign_key, entry.campaign_id, entry.campaign_name, entry.tenant_id)
    await announce_hold(tx, campaign, AWAITS_APPROVAL, now)
    await audit_log.record(
        tx,
        now,
        actor=ACTOR,
        action="campaign.await_approval",
        subject=entry.campaign_id,
        tenant_id=entry.tenant_id,
        detail={"name": entry.campaign_name, "reason": str(refused)},
    )


@asynccontextmanager
async def recording_void(database: Database, clock: Clock) -> AsyncIterator[None]:
    """Record that an approval is void, after the transaction that found it was rolled back."""
    try:
        yield
    except AwaitsApproval as refused:
        if refused.voided is not None:
            async with database.write() as tx:
                await void(tx, refused.voided, refused.reason, clock.now(), actor=ACTOR)
        raise


def _void_text(approval: Approval, changed: str) -> str:
    if not approval.decided_by:
        return lazy_gettext(
            "The request for approval is void, because something was changed: {changed}. Request approval again.",
            changed=changed,
        )
    return lazy_gettext(
        "The approval of {decided_by} is void, because something was changed: {changed}. Request approval again.",
        decided_by=approval.decided_by,
        changed=changed,
    )
