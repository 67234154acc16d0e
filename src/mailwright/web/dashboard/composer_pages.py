"""The composer of one template: its page and its draft, which is published, copied or discarded."""

from dataclasses import replace
from http import HTTPStatus
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote

import orjson
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from mailwright.access.roles import Role
from mailwright.access.users import email_of
from mailwright.app.wiring import Engine
from mailwright.audience import contacts, segments
from mailwright.content.blocks.compile import compile_document
from mailwright.content.blocks.document import check_draft, parse_document
from mailwright.content.blocks.locked import check_locked
from mailwright.content.formats import TemplateFormat
from mailwright.content.social_icons import icon_urls
from mailwright.content.template import Template
from mailwright.content.template_drafts import DraftChanged, DraftContent, DraftKey, SavedDraft
from mailwright.content.template_store import StoredTemplate, TemplateDraft, VersionChanged, latest_by_locale
from mailwright.content.variables import Variable
from mailwright.domain import locales
from mailwright.domain.clock import Instant
from mailwright.domain.translation import gettext
from mailwright.outbox import audit_log
from mailwright.schemas.composer import CopiedEmail, DiscardedDraft, OpenEditor, SavedEmail
from mailwright.sources.api.validation import FieldError, RequestInvalid, parse
from mailwright.web.bodies import json_response, read_json
from mailwright.web.dashboard import labels
from mailwright.web.dashboard.composed_email import brand_of, with_undeclared
from mailwright.web.dashboard.json_route import JsonRoute
from mailwright.web.dashboard.shell import PageRoute, page, redirect
from mailwright.web.session import EditorDep, Visitor
from mailwright.web.state import EngineDep

pages = APIRouter(prefix="/templates", route_class=PageRoute, include_in_schema=False)
router = APIRouter(prefix="/templates", route_class=JsonRoute, include_in_schema=False)

_SUGGESTED_CONTACTS: Final = 20
_MAX_COPIES: Final = 100
# The number of newest audit log entries that are searched for the latest version of a template.
_PUBLISHED_LATELY: Final = 20
# Images of an email can come from anywhere. Scripts and styles come from our own files only.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' https: http: data: blob:; "
    "font-src 'self'; connect-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


@pages.get("/{template_id}/compose")
async def show(
    request: Request,
    engine: EngineDep,
    visitor: EditorDep,
    template_id: str,
    *,
    version: Annotated[int | None, Query(ge=1, le=2**31 - 1)] = None,
    locale: str = "",
    campaign: str = "",
    sequence: str = "",
    step: str = "",
    insert: Literal["", "html", "markdown", "feed", "notion"] = "",
) -> Response:
    """Show the draft, or a version of the template if there is no draft or a version is asked for."""
    language = locales.normal(locale) if locale else ""
    if language is None:
        return redirect(
            request, f"/templates/{template_id}", gettext("Enter a language such as pt or pt-BR."), tone="bad"
        )
    key = DraftKey(visitor.tenant_id, template_id, language)
    published = await _published(engine, key)
    stored = published if version is None else await engine.templates.version(key.tenant_id, template_id, version)
    if stored.format is not TemplateFormat.BLOCKS:
        return redirect(request, f"/templates/{template_id}/edit?version={stored.version}")
    draft = await engine.template_drafts.find(key)
    is_open = draft is not None and draft.document is not None and version is None
    data = {
        **await _page_data(engine, visitor),
        "path": f"/templates/{template_id}",
        "templateId": template_id,
        "locale": language,
        "campaign": campaign,
        "sequence": sequence,
        "insert": insert,
        "hasDraft": draft is not None and draft.document is not None,
        "revision": draft.revision if draft is not None else 0,
        "baseVersion": draft.base_version if draft is not None and is_open else _version_of(published, key),
        "document": draft.document if draft is not None and is_open else orjson.loads(stored.body),
        "subject": draft.subject if draft is not None and is_open else stored.subject,
    }
    values: dict[str, Any] = {
        "data": data,
        "back": _back(template_id, campaign, sequence, step),
        "state": _state(engine, visitor, draft, stored),
    }
    return await page(request, visitor, "composer/compose.html", headers={"Content-Security-Policy": _POLICY}, **values)


@router.put("/{template_id}/autosave")
async def autosave(request: Request, engine: EngineDep, visitor: EditorDep, template_id: str) -> Response:
    """Save the draft, or respond with 409 and the draft that someone else saved."""
    asked = parse(SavedEmail, await read_json(request))
    key = DraftKey(visitor.tenant_id, template_id, asked.locale)
    published = await _published(engine, key)
    check_draft(asked.document)
    if not visitor.may(Role.ADMIN):
        await engine.templates.check_locked(key.tenant_id, template_id, _block_draft(key, asked), key.locale)
    try:
        saved = await engine.template_drafts.save(key, _content(asked), actor=visitor.actor)
    except DraftChanged as changed:
        return _conflict(engine, visitor, changed.current, published)
    return json_response({"revision": saved.revision, **_saved_at(engine, visitor, saved.saved_at)})


