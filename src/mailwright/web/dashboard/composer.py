"""Routes that the composer calls while someone edits: previews, variables, test emails and a new form token."""

from collections import Counter
from typing import Any, Final

import orjson
from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.access.api_keys import Caller
from mailwright.access.roles import Role
from mailwright.app.wiring import Engine
from mailwright.audience import contacts
from mailwright.content.blocks.document import is_variable
from mailwright.content.presend_checks import IssueLevel, PresendIssue
from mailwright.content.template import InvalidTemplate
from mailwright.domain.errors import InvalidInput, MailwrightError
from mailwright.domain.foreign_json import load_json
from mailwright.domain.translation import gettext
from mailwright.schemas.composer import PreviewedEmail, TestedEmail
from mailwright.sources.api.messages import RequestContext
from mailwright.sources.api.validation import parse
from mailwright.sources.campaigns.test_send import SUBJECT_PREFIX
from mailwright.texts.sentences import sentence
from mailwright.web.bodies import json_response, read_json
from mailwright.web.dashboard import previews
from mailwright.web.dashboard.advice import FIX_PAGES
from mailwright.web.dashboard.composed_email import ComposedRendering, render_document
from mailwright.web.dashboard.forms import read_fields
from mailwright.web.dashboard.json_route import JsonRoute
from mailwright.web.dashboard.shell import PageRoute, email_frame, page
from mailwright.web.request_ids import request_id_of
from mailwright.web.session import EditorDep, Visitor
from mailwright.web.state import EngineDep

router = APIRouter(prefix="/composer", route_class=JsonRoute, include_in_schema=False)
pages = APIRouter(prefix="/composer", route_class=PageRoute, include_in_schema=False)

# The newest contacts show which attributes exist; reading all of them would take too long.
_READ_CONTACTS: Final = 500
_MAX_EXAMPLE: Final = 60


@router.post("/preview")
async def preview(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    """Return the email as a contact would get it, its size and its warnings. Nothing is stored."""
    asked = parse(PreviewedEmail, await read_json(request))
    made = await _render(engine, visitor, asked)
    return json_response(
        {
            "subject": made.email.subject if asked.subject else "",
            "html": made.email.html,
            "text": made.email.text,
            "sizeBytes": made.size_bytes,
            "warnings": [_issue(each, visitor) for each in made.issues],
        }
    )


@router.get("/variables")
async def list_variables(engine: EngineDep, visitor: EditorDep) -> Response:
    """Return the attributes that contacts have, the most common first, with an example of each."""
    counts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for found in await _newest_contacts(engine, visitor.tenant_id):
        values = {"name": found.name, "email": found.email, **found.attributes}
        for name, value in values.items():
            if value in (None, "") or isinstance(value, dict | list) or not is_variable(name):
                continue
            counts[name] += 1
            examples.setdefault(name, str(value)[:_MAX_EXAMPLE])
    names = ["name", "email", *(name for name, _ in counts.most_common() if name not in ("name", "email"))]
    return json_response([{"name": name, "example": examples.get(name, ""), "count": counts[name]} for name in names])


@router.get("/session")
async def show_session(visitor: EditorDep) -> Response:
    """Return the form token of the current session, for a page that was opened in an expired one."""
    return json_response({"formToken": visitor.form_token, "user": visitor.actor})


@router.post("/test")
async def send_test(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    """Send the email to one address, filled with the data of a contact or with samples."""
    asked = parse(TestedEmail, await read_json(request))
    made = await _render(engine, visitor, asked)
    body: dict[str, Any] = {
        "to": asked.to.strip(),
        "subject": SUBJECT_PREFIX + (made.email.subject if asked.subject else gettext("(no subject)")),
        "html": made.email.html,
        "text": made.email.text,
    }
    caller = Caller(visitor.tenant_id, visitor.tenant, visitor.scopes, visitor.actor)
    await engine.api_messages.send(RequestContext(caller, request_id_of(request)), body)
    return json_response({"to": body["to"]})


@pages.post("/frame")
async def show_frame(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    """Return the email for a sandboxed frame, whose policy allows the styles of an email."""
    form = await read_fields(request, verbatim=("document",))
    try:
        document = load_json(form["document"])
        if not isinstance(document, dict):
            raise InvalidInput(gettext("The document must be a JSON object."), field="document")
        places = {"contact": form["contact"], "template_id": form["templateId"], "locale": form["locale"]}
        made = await render_document(engine, visitor.tenant_id, document, form["subject"], **places)
    except orjson.JSONDecodeError:
        return email_frame(previews.notice(gettext("The document is not valid JSON.")))
    except (MailwrightError, InvalidTemplate) as error:
        return email_frame(previews.notice(sentence(error.text)))
    return email_frame(previews.preview_html(made.email, is_dark=form["scheme"] == "dark"))


@pages.get("/signed-in")
async def show_signed_in(request: Request, visitor: EditorDep) -> Response:
    """Confirm the new sign-in. The work continues in the other tab."""
    return await page(request, visitor, "composer/signed_in.html")


async def _render(engine: Engine, visitor: Visitor, asked: PreviewedEmail) -> ComposedRendering:
    return await render_document(
        engine,
        visitor.tenant_id,
        asked.document,
        asked.subject,
        contact=asked.contact.strip(),
        template_id=asked.template_id,
        locale=asked.locale,
    )


def _issue(issue: PresendIssue, visitor: Visitor) -> dict[str, Any]:
    """Describe an issue, with the page of the settings that fixes it, if the visitor may open it."""
    page_ = FIX_PAGES.get(issue.code) if visitor.may(Role.ADMIN) else None
    return {
        "code": issue.code,
        "message": sentence(issue.sentence),
        "advice": issue.advice,
        "isError": issue.level is IssueLevel.ERROR,
        "blockIds": issue.blocks,
        **({} if page_ is None else page_._asdict()),
    }


async def _newest_contacts(engine: Engine, tenant_id: int) -> list[contacts.Contact]:
    return await contacts.list_page(engine.database, tenant_id, limit=_READ_CONTACTS, status="active")
