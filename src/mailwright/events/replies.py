"""Record replies to our messages on their timelines, and forward those that people wrote.

A reply never changes a contact, with one exception: a reply to bulk email from the recipient's own address unsubscribes
the recipient if its whole subject asks for that. Nobody can forge such a reply without the id of the message.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Final

from mailwright.content.forwarded import ForwardHeaders, forward_email
from mailwright.content.headers import Mailbox
from mailwright.domain import address
from mailwright.domain.clock import HOUR, Clock, Instant
from mailwright.domain.errors import InvalidInput
from mailwright.domain.ids import uuid7
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import (
    ENVELOPE_FROM,
    FORWARDED_REPLY,
    RAW_BYTES,
    Accepted,
    NewMessage,
    RawContent,
    Source,
    raw_dedupe_key,
)
from mailwright.domain.report import ContactVerdict, Report
from mailwright.domain.states import EventType
from mailwright.domain.unsubscribe_tokens import FIRST_TENANT
from mailwright.events.bounces import OrdinaryEmail
from mailwright.events.reports import ReportCounts, Reports
from mailwright.ops.logs import logger
from mailwright.outbox.replied import (
    RepliedMessage,
    count_forwarded,
    count_replies,
    find_by_id,
    find_by_key,
    find_by_message_id,
)
from mailwright.providers.inbound.sanitize import clean_metadata
from mailwright.storage.database import Database

# The source of reports that come by email.
SOURCE: Final = "smtp"
# Whole subjects of replies that unsubscribe their sender.
UNSUBSCRIBE_SUBJECTS: Final = frozenset(
    ["unsubscribe", "stop", "отписаться", "отписка", "стоп", "descadastrar", "cancelar inscrição", "parar"]
)
# Replies to one message that are forwarded in an hour. Anyone who has the message could otherwise flood the address.
MAX_FORWARDED_PER_HOUR: Final = 20
# The maximum number of forwarded emails per hour that are not replies to a message, because anyone who knows the
# address of the mailbox can send them.
MAX_UNMATCHED_PER_HOUR: Final = 100

log = logger(__name__)


class ReplyOutcome(StrEnum):
    RECORDED = "recorded"  # a reply to one of our messages
    UNMATCHED = "unmatched"  # an email that answers none of our messages
    OURS = "ours"  # one of our own messages came back


@dataclass(frozen=True, slots=True)
class RecordedReply:
    """The result for an ordinary email.

    `needs_operator`: an operator must look at it, because it was not recorded or not forwarded completely.
    """

    outcome: ReplyOutcome
    reports: tuple[Report, ...] = ()
    counts: ReportCounts = field(default_factory=ReportCounts)
    forwarded_as: str | None = None
    needs_operator: bool = False


@dataclass(frozen=True, slots=True)
class ReplySettings:
    """Where replies are forwarded to, and the sender of the forwarded emails."""

    sender: Mailbox
    forward_to: str | None = None
    forwards_unmatched: bool = False


class ReplyRecorder:
    def __init__(
        self,
        database: Database,
        clock: Clock,
        reports: Reports,
        accept: Callable[[Sequence[NewMessage]], Awaitable[list[Accepted]]],
        settings: ReplySettings,
    ) -> None:
        self._database = database
        self._clock = clock
        self._reports = reports
        self._accept = accept
        self._settings = settings

    async def record(self, email: OrdinaryEmail, content: bytes) -> RecordedReply:
        """Record an email and forward it, both durably and once. A repeated call changes nothing."""
        if email.is_ours:
            return RecordedReply(ReplyOutcome.OURS)
        message, is_certain = await self._find_message(email)
        if message is None:
            return await self._handle_unmatched(email, content)
        reports = tuple(_reports(email, message, self._clock.now(), is_certain=is_certain))
        counts = await self._reports.receive(reports)
        forward_to = message.forward_to or self._settings.forward_to
        if not message.may_forward or forward_to is None or not _may_forward(email, forward_to):
            return RecordedReply(ReplyOutcome.RECORDED, reports, counts)
        if await count_replies(self._database, message.outbox_id, self._clock.now() - HOUR) > MAX_FORWARDED_PER_HOUR:
            log.warning("reply_not_forwarded", identity=email.identity, reason="too many replies to the same message")
            return RecordedReply(ReplyOutcome.RECORDED, reports, counts, needs_operator=True)
        forwarded_as = await self._forward(email, content, forward_to, message)
        return RecordedReply(ReplyOutcome.RECORDED, reports, counts, forwarded_as, needs_operator=forwarded_as is None)

    async def _find_message(self, email: OrdinaryEmail) -> tuple[RepliedMessage | None, bool]:
        """Return the message, and whether the email contains its secret id.

        The Message-ID of an application's email, or of an email to several recipients, is not secret, so only a reply
        from its recipient counts.
        """
        if email.original.outbox_id is not None:
            found = await find_by_id(self._database, email.original.outbox_id)
            if found is not None:
                return found, True
        if email.sender is None:
            return None, False
        sender = address.normal(email.sender)
        found = await find_by_key(self._database, [raw_dedupe_key(each, sender) for each in email.references])
        return found or await find_by_message_id(self._database, sender, email.references), False

    async def _handle_unmatched(self, email: OrdinaryEmail, content: bytes) -> RecordedReply:
        forward_to = self._settings.forward_to
        if email.is_automatic:
            return RecordedReply(ReplyOutcome.UNMATCHED)
        if forward_to is None or not self._settings.forwards_unmatched or not _may_forward(email, forward_to):
            return RecordedReply(ReplyOutcome.UNMATCHED, needs_operator=True)
        since = self._clock.now() - HOUR
        count = await count_forwarded(self._database, FIRST_TENANT, address.normal(forward_to), since)
        if count >= MAX_UNMATCHED_PER_HOUR:
            log.warning("reply_not_forwarded", identity=email.identity, reason="too many emails that are no replies")
            return RecordedReply(ReplyOutcome.UNMATCHED, needs_operator=True)
        forwarded_as = await self._forward(email, content, forward_to, None)
        return RecordedReply(ReplyOutcome.UNMATCHED, forwarded_as=forwarded_as, needs_operator=forwarded_as is None)

    async def _forward(
        self, email: OrdinaryEmail, content: bytes, forward_to: str, message: RepliedMessage | None
    ) -> str | None:
        """Accept the email as a message to `forward_to`, and return its id; None if it cannot be sent."""
        try:
            new = self._forwarded(email, content, forward_to, message)
        except InvalidInput as error:
            log.warning("reply_not_forwarded", identity=email.identity, reason=str(error))
            return None
        [accepted] = await self._accept([new])
        return accepted.outbox_id

    def _forwarded(
        self, email: OrdinaryEmail, content: bytes, forward_to: str, message: RepliedMessage | None
    ) -> NewMessage:
        now, sender = self._clock.now(), self._settings.sender
        outbox_id, author = uuid7(now), Mailbox(email.sender, email.sender_name) if email.sender else None
        headers = ForwardHeaders(outbox_id, sender, author, forward_to, email.subject, now)
        raw = forward_email(content, headers)
        # Erasing a contact finds the forwarded replies by these addresses.
        about = {
            "from": address.normal(author.address) if author else None,
            "recipient": message.to_email if message else None,
        }
        shown = {"email": sender.address, "name": sender.name} if sender.name else {"email": sender.address}
        return NewMessage(
            outbox_id=outbox_id,
            tenant_id=message.tenant_id if message else FIRST_TENANT,
            source=Source.API,
            request_id=f"reply-{email.identity[:32]}",
            to_email=address.normal(forward_to),
            subject=email.subject,
            payload={
                "to": forward_to,
                "from": shown,
                ENVELOPE_FROM: sender.address,
                RAW_BYTES: len(raw),
                FORWARDED_REPLY: about,
            },
            # The same email is accepted once, even if it was delivered twice and its copies have different headers.
            dedupe_key=f"reply:{email.identity}",
            body_digest=email.identity,
            raw=RawContent.of(raw, now),
        )


def _reports(email: OrdinaryEmail, message: RepliedMessage, now: Instant, *, is_certain: bool) -> Iterator[Report]:
    at = now if email.sent_at is None else min(email.sent_at, now)
    is_own = email.sender is not None and address.normal(email.sender) == message.to_email
    yield Report(
        key=f"reply:{email.identity}",
        source=SOURCE,
        type=EventType.REPLIED,
        at=at,
        outbox_id=message.outbox_id,
        metadata=clean_metadata(
            isAutomatic=email.is_automatic, isFromRecipient=is_own, sender=email.sender or "", subject=email.subject
        ),
    )
    asks = email.subject.strip(" .!").casefold() in UNSUBSCRIBE_SUBJECTS
    if asks and is_own and is_certain and message.is_bulk and not email.is_automatic:
        yield Report(
            key=f"reply:{email.identity}:unsubscribe",
            source=SOURCE,
            type=EventType.UNSUBSCRIBED,
            at=at,
            recipient=message.to_email,
            outbox_id=message.outbox_id,
            verdict=ContactVerdict.UNSUBSCRIBE,
        )


def _may_forward(email: OrdinaryEmail, forward_to: str) -> bool:
    """Return whether a person wrote the email, and not from the address that it would be forwarded to."""
    is_loop = email.sender is not None and address.normal(email.sender) == address.normal(forward_to)
    return not email.is_automatic and not is_loop
