"""Whether email leaves this machine, in sentences: the same on every page, in commands, in the API and for agents."""

from typing import Final

from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.sending_readiness import Destination, ReadinessReason, SendingReadiness
from mailwright.domain.tracking import TrackingMode
from mailwright.domain.translation import gettext, lazy_gettext, ngettext

LOCAL_MAILBOX: Final = lazy_gettext(
    "No email leaves this machine: messages go to the local mailbox, and nobody receives them."
)
TEST_SERVER: Final = lazy_gettext("Messages go to a test server, which only collects them, and nobody receives them.")

_SENTENCES: Final = {
    ReadinessReason.SETTINGS_UNUSABLE: lazy_gettext("Nothing is sent, because a stored setting is unusable."),
    ReadinessReason.PROVIDER_UNUSABLE: lazy_gettext("Nothing is sent, because the provider is unusable: {problem}."),
    ReadinessReason.SENDING_ON_HOLD: lazy_gettext("Nothing is sent, because all sending is on hold."),
    ReadinessReason.SENDER_REFUSED: lazy_gettext("Campaigns cannot start: {problem}."),
    ReadinessReason.NO_WORKER: lazy_gettext("No worker is running, so nothing is sent."),
    ReadinessReason.DEMO: lazy_gettext("This is a demo."),
    ReadinessReason.DRY_RUN: lazy_gettext("This is a dry run."),
    ReadinessReason.SENDER_MISSING: lazy_gettext("The sender {sender} does not exist on the internet."),
    ReadinessReason.PARTLY_LOCAL: lazy_gettext(
        "A part of the messages stays in the local mailbox or on a test server, and nobody receives it."
    ),
    ReadinessReason.PUBLIC_ADDRESS_LOCAL: lazy_gettext(
        "Links in emails lead to {public_url}, which recipients cannot open."
    ),
    ReadinessReason.POSTAL_ADDRESS_MISSING: lazy_gettext("Newsletters need a postal address by law, and none is set."),
    ReadinessReason.SENDER_DOMAIN_UNCHECKED: lazy_gettext("The DNS records of the sender’s domain are not verified."),
}

_ADVICE: Final = {
    ReadinessReason.SETTINGS_UNUSABLE: lazy_gettext("Enter the setting again."),
    ReadinessReason.PROVIDER_UNUSABLE: lazy_gettext("Correct the provider’s settings."),
    ReadinessReason.SENDING_ON_HOLD: lazy_gettext("Review the messages, then resume sending."),
    ReadinessReason.SENDER_REFUSED: lazy_gettext("Verify the domain, or choose another sender."),
    ReadinessReason.NO_WORKER: lazy_gettext("Start `mailwright serve` or `mailwright worker`."),
    ReadinessReason.DRY_RUN: lazy_gettext("Unset MAILWRIGHT_DRY_RUN to send."),
    ReadinessReason.LOCAL_MAILBOX: lazy_gettext("Choose a provider to send."),
    ReadinessReason.TEST_SERVER: lazy_gettext("Choose a provider to send, or remove `purpose=test` from the address."),
    ReadinessReason.SENDER_MISSING: lazy_gettext("Set the sender to an address of your domain."),
    ReadinessReason.PARTLY_LOCAL: lazy_gettext("Remove the local mailbox from the route."),
    ReadinessReason.PUBLIC_ADDRESS_LOCAL: lazy_gettext("Set the public HTTPS address of this server."),
    ReadinessReason.POSTAL_ADDRESS_MISSING: lazy_gettext("Add a postal address."),
    ReadinessReason.SENDER_DOMAIN_UNCHECKED: lazy_gettext("Publish the DNS records, and check them."),
}

_DESTINATIONS: Final = {Destination.LOCAL_MAILBOX: LOCAL_MAILBOX, Destination.TEST_SERVER: TEST_SERVER}
# What the headline says. All other reasons are remarks below it.
_IN_HEADLINE: Final = (
    ReadinessReason.DEMO,
    ReadinessReason.DRY_RUN,
    ReadinessReason.SETTINGS_UNUSABLE,
    ReadinessReason.PROVIDER_UNUSABLE,
    ReadinessReason.SENDING_ON_HOLD,
    ReadinessReason.SENDER_REFUSED,
    ReadinessReason.NO_WORKER,
)
_OF_DESTINATION: Final = (ReadinessReason.LOCAL_MAILBOX, ReadinessReason.TEST_SERVER)


@dataclass(frozen=True, slots=True)
class ReadinessRemark:
    """One reason, what it means, and what to do; without advice there is nothing to do."""

    reason: ReadinessReason
    sentence: str
    advice: str | None


def readiness_text(found: SendingReadiness) -> str:
    """Say in one or two sentences whether email leaves, and if not, why."""
    parts = [_sentence(each, found) for each in _IN_HEADLINE if found.has(each)]
    if (local := _DESTINATIONS.get(found.destination)) is not None:
        # Before the reasons why nothing is sent, so that it is read first.
        at = sum(found.has(each) for each in (ReadinessReason.DEMO, ReadinessReason.DRY_RUN))
        parts.insert(at, local)
    return " ".join(parts) or gettext("Email leaves this machine through {provider}.", provider=found.provider)


def readiness_remarks(found: SendingReadiness) -> list[ReadinessRemark]:
    """Return everything that is missing, the most important reason first."""
    return [
        ReadinessRemark(each, _sentence(each, found), _ADVICE.get(each))
        for each in found.reasons
        if each is not ReadinessReason.DEMO
    ]


def consent_text(found: SendingReadiness) -> str:
    """Say how opens and clicks are tracked, and how many contacts consented if they were counted."""
    match found.tracking:
        case TrackingMode.OFF:
            return gettext("Opens and clicks are not tracked.")
        case TrackingMode.ANONYMOUS:
            return gettext("Opens and clicks are counted without names.")
    if found.consenting is None:
        return gettext("Opens and clicks of contacts who consented are tracked.")
    return ngettext(
        "Opens and clicks are tracked for {count} contact who consented.",
        "Opens and clicks are tracked for {count} contacts who consented.",
        found.consenting,
    )


def send_label(found: SendingReadiness, label: str, *, is_later: bool = False) -> str:
    """Return the label of a button that sends. If nobody receives the email, the label says so.

    The label of a button that schedules keeps its time.
    """
    match found.destination:
        case Destination.LOCAL_MAILBOX if is_later:
            return gettext("{label} (local mailbox, nobody receives it)", label=label)
        case Destination.TEST_SERVER if is_later:
            return gettext("{label} (test server, nobody receives it)", label=label)
        case Destination.LOCAL_MAILBOX:
            return gettext("Send to the local mailbox (nobody receives it)")
        case Destination.TEST_SERVER:
            return gettext("Send to the test server (nobody receives it)")
    return label


def sent_note(destination: Destination | None) -> str:
    """Return what happened to messages that were sent, below their number."""
    match destination:
        case Destination.LOCAL_MAILBOX:
            return gettext("stored in the local mailbox; nobody receives them")
        case Destination.TEST_SERVER:
            return gettext("collected by a test server; nobody receives them")
        case Destination.MIXED:
            return gettext("accepted by the provider, or stored where nobody receives them")
    return gettext("accepted by the provider")


def _sentence(reason: ReadinessReason, found: SendingReadiness) -> str:
    if reason in _OF_DESTINATION:
        return _DESTINATIONS[found.destination]
    problem = str(found.problem or "").rstrip(".")
    return _SENTENCES[reason].format(problem=problem, sender=found.sender, public_url=found.public_url)
