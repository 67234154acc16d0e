"""Record reports and replies from emails to the bounce address.

An email without one of our message IDs never changes a contact.
"""

from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import field
from typing import assert_never

from mailwright.domain.bounce import BounceKind
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import MailwrightError
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.report import ContactVerdict, Report
from mailwright.domain.states import EventType
from mailwright.events.bounces import (
    BouncedRecipient,
    BounceMail,
    BounceReport,
    DsnAction,
    FeedbackReport,
    OrdinaryEmail,
    UnreadableReport,
    parse_bounce_mail,
)
from mailwright.events.bounces.mailbox import BounceMailbox, MailboxEmail
from mailwright.events.dmarc.recorder import DmarcRecorder, ImportedReport
from mailwright.events.dmarc.report_email import ReportEmail
from mailwright.events.replies import SOURCE, RecordedReply, ReplyOutcome, ReplyRecorder
from mailwright.events.reports import ReportCounts, Reports
from mailwright.ops import metrics
from mailwright.ops.logs import logger
from mailwright.providers.inbound.sanitize import address_key, clean_metadata
from mailwright.providers.inbound.soft_bounces import is_about_address

MAX_ATTEMPTS = 5
# The prefix of stored report keys. Do not change it, otherwise an email that is read again would count twice.
KEY_PREFIX = "letter"

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
    """A parsed email, and the counts of the reports that were recorded from it."""

    email: BounceMail | ReportEmail
    reports: tuple[Report, ...] = ()
    counts: ReportCounts = field(default_factory=ReportCounts)
    reply: RecordedReply | None = None  # None if the email is a report, or if replies are not recorded
    dmarc: tuple[ImportedReport, ...] = ()

    @property
    def needs_operator(self) -> bool:
        """Whether an operator must look at the email: nothing was recorded from it, or it was not forwarded."""
        is_forwarded = self.reply is not None and self.reply.forwarded_as is not None
        match self.email:
            case UnreadableReport():
                return not is_forwarded
            case BounceReport():
                return not (is_forwarded or self.counts.new or self.counts.repeated)
            case _:
                return self.reply is not None and self.reply.needs_operator

    @property
    def kind(self) -> str:
        """The kind of the email, for logs, metrics and the `bounce` command."""
        match self.email:
            case BounceReport():
                return "bounce"
            case FeedbackReport():
                return self.email.feedback_type.kind
            case UnreadableReport():
                return "unreadable"
            case ReportEmail():
                return "dmarc_report"
            case OrdinaryEmail():
                if self.reply is None or self.reply.outcome is not ReplyOutcome.RECORDED:
                    return "unrelated"
                return "auto_reply" if self.email.is_automatic else "reply"
            case _:
                assert_never(self.email)


class BounceMailRecorder:
    def __init__(
        self,
        reports: Reports,
        clock: Clock,
        replies: ReplyRecorder | None = None,
        dmarc: DmarcRecorder | None = None,
    ) -> None:
        self._reports = reports
        self._clock = clock
        self._replies = replies
        self._dmarc = dmarc

    async def record(self, content: bytes) -> RecordedBounceMail:
        """Parse an email, and record its reports or the reply durably. Any content is accepted.

        Raise `NotDurable` if the database cannot store them.
        """
        if self._dmarc is not None and (found := await self._dmarc.find_in_email(content)) is not None:
            return RecordedBounceMail(found, dmarc=tuple(await self._dmarc.record_email(found)))
        email = parse_bounce_mail(content)
        ordinary = email.ordinary if isinstance(email, UnreadableReport | BounceReport) else email
        if isinstance(ordinary, OrdinaryEmail) and self._replies is not None:
            reply = await self._replies.record(ordinary, content)
            return RecordedBounceMail(email, reply.reports, reply.counts, reply)
        reports = reports_of(email, self._clock.now())
        counts = await self._reports.receive(reports) if reports else ReportCounts()
        return RecordedBounceMail(email, reports, counts)