@router.post("/{template_id}/publish")
async def publish(request: Request, engine: EngineDep, visitor: EditorDep, template_id: str) -> Response:
    """Save the draft as a new version of the template, unless the published version is the same."""
    asked = parse(SavedEmail, await read_json(request))
    key = DraftKey(visitor.tenant_id, template_id, asked.locale)
    if (conflict := await _find_conflict(engine, visitor, key, asked)) is not None:
        return conflict
    published = await _published(engine, key)
    if await _is_unchanged(engine, key, asked, published):
        return await _end(engine, visitor, key, asked, published, {"isUnchanged": True})
    try:
        stored = await _write(engine, visitor, key, asked)
    except VersionChanged:
        return await _newer_version(engine, visitor, key, asked)
    return await _end(engine, visitor, key, asked, stored, {})


@router.post("/{template_id}/source")
async def switch_to_source(request: Request, engine: EngineDep, visitor: EditorDep, template_id: str) -> Response:
    """Save the blocks as a version, for the history, and their MJML as the next one, to edit as text."""
    asked = parse(SavedEmail, await read_json(request))
    key = DraftKey(visitor.tenant_id, template_id, asked.locale)
    if (conflict := await _find_conflict(engine, visitor, key, asked)) is not None:
        return conflict
    compiled = compile_document(parse_document(asked.document), await brand_of(engine, key.tenant_id))
    published = await _published(engine, key)
    source = TemplateDraft(
        subject=_required_subject(asked.subject), body=compiled.mjml, format=TemplateFormat.MJML, locale=key.locale
    )
    if not visitor.may(Role.ADMIN):
        await engine.templates.check_locked(key.tenant_id, template_id, source, key.locale)
    base = asked.base_version
    try:
        if not _is_same(asked, published):
            base = (await _write(engine, visitor, key, asked)).version
        stored = await engine.templates.write(
            key.tenant_id, template_id, source, actor=visitor.actor, base_version=base
        )
    except VersionChanged:
        return await _newer_version(engine, visitor, key, asked)
    path = f"/templates/{template_id}/edit?version={stored.version}"
    return await _end(engine, visitor, key, asked, stored, {"path": path})


@router.post("/{template_id}/discard")
async def discard(request: Request, engine: EngineDep, visitor: EditorDep, template_id: str) -> Response:
    """End the draft and return the published version. The browser can save the draft again, to undo this."""
    asked = parse(DiscardedDraft, await read_json(request))
    key = DraftKey(visitor.tenant_id, template_id, asked.locale)
    published = await _published(engine, key)
    ended = DraftContent(
        revision=asked.base_revision,
        base_version=_version_of(published, key),
        subject=published.subject,
        document=None,
    )
    try:
        saved = await engine.template_drafts.save(key, ended, actor=visitor.actor)
    except DraftChanged as changed:
        return _conflict(engine, visitor, changed.current, published)
    return json_response({"revision": saved.revision, **_version_json(published, key)})


@router.post("/{template_id}/copy")
async def copy(request: Request, engine: EngineDep, visitor: EditorDep, template_id: str) -> Response:
    """Save an email as a new template, after someone else changed the original."""
    asked = parse(CopiedEmail, await read_json(request))
    original = await _published(engine, DraftKey(visitor.tenant_id, template_id, asked.locale))
    if asked.base_version:
        original = await engine.templates.version(visitor.tenant_id, template_id, asked.base_version)
    if not visitor.may(Role.ADMIN):
        is_blocks = original.format is TemplateFormat.BLOCKS
        check_locked(orjson.loads(original.body) if is_blocks else {}, asked.document)
    name = f"{template_id[:90]}-copy"
    made = await create_template(engine, visitor, name, asked.subject, asked.document, may_lock=True)
    return json_response({"path": f"/templates/{made.template_id}/compose"})


@router.post("/{template_id}/presence")
async def report_presence(request: Request, engine: EngineDep, visitor: EditorDep, template_id: str) -> Response:
    """Record that a browser shows the draft, and return the other users who have it open."""
    asked = parse(OpenEditor, await read_json(request))
    key = DraftKey(visitor.tenant_id, template_id, asked.locale)
    await _published(engine, key)
    if asked.is_leaving:
        await engine.template_drafts.forget_editor(key, asked.editor)
        return json_response({})
    others = await engine.template_drafts.record_editor(key, asked.editor, login=visitor.actor)
    draft = await engine.template_drafts.find(key)
    return json_response(
        {
            "others": others,
            "revision": draft.revision if draft is not None else 0,
            "savedBy": draft.saved_by if draft is not None else "",
        }
    )


