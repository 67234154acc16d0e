"""Models of campaigns and of the campaign queue's progress."""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from mailwright.content.presend_checks import PresendIssue
from mailwright.domain.campaign import INDEFINITELY, CampaignStatus, QueueStatus
from mailwright.domain.clock import Instant, isoformat
from mailwright.domain.record_state import RecordState
from mailwright.domain.tracking import TrackingMode
from mailwright.domain.translation import lazy_gettext
from mailwright.schemas.base import ResponseModel, SnakeResponseModel, Time, extend
from mailwright.schemas.exclusions import ExclusionCountResponse, exclusion_count_responses
from mailwright.schemas.explanations import BulkLimitResponse
from mailwright.schemas.paging import Page
from mailwright.sources.api.fields import Address, Identifier, RequestModel, RequestTime, Variables
from mailwright.sources.api.validation import FieldError, RequestInvalid
from mailwright.sources.campaigns.ab_test import AbTestReport, AbTestState
from mailwright.sources.campaigns.checks import CampaignCheck
from mailwright.sources.campaigns.definition import CampaignDefinition, ContentDefinition, ListKey, SingleLine
from mailwright.sources.campaigns.failed_recipients import FailedRecipient
from mailwright.sources.campaigns.numbers import CampaignNumbers
from mailwright.sources.campaigns.progress import QueuePosition
from mailwright.sources.campaigns.queue_progress import QueueProgress
from mailwright.sources.campaigns.records import Campaign
from mailwright.sources.campaigns.review import review_started
from mailwright.sources.campaigns.test_send import MAX_ADDRESSES
from mailwright.sources.campaigns.variants import CampaignNotStartable

MAX_LISTS = 100


def _storable(text: str) -> str:
    """Reject NUL characters, which PostgreSQL cannot store."""
    if "\x00" in text:
        raise ValueError(lazy_gettext("contains a NUL character"))
    return text


Body = Annotated[str, Field(min_length=1, max_length=512 * 1024), AfterValidator(_storable)]


class CampaignDraftContent(ContentDefinition):
    """The content of a draft, which may still be missing."""

    body: Body | None = None
    text: Body | None = None
    template_id: Identifier | None = None


class CampaignContent(CampaignDraftContent):
    """Either `subject` and `body`, or the id of a template. With a template, `subject` replaces its subject."""

    @model_validator(mode="after")
    def _is_complete(self) -> "CampaignContent":
        if not self.is_written:
            raise ValueError(lazy_gettext("give either a body or a templateId"))
        if self.body is not None and self.subject is None:
            raise ValueError(lazy_gettext("a body needs a subject"))
        return self


class CampaignDraftRequest(CampaignDefinition):
    """A campaign that is saved step by step. Only its name is required."""

    content: CampaignDraftContent = CampaignDraftContent()
    lists: Annotated[tuple[ListKey, ...], Field(max_length=MAX_LISTS)] = ()
    exclude_lists: Annotated[tuple[ListKey, ...], Field(max_length=MAX_LISTS)] = ()
    exclude_segments: Annotated[tuple[ListKey, ...], Field(max_length=MAX_LISTS)] = ()
    filter: Variables | None = None
    variables: Annotated[Variables, Field(default_factory=dict)]
    scheduled_at: RequestTime | None = None


class CampaignRequest(CampaignDraftRequest):
    """Content, audience and schedule of a campaign."""

    content: CampaignContent


class CampaignAttachmentResponse(ResponseModel):
    """A file attached to every message of the campaign. The HTML can show it as `cid:<contentId>`."""

    attachment_id: str
    filename: str
    content_type: str
    content_id: str | None
    size_bytes: int
    created_at: Time


class CampaignAttachmentListResponse(ResponseModel):
    attachments: list[CampaignAttachmentResponse]


class CampaignDuplicateRequest(RequestModel):
    name: SingleLine | None = None


class CampaignTestRequest(RequestModel):
    """Addresses of the test emails, and the contact whose data fills the variables."""

    addresses: Annotated[list[Address], Field(min_length=1, max_length=MAX_ADDRESSES)]
    as_contact: Address | None = None


class CampaignExtendRequest(RequestModel):
    segment: ListKey | None = None


class CampaignWinnerRequest(RequestModel):
    version: SingleLine


class CampaignScheduleRequest(RequestModel):
    """The send time, by default in the tenant's time zone. Null means now."""

    scheduled_at: RequestTime | None


class CampaignMoveRequest(RequestModel):
    """The new position in the queue; 1 means first, and a number beyond the end means last."""

    position: Annotated[int, Field(ge=1, le=1_000_000)]


