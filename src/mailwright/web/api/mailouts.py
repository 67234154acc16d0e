"""Mailouts over HTTP: the trigger that sends a page of Notion, and how its run is doing."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response, StreamingResponse

from mailwright.app.mailouts import progress_of
from mailwright.domain.clock import isoformat
from mailwright.domain.errors import NotPossibleNow
from mailwright.schemas.answers import ResponseModel, Time
from mailwright.schemas.campaign_requests import parse
from mailwright.schemas.campaigns import report_csv
from mailwright.schemas.paging import PageQuery, decode_cursor, encode_cursor
from mailwright.sources.api.requests import FieldError, RequestModel
from mailwright.sources.campaigns import report
from mailwright.sources.mailouts.queue import MailoutProgress
from mailwright.sources.mailouts.refusals import ALREADY_SENT
from mailwright.sources.mailouts.runs import MailoutRun, MailoutRunStatus, RunError
from mailwright.sources.mailouts.wait_reasons import RunWait, find_waits
from mailwright.web.api.administrator import ADMINISTRATORS_ONLY, AdministratorDep
from mailwright.web.api.caller import CallerDep
from mailwright.web.api.openapi import describe_body, describe_files, describe_responses
from mailwright.web.bodies import json_response, read_json
from mailwright.web.errors import problem
from mailwright.web.parts import Parts

router = APIRouter(tags=["mailouts"])

_BODY_PROBLEMS = (HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
_NEWEST = 2**63 - 1


class NotConfigured(NotPossibleNow):
    """Mailouts need NOTION_TOKEN, the secret of your integration in Notion."""

    code = "mailouts_not_configured"


class MailoutRequest(RequestModel):
    notion_page_id: Annotated[
        str, Field(min_length=1, max_length=2_000, description="The page's id, or its address in the browser.")
    ]


class MailoutCountsResponse(ResponseModel):
    """Where its mails stand. `withdrawn`: left before their turn."""

    planned: int
    sent: int
    failed: int
    in_doubt: int
    withdrawn: int
    waiting: int
    cancelled: int


class MailoutDelayResponse(ResponseModel):
    """What it waits for: the last try failed, `failures` of them in a row, and the next one is at `nextTryAt`."""

    code: str
    message: str
    failures: int
    next_try_at: Time


class MailoutWaitResponse(ResponseModel):
    """What keeps it from being sent here, by the names that explanations of messages and campaigns have."""

    state: str
    reason: str
    sentence: str
    what_would_change: str


class MailoutResponse(ResponseModel):
    """`runId` is also the id of its campaign, once it is in line: what can be done to campaigns can be done to it.

    `errorCode` tells why it was refused or, once it is sent, why its page can no longer be told how it went.
    """

    run_id: str
    notion_page_id: str
    status: MailoutRunStatus
    subject: str | None
    is_test: bool | None
    error_code: str | None
    error_message: str | None
    delay: MailoutDelayResponse | None
    wait: MailoutWaitResponse | None
    counts: MailoutCountsResponse | None
    created_at: Time
    finished_at: Time | None
    reported_at: Time | None


class MailoutListResponse(ResponseModel):
    mailouts: list[MailoutResponse]
    next_cursor: str | None


@router.post(
    "/send-mailout",
    status_code=HTTPStatus.ACCEPTED,
    openapi_extra={**describe_body(MailoutRequest), **ADMINISTRATORS_ONLY},
    responses=describe_responses({HTTPStatus.ACCEPTED: MailoutResponse}, HTTPStatus.CONFLICT, *_BODY_PROBLEMS),
)
async def send(request: Request, parts: Parts, administrator: AdministratorDep) -> Response:
    """Answered as soon as the run is on disk and the page was looked at; a worker does the rest. What speaks against
    the mailout is answered by its code, and stands in Notion's table of errors as well."""
    wanted = parse(MailoutRequest, await read_json(request))
    if not parts.mailouts.is_configured:
        raise NotConfigured
    mailouts = await parts.mailouts.open()
    run = await mailouts.send(wanted.notion_page_id, actor=administrator.actor)
    if run.status is MailoutRunStatus.REFUSED:
        return _refusal(run, await mailouts.list_errors(run))
    waits = await find_waits(parts.database, parts.clock, [run])
    return json_response(answer(run, None, waits.get(run.key)), HTTPStatus.ACCEPTED)


