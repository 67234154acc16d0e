"""The API's requests and answers. Made by tools/client.py; `make docs` makes it anew."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, TypeAlias

from pydantic import Field

from mailwright.client.model import Answer, Request

# Later versions may know more words than these.
CampaignStatus: TypeAlias = Literal["DRAFT", "READY", "SENDING", "PAUSED", "SENT", "CANCELLED"] | str
ContactStatus: TypeAlias = Literal["active", "unsubscribed", "bounced"] | str
Deed: TypeAlias = (
    Literal[
        "cancel",
        "retry",
        "resolve",
        "activate",
        "lift_suppression",
        "explain_campaign",
        "preflight_campaign",
        "start_campaign",
        "pause_campaign",
        "resume_campaign",
        "cancel_campaign",
        "edit_limits",
        "choose_winner",
        "retry_failed",
        "accept_failures",
        "find_doubts",
    ]
    | str
)
Fanout: TypeAlias = Literal["pending", "sent", "skipped", "failed", "expired"] | str
Fate: TypeAlias = Literal["for_everyone", "in_scope", "out_of_scope", "draft", "archived", "not_yet", "expired"] | str
Format: TypeAlias = Literal["html", "mjml", "markdown"] | str
PublishStatus: TypeAlias = Literal["draft", "published", "archived"] | str
QueueStatus: TypeAlias = Literal["PENDING", "PROCESSING", "COMPLETED"] | str
Resolution: TypeAlias = Literal["sent", "resend", "close"] | str
RunStatus: TypeAlias = Literal["accepted", "gathering", "queueing", "sending", "sent", "refused"] | str
Source: TypeAlias = Literal["api", "campaign", "mailout", "article", "notification"] | str
Status: TypeAlias = (
    Literal["PENDING", "SENT_ATTEMPT", "RETRY_SCHEDULED", "SENT", "FAILED", "IN_DOUBT", "CLOSED_UNKNOWN", "CANCELLED"]
    | str
)
Waits: TypeAlias = Literal["locked", "retry", "delivery_window", "snoozed", "maximum", "dedupe"] | str


class AcceptedAnswer(Answer):
    """The message is on disk. `jobId` is the same as `outboxId`."""

    job_id: str
    outbox_id: str
    request_id: str
    status: Status


class AcceptedItem(Answer):
    outbox_id: str
    status: Status


class ActionAnswer(Answer):
    """What this caller can do now: the request that does it, as it is to be sent."""

    body: dict[str, Any] | None
    do: Deed
    method: str
    path: str


class ActiveCampaign(Answer):
    """`rate` is in mails per second; `eta` is null while nothing moves."""

    counts: dict[str, int]
    eta: datetime | None
    id: str
    name: str
    percent: float
    rate: float


class Alive(Answer):
    status: Literal["ok"]


class ArchiveAnswer(Answer):
    """`urls`: where it can be read, one for each of its public lists; none where it is not open to everyone."""

    archived_at: datetime | None
    campaign_id: str
    is_public: bool
    urls: list[str]


class ArchiveRequest(Request):
    """Whether everyone may read the campaign."""

    is_public: bool


class ArticleLine(Answer):
    article_key: str = Field(alias="article_key")
    published: int
    slices: int
    updated_at: datetime = Field(alias="updated_at")


class ArticleList(Answer):
    articles: list[ArticleLine]


class ArticlePreviewAnswer(Answer):
    """Everything but `slices` is null where the reader gets nothing."""

    body_md: str | None = Field(alias="body_md")
    dek: str | None
    html: str | None
    ocd_ids: list[str] = Field(alias="ocd_ids")
    slices: list[JudgedAnswer]
    subject: str | None
    text: str | None
    title: str | None


class ArticlePreviewRequest(Request):
    """As whom: a contact by the address, or anybody in these divisions."""

    email: str | None = None
    ocd_ids: list[str] | None = Field(default=None, alias="ocd_ids")


class ArticleSendRequest(Request):
    """The tag and the batch id name the sending: both again change nothing."""

    article_key: str = Field(alias="article_key")
    campaign_tag: str = Field(alias="campaign_tag")
    send_batch_id: str = Field(alias="send_batch_id")
    audience_filter: dict[str, str] | None = Field(default=None, alias="audience_filter")


class Attachment(Request):
    content: str
    filename: str
    content_id: str | None = None
    content_type: str | None = None


class AttemptAnswer(Answer):
    """What came of one attempt: `status` and the beginning of the answer, or `error` where no whole answer came."""

    answer: str
    at: datetime
    attempt: int
    error: str | None
    milliseconds: int
    status: int | None


class BatchAnswer(Answer):
    """One result for each item, in the order of the items."""

    results: list[AcceptedItem | RefusedItem]


class BatchRequest(Request):
    """Up to 1,000 mails. Each is judged on its own: a bad one is answered with its error and stops no other."""

    messages: list[SendRequest]


class CampaignAnswer(Answer):
    """`definition` is what was written down, as a PUT takes it. The rest is null before the start."""

    campaign_id: str
    counts: CampaignCounts | None
    created_at: datetime
    defer_reason: str | None
    deferred_until: datetime | None
    definition: dict[str, Any]
    failed_count: int
    finished_at: datetime | None
    name: str
    percent: float | None
    queue_status: QueueStatus | None
    scheduled_at: datetime | None
    started_at: datetime | None
    status: CampaignStatus
    updated_at: datetime


class CampaignContent(Request):
    """Written here (`subject`, `body`), or a template by its id, whose subject may be replaced."""

    body: str | None = None
    format: Format | None = None
    preheader: str | None = None
    subject: str | None = None
    template_id: str | None = None
    text: str | None = None


class CampaignCounts(Answer):
    """`planned`: as many as were in the audience at the start; `recipients`: as many as have become messages."""

    cancelled: int
    closed_unknown: int
    failed: int
    in_doubt: int
    planned: int
    recipients: int
    sending: int
    sent: int
    waiting: int
    withdrawn: int


class CampaignExplanationAnswer(Answer):
    """Why a campaign is not sent yet, as sentences and as data."""

    actions: list[ActionAnswer]
    campaign_id: str
    detail: str | None
    reason: str | None
    sentence: str
    state: str
    then: str | None
    until: datetime | None
    what_would_change: str | None


class CampaignLimits(Request):
    """Of this campaign alone; the tenant's and the installation's hold besides."""

    daily_limit: int | None = None
    in_readers_time_zone: bool | None = None
    interval_ms: int | None = None
    one_at_atime: bool | None = Field(default=None, alias="oneAtATime")
    rate_per_hour: int | None = None
    rate_per_second: int | None = None
    timezone: str | None = None
    warmup: bool | None = None
    working_hours: str | None = None


class CampaignLine(Answer):
    """A campaign and what holds it, if something does. `deferredUntil` is null where only a person ends the
    wait.
    """

    campaign_id: str
    created_at: datetime
    defer_reason: str | None
    deferred_until: datetime | None
    finished_at: datetime | None
    name: str
    scheduled_at: datetime | None
    started_at: datetime | None
    status: CampaignStatus
    updated_at: datetime


class CampaignList(Answer):
    campaigns: list[CampaignLine]
    next_cursor: str | None


class CampaignPreflightAnswer(Answer):
    """What starting would say: `problems` keep it from starting, `warnings` do not."""

    may_start: bool
    planned: int
    problems: list[ReasonAnswer]
    warnings: list[WarningAnswer]


class CampaignRequest(Request):
    """What a campaign says, to whom, and when."""

    content: CampaignContent
    name: str
    experiment: Experiment | None = None
    filter: dict[str, Any] | None = None
    from_: str | None = Field(default=None, alias="from")
    limits: CampaignLimits | None = None
    lists: list[str] | None = None
    reply_to: str | None = None
    scheduled_at: datetime | None = None
    segment: str | None = None
    variables: dict[str, Any] | None = None


class CampaignTestAnswer(Answer):
    mails: list[TriedMail]


class CampaignTestRequest(Request):
    """Where the mails go, and whose name and attributes fill them."""

    addresses: list[str]
    as_contact: str | None = None


class ColumnAnswer(Answer):
    target: str
    title: str


class ContactAnswer(Answer):
    """All that is known of a person, with their latest mails."""

    attributes: dict[str, Any]
    bounce_subtype: str | None
    bounce_type: str | None
    contact_id: str
    created_at: datetime
    email: str
    lists: list[MembershipAnswer]
    locale: str | None
    messages: list[MessageLine]
    name: str | None
    status: str
    status_source: str | None
    status_updated_at: datetime | None
    suppressions: list[SuppressionAnswer]
    tags: list[str]
    timezone: str | None


class ContactLine(Answer):
    """A person, and whether they may be written to."""

    attributes: dict[str, Any]
    bounce_subtype: str | None
    bounce_type: str | None
    contact_id: str
    created_at: datetime
    email: str
    locale: str | None
    name: str | None
    status: str
    status_source: str | None
    status_updated_at: datetime | None
    timezone: str | None


class ContactList(Answer):
    contacts: list[ContactLine]
    next_cursor: str | None


class ContactRequest(Request):
    """What is told of a person."""

    attributes: dict[str, Any] | None = None
    locale: str | None = None
    name: str | None = None
    tags: list[str] | None = None
    timezone: str | None = None


class CourseAnswer(Answer):
    """Null times: not within the time that was looked at."""

    campaign_id: str
    finishes_at: datetime | None
    name: str
    remaining: int
    segments: list[StretchAnswer]
    starts_at: datetime | None


class CoverageAnswer(Answer):
    """`unread`: slices that are published, and that nobody in the audience gets."""

    article_key: str = Field(alias="article_key")
    list_key: str = Field(alias="list_key")
    recipients: int
    skipped: int
    unread: list[SliceAnswer]
    variants: list[CoveredAnswer]


class CoverageRequest(Request):
    audience_filter: dict[str, str] | None = Field(default=None, alias="audience_filter")


class CoveredAnswer(Answer):
    recipients: int
    slices: list[SliceAnswer]
    title: str


class DeadLetterAnswer(Answer):
    attempts: int
    code: str
    created_at: datetime
    outbox_id: str
    reason: str
    request_id: str
    source: str
    subject: str
    to: str


class DeadLetterList(Answer):
    dead_letters: list[DeadLetterAnswer]
    next_cursor: str | None


class DeclaredVariable(Request):
    """A variable that the template uses. The sample is shown in previews where nothing is given."""

    name: str
    required: bool | None = None
    sample: Any = None


class DeedAnswer(Answer):
    """`actor` is `console` for commands on the machine itself, `api` for keys."""

    action: str
    actor: str
    created_at: datetime
    detail: dict[str, Any]
    subject: str


class DeliveryAnswer(Answer):
    """`deliveryId` is the `id` that the receiver sees, however often it is told."""

    attempts: int
    created_at: datetime
    delivery_id: str
    ended_at: datetime | None
    event_at: datetime
    log: list[AttemptAnswer]
    next_attempt_at: datetime | None
    outbox_id: str | None
    status: Literal["PENDING", "DELIVERED", "FAILED"] | str
    type: str
    webhook_id: str


class DeliveryList(Answer):
    deliveries: list[DeliveryAnswer]
    next_cursor: str | None


class DifferenceAnswer(Answer):
    """In the form of `diff -u`; empty where nothing differs."""

    difference: str


class DuplicateRequest(Request):
    name: str | None = None


class EmittedAnswer(Answer):
    """`isRepeat`: the same was told within the window, and nothing was written."""

    is_repeat: bool
    notifications: int
    open_event_id: int


class EventAnswer(Answer):
    created_at: datetime
    metadata: dict[str, Any]
    type: str


class EventRequest(Request):
    """What happened, to which subject: the term, the campus and the index number name it, as subscriptions do."""

    campus_code: str
    index_number: str
    status_after: str
    term_id: str
    dedupe_key: str | None = None
    event_at: datetime | None = None
    event_type: str | None = None
    payload: dict[str, Any] | None = None
    section_id: int | None = None
    status_before: str | None = None
    trace_id: str | None = None


class EventsAnswer(Answer):
    """How many reports were new, had come before, or are about no mail of ours."""

    new: int
    repeated: int
    unknown: int


class Experiment(Request):
    """A share of the audience gets the versions in turn; after a while the better one goes to everyone else."""

    variants: list[Variant]
    test_percent: int | None = None
    wait_minutes: int | None = None
    winner_by: Literal["opens", "clicks"] | str | None = None


class ExplanationAnswer(Answer):
    """Why a message is not sent yet, as a sentence and as data."""

    actions: list[ActionAnswer]
    detail: str | None
    outbox_id: str
    reason: str | None
    sentence: str
    state: str
    until: str | None
    what_would_change: str | None


class ExtendRequest(Request):
    segment: str | None = None


class ExtendedAnswer(Answer):
    campaign_id: str
    counts: CampaignCounts | None
    created_at: datetime
    defer_reason: str | None
    deferred_until: datetime | None
    definition: dict[str, Any]
    failed_count: int
    finished_at: datetime | None
    name: str
    newcomers: int
    percent: float | None
    queue_status: QueueStatus | None
    scheduled_at: datetime | None
    started_at: datetime | None
    status: CampaignStatus
    updated_at: datetime


class FailureAnswer(Answer):
    """Someone whose mail did not leave, and what the last attempt said."""

    attempts: int
    email: str
    error_code: str | None
    error_message: str | None
    failed_at: datetime | None
    outbox_id: str


class FailureList(Answer):
    failures: list[FailureAnswer]
    next_cursor: str | None


class FilterRequest(Request):
    filter: dict[str, Any]


class FindingAnswer(Answer):
    code: str
    level: str
    sentence: str
    where: str


class ForecastAnswer(Answer):
    assumptions: list[str]
    campaigns: list[CourseAnswer]
    computed_at: datetime
    is_rate_measured: bool
    looked_until: datetime
    rate_per_second: float


class ImageAnswer(Answer):
    """`name` is what templates call it, `url` what readers load."""

    created_at: datetime
    name: str
    size_bytes: int
    url: str


class ImageList(Answer):
    images: list[ImageAnswer]
    next_cursor: str | None


class ImportAnswer(Answer):
    """A file of contacts, and how far it has come."""

    added: int
    changed: int
    columns: list[ColumnAnswer]
    created_at: datetime
    file_name: str
    finished_at: datetime | None
    import_id: str
    list_key: str | None
    read_bytes: int
    refused: int
    rows: int
    size_bytes: int
    unchanged: int
    warnings: list[str]


class ImportList(Answer):
    imports: list[ImportAnswer]


class ImportPreviewAnswer(Answer):
    """The first rows of a file, as an import would read them."""

    columns: list[ColumnAnswer]
    delimiter: str
    encoding: str
    rows: list[dict[str, Any]]
    warnings: list[str]


class ItemError(Answer):
    code: str
    detail: str
    field: str | None


class JoiningRequest(Request):
    """Whoever joins a list; `confirmed` if they have agreed elsewhere, so that they are not asked again."""

    email: str
    confirmed: bool | None = None


class JournalAnswer(Answer):
    deeds: list[DeedAnswer]
    next_cursor: str | None


class JudgedAnswer(Answer):
    """Why a slice is, or is not, in the article."""

    fate: Fate
    is_included: bool = Field(alias="is_included")
    reason: str
    scope_ocd_id: str | None = Field(alias="scope_ocd_id")
    section_order: int = Field(alias="section_order")
    slice_id: str = Field(alias="slice_id")
    sort_index: int = Field(alias="sort_index")
    title: str | None


class ListAnswer(Answer):
    created_at: datetime
    description: str | None
    is_public: bool
    list_key: str
    name: str
    requires_confirmation: bool


class ListChange(Request):
    """What is not given stays as it is; an empty description takes it away."""

    description: str | None = None
    is_public: bool | None = None
    name: str | None = None
    requires_confirmation: bool | None = None


class ListList(Answer):
    lists: list[ListAnswer]


class ListRequest(Request):
    """A list that readers may join and leave."""

    list_key: str
    description: str | None = None
    is_public: bool | None = None
    name: str | None = None
    requires_confirmation: bool | None = None


class MailoutAnswer(Answer):
    """`runId` is also the id of its campaign, once it is in line: what can be done to campaigns can be done to
    it.

    `errorCode` tells why it was refused or, once it is sent, why its page can no longer be told how it went.
    """

    counts: MailoutCounts | None
    created_at: datetime
    delay: MailoutDelay | None
    error_code: str | None
    error_message: str | None
    finished_at: datetime | None
    is_test: bool | None
    notion_page_id: str
    reported_at: datetime | None
    run_id: str
    status: RunStatus
    subject: str | None
    wait: MailoutWait | None


class MailoutCounts(Answer):
    """Where its mails stand. `withdrawn`: left before their turn."""

    cancelled: int
    failed: int
    in_doubt: int
    planned: int
    sent: int
    waiting: int
    withdrawn: int


class MailoutDelay(Answer):
    """What it waits for: the last try failed, `failures` of them in a row, and the next one is at `nextTryAt`."""

    code: str
    failures: int
    message: str
    next_try_at: datetime


class MailoutList(Answer):
    mailouts: list[MailoutAnswer]
    next_cursor: str | None


class MailoutRequest(Request):
    notion_page_id: str


class MailoutWait(Answer):
    """What keeps it from being sent here, by the names that explanations of messages and campaigns have."""

    reason: str
    sentence: str
    state: str
    what_would_change: str


class MembershipAnswer(Answer):
    is_pending: bool
    list_key: str
    subscribed_at: datetime | None
    unsubscribed_at: datetime | None


class MembershipRequest(Request):
    """Whoever joins or leaves a list."""

    email: str


class MessageAnswer(Answer):
    """A message with its whole story, the oldest event first."""

    attempts: int
    company_id: str
    created_at: datetime
    defer_reason: str | None
    duration_ms: int | None
    error_category: str | None
    error_code: str | None
    error_reason: str | None
    events: list[EventAnswer]
    expires_at: datetime | None
    external_id: str | None
    failed_at: datetime | None
    metadata: dict[str, Any]
    next_attempt_at: datetime | None
    outbox_id: str
    processed_at: datetime | None
    provider: str | None
    provider_message_id: str | None
    recipient_id: str | None
    request_id: str
    scheduled_at: datetime | None
    sent_at: datetime | None
    ses_message_id: str | None
    source: str
    status: Status
    subject: str
    tags: list[str]
    to: str


class MessageLine(Answer):
    """Where a message stands."""

    attempts: int
    created_at: datetime
    defer_reason: str | None
    duration_ms: int | None
    error_category: str | None
    error_code: str | None
    error_reason: str | None
    external_id: str | None
    failed_at: datetime | None
    next_attempt_at: datetime | None
    outbox_id: str
    processed_at: datetime | None
    provider: str | None
    provider_message_id: str | None
    recipient_id: str | None
    request_id: str
    scheduled_at: datetime | None
    sent_at: datetime | None
    ses_message_id: str | None
    source: str
    status: Status
    subject: str
    to: str


class MessageList(Answer):
    messages: list[MessageLine]
    next_cursor: str | None


class NotificationAnswer(Answer):
    """As the queue has it. `wait` says why a pending one is not sent now; `outlook` what happens to one that is
    due.
    """

    attempts: int
    created_at: str | None
    dedupe_key: str
    error: Any
    last_attempt_at: str | None
    locked_at: str | None
    locked_by: str | None
    notification_id: int
    open_event_id: int
    outbox_id: str | None
    outlook: str | None
    status: str
    subscription_id: int
    to: str | None
    wait: WaitAnswer | None


class NotificationList(Answer):
    next_cursor: str | None
    notifications: list[NotificationAnswer]


class PreflightAnswer(Answer):
    """What blocks comes first; a mail with nothing but warnings may go."""

    findings: list[FindingAnswer]
    may_go: bool


class PreviewAnswer(Answer):
    html: str
    locale: str
    subject: str
    template_id: str
    text: str
    version: int


class PreviewRequest(Request):
    """Values to render with, and for whom: the newest version for a locale, or a version by its number."""

    locale: str | None = None
    variables: dict[str, Any] | None = None
    version: int | None = None


class Problem(Answer):
    """RFC 9457. `code` is stable: programs decide by it, people read `detail`."""

    code: str
    detail: str
    status: int
    title: str
    type: str
    errors: list[ProblemField] | None = None


class ProblemField(Answer):
    code: str
    field: str
    message: str


class ProgressAnswer(Answer):
    """The campaign that is being sent, or the one that goes on first; how many wait besides; what holds it."""

    active_campaign: ActiveCampaign | None = Field(alias="active_campaign")
    next_campaign_at: datetime | None = Field(alias="next_campaign_at")
    next_run_at: datetime | None = Field(alias="next_run_at")
    queued_count: int = Field(alias="queued_count")
    reason_code: str | None = Field(alias="reason_code")


class ProviderAnswer(Answer):
    """`left_alone`: no worker hands it anything until then. `unused`: no worker has it in its route."""

    provider: str
    quota: QuotaAnswer | None
    status: Literal["ok", "left_alone", "unused"] | str
    unavailable_reason: str | None
    unavailable_until: datetime | None
    workers: int


class ProviderList(Answer):
    providers: list[ProviderAnswer]


class QuotaAnswer(Answer):
    """What a provider said, and how much of it was used since. A rate that it did not confirm for long is not
    kept.
    """

    detail: str
    failed_at: datetime | None
    failure: str | None
    is_rate_kept: bool
    limit_per_day: int | None
    missed: int
    rate_per_second: int | None
    remaining: int | None
    sent_since: int
    synced_at: datetime


class Readiness(Answer):
    """`ready`, or which part is not."""

    parts: dict[str, str]
    providers: dict[str, Literal["ok", "left_alone"] | str]
    status: Literal["ready", "not_ready"] | str


class ReasonAnswer(Answer):
    code: str
    field: str
    message: str


class Recipient(Request):
    """Whom the mail is for, beside the address: an id of ours or an id of the caller's own."""

    email: str | None = None
    external_id: str | None = None
    name: str | None = None
    recipient_id: str | None = None