async def create_template(
    engine: Engine,
    visitor: Visitor,
    template_id: str,
    subject: str,
    document: dict[str, Any],
    variables: tuple[Variable, ...] = (),
    *,
    may_lock: bool = False,
) -> StoredTemplate:
    """Store a block document as the first version of a template with this id, or with a number after it.

    `may_lock` is for copies, which keep the locks of the original.
    """
    free = await _free_id(engine, visitor.tenant_id, template_id)
    body, format_ = orjson.dumps(document).decode(), TemplateFormat.BLOCKS
    draft = TemplateDraft(subject=_required_subject(subject), body=body, format=format_, variables=variables)
    keeps_locked = not may_lock and not visitor.may(Role.ADMIN)
    return await engine.templates.write(
        visitor.tenant_id, free, draft, actor=visitor.actor, must_be_new=True, keeps_locked=keeps_locked
    )


async def _free_id(engine: Engine, tenant_id: int, wanted: str) -> str:
    """Return an ID that no template has or had, because a deleted one can be restored and keeps its locks."""
    for number in range(1, _MAX_COPIES):
        candidate = wanted if number == 1 else f"{wanted}-{number}"
        async with engine.database.read() as tx:
            if not await latest_by_locale(tx, tenant_id, candidate, is_deleted_included=True):
                return candidate
    raise RequestInvalid([FieldError("templateId", "INVALID", gettext("is used by many templates; choose another"))])


async def _published(engine: Engine, key: DraftKey) -> StoredTemplate:
    """Return the newest version in this language, or in the default language, from which a new one starts."""
    return await engine.templates.latest(key.tenant_id, key.template_id, key.locale or None)


def _version_of(stored: StoredTemplate, key: DraftKey) -> int:
    return stored.version if stored.locale == key.locale else 0


def _version_json(stored: StoredTemplate, key: DraftKey) -> dict[str, Any]:
    is_blocks = stored.format is TemplateFormat.BLOCKS
    document = orjson.loads(stored.body) if is_blocks else {"version": 1, "blocks": []}
    return {"document": document, "subject": stored.subject, "version": _version_of(stored, key)}


def _content(asked: SavedEmail) -> DraftContent:
    return DraftContent(
        revision=asked.base_revision,
        base_version=asked.base_version,
        subject=asked.subject,
        document=asked.document,
    )


def _required_subject(subject: str) -> str:
    if not subject.strip():
        raise RequestInvalid([FieldError("subject", "REQUIRED", gettext("Enter a subject before you publish."))])
    return subject.strip()


def _is_same(asked: SavedEmail, published: StoredTemplate) -> bool:
    if published.format is not TemplateFormat.BLOCKS:
        return False
    return (published.subject, orjson.loads(published.body)) == (asked.subject.strip(), asked.document)


async def _is_unchanged(engine: Engine, key: DraftKey, asked: SavedEmail, published: StoredTemplate) -> bool:
    """Return whether publishing would store the same version again. A changed brand kit changes the email, too."""
    brand = (await brand_of(engine, key.tenant_id)).model_dump_json(by_alias=True)
    return published.locale == key.locale and published.brand == brand and _is_same(asked, published)


async def _find_conflict(engine: Engine, visitor: Visitor, key: DraftKey, asked: SavedEmail) -> Response | None:
    """Return the answer 409 if someone saved or published since this browser read the draft."""
    published = await _published(engine, key)
    draft = await engine.template_drafts.find(key)
    if draft is not None and draft.revision != asked.base_revision:
        return _conflict(engine, visitor, draft, published)
    if _version_of(published, key) == asked.base_version:
        return None
    return await _newer_version(engine, visitor, key, asked)


async def _newer_version(engine: Engine, visitor: Visitor, key: DraftKey, asked: SavedEmail) -> Response:
    """Return the answer 409 with the version that someone published since this browser read the draft."""
    published = await _published(engine, key)
    theirs = SavedDraft(
        revision=asked.base_revision,
        base_version=_version_of(published, key),
        subject=published.subject,
        document=None,
        saved_by=await _publisher(engine, key, published),
        saved_at=published.created_at,
    )
    return _conflict(engine, visitor, theirs, published)


