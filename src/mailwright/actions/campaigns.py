"""Campaigns: one email for many recipients, from draft to report."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import AfterValidator, Field, model_validator

from mailwright.access.roles import Scope
from mailwright.actions.context import Context
from mailwright.actions.declaration import (
    MANAGE,
    AgentTool,
    Argument,
    Aside,
    Badge,
    CsvFile,
    Details,
    Line,
    Moment,
    Noun,
    Option,
    Table,
    Tone,
    TwoLines,
    time_of,
)
from mailwright.actions.exclusions import (
    ExcludedContactListResponse,
    ExclusionCountResponse,
    ExclusionPage,
    ExclusionQuery,
    excluded_contact_response,
    excluded_csv,
    exclusion_count_responses,
)
from mailwright.audience.exclusions import NamedAudience, count_not_on_lists, excluded_contacts, list_excluded
from mailwright.content.presend_checks import PresendContext, PresendIssue
from mailwright.domain.campaign import INDEFINITELY, CampaignStatus, QueueStatus
from mailwright.domain.clock import Instant, isoformat
from mailwright.domain.errors import NotFound
from mailwright.domain.record_state import RecordState
from mailwright.domain.sending_readiness import Destination, SendingReadiness
from mailwright.domain.states import Resolution
from mailwright.domain.tracking import TrackingMode
from mailwright.domain.translation import lazy_gettext
from mailwright.outbox.lane_operations import RetriedMessages
from mailwright.schemas.base import ResponseModel, SnakeResponseModel, Time, combine
from mailwright.schemas.base import extend as extend_response
from mailwright.schemas.paging import Page, decode_cursor
from mailwright.schemas.sending_readiness import SendingReadinessResponse, readiness_response
from mailwright.sources.api.fields import Address, Identifier, RequestModel, RequestTime, Variables
from mailwright.sources.api.requests import Attachment
from mailwright.sources.api.senders import require_sender
from mailwright.sources.api.validation import FieldError, RequestInvalid
from mailwright.sources.campaigns import progress
from mailwright.sources.campaigns.ab_test import AbTestReport, AbTestState
from mailwright.sources.campaigns.approvals import CampaignApprovals
from mailwright.sources.campaigns.bulk_limits import load_bulk_limits
from mailwright.sources.campaigns.campaigns import Campaigns
from mailwright.sources.campaigns.checks import CampaignCheck, check_campaign, named_audience, require_existing
from mailwright.sources.campaigns.definition import (
    CampaignDefinition,
    CampaignLimits,
    ContentDefinition,
    ListKey,
    SingleLine,
)
from mailwright.sources.campaigns.extension import preview_extension
from mailwright.sources.campaigns.failed_recipients import FailedRecipient, list_failed, list_in_doubt
from mailwright.sources.campaigns.failures import CampaignFailures
from mailwright.sources.campaigns.numbers import CampaignNumbers, load_numbers
from mailwright.sources.campaigns.plan import CampaignPlans
from mailwright.sources.campaigns.progress import QueuePosition
from mailwright.sources.campaigns.queue_progress import QueueProgress
from mailwright.sources.campaigns.queue_recorder import refresh_queue
from mailwright.sources.campaigns.records import Actor, Campaign, find_campaign
from mailwright.sources.campaigns.removal import CampaignRemoval
from mailwright.sources.campaigns.review import digest_checked, review_started
from mailwright.sources.campaigns.test_send import MAX_ADDRESSES
from mailwright.sources.campaigns.variants import CampaignNotStartable
from mailwright.texts.buckets import retry_text

if TYPE_CHECKING:
    from mailwright.outbox.sender_domains import SenderDirectory
    from mailwright.sources.sender_rules import SenderRules


async def find_owner(at: Context) -> int:
    """Return the tenant of the campaign in the path."""
    try:
        async with at.database.read() as tx:
            return (await find_campaign(tx, at.path["campaign_id"], None, with_deleted=True)).tenant_id
    except NotFound as error:
        raise NotFound("There is no campaign with this id.") from error


async def _require_campaign_sender(at: Context) -> None:
    """Raise if the API key is limited to senders, and the campaign has another one."""
    if at.caller.senders is not None and "campaign_id" in at.path:
        await require_own_sender(at, (await find(at, at.path["campaign_id"])).definition.sender)


noun = Noun(
    "campaign",
    "Campaigns: one email for many recipients.",
    "/v1/campaigns",
    parameters={
        "campaign_id": ("ID", "The campaign id that `campaign create` prints."),
        "attachment_id": ("ATTACHMENT", "The id of the attachment."),
    },
    has_unique_ids=True,
    find_owner=find_owner,
    is_strict=True,
    takes_local_times=True,
    groups={"in-doubt": "Messages of a campaign without a definite provider response."},
    guard=_require_campaign_sender,
)

_STATUSES: Final[Mapping[CampaignStatus, tuple[str, Tone]]] = {
    CampaignStatus.DRAFT: ("·", "off"),
    CampaignStatus.READY: ("○", "waiting"),
    CampaignStatus.SENDING: ("→", "waiting"),
    CampaignStatus.PAUSED: ("=", "warning"),
    CampaignStatus.SENT: ("✓", "good"),
    CampaignStatus.CANCELLED: ("–", "off"),
}
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
    name: Annotated[SingleLine | None, Field(description="The internal name.")] = None


class CampaignTestRequest(RequestModel):
    """Addresses of the test emails, and the contact whose data fills the variables."""

    addresses: Annotated[list[Address], Argument("ADDRESS…"), Field(min_length=1, max_length=MAX_ADDRESSES)]
    as_contact: Annotated[
        Address | None,
        Option("--as", default="sample values"),
        Field(description="Fill the email with this contact's data."),
    ] = None


class CampaignResolveRequest(RequestModel):
    """The decision about all messages in doubt."""

    resolution: Annotated[Resolution, Option("--as"), Field(alias="as", description="The resolution.")]


class CampaignExtendRequest(RequestModel):
    segment: ListKey | None = None


class CampaignWinnerRequest(RequestModel):
    version: SingleLine


class CampaignScheduleRequest(RequestModel):
    """The send time, by default in the tenant's time zone. Null means now."""

    scheduled_at: Annotated[
        RequestTime | None,
        Argument("TIME", null="now"),
        Field(
            description="The send time, for example 2027-01-15T08:00, in the tenant's time zone unless one is given; "
            "or now."
        ),
    ]


