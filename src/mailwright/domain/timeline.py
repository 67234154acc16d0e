"""The timeline: what happened to a message, in an order that can be."""

from collections.abc import Sequence
from dataclasses import replace

from mailwright.domain.clock import SECOND, Instant
from mailwright.domain.message import Event
from mailwright.domain.states import EventType

_SENDING = (EventType.SENT_ATTEMPT, EventType.SENT)


def order_events(events: Sequence[Event]) -> tuple[Event, ...]:
    """Whoever tells whole seconds seems to have heard of a mail before it was sent: that is put right after it."""
    steps = [event.at for event in events if event.type in _SENDING]
    found = [replace(event, at=_not_before(event, steps)) for event in events]
    return tuple(sorted(found, key=lambda event: (event.at, event.type.islower())))


def _not_before(event: Event, steps: Sequence[Instant]) -> Instant:
    if event.type.isupper() or event.at % SECOND:
        return event.at
    return max([event.at, *(step for step in steps if step - event.at < SECOND)])
