"""Errors for inbound events that are rejected or cannot be verified now."""

from mailwright.domain.errors import MailwrightError


class EventRejected(MailwrightError):
    """The event was rejected."""

    code = "EVENT_REFUSED"


class MalformedEvent(EventRejected):
    """The body does not have the expected format."""

    code = "EVENT_MALFORMED"


class ForgedEvent(EventRejected):
    """The signature is invalid."""

    code = "EVENT_FORGED"


class StaleEvent(EventRejected):
    """The event was signed too long ago, or in the future."""

    code = "EVENT_STALE"


class TopicNotAllowed(EventRejected):
    """The event comes from a topic that is not in SNS_TOPIC_ARNS."""

    code = "EVENT_FOREIGN"


class WebhookNotConfigured(EventRejected):
    """This webhook is not configured."""

    code = "EVENTS_NOT_CONFIGURED"


class VerificationUnavailable(MailwrightError):
    """The event cannot be verified now. Send it again later."""

    code = "EVENT_NOT_NOW"
