"""Models of DMARC reports."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from mailwright.domain.dmarc import ReporterComparison
from mailwright.events.dmarc.recorder import ImportedReport, ImportOutcome
from mailwright.outbox.dmarc_reports import (
    DEFAULT_DAYS,
    MAX_DAYS,
    DayTotals,
    DomainReport,
    DomainTotals,
    RefusedReportRecord,
    SourceTotals,
)
from mailwright.schemas.base import ResponseModel, Time
from mailwright.sources.api.fields import RequestModel


class DmarcQuery(RequestModel):
    days: Annotated[int, Field(ge=1, le=MAX_DAYS, description="How many days are included.")] = DEFAULT_DAYS


class DmarcImportQuery(RequestModel):
    file_name: Annotated[str, Field(max_length=255, description="The name of the file, for error messages.")] = ""


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


def dmarc_import_response(imported: Sequence[ImportedReport]) -> DmarcImportResponse:
    outcomes = [each.outcome for each in imported]
    return DmarcImportResponse(
        stored=outcomes.count(ImportOutcome.STORED),
        repeated=outcomes.count(ImportOutcome.REPEATED),
        refused=outcomes.count(ImportOutcome.REFUSED),
        reports=[ImportedDmarcReportResponse.model_validate(each) for each in imported],
    )


def dmarc_domain_response(totals: DomainTotals) -> DmarcDomainResponse:
    return DmarcDomainResponse.model_validate(totals)


def dmarc_report_response(report: DomainReport, refused: Sequence[RefusedReportRecord]) -> DmarcReportResponse:
    return DmarcReportResponse(
        **dict(dmarc_domain_response(report.totals)),
        since=report.since,
        policy=report.policy,
        suggested_policy=report.advice.policy,
        advice=report.advice.sentence,
        by_reporter=[_reporter(each) for each in report.reporters],
        sources=[_source(each) for each in report.sources],
        source_count=report.source_count,
        days=[_day(each) for each in report.days],
        skipped_rows=report.skipped_rows,
        refused=[DmarcRefusalResponse.model_validate(each) for each in refused],
    )


def _reporter(reporter: ReporterComparison) -> DmarcReporterResponse:
    return DmarcReporterResponse.model_validate(reporter)


def _source(source: SourceTotals) -> DmarcSourceResponse:
    return DmarcSourceResponse.model_validate(source)


def _day(day: DayTotals) -> DmarcDayResponse:
    return DmarcDayResponse.model_validate(day)
