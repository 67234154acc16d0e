"""The public archive of a list: its published campaigns as pages and as an Atom feed."""

import re
from collections.abc import Mapping
from hashlib import sha256
from http import HTTPStatus
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring

from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.app.wiring import Engine
from mailwright.content.template import InvalidTemplate
from mailwright.domain.clock import isoformat
from mailwright.domain.errors import NotFound
from mailwright.sources.campaigns.archive import NEWEST, Archive, ArchivedCampaign, ArchiveLinks
from mailwright.web.languages import language_of
from mailwright.web.public.pages import FOR_EVERYONE, page, stored_html
from mailwright.web.public.public_lists import PublicList, find_public_list
from mailwright.web.public.subscribers import PublicRoute
from mailwright.web.public.theme import load_theme
from mailwright.web.state import EngineDep

PER_PAGE = 30
ATOM = "http://www.w3.org/2005/Atom"
SUMMARY = 300

# The page may only embed frames from our own origin.
WITH_FRAME: Mapping[str, str] = {"frame-src": "'self'"}

# Characters that XML does not allow.
_INVALID_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_HEAD = re.compile(r"<head[^>]*>|<html[^>]*>|<!doctype[^>]*>", re.IGNORECASE)

router = APIRouter(route_class=PublicRoute, include_in_schema=False)


@router.api_route("/archive/{list_key}", methods=["GET", "HEAD"])
async def show(request: Request, list_key: str, engine: EngineDep) -> Response:
    public_list = await find_public_list(request, engine, list_key)
    language = language_of(request)
    before = request.query_params.get("before", "")
    last = int(before) if before.isascii() and before.isdecimal() and len(before) < 19 else NEWEST
    found = await _archive(engine).list_public(public_list.tenant_id, list_key, limit=PER_PAGE + 1, before=last)
    shown = [await _issue_values(engine, public_list, each, language) for each in found[:PER_PAGE]]
    older = public_list.link(list_key, before=str(found[PER_PAGE - 1].key)) if len(found) > PER_PAGE else None
    return page(
        "archive",
        language,
        is_for_everyone=True,
        theme=await load_theme(engine, public_list.tenant_id),
        here=public_list.here,
        list=public_list.list,
        issues=[each for each in shown if each is not None],
        older=older,
        feed=public_list.link(f"{list_key}/feed"),
        subscribe=public_list.link(f"../subscribe/{list_key}"),
    )


@router.api_route("/archive/{list_key}/feed", methods=["GET", "HEAD"])
async def feed(request: Request, list_key: str, engine: EngineDep) -> Response:
    """Serve the Atom feed (RFC 4287), with an ETag because feed readers poll it."""
    public_list = await find_public_list(request, engine, list_key)
    found = await _archive(engine).list_public(public_list.tenant_id, list_key, limit=PER_PAGE)
    content = await _atom(engine, public_list, found)
    tag = f'"{sha256(content).hexdigest()[:32]}"'
    headers = {**FOR_EVERYONE, "ETag": tag, "X-Content-Type-Options": "nosniff"}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(content, media_type="application/atom+xml; charset=utf-8", headers=headers)


@router.api_route("/archive/{list_key}/{campaign_id}", methods=["GET", "HEAD"])
async def show_issue(request: Request, list_key: str, campaign_id: str, engine: EngineDep) -> Response:
    public_list = await find_public_list(request, engine, list_key)
    issue = await _archive(engine).find_public(public_list.tenant_id, list_key, campaign_id)
    language = language_of(request)
    line = await _issue_values(engine, public_list, issue, language)
    if line is None:
        raise NotFound
    return page(
        "issue",
        language,
        rules=WITH_FRAME,
        is_for_everyone=True,
        theme=await load_theme(engine, public_list.tenant_id),
        here=public_list.here,
        list=public_list.list,
        content=public_list.link(f"{campaign_id}/content"),
        back=public_list.link(f"../{list_key}"),
        subscribe=public_list.link(f"../../subscribe/{list_key}"),
        **line,
    )


