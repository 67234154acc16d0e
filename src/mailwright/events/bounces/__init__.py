"""Parse bounce emails, feedback reports and auto-replies, and read the mailboxes that receive them."""

from mailwright.events.bounces.mailbox import BounceMailbox, MailboxEmail, MailboxUnavailable
from mailwright.events.bounces.mailbox_url import open_mailbox
from mailwright.events.bounces.model import (
    AutoReply,
    BouncedRecipient,
    BounceMail,
    BounceReport,
    DsnAction,
    FeedbackReport,
    FeedbackType,
    OriginalMessage,
    UnreadableReport,
    UnrelatedEmail,
)
from mailwright.events.bounces.parse import parse_bounce_mail

__all__ = [
    "AutoReply",
    "BounceMail",
    "BounceMailbox",
    "BounceReport",
    "BouncedRecipient",
    "DsnAction",
    "FeedbackReport",
    "FeedbackType",
    "MailboxEmail",
    "MailboxUnavailable",
    "OriginalMessage",
    "UnreadableReport",
    "UnrelatedEmail",
    "open_mailbox",
    "parse_bounce_mail",
]
