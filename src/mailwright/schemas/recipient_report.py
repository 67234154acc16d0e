"""The report of a campaign: one row for each recipient, as CSV or JSON lines."""

import csv
import io
from collections.abc import AsyncIterator, Iterable

import orjson

from mailwright.audience.csv_cells import escape_formula
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
# Rows per chunk: smaller chunks cost more writes, larger ones delay the first bytes.
_CHUNK_ROWS = 500


async def report_csv(rows: AsyncIterator[ReportRow]) -> AsyncIterator[str]:
    """Yield chunks of CSV. Cells that a spreadsheet would run as a formula are escaped."""
    chunk: list[Iterable[str]] = [REPORT_COLUMNS]
    async for row in rows:
        chunk.append([escape_formula(cell or "") for cell in _cells(row)])
        if len(chunk) >= _CHUNK_ROWS:
            yield _csv_lines(chunk)
            chunk = []
    if chunk:
        yield _csv_lines(chunk)


async def report_json(rows: AsyncIterator[ReportRow]) -> AsyncIterator[str]:
    """Yield one JSON object per line."""
    async for row in rows:
        record = dict(zip(REPORT_COLUMNS, _cells(row), strict=True))
        yield orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE).decode()


def _cells(row: ReportRow) -> tuple[str | None, ...]:
    responses = (row.opened_at, row.clicked_at, row.unsubscribed_at)
    about = (row.email, row.status, row.error_message, row.message_id, isoformat(row.sent_at))
    return *about, row.provider_message_id, row.variant, *map(isoformat, responses)


def _csv_lines(rows: Iterable[Iterable[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    return text.getvalue()
