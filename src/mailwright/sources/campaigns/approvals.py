"""Request, give, refuse and withdraw the approval of a campaign's plan by a second person."""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import exists, insert, select

from mailwright.access.roles import Forbidden, Role
from mailwright.access.users import User
from mailwright.domain.approval import ApprovalStatus, max_recipients
from mailwright.domain.campaign import AWAITS_APPROVAL, CampaignAction, CampaignStatus
from mailwright.domain.clock import Clock
from mailwright.domain.errors import InvalidInput, NotPossibleNow
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import lazy_gettext, lazy_join, lazy_number
from mailwright.outbox import defer
from mailwright.sources.campaigns.approval_gate import AwaitsApproval, KeyWithoutOwner, load_gate, recording_void
from mailwright.sources.campaigns.approval_people import (
    find_missing_owner,
    last_template_author,
    names_of,
    people_behind,
)
from mailwright.sources.campaigns.approval_records import (
    COLUMNS,
    Approval,
    approval_of_row,
    change_status,
    find_newest,
    list_rejections,
    load_plan,
)
from mailwright.sources.campaigns.digests import changed_parts
from mailwright.sources.campaigns.plan import CampaignPlan, CampaignPlans
from mailwright.sources.campaigns.plan_changes import PlanChange, compare_plans
from mailwright.sources.campaigns.records import (
    DECISION_ENTRIES,
    Actor,
    Campaign,
    CampaignChanges,
    check_status,
    entry_of,
    find_campaign,
    lock_campaign,
)
from mailwright.sources.campaigns.variants import CampaignNotStartable
from mailwright.sources.own_drafts import require_own_draft
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import campaign_approvals, campaigns

MAX_COMMENT: Final = 2_000
MAX_REJECTED: Final = 100  # in a list
_DECIDING: Final = (ApprovalStatus.WAITING, ApprovalStatus.APPROVED, ApprovalStatus.REJECTED)


class SecondPersonRequired(Forbidden):
    """Another person must approve this campaign."""

    code = "SECOND_PERSON_REQUIRED"


@dataclass(frozen=True, slots=True)
class PlanReport:
    """The plan of a campaign now, with its newest approval and the rule of its tenant."""

    plan: CampaignPlan
    over: int | None  # the largest number of recipients without an approval; None: no campaign needs one
    approval: Approval | None
    refusal: str | None  # why the campaign cannot start or grow without a person's decision
    changes: tuple[PlanChange, ...] = ()  # since the approval was requested
    rejected_by: str | None = None  # who rejected it last, if no administrator has lifted the rejection

    @property
    def is_required(self) -> bool:
        """Whether the campaign needs an approval, even if it already has one."""
        is_over = self.over is not None and self.plan.recipients > self.over
        return is_over or (self.approval is not None and self.approval.is_binding)


@dataclass(frozen=True, slots=True)
class CampaignApproval:
    """The newest approval of a campaign, for a list."""

    campaign_id: str
    name: str
    approval: Approval


