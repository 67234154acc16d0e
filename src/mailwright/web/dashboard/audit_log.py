"""The audit log: its page, and its files."""

from http import HTTPStatus
from typing import Annotated, Final
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from markupsafe import Markup, escape
from starlette.responses import Response

from mailwright.actions.audit_log import AuditLogQuery, TenantNames, audit_csv, audit_json_lines
from mailwright.actions.declaration import CsvFile, JsonLinesFile
from mailwright.app.wiring import Engine
from mailwright.domain.translation import gettext, lazy_gettext
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import AuditEntry, AuditFilter, all_entries, list_entries
from mailwright.schemas.paging import decode_cursor, encode_cursor
from mailwright.texts.audit_log import actor_text, subject_name, template_of
from mailwright.web.api.derived import file_response
from mailwright.web.dashboard.forms import Errors
from mailwright.web.dashboard.settings import TABS
from mailwright.web.dashboard.shell import PageRoute, page
from mailwright.web.languages import in_language_of_page
from mailwright.web.session import AdminDep, Visitor
from mailwright.web.state import EngineDep

router = APIRouter(prefix="/settings/audit-log", route_class=PageRoute, include_in_schema=False)

# What the entries of an action are about, by the beginning of its name.
KINDS: Final = {
    "campaign": lazy_gettext("Campaigns"),
    "sequence": lazy_gettext("Sequences"),
    "approval": lazy_gettext("Approvals"),
    "message": lazy_gettext("Messages"),
    "sending": lazy_gettext("Sending"),
    "contact": lazy_gettext("Contacts"),
    "import": lazy_gettext("Imports"),
    "list": lazy_gettext("Lists"),
    "segment": lazy_gettext("Segments"),
    "form": lazy_gettext("Sign-up forms"),
    "suppression": lazy_gettext("Suppressions"),
    "template": lazy_gettext("Templates"),
    "image": lazy_gettext("Images"),
    "brand": lazy_gettext("Brand"),
    "user": lazy_gettext("Users"),
    "key": lazy_gettext("API keys"),
    "webhook": lazy_gettext("Webhooks"),
    "domain": lazy_gettext("Sender domains"),
    "provider": lazy_gettext("Providers"),
    "setting": lazy_gettext("Settings"),
    "retention": lazy_gettext("Retention"),
    "tenant": lazy_gettext("Tenants"),
}
# The page of each kind of subject.
_PAGES: Final = {
    "campaign": "/campaigns/",
    "contact": "/contacts/",
    "domain": "/settings/domains/",
    "list": "/lists/",
    "mailout": "/mailouts/",
    "message": "/messages/",
    "segment": "/segments/",
    "sequence": "/sequences/",
    "template": "/templates/",
    "webhook": "/settings/webhooks/",
    "article.send": "/articles/~runs/",
}
_ROWS: Final = 50
_NEWEST: Final = 2**63 - 1

Wanted = Annotated[AuditLogQuery, Query()]


class AuditLogPageQuery(AuditLogQuery):
    cursor: str | None = None


@router.get("")
async def show(
    request: Request, engine: EngineDep, visitor: AdminDep, wanted: Annotated[AuditLogPageQuery, Query()]
) -> Response:
    """Show the audit log. Administrators of the installation also see entries without a tenant."""
    before = decode_cursor("audit-entry", wanted.cursor)[0] if wanted.cursor else _NEWEST
    found = await list_entries(engine.database.reader, limit=_ROWS, before=before, **_filter(visitor, wanted))
    users = await engine.users.list_all()
    given = wanted.model_dump(exclude={"cursor"}, exclude_none=True)
    return await page(
        request,
        visitor,
        "settings/audit_log.html",
        status=HTTPStatus.OK,
        tabs=TABS,
        errors=Errors(),
        entries=found,
        following=encode_cursor("audit-entry", found[-1].id) if len(found) == _ROWS else None,
        tenant_names=await _tenant_names(engine),
        is_first=wanted.cursor is None,
        wanted=wanted,
        is_filtered=any(given.values()),
        kinds=KINDS.items(),
        logins=[user.login for user in users if visitor.user.tenant_id in (None, user.tenant_id)],
        sentence_of=lambda entry: _sentence(entry, is_linked=entry.tenant_id == visitor.tenant_id),
    )


@router.get("/file.csv")
async def download_csv(engine: EngineDep, visitor: AdminDep, wanted: Wanted) -> Response:
    entries = all_entries(engine.database.reader, **_filter(visitor, wanted))
    parts = in_language_of_page(audit_csv(entries, await _tenant_names(engine)))
    return file_response(CsvFile(parts, "audit-log.csv"))


@router.get("/file.jsonl")
async def download_json_lines(engine: EngineDep, visitor: AdminDep, wanted: Wanted) -> Response:
    entries = all_entries(engine.database.reader, **_filter(visitor, wanted))
    parts = in_language_of_page(audit_json_lines(entries, await _tenant_names(engine)))
    return file_response(JsonLinesFile(parts, "audit-log.jsonl"))


async def _tenant_names(engine: Engine) -> TenantNames:
    return {tenant.id: tenant.name for tenant in await tenants.list_all(engine.database)}


def _filter(visitor: Visitor, wanted: AuditLogQuery) -> AuditFilter:
    return wanted.entries_of(None if visitor.user.tenant_id is None else visitor.tenant_id)


def _sentence(entry: AuditEntry, *, is_linked: bool) -> Markup:
    """Return the sentence of an entry, with a link if its subject has a page."""
    name = Markup('<span class="break-anywhere">{}</span>').format(subject_name(entry))
    home = _PAGES.get(entry.action) or _PAGES.get(entry.action.partition(".")[0])
    if home is not None and is_linked and entry.subject:
        name = Markup('<a href="{}{}">{}</a>').format(home, quote(entry.subject, safe=""), name)
    actor = Markup("<strong>{}</strong>").format(actor_text(entry.actor))
    subject = escape(gettext("“{name}”", name="{name}")).format(name=name)
    return escape(template_of(entry.action)).format(actor=actor, subject=subject)
