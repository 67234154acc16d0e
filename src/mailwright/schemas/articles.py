"""Models of articles, slices and article runs. JSON names are the same as in slice files."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from mailwright.domain.divisions import MAX_DIVISION_LENGTH
from mailwright.schemas.base import SnakeResponseModel, Time, extend
from mailwright.schemas.paging import Page
from mailwright.sources.api.fields import Address, Matching
from mailwright.sources.api.validation import FieldError, RequestInvalid
from mailwright.sources.articles import slice_input
from mailwright.sources.articles.assembly import Inclusion, PublishStatus, Slice
from mailwright.sources.articles.preview import ArticleCoverage, ArticlePreview, SliceInclusion
from mailwright.sources.articles.profiles.reads import ProfileRead
from mailwright.sources.articles.runs import ArticleRun, RunRequest, RunVariant
from mailwright.sources.articles.slice_input import SliceRefused

MAX_CONDITIONS = 20
MAX_DIVISIONS = 200
_UUID = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
_NUMBER = Field(ge=-slice_input.MAX_NUMBER, le=slice_input.MAX_NUMBER)
_KEY = Matching(slice_input.KEY_PATTERN, "must contain only a-z, 0-9 and -, for example spring-2027")

ArticleKey = Annotated[str, _KEY, Field(max_length=slice_input.MAX_KEY_LENGTH)]
CampaignTag = Annotated[str, _KEY, Field(max_length=100)]
AudienceFilter = Annotated[dict[str, str], Field(max_length=MAX_CONDITIONS)]
BatchId = Annotated[
    str,
    Matching(_UUID, "must be a UUID, for example 7f9c24e8-3b12-4c5d-9e6f-0a1b2c3d4e5f"),
    AfterValidator(str.lower),
    Field(json_schema_extra={"format": "uuid"}),
]
SliceTime = Annotated[str, Field(max_length=64, json_schema_extra={"format": "date-time"})]


class SnakeRequestModel(BaseModel):
    """An unknown field is an error, never silently ignored."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


class ArticleSendRequest(SnakeRequestModel):
    """The tag and the batch id identify the run, so repeating the request changes nothing."""

    campaign_tag: CampaignTag
    article_key: ArticleKey
    audience_filter: Annotated[
        AudienceFilter | None,
        Field(description='Filter by division, attribute, `list` or `ocd_id`, for example `{"state": "OH"}`.'),
    ] = None
    send_batch_id: BatchId
    override_sender_rules: Annotated[
        bool,
        Field(
            description="Send even if the rules of the large mailbox providers are not met. The audit log records it."
        ),
    ] = False

    def run_request(self) -> RunRequest:
        return RunRequest(self.campaign_tag, self.article_key, self.send_batch_id, self.audience_filter or {})


class SliceRequest(SnakeRequestModel):
    """A slice is identified by its position: article, `section_order`, `scope_ocd_id` and `sort_index`."""

    article_key: ArticleKey
    section_order: Annotated[int, _NUMBER] = 1
    sort_index: Annotated[int, _NUMBER] = 0
    is_headline: bool = False
    title: Annotated[str | None, Field(max_length=slice_input.MAX_TITLE_LENGTH)] = None
    dek: Annotated[str | None, Field(max_length=slice_input.MAX_DEK_LENGTH)] = None
    body_md: Annotated[str | None, Field(max_length=slice_input.MAX_BODY_BYTES)] = None
    link_url: Annotated[str | None, Field(max_length=slice_input.MAX_URL_LENGTH)] = None
    scope_ocd_id: Annotated[str | None, Field(max_length=MAX_DIVISION_LENGTH)] = None
    tags: Annotated[list[str], Field(max_length=slice_input.MAX_TAGS)] = []
    publish_status: PublishStatus = PublishStatus.DRAFT
    publish_at: SliceTime | None = None
    expires_at: SliceTime | None = None

    def slice(self) -> Slice:
        try:
            return slice_input.parse_slice(self.model_dump())
        except SliceRefused as error:
            raise SliceInvalid(error) from error


class ArticlePreviewRequest(SnakeRequestModel):
    """The recipient of the preview: a contact by address, or an example recipient in these divisions."""

    email: Address | None = None
    ocd_ids: Annotated[
        list[Annotated[str, Field(max_length=MAX_DIVISION_LENGTH)]], Field(max_length=MAX_DIVISIONS)
    ] = []


class ArticleCoverageRequest(SnakeRequestModel):
    audience_filter: AudienceFilter | None = None


class ArticleRunPage(Page):
    article_key: Annotated[
        str | None, Field(max_length=63, alias="article_key", description="Only runs of this article.")
    ] = None


class SliceInvalid(RequestInvalid):
    """The slice is invalid."""

    code = SliceRefused.code

    def __init__(self, refused: SliceRefused) -> None:
        super().__init__([FieldError(problem.field, problem.code, problem.message) for problem in refused.problems])


class SliceResponse(SnakeResponseModel):
    slice_id: str
    article_key: str
    section_order: int
    sort_index: int
    is_headline: bool
    title: str | None
    dek: str | None
    body_md: str
    link_url: str | None
    scope_ocd_id: str | None
    tags: list[str]
    publish_status: PublishStatus
    publish_at: Time | None
    expires_at: Time | None


class SliceListResponse(SnakeResponseModel):
    """The slices in the order in which they appear in the email."""

    slices: list[SliceResponse]


class SliceImportResponse(SnakeResponseModel):
    added: int
    changed: int
    unchanged: int


class ArticleSummaryResponse(SnakeResponseModel):
    article_key: str
    slices: int
    published: int
    updated_at: Time


class ArticleListResponse(SnakeResponseModel):
    articles: list[ArticleSummaryResponse]