class CampaignApprovals:
    def __init__(self, database: Database, clock: Clock, plans: CampaignPlans) -> None:
        self._database = database
        self._clock = clock
        self._plans = plans
        self._changes = CampaignChanges(clock)

    async def report(self, campaign_id: str, *, tenant_id: int | None) -> PlanReport:
        """Return what the campaign would send now, and whether it may."""
        async with self._database.read() as tx:
            campaign = await find_campaign(tx, campaign_id, tenant_id)
        plan = await self._plans.make(campaign)
        async with self._database.read() as tx:
            gate = await load_gate(tx, campaign.tenant_id, campaign.key)
            newest = await find_newest(tx, campaign.key)
            rejections = await list_rejections(tx, campaign.key)
            is_changed = newest is not None and newest.is_binding and newest.digest != plan.digest
            stored = await load_plan(tx, newest.id) if newest is not None and is_changed else None
        refusal = gate.refusal(plan.digests, plan.recipients)
        changes = () if stored is None else tuple(compare_plans(stored, plan))
        rejected_by = rejections[0].decided_by if rejections else None
        return PlanReport(plan, gate.over, newest, refusal, changes, rejected_by)

    async def request(self, actor: Actor, campaign_id: str, *, must_be_own: bool = False) -> PlanReport:
        """Store the plan of the campaign as it is now, and wait for a second person.

        `must_be_own`: only for a draft that this actor created and nobody else has changed.
        """
        async with self._database.read() as tx:
            before = await find_campaign(tx, campaign_id, actor.tenant_id)
        plan = await self._plans.make(before)
        if plan.problems:
            raise CampaignNotStartable(list(plan.problems))
        now = self._clock.now()
        async with self._database.write() as tx:
            campaign = await lock_campaign(tx, actor, campaign_id, CampaignAction.REQUEST_APPROVAL)
            _require_same(before, campaign)
            if missing := await find_missing_owner(tx, campaign.tenant_id, actor.name, now):
                raise KeyWithoutOwner(missing)
            if must_be_own:
                check_status(campaign, CampaignAction.EDIT)
                await require_own_draft(
                    tx, campaign.tenant_id, campaign.campaign_id, actor.name, allowed=DECISION_ENTRIES
                )
            await _require_not_rejected(tx, campaign, plan)
            earlier = await find_newest(tx, campaign.key)
            if earlier is not None and earlier.is_binding and earlier.status is not ApprovalStatus.REJECTED:
                await change_status(tx, earlier.id, ApprovalStatus.REPLACED)
            values = {
                "tenant_id": campaign.tenant_id,
                "campaign_key": campaign.key,
                "status": ApprovalStatus.WAITING,
                "digest": plan.digest,
                "digests": plan.digests,
                "recipients": plan.recipients,
                "plan": plan.as_text(),
                "requested_by": actor.name,
                "requested_at": now,
            }
            await tx.execute(insert(campaign_approvals).values(**values))
            signed = {"digest": plan.digest, "recipients": plan.recipients}
            await self._changes.record(tx, actor, CampaignAction.REQUEST_APPROVAL, campaign, **signed)
        return await self.report(campaign_id, tenant_id=actor.tenant_id)

    async def approve(self, user: User, tenant_id: int, campaign_id: str, digest: str, comment: str = "") -> Approval:
        """Sign the plan with this digest. If the campaign has changed since, the request becomes void instead."""
        actor = Actor(user.login, tenant_id)
        async with self._database.read() as tx:
            before = await find_campaign(tx, campaign_id, tenant_id)
        present = await self._plans.make(before)
        async with recording_void(self._database, self._clock), self._database.write() as tx:
            campaign = await lock_campaign(tx, actor, campaign_id, CampaignAction.APPROVE)
            _require_same(before, campaign)
            waiting = await _waiting(tx, campaign, digest)
            await _require_second_person(tx, user, campaign, waiting)
            _require_unchanged(waiting, present)
            await self._decide(tx, actor, campaign, waiting, action=CampaignAction.APPROVE, comment=comment)
            if campaign.status is not CampaignStatus.DRAFT:
                # The gate checks the campaign again before it creates messages.
                await defer.end_lane_deferral_for(tx, (await entry_of(tx, campaign)).lane, AWAITS_APPROVAL)
            return await _newest(tx, campaign)

    async def reject(self, user: User, tenant_id: int, campaign_id: str, digest: str, comment: str) -> Approval:
        """Refuse the plan with this digest. The requester needs a reason to know what to change."""
        if not comment.strip():
            raise InvalidInput("say what has to change", field="comment")
        actor = Actor(user.login, tenant_id)
        async with self._database.write() as tx:
            campaign = await lock_campaign(tx, actor, campaign_id, CampaignAction.REJECT)
            waiting = await _waiting(tx, campaign, digest)
            await self._decide(tx, actor, campaign, waiting, action=CampaignAction.REJECT, comment=comment)
            return await _newest(tx, campaign)

    async def withdraw(self, actor: Actor, campaign_id: str, *, reason: str = "", may_lift: bool = False) -> Approval:
        """Withdraw the request. Afterwards the current rule of the tenant decides whether the campaign may start.

        After a rejection, only an administrator can do so (`may_lift`), with a reason that the audit log records.
        """
        said = reason.strip()
        if len(said) > MAX_COMMENT:
            raise InvalidInput("has more than {max_comment} characters", field="reason", max_comment=MAX_COMMENT)
        async with self._database.write() as tx:
            campaign = await lock_campaign(tx, actor, campaign_id, CampaignAction.WITHDRAW_REQUEST)
            newest = await find_newest(tx, campaign.key)
            if newest is None or not newest.is_binding:
                raise NotPossibleNow("Nobody has requested an approval of this campaign.")
            rejections = await list_rejections(tx, campaign.key)
            if rejections and not (may_lift and said):
                raise NotPossibleNow(
                    "The user {decided_by} rejected this campaign, so it needs an approval. Change it, and request "
                    "again, or ask an administrator to lift the rejection with a reason.",
                    decided_by=rejections[0].decided_by,
                )
            for each in (newest, *rejections):
                await change_status(tx, each.id, ApprovalStatus.WITHDRAWN)
            if campaign.status not in (CampaignStatus.DRAFT, CampaignStatus.CANCELLED):
                await defer.end_lane_deferral_for(tx, (await entry_of(tx, campaign)).lane, AWAITS_APPROVAL)
            lifted = {"rejectedBy": rejections[0].decided_by, "reason": said} if rejections else {}
            detail = {"was": newest.status, **lifted}
            await self._changes.record(tx, actor, CampaignAction.WITHDRAW_REQUEST, campaign, **detail)
            return await _newest(tx, campaign)

    async def list_waiting(self, tenant_id: int) -> list[CampaignApproval]:
        """Return the campaigns of a tenant that wait for a decision, oldest request first."""
        return await self._list(tenant_id, ApprovalStatus.WAITING, campaign_approvals.c.id)

    async def list_rejected(self, tenant_id: int) -> list[CampaignApproval]:
        """Return the campaigns whose latest request was rejected, newest first."""
        a = campaign_approvals.c
        found = await self._list(tenant_id, ApprovalStatus.REJECTED, a.decided_at.desc(), a.id.desc())
        return found[:MAX_REJECTED]

    async def _list(self, tenant_id: int, status: ApprovalStatus, *order: Any) -> list[CampaignApproval]:
        """Return the approvals in this status that no later request or decision replaces."""
        a, later = campaign_approvals.c, campaign_approvals.alias().c
        is_later = (later.campaign_key == a.campaign_key, later.id > a.id, later.status.in_(_DECIDING))
        query = (
            select(*COLUMNS, campaigns.c.campaign_id, campaigns.c.name)
            .join(campaigns, campaigns.c.id == a.campaign_key)
            .where(a.tenant_id == tenant_id, a.status == status, campaigns.c.deleted_at.is_(None))
            .where(campaigns.c.status != CampaignStatus.CANCELLED, ~exists().where(*is_later))
            .order_by(*order)
        )
        async with self._database.read() as tx:
            rows = await tx.execute(query)
        return [CampaignApproval(row.campaign_id, row.name, approval_of_row(row)) for row in rows]

    async def find_conflict(self, user: User, report: PlanReport) -> str | None:
        """Return why a user cannot approve a plan that waits, or None."""
        assert report.approval is not None
        async with self._database.read() as tx:
            return await _conflict(tx, user, report.plan.campaign, report.approval)

    async def find_conflicts(self, user: User, waiting: Sequence[CampaignApproval]) -> dict[str, str | None]:
        """Return why a user cannot approve each of the campaigns, by their IDs."""
        async with self._database.read() as tx:
            return {
                each.campaign_id: await _conflict(
                    tx, user, await find_campaign(tx, each.campaign_id, each.approval.tenant_id), each.approval
                )
                for each in waiting
            }

    async def _decide(
        self,
        tx: Transaction,
        actor: Actor,
        campaign: Campaign,
        waiting: Approval,
        *,
        action: CampaignAction,
        comment: str,
    ) -> None:
        if len(comment) > MAX_COMMENT:
            raise InvalidInput("has more than {max_comment} characters", field="comment", max_comment=MAX_COMMENT)
        status = ApprovalStatus.APPROVED if action is CampaignAction.APPROVE else ApprovalStatus.REJECTED
        said = comment.strip() or None
        await change_status(tx, waiting.id, status, decided_by=actor.name, decided_at=self._clock.now(), comment=said)
        signed = {"digest": waiting.digest, "recipients": waiting.recipients, "comment": said}
        await self._changes.record(tx, actor, action, campaign, **signed)


