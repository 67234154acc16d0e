"""Everything stored about one address, and its history, for data access requests."""

from collections.abc import Mapping
from typing import Any, Final

import orjson
from sqlalchemy import and_, func, select

from mailwright.audience import contacts as contact_store
from mailwright.audience.contact_events import LATEST, ContactEvent, list_latest
from mailwright.audience.contacts import ContactDetails
from mailwright.audience.enrolments import export_enrolments
from mailwright.audience.external_ids import list_external_ids
from mailwright.audience.form_submissions import list_submissions
from mailwright.audience.status import ContactStatus
from mailwright.audience.suppressions import scope_text
from mailwright.audience.tracking_consent import consent_json
from mailwright.domain.clock import Instant, isoformat
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import FORWARDED_REPLY
from mailwright.domain.states import EventType
from mailwright.domain.translation import lazy_gettext
from mailwright.outbox.message_records import NEWEST, MessageSearch, MessageSummary, search
from mailwright.storage.database import Database
from mailwright.storage.tables import events, messages, raw_contents, subscriptions

_PAGE: Final = 200
_EVENT_TEXTS: Final[Mapping[str, str]] = {
    EventType.RECEIVED: lazy_gettext("email received"),
    EventType.VALIDATED: lazy_gettext("email validated"),
    EventType.VALIDATION_FAILED: lazy_gettext("email validation failed"),
    EventType.SENT_ATTEMPT: lazy_gettext("email sent attempt"),
    EventType.SENT: lazy_gettext("email sent"),
    EventType.FAILED: lazy_gettext("email failed"),
    EventType.RETRY_SCHEDULED: lazy_gettext("email retry scheduled"),
    EventType.IN_DOUBT: lazy_gettext("email in doubt"),
    EventType.CLOSED_UNKNOWN: lazy_gettext("email closed unknown"),
    EventType.CANCELLED: lazy_gettext("email cancelled"),
    EventType.REQUEUED: lazy_gettext("email requeued"),
    EventType.ACCEPTED: lazy_gettext("email accepted"),
    EventType.DELIVERED: lazy_gettext("email delivered"),
    EventType.OPENED: lazy_gettext("email open"),
    EventType.CLICKED: lazy_gettext("email click"),
    EventType.CORRECTED: lazy_gettext("email open or click recognised as a machine’s"),
    EventType.BOUNCED: lazy_gettext("email bounce"),
    EventType.COMPLAINED: lazy_gettext("email complaint"),
    EventType.NOT_SPAM: lazy_gettext("email marked as not spam"),
    EventType.UNSUBSCRIBED: lazy_gettext("email unsubscribe"),
    EventType.DEFERRED: lazy_gettext("email deferred"),
    EventType.REPLIED: lazy_gettext("email answered"),
}
_STATUS_TEXTS: Final[Mapping[str, str]] = {
    ContactStatus.ACTIVE: lazy_gettext("became active"),
    ContactStatus.UNSUBSCRIBED: lazy_gettext("became unsubscribed"),
    ContactStatus.BOUNCED: lazy_gettext("became bounced"),
}


@dataclass(frozen=True, slots=True)
class ContactHistoryEntry:
    at: Instant
    what: str
    detail: str
    outbox_id: str | None = None  # the message, if the entry is about one
    event_type: str | None = None  # the type of that message's event
    is_machine: bool = False  # a program opened the email, clicked its link or replied to it


async def load_history(
    database: Database, tenant_id: int, email: str, *, limit: int = 100
) -> list[ContactHistoryEntry]:
    """Return the history, newest first, with the events of at most `limit` of the latest messages."""
    details = await contact_store.load_details(database, tenant_id, email, messages=limit)
    entries = _contact_entries(details)
    messages_by_key = {message.message_key: message for message in details.messages}
    for key, type_, at, metadata in await _events(database, list(messages_by_key)):
        message = messages_by_key[key]
        is_machine = metadata.get("isMachine") is True or metadata.get("isAutomatic") is True
        what = _EVENT_TEXTS[type_]
        if is_machine:
            what = lazy_gettext("{event} by a machine", event=what)
        entries.append(ContactHistoryEntry(at, what, message.subject, message.outbox_id, type_, is_machine))
    # Sorting is stable, so entries of the same millisecond keep their order.
    return sorted(entries, key=lambda entry: entry.at)[::-1]


async def export_personal_data(database: Database, tenant_id: int, email: str) -> dict[str, Any]:
    """Return JSON that can be given to the contact. It contains no data about anyone else."""
    details = await contact_store.load_details(database, tenant_id, email, messages=1)
    contact = details.contact
    async with database.read() as tx:
        joined = await tx.execute(
            select(subscriptions).where(subscriptions.c.contact_key == contact.id).order_by(subscriptions.c.list_key)
        )
        external_ids = await list_external_ids(tx, tenant_id, contact.email)
        submissions = await list_submissions(tx, contact.id)
    return {
        "contactId": contact.contact_id,
        "email": contact.email,
        "name": contact.name,
        "locale": contact.locale,
        "timezone": contact.timezone,
        "attributes": contact.attributes,
        "tags": list(details.tags),
        "status": contact.status,
        "statusUpdatedAt": isoformat(contact.status_updated_at),
        "statusSource": contact.status_source,
        "bounceType": contact.bounce_type,
        "bounceSubtype": contact.bounce_subtype,
        "legalBasis": contact.legal_basis,
        "legalBasisSource": contact.legal_basis_source,
        "legalBasisBy": contact.legal_basis_by,
        "legalBasisAt": isoformat(contact.legal_basis_at),
        "trackingConsent": consent_json(contact.tracking_consent),
        "snoozedUntil": isoformat(contact.snoozed_until),
        "createdAt": isoformat(contact.created_at),
        "lists": [
            {
                "listKey": row.list_key,
                "subscribedAt": isoformat(row.subscribed_at),
                "confirmedAt": isoformat(row.confirmed_at),
                "unsubscribedAt": isoformat(row.unsubscribed_at),
                "source": row.source,
            }
            for row in joined
        ],
        "suppressions": [
            {
                "listKey": entry.list_key,
                "reason": entry.reason,
                "source": entry.source,
                "createdAt": isoformat(entry.created_at),
            }
            for entry in details.suppressions
        ],
        "externalIds": external_ids,
        "events": await _export_contact_events(database, tenant_id, contact.email),
        "sequences": await export_enrolments(database, contact.id),
        "signUpForms": submissions,
        "messages": await _export_messages(database, tenant_id, contact.email),
        "forwardedReplies": await _export_replies(database, tenant_id, contact.email),
    }


