"""Articles: slices, previews, coverage and runs. JSON names are the same as in slice files.

`web/api/articles.py` and `mailwright article send` send them.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from mailwright.actions.context import Context
from mailwright.actions.declaration import (
    MANAGE,
    READ,
    CsvFile,
    FileBody,
    Line,
    Moment,
    Noun,
    Option,
    Table,
    TwoLines,
    Upload,
    one_part,
    time_of,
)
from mailwright.app.profiles import open_profiles
from mailwright.domain.divisions import MAX_DIVISION_LENGTH
from mailwright.domain.errors import NotFound
from mailwright.schemas.base import From, SnakeResponseModel, Time, combine
from mailwright.schemas.paging import Page
from mailwright.sources.api.fields import Address, Matching
from mailwright.sources.api.validation import FieldError, RequestInvalid
from mailwright.sources.articles import files, slice_input
from mailwright.sources.articles.assembly import Inclusion, PublishStatus, Slice, SliceSet
from mailwright.sources.articles.files import FilesRefused
from mailwright.sources.articles.preview import ArticlePreviews
from mailwright.sources.articles.runs import ArticleRuns, RunRequest, UnknownArticle
from mailwright.sources.articles.slice_input import SliceRefused
from mailwright.sources.articles.slices import SliceStore

noun = Noun(
    "article",
    "Articles: one newsletter, assembled per recipient from slices.",
    "/v1/articles",
    parameters={"article_key": ("KEY", "The article key, for example spring-vote.")},
    is_strict=True,
)

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
        return slice_input.parse_slice(self.model_dump())


class ArticlePreviewRequest(SnakeRequestModel):
    """The recipient of the preview: a contact by address, or an example recipient in these divisions."""

    email: Annotated[Address | None, Option("--as", metavar="EMAIL"), Field(description="Preview as this contact.")] = (
        None
    )
    ocd_ids: Annotated[
        list[Annotated[str, Field(max_length=MAX_DIVISION_LENGTH)]],
        Option("--ocd-id", metavar="ID"),
        Field(max_length=MAX_DIVISIONS, description="Preview as a recipient in these divisions."),
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
    is_walked: Annotated[bool, From("is_enqueued")]
    recipients: int
    skipped: int
    failure: str | None
    hold_reason: str | None
    recipients_from: Annotated[ProfileReadResponse | None, From("read")]


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
    """Why a slice is in the article or not. `label`: its position, and its title or the beginning of its text."""

    slice_id: Annotated[str, From("slice.slice_id")]
    scope_ocd_id: Annotated[str | None, From("slice.scope_ocd_id")]
    section_order: Annotated[int, From("slice.section_order")]
    sort_index: Annotated[int, From("slice.sort_index")]
    title: Annotated[str | None, From("slice.title")]
    label: str
    is_included: Annotated[bool, From("inclusion.is_included")]
    fate: Annotated[Inclusion, From("inclusion")]
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
    recipients_from: Annotated[str | None, From("source")]
    recipients: int
    skipped: int
    variants: list[VariantCoverageResponse]
    unread: list[SliceResponse]


# Output.


def _label(each: Slice | SliceResponse) -> str:
    return f"{each.section_order}.{each.sort_index} {each.title or each.dek or each.body_md.partition(chr(10))[0][:60]}"


def _state(run: ArticleRunResponse) -> str:
    read = run.recipients_from
    if run.failure is not None:
        return f"failed: {run.failure}"
    if run.hold_reason is not None:
        return f"on hold because the sender rules are not met: {run.hold_reason}"
    if read is not None and not read.is_complete and not run.is_walked:
        return f"waiting for recipients: {read.problem}" if read.problem else "reading recipients"
    return "all messages queued" if run.is_walked else "in progress"


def _covered(found: ArticleCoverageResponse, _given: Mapping[str, Any]) -> Iterator[Line]:
    yield Table(
        "variants",
        {
            "Recipients#": "recipients",
            "Headline": "title",
            "Slices for": lambda each: "\n".join(one.scope_ocd_id or "everyone" for one in each.slices),
        },
        nothing="Nobody would receive it.",
    )
    yield f"Recipients on the list {found.list_key}: {found.recipients}. Variants: {len(found.variants)}."
    if found.recipients_from is not None:
        yield f"Recipients come from {found.recipients_from}."
    if found.skipped:
        yield f"{found.skipped} subscribers match no slice."
    yield from (f"No recipient gets: {_label(each)}" for each in found.unread)


def _shown_run(run: ArticleRunDetailResponse, _given: Mapping[str, Any]) -> Iterator[Line]:
    yield f"{run.article_key} as {run.campaign_tag}, by {run.actor}: {_state(run)}."
    yield Table(
        "counts",
        {"Status!": lambda status: status, "Messages#": lambda status: run.counts[status]},
        nothing="No messages yet.",
    )
    yield f"Recipients: {run.recipients}. Variants: {len(run.variants)}. Without a slice: {run.skipped}."
    if (read := run.recipients_from) is not None:
        counted = f"{read.rows_read} rows read, {read.matched} addresses matched, {read.refused} rows refused, "
        left_out = f"{read.excluded} unsubscribed or bounced there, {read.suppressed} suppressed here"
        yield f"Recipients come from {read.source}: {counted}{left_out}."
        yield from (f"Refused: {each.email or 'no address'}: {each.reason}" for each in read.refusals)


# Articles.


@noun.get(
    command="list",
    shown=Table(
        "articles",
        {"Key!": "article_key", "Slices#": "slices", "Published#": "published", "Updated!": time_of("updated_at")},
        nothing="No articles.",
    ),
)
async def list_articles(at: Context) -> ArticleListResponse:
    """List the articles, by key."""
    return ArticleListResponse.model_validate({"articles": await _slices(at).list_articles(at.tenant_id)})


@noun.get("/{articleKey}")
async def show_article(at: Context, article_key: str) -> SliceListResponse:
    """List all slices of an article, published or not."""
    return SliceListResponse.model_validate({"slices": await _slices_of(at, article_key)})


@noun.get("/{articleKey}/slices.csv")
async def export(at: Context, article_key: str) -> CsvFile:
    """Download the slices of an article as CSV. Importing the file unchanged changes nothing."""
    slices = await _slices_of(at, article_key)
    return CsvFile(one_part(files.as_csv(slices).encode()), f"{article_key}.csv")


@noun.post(
    "/{articleKey}/preview",
    scope=READ,
    audit=None,
    command="explain",
    help="Explain why each slice is or is not in a recipient's article.",
    shown=Table(
        "slices",
        {"!": lambda each: "✓" if each.is_included else "–", "Slice": "label", "Reason": "reason"},
        nothing="No slices.",
    ),
)
async def preview(at: Context, article_key: str, wanted: ArticlePreviewRequest) -> ArticlePreviewResponse:
    """Preview the article for one recipient, with the reason why each slice is included or not."""
    async with _previews(at) as previews:
        recipient = await previews.find_recipient(at.tenant_id, wanted.email, wanted.ocd_ids)
        found = await previews.preview(at.tenant_id, article_key, recipient)
    article, rendered = found.article, found.rendered
    return ArticlePreviewResponse(
        title=article and article.title,
        dek=article and article.dek,
        body_md=article and article.body_md,
        subject=rendered and rendered.subject,
        html=rendered and rendered.html,
        text=rendered and rendered.text,
        ocd_ids=list(recipient.divisions),
        slices=[combine(SliceDecisionResponse, each, label=_label(each.slice)) for each in found.slices],
    )


@noun.post("/{articleKey}/coverage", scope=READ, audit=None, shown=_covered)
async def coverage(at: Context, article_key: str, wanted: ArticleCoverageRequest) -> ArticleCoverageResponse:
    """Count the recipients of each variant, and list the slices that nobody would get."""
    async with _previews(at) as previews:
        counted = await previews.coverage(at.tenant_id, article_key, wanted.audience_filter or {})
    return combine(ArticleCoverageResponse, counted, article_key=article_key)


# Slices.


@noun.put("/v1/slices", scope=MANAGE, audit="slices.put")
async def put_slice(at: Context, wanted: SliceRequest) -> SliceResponse:
    """Add a slice, or change the slice at the same position."""
    with _invalid_slices_are_reported():
        [stored], _ = await _slices(at).put(at.actor, at.tenant_id, [wanted.slice()])
    return SliceResponse.model_validate(stored)


@noun.post(
    "/v1/slices/import", scope=MANAGE, audit="slices.put", body=FileBody(("text/csv",), max_bytes=files.MAX_FILE_BYTES)
)
async def import_slices(at: Context, file: Upload) -> SliceImportResponse:
    """Import slices from CSV. The columns are the fields of a slice.

    If any line is invalid, nothing is imported, and the error lists each invalid line.
    """
    with _invalid_slices_are_reported():
        slices = files.read_texts([("slices.csv", _text(await file.read()))])
        changes = await _slices(at).import_slices(at.actor, at.tenant_id, slices)
    return SliceImportResponse.model_validate(changes)


@noun.get("/v1/slices/{sliceId}")
async def show_slice(at: Context, slice_id: str) -> SliceResponse:
    """Show a slice."""
    return SliceResponse.model_validate(await _slices(at).find(at.tenant_id, slice_id))


@noun.put("/v1/slices/{sliceId}", scope=MANAGE, audit="slices.change")
async def change_slice(at: Context, slice_id: str, wanted: SliceRequest) -> SliceResponse:
    """Replace a slice. The new position must be free."""
    with _invalid_slices_are_reported():
        changed = await _slices(at).change(at.actor, at.tenant_id, slice_id, wanted.slice())
    return SliceResponse.model_validate(changed)


@noun.delete("/v1/slices/{sliceId}", scope=MANAGE, audit="slices.remove")
async def remove_slice(at: Context, slice_id: str) -> None:
    """Delete a slice. Runs that have started still use it."""
    await _slices(at).remove(at.actor, at.tenant_id, slice_id)


# Runs.


@noun.get(
    "/v1/article-runs",
    shown=Table(
        "runs",
        {
            "Run!": "run_id",
            "Tag, article": lambda each: TwoLines(each.campaign_tag, each.article_key),
            "Recipients#": "recipients",
            "Started": lambda each: TwoLines(Moment(each.started_at), _state(each)),
        },
        nothing="No runs.",
    ),
)
async def list_runs(at: Context, page: ArticleRunPage) -> ArticleRunListResponse:
    """List the runs, latest first."""
    runs = await _runs(at).list_runs(
        at.tenant_id, limit=page.limit, before=page.before("run"), article_key=page.article_key
    )
    next_cursor = page.next_cursor("run", [run.id for run in runs])
    return ArticleRunListResponse.model_validate({"runs": runs, "next_cursor": next_cursor})


@noun.get("/v1/article-runs/{runId}", shown=_shown_run)
async def show_run(at: Context, run_id: str) -> ArticleRunDetailResponse:
    """Show a run with its messages by status and the recipients of each variant."""
    runs = _runs(at)
    run = await runs.find(at.tenant_id, run_id)
    counts, variants = await runs.count_messages(run), await runs.list_variants(run)
    return combine(ArticleRunDetailResponse, run, counts=counts, variants=variants)


# Services.


def _slices(at: Context) -> SliceStore:
    return SliceStore(at.database, at.clock, at.templates)


def _runs(at: Context) -> ArticleRuns:
    return ArticleRuns(at.database, at.clock, at.templates)


@asynccontextmanager
async def _previews(at: Context) -> AsyncIterator[ArticlePreviews]:
    """Open what previews need. An unknown article is not found, because its key is part of the address."""
    try:
        if at.engine is not None:
            yield at.engine.article_previews
            return
        async with open_profiles(at.settings, at.database) as profiles:
            yield ArticlePreviews(at.database, at.clock, at.templates, profiles)
    except UnknownArticle as error:
        raise NotFound(f"There is no article {at.path['article_key']}.") from error


async def _slices_of(at: Context, article_key: str) -> tuple[Slice, ...]:
    slices = await _slices(at).list_slices(at.tenant_id, article_key)
    if not slices:
        raise NotFound(f"There is no article {article_key}.")
    return SliceSet(slices).slices


def _text(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RequestInvalid([FieldError("body", "NOT_UTF8", "is not UTF-8")]) from error


@contextmanager
def _invalid_slices_are_reported() -> Iterator[None]:
    """Report each invalid field or line, as for any other invalid request."""
    try:
        yield
    except SliceRefused as error:
        raise SliceInvalid(error) from error
    except FilesRefused as error:
        lines = [FieldError(f"line {problem.line}", error.code, problem.message) for problem in error.problems]
        raise RequestInvalid(lines[: files.MAX_PROBLEMS]) from error
