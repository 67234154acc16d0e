"""`mailwright dmarc`: DMARC aggregate reports about the domains of a tenant."""

from pathlib import Path
from typing import Annotated

import typer

from mailwright.app.dmarc import make_dmarc_recorder, require_reported_domain
from mailwright.app.sender_directory import make_directory
from mailwright.cli.exit_codes import NEGATIVE
from mailwright.cli.opening import Installation, find_tenant, run
from mailwright.cli.options import Json, Tenant, group
from mailwright.cli.output import aside, clock_time, out, print_json, print_rows
from mailwright.domain.address import both_forms
from mailwright.domain.clock import DAY
from mailwright.events.dmarc.recorder import ImportedReport, ImportOutcome
from mailwright.events.dmarc.unpack import MAX_FILE_BYTES
from mailwright.outbox import tenants
from mailwright.outbox.dmarc_reports import (
    DEFAULT_DAYS,
    MAX_DAYS,
    DomainReport,
    DomainTotals,
    RefusedReportRecord,
    list_refusals,
    list_totals,
    load_domain_report,
)

app = group("DMARC reports: who sends with your domains, and what receivers did with it.")

Days = Annotated[int, typer.Option(min=1, max=MAX_DAYS, help="How many days are included.")]


@app.command("import")
def import_command(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE", exists=True, dir_okay=False, help="XML, gzip, zip, or a saved email.", show_default=False
        ),
    ],
    tenant: Tenant = tenants.DEFAULT,
    as_json: Json = False,
) -> None:
    """Store the reports in files. A report that is already stored is skipped. Exit code 1 if one was refused."""

    async def work(at: Installation) -> list[ImportedReport]:
        owner = await find_tenant(at, tenant)
        recorder = make_dmarc_recorder(at.settings, at.database, at.clock)
        found: list[ImportedReport] = []
        for file in files:
            with file.open("rb") as opened:
                content = opened.read(MAX_FILE_BYTES + 1)
            found += await recorder.import_file(owner.id, content, file.name)
        return found

    found = run(work)
    if as_json:
        from mailwright.schemas.dmarc import dmarc_import_response  # noqa: PLC0415 - slow to import

        print_json(dmarc_import_response(found).to_dict())
    else:
        for each in found:
            subject = f"{each.reporter} about {both_forms(each.domain)}" if each.reporter else each.name
            out.print(f"{each.outcome}: {subject}", markup=False, soft_wrap=True, highlight=False)
            if each.reason is not None:
                aside.print(f"  {each.reason}", markup=False, soft_wrap=True)
    if any(each.outcome is ImportOutcome.REFUSED for each in found):
        raise typer.Exit(NEGATIVE)


@app.command("list")
def list_command(tenant: Tenant = tenants.DEFAULT, days: Days = DEFAULT_DAYS, as_json: Json = False) -> None:
    """List the domains with reports."""

    async def work(at: Installation) -> list[DomainTotals]:
        owner = await find_tenant(at, tenant)
        return await list_totals(at.database, owner.id, at.clock.now() - days * DAY)

    found = run(work)
    if as_json:
        from mailwright.schemas.dmarc import dmarc_domain_response  # noqa: PLC0415 - slow to import

        print_json([dmarc_domain_response(each).to_dict() for each in found])
        return
    rows = (
        (
            both_forms(each.domain),
            f"{each.reports:,}",
            f"{each.messages:,}",
            f"{each.aligned:,}",
            clock_time(each.last_at),
        )
        for each in found
    )
    nothing = "No DMARC reports. Publish the DMARC record of `mailwright domain list`, or import files."
    print_rows(("Domain!", "Reports#", "Messages#", "Aligned#", "Last report ({zone})"), rows, nothing=nothing)


@app.command()
def show(
    domain: Annotated[str, typer.Argument(metavar="DOMAIN", help="The sender domain.", show_default=False)],
    *,
    tenant: Tenant = tenants.DEFAULT,
    days: Days = DEFAULT_DAYS,
    as_json: Json = False,
) -> None:
    """Show the reports about a domain by reporter and source, and compare them with what was sent."""

    async def work(at: Installation) -> tuple[DomainReport, list[RefusedReportRecord]]:
        owner = await find_tenant(at, tenant)
        directory = make_directory(at.settings, at.database, at.clock)
        name = await require_reported_domain(at.database, directory, owner.id, domain)
        report = await load_domain_report(at.database, owner.id, name, at.clock.now(), days)
        return report, await list_refusals(at.database, owner.id, domain=name)

    report, refused = run(work)
    if as_json:
        from mailwright.schemas.dmarc import dmarc_report_response  # noqa: PLC0415 - slow to import

        print_json(dmarc_report_response(report, refused).to_dict())
        return
    _print_report(report, refused)


def _print_report(report: DomainReport, refused: list[RefusedReportRecord]) -> None:
    totals, domain = report.totals, both_forms(report.totals.domain)
    reports = "1 report" if totals.reports == 1 else f"{totals.reports:,} reports"
    out.print(
        f"{domain}: {totals.messages:,} messages in {reports}, {totals.aligned:,} aligned.",
        markup=False,
        highlight=False,
    )
    out.print(report.advice.sentence, markup=False, soft_wrap=True, highlight=False)
    for reporter in report.reporters:
        out.print(f"· {reporter.sentence}", markup=False, soft_wrap=True, highlight=False)
    rows = (
        (each.source_ip, f"{each.messages:,}", f"{each.aligned:,}", f"{each.signed:,}", each.results)
        for each in report.sources
    )
    print_rows(("Source!", "Messages#", "Aligned#", "Signed here#", "Results"), rows, nothing="No sources.")
    if report.skipped_rows:
        aside.print(f"Skipped rows that could not be read: {report.skipped_rows:,}")
    for each in refused:
        aside.print(f"Refused {clock_time(each.received_at)}: {each.reason} ({each.reporter})", markup=False)