class RefusedItem(Answer):
    error: ItemError


class ResolveRequest(Request):
    """What was found out about a mail in doubt."""

    as_: Resolution = Field(alias="as")


class RetriedAnswer(Answer):
    campaign_id: str
    counts: CampaignCounts | None
    created_at: datetime
    defer_reason: str | None
    deferred_until: datetime | None
    definition: dict[str, Any]
    failed_count: int
    finished_at: datetime | None
    name: str
    percent: float | None
    queue_status: QueueStatus | None
    retried: int
    scheduled_at: datetime | None
    started_at: datetime | None
    status: CampaignStatus
    updated_at: datetime


class RunAnswer(Answer):
    """`recipients` have a message; `skipped` are in the audience, and none of the slices is for them."""

    actor: str
    article_key: str = Field(alias="article_key")
    audience_filter: dict[str, str] = Field(alias="audience_filter")
    campaign_tag: str = Field(alias="campaign_tag")
    failure: str | None
    is_walked: bool = Field(alias="is_walked")
    list_key: str = Field(alias="list_key")
    recipients: int
    run_id: str = Field(alias="run_id")
    send_batch_id: str = Field(alias="send_batch_id")
    skipped: int
    started_at: datetime = Field(alias="started_at")


class RunList(Answer):
    next_cursor: str | None = Field(alias="next_cursor")
    runs: list[RunAnswer]


