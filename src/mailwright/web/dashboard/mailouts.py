"""Mailout pages: preview, sending and results of Notion pages."""

from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import Response, StreamingResponse

from mailwright.actions.exclusions import EXCLUSION_TEXT
from mailwright.app.mailouts import MailoutService, mailout_setup
from mailwright.app.wiring import Engine
from mailwright.audience.eligibility import Exclusion
from mailwright.domain.errors import InvalidInput, MailwrightError, NotFound
from mailwright.domain.message import Source
from mailwright.domain.translation import gettext, lazy_gettext
from mailwright.outbox import tenants
from mailwright.schemas.paging import decode_cursor, encode_cursor
from mailwright.schemas.recipient_report import recipients_csv
from mailwright.sources.campaigns import report
from mailwright.sources.mailouts.notion import NotionError
from mailwright.sources.mailouts.progress import progress_of
from mailwright.sources.mailouts.refusals import SENDER_RULES_UNMET, MailoutRefused
from mailwright.sources.mailouts.runs import MailoutRunStatus
from mailwright.sources.mailouts.sender import MailoutSender
from mailwright.sources.mailouts.supabase import SupabaseError
from mailwright.sources.mailouts.wait_reasons import find_waits
from mailwright.web.dashboard import previews
from mailwright.web.dashboard.forms import Errors, field_errors, read_fields
from mailwright.web.dashboard.readiness import readiness_of
from mailwright.web.dashboard.shell import PageRoute, email_frame, page, redirect
from mailwright.web.session import EditorDep, ViewerDep, Visitor
from mailwright.web.state import EngineDep

router = APIRouter(prefix="/mailouts", route_class=PageRoute, include_in_schema=False)

PageOfNotion = Annotated[str, Query(alias="page", max_length=2_000)]

_PAGE: Final = 30
_NEWEST: Final = 2**63 - 1
_SOME_RECIPIENTS: Final = 20
_NOT_SENT: Final = (MailoutRefused, NotionError, SupabaseError, InvalidInput)

# Settings of mailouts: name, description, whether it is required.
_SETTINGS: Final = (
    ("NOTION_TOKEN", lazy_gettext("Secret of your Notion integration"), True),
    ("ORG_NAME", lazy_gettext("Name of the sender in the footer"), True),
    ("ORG_ADDRESS", lazy_gettext("Postal address in the footer"), True),
    ("UNSUBSCRIBE_BASE_URL", lazy_gettext("URL of the unsubscribe page"), True),
    ("UNSUBSCRIBE_SECRET", lazy_gettext("Secret that signs unsubscribe links"), True),
    ("NOTION_DB_MAILOUTS", lazy_gettext("Notion database that is checked for pages ready to send"), False),
    ("NOTION_DB_ERRORS", lazy_gettext("Notion database for errors"), False),
    ("TEST_EMAILS", lazy_gettext("Recipients of pages marked as a test"), False),
    ("SUPABASE_URL", lazy_gettext("Supabase project to take recipients from, instead of your contacts"), False),
)


@router.get("")
async def show_all(
    request: Request,
    engine: EngineDep,
    visitor: ViewerDep,
    cursor: Annotated[str | None, Query(max_length=200)] = None,
) -> Response:
    return await _list_page(request, engine, visitor, cursor=cursor)


