"""Plans of campaigns, and the approval of sends by a second person.

Only people approve: an API key can request an approval, but never give one.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

from pydantic import Field

from mailwright.access.roles import Forbidden, Role, Scope
from mailwright.access.users import User
from mailwright.actions import campaigns
from mailwright.actions.campaigns import CampaignAttachmentResponse, CampaignProblemResponse, CampaignWarningResponse
from mailwright.actions.context import Context
from mailwright.actions.declaration import MANAGE, AgentTool, Badge, Details, Line, Moment, Noun, Table
from mailwright.actions.exclusions import ExclusionCountResponse, exclusion_count_responses
from mailwright.domain.approval import ApprovalStatus
from mailwright.domain.clock import isoformat
from mailwright.domain.errors import NotFound
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import describe_actor
from mailwright.schemas.base import From, ResponseModel, Time, combine
from mailwright.sources.api.fields import RequestModel
from mailwright.sources.campaigns.approvals import MAX_COMMENT, CampaignApproval, PlanReport
from mailwright.sources.campaigns.plan_changes import PlanChange
from mailwright.sources.send_approvals import SendApproval, SendApprovals, SendKind

noun = Noun(
    "approval",
    "Articles, mailouts and sequences that wait for a second person, who decides in the dashboard.",
    "/v1/approvals",
    parameters={"approval_id": ("ID", "The id of the request, which `approval list` shows.")},
    is_strict=True,
    tag="campaigns",
)

_MAX_DIGITS: Final = 18  # of an id, which the database can store
_Digest = Annotated[str, Field(min_length=1, max_length=100)]


class ApprovalRequest(RequestModel):
    """The digest of the plan that you checked, and a comment for the requester."""

    digest: _Digest
    comment: Annotated[str, Field(max_length=MAX_COMMENT)] = ""


class RejectionRequest(RequestModel):
    """The digest of the plan that you checked, and what has to change."""

    digest: _Digest
    comment: Annotated[str, Field(min_length=1, max_length=MAX_COMMENT)]


class ApprovalRuleRequest(RequestModel):
    """`over`: campaigns with more recipients need an approval.

    0 means that every campaign does, null that none does.
    """

    over: Annotated[int, Field(ge=0, le=2**31 - 1)] | None


class LiftQuery(RequestModel):
    reason: Annotated[
        str,
        Field(description="Why a rejection is lifted. After a rejection, only an administrator can, with a reason."),
    ] = ""


class PlannedContentResponse(ResponseModel):
    """The content of a variant in a language. `locale` is empty for the default, and `digest` covers the content."""

    variant: str
    share: int
    locale: str
    subject: str
    digest: str


class PlannedRepeatResponse(ResponseModel):
    """The schedule on which the campaign repeats. `nextTimes` is empty while it is paused."""

    schedule: str
    feed: str | None
    next_times: list[Time]


class ApprovalResponse(ResponseModel):
    """`status`: `waiting`, `approved`, `rejected`, `void`, `withdrawn` or `replaced`.

    `digest`: the digest of the signed plan.
    """

    status: ApprovalStatus
    digest: str
    recipients: int
    requested_by: str
    requested_at: Time
    decided_by: str | None
    decided_at: Time | None
    comment: str | None
    voided_at: Time | None
    void_reason: str | None


class PlanChangeResponse(ResponseModel):
    """A field that differs from the plan of the approval.

    `diff`: the change of the text, in the format of `diff -u`.
    """

    field: str
    before: str | None
    after: str | None
    diff: str | None


class CampaignPlanResponse(ResponseModel):
    """What the campaign would send now.

    `digest`: the digest of the plan, which an approval needs. `over`: the number of recipients above which the tenant
    requires an approval.

    `repeat`: the schedule of a campaign that repeats; null if it is sent once.

    `finishesAt` is null if the end is beyond the forecast or depends on a send rate that was not measured yet.
    `refusal`: why the campaign cannot start or grow without a person's decision.
    """

    campaign_id: str
    name: str
    computed_at: Time
    digest: str
    recipients: int
    excluded: list[ExclusionCountResponse]
    sender: str | None
    content: Annotated[list[PlannedContentResponse], From("contents")]
    attachments: list[CampaignAttachmentResponse]
    definition: dict[str, Any]
    finishes_at: Time | None
    repeat: PlannedRepeatResponse | None
    problems: list[CampaignProblemResponse]
    warnings: list[CampaignWarningResponse]
    over: int | None
    is_approval_required: Annotated[bool, From("is_required")]
    refusal: str | None
    approval: ApprovalResponse | None
    changes: list[PlanChangeResponse]


class CampaignApprovalResponse(ResponseModel):
    campaign_id: str
    name: str
    approval: ApprovalResponse


class SendApprovalResponse(ResponseModel):
    """`kind`: `article`, `mailout`, `sequence` or `enrolment`. `content`: what the approval covers."""

    id: int
    kind: SendKind
    subject: str
    name: str
    status: ApprovalStatus
    digest: str
    recipients: int
    content: dict[str, Any]
    requested_by: str
    requested_at: Time
    decided_by: str | None
    decided_at: Time | None
    comment: str | None


class ApprovalsResponse(ResponseModel):
    """`over`: a send to more recipients needs an approval; null means that none does.

    `waiting`: campaigns, oldest request first. `sends`: articles, mailouts and sequences that wait. `rejected` and
    `rejectedSends`: rejected ones, until somebody requests them again or an administrator lifts the rejection; at most
    100 each, newest first.
    """

    over: int | None
    waiting: list[CampaignApprovalResponse]
    rejected: list[CampaignApprovalResponse]
    sends: list[SendApprovalResponse]
    rejected_sends: list[SendApprovalResponse]


def plan_response(report: PlanReport) -> CampaignPlanResponse:
    plan = report.plan
    excluded = exclusion_count_responses(plan.excluded)
    return combine(CampaignPlanResponse, report, plan, plan.campaign, excluded=excluded)


def campaign_approval_response(found: CampaignApproval) -> CampaignApprovalResponse:
    return CampaignApprovalResponse.model_validate(found)


# The plan of a campaign and its approval.


def _send_time(found: CampaignPlanResponse) -> Any:
    scheduled_at = isoformat(found.definition.get("scheduledAt"))
    return Moment(scheduled_at, names_zone=True) if scheduled_at else "when it is started"


def _repeats(found: CampaignPlanResponse) -> Any:
    if (repeat := found.repeat) is None:
        return None
    following = ("next ", Moment(repeat.next_times[0], names_zone=True)) if repeat.next_times else ("paused",)
    return (repeat.schedule, f", with the feed {repeat.feed}" if repeat.feed else "", " (", *following, ")")


_PLAN: Final = Details(
    {
        "campaign": "name",
        "recipients": lambda found: f"{found.recipients:,}",
        "excluded": lambda found: f"{sum(each.count for each in found.excluded):,}",
        "from": lambda found: found.sender or "",
        "send time": _send_time,
        "repeats": _repeats,
        "finishes": lambda found: Moment(found.finishes_at, names_zone=True) if found.finishes_at else "not known",
        "digest": "digest",
        "approval": lambda found: found.refusal or ("given" if found.is_approval_required else "not required"),
    }
)
_CONTENT: Final = Table(
    "content",
    {"Content!": lambda each: f"{each.variant} {each.locale}".rstrip(), "Subject": "subject"},
    nothing="The campaign has no content.",
)


def _shown_plan(found: CampaignPlanResponse, _given: Mapping[str, Any]) -> Iterator[Line]:
    yield _PLAN
    yield _CONTENT
    for problem in found.problems:
        yield Badge("error", "bad", f"{problem.field}: {problem.message}")
    for warning in found.warnings:
        yield Badge("warning", "warning", warning.sentence, shape="!")
    for change in found.changes:
        yield f"Changed: {PlanChange(change.field, change.before, change.after, change.diff).sentence}"
        if change.diff:
            yield change.diff


@campaigns.noun.get(
    "/{campaignId}/plan",
    command="plan",
    shown=_shown_plan,
    agent=AgentTool(
        "show_campaign_plan",
        "Show what a campaign would send, to whom and when, and whether a second person must approve it.",
    ),
)
async def show_plan(at: Context, campaign_id: str) -> CampaignPlanResponse:
    """Show what the campaign would send now, to whom and when, and whether a second person must approve it."""
    return plan_response(await campaigns.approvals(at).report(campaign_id, tenant_id=at.tenant_id))


@campaigns.noun.post(
    "/{campaignId}/plan",
    scope=Scope.PROPOSE,
    audit="campaign.request_approval",
    command="request-approval",
    help="Request that a second person approves the campaign as it is now. They decide in the dashboard.",
    shown=_shown_plan,
    agent=AgentTool(
        "request_approval",
        "Request that a person approves a draft as it is now. A later change makes the request void.",
    ),
)
async def request_approval(at: Context, campaign_id: str) -> CampaignPlanResponse:
    """Request that a second person approves the campaign as it is now. A later change makes the request void.

    The scope `propose` can request it for drafts that a key of the same name created and nobody else has changed.
    """
    with campaigns.problems_as_field_errors():
        report = await campaigns.approvals(at).request(
            campaigns.actor(at), campaign_id, must_be_own=not at.caller.allows(MANAGE)
        )
    return plan_response(report)


@campaigns.noun.delete(
    "/{campaignId}/plan",
    scope=MANAGE,
    audit="campaign.withdraw_approval_request",
    command="withdraw-approval",
    help="""Withdraw a request for approval or an approval, or lift a rejection with --reason.

    The rule of the tenant then applies again.
    """,
    shown="The request is withdrawn. The rule of the tenant applies again.",
)
async def withdraw_request(at: Context, campaign_id: str, query: LiftQuery) -> ApprovalResponse:
    """Withdraw the request for an approval, or an approval, as a signed-in user. Then the tenant's rule applies."""
    await campaigns.find(at, campaign_id)
    withdrawn = await campaigns.approvals(at).withdraw(
        campaigns.actor(at), campaign_id, reason=query.reason, may_lift=await _may_lift(at)
    )
    return ApprovalResponse.model_validate(withdrawn)


