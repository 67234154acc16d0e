"""Mails that came back: what they say about which of our mails, and the mailboxes in which they lie."""

from mailwright.events.bounces.box import Arrival, Box, BoxUnavailable
from mailwright.events.bounces.boxes import open_box
from mailwright.events.bounces.letter import (
    Action,
    AutoReplied,
    Bounced,
    Complained,
    FeedbackType,
    Letter,
    Original,
    Recipient,
    Unreadable,
    Unrelated,
)
from mailwright.events.bounces.reading import read

__all__ = [
    "Action",
    "Arrival",
    "AutoReplied",
    "Bounced",
    "Box",
    "BoxUnavailable",
    "Complained",
    "FeedbackType",
    "Letter",
    "Original",
    "Recipient",
    "Unreadable",
    "Unrelated",
    "open_box",
    "read",
]