@router.post("/~preview")
async def preview(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    """Preview a mailout. Nothing is stored or sent."""
    form = await read_fields(request)
    try:
        mailouts = await _open_mailouts(engine, visitor)
        seen = await mailouts.dry_run(form["page"])
    except _NOT_SENT as error:
        return await _list_page(request, engine, visitor, error=error, page_address=form["page"])
    values: dict[str, Any] = {
        "seen": seen,
        "page_address": form["page"],
        "some": list(seen.recipients)[:_SOME_RECIPIENTS],
        "left_out": [(email, _reason_text(each)) for email, each in list(seen.excluded.items())[:_SOME_RECIPIENTS]],
        "rendered": mailouts.preview(seen.content),
        "has_dark": previews.has_dark_style(seen.content.html),
        "readiness": await readiness_of(engine, visitor, source=Source.MAILOUT),
    }
    return await page(request, visitor, "mailouts/preview.html", **values)


@router.get("/~mail")
async def show_mail(
    engine: EngineDep,
    visitor: EditorDep,
    asked: PageOfNotion,
    scheme: Annotated[str, Query(max_length=10)] = "light",
) -> Response:
    """Render the email for the preview frame. The page is read again, so no preview has to be stored."""
    try:
        mailouts = await _open_mailouts(engine, visitor)
        written = await mailouts.read_content(asked)
    except _NOT_SENT as error:
        return email_frame(previews.notice(error.text))
    return email_frame(previews.preview_html(mailouts.preview(written), is_dark=scheme == "dark"))


@router.post("/~send")
async def send(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    form = await read_fields(request)
    try:
        run = await (await _open_mailouts(engine, visitor)).send(form["page"], actor=visitor.actor)
    except _NOT_SENT as error:
        return await _list_page(request, engine, visitor, error=error, page_address=form["page"])
    to = f"/mailouts/{run.mailout_id}"
    if run.status is MailoutRunStatus.REFUSED:
        return redirect(request, to, gettext("Nothing was sent. See the errors below."), tone="bad")
    return redirect(request, to, gettext("Mailout queued."))


@router.get("/{mailout_id}")
async def show(request: Request, engine: EngineDep, visitor: ViewerDep, mailout_id: str) -> Response:
    run = await engine.mailout_runs.find(mailout_id, tenant_id=visitor.tenant_id)
    errors = await engine.mailout_runs.list_errors(run)
    tally = (await progress_of(engine.database, engine.clock, [run])).get(run.key)
    wait = (await find_waits(engine.database, engine.clock, [run])).get(run.key)
    return await page(request, visitor, "mailouts/show.html", run=run, tally=tally, wait=wait, errors=errors)


@router.post("/{mailout_id}/override-sender-rules")
async def override_sender_rules(request: Request, engine: EngineDep, visitor: EditorDep, mailout_id: str) -> Response:
    """Send the page again as a new run, after the mailout was refused because of the sender rules."""
    refused = await engine.mailout_runs.find(mailout_id, tenant_id=visitor.tenant_id)
    here = f"/mailouts/{mailout_id}"
    if refused.error_code != SENDER_RULES_UNMET:
        return redirect(request, here, gettext("This mailout was not refused because of the sender rules."), tone="bad")
    try:
        mailouts = await _open_mailouts(engine, visitor)
        run = await mailouts.send(refused.page_id, actor=visitor.actor, overrides_rules=True)
    except _NOT_SENT as error:
        return redirect(request, here, error.text, tone="bad")
    to = f"/mailouts/{run.mailout_id}"
    if run.status is MailoutRunStatus.REFUSED:
        return redirect(request, to, gettext("Nothing was sent. See the errors below."), tone="bad")
    return redirect(request, to, gettext("Sender rules overridden, mailout queued. The audit log records it."))


@router.get("/{mailout_id}/report.csv")
async def download_report(engine: EngineDep, visitor: ViewerDep, mailout_id: str) -> Response:
    run = await engine.mailout_runs.find(mailout_id, tenant_id=visitor.tenant_id)
    rows = report.report_rows(engine.database, run.campaign_key or 0)
    headers = {"Content-Disposition": f'attachment; filename="{mailout_id}.csv"', "Cache-Control": "no-store"}
    return StreamingResponse(recipients_csv(rows), media_type="text/csv; charset=utf-8", headers=headers)


async def _list_page(
    request: Request,
    engine: Engine,
    visitor: Visitor,
    *,
    cursor: str | None = None,
    error: MailwrightError | None = None,
    page_address: str = "",
) -> Response:
    before = decode_cursor("mailout", cursor)[0] if cursor else _NEWEST
    found = await engine.mailout_runs.list_runs(tenant_id=visitor.tenant_id, limit=_PAGE, before=before)
    is_ours, tallies = (
        await _is_mailout_tenant(engine, visitor),
        await progress_of(engine.database, engine.clock, found),
    )
    waits = await find_waits(engine.database, engine.clock, found)
    values: dict[str, Any] = {
        "runs": [(run, tallies.get(run.key), waits.get(run.key)) for run in found],
        "following": encode_cursor("mailout", found[-1].key) if len(found) == _PAGE else None,
        "is_first": cursor is None,
        "page_address": page_address,
        "errors": Errors() if error is None else Errors(page=next(iter(field_errors(error).values()))),
        "is_ours": is_ours,
        "settings": _settings_status(engine.mailouts) if is_ours else [],
    }
    status = HTTPStatus.OK if error is None else HTTPStatus.UNPROCESSABLE_ENTITY
    return await page(request, visitor, "mailouts/list.html", status=status, **values)


async def _open_mailouts(engine: Engine, visitor: Visitor) -> MailoutSender:
    if engine.mailouts is None or not await _is_mailout_tenant(engine, visitor):
        raise NotFound(gettext("Mailouts belong to another tenant of this installation."))
    return await engine.mailouts.open()


async def _is_mailout_tenant(engine: Engine, visitor: Visitor) -> bool:
    """Return whether the visitor's tenant owns the mailouts. Only one tenant of an installation does."""
    if engine.mailouts is None:
        return True
    name = engine.mailouts.settings.mailout_tenant
    return (await tenants.find(engine.database, name)).id == visitor.tenant_id


def _reason_text(reason: str) -> str:
    """Return why a recipient is excluded. The reasons of Supabase are texts already."""
    return EXCLUSION_TEXT[Exclusion(reason)] if reason in {*Exclusion} else reason


def _settings_status(service: MailoutService | None) -> list[tuple[str, str, bool, bool]]:
    """Return name, description, whether it is required and whether it is set. Values are never shown."""
    if service is None:
        return [(name, words, must, False) for name, words, must in _SETTINGS]
    settings = service.settings
    missing = {*mailout_setup(settings, 0).footer.missing}
    known: dict[str, object] = {
        "NOTION_TOKEN": settings.notion_token,
        "NOTION_DB_MAILOUTS": settings.notion_db_mailouts,
        "NOTION_DB_ERRORS": settings.notion_db_errors,
        "TEST_EMAILS": settings.test_emails,
        "SUPABASE_URL": settings.supabase_url,
    }
    missing |= {name for name, value in known.items() if not value}
    return [(name, words, must, name not in missing) for name, words, must in _SETTINGS]
