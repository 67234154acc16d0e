"""The report of a campaign: every recipient's message with its bucket, or those of one bucket or with one response."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, TextClause, func, select, text, tuple_

from mailwright.audience.responses import responses, was_not_opened
from mailwright.domain.buckets import SUPPRESSED_CODES, Bucket, bucket_of
from mailwright.domain.clock import Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.states import EventType, Status
from mailwright.sources.campaigns.ab_test import variants_by_template
from mailwright.sources.campaigns.entries import find_entry
from mailwright.storage.database import Database, Transaction
from mailwright.storage.statements import statement
from mailwright.storage.tables import IS_WAITING, contacts, deliveries, messages

FIRST_RESPONSES = statement(__package__, "first_responses")

PAGE = 5_000

# Must be exactly the condition of the partial index of these states, or SQLite does not use the index.
_IS_RARE = text("deliveries.status IN ('FAILED', 'IN_DOUBT', 'CLOSED_UNKNOWN', 'CANCELLED')")

# The conditions of `bucket_of` for each bucket with messages.
_D = deliveries.c
_IS_SUPPRESSED = func.coalesce(_D.error_code, "").in_(SUPPRESSED_CODES)
_CONDITIONS: Final[Mapping[Bucket, tuple[ColumnElement[bool] | TextClause, ...]]] = {
    Bucket.WAITING: (IS_WAITING,),
    Bucket.SENDING: (_D.locked_by.is_not(None),),
    Bucket.SENT: (_D.status == Status.SENT, _D.bounced_at.is_(None)),
    Bucket.BOUNCED: (_D.bounced_at.is_not(None), _D.status == Status.SENT),
    Bucket.FAILED: (_IS_RARE, _D.status == Status.FAILED, ~_IS_SUPPRESSED),
    Bucket.SUPPRESSED: (_IS_RARE, _D.status == Status.FAILED, _IS_SUPPRESSED),
    Bucket.IN_DOUBT: (_IS_RARE, _D.status == Status.IN_DOUBT),
    Bucket.CLOSED_UNKNOWN: (_IS_RARE, _D.status == Status.CLOSED_UNKNOWN),
    Bucket.CANCELLED: (_IS_RARE, _D.status == Status.CANCELLED),
}


@dataclass(frozen=True, slots=True)
class ReportRow:
    """One recipient with a message. `status` is the bucket in capitals."""

    key: int
    email: str
    status: str
    error_message: str | None
    message_id: str
    sent_at: Instant | None
    error_code: str | None = None
    attempts: int = 0
    failed_at: Instant | None = None
    provider_message_id: str | None = None
    # Only in the rows of `report_rows`:
    variant: str | None = None
    opened_at: Instant | None = None
    clicked_at: Instant | None = None
    unsubscribed_at: Instant | None = None


class RecipientResponse(StrEnum):
    """Recipients who responded, or who certainly did not open. Opens and clicks by machines do not count."""

    OPENED = "opened"
    CLICKED = "clicked"
    DID_NOT_OPEN = "did_not_open"
    COMPLAINED = "complained"
    UNSUBSCRIBED = "unsubscribed"


RecipientFilter = Bucket | RecipientResponse
_EVENTS: Final = {
    RecipientResponse.OPENED: EventType.OPENED,
    RecipientResponse.CLICKED: EventType.CLICKED,
    RecipientResponse.COMPLAINED: EventType.COMPLAINED,
    RecipientResponse.UNSUBSCRIBED: EventType.UNSUBSCRIBED,
}


async def report_rows(
    database: Database, campaign_key: int, show: RecipientFilter | None = None
) -> AsyncIterator[ReportRow]:
    """Yield all rows, or those of a filter, with variants and responses of people.

    They are read page by page, and each page has the latest state.
    """
    last: tuple[str, int] = ("", 0)
    while True:
        async with database.read() as tx:
            found = await tx.execute(_shown(_by_address(campaign_key, last), show).limit(PAGE))
            variants = await _variants(tx, campaign_key)
            first = await _first_responses(tx, [row.id for row in found])
        for row in found:
            yield replace(
                _row(row),
                variant=variants.get(str(row.template_key)) or None,
                opened_at=first.get((row.id, EventType.OPENED)),
                clicked_at=first.get((row.id, EventType.CLICKED)),
                unsubscribed_at=first.get((row.id, EventType.UNSUBSCRIBED)),
            )
        if len(found) < PAGE:
            return
        last = (found[-1].to_email, found[-1].id)


async def _variants(tx: Transaction, campaign_key: int) -> Mapping[str, str]:
    """Return the variant of an A/B test for each template."""
    entry = await find_entry(tx, campaign_key)
    if entry is None:
        return {}
    decided = {} if entry.content.decision is None else entry.content.decision.templates
    return {**variants_by_template(entry.content.variants), **decided}


async def _first_responses(tx: Transaction, message_keys: Sequence[int]) -> dict[tuple[int, str], Instant]:
    if not message_keys:
        return {}
    rows = await tx.run(FIRST_RESPONSES, wanted=[{"message_key": key} for key in message_keys])
    return {(row.message_key, row.type): row.at for row in rows}


async def report_page(
    database: Database, campaign_key: int, *, limit: int, after: str = "", show: RecipientFilter | None = None
) -> list[ReportRow]:
    """Return a page in the order of addresses; `after` is the last address of the previous page.

    The rows of other recipients are read and dropped, so prefer `bucket_page` for a bucket with few recipients.
    """
    # A campaign has one message for each address, so an address is a unique position.
    query = _shown(_by_address(campaign_key, (after, 2**63 - 1)), show).limit(limit)
    async with database.read() as tx:
        return [_row(row) for row in await tx.execute(query)]


def _shown(query: Select[Any], show: RecipientFilter | None) -> Select[Any]:
    match show:
        case None:
            return query
        case Bucket():
            return query.where(*_CONDITIONS[show])
        case RecipientResponse.DID_NOT_OPEN:
            return query.join(contacts, contacts.c.id == messages.c.contact_key).where(was_not_opened())
        case _:
            return query.where(responses(_EVENTS[show]).correlate(messages).exists())


async def bucket_page(database: Database, lane: int, bucket: Bucket, *, limit: int, after: int = 0) -> list[ReportRow]:
    """Return a page of a bucket in the order of creation. The bucket needs an index by lane: all but SENT have one.

    `after` is the last `key` of the previous page.
    """
    d = deliveries.c
    query = _rows().where(*_CONDITIONS[bucket], d.lane == lane, d.message_key > after)
    async with database.read() as tx:
        return [_row(row) for row in await tx.execute(query.order_by(d.message_key).limit(limit))]


def _by_address(campaign_key: int, last: tuple[str, int]) -> Select[Any]:
    m = messages.c
    query = _rows().where(m.campaign_key == campaign_key, tuple_(m.to_email, m.id) > last)
    return query.order_by(m.to_email, m.id)


def _rows() -> Select[Any]:
    m, d = messages.c, deliveries.c
    columns = (d.status, d.locked_by, d.bounced_at, d.error_code, d.error_reason, d.sent_at, d.attempts, d.failed_at)
    query = select(m.id, m.to_email, m.outbox_id, m.template_key, d.provider_message_id, *columns)
    return query.join(deliveries, d.message_key == m.id)


def _row(row: Any) -> ReportRow:
    bucket = bucket_of(
        row.status,
        is_claimed=row.locked_by is not None,
        is_bounced=row.bounced_at is not None,
        error_code=row.error_code,
    )
    return ReportRow(
        key=row.id,
        email=row.to_email,
        status=bucket.name,
        error_message=row.error_reason,
        message_id=row.outbox_id,
        sent_at=row.sent_at,
        error_code=row.error_code,
        attempts=row.attempts,
        failed_at=row.failed_at,
        provider_message_id=row.provider_message_id,
    )