class CampaignMoveRequest(RequestModel):
    """The new position in the queue; 1 means first, and a number beyond the end means last."""

    position: Annotated[
        int, Argument("POSITION"), Field(ge=1, le=1_000_000, description="1 is first; a large number is last.")
    ]


class CampaignRefused(RequestInvalid):
    """The campaign cannot start."""

    code = CampaignNotStartable.code

    def __init__(self, refused: CampaignNotStartable) -> None:
        super().__init__([FieldError(problem.field, problem.code, problem.message) for problem in refused.problems])


class CampaignCountsResponse(ResponseModel):
    """Each recipient counts in exactly one field after `recipients`, so these fields add up to `audience`.

    `planned`: size of the audience at the start. `recipients`: messages enqueued so far. `excluded`: left the audience
    before enqueueing. `sent`: accepted by the provider, or stored locally: see `sentTo`. `bounced`: accepted and
    bounced later. `suppressed`: left the list, suppressed or deleted before sending.
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

    `queueStatus` is null before the start.
    `repeatsAt`: when a recurring draft is sent next. `repeatOf`: the draft whose schedule created the campaign.
    """

    campaign_id: str
    name: str
    status: CampaignStatus
    queue_status: QueueStatus | None
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
    counts: CampaignCountsResponse | None
    results: CampaignResultsResponse | None
    ab_test: AbTestResponse | None
    percent: float | None
    failed_count: int
    reviewed: Annotated[
        str | None,
        Field(description="Identifies the started campaign: content, audience, sender, send time and limits."),
    ]


class CampaignShowResponse(CampaignResponse):
    """`delivery`: whether email of the campaign leaves this machine now. `sentTo`: where its sent messages went; null
    if none was sent.
    """

    delivery: SendingReadinessResponse
    sent_to: Destination | None


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
    """Result of the pre-send check: `problems` prevent the start, `warnings` do not.

    `delivery`: whether the campaign would leave this machine.
    """

    may_start: bool
    planned: int
    reviewed: Annotated[
        str, Field(description="Identifies what was checked: content, audience, sender, send time and limits.")
    ]
    tracking: TrackingPlanResponse
    excluded: list[ExclusionCountResponse]
    problems: list[CampaignProblemResponse]
    warnings: list[CampaignWarningResponse]
    delivery: SendingReadinessResponse


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


class ExtensionQuery(RequestModel):
    segment: ListKey | None = None


class CampaignExtensionResponse(ResponseModel):
    """`newcomers`: number of contacts who would get the campaign too.

    `reviewed` identifies the content that they would get.
    """

    newcomers: int
    reviewed: str


class BulkLimitResponse(ResponseModel):
    """A limit of the tenant. Campaigns use at most `forBulk` of it; `reserved` is kept for transactional email.

    `domain` is the recipients' domain that it limits, per second; `*` stands for each domain without its own limit.
    """

    name: str
    limit: int
    for_bulk: int
    reserved: int
    domain: str | None = None


class CampaignStartResponse(CampaignShowResponse):
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
    """The campaign that is being sent, or that resumes first, and the campaigns that wait.

    `next_campaign_at` is when the forecast expects the next campaign, and `next_campaign_reason` why it is not being
    sent yet. Without a worker (`no_worker`), the time assumes that one starts now. It is null if no campaign waits, or
    if only a user can start those that wait (for example `paused`).
    """

    active_campaign: ActiveCampaignResponse | None
    queued_count: int
    next_campaign_at: Time | None
    next_campaign_reason: str | None
    reason_code: str | None
    next_run_at: Time | None
    limits: list[ProgressLimitResponse]


