"""DMARC reports about a domain by reporter, source and day, compared with the messages that Mailwright sent."""

from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.app.dmarc import require_reported_domain
from mailwright.app.sender_domain_records import dmarc_address
from mailwright.domain.errors import MailwrightError
from mailwright.domain.translation import gettext
from mailwright.events.dmarc.recorder import ImportedReport, ImportOutcome
from mailwright.events.dmarc.unpack import MAX_FILE_BYTES
from mailwright.outbox.dmarc_reports import DEFAULT_DAYS, list_refusals, load_domain_report
from mailwright.web.dashboard.axis import round_number
from mailwright.web.dashboard.shell import PageRoute, page, redirect
from mailwright.web.session import AdminDep
from mailwright.web.state import EngineDep
from mailwright.web.uploads import read_upload

HOME: Final = "/settings/domains"

router = APIRouter(prefix=f"{HOME}/{{name}}/dmarc", route_class=PageRoute, include_in_schema=False)


@router.get("")
async def show(request: Request, engine: EngineDep, visitor: AdminDep, name: str) -> Response:
    domain = await require_reported_domain(engine.database, engine.directory, visitor.tenant_id, name)
    report = await load_domain_report(engine.database.reader, visitor.tenant_id, domain, engine.clock.now())
    # Reports about domains that no tenant has are shown to those who manage the mailbox.
    is_installation = visitor.user.tenant_id is None
    refused = await list_refusals(
        engine.database.reader, visitor.tenant_id, domain=domain, with_unowned=is_installation
    )
    return await page(
        request,
        visitor,
        "sender_domains/dmarc.html",
        report=report,
        refused=refused,
        top=round_number(max(day.messages for day in report.days)),
        marks=[report.days[0].begins_at, report.days[len(report.days) // 2].begins_at, report.days[-1].begins_at],
        period=DEFAULT_DAYS,
        address=dmarc_address(engine.settings, domain),
        is_read=engine.settings.bounce_mailbox is not None,
        max_mb=MAX_FILE_BYTES // 1024**2,
    )


@router.post("")
async def import_file(request: Request, engine: EngineDep, visitor: AdminDep, name: str) -> Response:
    """Store the reports of an uploaded file."""
    domain = await require_reported_domain(engine.database, engine.directory, visitor.tenant_id, name)
    to = f"{HOME}/{domain}/dmarc"
    try:
        file = await read_upload(request, MAX_FILE_BYTES)
    except MailwrightError as error:
        return redirect(request, to, error.text, tone="bad")
    imported = await engine.dmarc.import_file(visitor.tenant_id, file.content, file.name)
    refused = next((each for each in imported if each.outcome is ImportOutcome.REFUSED), None)
    if refused is not None:
        return redirect(request, to, str(refused.reason), tone="bad")
    skipped = [each.reason for each in imported if each.reason is not None]
    return redirect(request, to, " ".join([_result(imported), *skipped[:1]]))


def _result(imported: list[ImportedReport]) -> str:
    stored = sum(each.outcome is ImportOutcome.STORED for each in imported)
    if not stored:
        return gettext("Nothing new: the report is already stored.")
    return gettext("Report stored.") if stored == 1 else gettext("{stored} reports stored.", stored=stored)
