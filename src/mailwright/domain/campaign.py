"""Campaigns: their states, and what may be done in each."""

from enum import StrEnum


class CampaignStatus(StrEnum):
    DRAFT = "DRAFT"
    READY = "READY"  # started: its content is frozen and it has a place in line
    SENDING = "SENDING"  # its audience becomes messages, and they leave
    PAUSED = "PAUSED"  # keeps its place
    SENT = "SENT"
    CANCELLED = "CANCELLED"


class QueueStatus(StrEnum):
    """A campaign's place in line. PENDING with a reason is one that waits; the reason and its end stand beside it."""

    PENDING = "PENDING"
    PROCESSING = "PROCESSING"
    COMPLETED = "COMPLETED"


class CampaignAction(StrEnum):
    """What an operator does to a campaign; the word stands in the audit log."""

    START = "start"
    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"
    RETRY_FAILED = "retry_failed"
    ACCEPT_FAILURES = "accept_failures"
    EDIT = "edit"
    EDIT_LIMITS = "edit_limits"
    CHOOSE_WINNER = "choose_winner"
    EXTEND = "extend"
    TEST = "test"


ALLOWED_STATUSES = {
    CampaignAction.START: frozenset({CampaignStatus.DRAFT}),
    CampaignAction.EDIT: frozenset({CampaignStatus.DRAFT}),
    CampaignAction.PAUSE: frozenset({CampaignStatus.READY, CampaignStatus.SENDING}),
    CampaignAction.RESUME: frozenset({CampaignStatus.PAUSED}),
    CampaignAction.CANCEL: frozenset(set(CampaignStatus) - {CampaignStatus.SENT, CampaignStatus.CANCELLED}),
    CampaignAction.RETRY_FAILED: frozenset({CampaignStatus.SENDING}),
    CampaignAction.ACCEPT_FAILURES: frozenset({CampaignStatus.SENDING}),
    CampaignAction.EDIT_LIMITS: frozenset(set(CampaignStatus) - {CampaignStatus.SENT, CampaignStatus.CANCELLED}),
    CampaignAction.CHOOSE_WINNER: frozenset({CampaignStatus.SENDING, CampaignStatus.PAUSED}),
    CampaignAction.EXTEND: frozenset({CampaignStatus.SENDING, CampaignStatus.SENT}),
    CampaignAction.TEST: frozenset(CampaignStatus),
}

# Why a lane waits, in the words that people and scripts see. Policies have theirs beside their rules.
PAUSED = "paused"
SCHEDULED = "scheduled"
CANCELLED = "cancelled"
AWAITING_WINNER = "waits_for_winner"
# The end of a wait that only a person ends.
INDEFINITELY: int = 253_370_764_800_000