def campaign_summary_response(campaign: Campaign, position: QueuePosition | None) -> CampaignSummaryResponse:
    return combine(
        CampaignSummaryResponse,
        campaign,
        campaign.definition,
        queue_status=position.status if position else None,
        defer_reason=position.defer_reason if position else None,
        deferred_until=known_end(position.deferred_until) if position else None,
        repeats_at=campaign.repeat.next_at if campaign.repeat else None,
    )


def campaign_response(campaign: Campaign, numbers: CampaignNumbers | None) -> CampaignResponse:
    return extend_response(
        CampaignResponse,
        campaign_summary_response(campaign, numbers.position if numbers else None),
        definition=campaign_definition(campaign),
        attachments=attachment_responses(campaign),
        counts=numbers.counts if numbers else None,
        results=numbers.results if numbers else None,
        ab_test=ab_test_response(numbers.ab_test) if numbers else None,
        percent=numbers.counts.percent if numbers else None,
        failed_count=numbers.counts.failed if numbers else 0,
        reviewed=None if campaign.started_at is None else review_started(campaign),
    )


def campaign_show_response(
    campaign: Campaign, numbers: CampaignNumbers | None, delivery: SendingReadiness, sent_to: Destination | None
) -> CampaignShowResponse:
    return extend_response(
        CampaignShowResponse,
        campaign_response(campaign, numbers),
        delivery=readiness_response(delivery),
        sent_to=sent_to,
    )


def ab_test_response(report: AbTestReport | None) -> AbTestResponse | None:
    return None if report is None else combine(AbTestResponse, report, results=report.evidence)


def attachment_responses(campaign: Campaign) -> list[CampaignAttachmentResponse]:
    return [CampaignAttachmentResponse.model_validate(attachment) for attachment in campaign.attachments]


def campaign_definition(campaign: Campaign) -> dict[str, Any]:
    definition = campaign.definition.model_dump(mode="json", by_alias=True, exclude_none=True)
    if campaign.definition.scheduled_at is not None:
        definition["scheduledAt"] = isoformat(campaign.definition.scheduled_at)
    return definition


def campaign_check_response(check: CampaignCheck, reviewed: str, delivery: SendingReadiness) -> CampaignCheckResponse:
    return CampaignCheckResponse(
        may_start=not check.problems,
        planned=check.planned,
        reviewed=reviewed,
        tracking=check.tracking,
        excluded=exclusion_count_responses(check.excluded),
        problems=check.problems,
        warnings=warning_responses(check.warnings),
        delivery=readiness_response(delivery),
    )


def warning_responses(issues: Sequence[PresendIssue]) -> list[CampaignWarningResponse]:
    return [CampaignWarningResponse.model_validate(issue) for issue in issues]


def progress_response(progress: QueueProgress) -> ProgressResponse:
    return ProgressResponse(
        active_campaign=_active_campaign(progress),
        queued_count=progress.queued,
        next_campaign_at=known_end(progress.next_campaign_at),
        next_campaign_reason=progress.next_campaign_reason,
        reason_code=progress.reason,
        next_run_at=known_end(progress.next_run_at),
        limits=list(progress.limits),
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
        counts=CampaignCountsResponse.model_validate(progress.counts).model_dump(),
        percent=progress.counts.percent,
        rate=round(progress.rate, 2),
        eta=progress.eta,
    )


# The services of the server, or those that a command needs.


def actor(at: Context) -> Actor:
    return Actor(at.actor, at.tenant_id)


def directory(at: Context) -> "SenderDirectory":
    from mailwright.app.sender_directory import make_directory  # noqa: PLC0415 - slow to import

    return make_directory(at.settings, at.database, at.clock) if at.engine is None else at.engine.directory


def sender_rules(at: Context) -> "SenderRules":
    from mailwright.app.sender_rules import make_sender_rules  # noqa: PLC0415 - slow to import

    if at.engine is not None:
        return at.engine.campaigns.rules
    return make_sender_rules(at.settings, at.database, directory(at))


def approvals(at: Context) -> CampaignApprovals:
    if at.engine is not None:
        return at.engine.campaign_approvals
    plans = CampaignPlans(at.database, at.clock, at.templates, sender_rules(at), at.defaults)
    return CampaignApprovals(at.database, at.clock, plans)


def campaigns(at: Context) -> Campaigns:
    from mailwright.app.limits import guard_rails  # noqa: PLC0415 - slow to import

    if at.engine is not None:
        return at.engine.campaigns
    return Campaigns(at.database, at.clock, at.templates, sender_rules(at), guard_rails(at.settings))


async def find(at: Context, campaign_id: str) -> Campaign:
    async with at.database.read() as tx:
        return await find_campaign(tx, campaign_id, at.tenant_id)


async def require_own_sender(at: Context, sender: str | None) -> None:
    require_sender(at.caller, sender or await directory(at).default_sender(at.tenant_id))