@router.get("/v1/mailouts", responses=describe_responses({HTTPStatus.OK: MailoutListResponse}))
async def list_mailouts(parts: Parts, caller: CallerDep, page: PageQuery) -> Response:
    """The latest first."""
    before = decode_cursor("mailout", page.cursor)[0] if page.cursor is not None else _NEWEST
    found = await parts.mailout_runs.list_runs(tenant_id=caller.tenant_id, limit=page.limit, before=before)
    following = encode_cursor("mailout", found[-1].key) if len(found) == page.limit else None
    tallies = await progress_of(parts.database, parts.clock, found)
    waits = await find_waits(parts.database, parts.clock, found)
    runs = [answer(run, tallies.get(run.key), waits.get(run.key)) for run in found]
    return json_response({"mailouts": runs, "nextCursor": following})


@router.get(
    "/v1/mailouts/{mailoutId}", responses=describe_responses({HTTPStatus.OK: MailoutResponse}, HTTPStatus.NOT_FOUND)
)
async def show(mailoutId: str, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803 - the name in the address
    """How far it has come, or why it did not begin."""
    run = await parts.mailout_runs.find(mailoutId, tenant_id=caller.tenant_id)
    tallies = await progress_of(parts.database, parts.clock, [run])
    waits = await find_waits(parts.database, parts.clock, [run])
    return json_response(answer(run, tallies.get(run.key), waits.get(run.key)))


@router.get("/v1/mailouts/{mailoutId}/report.csv", responses=describe_files(("text/csv",), HTTPStatus.NOT_FOUND))
async def report_of(mailoutId: str, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803
    """A line of CSV for every recipient: email, status, error_message, message_id, sent_at."""
    run = await parts.mailout_runs.find(mailoutId, tenant_id=caller.tenant_id)
    rows = report.report_rows(parts.database, run.campaign_key or 0)
    return StreamingResponse(report_csv(rows), media_type="text/csv; charset=utf-8")


def answer(run: MailoutRun, tally: MailoutProgress | None, wait: RunWait | None) -> dict[str, Any]:
    """As the API and `--json` show a run."""
    counts = None
    if tally is not None:
        counts = {
            "planned": run.planned or 0,
            "sent": tally.sent,
            "failed": tally.failed,
            "inDoubt": tally.in_doubt,
            "withdrawn": tally.withdrawn,
            "waiting": tally.waiting,
            "cancelled": tally.cancelled,
        }
    delay = None
    if (waits := run.delay) is not None:
        delay = {
            "code": waits.code,
            "message": waits.reason,
            "failures": waits.failures,
            "nextTryAt": isoformat(waits.next_try_at),
        }
    waited = None
    if wait is not None:
        waited = {
            "state": wait.state,
            "reason": wait.reason,
            "sentence": wait.sentence,
            "whatWouldChange": wait.what_would_change,
        }
    return {
        "runId": run.mailout_id,
        "notionPageId": run.page_id,
        "status": run.status,
        "subject": run.subject,
        "isTest": run.is_test,
        "errorCode": run.error_code,
        "errorMessage": run.error_message,
        "delay": delay,
        "wait": waited,
        "counts": counts,
        "createdAt": isoformat(run.created_at),
        "finishedAt": isoformat(run.finished_at),
        "reportedAt": isoformat(run.reported_at),
    }


def _refusal(run: MailoutRun, errors: Sequence[RunError]) -> Response:
    """Each fault by itself as well: a page may have several."""
    status = HTTPStatus.CONFLICT if run.error_code == ALREADY_SENT else HTTPStatus.UNPROCESSABLE_ENTITY
    each = [FieldError("notionPageId", error.code, error.message) for error in errors]
    return problem(status, run.error_code or "mailout_refused", run.error_message or "", errors=each)
