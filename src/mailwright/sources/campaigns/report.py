"""The report of a campaign: the state of every recipient's message, in the order of addresses."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, select, tuple_

from mailwright.domain.clock import Instant
from mailwright.storage.database import Database
from mailwright.storage.tables import deliveries, messages

PAGE = 5_000


@dataclass(frozen=True, slots=True)
class ReportRow:
    """One row of the report. Its fields are named after the columns."""

    email: str
    status: str
    error_message: str | None
    message_id: str
    sent_at: Instant | None


async def report_rows(database: Database, campaign_key: int, *, status: str | None = None) -> AsyncIterator[ReportRow]:
    """Yield all rows. They are read page by page to limit the memory, and each page has the latest state."""
    last: tuple[str, int] = ("", 0)
    while True:
        async with database.read() as tx:
            found = await tx.execute(_page(campaign_key, last, status))
        for row in found:
            yield ReportRow(row.to_email, row.status, row.error_reason, row.outbox_id, row.sent_at)
        if len(found) < PAGE:
            return
        last = (found[-1].to_email, found[-1].id)


async def report_page(database: Database, campaign_key: int, *, limit: int, after: str = "") -> list[ReportRow]:
    """Return a page; `after` is the last address of the previous page."""
    # A campaign has one message for each address, so an address is a unique position.
    query = _page(campaign_key, (after, 2**63 - 1), None).limit(limit)
    async with database.read() as tx:
        found = await tx.execute(query)
    return [ReportRow(row.to_email, row.status, row.error_reason, row.outbox_id, row.sent_at) for row in found]


def _page(campaign_key: int, last: tuple[str, int], status: str | None) -> Select[Any]:
    m, d = messages.c, deliveries.c
    after = tuple_(m.to_email, m.id) > last
    query = (
        select(m.id, m.to_email, m.outbox_id, d.status, d.error_reason, d.sent_at)
        .join(deliveries, d.message_key == m.id)
        .where(m.campaign_key == campaign_key, after)
    )
    if status is not None:
        query = query.where(d.status == status)
    return query.order_by(m.to_email, m.id).limit(PAGE)
