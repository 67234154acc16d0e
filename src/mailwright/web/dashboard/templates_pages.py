"""Template pages: versions, languages, editor, comparison and test emails."""

import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.access.api_keys import Caller
from mailwright.access.roles import Role
from mailwright.app.template_checks import check_template
from mailwright.app.wiring import Engine
from mailwright.audience import contacts
from mailwright.content.blocks.document import parse_document
from mailwright.content.formats import TemplateFormat
from mailwright.content.presend_checks import PresendIssue
from mailwright.content.template import InvalidTemplate, RenderedEmail
from mailwright.content.template_store import RESERVED_CHARACTER, StoredTemplate, diff_parts
from mailwright.content.variables import STANDARD_VARIABLES, Variable, check_declared
from mailwright.domain.errors import InvalidInput, MailwrightError, NotFound
from mailwright.domain.record_state import RecordState
from mailwright.domain.translation import gettext
from mailwright.schemas.templates import check_template_id, parse_template
from mailwright.sources.api.messages import RequestContext
from mailwright.sources.api.validation import RequestInvalid
from mailwright.sources.campaigns.test_send import SUBJECT_PREFIX
from mailwright.texts.sentences import sentence
from mailwright.web.dashboard import previews
from mailwright.web.dashboard.advice import FIX_PAGES
from mailwright.web.dashboard.campaigns_compose import FORMATS
from mailwright.web.dashboard.editor_preview import EditorPreview
from mailwright.web.dashboard.forms import Errors, Fields, field_errors, field_sentence, read_fields
from mailwright.web.dashboard.pasted_links import LINKS_REPLACED, with_shared_links
from mailwright.web.dashboard.sample_values import preview_values
from mailwright.web.dashboard.shell import PageRoute, email_frame, page, redirect
from mailwright.web.request_ids import request_id_of
from mailwright.web.session import EditorDep, ViewerDep, Visitor
from mailwright.web.state import EngineDep

router = APIRouter(prefix="/templates", route_class=PageRoute, include_in_schema=False)

PAGE: Final = 50
_VERBATIM: Final = ("body", "text")
_BODIES: Final = {each.value: "body" for each in TemplateFormat}
_SUGGESTED_CONTACTS: Final = 20
_PLACE: Final = re.compile(r"@@ -\S+ \+(\d+)\S* @@$")
_STARTER_BODY: Final = """# Hello {{ name }}

Write the text of this email here.

---

{{ postal_address }}
"""


@router.get("")
async def list_templates(
    request: Request,
    engine: EngineDep,
    visitor: ViewerDep,
    cursor: str = "",
    show: RecordState = RecordState.ACTIVE,
) -> Response:
    """List templates by id with their newest versions."""
    found = [
        list(newest.values())
        for newest in await engine.templates.list_page(visitor.tenant_id, limit=PAGE, after=cursor, state=show)
    ]
    following = found[-1][0].template_id if len(found) == PAGE else None
    values: dict[str, Any] = {"found": found, "following": following, "cursor": cursor, "shown": show}
    return await page(request, visitor, "templates/list.html", **values)