async def answer(at: Context, campaign: Campaign) -> CampaignResponse:
    await refresh_queue(at.database, at.clock, at.defaults)
    return campaign_response(campaign, await load_numbers(at.database, campaign))


async def readiness(at: Context, campaign: Campaign) -> SendingReadiness:
    from mailwright.app.sending_readiness import load_readiness  # noqa: PLC0415 - slow to import

    sender = campaign.definition.sender
    return await load_readiness(at.settings, at.database, at.clock, campaign.tenant_id, sender=sender)


async def full_answer(at: Context, campaign: Campaign) -> CampaignShowResponse:
    from mailwright.app.destinations import find_sent_to  # noqa: PLC0415 - slow to import

    await refresh_queue(at.database, at.clock, at.defaults)
    numbers = await load_numbers(at.database, campaign)
    went = await find_sent_to(at.settings, at.database, numbers.sent_through if numbers else ())
    return campaign_show_response(campaign, numbers, await readiness(at, campaign), went)


def presend_context(at: Context) -> PresendContext:
    return PresendContext(postal_address=at.settings.sender_postal_address, limits=at.defaults.limits)


async def check(at: Context, campaign: Campaign, context: PresendContext) -> CampaignCheck:
    return await check_campaign(
        at.database,
        at.templates,
        campaign.definition,
        tenant_id=campaign.tenant_id,
        now=at.clock.now(),
        facts=context,
        counts_excluded=True,
        rules=sender_rules(at),
        attachments=campaign.attachments,
    )


@contextmanager
def problems_as_field_errors() -> Iterator[None]:
    """Report each field that prevents the start, as for any other invalid request."""
    try:
        yield
    except CampaignNotStartable as error:
        raise CampaignRefused(error) from error


# Output.


def status_badge(status: CampaignStatus) -> Badge:
    shape, tone = _STATUSES[status]
    return Badge(status, tone, shape=shape)


def shown_status(found: Any, _given: Mapping[str, Any]) -> Iterator[Line]:
    yield (f"{found.name} is now ", status_badge(found.status))


_PROGRESS: Final = Details(
    {
        "campaign": "campaign_id",
        "name": "name",
        "status": lambda found: status_badge(found.status),
        "subject": lambda found: found.definition["content"].get("subject"),
        "template": lambda found: found.definition["content"].get("templateId"),
        "scheduled": lambda found: found.scheduled_at and Moment(found.scheduled_at, names_zone=True),
        "deferred": "defer_reason",
        "delivery": lambda found: found.delivery.sentence,
        "started": lambda found: found.started_at and Moment(found.started_at, names_zone=True),
        "finished": lambda found: found.finished_at and Moment(found.finished_at, names_zone=True),
    }
)


def _progress(found: CampaignShowResponse, _given: Mapping[str, Any]) -> Iterator[Line]:
    yield _PROGRESS
    if (counts := found.counts) is not None:
        parts = ((name.replace("_", " "), count) for name, count in counts if name not in ("audience", "planned"))
        yield f"Audience: {counts.audience}. " + ", ".join(f"{name}: {count}" for name, count in parts if count)


def _checked(found: CampaignCheckResponse, _given: Mapping[str, Any]) -> Iterator[Line]:
    yield from (Aside(f"✗ {each.field}: {each.message} [{each.code}]", "bad") for each in found.problems)
    yield from (Aside(f"! {each.where}: {each.sentence} [{each.code}]") for each in found.warnings)
    verdict = "Ready to start" if found.may_start else f"Cannot start, errors: {len(found.problems)}"
    yield f"{verdict} ({found.planned:,} recipient{'' if found.planned == 1 else 's'})."
    yield found.delivery.sentence


def _started(found: CampaignStartResponse, given: Mapping[str, Any]) -> Iterator[Line]:
    yield from (Aside(f"! {each.where}: {each.sentence} [{each.code}]") for each in found.warnings)
    yield from shown_status(found, given)
    yield found.delivery.sentence


def _shown_schedule(found: CampaignResponse, _given: Mapping[str, Any]) -> Iterator[Line]:
    if found.scheduled_at is not None:
        yield (f"{found.name}: scheduled for ", Moment(found.scheduled_at, names_zone=True), ".")
    else:
        yield f"{found.name}: {'no send time' if found.status is CampaignStatus.DRAFT else 'to be sent now'}."


def _shown_retry(found: CampaignRetryResponse, _given: Mapping[str, Any]) -> Iterator[Line]:
    suppressed = found.not_retried - found.not_retried_bounced
    yield retry_text(RetriedMessages(found.retried, found.not_retried_bounced, suppressed))


def _shown_resolution(found: CampaignResolveResponse, given: Mapping[str, Any]) -> Iterator[Line]:
    messages = "message" if found.resolved == 1 else "messages"
    yield f"{found.resolved:,} {messages} in doubt resolved as {given['resolution']}."


# Actions.