class RunStory(Answer):
    """`counts`: how many of its messages stand where, by status."""

    actor: str
    article_key: str = Field(alias="article_key")
    audience_filter: dict[str, str] = Field(alias="audience_filter")
    campaign_tag: str = Field(alias="campaign_tag")
    counts: dict[str, int]
    failure: str | None
    is_walked: bool = Field(alias="is_walked")
    list_key: str = Field(alias="list_key")
    recipients: int
    run_id: str = Field(alias="run_id")
    send_batch_id: str = Field(alias="send_batch_id")
    skipped: int
    started_at: datetime = Field(alias="started_at")
    variants: list[ShareAnswer]


class SegmentAnswer(Answer):
    """A saved question about people, and how many answer to it now."""

    created_at: datetime
    filter: dict[str, Any]
    name: str
    segment_key: str
    sentence: str
    updated_at: datetime


class SegmentChange(Request):
    filter: dict[str, Any] | None = None
    name: str | None = None


class SegmentCount(Answer):
    count: int
    created_at: datetime
    filter: dict[str, Any]
    name: str
    segment_key: str
    sentence: str
    updated_at: datetime


class SegmentList(Answer):
    segments: list[SegmentAnswer]


class SegmentRequest(Request):
    """A question about people, under a key."""

    filter: dict[str, Any]
    segment_key: str
    name: str | None = None


