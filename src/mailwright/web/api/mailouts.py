"""HTTP routes of mailouts: send a Notion page, and show the runs."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from fastapi import Request
from starlette.responses import Response, StreamingResponse

from mailwright.access.roles import Scope
from mailwright.domain.errors import NotPossibleNow
from mailwright.schemas.mailouts import MailoutListResponse, MailoutRequest, MailoutResponse, mailout_response
from mailwright.schemas.recipient_report import recipients_csv
from mailwright.sources.api.validation import FieldError, parse_strict
from mailwright.sources.campaigns import report
from mailwright.sources.mailouts.progress import progress_of
from mailwright.sources.mailouts.refusals import ALREADY_SENT
from mailwright.sources.mailouts.runs import MailoutRun, MailoutRunStatus, RunError
from mailwright.sources.mailouts.wait_reasons import find_waits
from mailwright.web.api.administrator import MailoutSenderDep
from mailwright.web.api.caller import CallerDep, Credential
from mailwright.web.api.openapi import BODY_PROBLEMS, describe_body, describe_files, describe_responses
from mailwright.web.api.paging import PageQuery
from mailwright.web.api.routes import Routes
from mailwright.web.bodies import json_response, read_json
from mailwright.web.errors import problem
from mailwright.web.state import EngineDep

router = Routes(tags=["mailouts"])


class MailoutsNotConfigured(NotPossibleNow):
    """Mailouts are not configured. Set NOTION_TOKEN to the secret of your Notion integration."""

    code = "mailouts_not_configured"


@router.post(
    "/send-mailout",
    scope=Credential.ADMINISTRATOR,
    status_code=HTTPStatus.ACCEPTED,
    openapi_extra=describe_body(MailoutRequest),
    responses=describe_responses({HTTPStatus.ACCEPTED: MailoutResponse}, HTTPStatus.CONFLICT, *BODY_PROBLEMS),
)
async def send(request: Request, engine: EngineDep, sender: MailoutSenderDep) -> Response:
    """Send a Notion page as a mailout.

    The response is sent once the page is checked and the run is stored; a worker does the rest. Problems are returned
    with their codes, and also written to the error table in Notion.
    """
    wanted = parse_strict(MailoutRequest, _translated(await read_json(request)))
    if not engine.mailouts.is_configured:
        raise MailoutsNotConfigured
    mailouts = await engine.mailouts.open()
    run = await mailouts.send(wanted.notion_page_id, actor=sender.actor, overrides_rules=wanted.override_sender_rules)
    if run.status is MailoutRunStatus.REFUSED:
        return _refusal(run, await mailouts.list_errors(run))
    waits = await find_waits(engine.database, engine.clock, [run])
    return json_response(mailout_response(run, None, waits.get(run.key)), HTTPStatus.ACCEPTED)


@router.get("/v1/mailouts", scope=Scope.READ, responses=describe_responses({HTTPStatus.OK: MailoutListResponse}))
async def list_mailouts(engine: EngineDep, caller: CallerDep, page: PageQuery) -> Response:
    """List the mailouts, latest first."""
    runs = await engine.mailout_runs.list_runs(
        tenant_id=caller.tenant_id, limit=page.limit, before=page.before("mailout")
    )
    tallies = await progress_of(engine.database, engine.clock, runs)
    waits = await find_waits(engine.database, engine.clock, runs)
    return json_response(
        MailoutListResponse(
            mailouts=[mailout_response(run, tallies.get(run.key), waits.get(run.key)) for run in runs],
            next_cursor=page.next_cursor("mailout", [run.key for run in runs]),
        )
    )


@router.get(
    "/v1/mailouts/{mailoutId}",
    scope=Scope.READ,
    responses=describe_responses({HTTPStatus.OK: MailoutResponse}, HTTPStatus.NOT_FOUND),
)
async def show(mailoutId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Show the progress of a mailout, or why it was refused."""
    run = await engine.mailout_runs.find(mailoutId, tenant_id=caller.tenant_id)
    tallies = await progress_of(engine.database, engine.clock, [run])
    waits = await find_waits(engine.database, engine.clock, [run])
    return json_response(mailout_response(run, tallies.get(run.key), waits.get(run.key)))


@router.get(
    "/v1/mailouts/{mailoutId}/report.csv",
    scope=Scope.READ,
    responses=describe_files(("text/csv",), HTTPStatus.NOT_FOUND),
)
async def report_of(mailoutId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Download the result of every recipient as CSV: email, status, error_message, message_id, sent_at and others."""
    run = await engine.mailout_runs.find(mailoutId, tenant_id=caller.tenant_id)
    rows = report.report_rows(engine.database, run.campaign_key or 0)
    return StreamingResponse(recipients_csv(rows), media_type="text/csv; charset=utf-8")


def _translated(body: Any) -> Any:
    """Translate request bodies in the format of AmazonSender and of Notion automations."""
    match body:
        case {"notionPageId": _}:
            return body
        case {"mailout_id": str(page)} | {"page_id": str(page)} | {"data": {"id": str(page)}}:
            return {"notionPageId": page}
        case _:
            return body


def _refusal(run: MailoutRun, errors: Sequence[RunError]) -> Response:
    """Build the error response. A page can have several problems; each is listed."""
    status = HTTPStatus.CONFLICT if run.error_code == ALREADY_SENT else HTTPStatus.UNPROCESSABLE_ENTITY
    field_errors = [FieldError("notionPageId", error.code, error.message) for error in errors]
    return problem(status, run.error_code or "mailout_refused", run.error_message or "", errors=field_errors)