class CampaignRefused(RequestInvalid):
    """The campaign cannot start."""

    code = CampaignNotStartable.code

    def __init__(self, refused: CampaignNotStartable) -> None:
        super().__init__([FieldError(problem.field, problem.code, problem.message) for problem in refused.problems])


class CampaignCountsResponse(ResponseModel):
    """Each recipient counts in exactly one field after `recipients`, so these fields add up to `audience`.

    `planned`: size of the audience at the start. `recipients`: messages enqueued so far. `excluded`: left the audience
    before enqueueing. `sent`: accepted by the provider. `bounced`: accepted and bounced later. `suppressed`: left the
    list, suppressed or deleted before sending.
    """

    audience: int
    planned: int
    recipients: int
    not_enqueued: int
    excluded: int
    waiting: int
    sending: int
    sent: int
    bounced: int
    failed: int
    suppressed: int
    in_doubt: int
    closed_unknown: int
    cancelled: int


class CampaignResultsResponse(ResponseModel):
    """Number of recipients for each reported event. A recipient who opened twice counts once.

    `replied`: people wrote a reply. `autoReplied`: a program did, for example an out-of-office reply.
    """

    delivered: int
    opened: int
    clicked: int
    complained: int
    unsubscribed: int
    replied: int
    auto_replied: int


class EngagementCountsResponse(ResponseModel):
    """`people`: recipients who opened or clicked. `machines`: recipients whose email a program opened or clicked,
    for example a link scanner. The totals also count repeated and anonymous opens or clicks.
    """

    people: int
    machines: int
    total: int
    machine_total: int


class LinkEngagementResponse(EngagementCountsResponse):
    """Clicks of one link."""

    url: str


class VariantEvidenceResponse(ResponseModel):
    """`rate`: `engaged` divided by `sent`. `probability`: how likely the variant is the best one, from 0 to 1."""

    name: str
    sent: int
    engaged: int
    rate: float
    probability: float


class AbTestResponse(ResponseModel):
    """`state`: `running`; `undecided`, if a user must choose; `decided`; or `no_winner`, if the variants share the
    whole audience. `decidedBy`: `figures` for clear results, `setting` for `ifUndecided`, or the user who chose.
    `engaged`: recipients who opened or clicked, depending on `winnerBy`; with `manual`, those who clicked.
    """

    state: AbTestState
    winner_by: str
    min_confidence: int
    winner: str | None
    decided_by: str | None
    decides_at: Time | None
    if_undecided: str | None
    results: list[VariantEvidenceResponse]


class CampaignSummaryResponse(ResponseModel):
    """A campaign and why it is deferred, if it is. `deferredUntil` is null if only a user can end the wait.

    `repeatsAt`: when a recurring draft is sent next. `repeatOf`: the draft whose schedule created the campaign.
    """

    campaign_id: str
    name: str
    status: CampaignStatus
    defer_reason: str | None
    deferred_until: Time | None
    scheduled_at: Time | None
    created_at: Time
    updated_at: Time
    started_at: Time | None
    finished_at: Time | None
    archived_at: Time | None
    deleted_at: Time | None
    repeats_at: Time | None
    repeat_of: str | None


class CampaignResponse(CampaignSummaryResponse):
    """`definition` has the format of a PUT request. The fields after `attachments` are null before the start."""

    definition: dict[str, Any]
    attachments: list[CampaignAttachmentResponse]
    queue_status: QueueStatus | None
    counts: CampaignCountsResponse | None
    results: CampaignResultsResponse | None
    ab_test: AbTestResponse | None
    percent: float | None
    failed_count: int
    reviewed: Annotated[
        str | None,
        Field(description="Identifies the started campaign: content, audience, sender, send time and limits."),
    ]


class CampaignListQuery(Page):
    state: Annotated[
        RecordState, Field(description="`archived` and `deleted` campaigns are not among the `active` ones.")
    ] = RecordState.ACTIVE


class CampaignListResponse(ResponseModel):
    campaigns: list[CampaignSummaryResponse]
    next_cursor: str | None


class CampaignWarningResponse(ResponseModel):
    code: str
    sentence: str
    where: str


class CampaignProblemResponse(ResponseModel):
    field: str
    code: str
    message: str


class TrackingPlanResponse(ResponseModel):
    """How opens and clicks will be recorded. `consenting`: number of recipients with tracking consent."""

    mode: TrackingMode
    consenting: int