class SendRequest(Request):
    """One mail to one recipient. It says `html` and/or `text` with a `subject`, or names a `templateId`.

    With a `listKey` it is bulk mail of that list: it carries the links to leave, and waits for working hours.
    """

    to: str
    attachments: list[Attachment] | None = None
    bcc: list[str] | None = None
    cc: list[str] | None = None
    expires_at: datetime | None = None
    from_: str | None = Field(default=None, alias="from")
    headers: dict[str, str] | None = None
    html: str | None = None
    list_key: str | None = None
    locale: str | None = None
    metadata: dict[str, Any] | None = None
    recipient: Recipient | None = None
    reply_to: str | None = None
    scheduled_at: datetime | None = None
    subject: str | None = None
    tags: list[str] | None = None
    template_id: str | None = None
    text: str | None = None
    variables: dict[str, Any] | None = None


class SendingAnswer(Answer):
    """`is_replay`: this batch was asked for before, and nothing has changed."""

    actor: str
    article_key: str = Field(alias="article_key")
    audience_filter: dict[str, str] = Field(alias="audience_filter")
    campaign_tag: str = Field(alias="campaign_tag")
    failure: str | None
    is_replay: bool = Field(alias="is_replay")
    is_walked: bool = Field(alias="is_walked")
    list_key: str = Field(alias="list_key")
    recipients: int
    run_id: str = Field(alias="run_id")
    send_batch_id: str = Field(alias="send_batch_id")
    skipped: int
    started_at: datetime = Field(alias="started_at")


