"""Moves: whoever joins or leaves on a page of ours makes an event, in the transaction of the deed, and others are told.

The event is about no message, and names the person by a key alone: of somebody who was erased, nothing is told.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from mailwright.domain.clock import Instant
from mailwright.domain.message import Event
from mailwright.domain.states import EventType
from mailwright.outbox.settle import APPEND_EVENTS, event_row
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement

LOCK_CONTACTS = statement(__package__, "lock_contacts")

NO_MESSAGE: Final = 0
# Who it was, for whoever tells of it: it is not told itself.
CONTACT_KEY: Final = "contactKey"


@dataclass(frozen=True, slots=True)
class SubscriptionState:
    """Where a person stands: the lists that they are on, and those that they left; `general` is all bulk mail."""

    on: frozenset[str]
    gone: frozenset[str]


async def record_changes(
    tx: Runner,
    tenant_id: int,
    email: str,
    before: SubscriptionState,
    after: SubscriptionState,
    *,
    source: str,
    now: Instant,
) -> None:
    """One event for each list; none where nothing has changed, or where an address is nobody's."""
    moves = list(_moves(before, after))
    people = await tx.run(LOCK_CONTACTS, people=[{"tenant_id": tenant_id, "email": email}]) if moves else ()
    about = [
        Event(type_, now, {CONTACT_KEY: person.id, "listKey": list_key, "source": source})
        for person in people
        for type_, list_key in moves
    ]
    if about:
        await tx.count(APPEND_EVENTS, events=[event_row(NO_MESSAGE, tenant_id, event) for event in about])


def _moves(before: SubscriptionState, after: SubscriptionState) -> Iterator[tuple[EventType, str]]:
    """Undoing a leaving is a joining, also of a list that somebody got mail of without having joined it."""
    for list_key in sorted(after.gone - before.gone):
        yield EventType.LEFT, list_key
    for list_key in sorted((after.on - before.on) | (before.gone - after.gone)):
        yield EventType.JOINED, list_key