@noun.get(
    shown=Table(
        "campaigns",
        {
            "Campaign and time ({zone})!": lambda each: TwoLines(each.campaign_id, Moment(each.created_at)),
            "Status and reason": lambda each: TwoLines(
                (status_badge(each.status), f"  {each.name}"), each.defer_reason or ""
            ),
        },
        nothing="The tenant {tenant} has no campaigns. Create one with `mailwright campaign create`.",
    ),
    agent=AgentTool("list_campaigns", "List the campaigns, latest first."),
)
async def list_campaigns(at: Context, page: CampaignListQuery) -> CampaignListResponse:
    """List the campaigns, latest first."""
    found = await campaigns(at).list_page(
        tenant_id=at.tenant_id, limit=page.limit, before=page.before("campaign"), state=page.state
    )
    await refresh_queue(at.database, at.clock, at.defaults)
    async with at.database.read() as tx:
        queue = await progress.find_positions(tx, [each.key for each in found])
    positions = {position.campaign_id: position for position in queue}
    return CampaignListResponse(
        campaigns=[campaign_summary_response(each, positions.get(each.campaign_id)) for each in found],
        next_cursor=page.next_cursor("campaign", [each.key for each in found]),
    )


@noun.post(
    scope=Scope.PROPOSE,
    audit="campaign.create",
    agent=AgentTool(
        "create_campaign_draft",
        "Create a draft of a campaign. It is not sent until a person starts it in the dashboard.",
    ),
)
async def create(at: Context, wanted: CampaignRequest) -> CampaignResponse:
    """Create a draft. The pre-send check runs when the campaign starts, or through the `preflight` route."""
    await require_own_sender(at, wanted.sender)
    await require_existing(at.database, at.tenant_id, wanted)
    return await answer(at, await campaigns(at).create(actor(at), at.tenant_id, wanted))


@noun.get("/{campaignId}", shown=_progress, agent=AgentTool("show_campaign", "Show a campaign with its progress."))
async def show(at: Context, campaign_id: str) -> CampaignShowResponse:
    """Show a campaign: definition, progress, why it is deferred, and whether its email leaves this machine."""
    return await full_answer(at, await campaigns(at).find(campaign_id, tenant_id=at.tenant_id))


@noun.put(
    "/{campaignId}",
    scope=Scope.PROPOSE,
    audit="campaign.edit",
    agent=AgentTool("edit_campaign_draft", "Replace the content of a draft."),
)
async def edit(at: Context, campaign_id: str, wanted: CampaignRequest) -> CampaignResponse:
    """Replace a draft. After the start, only the limits of a campaign can be changed.

    The scope `propose` replaces only drafts that a key of the same name created and nobody else has changed.
    """
    await find(at, campaign_id)
    await require_own_sender(at, wanted.sender)
    await require_existing(at.database, at.tenant_id, wanted)
    must_be_own = not at.caller.allows(MANAGE)
    return await answer(at, await campaigns(at).edit(actor(at), campaign_id, wanted, must_be_own=must_be_own))


@noun.post(
    "/{campaignId}/preflight",
    scope=Scope.PROPOSE,
    audit=None,
    shown=_checked,
    is_negative=lambda found: not found.may_start,
    agent=AgentTool(
        "check_campaign",
        "Run the pre-send check of a draft: audience, excluded contacts, and problems with their fixes.",
    ),
)
async def preflight(at: Context, campaign_id: str) -> CampaignCheckResponse:
    """Run the pre-send check without starting the campaign."""
    campaign = await campaigns(at).find(campaign_id, tenant_id=at.tenant_id)
    found = await check(at, campaign, presend_context(at))
    digests = await digest_checked(campaign, found, sender_rules(at))
    return campaign_check_response(found, digests, await readiness(at, campaign))


@noun.post(
    "/{campaignId}/start",
    scope=MANAGE,
    audit="campaign.start",
    shown=_started,
    agent=AgentTool("start_campaign", "Start a campaign: it is sent to its whole audience. This cannot be undone."),
)
async def start(at: Context, campaign_id: str, query: CampaignStartQuery) -> CampaignStartResponse:
    """Freeze the content and put the campaign in the queue; a worker then enqueues the messages.

    An error lists every reason why the campaign cannot start. A send time in the past also prevents the start, unless
    `sendNow` is true. With `reviewed`, a campaign that has changed since its pre-send check does not start: 409
    `CHANGED_SINCE_REVIEW` names what changed.
    """
    with problems_as_field_errors():
        campaign, warnings = await campaigns(at).start_with_warnings(
            actor(at),
            campaign_id,
            presend_context(at),
            overrides_rules=query.override_sender_rules,
            send_now=query.send_now,
            reviewed=query.reviewed,
        )
    limits = await load_bulk_limits(at.database, at.defaults, campaign.tenant_id, at.clock.now())
    return extend_response(
        CampaignStartResponse,
        await full_answer(at, campaign),
        warnings=warning_responses(warnings),
        limits=limits,
    )


