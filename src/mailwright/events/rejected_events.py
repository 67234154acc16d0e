"""Trust: why something that came from outside is not believed. It leaves no trace but one line in the log."""

from mailwright.domain.errors import MailwrightError


class EventRejected(MailwrightError):
    """This was not sent by whom it says."""

    code = "EVENT_REFUSED"


class MalformedEvent(EventRejected):
    """The body is not what this route takes."""

    code = "EVENT_MALFORMED"


class ForgedEvent(EventRejected):
    """The signature does not fit."""

    code = "EVENT_FORGED"


class StaleEvent(EventRejected):
    """The event was signed too long ago, or in the future."""

    code = "EVENT_STALE"


class TopicNotAllowed(EventRejected):
    """The event comes from a topic that is not in SNS_TOPIC_ARNS."""

    code = "EVENT_FOREIGN"


class WebhookNotConfigured(EventRejected):
    """This route is not set up."""

    code = "EVENTS_NOT_CONFIGURED"


class VerificationUnavailable(MailwrightError):
    """What is needed to check this event is out of reach. Send it again soon."""

    code = "EVENT_NOT_NOW"
