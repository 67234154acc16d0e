"""Letters: a mail that came to the bounce address becomes reports. Without our id in it, it is believed less."""

from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import assert_never

from mailwright.domain.bounce import BounceKind
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import MailwrightError
from mailwright.domain.report import ContactVerdict, Report
from mailwright.domain.states import EventType
from mailwright.events.bounces import (
    Action,
    AutoReplied,
    Bounced,
    Complained,
    FeedbackType,
    Letter,
    Recipient,
    Unreadable,
    Unrelated,
    read,
)
from mailwright.events.bounces.box import Arrival, Box
from mailwright.events.reports import Received, Reports
from mailwright.events.sanitize import kept, same_address
from mailwright.events.soft_bounces import is_about_address
from mailwright.ops.logs import logger

# Bounces come by mail where mails leave by SMTP.
SOURCE = "smtp"
MOST_TRIES = 5

_TYPES = {
    Action.FAILED: EventType.BOUNCED,
    Action.DELAYED: EventType.DEFERRED,
    Action.DELIVERED: EventType.DELIVERED,
    Action.RELAYED: EventType.DELIVERED,
    Action.EXPANDED: EventType.DELIVERED,
}


log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Answered:
    """What a letter was, and what became of its reports."""

    letter: Letter
    reports: tuple[Report, ...]
    received: Received


class Letters:
    def __init__(self, reports: Reports, clock: Clock) -> None:
        self._reports = reports
        self._clock = clock

    async def answer(self, mail: bytes) -> Answered:
        """What the mail says is on disk when this returns. Raises `NotDurable`; anything can be read."""
        letter = read(mail)
        told = reports_of(letter, self._clock.now())
        received = await self._reports.receive(told) if told else Received()
        return Answered(letter, told, received)


class LetterBox:
    """A mailbox that is looked into from time to time."""

    name = "bounce_mailbox"
    pause_seconds = 30.0

    def __init__(self, box: Box, letters: Letters) -> None:
        self._box = box
        self._letters = letters
        self._failed: dict[str, int] = {}  # how often each mail could not be recorded

    async def take(self) -> int:
        """Everything that lies there now. A mail is marked only after what it says is on disk."""
        count = 0
        async with aclosing(self._box.arrivals()) as arrivals:
            async for arrival in arrivals:
                count += await self._is_done(arrival)
        return count

    async def _is_done(self, arrival: Arrival) -> bool:
        try:
            answered = await self._letters.answer(arrival.mail)
        except MailwrightError:
            raise
        except Exception as error:  # a mail that nobody can record must not stand in the way of the others
            log.error("bounce_mail_failed", mail=arrival.identity, exc_info=error)
            await self._count_failure(arrival)
            return False
        self._failed.pop(arrival.identity, None)
        if isinstance(answered.letter, Unreadable):
            log.warning("bounce_mail_not_understood", mail=arrival.identity, reason=answered.letter.reason)
        await arrival.done()
        return True

    async def _count_failure(self, arrival: Arrival) -> None:
        """What fails time and again is laid aside for a person to look at: those behind it would never be reached."""
        tries = self._failed.pop(arrival.identity, 0) + 1
        if tries < MOST_TRIES:
            self._failed[arrival.identity] = tries
            return
        await arrival.lay_aside()
        log.error("bounce_mail_laid_aside", mail=arrival.identity, tries=tries)


def reports_of(letter: Letter, now: Instant) -> tuple[Report, ...]:
    """None for a mail that says nothing about ours."""
    match letter:
        case Bounced():
            return tuple(_bounces(letter, now))
        case Complained():
            return tuple(_complaints(letter, now))
        case AutoReplied() | Unrelated() | Unreadable():
            return ()
        case _:
            assert_never(letter)


def _bounces(letter: Bounced, now: Instant) -> Iterator[Report]:
    for each in letter.recipients:
        yield Report(
            key=f"letter:{each.identity}",
            source=SOURCE,
            type=_TYPES[each.action],
            at=_written(letter, now),
            recipient=each.address,
            outbox_id=letter.original.outbox_id,
            verdict=_verdict(each) if letter.original.outbox_id else ContactVerdict.NOTHING,
            bounce_type=each.kind,
            bounce_subtype=each.status,
            metadata=kept(
                action=each.action,
                status=each.status,
                replyCode=each.reply_code,
                diagnosticCode=each.diagnostic,
                reportingMta=letter.reporting_mta,
            ),
        )


def _written(letter: Bounced | Complained, now: Instant) -> Instant:
    """When the letter says that it was written, and never later than now."""
    return now if letter.written_at is None else min(letter.written_at, now)


def _verdict(recipient: Recipient) -> ContactVerdict:
    """Of a letter with our id. Anyone can write a bounce, and only who had our mail knows that."""
    if recipient.action is not Action.FAILED:
        return ContactVerdict.NOTHING
    if recipient.kind is BounceKind.HARD:
        return ContactVerdict.HARD_BOUNCE
    return (
        ContactVerdict.SOFT_BOUNCE
        if is_about_address(recipient.status, recipient.diagnostic)
        else ContactVerdict.NOTHING
    )


def _complaints(letter: Complained, now: Instant) -> Iterator[Report]:
    # Who complained is often hidden; to whom the mail went is not, as a rule.
    hidden = letter.original.recipients if len(letter.original.recipients) == 1 else ()
    for recipient in letter.recipients or hidden or (None,):
        yield Report(
            key=f"letter:{letter.identity}:{same_address(recipient or '')}",
            source=SOURCE,
            type=EventType.UNSUBSCRIBED if letter.feedback_type is FeedbackType.OPT_OUT else EventType.COMPLAINED,
            at=_written(letter, now),
            recipient=recipient,
            outbox_id=letter.original.outbox_id,
            verdict=_feedback(letter) if letter.original.outbox_id else ContactVerdict.NOTHING,
            metadata=kept(feedbackType=letter.feedback_type, reporter=letter.reporter),
        )


def _feedback(letter: Complained) -> ContactVerdict:
    """Of a letter with our id."""
    if letter.feedback_type is FeedbackType.OPT_OUT:
        return ContactVerdict.UNSUBSCRIBE
    return ContactVerdict.COMPLAINT if letter.feedback_type.is_complaint else ContactVerdict.NOTHING