@noun.post(
    "/{campaignId}/override-sender-rules",
    scope=MANAGE,
    audit="campaign.override_sender_rules",
    command="override-sender-rules",
    help="Send a campaign that is on hold because it does not meet the large mailbox providers' sender rules.",
    shown=shown_status,
)
async def override_sender_rules(at: Context, campaign_id: str) -> CampaignResponse:
    """Send even if the rules of the large mailbox providers are not met. The audit log records it."""
    return await answer(at, await campaigns(at).override_rules(actor(at), campaign_id))


@noun.put(
    "/{campaignId}/schedule",
    scope=MANAGE,
    audit="campaign.reschedule",
    command="reschedule",
    help="Change the send time of a draft, or of a campaign that has not begun to send.",
    shown=_shown_schedule,
)
async def reschedule(
    at: Context, campaign_id: str, wanted: CampaignScheduleRequest, query: ReviewedQuery
) -> CampaignResponse:
    """Change the send time of a draft or of a campaign that has not begun to send; null means now."""
    moved = await campaigns(at).reschedule(actor(at), campaign_id, wanted.scheduled_at, reviewed=query.reviewed)
    return await answer(at, moved)


@noun.post(
    "/{campaignId}/move",
    scope=MANAGE,
    audit="campaign.move",
    command="move",
    help="Move a queued campaign to another position in its tenant's queue.",
    shown="{name} is now number {position} in the queue.",
)
async def move(at: Context, campaign_id: str, wanted: CampaignMoveRequest) -> CampaignMoveResponse:
    """Move the campaign to another position in your queue."""
    campaign, position = await campaigns(at).move(actor(at), campaign_id, wanted.position)
    return extend_response(CampaignMoveResponse, await answer(at, campaign), position=position)


@noun.post(
    "/{campaignId}/pause",
    scope=MANAGE,
    audit="campaign.pause",
    command="pause",
    agent=AgentTool("pause_campaign", "Pause a campaign."),
    shown=shown_status,
)
async def pause(at: Context, campaign_id: str) -> CampaignResponse:
    """Pause the campaign after the current batch. It keeps its position in the queue."""
    return await answer(at, await campaigns(at).pause(actor(at), campaign_id))


@noun.post(
    "/{campaignId}/resume",
    scope=MANAGE,
    audit="campaign.resume",
    command="resume",
    agent=AgentTool("resume_campaign", "Resume a paused campaign."),
    shown=shown_status,
)
async def resume(at: Context, campaign_id: str, query: ReviewedQuery) -> CampaignResponse:
    """Resume a paused campaign where it stopped."""
    return await answer(at, await campaigns(at).resume(actor(at), campaign_id, reviewed=query.reviewed))


@noun.post(
    "/{campaignId}/cancel",
    scope=MANAGE,
    audit="campaign.cancel",
    agent=AgentTool("cancel_campaign", "Cancel the messages not sent yet."),
    shown=shown_status,
)
async def cancel(at: Context, campaign_id: str) -> CampaignResponse:
    """Cancel all messages that have not been sent yet. The report keeps the sent messages."""
    return await answer(at, await campaigns(at).cancel(actor(at), campaign_id))


@noun.post("/{campaignId}/withdraw", scope=MANAGE, audit="campaign.withdraw", command="withdraw", shown=shown_status)
async def withdraw(at: Context, campaign_id: str) -> CampaignResponse:
    """Turn a campaign that has not begun to send back into a draft."""
    return await answer(at, await CampaignRemoval(at.database, at.clock).withdraw(actor(at), campaign_id))


@noun.post("/{campaignId}/archive", scope=MANAGE, audit="campaign.archive", command="archive", shown="Archived {name}.")
async def archive(at: Context, campaign_id: str) -> CampaignResponse:
    """Hide a draft or a finished campaign from the list of campaigns. Its messages and report stay."""
    return await answer(at, await CampaignRemoval(at.database, at.clock).archive(actor(at), campaign_id))


@noun.delete(
    "/{campaignId}",
    scope=MANAGE,
    audit="campaign.delete",
    command="delete",
    help="Delete a campaign that never started.",
    question="Delete the campaign {campaign_id}?",
    shown="Deleted the campaign. `mailwright campaign restore {campaign_id}` brings it back.",
)
async def delete(at: Context, campaign_id: str) -> None:
    """Delete a campaign that never started. `restore` brings it back. A started campaign can be archived instead."""
    await CampaignRemoval(at.database, at.clock).delete(actor(at), campaign_id)


@noun.post("/{campaignId}/restore", scope=MANAGE, audit="campaign.restore", command="restore", shown="Restored {name}.")
async def restore(at: Context, campaign_id: str) -> CampaignResponse:
    """Bring back an archived or deleted campaign."""
    return await answer(at, await CampaignRemoval(at.database, at.clock).restore(actor(at), campaign_id))


@noun.post(
    "/{campaignId}/retry-failed",
    scope=MANAGE,
    audit="campaign.retry_failed",
    command="retry-failed",
    shown=_shown_retry,
)
async def retry_failed(at: Context, campaign_id: str) -> CampaignRetryResponse:
    """Retry the failed messages and count their attempts from zero. Skips bounced and suppressed addresses."""
    campaign, found = await CampaignFailures(at.database, at.clock).retry_failed(actor(at), campaign_id)
    return extend_response(
        CampaignRetryResponse,
        await answer(at, campaign),
        retried=found.retried,
        not_retried=found.bounced + found.suppressed,
        not_retried_bounced=found.bounced,
    )