async def _export_contact_events(database: Database, tenant_id: int, email: str) -> list[dict[str, Any]]:
    entries: list[ContactEvent] = []
    before = LATEST
    while page := await list_latest(database, tenant_id, limit=_PAGE, before=before, email=email):
        entries += page
        before = page[-1].id
    return [
        {
            "event": event.name,
            "eventId": event.event_id,
            "properties": event.properties,
            "occurredAt": isoformat(event.occurred_at),
            "receivedAt": isoformat(event.received_at),
        }
        for event in entries
    ]


async def _export_messages(database: Database, tenant_id: int, email: str) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    before = NEWEST
    while page := await search(database, tenant_id, MessageSearch(to_email=email, before_key=before), limit=_PAGE):
        keys = [message.message_key for message in page]
        async with database.read() as tx:
            rows = await tx.execute(select(messages.c.id, messages.c.payload).where(messages.c.id.in_(keys)))
        payloads = {row.id: orjson.loads(row.payload) for row in rows}
        histories: dict[int, list[dict[str, Any]]] = {key: [] for key in keys}
        for key, type_, at, metadata in await _events(database, keys):
            histories[key].append({"type": type_, "createdAt": isoformat(at), "metadata": metadata})
        entries += [
            _export_message(message, payloads[message.message_key], histories[message.message_key]) for message in page
        ]
        before = keys[-1]
    return entries


async def _export_replies(database: Database, tenant_id: int, email: str) -> list[dict[str, Any]]:
    """Return the replies by or to the contact that were forwarded, with their bytes as text."""
    m, c = messages.c, raw_contents.c
    named = (m.payload.contains(FORWARDED_REPLY), func.lower(m.payload).contains(email, autoescape=True))
    columns = (m.outbox_id, m.subject, m.created_at, m.payload, c.content)
    stored = and_(c.tenant_id == m.tenant_id, c.digest == m.content_digest)
    query = select(*columns).join_from(messages, raw_contents, stored, isouter=True)
    async with database.read() as tx:
        rows = await tx.execute(query.where(m.tenant_id == tenant_id, *named).order_by(m.id))
    return [
        {
            "outboxId": row.outbox_id,
            "subject": row.subject,
            "createdAt": isoformat(row.created_at),
            "content": bytes(row.content or b"").decode("utf-8", "replace"),
        }
        for row in rows
        if email in orjson.loads(row.payload).get(FORWARDED_REPLY, {}).values()
    ]


def _export_message(
    message: MessageSummary, payload: dict[str, Any], event_list: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "outboxId": message.outbox_id,
        "source": message.source,
        "subject": message.subject,
        "status": message.status,
        "createdAt": isoformat(message.created_at),
        "sentAt": isoformat(message.sent_at),
        "content": payload,
        "events": event_list,
    }


async def _events(database: Database, keys: list[int]) -> list[tuple[int, str, Instant, dict[str, Any]]]:
    columns = (events.c.message_key, events.c.type, events.c.created_at, events.c.metadata)
    entries: list[tuple[int, str, Instant, dict[str, Any]]] = []
    for start in range(0, len(keys), _PAGE):
        batch = keys[start : start + _PAGE]
        async with database.read() as tx:
            rows = await tx.execute(select(*columns).where(events.c.message_key.in_(batch)).order_by(events.c.id))
        entries += [(row.message_key, row.type, row.created_at, orjson.loads(row.metadata)) for row in rows]
    return entries


def _contact_entries(details: ContactDetails) -> list[ContactHistoryEntry]:
    contact = details.contact
    entries = [ContactHistoryEntry(contact.created_at, lazy_gettext("became a contact"), "")]
    if contact.status_updated_at is not None:
        entries.append(
            ContactHistoryEntry(contact.status_updated_at, _STATUS_TEXTS[contact.status], contact.status_source or "")
        )
    for membership in details.lists:
        if membership.confirmed_at is not None:
            entries.append(ContactHistoryEntry(membership.confirmed_at, lazy_gettext("confirmed"), membership.list_key))
        if membership.subscribed_at is not None:
            change = (
                lazy_gettext("was asked to confirm") if membership.is_pending else lazy_gettext("subscribed to a list")
            )
            entries.append(ContactHistoryEntry(membership.subscribed_at, change, membership.list_key))
        if membership.unsubscribed_at is not None:
            entries.append(
                ContactHistoryEntry(
                    membership.unsubscribed_at, lazy_gettext("unsubscribed from a list"), membership.list_key
                )
            )
    for entry in details.suppressions:
        what = lazy_gettext("suppressed: {scope}", scope=scope_text(entry.list_key))
        entries.append(ContactHistoryEntry(entry.created_at, what, entry.reason))
    return entries
