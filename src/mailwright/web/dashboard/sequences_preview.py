"""The email of a step of a sequence as its recipients see it, and as a test email."""

import re
from dataclasses import replace
from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from mailwright.access.api_keys import Caller
from mailwright.app.wiring import Engine
from mailwright.audience import contacts
from mailwright.content.template import InvalidTemplate
from mailwright.content.template_store import StoredTemplate
from mailwright.domain.errors import InvalidInput, MailwrightError, NotFound
from mailwright.sources.api.messages import RequestContext
from mailwright.sources.api.validation import RequestInvalid
from mailwright.sources.campaigns.test_send import SUBJECT_PREFIX
from mailwright.sources.sequences.records import StoredSequence
from mailwright.web.dashboard import previews
from mailwright.web.dashboard import sequences_document as documents
from mailwright.web.dashboard.forms import Errors, Fields, field_errors, read_fields
from mailwright.web.dashboard.sample_values import preview_values
from mailwright.web.dashboard.shell import PageRoute, email_frame, page, redirect
from mailwright.web.request_ids import request_id_of
from mailwright.web.session import EditorDep, ViewerDep, Visitor
from mailwright.web.state import EngineDep

router = APIRouter(prefix="/sequences/{sequence_id}/steps/{step_id}", route_class=PageRoute, include_in_schema=False)

_SUGGESTED_CONTACTS: Final = 20
# What starts a run: emails use its fields.
_STARTS: Final = ("event", "item")
Email = Annotated[str, Query(alias="as", max_length=320)]


@router.get("/preview")
async def show(
    request: Request, engine: EngineDep, visitor: ViewerDep, sequence_id: str, step_id: str, as_contact: Email = ""
) -> Response:
    return await _page(request, engine, visitor, sequence_id, step_id, Fields({"as_contact": as_contact}))


@router.get("/mail")
async def show_mail(
    engine: EngineDep,
    visitor: ViewerDep,
    sequence_id: str,
    step_id: str,
    *,
    as_contact: Email = "",
    scheme: str = "light",
) -> Response:
    sequence = await engine.sequences.find(visitor.tenant_id, sequence_id)
    try:
        rendered = await _render(engine, visitor, sequence, step_id, as_contact)
    except MailwrightError as error:
        return email_frame(previews.notice(error.text))
    return email_frame(previews.preview_html(rendered, is_dark=scheme == "dark"))


@router.post("/test")
async def send_test(
    request: Request, engine: EngineDep, visitor: EditorDep, sequence_id: str, step_id: str
) -> Response:
    """Send the email of a step to one address."""
    form = await read_fields(request)
    sequence = await engine.sequences.find(visitor.tenant_id, sequence_id)
    caller = Caller(visitor.tenant_id, visitor.tenant, visitor.scopes, visitor.actor)
    try:
        rendered = await _render(engine, visitor, sequence, step_id, form["as_contact"])
        content = {"subject": SUBJECT_PREFIX + rendered.subject, "html": rendered.html, "text": rendered.text}
        body = {"to": form["to"], **{name: value for name, value in content.items() if value}}
        await engine.api_messages.send(RequestContext(caller, request_id_of(request)), body)
    except (InvalidInput, RequestInvalid, InvalidTemplate) as error:
        return await _page(request, engine, visitor, sequence_id, step_id, form, error)
    return redirect(request, f"/sequences/{sequence_id}/steps/{step_id}/preview", "Test email sent.")


async def _page(
    request: Request,
    engine: Engine,
    visitor: Visitor,
    sequence_id: str,
    step_id: str,
    form: Fields,
    error: MailwrightError | None = None,
) -> Response:
    sequence = await engine.sequences.find(visitor.tenant_id, sequence_id)
    suggested = await contacts.list_page(engine.database, visitor.tenant_id, limit=_SUGGESTED_CONTACTS, status="active")
    values: dict[str, Any] = {
        "sequence": sequence,
        "to": f"/sequences/{sequence_id}",
        "step_id": step_id,
        "template_id": _send_body(sequence, step_id)["template"],
        "contacts": suggested,
        "form": form,
        "errors": field_errors(error) if error is not None else Errors(),
        "email": None,
        "problem": None,
    }
    try:
        values["email"] = email = await _render(engine, visitor, sequence, step_id, form["as_contact"])
        values["has_dark"] = previews.has_dark_style(email.html or "")
    except MailwrightError as failure:
        values["problem"] = failure.text
    status = HTTPStatus.UNPROCESSABLE_ENTITY if error is not None else HTTPStatus.OK
    return await page(request, visitor, "sequences/preview.html", status=status, **values)


async def _render(engine: Engine, visitor: Visitor, sequence: StoredSequence, step_id: str, email: str) -> Any:
    """Render the newest version of the template, with the subject and the variables of the step."""
    body = _send_body(sequence, step_id)
    try:
        newest = await engine.templates.latest(visitor.tenant_id, body["template"])
    except NotFound as error:
        raise InvalidInput("The template {body} does not exist. Create it first.", body=body["template"]) from error
    stored = replace(newest, subject=body.get("subject") or newest.subject)
    values = await preview_values(engine, visitor.tenant_id, stored, email)
    return stored.render({**values, **_start_values(stored), **body.get("variables", {})}, engine.templates.standard)


def _start_values(stored: StoredTemplate) -> dict[str, dict[str, str]]:
    """Return samples for the fields of the event or the feed item that starts a run, if the email uses them."""
    source = " ".join((stored.subject, stored.html, stored.text or ""))
    used = {start: re.findall(rf"\b{start}\.(\w+)", source) for start in _STARTS}
    return {start: {name: f"[{name}]" for name in names} for start, names in used.items() if names}


def _send_body(sequence: StoredSequence, step_id: str) -> Any:
    body = documents.find_step(sequence.draft, step_id).get("send")
    if body is None:
        raise NotFound("This step sends no email.")
    return body