@noun.get(
    "/{campaignId}/in-doubt",
    command="in-doubt list",
    command_defaults={"limit": 100},
    shown=Table(
        "messages",
        {
            "Address": "email",
            "Message": "outbox_id",
            "Code!": "error_code",
            "Since ({zone})!": time_of("in_doubt_since"),
        },
        nothing="No messages in doubt.",
    ),
)
async def in_doubt(at: Context, campaign_id: str, page: Page) -> InDoubtListResponse:
    """List the messages in doubt: the provider may or may not have them."""
    found = await _recipients(at, campaign_id, page, "in-doubt")
    return InDoubtListResponse(
        messages=[
            combine(InDoubtMessageResponse, each, error_message=each.error_reason, in_doubt_since=each.failed_at)
            for each in found
        ],
        next_cursor=page.next_cursor("in-doubt", [each.message_key for each in found]),
    )


@noun.post(
    "/{campaignId}/in-doubt/resolve",
    scope=MANAGE,
    audit="campaign.resolve_in_doubt",
    command="in-doubt resolve",
    help="Resolve all messages in doubt: they were sent, must be sent again, or remain unknown.",
    shown=_shown_resolution,
)
async def resolve_in_doubt(at: Context, campaign_id: str, wanted: CampaignResolveRequest) -> CampaignResolveResponse:
    """Resolve all messages in doubt: they were `sent`, must be sent again (`resend`), or remain unknown (`close`)."""
    failed = CampaignFailures(at.database, at.clock)
    campaign, count = await failed.resolve_in_doubt(actor(at), campaign_id, wanted.resolution)
    return extend_response(CampaignResolveResponse, await answer(at, campaign), resolved=count)


@noun.post(
    "/{campaignId}/accept-failures",
    scope=MANAGE,
    audit="campaign.accept_failures",
    command="accept-failures",
    shown=shown_status,
)
async def accept_failures(at: Context, campaign_id: str) -> CampaignResponse:
    """Mark the campaign as sent even though some messages failed."""
    return await answer(at, await CampaignFailures(at.database, at.clock).accept_failures(actor(at), campaign_id))


@noun.post(
    "/{campaignId}/duplicate",
    scope=Scope.PROPOSE,
    audit="campaign.create",
    status=HTTPStatus.CREATED,
    command="duplicate",
    help="Create a draft with the same content and audience and print only its id on stdout.",
    shown="{campaign_id}",
)
async def duplicate(at: Context, campaign_id: str, wanted: CampaignDuplicateRequest) -> CampaignResponse:
    """Create a draft with the same content and audience."""
    return await answer(at, await campaigns(at).duplicate(actor(at), campaign_id, wanted.name))


@noun.post("/{campaignId}/test", scope=MANAGE, audit="campaign.test", status=HTTPStatus.ACCEPTED)
async def test(at: Context, campaign_id: str, wanted: CampaignTestRequest) -> CampaignTestResponse:
    """Send test emails to a few addresses, one for each variant and address. The report does not count them."""
    with problems_as_field_errors():
        messages = await campaigns(at).test_send(actor(at), campaign_id, wanted.addresses, as_contact=wanted.as_contact)
    return CampaignTestResponse(mails=messages)


@noun.get("/{campaignId}/extend", conflicts=True)
async def show_extension(at: Context, campaign_id: str, query: ExtensionQuery) -> CampaignExtensionResponse:
    """Count the contacts who would also get the campaign, without sending anything."""
    newcomers, reviewed = await preview_extension(at.database, at.clock, actor(at), campaign_id, query.segment)
    return CampaignExtensionResponse(newcomers=newcomers, reviewed=reviewed)


@noun.post("/{campaignId}/extend", scope=MANAGE, audit="campaign.extend")
async def extend(
    at: Context, campaign_id: str, wanted: CampaignExtendRequest, query: ReviewedQuery
) -> CampaignExtendResponse:
    """Also send the campaign to new subscribers and, if given, to another segment. Nobody gets it twice."""
    campaign, newcomers = await campaigns(at).extend(
        actor(at), campaign_id, segment=wanted.segment, reviewed=query.reviewed
    )
    return extend_response(CampaignExtendResponse, await answer(at, campaign), newcomers=newcomers)


@noun.post("/{campaignId}/winner", scope=MANAGE, audit="campaign.choose_winner")
async def choose_winner(
    at: Context, campaign_id: str, wanted: CampaignWinnerRequest, query: ReviewedQuery
) -> CampaignResponse:
    """Choose the winner of an A/B test; the rest of the audience gets this variant."""
    chosen = await campaigns(at).choose_winner(actor(at), campaign_id, wanted.version, reviewed=query.reviewed)
    return await answer(at, chosen)


