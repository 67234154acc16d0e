"""Models of mailouts."""

from typing import Annotated, Any

from pydantic import Field

from mailwright.content.template import RenderedEmail
from mailwright.domain.campaign import CampaignStatus
from mailwright.schemas.base import ResponseModel, Time
from mailwright.sources.api.fields import RequestModel
from mailwright.sources.mailouts.prepare import DryRun
from mailwright.sources.mailouts.progress import MailoutProgress
from mailwright.sources.mailouts.runs import MailoutRun, MailoutRunStatus
from mailwright.sources.mailouts.wait_reasons import RunWait
from mailwright.texts.explanations import mailout_wait_text


class MailoutRequest(RequestModel):
    notion_page_id: Annotated[str, Field(min_length=1, max_length=2_000, description="Id or URL of the Notion page.")]
    override_sender_rules: Annotated[
        bool,
        Field(
            description="Send even if the rules of the large mailbox providers are not met. The audit log records it."
        ),
    ] = False


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
    message: str
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
    `errorCode`: why it was refused or, after sending, why its result cannot be written to its Notion page.
    """

    run_id: str
    notion_page_id: str
    status: MailoutRunStatus
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
    """A mailout with its errors. `reported`: the numbers that were written back to Notion."""

    errors: list[MailoutErrorResponse]
    reported: dict[str, Any]


class MailoutRecipientResponse(ResponseModel):
    email: str
    from_name: str | None


class ExcludedRecipientResponse(ResponseModel):
    email: str
    reason: str


class UnsupportedBlockResponse(ResponseModel):
    block: str
    type: str
    reason: str
    code: str


class MailoutDryRunResponse(ResponseModel):
    """What a mailout would send. `unsupported`: parts of the page that recipients will not see."""

    subject: str
    is_test: bool
    is_local: bool
    recipients: list[MailoutRecipientResponse]
    excluded: list[ExcludedRecipientResponse]
    html: str | None
    text: str | None
    unsupported: list[UnsupportedBlockResponse]


class MailoutListResponse(ResponseModel):
    mailouts: list[MailoutResponse]
    next_cursor: str | None


def mailout_response(run: MailoutRun, progress: MailoutProgress | None, wait: RunWait | None) -> MailoutResponse:
    return MailoutResponse(
        run_id=run.mailout_id,
        notion_page_id=run.page_id,
        status=run.status,
        subject=run.subject,
        is_test=run.is_test,
        is_local=run.is_local,
        campaign_status=progress.campaign_status if progress is not None else None,
        error_code=run.error_code,
        error_message=run.error_message,
        delay=_delay(run),
        wait=_wait(wait) if wait is not None else None,
        counts=_counts(run, progress) if progress is not None else None,
        created_at=run.created_at,
        finished_at=run.finished_at,
        reported_at=run.reported_at,
    )


def dry_run_response(found: DryRun, email: RenderedEmail) -> MailoutDryRunResponse:
    return MailoutDryRunResponse(
        subject=email.subject,
        is_test=found.page.is_test,
        is_local=found.is_local,
        recipients=[MailoutRecipientResponse(email=to, from_name=name) for to, name in found.recipients.items()],
        excluded=[ExcludedRecipientResponse(email=to, reason=reason) for to, reason in found.excluded.items()],
        html=email.html,
        text=email.text,
        unsupported=[
            UnsupportedBlockResponse(block=each.block_id, type=each.type, reason=each.reason, code=each.code)
            for each in found.content.issues
        ],
    )


def _wait(wait: RunWait) -> MailoutWaitResponse:
    text = mailout_wait_text(wait.remedy)
    return MailoutWaitResponse(
        state=wait.state, reason=wait.reason, sentence=text.sentence, what_would_change=text.what_would_change or ""
    )


def _delay(run: MailoutRun) -> MailoutDelayResponse | None:
    if run.delay is None:
        return None
    return MailoutDelayResponse(
        code=run.delay.code,
        message=run.delay.reason,
        failures=run.delay.failures,
        next_try_at=run.delay.next_try_at,
    )


def _counts(run: MailoutRun, progress: MailoutProgress) -> MailoutCountsResponse:
    return MailoutCountsResponse(
        planned=run.planned or 0,
        sent=progress.sent,
        bounced=progress.bounced,
        bounce_rate=progress.bounce_rate,
        failed=progress.failed,
        in_doubt=progress.in_doubt,
        suppressed=progress.suppressed,
        waiting=progress.waiting,
        cancelled=progress.cancelled,
    )
