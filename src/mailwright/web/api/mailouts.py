"""The route that sends a Notion page as a mailout. Administrators call it, so it is not an action."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Request
from pydantic import Field
from starlette.responses import Response

from mailwright.actions.mailouts import MailoutResponse, mailout_responses
from mailwright.domain.errors import NotPossibleNow
from mailwright.sources.api.fields import RequestModel
from mailwright.sources.api.validation import FieldError, parse_strict
from mailwright.sources.mailouts.refusals import ALREADY_SENT
from mailwright.sources.mailouts.runs import MailoutRun, MailoutRunStatus, RunError
from mailwright.web.api.administrator import MailoutSenderDep
from mailwright.web.api.caller import Credential
from mailwright.web.api.openapi import BODY_PROBLEMS, describe_body, describe_responses
from mailwright.web.api.routes import Routes
from mailwright.web.bodies import json_response, read_json
from mailwright.web.errors import problem
from mailwright.web.state import EngineDep

router = Routes(tags=["mailouts"])


class MailoutRequest(RequestModel):
    notion_page_id: Annotated[str, Field(min_length=1, max_length=2_000, description="Id or URL of the Notion page.")]
    override_sender_rules: Annotated[
        bool,
        Field(
            description="Send even if the rules of the large mailbox providers are not met. The audit log records it."
        ),
    ] = False


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
    [accepted] = await mailout_responses(engine.database, engine.clock, [run])
    return json_response(accepted, HTTPStatus.ACCEPTED)


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