def _require_same(before: Campaign, campaign: Campaign) -> None:
    same = (before.definition, before.attachments, before.status)
    if (campaign.definition, campaign.attachments, campaign.status) != same:
        raise NotPossibleNow("The campaign was changed at the same time. Check it, and try again.")


async def _require_not_rejected(tx: Transaction, campaign: Campaign, plan: CampaignPlan) -> None:
    """Raise if somebody rejected exactly this plan, so that a requester cannot repeat the request until somebody
    approves it.
    """
    for rejected in await list_rejections(tx, campaign.key):
        if not changed_parts(rejected.digests, plan.digests):
            raise NotPossibleNow(
                "The user {decided_by} rejected the campaign in this form: {comment}. Change it, and request approval "
                "again, or ask an administrator to lift the rejection.",
                decided_by=rejected.decided_by,
                comment=(rejected.comment or "").rstrip("."),
            )


async def _waiting(tx: Transaction, campaign: Campaign, digest: str) -> Approval:
    newest = await find_newest(tx, campaign.key)
    if newest is None or newest.status is not ApprovalStatus.WAITING:
        raise NotPossibleNow("The campaign does not wait for an approval. Somebody changed it or decided meanwhile.")
    if newest.digest != digest:
        raise NotPossibleNow("Another plan was requested since you opened this one. Check the new plan.")
    return newest


