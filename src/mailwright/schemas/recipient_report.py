"""The report of a campaign: one row for each recipient, as CSV or JSON lines."""

from collections.abc import AsyncIterator

import orjson

from mailwright.audience.csv_cells import csv_parts
from mailwright.domain.clock import isoformat
from mailwright.sources.campaigns.report import ReportRow

REPORT_COLUMNS = (
    "email",
    "status",
    "error_message",
    "message_id",
    "sent_at",
    "provider_message_id",
    "variant",
    "opened_at",
    "clicked_at",
    "unsubscribed_at",
)


def recipients_csv(rows: AsyncIterator[ReportRow]) -> AsyncIterator[str]:
    return csv_parts(REPORT_COLUMNS, (_cells(row) async for row in rows))


async def recipients_json_lines(rows: AsyncIterator[ReportRow]) -> AsyncIterator[str]:
    """Yield one JSON object per line."""
    async for row in rows:
        record = dict(zip(REPORT_COLUMNS, _cells(row), strict=True))
        yield orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE).decode()


def _cells(row: ReportRow) -> tuple[str | None, ...]:
    responses = (row.opened_at, row.clicked_at, row.unsubscribed_at)
    about = (row.email, row.status, row.error_message, row.message_id, isoformat(row.sent_at))
    return *about, row.provider_message_id, row.variant, *map(isoformat, responses)
