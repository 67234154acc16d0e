"""Read messages and their timelines. A tenant sees only its own messages."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import orjson
from sqlalchemy import (
    ColumnElement,
    Select,
    TextClause,
    and_,
    case,
    exists,
    func,
    literal,
    not_,
    null,
    or_,
    select,
    text,
)

from mailwright.domain.buckets import SUPPRESSED_CODES, shown_status
from mailwright.domain.campaign import INDEFINITELY
from mailwright.domain.clock import Instant
from mailwright.domain.errors import NotFound
from mailwright.domain.ids import is_uuid
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import WARNINGS, Event, Source
from mailwright.domain.states import CLAIMABLE, EventType, MessageGroup, Status
from mailwright.domain.timeline import order_events
from mailwright.storage.database import Database, Readable, Transaction
from mailwright.storage.expressions import lower_ascii, position, unindexed
from mailwright.storage.statements import statement
from mailwright.storage.tables import deliveries, lane_deferrals, messages, provider_configurations

FIND_MESSAGE = statement(__package__, "find_message")
LIST_EVENTS = statement(__package__, "list_events")
LIST_DEAD_LETTERS = statement(__package__, "list_dead_letters")

# The default cursor, which is larger than every key and every time.
NEWEST = 2**63 - 1

# States that have their own index, because users search for them and few messages have them.
_RARE = frozenset({Status.FAILED, Status.IN_DOUBT, Status.CLOSED_UNKNOWN, Status.CANCELLED})
_D = deliveries.c
# The subject as it was sent; before the first attempt, the one that was accepted.
_SUBJECT = func.coalesce(deliveries.c.subject, messages.c.subject)
_C = provider_configurations.c
_IS_SES = or_(_D.provider == "ses", exists().where(_C.name == _D.provider, _C.kind == "ses"))
_SES_MESSAGE_ID = case((_IS_SES, _D.provider_message_id))
_GROUPS: Final = {
    MessageGroup.QUEUED: and_(_D.locked_by.is_(None), _D.status.in_(CLAIMABLE)),
    MessageGroup.SUPPRESSED: and_(_D.status == Status.FAILED, func.coalesce(_D.error_code, "").in_(SUPPRESSED_CODES)),
    MessageGroup.BOUNCED: and_(_D.bounced_at.is_not(None), _D.status == Status.SENT),
}
# For some messages in these states, a group is shown instead of the state.
_SHOWN_AS: Final = {Status.SENT: MessageGroup.BOUNCED, Status.FAILED: MessageGroup.SUPPRESSED}
# These must equal the conditions of the partial indexes, otherwise SQLite does not use them.
_IS_RARE = text("status IN ('FAILED', 'IN_DOUBT', 'CLOSED_UNKNOWN', 'CANCELLED')")
_IS_FAILED = text("status = 'FAILED'")


@dataclass(frozen=True, slots=True)
class MessageSummary:
    """A message in a list: its state, without its content."""

    message_key: int
    outbox_id: str
    source: str
    request_id: str
    to_email: str
    recipient_id: str | None
    external_id: str | None
    subject: str
    created_at: Instant
    scheduled_at: Instant | None
    status: str
    next_attempt_at: Instant | None
    defer_reason: str | None
    attempts: int
    provider: str | None
    provider_message_id: str | None
    ses_message_id: str | None  # Of SES, under any name; None for other providers.
    error_code: str | None
    error_category: str | None
    error_reason: str | None
    duration_ms: int | None
    sent_at: Instant | None
    failed_at: Instant | None
    bounced_at: Instant | None

    @property
    def shown_status(self) -> str:
        """The status that users see: the state, or the group that replaces it."""
        return shown_status(self.status, is_bounced=self.bounced_at is not None, error_code=self.error_code)

    @property
    def processed_at(self) -> Instant | None:
        """The time when the message's result was recorded."""
        return self.sent_at if self.sent_at is not None else self.failed_at

    @property
    def last_error(self) -> str | None:
        """The error of the last attempt; None after a success."""
        if self.error_code is None:
            return None
        return f"{self.error_code}: {self.error_reason}" if self.error_reason else self.error_code


