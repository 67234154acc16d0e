"""Publish an event when a contact subscribes or unsubscribes on a public page, in the same transaction.

The event belongs to no message. It refers to the contact only by its key, so that it contains no personal data after an
erasure.
"""

from collections.abc import Iterator
from typing import Final

from mailwright.domain.clock import Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import Event
from mailwright.domain.states import EventType
from mailwright.outbox.machine_responses import VISITED_LIST
from mailwright.outbox.reported import find_by_outbox_id
from mailwright.outbox.settle import NO_MESSAGE, append_events, event_row
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement

LOCK_CONTACTS = statement(__package__, "lock_contacts")

# The event field with the contact's key. Outbound webhooks use it to find the contact, and do not send it.
CONTACT_KEY: Final = "contactKey"


@dataclass(frozen=True, slots=True)
class SubscriptionState:
    """Which lists a contact is subscribed to and unsubscribed from; `general` stands for all bulk email."""

    subscribed: frozenset[str]
    unsubscribed: frozenset[str]


async def record_changes(
    tx: Runner,
    tenant_id: int,
    email: str,
    before: SubscriptionState,
    after: SubscriptionState,
    *,
    source: str,
    now: Instant,
    message_id: str | None = None,
    visited_list: str | None = None,
) -> None:
    """Append one event per changed list. If the address is not a contact, append none.

    An unsubscribe also appears on the timeline of the message whose link was used, and in its campaign's results.
    `visited_list` is the list of the link, if opening the link was enough to unsubscribe.
    """
    changes = list(_changes(before, after))
    rows = await tx.run(LOCK_CONTACTS, contacts=[{"tenant_id": tenant_id, "email": email}]) if changes else ()
    new_events = [
        Event(type_, now, {CONTACT_KEY: contact.id, "listKey": list_key, "source": source})
        for contact in rows
        for type_, list_key in changes
    ]
    if new_events:
        await append_events(tx, [event_row(NO_MESSAGE, tenant_id, event) for event in new_events])
    left = [list_key for type_, list_key in changes if type_ is EventType.LEFT]
    if left and message_id is not None:
        visit = {} if visited_list is None else {VISITED_LIST: visited_list}
        event = Event(EventType.UNSUBSCRIBED, now, {"source": source, **visit})
        await _attribute(tx, tenant_id, email, message_id, event)


async def _attribute(tx: Runner, tenant_id: int, email: str, message_id: str, event: Event) -> None:
    """Append the event to the timeline of the message, if the message was sent to this address."""
    message = (await find_by_outbox_id(tx, {message_id})).get(message_id)
    if message is not None and (message.tenant_id, message.to_email) == (tenant_id, email):
        await append_events(tx, [event_row(message.message_key, tenant_id, event)])


def _changes(before: SubscriptionState, after: SubscriptionState) -> Iterator[tuple[EventType, str]]:
    """Yield the event type and key of each changed list. Undoing an unsubscribe counts as a subscription."""
    for list_key in sorted(after.unsubscribed - before.unsubscribed):
        yield EventType.LEFT, list_key
    for list_key in sorted((after.subscribed - before.subscribed) | (before.unsubscribed - after.unsubscribed)):
        yield EventType.JOINED, list_key