class RefusedProfileResponse(SnakeResponseModel):
    """A row of the table that cannot be used. The address is masked."""

    email: str
    reason: str


class ProfileReadResponse(SnakeResponseModel):
    """The recipients that a run reads from a table of another program.

    `matched`: different addresses that match the filter. `refused`: rows that cannot be used. `excluded`: rows with
    the status unsubscribed or bounced. `suppressed`: matching addresses that get no bulk email. `problem`: why the
    table cannot be read now.
    """

    source: str
    is_complete: bool
    rows_read: int
    matched: int
    refused: int
    excluded: int
    suppressed: int
    refusals: list[RefusedProfileResponse]
    problem: str | None


class ArticleRunResponse(SnakeResponseModel):
    """`recipients`: contacts who get a message. `skipped`: contacts of the audience whom no slice matches.

    `recipients_from`: the table of another program with the recipients; null if they are contacts.
    """

    run_id: str
    campaign_tag: str
    article_key: str
    send_batch_id: str
    audience_filter: dict[str, str]
    list_key: str
    actor: str
    started_at: Time
    is_walked: bool
    recipients: int
    skipped: int
    failure: str | None
    hold_reason: str | None
    recipients_from: ProfileReadResponse | None


class ArticleSendResponse(ArticleRunResponse):
    """`is_replay`: true if the batch was requested before, so that nothing changed."""

    is_replay: bool


class RunVariantResponse(SnakeResponseModel):
    """A variant: the slices that all its recipients get."""

    slice_ids: list[str]
    recipients: int


class ArticleRunDetailResponse(ArticleRunResponse):
    """`counts`: number of messages by status."""

    counts: dict[str, int]
    variants: list[RunVariantResponse]


class ArticleRunListResponse(SnakeResponseModel):
    runs: list[ArticleRunResponse]
    next_cursor: str | None


class SliceDecisionResponse(SnakeResponseModel):
    """Why a slice is in the article or not."""

    slice_id: str
    scope_ocd_id: str | None
    section_order: int
    sort_index: int
    title: str | None
    is_included: bool
    fate: Inclusion
    reason: str


class ArticlePreviewResponse(SnakeResponseModel):
    """All fields except `slices` are null if the recipient gets no email."""

    title: str | None
    dek: str | None
    body_md: str | None
    subject: str | None
    html: str | None
    text: str | None
    ocd_ids: list[str]
    slices: list[SliceDecisionResponse]


class VariantCoverageResponse(SnakeResponseModel):
    title: str
    recipients: int
    slices: list[SliceResponse]


class ArticleCoverageResponse(SnakeResponseModel):
    """`unread`: published slices that no recipient gets.

    `recipients_from`: the table of another program with the recipients; null if they are contacts. There, an address
    in several rows counts once for each spelling.
    """

    article_key: str
    list_key: str
    recipients_from: str | None
    recipients: int
    skipped: int
    variants: list[VariantCoverageResponse]
    unread: list[SliceResponse]


def article_run_response(run: ArticleRun) -> ArticleRunResponse:
    return ArticleRunResponse(
        run_id=run.run_id,
        campaign_tag=run.campaign_tag,
        article_key=run.article_key,
        send_batch_id=run.send_batch_id,
        audience_filter=run.audience_filter,
        list_key=run.list_key,
        actor=run.actor,
        started_at=run.started_at,
        is_walked=run.enqueue_ended_at is not None,
        recipients=run.recipients,
        skipped=run.skipped,
        failure=run.failure,
        hold_reason=run.hold_reason,
        recipients_from=None if run.read is None else profile_read_response(run.read),
    )


def profile_read_response(read: ProfileRead) -> ProfileReadResponse:
    return ProfileReadResponse(
        source=read.source,
        is_complete=read.ended_at is not None,
        rows_read=read.rows_read,
        matched=read.matched,
        refused=read.refused,
        excluded=read.excluded,
        suppressed=read.suppressed,
        refusals=read.refusals,
        problem=read.problem,
    )


def article_send_response(run: ArticleRun, *, is_replay: bool) -> ArticleSendResponse:
    return extend(ArticleSendResponse, article_run_response(run), is_replay=is_replay)


def article_run_detail_response(
    run: ArticleRun, counts: dict[str, int], variants: list[RunVariant]
) -> ArticleRunDetailResponse:
    return extend(ArticleRunDetailResponse, article_run_response(run), counts=counts, variants=variants)


def article_preview_response(preview: ArticlePreview) -> ArticlePreviewResponse:
    article, rendered = preview.article, preview.rendered
    return ArticlePreviewResponse(
        title=article and article.title,
        dek=article and article.dek,
        body_md=article and article.body_md,
        subject=rendered and rendered.subject,
        html=rendered and rendered.html,
        text=rendered and rendered.text,
        ocd_ids=preview.recipient.divisions,
        slices=[slice_decision_response(decision) for decision in preview.slices],
    )


def slice_decision_response(decision: SliceInclusion) -> SliceDecisionResponse:
    return SliceDecisionResponse(
        slice_id=decision.slice.slice_id,
        scope_ocd_id=decision.slice.scope_ocd_id,
        section_order=decision.slice.section_order,
        sort_index=decision.slice.sort_index,
        title=decision.slice.title,
        is_included=decision.inclusion.is_included,
        fate=decision.inclusion,
        reason=decision.reason,
    )


def article_coverage_response(article_key: str, coverage: ArticleCoverage) -> ArticleCoverageResponse:
    return ArticleCoverageResponse(
        article_key=article_key,
        list_key=coverage.list_key,
        recipients_from=coverage.source,
        recipients=coverage.recipients,
        skipped=coverage.skipped,
        variants=coverage.variants,
        unread=coverage.unread,
    )
