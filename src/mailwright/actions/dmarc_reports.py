"""DMARC reports: who sends with your domains, and what receivers did with it."""

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Annotated, Any, Literal

from pydantic import Field

from mailwright.actions.context import Context
from mailwright.actions.declaration import MANAGE, Aside, FileBody, Line, Moment, Noun, Table, Upload, time_of
from mailwright.app.dmarc import make_dmarc_recorder, require_reported_domain
from mailwright.app.sender_directory import make_directory
from mailwright.domain.address import both_forms
from mailwright.domain.clock import DAY
from mailwright.events.dmarc.recorder import ImportOutcome
from mailwright.events.dmarc.unpack import MAX_FILE_BYTES
from mailwright.outbox.dmarc_reports import DEFAULT_DAYS, MAX_DAYS, list_refusals, list_totals, load_domain_report
from mailwright.schemas.base import ResponseModel, Time, combine
from mailwright.sources.api.fields import RequestModel

noun = Noun(
    "dmarc",
    "DMARC reports: who sends with your domains, and what receivers did with it.",
    "/v1/dmarc-reports",
    parameters={"domain_name": ("DOMAIN", "The sender domain.")},
)


class DmarcQuery(RequestModel):
    days: Annotated[int, Field(ge=1, le=MAX_DAYS, description="How many days are included.")] = DEFAULT_DAYS


class ImportedDmarcReportResponse(ResponseModel):
    """The result for one report. `reason` is a sentence if it was refused, or if some of its rows could not be read."""

    outcome: ImportOutcome
    reporter: str
    report_id: str
    domain: str
    name: str
    reason: str | None
    skipped_rows: int


class DmarcImportResponse(ResponseModel):
    stored: int
    repeated: int
    refused: int
    reports: list[ImportedDmarcReportResponse]


class DmarcDomainResponse(ResponseModel):
    """The reports about a domain in the period. `aligned` messages passed DKIM or SPF for the From domain.

    `unicodeDomain`: the domain as people read it.
    """

    domain: str
    unicode_domain: str
    reports: int
    reporters: int
    messages: int
    aligned: int
    failing: int
    last_at: Time | None


class DmarcDomainListResponse(ResponseModel):
    domains: list[DmarcDomainResponse]


class DmarcReporterResponse(ResponseModel):
    """A reporter. `sent`: messages that Mailwright sent to its domains in the time of its reports, if that is known.

    Compare it with `compared`, the aligned messages of the same reports. `unsigned` counts those of them without a
    signature by a key of Mailwright. `sentence` has the same information in words.
    """

    reporter: str
    reports: int
    messages: int
    aligned: int
    last_at: Time
    sent: int | None
    compared: int
    unsigned: int
    not_compared: Literal["receivers_unknown", "too_old", "period_unknown"] | None
    sentence: str


class DmarcSourceResponse(ResponseModel):
    """Messages from one address. `signed`: those with a signature by a key of Mailwright."""

    source_ip: str
    header_from: str
    messages: int
    aligned: int
    dkim: int
    spf: int
    signed: int
    quarantined: int
    rejected: int
    results: str


class DmarcDayResponse(ResponseModel):
    begins_at: Time
    messages: int
    aligned: int


class DmarcRefusalResponse(ResponseModel):
    """A report in the mailbox that was refused."""

    received_at: Time
    reporter: str
    domain: str
    name: str
    reason: str


class DmarcReportResponse(DmarcDomainResponse):
    """`policy`: the policy in the newest report.

    `suggestedPolicy`: the next stricter policy, if the reports justify it.
    """

    since: Time
    policy: str | None
    suggested_policy: Literal["quarantine", "reject"] | None
    advice: str
    by_reporter: list[DmarcReporterResponse]
    sources: list[DmarcSourceResponse]
    source_count: int
    days: list[DmarcDayResponse]
    skipped_rows: int
    refused: list[DmarcRefusalResponse]


class DmarcImportQuery(RequestModel):
    file_name: Annotated[str, Field(max_length=255, description="The name of the file, for error messages.")] = ""


@noun.post(
    status=HTTPStatus.OK,
    scope=MANAGE,
    audit=None,
    body=FileBody(
        ("application/xml", "application/gzip", "application/zip", "message/rfc822", "application/octet-stream"),
        max_bytes=MAX_FILE_BYTES,
    ),
)
async def import_file(at: Context, file: Upload, wanted: DmarcImportQuery) -> DmarcImportResponse:
    """Store the aggregate reports in a file: XML, gzip, zip, or an email with them. A report is stored once."""
    recorder = make_dmarc_recorder(at.settings, at.database, at.clock) if at.engine is None else at.engine.dmarc
    found = await recorder.import_file(at.tenant_id, await file.read(), wanted.file_name or file.name)
    outcomes = [each.outcome for each in found]
    return DmarcImportResponse(
        stored=outcomes.count(ImportOutcome.STORED),
        repeated=outcomes.count(ImportOutcome.REPEATED),
        refused=outcomes.count(ImportOutcome.REFUSED),
        reports=found,
    )


def _report_lines(report: DmarcReportResponse, _given: Mapping[str, Any]) -> Iterator[Line]:
    reports = "1 report" if report.reports == 1 else f"{report.reports:,} reports"
    yield f"{both_forms(report.domain)}: {report.messages:,} messages in {reports}, {report.aligned:,} aligned."
    yield report.advice
    yield from (f"· {each.sentence}" for each in report.by_reporter)
    yield Table(
        "sources",
        {
            "Source!": "source_ip",
            "Messages#": lambda each: f"{each.messages:,}",
            "Aligned#": lambda each: f"{each.aligned:,}",
            "Signed here#": lambda each: f"{each.signed:,}",
            "Results": "results",
        },
        nothing="No sources.",
    )
    if report.skipped_rows:
        yield Aside(f"Skipped rows that could not be read: {report.skipped_rows:,}", None)
    for each in report.refused:
        yield Aside(("Refused ", Moment(each.received_at), f": {each.reason} ({each.reporter})"), None)


@noun.get(
    command="list",
    shown=Table(
        "domains",
        {
            "Domain!": lambda each: both_forms(each.domain),
            "Reports#": lambda each: f"{each.reports:,}",
            "Messages#": lambda each: f"{each.messages:,}",
            "Aligned#": lambda each: f"{each.aligned:,}",
            "Last report ({zone})": time_of("last_at"),
        },
        nothing="No DMARC reports. Publish the DMARC record of `mailwright domain list`, or import files.",
    ),
)
async def list_domains(at: Context, query: DmarcQuery) -> DmarcDomainListResponse:
    """List the domains that receivers have reported about, with their numbers."""
    since = at.clock.now() - query.days * DAY
    return DmarcDomainListResponse(domains=await list_totals(at.database.reader, at.tenant_id, since))


@noun.get("/{domainName}", command="show", shown=_report_lines)
async def show(at: Context, domain_name: str, query: DmarcQuery) -> DmarcReportResponse:
    """Show the reports about a domain by reporter, source and day, compared with the messages that Mailwright sent."""
    directory = make_directory(at.settings, at.database, at.clock) if at.engine is None else at.engine.directory
    domain = await require_reported_domain(at.database, directory, at.tenant_id, domain_name)
    report = await load_domain_report(at.database.reader, at.tenant_id, domain, at.clock.now(), query.days)
    return combine(
        DmarcReportResponse,
        report.totals,
        report,
        suggested_policy=report.advice.policy,
        advice=report.advice.sentence,
        by_reporter=report.reporters,
        refused=await list_refusals(at.database.reader, at.tenant_id, domain=domain),
    )
