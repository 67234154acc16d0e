"""Trust: why something that came from outside is not believed. It leaves no trace but one line in the log."""

from mailwright.domain.errors import MailwrightError


class EventRefused(MailwrightError):
    """This was not sent by whom it says."""

    code = "EVENT_REFUSED"


class Malformed(EventRefused):
    """The body is not what this route takes."""

    code = "EVENT_MALFORMED"


class Forged(EventRefused):
    """The signature does not fit."""

    code = "EVENT_FORGED"


class Stale(EventRefused):
    """The event was signed too long ago, or in the future."""

    code = "EVENT_STALE"


class Foreign(EventRefused):
    """The event comes from a topic that is not in SNS_TOPIC_ARNS."""

    code = "EVENT_FOREIGN"


class NotConfigured(EventRefused):
    """This route is not set up."""

    code = "EVENTS_NOT_CONFIGURED"


class NotNow(MailwrightError):
    """What is needed to check this event is out of reach. Send it again soon."""

    code = "EVENT_NOT_NOW"
