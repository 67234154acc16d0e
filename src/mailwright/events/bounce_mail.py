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
    AutoReply,
    BouncedRecipient,
    BounceMail,
    BounceReport,
    DsnAction,
    FeedbackReport,
    FeedbackType,
    UnreadableReport,
    UnrelatedEmail,
    parse_bounce_mail,
)
from mailwright.events.bounces.mailbox import BounceMailbox, MailboxEmail
from mailwright.events.reports import ReportCounts, Reports
from mailwright.events.sanitize import address_key, clean_metadata
from mailwright.events.soft_bounces import is_about_address
from mailwright.ops.logs import logger

# Bounces come by mail where mails leave by SMTP.
SOURCE = "smtp"
MAX_ATTEMPTS = 5

_TYPES = {
    DsnAction.FAILED: EventType.BOUNCED,
    DsnAction.DELAYED: EventType.DEFERRED,
    DsnAction.DELIVERED: EventType.DELIVERED,
    DsnAction.RELAYED: EventType.DELIVERED,
    DsnAction.EXPANDED: EventType.DELIVERED,
}


log = logger(__name__)


@dataclass(frozen=True, slots=True)
class RecordedBounceMail:
    """What a letter was, and what became of its reports."""

    letter: BounceMail
    reports: tuple[Report, ...]
    received: ReportCounts


class BounceMailRecorder:
    def __init__(self, reports: Reports, clock: Clock) -> None:
        self._reports = reports
        self._clock = clock

    async def record(self, mail: bytes) -> RecordedBounceMail:
        """What the mail says is on disk when this returns. Raises `NotDurable`; anything can be read."""
        letter = parse_bounce_mail(mail)
        told = reports_of(letter, self._clock.now())
        received = await self._reports.receive(told) if told else ReportCounts()
        return RecordedBounceMail(letter, told, received)


class BounceMailboxReader:
    """A mailbox that is looked into from time to time."""

    name = "bounce_mailbox"
    pause_seconds = 30.0

    def __init__(self, box: BounceMailbox, letters: BounceMailRecorder) -> None:
        self._box = box
        self._letters = letters
        self._failed: dict[str, int] = {}  # how often each mail could not be recorded

    async def poll(self) -> int:
        """Everything that lies there now. A mail is marked only after what it says is on disk."""
        count = 0
        async with aclosing(self._box.unread_emails()) as arrivals:
            async for arrival in arrivals:
                count += await self._is_done(arrival)
        return count

    async def _is_done(self, arrival: MailboxEmail) -> bool:
        try:
            answered = await self._letters.record(arrival.mail)
        except MailwrightError:
            raise
        except Exception as error:  # a mail that nobody can record must not stand in the way of the others
            log.error("bounce_mail_failed", mail=arrival.identity, exc_info=error)
            await self._count_failure(arrival)
            return False
        self._failed.pop(arrival.identity, None)
        if isinstance(answered.letter, UnreadableReport):
            log.warning("bounce_mail_not_understood", mail=arrival.identity, reason=answered.letter.reason)
        await arrival.mark_done()
        return True

    async def _count_failure(self, arrival: MailboxEmail) -> None:
        """What fails time and again is laid aside for a person to look at: those behind it would never be reached."""
        tries = self._failed.pop(arrival.identity, 0) + 1
        if tries < MAX_ATTEMPTS:
            self._failed[arrival.identity] = tries
            return
        await arrival.flag()
        log.error("bounce_mail_laid_aside", mail=arrival.identity, tries=tries)


def reports_of(letter: BounceMail, now: Instant) -> tuple[Report, ...]:
    """None for a mail that says nothing about ours."""
    match letter:
        case BounceReport():
            return tuple(_bounces(letter, now))
        case FeedbackReport():
            return tuple(_complaints(letter, now))
        case AutoReply() | UnrelatedEmail() | UnreadableReport():
            return ()
        case _:
            assert_never(letter)


def _bounces(letter: BounceReport, now: Instant) -> Iterator[Report]:
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
            metadata=clean_metadata(
                action=each.action,
                status=each.status,
                replyCode=each.reply_code,
                diagnosticCode=each.diagnostic,
                reportingMta=letter.reporting_mta,
            ),
        )


def _written(letter: BounceReport | FeedbackReport, now: Instant) -> Instant:
    """When the letter says that it was written, and never later than now."""
    return now if letter.sent_at is None else min(letter.sent_at, now)


def _verdict(recipient: BouncedRecipient) -> ContactVerdict:
    """Of a letter with our id. Anyone can write a bounce, and only who had our mail knows that."""
    if recipient.action is not DsnAction.FAILED:
        return ContactVerdict.NOTHING
    if recipient.kind is BounceKind.HARD:
        return ContactVerdict.HARD_BOUNCE
    return (
        ContactVerdict.SOFT_BOUNCE
        if is_about_address(recipient.status, recipient.diagnostic)
        else ContactVerdict.NOTHING
    )


def _complaints(letter: FeedbackReport, now: Instant) -> Iterator[Report]:
    # Who complained is often hidden; to whom the mail went is not, as a rule.
    hidden = letter.original.recipients if len(letter.original.recipients) == 1 else ()
    for recipient in letter.recipients or hidden or (None,):
        yield Report(
            key=f"letter:{letter.identity}:{address_key(recipient or '')}",
            source=SOURCE,
            type=EventType.UNSUBSCRIBED if letter.feedback_type is FeedbackType.OPT_OUT else EventType.COMPLAINED,
            at=_written(letter, now),
            recipient=recipient,
            outbox_id=letter.original.outbox_id,
            verdict=_feedback(letter) if letter.original.outbox_id else ContactVerdict.NOTHING,
            metadata=clean_metadata(feedbackType=letter.feedback_type, reporter=letter.reporter),
        )


def _feedback(letter: FeedbackReport) -> ContactVerdict:
    """Of a letter with our id."""
    if letter.feedback_type is FeedbackType.OPT_OUT:
        return ContactVerdict.UNSUBSCRIBE
    return ContactVerdict.COMPLAINT if letter.feedback_type.is_complaint else ContactVerdict.NOTHING
