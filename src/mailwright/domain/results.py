"""The result of one attempt to send: always a value from a closed set, never an exception."""

from enum import StrEnum

from mailwright.domain.bounce import BounceKind
from mailwright.domain.clock import Instant
from mailwright.domain.lazy_dataclass import dataclass


class ErrorCategory(StrEnum):
    PERMANENT = "PERMANENT_ERROR"
    CONFIGURATION = "CONFIGURATION_ERROR"  # Our settings are wrong. The circuit breaker opens.
    QUOTA = "QUOTA_ERROR"  # The provider throttles us. The message is deferred.
    TRANSIENT = "TRANSIENT_ERROR"
    TIMEOUT = "TIMEOUT_ERROR"
    VALIDATION = "VALIDATION_ERROR"


class ResultKind(StrEnum):
    SENT = "sent"
    RETRYABLE = "retryable"
    FAILED = "failed"
    IN_DOUBT = "in_doubt"  # The provider may have the message: all of it was sent, but no complete response came.


@dataclass(frozen=True, slots=True)
class BouncedCopy:
    """A recipient in Cc or Bcc whose address the server rejected."""

    address: str
    bounce: BounceKind
    code: str | None
    message: str | None


@dataclass(slots=True)  # Not frozen, for speed: see domain.message.
class SendResult:
    """The result of one attempt in Mailwright's terms; `original_code` and `message` are the provider's."""

    kind: ResultKind
    provider: str
    provider_message_id: str | None = None
    code: str | None = None
    category: ErrorCategory | None = None
    message: str | None = None
    original_code: str | None = None
    retry_after: Instant | None = None  # A duration in milliseconds.
    # The connection or the account failed, not this message. Several such results in a row open the circuit breaker.
    blames_provider: bool = False
    # The receiving server or an outage defers the message. It is retried until it expires, whatever the maximum number
    # of attempts.
    is_deferral: bool = False
    # False if the provider was not called: no connection was made, or Mailwright itself ended the attempt.
    is_completed: bool = True
    # True if the provider cannot have the message: it was rejected, or its last byte was never sent. Only then may
    # another provider send it.
    definitely_not_sent: bool = False
    # Recipients of copies that the receiving server deferred, although it accepted the message for others.
    deferred_recipients: tuple[str, ...] = ()
    # The bounce kind if the rejection is about the address itself.
    bounce: BounceKind | None = None
    # Recipients of copies whose addresses the server rejected, whatever the result for the others.
    bounced_copies: tuple[BouncedCopy, ...] = ()

    @property
    def pauses_provider(self) -> bool:
        """Whether nothing can be sent until somebody acts: our settings are wrong, or the account is paused."""
        return self.kind is ResultKind.FAILED and (self.blames_provider or self.category is ErrorCategory.CONFIGURATION)


def sent(provider: str, provider_message_id: str | None) -> SendResult:
    return SendResult(ResultKind.SENT, provider, provider_message_id)
