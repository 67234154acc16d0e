"""Parse bounce emails, feedback reports and replies, and read the mailboxes that receive them."""

from mailwright.events.bounces.mailbox import BounceMailbox, MailboxEmail, MailboxUnavailable
from mailwright.events.bounces.mailbox_url import open_mailbox
from mailwright.events.bounces.model import (
    BouncedRecipient,
    BounceMail,
    BounceReport,
    DsnAction,
    FeedbackReport,
    OrdinaryEmail,
    OriginalMessage,
    UnreadableReport,
)
from mailwright.events.bounces.parse import parse_bounce_mail

__all__ = [
    "BounceMail",
    "BounceMailbox",
    "BounceReport",
    "BouncedRecipient",
    "DsnAction",
    "FeedbackReport",
    "MailboxEmail",
    "MailboxUnavailable",
    "OrdinaryEmail",
    "OriginalMessage",
    "UnreadableReport",
    "open_mailbox",
    "parse_bounce_mail",
]
