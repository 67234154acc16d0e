"""Order the events of a message's timeline."""

from collections.abc import Sequence
from dataclasses import replace

from mailwright.domain.clock import SECOND, Instant
from mailwright.domain.message import Event
from mailwright.domain.states import EventType

_SENDING = (EventType.SENT_ATTEMPT, EventType.SENT)


def order_events(events: Sequence[Event]) -> tuple[Event, ...]:
    """Sort events by time.

    Some providers report times in whole seconds, so that an event seems to precede the send. Such an event is placed
    right after the send.
    """
    steps = [event.at for event in events if event.type in _SENDING]
    adjusted = [replace(event, at=_not_before(event, steps)) for event in events]
    return tuple(sorted(adjusted, key=lambda event: (event.at, event.type.islower())))


def _not_before(event: Event, steps: Sequence[Instant]) -> Instant:
    if event.type.isupper() or event.at % SECOND:
        return event.at
    return max([event.at, *(step for step in steps if step - event.at < SECOND)])