@router.api_route("/archive/{list_key}/{campaign_id}/content", methods=["GET", "HEAD"])
async def content(request: Request, list_key: str, campaign_id: str, engine: EngineDep) -> Response:
    """Serve the email that its page shows in a frame."""
    public_list = await find_public_list(request, engine, list_key)
    archive = _archive(engine)
    issue = await archive.find_public(public_list.tenant_id, list_key, campaign_id)
    try:
        html = (await archive.render(issue, language_of(request), _archive_links(engine, public_list, issue))).html
    except InvalidTemplate as error:
        raise NotFound from error
    return stored_html(_open_links_in_new_tabs(html or ""), framed_by="'self'", headers=FOR_EVERYONE)


async def _issue_values(
    engine: Engine, public_list: PublicList, issue: ArchivedCampaign, language: str
) -> dict[str, Any] | None:
    """Return the template values of one campaign, or None if its email can no longer be rendered."""
    try:
        shown = await _archive(engine).render(issue, language, _archive_links(engine, public_list, issue))
    except (InvalidTemplate, NotFound):
        return None
    at = isoformat(issue.sent_at) or ""
    link = public_list.link(f"{public_list.list.list_key}/{issue.campaign_id}")
    return {"subject": shown.subject.strip() or issue.name, "at": at, "day": at[:10], "link": link}


def _archive_links(engine: Engine, public_list: PublicList, issue: ArchivedCampaign) -> ArchiveLinks:
    key = public_list.list.list_key
    return ArchiveLinks(
        subscribe=engine.public_url + public_list.link(f"/subscribe/{key}"),
        itself=engine.public_url + public_list.link(f"/archive/{key}/{issue.campaign_id}"),
        postal_address=engine.postal_address or "",
    )


async def _atom(engine: Engine, public_list: PublicList, found: list[ArchivedCampaign]) -> bytes:
    key = public_list.list.list_key
    root = Element("feed", xmlns=ATOM)
    _add(root, "id", engine.public_url + public_list.link(f"/archive/{key}/feed"))
    _add(root, "title", public_list.list.name)
    _add(root, "subtitle", public_list.list.description)
    _add(
        root, "updated", isoformat(max((each.published_at or 0 for each in found), default=public_list.list.created_at))
    )
    SubElement(root, "link", rel="self", href=engine.public_url + public_list.link(f"/archive/{key}/feed"))
    SubElement(root, "link", rel="alternate", href=engine.public_url + public_list.link(f"/archive/{key}"))
    _add(
        SubElement(root, "author"),
        "name",
        (await load_theme(engine, public_list.tenant_id)).name or public_list.list.name,
    )
    for issue in found:
        around = _archive_links(engine, public_list, issue)
        try:
            shown = await _archive(engine).render(issue, None, around)
        except (InvalidTemplate, NotFound):
            continue
        entry = SubElement(root, "entry")
        _add(entry, "id", f"urn:uuid:{issue.campaign_id}")
        _add(entry, "title", shown.subject.strip() or issue.name)
        _add(entry, "published", isoformat(issue.sent_at))
        _add(entry, "updated", isoformat(issue.published_at))
        SubElement(entry, "link", rel="alternate", href=around.itself)
        _add(entry, "summary", " ".join((shown.text or "").split())[:SUMMARY])
    content: bytes = tostring(root, encoding="utf-8", xml_declaration=True)
    return content


def _add(parent: Element, name: str, text: str | None) -> None:
    if text:
        SubElement(parent, name).text = _INVALID_IN_XML.sub("", text)


def _open_links_in_new_tabs(html: str) -> str:
    """Open links in a new tab, because they do not work inside the frame."""
    end = max((found.end() for found in _HEAD.finditer(html[:10_000])), default=0)
    return f'{html[:end]}<base target="_blank">{html[end:]}'


def _archive(engine: Engine) -> Archive:
    return Archive(engine.database, engine.clock, engine.templates)
