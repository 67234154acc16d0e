"""Mailouts: Notion pages sent to subscribers. `web/api/mailouts.py` and `mailwright mailout send` send them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final

from mailwright.actions.context import Context
from mailwright.actions.declaration import Badge, CsvFile, Line, Moment, Noun, Table, Tone, TwoLines
from mailwright.domain.campaign import CampaignStatus
from mailwright.domain.clock import Clock
from mailwright.schemas.base import From, ResponseModel, Time, combine, extend
from mailwright.schemas.paging import Page
from mailwright.schemas.recipient_report import recipients_csv
from mailwright.sources.campaigns import report
from mailwright.sources.mailouts.progress import MailoutProgress, progress_of, shown_status
from mailwright.sources.mailouts.runs import MailoutRun, MailoutRuns, MailoutRunStatus
from mailwright.sources.mailouts.wait_reasons import RunWait, find_waits
from mailwright.storage.database import Database
from mailwright.texts.explanations import mailout_wait_text
from mailwright.texts.sentences import sentence

noun = Noun(
    "mailout",
    "Mailouts: Notion pages sent to subscribers.",
    "/v1/mailouts",
    parameters={"mailout_id": ("RUN", "The run id that `mailout send` prints.")},
    has_unique_ids=True,
)

ONLY_LOCAL: Final = "The provider is the local mailbox, so nobody receives these emails."
# The report has the results of all recipients.
_MAX_ERRORS: Final = 10_000
_MAX_SHOWN_ERRORS: Final = 100
_STATUSES: Final[Mapping[str, tuple[str, Tone]]] = {
    "accepted": ("○", "waiting"),
    "gathering": ("○", "waiting"),
    "queueing": ("○", "waiting"),
    "sending": ("→", "waiting"),
    "paused": ("‖", "warning"),
    "cancelled": ("✗", "warning"),
    "sent": ("✓", "good"),
    "refused": ("✗", "bad"),
}


class MailoutCountsResponse(ResponseModel):
    """Number of messages by state. `bounced`: accepted by the provider and bounced later. `suppressed`: unsubscribed,
    suppressed or deleted before sending. `bounceRate`: the share of bounced messages among those that were accepted.
    """

    planned: int
    sent: int
    bounced: int
    bounce_rate: float
    failed: int
    in_doubt: int
    suppressed: int
    waiting: int
    cancelled: int


class MailoutDelayResponse(ResponseModel):
    """`failures`: consecutive failed requests to Notion or Supabase. Mailwright tries again at `nextTryAt`."""

    code: str
    message: Annotated[str, From("reason")]
    failures: int
    next_try_at: Time


class MailoutWaitResponse(ResponseModel):
    """Why the mailout is not sent now, with the same reason codes as messages and campaigns."""

    state: str
    reason: str
    sentence: str
    what_would_change: str


class MailoutResponse(ResponseModel):
    """A queued mailout can be paused and cancelled as the campaign with the id `runId`.

    `isTest`: it goes to TEST_EMAILS only. `isLocal`: it goes to the local mailbox, where nobody receives it.
    `shownStatus`: the status that users see, `paused` or `cancelled` if its campaign is. `errorCode`: why it was
    refused or, after sending, why its result cannot be written to its Notion page.
    """

    run_id: Annotated[str, From("mailout_id")]
    notion_page_id: Annotated[str, From("page_id")]
    status: MailoutRunStatus
    shown_status: str
    subject: str | None
    is_test: bool | None
    is_local: bool
    campaign_status: CampaignStatus | None
    error_code: str | None
    error_message: str | None
    delay: MailoutDelayResponse | None
    wait: MailoutWaitResponse | None
    counts: MailoutCountsResponse | None
    created_at: Time
    finished_at: Time | None
    reported_at: Time | None


class MailoutErrorResponse(ResponseModel):
    stage: str
    code: str
    message: str
    email: str | None


class MailoutDetailResponse(MailoutResponse):
    """A mailout with at most 10,000 errors. `reported`: the numbers that were written back to Notion."""

    errors: list[MailoutErrorResponse]
    reported: dict[str, Any]


class MailoutListResponse(ResponseModel):
    mailouts: list[MailoutResponse]
    next_cursor: str | None


async def mailout_responses(database: Database, clock: Clock, runs: Sequence[MailoutRun]) -> list[MailoutResponse]:
    tallies = await progress_of(database, clock, runs)
    waits = await find_waits(database, clock, runs)
    return [_response(each, tallies.get(each.key), waits.get(each.key)) for each in runs]


def _response(run: MailoutRun, progress: MailoutProgress | None, wait: RunWait | None) -> MailoutResponse:
    return combine(
        MailoutResponse,
        run,
        shown_status=shown_status(run, progress),
        campaign_status=progress and progress.campaign_status,
        wait=wait and combine(MailoutWaitResponse, wait, mailout_wait_text(wait.remedy)),
        counts=progress and combine(MailoutCountsResponse, progress, planned=run.planned or 0),
    )


# Output.


def about(mailout: MailoutResponse) -> TwoLines:
    """Return the state of a mailout and its subject, then what was refused and how many messages were sent."""
    shape, tone = _STATUSES[mailout.shown_status]
    kind = "" if mailout.is_test is None else "  TEST" if mailout.is_test else "  REAL"
    subject = f"  {mailout.subject or mailout.notion_page_id}{kind}"
    only_local = f"\n{ONLY_LOCAL}" if mailout.is_local else ""
    below = [] if mailout.error_code is None else [f"{mailout.error_code}: {mailout.error_message}"]
    below += [] if mailout.counts is None else [_counted(mailout.counts)]
    return TwoLines((Badge(mailout.shown_status, tone, shape=shape), subject, only_local), "\n".join(below))


def _counted(counts: MailoutCountsResponse) -> str:
    parts = [f"{counts.sent:,} of {counts.planned:,} sent", f"{counts.failed:,} failed"]
    others = (
        (f"bounced ({counts.bounce_rate:.1%})", counts.bounced),
        ("waiting", counts.waiting),
        ("in doubt", counts.in_doubt),
        ("suppressed", counts.suppressed),
        ("cancelled", counts.cancelled),
    )
    return ", ".join([*parts, *(f"{count:,} {words}" for words, count in others if count)])


def _wait(wait: MailoutWaitResponse | None) -> Iterator[Line]:
    if wait is not None:
        yield Badge(f"{wait.sentence} {wait.what_would_change}", "warning", shape="!")
        yield "  mailwright worker"


def _listed(found: MailoutListResponse, _given: Mapping[str, Any]) -> Iterator[Line]:
    return _wait(next((each.wait for each in found.mailouts if each.wait is not None), None))


def _shown(found: MailoutDetailResponse, _given: Mapping[str, Any]) -> Iterator[Line]:
    yield about(found)
    yield from _wait(found.wait)
    for each in found.errors[:_MAX_SHOWN_ERRORS]:
        if (each.code, each.message) != (found.error_code, found.error_message):  # Already shown above.
            whom = f" {each.email}" if each.email else ""
            yield Badge(f"{each.stage}{whom}: {each.message} [{each.code}]", "bad")
    if found.counts is not None and found.counts.failed:
        yield f"`mailwright mailout report {found.run_id}` lists the failed recipients."
    if found.reported_at is not None:
        yield "Written back to Notion at ", Moment(found.reported_at, names_zone=True), "."
    if (delay := found.delay) is not None:
        failed = f"Failed {delay.failures} times" if delay.failures > 1 else "Failed once"
        reason = Badge(f"{sentence(delay.message)} [{delay.code}] {failed}", "warning", shape="!")
        yield reason, "; next attempt at ", Moment(delay.next_try_at, names_zone=True), "."


@noun.get(
    command="list",
    spans_tenants=True,
    command_defaults={"limit": 20},
    shown=Table(
        "mailouts",
        {"Run and time ({zone})!": lambda each: TwoLines(each.run_id, Moment(each.created_at)), "Mailout": about},
        nothing="No mailouts yet. Send a page with `mailwright mailout send PAGE`.",
        then=_listed,
    ),
)
async def list_mailouts(at: Context, page: Page) -> MailoutListResponse:
    """List the mailouts, latest first."""
    found = await _runs(at).list_runs(tenant_id=at.owner_id, limit=page.limit, before=page.before("mailout"))
    return MailoutListResponse(
        mailouts=await mailout_responses(at.database, at.clock, found),
        next_cursor=page.next_cursor("mailout", [run.key for run in found]),
    )


@noun.get("/{mailoutId}", command="show", shown=_shown)
async def show(at: Context, mailout_id: str) -> MailoutDetailResponse:
    """Show the progress and the errors of a mailout, and when its result was written back to Notion."""
    run = await _runs(at).find(mailout_id, tenant_id=at.owner_id)
    [found] = await mailout_responses(at.database, at.clock, [run])
    errors = await _runs(at).list_errors(run, _MAX_ERRORS)
    return extend(MailoutDetailResponse, found, errors=errors, reported=run.figures)


@noun.get(
    "/{mailoutId}/report.csv",
    command="report",
    help="Write the result for every recipient as CSV: email, status, error_message, message_id, sent_at and others.",
)
async def report_of(at: Context, mailout_id: str) -> CsvFile:
    """Download the result of every recipient as CSV: email, status, error_message, message_id, sent_at and others."""
    run = await _runs(at).find(mailout_id, tenant_id=at.owner_id)
    return CsvFile(recipients_csv(report.report_rows(at.database, run.campaign_key or 0)))


def _runs(at: Context) -> MailoutRuns:
    return MailoutRuns(at.database, at.clock)