@campaigns.noun.post("/{campaignId}/approve", scope=MANAGE, audit="campaign.approve")
async def approve(at: Context, campaign_id: str, wanted: ApprovalRequest) -> ApprovalResponse:
    """Approve the plan with this digest, as a signed-in user who neither requested it nor last changed it."""
    await campaigns.find(at, campaign_id)
    decided = await campaigns.approvals(at).approve(
        await _person(at), at.tenant_id, campaign_id, wanted.digest, wanted.comment
    )
    return ApprovalResponse.model_validate(decided)


@campaigns.noun.post("/{campaignId}/reject", scope=MANAGE, audit="campaign.reject")
async def reject(at: Context, campaign_id: str, wanted: RejectionRequest) -> ApprovalResponse:
    """Reject the plan with this digest, as a signed-in user.

    The comment explains to the requester what has to change.
    """
    await campaigns.find(at, campaign_id)
    decided = await campaigns.approvals(at).reject(
        await _person(at), at.tenant_id, campaign_id, wanted.digest, wanted.comment
    )
    return ApprovalResponse.model_validate(decided)


# Requests of all kinds.


def _shown_request(found: SendApprovalResponse, _given: Mapping[str, Any]) -> Iterator[Line]:
    is_decision = found.status in (ApprovalStatus.APPROVED, ApprovalStatus.REJECTED)
    decision = f"{found.status} by {found.decided_by}" if is_decision else found.status.value
    yield f"{found.kind.capitalize()} {found.name}, {found.recipients:,} recipients: {decision}"
    yield (f"Requested by {describe_actor(found.requested_by)}, ", Moment(found.requested_at))
    if found.comment:
        yield f"Comment: {found.comment}"
    for name, value in found.content.items():
        yield f"{name}: {value}"


