"""What a provider answers. A value from a closed set, never an exception."""

from dataclasses import dataclass
from enum import StrEnum

from mailwright.domain.bounce import BounceKind
from mailwright.domain.clock import Instant


class ErrorCategory(StrEnum):
    PERMANENT = "PERMANENT_ERROR"
    CONFIGURATION = "CONFIGURATION_ERROR"  # ours, not the recipient's: the circuit opens, no attempt is burned
    QUOTA = "QUOTA_ERROR"  # the provider asks us to slow down: the message waits, no attempt is burned
    TRANSIENT = "TRANSIENT_ERROR"
    TIMEOUT = "TIMEOUT_ERROR"
    VALIDATION = "VALIDATION_ERROR"


class ResultKind(StrEnum):
    SENT = "sent"
    RETRYABLE = "retryable"
    FAILED = "failed"
    IN_DOUBT = "in_doubt"  # the last byte left and no complete answer came: the provider may have it


@dataclass(slots=True)  # made for every mail: see domain.message
class SendResult:
    """One attempt's outcome, in our words; `original_code` and `message` keep the provider's."""

    kind: ResultKind
    provider: str
    provider_message_id: str | None = None
    code: str | None = None
    category: ErrorCategory | None = None
    message: str | None = None
    original_code: str | None = None
    retry_after: Instant | None = None  # a duration in milliseconds
    # The connection or the account failed, not this mail: enough of these in a row open the circuit.
    blames_provider: bool = False
    # Nobody can have the mail: it was refused, or its last byte never left. Only then another provider may be asked.
    definitely_not_sent: bool = False
    # What a refusal says about the address itself; None where it says nothing.
    bounce: BounceKind | None = None


def sent(provider: str, provider_message_id: str | None) -> SendResult:
    return SendResult(ResultKind.SENT, provider, provider_message_id)
