"""Answers about campaigns: the same for the HTTP API and for `--json` at the command line."""

import csv
import io
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

import orjson

from mailwright.audience.csv_cells import escape_formula
from mailwright.content.presend_checks import PresendIssue
from mailwright.domain.campaign import INDEFINITELY, CampaignStatus, QueueStatus
from mailwright.domain.clock import Instant, isoformat
from mailwright.outbox.audit_log import AuditEntry
from mailwright.schemas.answers import ResponseModel, Time
from mailwright.sources.campaigns.campaigns import Campaign
from mailwright.sources.campaigns.failed_recipients import FailedRecipient
from mailwright.sources.campaigns.progress import CampaignMessageCounts, QueuePosition, QueueProgress
from mailwright.sources.campaigns.report import ReportRow
from mailwright.sources.campaigns.snapshot import CampaignCheck

REPORT_COLUMNS = ("email", "status", "error_message", "message_id", "sent_at")
# So many rows are handed on together: fewer would cost a write each, more would wait for each other.
_ROWS = 500


class CampaignCountsResponse(ResponseModel):
    """`planned`: as many as were in the audience at the start; `recipients`: as many as have become messages."""

    planned: int
    recipients: int
    waiting: int
    sending: int
    sent: int
    failed: int
    withdrawn: int
    in_doubt: int
    closed_unknown: int
    cancelled: int


class CampaignSummaryResponse(ResponseModel):
    """A campaign and what holds it, if something does. `deferredUntil` is null where only a person ends the wait."""

    campaign_id: str
    name: str
    status: CampaignStatus
    defer_reason: str | None
    deferred_until: Time | None
    scheduled_at: Time | None
    created_at: Time
    updated_at: Time
    started_at: Time | None
    finished_at: Time | None


class CampaignResponse(CampaignSummaryResponse):
    """`definition` is what was written down, as a PUT takes it. The rest is null before the start."""

    definition: dict[str, Any]
    queue_status: QueueStatus | None
    counts: CampaignCountsResponse | None
    percent: float | None
    failed_count: int


class CampaignListResponse(ResponseModel):
    campaigns: list[CampaignSummaryResponse]
    next_cursor: str | None


class CampaignWarningResponse(ResponseModel):
    code: str
    sentence: str
    where: str


class CampaignProblemResponse(ResponseModel):
    field: str
    code: str
    message: str


class CampaignCheckResponse(ResponseModel):
    """What starting would say: `problems` keep it from starting, `warnings` do not."""

    may_start: bool
    planned: int
    problems: list[CampaignProblemResponse]
    warnings: list[CampaignWarningResponse]


class CampaignStartResponse(CampaignResponse):
    warnings: list[CampaignWarningResponse]


class CampaignRetryResponse(CampaignResponse):
    retried: int


class CampaignExtendResponse(CampaignResponse):
    newcomers: int


class TestMessageResponse(ResponseModel):
    outbox_id: str
    status: str


class CampaignTestResponse(ResponseModel):
    mails: list[TestMessageResponse]


class FailedRecipientResponse(ResponseModel):
    """Someone whose mail did not leave, and what the last attempt said."""

    email: str
    outbox_id: str
    error_code: str | None
    error_message: str | None
    attempts: int
    failed_at: Time | None


class FailedRecipientListResponse(ResponseModel):
    failures: list[FailedRecipientResponse]
    next_cursor: str | None


class AuditEntryResponse(ResponseModel):
    """`actor` is `console` for commands on the machine itself, `api` for keys."""

    actor: str
    action: str
    subject: str
    detail: dict[str, Any]
    created_at: Time


class AuditLogResponse(ResponseModel):
    deeds: list[AuditEntryResponse]
    next_cursor: str | None


def line(found: Campaign, place: QueuePosition | None) -> dict[str, Any]:
    return {
        "campaignId": found.campaign_id,
        "name": found.name,
        "status": found.status,
        "deferReason": place.defer_reason if place else None,
        "deferredUntil": end_of_wait(place.deferred_until) if place else None,
        "scheduledAt": isoformat(found.definition.scheduled_at),
        "createdAt": isoformat(found.created_at),
        "updatedAt": isoformat(found.updated_at),
        "startedAt": isoformat(found.started_at),
        "finishedAt": isoformat(found.finished_at),
    }


