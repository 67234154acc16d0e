"""One message in a session: which recipients were rejected, and the result that follows."""

from dataclasses import replace

from mailwright.domain.address import mask
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.results import BouncedCopy, ResultKind, SendResult, sent
from mailwright.providers.protocol import ResultCallback
from mailwright.providers.smtp.replies import SmtpReply
from mailwright.providers.smtp.responses import PROVIDER


class SmtpJob:
    """One message in flight, and the server's replies so far."""

    __slots__ = (
        "_on_result",
        "has_reply",
        "is_over",
        "is_seven_bit",
        "message",
        "moves",
        "needs_utf8",
        "recipients_answered",
        "refusal",
        "refused_recipients",
    )

    def __init__(self, message: OutgoingMessage, on_result: ResultCallback) -> None:
        self.message = message
        self._on_result = on_result
        self.is_over = False  # True once the message has a result or its caller has cancelled it.
        self.is_seven_bit = message.is_canonical or message.content.isascii()
        self.needs_utf8 = not (message.sender.isascii() and all(map(str.isascii, message.recipients)))
        self.moves = 0  # How often another connection took over, before any reply.
        self.has_reply = False  # True once the server has replied to this message.
        self.refusal: SendResult | None = None
        self.recipients_answered = 0
        self.refused_recipients: dict[int, SendResult] = {}

    @property
    def has_recipients(self) -> bool:
        return self.recipients_answered > len(self.refused_recipients)

    def settle(self, result: SendResult) -> None:
        if not self.is_over:
            self.is_over = True
            self._on_result(result)

    def cancel(self) -> None:
        self.is_over = True

    def verdict(self) -> SendResult | None:
        """Return why the content must not be sent, or None. The first recipient decides for all."""
        if self.refusal is not None or not self.refused_recipients:
            return self.refusal
        if self.has_recipients:
            decisive = self.refused_recipients.get(0)
        else:
            refusals = self.refused_recipients.values()
            retryable = (one for one in refusals if one.kind is ResultKind.RETRYABLE)
            decisive = next(retryable, self.refused_recipients[0])
        bounced = self._bounced_copies()
        return replace(decisive, bounced_copies=bounced) if decisive is not None and bounced else decisive

    def sent(self, reply: SmtpReply) -> SendResult:
        if not self.refused_recipients:
            return sent(PROVIDER, reply.queue_id)
        recipients = self.message.recipients
        refusals = [f"{mask(recipients[i])} ({one.original_code})" for i, one in self.refused_recipients.items()]
        message = f"{len(refusals)} of {len(recipients)} recipients rejected: {', '.join(refusals)}"
        deferred = tuple(recipients[i] for i, one in self.refused_recipients.items() if one.is_deferral)
        return SendResult(
            ResultKind.SENT,
            PROVIDER,
            reply.queue_id,
            message=message,
            deferred_recipients=deferred,
            bounced_copies=self._bounced_copies(),
        )

    def _bounced_copies(self) -> tuple[BouncedCopy, ...]:
        """Return the recipients other than the first whose addresses the server rejected."""
        return tuple(
            BouncedCopy(self.message.recipients[i], one.bounce, one.code, one.message)
            for i, one in self.refused_recipients.items()
            if i > 0 and one.bounce is not None
        )