# A template id cannot contain a tilde.
@router.get("/~new")
async def show_new(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    form = Fields({"format": TemplateFormat.MARKDOWN, "body": _STARTER_BODY})
    return await _editor(request, engine, visitor, form)


@router.post("/~new")
async def create(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    form = await read_fields(request, verbatim=_VERBATIM)
    try:
        check_template_id(form["templateId"])
        if await _exists(engine, visitor, form["templateId"]):
            raise InvalidInput(
                gettext("A template with this id exists. Open it to save a new version."), field="templateId"
            )
        stored, words = await _write(engine, visitor, form["templateId"], form)
    except (InvalidInput, RequestInvalid, InvalidTemplate) as error:
        return await _editor(request, engine, visitor, form, error=error)
    return redirect(request, f"/templates/{stored.template_id}", words)


@router.post("/~preview")
async def show_preview(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    form = await read_fields(request, verbatim=_VERBATIM)
    return await EditorPreview(form, _render(engine, visitor, form), _sentence).frame()


@router.post("/~preview/details")
async def show_preview_details(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    form = await read_fields(request, verbatim=_VERBATIM)
    preview = EditorPreview(form, _render(engine, visitor, form), _sentence)

    async def check(_: RenderedEmail) -> list[PresendIssue]:
        draft = await _compiled(engine, visitor, form)
        return await check_template(engine.database, draft, postal_address=engine.postal_address)

    return await preview.details(request, visitor, check)


@router.get("/{template_id}")
async def show(
    request: Request, engine: EngineDep, visitor: ViewerDep, template_id: str, version: int | None = None
) -> Response:
    return await _page(request, engine, visitor, template_id, version)


@router.get("/{template_id}/mail")
async def show_mail(
    engine: EngineDep, visitor: ViewerDep, template_id: str, version: int | None = None, scheme: str = "light"
) -> Response:
    stored = await _find_version(engine, visitor, template_id, version)
    try:
        values = await preview_values(engine, visitor.tenant_id, stored, "")
        rendered = stored.render(values, engine.templates.standard)
    except MailwrightError as error:
        return email_frame(previews.notice(error.text))
    return email_frame(previews.preview_html(rendered, is_dark=scheme == "dark"))


@router.get("/{template_id}/edit")
async def show_edit(
    request: Request,
    engine: EngineDep,
    visitor: EditorDep,
    template_id: str,
    *,
    version: int | None = None,
    locale: str = "",
) -> Response:
    """Edit a version, by default the newest. A new language starts with its text."""
    stored = await _find_version(engine, visitor, template_id, version)
    form = Fields(
        {
            "locale": locale or stored.locale,
            "subject": stored.subject,
            "format": stored.format,
            "body": stored.body,
            "text": stored.text or "",
            "variables": declared_text(stored.variables),
        }
    )
    return await _editor(request, engine, visitor, form, template=stored)


@router.post("/{template_id}/edit")
async def write(request: Request, engine: EngineDep, visitor: EditorDep, template_id: str) -> Response:
    """Save a new version. Older versions and the emails that use them do not change."""
    form = await read_fields(request, verbatim=_VERBATIM)
    newest = await _find_version(engine, visitor, template_id, None)
    try:
        stored, words = await _write(engine, visitor, template_id, form)
    except (InvalidInput, RequestInvalid, InvalidTemplate) as error:
        return await _editor(request, engine, visitor, form, template=newest, error=error)
    return redirect(request, f"/templates/{template_id}?version={stored.version}", words)


@router.get("/{template_id}/diff")
async def compare(
    request: Request,
    engine: EngineDep,
    visitor: ViewerDep,
    template_id: str,
    *,
    before: int | None = None,
    after: int | None = None,
) -> Response:
    """Compare two versions, by default the newest and its predecessor."""
    _require_own(template_id)
    older, newer = await engine.templates.versions_to_compare(visitor.tenant_id, template_id, before, after)
    values: dict[str, Any] = {
        "older": older,
        "newer": newer,
        "lines": list(_diff_lines(older, newer)),
        "versions": await engine.templates.versions(visitor.tenant_id, template_id),
    }
    return await page(request, visitor, "templates/diff.html", **values)


@router.post("/{template_id}/test")
async def send_test(request: Request, engine: EngineDep, visitor: EditorDep, template_id: str) -> Response:
    """Send the email with its samples to one address."""
    form = await read_fields(request)
    version = form.number("version")
    stored = await _find_version(engine, visitor, template_id, version)
    caller = Caller(visitor.tenant_id, visitor.tenant, visitor.scopes, visitor.actor)
    try:
        values = await preview_values(engine, visitor.tenant_id, stored, "")
        rendered = stored.render(values, engine.templates.standard)
        content = {"subject": SUBJECT_PREFIX + rendered.subject, "html": rendered.html, "text": rendered.text}
        body = {"to": form["to"], **{name: value for name, value in content.items() if value}}
        await engine.api_messages.send(RequestContext(caller, request_id_of(request)), body)
    except (InvalidInput, RequestInvalid, InvalidTemplate) as error:
        return await _page(request, engine, visitor, template_id, version, error=error, form=form)
    return redirect(request, f"/templates/{template_id}?version={stored.version}", gettext("Test email sent."))


def declared_of(text: str) -> list[dict[str, Any]]:
    """Parse lines of `name`, `name = sample` or `name?` for an optional variable."""
    found = []
    for line in text.splitlines():
        if not line.strip():
            continue
        name, _, sample = line.partition("=")
        name, is_optional = name.strip(), name.strip().endswith("?")
        found.append(
            {"name": name.removesuffix("?").strip(), "required": not is_optional, "sample": sample.strip() or None}
        )
    return found


def declared_text(variables: tuple[Variable, ...]) -> str:
    lines = []
    for each in variables:
        sample = "" if each.sample is None else f" = {each.sample}"
        lines.append(f"{each.name}{'' if each.is_required else '?'}{sample}")
    return "\n".join(lines)


async def _write(engine: Engine, visitor: Visitor, template_id: str, form: Fields) -> tuple[StoredTemplate, str]:
    """Save a version, and return it with the words that confirm it."""
    shared = await _with_shared_links(engine, visitor, form)
    request = parse_template(_request(shared))
    is_admin = visitor.may(Role.ADMIN)
    stored = await engine.templates.write(
        visitor.tenant_id, template_id, request.draft(), actor=visitor.actor, keeps_locked=not is_admin
    )
    return stored, gettext("Saved as version {version}.", version=stored.version) + (
        f" {LINKS_REPLACED}" if shared != form else ""
    )


async def _with_shared_links(engine: Engine, visitor: Visitor, form: Fields) -> Fields:
    if _format(form) is TemplateFormat.BLOCKS:
        return form
    return await with_shared_links(engine, visitor.tenant_id, form, "body", "text")


def _request(form: Fields) -> dict[str, Any]:
    format_, source = _format(form), form["body"].replace("\r\n", "\n")
    content = parse_document(source).to_json() if format_ is TemplateFormat.BLOCKS else source
    body: dict[str, Any] = {"subject": form["subject"], format_.value: content}
    if form["text"].strip():
        body["text"] = form["text"].replace("\r\n", "\n")
    if form["locale"]:
        body["locale"] = form["locale"]
    if declared := declared_of(form["variables"]):
        body["variables"] = declared
    return body


def _format(form: Fields) -> TemplateFormat:
    try:
        return TemplateFormat(form["format"] or TemplateFormat.HTML)
    except ValueError as error:
        raise InvalidInput(gettext("Choose blocks, HTML, MJML or Markdown."), field="format") from error


async def _compiled(engine: Engine, visitor: Visitor, form: Fields) -> StoredTemplate:
    """Return the form as a version that is not stored."""
    form = await _with_shared_links(engine, visitor, form)
    shown = Fields({**form, "subject": form["subject"] or gettext("(no subject)"), "text": form["text"].strip()})
    draft = parse_template(_request(shown)).draft()
    tenant_id = visitor.tenant_id
    html = await engine.templates.compiled(
        tenant_id, draft.body, draft.format, title=draft.subject, locale=draft.locale
    )
    stored = StoredTemplate(
        key=0,
        tenant_id=tenant_id,
        template_id="",
        version=0,
        subject=draft.subject,
        html=html,
        text=draft.text,
        created_at=0,
        locale=draft.locale,
        format=draft.format,
        source=draft.body,
        variables=draft.variables,
    )
    check_declared(stored.compiled(), draft.variables)
    return stored


async def _render(engine: Engine, visitor: Visitor, form: Fields) -> RenderedEmail:
    stored = await _compiled(engine, visitor, form)
    values = await preview_values(engine, visitor.tenant_id, stored, form["as_contact"])
    return stored.render(values, engine.templates.standard)


async def _page(
    request: Request,
    engine: Engine,
    visitor: Visitor,
    template_id: str,
    version: int | None,
    *,
    error: MailwrightError | None = None,
    form: Fields | None = None,
) -> Response:
    stored = await _find_version(engine, visitor, template_id, version)
    versions = await engine.templates.versions(visitor.tenant_id, template_id)
    newest: dict[str, StoredTemplate] = {}
    for each in versions:
        newest.setdefault(each.locale, each)
    values: dict[str, Any] = {
        "stored": stored,
        "draft_by": await engine.template_drafts.find_author(visitor.tenant_id, template_id),
        "versions": versions,
        "newest": dict(sorted(newest.items())),
        "variables": stored.expected_variables(),
        "issues": await check_template(engine.database, stored, postal_address=engine.postal_address),
        "fix_pages": FIX_PAGES if visitor.may(Role.ADMIN) else {},
        "email": None,
        "problem": None,
        "has_dark": previews.has_dark_style(stored.html),
        "form": form or Fields(),
        "errors": field_errors(error) if error is not None else Errors(),
    }
    try:
        samples = await preview_values(engine, visitor.tenant_id, stored, "")
        values["email"] = stored.render(samples, engine.templates.standard)
    except MailwrightError as failure:
        values["problem"] = failure.text
    status = HTTPStatus.UNPROCESSABLE_ENTITY if error is not None else HTTPStatus.OK
    return await page(request, visitor, "templates/show.html", status=status, **values)


async def _editor(
    request: Request,
    engine: Engine,
    visitor: Visitor,
    form: Fields,
    *,
    template: StoredTemplate | None = None,
    error: MailwrightError | None = None,
) -> Response:
    suggested = await contacts.list_page(engine.database, visitor.tenant_id, limit=_SUGGESTED_CONTACTS, status="active")
    attributes = sorted({name for contact in suggested for name in contact.attributes if name.isidentifier()})
    values: dict[str, Any] = {
        "form": form,
        "stored": template,
        "formats": FORMATS,
        "contacts": suggested,
        "offered": [*STANDARD_VARIABLES, *(name for name in attributes if name not in STANDARD_VARIABLES)],
        "errors": _errors_for(error) if error is not None else Errors(),
    }
    status = HTTPStatus.UNPROCESSABLE_ENTITY if error is not None else HTTPStatus.OK
    return await page(request, visitor, "templates/edit.html", status=status, **values)


def _errors_for(error: MailwrightError) -> Errors:
    found = field_errors(error, {**_BODIES, "template": "body"})
    return Errors({"variables" if name.startswith("variables[") else name: text for name, text in found.items()})


async def _exists(engine: Engine, visitor: Visitor, template_id: str) -> bool:
    try:
        await engine.templates.latest(visitor.tenant_id, template_id)
    except NotFound:
        return False
    return True


async def _find_version(engine: Engine, visitor: Visitor, template_id: str, version: int | None) -> StoredTemplate:
    _require_own(template_id)
    if version is not None:
        return await engine.templates.version(visitor.tenant_id, template_id, min(version, 2**31 - 1))
    return await engine.templates.latest(visitor.tenant_id, template_id)


def _require_own(template_id: str) -> None:
    """Report internal templates of campaigns as not found."""
    if RESERVED_CHARACTER in template_id:
        raise NotFound


def _sentence(error: MailwrightError) -> str:
    if isinstance(error, RequestInvalid):
        return " ".join(dict.fromkeys(field_sentence(each) for each in error.errors))
    return sentence(error.text)


def _diff_lines(before: StoredTemplate, after: StoredTemplate) -> Iterator[tuple[str, str]]:
    """Yield the kind and text of each line of a unified diff, with readable headers."""
    for part, lines in diff_parts(before, after):
        yield "head", part.capitalize()
        for line in lines[2:]:
            if place := _PLACE.match(line):
                yield "place", gettext("line {place}", place=place[1])
            else:
                yield {"+": "new", "-": "old"}.get(line[:1], "same"), line
