"""A person's data: everything that is known of one address, and what happened when. For the person who asks for it."""

from dataclasses import dataclass
from typing import Any, Final

import orjson
from sqlalchemy import select

from mailwright.audience import contacts as people
from mailwright.audience.contacts import ContactDetails
from mailwright.domain.clock import Instant, isoformat
from mailwright.outbox.message_records import NEWEST, MessageSearch, MessageSummary, search
from mailwright.storage.database import Database
from mailwright.storage.tables import events, messages, subscriptions

_PAGE: Final = 200


@dataclass(frozen=True, slots=True)
class ContactHistoryEntry:
    at: Instant
    what: str
    detail: str
    outbox_id: str | None = None  # of the mail, if it is about one


async def history(database: Database, tenant_id: int, email: str, *, mails: int = 100) -> list[ContactHistoryEntry]:
    """The latest first, with the story of so many of the latest mails."""
    known = await people.load_details(database, tenant_id, email, messages=mails)
    found = _of_person(known)
    mails_of = {message.message_key: message for message in known.messages}
    for key, type_, at, _ in await _events(database, list(mails_of)):
        mail = mails_of[key]
        found.append(ContactHistoryEntry(at, f"mail {type_.lower().replace('_', ' ')}", mail.subject, mail.outbox_id))
    # What happened within one millisecond was found in its order, which sorting keeps.
    return sorted(found, key=lambda each: each.at)[::-1]


async def export_personal_data(database: Database, tenant_id: int, email: str) -> dict[str, Any]:
    """As JSON that can be handed to the person: nothing of it is about anyone else."""
    known = await people.load_details(database, tenant_id, email, messages=1)
    person = known.contact
    async with database.read() as tx:
        joined = await tx.execute(
            select(subscriptions).where(subscriptions.c.contact_key == person.id).order_by(subscriptions.c.list_key)
        )
    return {
        "contactId": person.contact_id,
        "email": person.email,
        "name": person.name,
        "locale": person.locale,
        "timezone": person.timezone,
        "attributes": person.attributes,
        "tags": list(known.tags),
        "status": person.status,
        "statusUpdatedAt": isoformat(person.status_updated_at),
        "statusSource": person.status_source,
        "bounceType": person.bounce_type,
        "bounceSubtype": person.bounce_subtype,
        "createdAt": isoformat(person.created_at),
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
            for entry in known.suppressions
        ],
        "messages": await _mails(database, tenant_id, person.email),
    }


async def _mails(database: Database, tenant_id: int, email: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    before = NEWEST
    while page := await search(database, tenant_id, MessageSearch(to_email=email, before_key=before), limit=_PAGE):
        keys = [message.message_key for message in page]
        async with database.read() as tx:
            rows = await tx.execute(select(messages.c.id, messages.c.payload).where(messages.c.id.in_(keys)))
        payloads = {row.id: orjson.loads(row.payload) for row in rows}
        stories: dict[int, list[dict[str, Any]]] = {key: [] for key in keys}
        for key, type_, at, metadata in await _events(database, keys):
            stories[key].append({"type": type_, "createdAt": isoformat(at), "metadata": metadata})
        found += [_mail(message, payloads[message.message_key], stories[message.message_key]) for message in page]
        before = keys[-1]
    return found


def _mail(message: MessageSummary, payload: dict[str, Any], story: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "outboxId": message.outbox_id,
        "source": message.source,
        "subject": message.subject,
        "status": message.status,
        "createdAt": isoformat(message.created_at),
        "sentAt": isoformat(message.sent_at),
        "content": payload,
        "events": story,
    }


async def _events(database: Database, keys: list[int]) -> list[tuple[int, str, Instant, dict[str, Any]]]:
    columns = (events.c.message_key, events.c.type, events.c.created_at, events.c.metadata)
    found: list[tuple[int, str, Instant, dict[str, Any]]] = []
    for start in range(0, len(keys), _PAGE):
        portion = keys[start : start + _PAGE]
        async with database.read() as tx:
            rows = await tx.execute(select(*columns).where(events.c.message_key.in_(portion)).order_by(events.c.id))
        found += [(row.message_key, row.type, row.created_at, orjson.loads(row.metadata)) for row in rows]
    return found


def _of_person(known: ContactDetails) -> list[ContactHistoryEntry]:
    person = known.contact
    found = [ContactHistoryEntry(person.created_at, "became a contact", "")]
    if person.status_updated_at is not None:
        found.append(
            ContactHistoryEntry(person.status_updated_at, f"became {person.status}", person.status_source or "")
        )
    for each in known.lists:
        if each.confirmed_at is not None:
            found.append(ContactHistoryEntry(each.confirmed_at, "confirmed", each.list_key))
        if each.subscribed_at is not None:
            joined = "was asked to confirm" if each.is_pending else "joined a list"
            found.append(ContactHistoryEntry(each.subscribed_at, joined, each.list_key))
        if each.unsubscribed_at is not None:
            found.append(ContactHistoryEntry(each.unsubscribed_at, "left a list", each.list_key))
    scopes = {"*": "any mail", "general": "bulk mail"}
    for entry in known.suppressions:
        scope = scopes.get(entry.list_key, f"the list {entry.list_key}")
        found.append(ContactHistoryEntry(entry.created_at, f"no more of {scope}", entry.reason))
    return found