@noun.get()
async def list_approvals(at: Context) -> ApprovalsResponse:
    """Show which campaigns need an approval, and list those that wait for one."""
    requests, sends, tenant_id = campaigns.approvals(at), _sends(at), at.tenant_id
    return ApprovalsResponse.model_validate(
        {
            "over": (await tenants.find(at.database, at.caller.tenant)).approval_over,
            "waiting": await requests.list_waiting(tenant_id),
            "rejected": await requests.list_rejected(tenant_id),
            "sends": await sends.list_waiting(tenant_id),
            "rejected_sends": await sends.list_rejected(tenant_id),
        }
    )


@noun.put(scope=MANAGE, audit="tenant.edit", role=Role.ADMIN)
async def change_rule(at: Context, wanted: ApprovalRuleRequest) -> ApprovalsResponse:
    """Change which campaigns need an approval, as a signed-in administrator. Campaigns that wait keep waiting."""
    await _person(at)
    await tenants.change(at.database, at.caller.tenant, actor=at.actor, clock=at.clock, approval_over=wanted.over)
    return await list_approvals(at)


@noun.get(
    "/{approvalId}",
    command="show",
    help="Show a request for approval: the content, the number of recipients and the decision.",
    shown=_shown_request,
)
async def show_send(at: Context, approval_id: str) -> SendApprovalResponse:
    """Show the request to approve an article, a mailout or a sequence, with what it covers."""
    return SendApprovalResponse.model_validate(await _find(at, approval_id))