class ShareAnswer(Answer):
    """Readers of one variant all got these slices."""

    recipients: int
    slice_ids: list[str] = Field(alias="slice_ids")


class SliceAnswer(Answer):
    article_key: str = Field(alias="article_key")
    body_md: str = Field(alias="body_md")
    dek: str | None
    expires_at: datetime | None = Field(alias="expires_at")
    is_headline: bool = Field(alias="is_headline")
    link_url: str | None = Field(alias="link_url")
    publish_at: datetime | None = Field(alias="publish_at")
    publish_status: PublishStatus = Field(alias="publish_status")
    scope_ocd_id: str | None = Field(alias="scope_ocd_id")
    section_order: int = Field(alias="section_order")
    slice_id: str = Field(alias="slice_id")
    sort_index: int = Field(alias="sort_index")
    tags: list[str]
    title: str | None


class SliceList(Answer):
    """In the order in which a reader of all of them would get them."""

    slices: list[SliceAnswer]


class SliceRequest(Request):
    """A slice is found by its place: the article, `section_order`, `scope_ocd_id` and `sort_index`."""

    article_key: str = Field(alias="article_key")
    body_md: str | None = Field(default=None, alias="body_md")
    dek: str | None = None
    expires_at: datetime | None = Field(default=None, alias="expires_at")
    is_headline: bool | None = Field(default=None, alias="is_headline")
    link_url: str | None = Field(default=None, alias="link_url")
    publish_at: datetime | None = Field(default=None, alias="publish_at")
    publish_status: PublishStatus | None = Field(default=None, alias="publish_status")
    scope_ocd_id: str | None = Field(default=None, alias="scope_ocd_id")
    section_order: int | None = Field(default=None, alias="section_order")
    sort_index: int | None = Field(default=None, alias="sort_index")
    tags: list[str] | None = None
    title: str | None = None