class CampaignCheckResponse(ResponseModel):
    """Result of the pre-send check: `problems` prevent the start, `warnings` do not."""

    may_start: bool
    planned: int
    reviewed: Annotated[
        str, Field(description="Identifies what was checked: content, audience, sender, send time and limits.")
    ]
    tracking: TrackingPlanResponse
    excluded: list[ExclusionCountResponse]
    problems: list[CampaignProblemResponse]
    warnings: list[CampaignWarningResponse]


class CampaignStartQuery(RequestModel):
    override_sender_rules: Annotated[
        bool,
        Field(
            description="Start even if the rules of the large mailbox providers are not met. The audit log records it."
        ),
    ] = False
    send_now: Annotated[bool, Field(description="Send now, regardless of the send time.")] = False
    reviewed: Annotated[
        str | None,
        Field(
            max_length=200,
            description="The field `reviewed` of the pre-send check. If the campaign has changed since then, it does "
            "not start.",
        ),
    ] = None


class ReviewedQuery(RequestModel):
    reviewed: Annotated[
        str | None,
        Field(
            max_length=200,
            description="The field `reviewed` of the campaign, or of the extension. If the campaign has changed since "
            "then, nothing is sent.",
        ),
    ] = None


class OpenWaveQuery(ReviewedQuery):
    wave: Annotated[
        int | None, Field(ge=0, le=1_000_000, description="The number of the open wave. If another is open, it stays.")
    ] = None


class ExtensionQuery(RequestModel):
    segment: ListKey | None = None


class CampaignExtensionResponse(ResponseModel):
    """`newcomers`: number of contacts who would get the campaign too.

    `reviewed` identifies the content that they would get.
    """

    newcomers: int
    reviewed: str


class CampaignStartResponse(CampaignResponse):
    """`limits`: the limits of the tenant, and how much of each is kept for transactional email."""

    warnings: list[CampaignWarningResponse]
    limits: list[BulkLimitResponse]


class CampaignMoveResponse(CampaignResponse):
    position: int


class CampaignRetryResponse(CampaignResponse):
    """`retried`: messages that are queued again. `notRetried`: failed messages to addresses that are now suppressed.
    `notRetriedBounced`: the part of `notRetried` whose addresses bounced.
    """

    retried: int
    not_retried: int
    not_retried_bounced: int


class CampaignResolveResponse(CampaignResponse):
    resolved: int


class CampaignExtendResponse(CampaignResponse):
    newcomers: int


class TestMessageResponse(ResponseModel):
    outbox_id: str
    status: str


class CampaignTestResponse(ResponseModel):
    mails: list[TestMessageResponse]


class FailedRecipientResponse(ResponseModel):
    """A recipient whose message failed, and the error of the last attempt."""

    email: str
    outbox_id: str
    error_code: str | None
    error_message: str | None
    attempts: int
    failed_at: Time | None


class InDoubtMessageResponse(ResponseModel):
    """A message without a definite provider response: the recipient may or may not have it."""

    email: str
    outbox_id: str
    error_code: str | None
    error_message: str | None
    attempts: int
    in_doubt_since: Time | None


class InDoubtListResponse(ResponseModel):
    messages: list[InDoubtMessageResponse]
    next_cursor: str | None


class FailedRecipientListResponse(ResponseModel):
    failures: list[FailedRecipientResponse]
    next_cursor: str | None


class ProgressCountsResponse(SnakeResponseModel):
    """The counts of a campaign, in snake_case."""

    audience: int
    planned: int
    recipients: int
    not_enqueued: int
    excluded: int
    waiting: int
    sending: int
    sent: int
    bounced: int
    failed: int
    suppressed: int
    in_doubt: int
    closed_unknown: int
    cancelled: int


class ActiveCampaignResponse(SnakeResponseModel):
    """`rate` is in messages per second. `eta` is null while nothing is sent."""

    id: str
    name: str
    counts: dict[str, int]
    percent: float
    rate: float
    eta: Time | None


class ProgressLimitResponse(SnakeResponseModel):
    """A limit of the tenant. Campaigns use at most `for_bulk` of it; `reserved` is kept for transactional email."""

    name: str
    limit: int
    for_bulk: int
    reserved: int
    domain: str | None = None


class ProgressResponse(SnakeResponseModel):
    """The campaign that is being sent or is next, the number of others in the queue, and the reason for a deferral."""

    active_campaign: ActiveCampaignResponse | None
    queued_count: int
    next_campaign_at: Time | None
    reason_code: str | None
    next_run_at: Time | None
    limits: list[ProgressLimitResponse]