def campaign(found: Campaign, place: QueuePosition | None, counted: CampaignMessageCounts | None) -> dict[str, Any]:
    return {
        **line(found, place),
        "definition": definition(found),
        "queueStatus": place.status if place else None,
        "counts": counts(counted) if counted else None,
        "percent": counted.percent if counted else None,
        "failedCount": counted.failed if counted else 0,
    }


def definition(found: Campaign) -> dict[str, Any]:
    written = found.definition.model_dump(mode="json", by_alias=True, exclude_none=True)
    if found.definition.scheduled_at is not None:
        written["scheduledAt"] = isoformat(found.definition.scheduled_at)
    return written


def counts(counted: CampaignMessageCounts) -> dict[str, int]:
    return {
        "planned": counted.planned,
        "recipients": counted.recipients,
        "waiting": counted.waiting,
        "sending": counted.sending,
        "sent": counted.sent,
        "failed": counted.failed,
        "withdrawn": counted.withdrawn,
        "inDoubt": counted.in_doubt,
        "closedUnknown": counted.closed_unknown,
        "cancelled": counted.cancelled,
    }


def end_of_wait(until: Instant | None) -> str | None:
    """A wait that only a person ends has no end that could be told."""
    return None if until is None or until >= INDEFINITELY else isoformat(until)


def preflight(examined: CampaignCheck) -> dict[str, Any]:
    return {
        "mayStart": not examined.problems,
        "planned": examined.planned,
        "problems": [{"field": each.field, "code": each.code, "message": each.message} for each in examined.problems],
        "warnings": warnings(examined.warnings),
    }


def warnings(found: Iterable[PresendIssue]) -> list[dict[str, str]]:
    return [{"code": each.code, "sentence": each.sentence, "where": each.where} for each in found]


def failure(recipient: FailedRecipient) -> dict[str, Any]:
    return {
        "email": recipient.email,
        "outboxId": recipient.outbox_id,
        "errorCode": recipient.error_code,
        "errorMessage": recipient.error_reason,
        "attempts": recipient.attempts,
        "failedAt": isoformat(recipient.failed_at),
    }


def deed(done: AuditEntry) -> dict[str, Any]:
    return {
        "actor": done.actor,
        "action": done.action,
        "subject": done.subject,
        "detail": done.detail,
        "createdAt": isoformat(done.created_at),
    }


def progress(found: QueueProgress) -> dict[str, Any]:
    """In the names that pages which watch the queue rely on."""
    return {
        "active_campaign": _active(found),
        "queued_count": found.queued,
        "next_campaign_at": end_of_wait(found.next_campaign_at),
        "reason_code": found.reason,
        "next_run_at": end_of_wait(found.next_run_at),
    }


async def report_csv(rows: AsyncIterator[ReportRow]) -> AsyncIterator[str]:
    """Portion by portion. No cell of it is a formula to a spreadsheet."""
    waiting: list[Iterable[str]] = [REPORT_COLUMNS]
    async for row in rows:
        waiting.append([escape_formula(cell or "") for cell in _cells(row)])
        if len(waiting) >= _ROWS:
            yield _lines(waiting)
            waiting = []
    if waiting:
        yield _lines(waiting)


async def report_json(rows: AsyncIterator[ReportRow]) -> AsyncIterator[str]:
    """A row a line."""
    async for row in rows:
        yield orjson.dumps(
            dict(zip(REPORT_COLUMNS, _cells(row), strict=True)), option=orjson.OPT_APPEND_NEWLINE
        ).decode()


def _active(found: QueueProgress) -> Mapping[str, Any] | None:
    if found.active is None or found.counts is None:
        return None
    return {
        "id": found.active.campaign_id,
        "name": found.active.name,
        "counts": _snake(found.counts),
        "percent": found.counts.percent,
        "rate": round(found.rate, 2),
        "eta": isoformat(found.eta),
    }


def _snake(counted: CampaignMessageCounts) -> dict[str, int]:
    return {name: getattr(counted, name) for name in CampaignMessageCounts.__slots__}


def _cells(row: ReportRow) -> tuple[str | None, ...]:
    return row.email, row.status, row.error_message, row.message_id, isoformat(row.sent_at)


def _lines(rows: Iterable[Iterable[str]]) -> str:
    made = io.StringIO()
    csv.writer(made, lineterminator="\r\n").writerows(rows)
    return made.getvalue()