class SlicesTaken(Answer):
    added: int
    changed: int
    unchanged: int


class StartedAnswer(Answer):
    campaign_id: str
    counts: CampaignCounts | None
    created_at: datetime
    defer_reason: str | None
    deferred_until: datetime | None
    definition: dict[str, Any]
    failed_count: int
    finished_at: datetime | None
    name: str
    percent: float | None
    queue_status: QueueStatus | None
    scheduled_at: datetime | None
    started_at: datetime | None
    status: CampaignStatus
    updated_at: datetime
    warnings: list[WarningAnswer]


class StatusAnswer(Answer):
    outbox_id: str
    status: Status


class StretchAnswer(Answer):
    """Sent without a reason: at full pace. A reason and none sent: it waits. Both: in portions, because of it."""

    from_: datetime = Field(alias="from")
    reason: str | None
    sending: int
    to: datetime


class SuppressRequest(Request):
    """An address that is not to be written to, and why."""

    email: str
    list_key: str | None = None
    reason: str | None = None


class SuppressionAnswer(Answer):
    """`listKey` says what is not sent: `*` nothing at all, `general` no bulk mail, any other no mail of that
    list.
    """

    created_at: datetime
    email: str
    list_key: str
    reason: str
    source: str


class SuppressionList(Answer):
    next_cursor: str | None
    suppressions: list[SuppressionAnswer]