async def _newest(tx: Transaction, campaign: Campaign) -> Approval:
    newest = await find_newest(tx, campaign.key)
    assert newest is not None
    return newest


def _require_unchanged(waiting: Approval, present: CampaignPlan) -> None:
    changed = changed_parts(waiting.digests, present.digests)
    if present.recipients > max_recipients(waiting.recipients):
        changed.append(
            lazy_gettext(
                "number of recipients ({requested} requested, now {recipients})",
                requested=lazy_number(waiting.recipients),
                recipients=lazy_number(present.recipients),
            )
        )
    if changed:
        raise AwaitsApproval(
            "Something was changed since the approval was requested: {changed}. It must be requested again.",
            changed=lazy_join(", ", changed),
            voided=waiting.id,
            reason=", ".join(changed),
        )


async def _require_second_person(tx: Transaction, user: User, campaign: Campaign, waiting: Approval) -> None:
    """Raise if the user is not a second person: if they requested the approval, or last changed the content."""
    if conflict := await _conflict(tx, user, campaign, waiting):
        raise SecondPersonRequired(conflict)


async def _conflict(tx: Transaction, user: User, campaign: Campaign, waiting: Approval) -> str | None:
    """Return why a user cannot approve a campaign, or None."""
    if not user.role.allows(Role.EDITOR):
        return lazy_gettext("Your role {role} cannot approve campaigns.", role=user.role.label)
    own, tenant_id = names_of(user.login, user.email), campaign.tenant_id
    if missing := await find_missing_owner(tx, tenant_id, waiting.requested_by, waiting.requested_at):
        return missing
    template_id = campaign.definition.content.template_id
    author = await last_template_author(tx, tenant_id, template_id) if template_id is not None else None
    actions = (
        (
            waiting.requested_by,
            lazy_gettext("Another person must approve this campaign, because you requested the approval."),
        ),
        (
            campaign.changed_by,
            lazy_gettext("Another person must approve this campaign, because you last changed the campaign."),
        ),
        (author, lazy_gettext("Another person must approve this campaign, because you last changed its template.")),
    )
    for actor, conflict in actions:
        if actor is not None and own & await people_behind(tx, tenant_id, actor):
            return conflict
    return None
