"""Models of reports that come back: webhooks that providers call, and bounce emails."""

from pydantic import ConfigDict

from mailwright.domain.report import Report
from mailwright.events.bounce_mail import RecordedBounceMail
from mailwright.schemas.base import ResponseModel


class InboundEventsResponse(ResponseModel):
    """Number of reports that were new, repeated, or about an unknown message."""

    new: int
    repeated: int
    unknown: int


class RecordedReportResponse(ResponseModel):
    """A report in an email, with further fields of its reporter."""

    model_config = ConfigDict(extra="allow")

    type: str
    recipient: str | None
    verdict: str
    outbox_id: str | None


class BounceMailResponse(InboundEventsResponse):
    kind: str
    reports: list[RecordedReportResponse]


def bounce_mail_response(recorded: RecordedBounceMail) -> BounceMailResponse:
    counts = recorded.counts
    reports = [_report(each) for each in recorded.reports]
    numbers = {"new": counts.new, "repeated": counts.repeated, "unknown": counts.unknown}
    return BounceMailResponse(kind=recorded.kind, reports=reports, **numbers)


def _report(report: Report) -> RecordedReportResponse:
    known = {"type": report.type, "recipient": report.recipient, "verdict": report.verdict}
    return RecordedReportResponse.model_validate({**known, "outboxId": report.outbox_id, **report.metadata})