class TemplateAnswer(Answer):
    """`body` is what its author wrote, `html` what is sent."""

    body: str
    created_at: datetime
    format: Format
    html: str
    locale: str
    subject: str
    template_id: str
    text: str | None
    variables: list[VariableAnswer]
    version: int


class TemplateLine(Answer):
    """A template with the newest version of each locale, the one for everyone first."""

    newest: list[VersionLine]
    template_id: str


class TemplateList(Answer):
    next_after: str | None
    templates: list[TemplateLine]


class TemplateRequest(Request):
    """A new version, in one of three forms: `html`, `mjml` or `markdown`. Without `text`, one is made from the
    HTML.

    Without a `locale` it is for everyone; with one, for readers of that locale, who must have been left to
    the version for everyone before. Where `variables` are declared, the template may use no others.
    """

    subject: str
    html: str | None = None
    locale: str | None = None
    markdown: str | None = None
    mjml: str | None = None
    text: str | None = None
    variables: list[DeclaredVariable] | None = None


class TriedMail(Answer):
    outbox_id: str
    status: str


class VariableAnswer(Answer):
    name: str
    required: bool
    sample: Any


class Variant(Request):
    """What is different in one version of an experiment."""

    name: str
    body: str | None = None
    subject: str | None = None


class VersionLine(Answer):
    """One version. `locale` is empty for the one that is for everyone; numbers count over all locales."""

    created_at: datetime
    format: Format
    locale: str
    subject: str
    template_id: str
    version: int


