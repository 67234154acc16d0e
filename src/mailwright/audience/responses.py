"""Conditions on the responses to a message, for a row of `messages`."""

from typing import Any, Final

from sqlalchemy import ColumnElement, Select, and_, func, not_, select, text

from mailwright.domain.clock import MINUTE, SECOND, Instant
from mailwright.domain.states import EventType, Status
from mailwright.outbox.tallies import MAX_URL_CHARACTERS
from mailwright.storage.expressions import json_text
from mailwright.storage.tables import contacts, deliveries, events, messages

# Must be exactly the condition of the partial index of responses, or SQLite does not use the index.
IS_RESPONSE: Final = text(
    "(events.type = 'open' OR events.type = 'click' OR events.type = 'bounce' OR events.type = 'complaint'"
    " OR events.type = 'unsubscribe')"
)
IS_MACHINE: Final[ColumnElement[bool]] = events.c.metadata.like('%"isMachine"_true%')
IS_BY_PERSON: Final[ColumnElement[bool]] = events.c.metadata.not_like('%"isMachine"_true%')
_LATER: Final = events.alias("later")
# A complaint that the recipient took back: the email was later reported as not spam.
IS_WITHDRAWN: Final[ColumnElement[bool]] = (
    select(_LATER.c.id)
    .where(
        _LATER.c.message_key == events.c.message_key,
        _LATER.c.type == EventType.NOT_SPAM.value,
        _LATER.c.id > events.c.id,
        events.c.type == EventType.COMPLAINED.value,
    )
    .correlate(events)
    .exists()
)
# How long the rest of a link scanner's burst can follow a click, until it is stored. Until then, an open or a click
# adds nobody to a segment and moves nobody in a sequence.
SETTLES_AFTER: Final[Instant] = 10 * SECOND
_ENGAGEMENT: Final = (EventType.OPENED, EventType.CLICKED)


def responses(type_: EventType, url: str | None = None) -> Select[Any]:
    """Select the responses of people to a row of `messages`. If a link is given, select only its clicks.

    Long URLs are compared by their beginning, because tallies contain only this part.
    """
    found = select(events.c.created_at).where(
        events.c.message_key == messages.c.id, IS_RESPONSE, events.c.type == type_.value, IS_BY_PERSON
    )
    if type_ is EventType.COMPLAINED:
        found = found.where(not_(IS_WITHDRAWN))
    if url is not None:
        target = func.substr(json_text(events.c.metadata, "url"), 1, MAX_URL_CHARACTERS)
        found = found.where(target == url[:MAX_URL_CHARACTERS])
    return found


def settled_responses(type_: EventType, now: Instant, url: str | None = None) -> Select[Any]:
    """Select the responses of people on which Mailwright may act: opens and clicks only after a few seconds."""
    found = responses(type_, url)
    return found.where(events.c.created_at <= now - SETTLES_AFTER) if type_ in _ENGAGEMENT else found


def responses_of_machines() -> Select[Any]:
    """Select the opens and clicks of a row of `messages` by programs."""
    is_engagement = events.c.type.in_(_ENGAGEMENT)
    return select(events.c.id).where(events.c.message_key == messages.c.id, IS_RESPONSE, is_engagement, IS_MACHINE)


def responded_between(
    type_: EventType, url: str | None, after_minutes: int | None, before_minutes: int | None
) -> ColumnElement[bool]:
    """Match messages whose first response came this long after sending. `deliveries` must be joined."""
    found = responses(type_, url)
    first = found.with_only_columns(func.min(events.c.created_at)).correlate(messages).scalar_subquery()
    delay = first - func.coalesce(deliveries.c.sent_at, deliveries.c.attempted_at)
    bounds = [delay >= after_minutes * MINUTE] if after_minutes is not None else []
    bounds += [delay < before_minutes * MINUTE] if before_minutes is not None else []
    return and_(*bounds)


def was_not_opened() -> ColumnElement[bool]:
    """Match messages that were certainly not opened. `deliveries` and `contacts` must be joined.

    The email must contain the open pixel, and the contact must have consented ever since, because nothing is recorded
    otherwise. Opens by machines count as opens, because a person may be behind them: Gmail loads images through its
    proxy when a person opens an email.
    """
    engaged = select(events.c.id).where(
        events.c.message_key == messages.c.id, IS_RESPONSE, events.c.type.in_(_ENGAGEMENT)
    )
    tracked = select(events.c.id).where(
        events.c.message_key == messages.c.id,
        events.c.type == EventType.SENT.value,
        events.c.metadata.like('%"isTracked"_true%'),
    )
    return and_(
        deliveries.c.status == Status.SENT.value,
        deliveries.c.bounced_at.is_(None),
        contacts.c.consents_to_tracking.is_(True),
        contacts.c.tracking_consent_at <= deliveries.c.attempted_at,
        tracked.correlate(messages).exists(),
        ~engaged.correlate(messages).exists(),
    )
