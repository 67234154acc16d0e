"""Models of the plans of campaigns and of their approvals."""

from typing import Annotated, Any

from pydantic import Field

from mailwright.actions.campaigns import (
    CampaignAttachmentResponse,
    CampaignProblemResponse,
    CampaignWarningResponse,
    warning_responses,
)
from mailwright.actions.exclusions import ExclusionCountResponse, exclusion_count_responses
from mailwright.domain.approval import ApprovalStatus
from mailwright.schemas.base import ResponseModel, Time
from mailwright.sources.api.fields import RequestModel
from mailwright.sources.campaigns.approval_records import Approval
from mailwright.sources.campaigns.approvals import MAX_COMMENT, CampaignApproval, PlanReport
from mailwright.sources.campaigns.plan import PlannedContent
from mailwright.sources.send_approvals import SendApproval, SendKind

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
    content: list[PlannedContentResponse]
    attachments: list[CampaignAttachmentResponse]
    definition: dict[str, Any]
    finishes_at: Time | None
    repeat: PlannedRepeatResponse | None
    problems: list[CampaignProblemResponse]
    warnings: list[CampaignWarningResponse]
    over: int | None
    is_approval_required: bool
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
    return CampaignPlanResponse(
        campaign_id=plan.campaign.campaign_id,
        name=plan.campaign.name,
        computed_at=plan.computed_at,
        digest=plan.digest,
        recipients=plan.recipients,
        excluded=exclusion_count_responses(plan.excluded),
        sender=plan.sender,
        content=[_content(each) for each in plan.contents],
        attachments=[CampaignAttachmentResponse.model_validate(each) for each in plan.campaign.attachments],
        definition=plan.definition,
        finishes_at=plan.finishes_at,
        repeat=None if plan.repeat is None else PlannedRepeatResponse.model_validate(plan.repeat),
        problems=[CampaignProblemResponse.model_validate(each) for each in plan.problems],
        warnings=warning_responses(plan.warnings),
        over=report.over,
        is_approval_required=report.is_required,
        refusal=report.refusal,
        approval=None if report.approval is None else approval_response(report.approval),
        changes=[PlanChangeResponse.model_validate(each) for each in report.changes],
    )


def approval_response(approval: Approval) -> ApprovalResponse:
    return ApprovalResponse.model_validate({name: getattr(approval, name) for name in ApprovalResponse.model_fields})


def send_approval_response(approval: SendApproval) -> SendApprovalResponse:
    return SendApprovalResponse.model_validate(approval)


def campaign_approval_response(found: CampaignApproval) -> CampaignApprovalResponse:
    return CampaignApprovalResponse(
        campaign_id=found.campaign_id, name=found.name, approval=approval_response(found.approval)
    )


def _content(content: PlannedContent) -> PlannedContentResponse:
    return PlannedContentResponse.model_validate(content)