async def _publisher(engine: Engine, key: DraftKey, published: StoredTemplate) -> str:
    """Return who or what published a version, from the audit log: a user, the API or the command line."""
    entries = await audit_log.list_entries(
        engine.database, tenant_id=key.tenant_id, limit=_PUBLISHED_LATELY, subject=key.template_id
    )
    written = {"version": published.version, "locale": published.locale}
    actors = [each.actor for each in entries if each.action == "template.write" and each.detail == written]
    if not actors:
        return gettext("another program")
    name = audit_log.describe_actor(actors[0])
    is_in_source_editor = name == actors[0] and published.format is not TemplateFormat.BLOCKS
    return gettext("{name}, in the source editor,", name=name) if is_in_source_editor else name


def _conflict(engine: Engine, visitor: Visitor, theirs: SavedDraft, published: StoredTemplate) -> Response:
    key = DraftKey(visitor.tenant_id, published.template_id, published.locale)
    content = _version_json(published, key)
    if theirs.document is not None:
        content = {"document": theirs.document, "subject": theirs.subject}
    body = {
        **content,
        "revision": theirs.revision,
        "baseVersion": theirs.base_version,
        "savedBy": theirs.saved_by,
        "isPublished": theirs.document is None,
        **_saved_at(engine, visitor, theirs.saved_at),
    }
    return json_response(body, HTTPStatus.CONFLICT)


def _block_draft(key: DraftKey, asked: SavedEmail) -> TemplateDraft:
    body = orjson.dumps(asked.document).decode()
    return TemplateDraft(subject=asked.subject, body=body, format=TemplateFormat.BLOCKS, locale=key.locale)


async def _write(engine: Engine, visitor: Visitor, key: DraftKey, asked: SavedEmail) -> StoredTemplate:
    subject, body = _required_subject(asked.subject), orjson.dumps(asked.document).decode()
    declared = (await _published(engine, key)).variables
    if declared:
        html = await engine.templates.compiled(key.tenant_id, body, TemplateFormat.BLOCKS, title=subject)
        declared = with_undeclared(Template(subject=subject, html=html, text=None), declared)
    draft = TemplateDraft(
        subject=subject, body=body, format=TemplateFormat.BLOCKS, locale=key.locale, variables=declared
    )
    return await engine.templates.write(
        key.tenant_id,
        key.template_id,
        draft,
        actor=visitor.actor,
        keeps_locked=not visitor.may(Role.ADMIN),
        base_version=asked.base_version,
    )


async def _end(
    engine: Engine, visitor: Visitor, key: DraftKey, asked: SavedEmail, stored: StoredTemplate, more: dict[str, Any]
) -> Response:
    """End a published draft.

    If someone else saves at the same moment, their draft stays, and they see the new version.
    """
    ended = replace(_content(asked), base_version=stored.version, document=None)
    try:
        revision = (await engine.template_drafts.save(key, ended, actor=visitor.actor)).revision
    except DraftChanged as changed:
        revision = changed.current.revision
    return json_response({"version": stored.version, "revision": revision, **more})


async def _page_data(engine: Engine, visitor: Visitor) -> dict[str, Any]:
    """Return the data of the page that does not depend on the template."""
    tenant_id = visitor.tenant_id
    brand = await brand_of(engine, tenant_id)
    people = await contacts.list_page(engine.database, tenant_id, limit=_SUGGESTED_CONTACTS, status="active")
    known = await segments.list_all(engine.database, tenant_id)
    return {
        "formToken": visitor.form_token,
        "user": visitor.actor,
        "userEmail": email_of(visitor.user.login, visitor.user.email) or "",
        "tenant": visitor.tenant,
        "brand": brand.model_dump(by_alias=True, mode="json"),
        "postalAddress": brand.postal_address or engine.postal_address or "",
        "hasIcons": bool(icon_urls(engine.public_url)),
        "contacts": [{"email": each.email, "name": each.name or each.email} for each in people],
        "segments": [{"key": each.segment_key, "name": each.name} for each in known],
    }


def _back(template_id: str, campaign: str, sequence: str, step: str) -> dict[str, str]:
    if sequence.replace("-", "").isalnum():
        return {"path": f"/sequences/{sequence}#step-{quote(step)}", "label": gettext("Back to the sequence")}
    if campaign.replace("-", "").isalnum():
        return {"path": f"/campaigns/{campaign}/edit/content", "label": gettext("Back to the campaign")}
    return {"path": f"/templates/{template_id}", "label": gettext("Templates")}


def _state(engine: Engine, visitor: Visitor, draft: SavedDraft | None, stored: StoredTemplate) -> str:
    if draft is None or draft.document is None:
        return gettext("Version {version}", version=stored.version)
    return gettext(
        "Draft saved {saved_at}", saved_at=labels.format_clock(draft.saved_at, engine.clock.now(), visitor.zone)
    )


def _saved_at(engine: Engine, visitor: Visitor, instant: Instant) -> dict[str, Any]:
    return {"savedAt": instant, "savedAtText": labels.format_clock(instant, engine.clock.now(), visitor.zone)}