@dataclass(frozen=True, slots=True)
class MessageRecord:
    """A message with its content and timeline."""

    summary: MessageSummary
    tenant_id: int
    tenant: str
    payload: Mapping[str, Any]
    expires_at: Instant | None
    events: tuple[Event, ...]

    @property
    def copy_of(self) -> str | None:
        """The ID of the original message, if this message retries a deferred copy of it."""
        copy = self.payload.get("copy")
        return copy["of"] if isinstance(copy, Mapping) else None

    @property
    def warnings(self) -> list[dict[str, str]]:
        """The warnings with which the message was accepted."""
        found = self.payload.get(WARNINGS, [])
        return found if isinstance(found, list) else []

    @property
    def deferred_copies(self) -> list[str]:
        """The messages that retry deferred copies of this one."""
        return [outbox_id for event in self.events for outbox_id in event.metadata.get("deferredCopies", ())]


@dataclass(frozen=True, slots=True)
class MessageSearch:
    """Search conditions. By default, all messages of the tenant match, newest first."""

    status: Status | None = None
    group: MessageGroup | None = None
    without_group: MessageGroup | None = None
    to_email: str | None = None
    source: Source | None = None
    since: Instant | None = None
    until: Instant | None = None
    sent_since: Instant | None = None  # Only sent messages, including those that bounced later.
    failed_since: Instant | None = None  # Only failed messages.
    before_key: int = NEWEST
    words: str | None = None  # Part of the subject or the address.
    campaign_key: int | None = None
    after_key: int = 0

    def with_shown_status(self, shown: Status | MessageGroup | None) -> "MessageSearch":
        """Search by the status that users see: SENT excludes bounced messages, and FAILED excludes suppressed ones."""
        if isinstance(shown, MessageGroup):
            return replace(self, group=shown)
        return replace(self, status=shown, without_group=None if shown is None else _SHOWN_AS.get(shown))


@dataclass(frozen=True, slots=True)
class DeadLetter:
    message_key: int
    outbox_id: str
    to_email: str
    subject: str
    source: str
    request_id: str
    code: str
    reason: str
    attempts: int
    created_at: Instant


async def find(database: Database, outbox_id: str, *, tenant_id: int | None) -> MessageRecord:
    """Find a message of a tenant. If `tenant_id` is None, which is for operators only, search all tenants."""
    if not is_uuid(outbox_id):
        raise NotFound
    async with database.read() as tx:
        rows = await tx.run(FIND_MESSAGE, outbox_id=outbox_id, tenant_id=tenant_id)
        if not rows:
            raise NotFound
        events = await tx.run(LIST_EVENTS, message_key=rows[0].id)
    return _record(rows[0], events)


async def find_recipients(
    database: Database, tenant_id: int, outbox_ids: Sequence[str], *, without: str | None = None
) -> dict[str, str]:
    """Return the addresses of a tenant's messages by their ids, except requests that begin with `without`."""
    # For more than a few ids, SQLite would read all messages of the tenant instead.
    mine = [unindexed(messages.c.tenant_id) == tenant_id, messages.c.outbox_id.in_(outbox_ids)]
    if without is not None:
        mine.append(messages.c.request_id.not_like(f"{without}%"))
    async with database.read() as tx:
        rows = await tx.execute(select(messages.c.outbox_id, messages.c.to_email).where(*mine))
    return {row.outbox_id: row.to_email for row in rows}


async def search(database: Readable, tenant_id: int, wanted: MessageSearch, *, limit: int) -> list[MessageSummary]:
    """Return one page. Pages continue after a key, so that page 1000 is as fast as page 1."""
    async with database.read() as tx:
        rows = await tx.execute(_search(tenant_id, wanted).limit(limit))
    return [MessageSummary(**row._mapping) for row in rows]


async def count(tx: Transaction, tenant_id: int, wanted: MessageSearch, *, most: int) -> int:
    """Count the messages that a search finds, up to `most`."""
    found = _search(tenant_id, wanted).with_only_columns(messages.c.id).order_by(None).limit(most).subquery()
    [row] = await tx.execute(select(func.count().label("messages")).select_from(found))
    return int(row.messages)


async def dead_letters(
    database: Database, tenant_id: int, *, limit: int, before: tuple[Instant, int] = (NEWEST, NEWEST)
) -> list[DeadLetter]:
    """List the dead letters of a tenant, newest first."""
    async with database.read() as tx:
        rows = await tx.run(
            LIST_DEAD_LETTERS, tenant_id=tenant_id, before_time=before[0], before_key=before[1], limit=limit
        )
    return [DeadLetter(**row._mapping) for row in rows]


