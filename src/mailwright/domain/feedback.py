"""What a feedback report means: a complaint, its opposite, an unsubscribe, or nothing about the recipient's opinion."""

import re
from enum import StrEnum

from mailwright.domain.report import ContactVerdict
from mailwright.domain.states import EventType


class FeedbackType(StrEnum):
    """The feedback types of RFC 5965 and its registry."""

    ABUSE = "abuse"
    FRAUD = "fraud"
    VIRUS = "virus"
    OTHER = "other"
    OPT_OUT = "opt-out"
    NOT_SPAM = "not-spam"
    AUTH_FAILURE = "auth-failure"

    @property
    def is_complaint(self) -> bool:
        """Whether the recipient reports the message as unwanted. False for opt-outs, not-spam and DMARC reports."""
        return self in (FeedbackType.ABUSE, FeedbackType.FRAUD, FeedbackType.VIRUS, FeedbackType.OTHER)

    @property
    def event(self) -> EventType | None:
        """The event of such a report; None for a failed authentication, which says nothing about the recipient."""
        if self.is_complaint:
            return EventType.COMPLAINED
        return {FeedbackType.OPT_OUT: EventType.UNSUBSCRIBED, FeedbackType.NOT_SPAM: EventType.NOT_SPAM}.get(self)

    @property
    def verdict(self) -> ContactVerdict:
        if self.is_complaint:
            return ContactVerdict.COMPLAINT
        return ContactVerdict.UNSUBSCRIBE if self is FeedbackType.OPT_OUT else ContactVerdict.NOTHING

    @property
    def kind(self) -> str:
        """The kind of the email, for logs, metrics and the `bounce` command."""
        return "complaint" if self.is_complaint else self.value.replace("-", "_")


# Feedback types of the IANA registry, their predecessors and common variants, all without separators, because
# services write these differently, also with quotes and comments. RFC 5965 treats unknown ones as `other`.
_TYPES = {
    "abuse": FeedbackType.ABUSE,
    "complaint": FeedbackType.ABUSE,
    "spam": FeedbackType.ABUSE,
    "fraud": FeedbackType.FRAUD,
    "phishing": FeedbackType.FRAUD,
    "virus": FeedbackType.VIRUS,
    "other": FeedbackType.OTHER,
    "optout": FeedbackType.OPT_OUT,
    "optoutlist": FeedbackType.OPT_OUT,
    "unsubscribe": FeedbackType.OPT_OUT,
    "notspam": FeedbackType.NOT_SPAM,
    "miscategorized": FeedbackType.NOT_SPAM,
    "authfailure": FeedbackType.AUTH_FAILURE,
    "dkim": FeedbackType.AUTH_FAILURE,
    "dmarc": FeedbackType.AUTH_FAILURE,
    "spf": FeedbackType.AUTH_FAILURE,
}
_COMMENTS_AND_SIGNS = re.compile(r"\(.*\)|[^a-z]")


def parse_feedback_type(stated: str) -> FeedbackType:
    return _TYPES.get(_COMMENTS_AND_SIGNS.sub("", stated.lower()), FeedbackType.OTHER)