@noun.put("/{campaignId}/limits", scope=MANAGE, audit="campaign.edit_limits")
async def edit_limits(at: Context, campaign_id: str, wanted: CampaignLimits) -> CampaignResponse:
    """Replace the limits of the campaign. If it is being sent, they apply from the next batch."""
    return await answer(at, await campaigns(at).edit_limits(actor(at), campaign_id, wanted))


@noun.get(
    "/{campaignId}/failures",
    command="failures",
    command_defaults={"limit": 100},
    help="List the failed recipients with their errors.",
    shown=Table(
        "failures",
        {
            "Address": "email",
            "Code!": "error_code",
            "Reason": "error_message",
            "Attempts#": "attempts",
            "Failed ({zone})!": time_of("failed_at"),
        },
        nothing="No failed recipients.",
    ),
)
async def failures(at: Context, campaign_id: str, page: Page) -> FailedRecipientListResponse:
    """List the failed recipients and the errors, by address. Excludes recipients who unsubscribed before sending."""
    found = await _recipients(at, campaign_id, page, "failure")
    return FailedRecipientListResponse(
        failures=[combine(FailedRecipientResponse, each, error_message=each.error_reason) for each in found],
        next_cursor=page.next_cursor("failure", [each.message_key for each in found]),
    )


@noun.get("/{campaignId}/attachments")
async def list_attachments(at: Context, campaign_id: str) -> CampaignAttachmentListResponse:
    """List the files that are attached to every message of the campaign."""
    return _attachments(await campaigns(at).find(campaign_id, tenant_id=at.tenant_id))


@noun.post("/{campaignId}/attachments", scope=MANAGE, audit="campaign.attach", status=HTTPStatus.CREATED)
async def attach(at: Context, campaign_id: str, wanted: Attachment) -> CampaignAttachmentListResponse:
    """Attach a file to a draft. It is stored once and attached to every message of the campaign."""
    return _attachments(await campaigns(at).attach(actor(at), campaign_id, [wanted.decoded()]))


@noun.delete("/{campaignId}/attachments/{attachmentId}", scope=MANAGE, audit="campaign.detach")
async def detach(at: Context, campaign_id: str, attachment_id: str) -> CampaignAttachmentListResponse:
    """Remove a file from a draft, and delete its content."""
    return _attachments(await campaigns(at).detach(actor(at), campaign_id, attachment_id))


@noun.get("/{campaignId}/excluded.csv")
async def download_excluded(at: Context, campaign_id: str, query: ExclusionQuery) -> CsvFile:
    """Download the excluded contacts with their reasons as CSV."""
    found = excluded_contacts(at.database, await _audience(at, campaign_id), at.clock.now(), reason=query.reason)
    return CsvFile(excluded_csv(found), f"excluded-{campaign_id}.csv")


def _not_on_lists(found: ExcludedContactListResponse, _: Mapping[str, Any]) -> Iterator[Line]:
    if found.not_on_lists:
        text = f"Contacts who are not on its lists, and so not in the audience: {found.not_on_lists:,}."
        yield Aside(text, tone=None)


@noun.get(
    "/{campaignId}/excluded",
    command="excluded",
    csv=download_excluded,
    shown=Table(
        "contacts",
        {"Address": "email", "Reason": "explanation"},
        nothing="Nobody in the audience is excluded.",
        then=_not_on_lists,
    ),
    command_defaults={"limit": 100},
)
async def excluded(at: Context, campaign_id: str, page: ExclusionPage) -> ExcludedContactListResponse:
    """List the contacts in the audience who may not receive the campaign, with the reason for each."""
    named = await _audience(at, campaign_id)
    after = decode_cursor("excluded", page.cursor)[0] if page.cursor is not None else 0
    async with at.database.read() as tx:
        found = await list_excluded(tx, named, at.clock.now(), limit=page.limit, after=after, reason=page.reason)
        not_on_lists = await count_not_on_lists(tx, named)
    return ExcludedContactListResponse(
        not_on_lists=not_on_lists,
        contacts=[excluded_contact_response(contact) for contact in found],
        next_cursor=page.next_cursor("excluded", [contact.key for contact in found]),
    )


async def _audience(at: Context, campaign_id: str) -> NamedAudience:
    campaign = await find(at, campaign_id)
    async with at.database.read() as tx:
        return await named_audience(tx, at.tenant_id, campaign.definition)


async def _recipients(at: Context, campaign_id: str, page: Page, kind: str) -> list[FailedRecipient]:
    list_page = list_failed if kind == "failure" else list_in_doubt
    campaign = await find(at, campaign_id)
    after = decode_cursor(kind, page.cursor)[0] if page.cursor is not None else 0
    async with at.database.read() as tx:
        position = await progress.find_position(tx, campaign.key)
        return [] if position is None else await list_page(tx, position.lane, limit=page.limit, after=after)


def _attachments(campaign: Campaign) -> CampaignAttachmentListResponse:
    return CampaignAttachmentListResponse(attachments=attachment_responses(campaign))