def _search(tenant_id: int, wanted: MessageSearch) -> Select[Any]:
    """Build the query. Order by the key of the table whose index is more selective."""
    m, d = messages.c, deliveries.c
    owner, key = (d.tenant_id, d.message_key) if _is_rare(wanted) else (m.tenant_id, m.id)
    return (
        select(*_summary_columns())
        .select_from(messages.join(deliveries, d.message_key == m.id))
        .where(owner == tenant_id, key < wanted.before_key, *_bounds(wanted), *_conditions(wanted))
        .order_by(key.desc())
    )


def _bounds(wanted: MessageSearch) -> Iterator[ColumnElement[bool]]:
    """Yield bounds for the keys of both tables, because PostgreSQL does not derive one bound from the other."""
    for key in (messages.c.id, deliveries.c.message_key):
        if wanted.before_key != NEWEST:
            yield key < wanted.before_key
        if wanted.after_key:
            yield key > wanted.after_key


def _is_rare(wanted: MessageSearch) -> bool:
    is_of_group = wanted.group in (MessageGroup.SUPPRESSED, MessageGroup.BOUNCED)
    return wanted.status in _RARE or is_of_group or wanted.failed_since is not None


def _conditions(wanted: MessageSearch) -> Iterator[ColumnElement[bool] | TextClause]:
    if wanted.failed_since is not None:
        yield and_(_IS_FAILED, _D.failed_at >= wanted.failed_since)
    elif wanted.status in _RARE or wanted.group is MessageGroup.SUPPRESSED:
        yield _IS_RARE
    if wanted.group is not None:
        yield _GROUPS[wanted.group]
    if wanted.without_group is not None:
        yield not_(_GROUPS[wanted.without_group])
    if wanted.status is not None:
        yield deliveries.c.status == wanted.status
    if wanted.to_email is not None:
        yield messages.c.to_email == wanted.to_email
    if wanted.source is not None:
        yield messages.c.source == wanted.source
    if wanted.since is not None:
        yield messages.c.created_at >= wanted.since
    if wanted.until is not None:
        yield messages.c.created_at < wanted.until
    if wanted.sent_since is not None:
        yield and_(_D.status == Status.SENT, _D.sent_at >= wanted.sent_since)
    if wanted.words is not None:
        words = lower_ascii(literal(wanted.words))
        yield or_(position(lower_ascii(_SUBJECT), words) > 0, position(messages.c.to_email, words) > 0)
    if wanted.campaign_key is not None:
        yield messages.c.campaign_key == wanted.campaign_key


def _summary_columns() -> list[Any]:
    by_name = {**messages.c, **deliveries.c, "message_key": messages.c.id, "subject": _SUBJECT}
    by_name["ses_message_id"] = _SES_MESSAGE_ID
    by_name["next_attempt_at"] = _next_attempt_at()
    return [by_name[name].label(name) for name in MessageSummary.__slots__]


def _next_attempt_at() -> ColumnElement[Any]:
    """Return when a waiting message may be sent: its own due time, or the end of its lane's deferral.

    It is null while only a user can end the deferral. `find_message.sql` has the same rule.
    """
    until = select(lane_deferrals.c.deferred_until).where(lane_deferrals.c.lane == _D.lane).scalar_subquery()
    own = case((_D.locked_by.is_(None), _D.claimable_at), else_=_D.next_attempt_at)
    return case(
        (_D.status.not_in(CLAIMABLE), _D.next_attempt_at),
        (until >= INDEFINITELY, null()),
        (until > own, until),
        else_=own,
    )


def _record(row: Any, events: Any) -> MessageRecord:
    fields = {**row._mapping, "message_key": row.id}
    timeline = [Event(EventType(event.type), event.created_at, orjson.loads(event.metadata)) for event in events]
    return MessageRecord(
        summary=MessageSummary(**{name: fields[name] for name in MessageSummary.__slots__}),
        tenant_id=row.tenant_id,
        tenant=row.tenant,
        payload=orjson.loads(row.payload),
        expires_at=row.expires_at,
        events=order_events(timeline),
    )
