"""Models of the report of shadow mode."""

from typing import Annotated

from pydantic import Field

from mailwright.domain.shadow import ShadowFinding, SmtpMode
from mailwright.outbox.shadow import ShadowReport, ShadowRow
from mailwright.schemas.base import ResponseModel, Time
from mailwright.sources.api.fields import RequestModel

MAX_REPORT_DAYS = 366


class ShadowReportQuery(RequestModel):
    days: Annotated[int, Field(ge=1, le=MAX_REPORT_DAYS, description="How many days the report covers.")] = 7


class ShadowEmailResponse(ResponseModel):
    """A recipient of an email that was passed on, with a masked address."""

    at: Time
    recipient: str
    from_domain: str | None
    findings: list[ShadowFinding]
    detail: str
    relay_reply: str


class ShadowReportResponse(ResponseModel):
    """The emails that shadow mode passed on, counted by recipient, and what Mailwright would have done with them.

    `mode` is the current mode of SMTP. `rejected`: the relay did not accept the email. `findings` counts recipients by
    finding. `examples` are the latest recipients with findings.
    """

    mode: SmtpMode
    since: Time
    passed: int
    accepted: int
    rejected: int
    bytes: int
    last_at: Time | None
    findings: dict[ShadowFinding, int]
    examples: list[ShadowEmailResponse]


def shadow_report_response(report: ShadowReport, mode: SmtpMode) -> ShadowReportResponse:
    return ShadowReportResponse(
        mode=mode,
        since=report.since,
        passed=report.passed,
        accepted=report.accepted,
        rejected=report.rejected,
        bytes=report.bytes,
        last_at=report.last_at,
        findings=dict(report.findings),
        examples=[_email_response(row) for row in report.examples],
    )


def _email_response(row: ShadowRow) -> ShadowEmailResponse:
    return ShadowEmailResponse(
        at=row.created_at,
        recipient=row.recipient,
        from_domain=row.from_domain,
        findings=[ShadowFinding(word) for word in row.findings.split()],
        detail=row.detail,
        relay_reply=row.relay_reply,
    )