class VersionList(Answer):
    versions: list[VersionLine]


class WaitAnswer(Answer):
    """`until` is null where nobody knows when the wait ends."""

    detail: str
    reason: Waits
    until: datetime | None


class WarningAnswer(Answer):
    code: str
    sentence: str
    where: str


class WebhookAnswer(Answer):
    """`state` is what becomes of the next event: `active`, `failing` and told all the same, `paused` until
    somebody edits it, or `off`.
    """

    created_at: datetime
    description: str
    failing_since: datetime | None
    is_active: bool
    pause_reason: str | None
    paused_at: datetime | None
    secrets: int
    state: Literal["active", "failing", "paused", "off"] | str
    types: list[str]
    updated_at: datetime
    url: str
    webhook_id: str


class WebhookList(Answer):
    webhooks: list[WebhookAnswer]


class WebhookRequest(Request):
    """Where to, and of what. Without `types`, of everything that can be told."""

    url: str
    description: str | None = None
    is_active: bool | None = None
    types: (
        list[
            Literal[
                "SENT",
                "FAILED",
                "IN_DOUBT",
                "CLOSED_UNKNOWN",
                "CANCELLED",
                "accepted",
                "delivered",
                "open",
                "click",
                "bounce",
                "complaint",
                "unsubscribe",
                "deferred",
                "joined",
                "left",
            ]
            | str
        ]
        | None
    ) = None


class WebhookSecretAnswer(Answer):
    """`secret` is shown here and nowhere else."""

    created_at: datetime
    description: str
    failing_since: datetime | None
    is_active: bool
    pause_reason: str | None
    paused_at: datetime | None
    secret: str
    secrets: int
    state: Literal["active", "failing", "paused", "off"] | str
    types: list[str]
    updated_at: datetime
    url: str
    webhook_id: str


class WinnerRequest(Request):
    version: str