class BounceMailboxReader:
    """Polls a bounce mailbox. Emails that are neither recorded nor forwarded are flagged for an operator."""

    name = "bounce_mailbox"
    pause_seconds = 30.0

    def __init__(self, mailbox: BounceMailbox, recorder: BounceMailRecorder) -> None:
        self._mailbox = mailbox
        self._recorder = recorder
        self._failed: dict[str, int] = {}  # failed attempts by email

    async def poll(self) -> int:
        """Process all unread emails. An email is marked as done only after its reports are recorded."""
        count = 0
        async with aclosing(self._mailbox.unread_emails()) as emails:
            async for email in emails:
                count += await self._process(email)
        return count

    async def _process(self, email: MailboxEmail) -> bool:
        try:
            recorded = await self._recorder.record(email.content)
        except MailwrightError:
            raise
        except Exception as error:  # an email that cannot be recorded must not block the others
            log.error("bounce_mail_failed", identity=email.identity, exc_info=error)
            await self._count_failure(email)
            return False
        self._failed.pop(email.identity, None)
        if isinstance(recorded.email, UnreadableReport):
            log.warning("bounce_mail_not_parsed", identity=email.identity, reason=recorded.email.reason)
        for each in recorded.dmarc:
            if each.reason is not None:
                log.warning("dmarc_report_refused", identity=email.identity, domain=each.domain, reason=each.reason)
        if recorded.needs_operator:
            log.info("bounce_mail_left_for_operator", identity=email.identity, kind=recorded.kind)
            await email.flag()
        else:
            await email.mark_done()
        metrics.INBOUND_EMAILS.labels(recorded.kind).inc()
        return True

    async def _count_failure(self, email: MailboxEmail) -> None:
        """Flag an email that fails repeatedly for an operator, so that it does not block the emails after it."""
        attempts = self._failed.pop(email.identity, 0) + 1
        if attempts < MAX_ATTEMPTS:
            self._failed[email.identity] = attempts
            return
        await email.flag()
        log.error("bounce_mail_flagged", identity=email.identity, attempts=attempts)


def reports_of(email: BounceMail, now: Instant) -> tuple[Report, ...]:
    """Return the reports in an email. The result is empty if the email is not about our messages."""
    match email:
        case BounceReport():
            return tuple(_bounces(email, now))
        case FeedbackReport():
            return tuple(_complaints(email, now))
        case OrdinaryEmail() | UnreadableReport():
            return ()
        case _:
            assert_never(email)


def _bounces(email: BounceReport, now: Instant) -> Iterator[Report]:
    for recipient in email.recipients:
        yield Report(
            key=f"{KEY_PREFIX}:{recipient.identity}",
            source=SOURCE,
            type=_TYPES[recipient.action],
            at=_time(email, now),
            recipient=recipient.address,
            outbox_id=email.original.outbox_id,
            verdict=_verdict(recipient) if email.original.outbox_id else ContactVerdict.NOTHING,
            bounce_type=recipient.kind,
            bounce_subtype=recipient.status,
            metadata=clean_metadata(
                action=recipient.action,
                status=recipient.status,
                replyCode=recipient.reply_code,
                diagnosticCode=recipient.diagnostic,
                reportingMta=email.reporting_mta,
            ),
        )


def _time(email: BounceReport | FeedbackReport, now: Instant) -> Instant:
    """Return the time of the Date header, at most now."""
    return now if email.sent_at is None else min(email.sent_at, now)


def _verdict(recipient: BouncedRecipient) -> ContactVerdict:
    """Return the verdict about a recipient. The email has our ID, so it is not forged: nobody can guess the ID."""
    if recipient.action is not DsnAction.FAILED:
        return ContactVerdict.NOTHING
    if recipient.kind is BounceKind.HARD:
        return ContactVerdict.HARD_BOUNCE
    # A failure counts as temporary only if the report contains a temporary status code.
    code = recipient.status or str(recipient.reply_code or "")
    is_counted = is_about_address(recipient.status, recipient.diagnostic, is_permanent=not code.startswith("4"))
    return ContactVerdict.SOFT_BOUNCE if is_counted else ContactVerdict.NOTHING


def _complaints(email: FeedbackReport, now: Instant) -> Iterator[Report]:
    if (type_ := email.feedback_type.event) is None:
        return
    # Reports often hide the recipient who complained, but they usually show the original recipient.
    hidden = email.original.recipients if len(email.original.recipients) == 1 else ()
    for recipient in email.recipients or hidden or (None,):
        yield Report(
            key=f"{KEY_PREFIX}:{email.identity}:{address_key(recipient or '')}",
            source=SOURCE,
            type=type_,
            at=_time(email, now),
            recipient=recipient,
            outbox_id=email.original.outbox_id,
            verdict=email.feedback_type.verdict if email.original.outbox_id else ContactVerdict.NOTHING,
            metadata=clean_metadata(feedbackType=email.feedback_type, reporter=email.reporter),
        )
