"""Whether email leaves this machine: where it goes, what prevents sending, and what recipients would notice."""

from enum import StrEnum
from typing import Final

from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.tracking import TrackingMode


class Destination(StrEnum):
    """Where email goes. Only email to recipients reaches anybody."""

    RECIPIENTS = "recipients"
    TEST_SERVER = "test_server"  # a server that only collects email: `purpose=test` in its address
    LOCAL_MAILBOX = "local_mailbox"
    MIXED = "mixed"  # sent messages only: some went to recipients, and others stayed here

    @property
    def reaches_nobody(self) -> bool:
        return self in (Destination.LOCAL_MAILBOX, Destination.TEST_SERVER)


class ReadinessReason(StrEnum):
    """Why email does not leave, is not sent, or is not as it should be; the most important reason first."""

    SETTINGS_UNUSABLE = "settings_unusable"
    PROVIDER_UNUSABLE = "provider_unusable"
    SENDING_ON_HOLD = "sending_on_hold"
    SENDER_REFUSED = "sender_refused"
    DEMO = "demo"
    DRY_RUN = "dry_run"
    LOCAL_MAILBOX = "local_mailbox"
    TEST_SERVER = "test_server"
    NO_WORKER = "no_worker"
    SENDER_MISSING = "sender_missing"
    PARTLY_LOCAL = "partly_local"
    PUBLIC_ADDRESS_LOCAL = "public_address_local"
    POSTAL_ADDRESS_MISSING = "postal_address_missing"
    SENDER_DOMAIN_UNCHECKED = "sender_domain_unchecked"


# With one of these, messages wait or are refused.
_STOPPING: Final = frozenset(
    {
        ReadinessReason.SETTINGS_UNUSABLE,
        ReadinessReason.PROVIDER_UNUSABLE,
        ReadinessReason.SENDING_ON_HOLD,
        ReadinessReason.SENDER_REFUSED,
        ReadinessReason.NO_WORKER,
    }
)


class ReadinessState(StrEnum):
    READY = "ready"  # email leaves, and nothing is missing
    INCOMPLETE = "incomplete"  # email leaves, but something is missing
    NOBODY_RECEIVES = "nobody_receives"  # email is sent to the local mailbox or to a test server
    STOPPED = "stopped"  # nothing is sent


@dataclass(frozen=True, slots=True)
class SendingReadiness:
    """Whether the email of a tenant and a source leaves this machine now."""

    destination: Destination
    reasons: tuple[ReadinessReason, ...]  # in the order of `ReadinessReason`
    provider: str  # its name for people, for example `Amazon SES`
    sender: str
    public_url: str
    workers: int  # that are running
    tracking: TrackingMode
    consenting: int | None = None  # contacts who consented to tracking; None if they were not counted
    problem: str | None = None  # why the provider cannot be used, or the sender is refused

    @property
    def state(self) -> ReadinessState:
        if not _STOPPING.isdisjoint(self.reasons):
            return ReadinessState.STOPPED
        if self.destination.reaches_nobody:
            return ReadinessState.NOBODY_RECEIVES
        return ReadinessState.INCOMPLETE if self.reasons else ReadinessState.READY

    def has(self, reason: ReadinessReason) -> bool:
        return reason in self.reasons
