"""The order of a message's events, reported by different clocks."""

import pytest

from mailwright.domain.message import Event
from mailwright.domain.states import EventType
from mailwright.domain.timeline import order_events

SENT, ACCEPTED, BOUNCED = EventType.SENT, EventType.ACCEPTED, EventType.BOUNCED
NOW = 1_800_000_000_000


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (NOW, NOW + 660),  # A time in whole seconds is moved after the send.
        (NOW + 1_000, NOW + 1_000),
        (NOW - 1_000, NOW - 1_000),  # A difference of a second means a wrong clock, so the time stays.
        (NOW + 1, NOW + 1),  # Reported in milliseconds, so it is taken as it is.
    ],
)
def test_event_in_whole_seconds_follows_the_send(told: int, expected: int) -> None:
    attempt = Event(EventType.SENT_ATTEMPT, NOW + 400)
    story = order_events(sorted([Event(BOUNCED, told), attempt, Event(SENT, NOW + 660)], key=lambda event: event.at))
    [bounce] = [event for event in story if event.type is BOUNCED]
    assert bounce.at == expected
    assert [event.at for event in story] == sorted(event.at for event in story)
    if told == NOW:
        assert [event.type for event in story] == [EventType.SENT_ATTEMPT, SENT, BOUNCED]


def test_events_of_the_same_time_keep_their_order() -> None:
    story = [Event(SENT, NOW), Event(ACCEPTED, NOW), Event(BOUNCED, NOW)]
    assert [event.type for event in order_events(story)] == [SENT, ACCEPTED, BOUNCED]