@noun.delete(
    "/{approvalId}",
    scope=MANAGE,
    audit="approval.withdraw",
    command="withdraw",
    help="""Withdraw a request for approval, or lift a rejection with --reason.

    The rule of the tenant then decides whether the next attempt to send needs an approval.
    """,
    shown=_shown_request,
)
async def withdraw_send(at: Context, approval_id: str, query: LiftQuery) -> SendApprovalResponse:
    """Withdraw the request to approve an article, a mailout or a sequence, as a signed-in user."""
    found = await _find(at, approval_id)
    withdrawn = await _sends(at).withdraw(
        at.actor, at.tenant_id, found.id, reason=query.reason, may_lift=await _may_lift(at)
    )
    return SendApprovalResponse.model_validate(withdrawn)


@noun.post("/{approvalId}/approve", scope=MANAGE, audit="approval.approve")
async def approve_send(at: Context, approval_id: str, wanted: ApprovalRequest) -> SendApprovalResponse:
    """Approve the content with this digest, as a signed-in user who did not request it."""
    return await _decide(at, approval_id, wanted, approves=True)


@noun.post("/{approvalId}/reject", scope=MANAGE, audit="approval.reject")
async def reject_send(at: Context, approval_id: str, wanted: RejectionRequest) -> SendApprovalResponse:
    """Reject the content with this digest, as a signed-in user. The comment says what has to change."""
    return await _decide(at, approval_id, wanted, approves=False)


async def _decide(
    at: Context, approval_id: str, wanted: ApprovalRequest | RejectionRequest, *, approves: bool
) -> SendApprovalResponse:
    found = await _find(at, approval_id)
    decided = await _sends(at).decide(
        await _person(at), at.tenant_id, found.id, wanted.digest, approves=approves, comment=wanted.comment
    )
    return SendApprovalResponse.model_validate(decided)


async def _find(at: Context, approval_id: str) -> SendApproval:
    if not approval_id.isdecimal() or not approval_id.isascii() or len(approval_id) > _MAX_DIGITS:
        raise NotFound("There is no such approval.")
    return await _sends(at).find(at.tenant_id, int(approval_id))


def _sends(at: Context) -> SendApprovals:
    return SendApprovals(at.database, at.clock)


async def _person(at: Context) -> User:
    """Return the signed-in user, who may decide."""
    if at.caller.actor is None:
        raise Forbidden("Only a signed-in user can do this. Sign in to the dashboard.")
    return await at.server.users.find(at.caller.actor)


async def _may_lift(at: Context) -> bool:
    """Return whether the signed-in user, or the command line of this installation, may lift a rejection."""
    return at.engine is None or (await _person(at)).role.allows(Role.ADMIN)