def campaign_summary_response(campaign: Campaign, position: QueuePosition | None) -> CampaignSummaryResponse:
    return CampaignSummaryResponse(
        campaign_id=campaign.campaign_id,
        name=campaign.name,
        status=campaign.status,
        defer_reason=position.defer_reason if position else None,
        deferred_until=known_end(position.deferred_until) if position else None,
        scheduled_at=campaign.definition.scheduled_at,
        created_at=campaign.created_at,
        updated_at=campaign.updated_at,
        started_at=campaign.started_at,
        finished_at=campaign.finished_at,
        archived_at=campaign.archived_at,
        deleted_at=campaign.deleted_at,
        repeats_at=campaign.repeat.next_at if campaign.repeat else None,
        repeat_of=campaign.repeat_of,
    )


def campaign_response(campaign: Campaign, numbers: CampaignNumbers | None) -> CampaignResponse:
    return extend(
        CampaignResponse,
        campaign_summary_response(campaign, numbers.position if numbers else None),
        definition=campaign_definition(campaign),
        attachments=attachment_responses(campaign),
        queue_status=numbers.position.status if numbers else None,
        counts=numbers.counts if numbers else None,
        results=numbers.results if numbers else None,
        ab_test=ab_test_response(numbers.ab_test) if numbers else None,
        percent=numbers.counts.percent if numbers else None,
        failed_count=numbers.counts.failed if numbers else 0,
        reviewed=None if campaign.started_at is None else review_started(campaign),
    )


def ab_test_response(report: AbTestReport | None) -> AbTestResponse | None:
    if report is None:
        return None
    return AbTestResponse(
        state=report.state,
        winner_by=report.winner_by,
        min_confidence=report.min_confidence,
        winner=report.winner,
        decided_by=report.decided_by,
        decides_at=report.decides_at,
        if_undecided=report.if_undecided,
        results=report.evidence,
    )


def attachment_responses(campaign: Campaign) -> list[CampaignAttachmentResponse]:
    return [CampaignAttachmentResponse.model_validate(attachment) for attachment in campaign.attachments]


def campaign_definition(campaign: Campaign) -> dict[str, Any]:
    definition = campaign.definition.model_dump(mode="json", by_alias=True, exclude_none=True)
    if campaign.definition.scheduled_at is not None:
        definition["scheduledAt"] = isoformat(campaign.definition.scheduled_at)
    return definition


def campaign_check_response(check: CampaignCheck, reviewed: str) -> CampaignCheckResponse:
    return CampaignCheckResponse(
        may_start=not check.problems,
        planned=check.planned,
        reviewed=reviewed,
        tracking=check.tracking,
        excluded=exclusion_count_responses(check.excluded),
        problems=check.problems,
        warnings=warning_responses(check.warnings),
    )


def warning_responses(issues: Sequence[PresendIssue]) -> list[CampaignWarningResponse]:
    return [CampaignWarningResponse.model_validate(issue) for issue in issues]


def failed_recipient_response(recipient: FailedRecipient) -> FailedRecipientResponse:
    return FailedRecipientResponse(
        email=recipient.email,
        outbox_id=recipient.outbox_id,
        error_code=recipient.error_code,
        error_message=recipient.error_reason,
        attempts=recipient.attempts,
        failed_at=recipient.failed_at,
    )


def in_doubt_message_response(recipient: FailedRecipient) -> InDoubtMessageResponse:
    return InDoubtMessageResponse(
        email=recipient.email,
        outbox_id=recipient.outbox_id,
        error_code=recipient.error_code,
        error_message=recipient.error_reason,
        attempts=recipient.attempts,
        in_doubt_since=recipient.failed_at,
    )


def progress_response(progress: QueueProgress) -> ProgressResponse:
    return ProgressResponse(
        active_campaign=_active_campaign(progress),
        queued_count=progress.queued,
        next_campaign_at=known_end(progress.next_campaign_at),
        reason_code=progress.reason,
        next_run_at=known_end(progress.next_run_at),
        limits=[
            ProgressLimitResponse(
                name=each.name, limit=each.limit, for_bulk=each.for_bulk, reserved=each.reserved, domain=each.domain
            )
            for each in progress.limits
        ],
    )


def known_end(until: Instant | None) -> Instant | None:
    """Return the end of a wait, or None if only a user can end it."""
    return None if until is None or until >= INDEFINITELY else until


def _active_campaign(progress: QueueProgress) -> ActiveCampaignResponse | None:
    if progress.active is None or progress.counts is None:
        return None
    return ActiveCampaignResponse(
        id=progress.active.campaign_id,
        name=progress.active.name,
        counts=ProgressCountsResponse.model_validate(progress.counts).to_dict(),
        percent=progress.counts.percent,
        rate=round(progress.rate, 2),
        eta=progress.eta,
    )
