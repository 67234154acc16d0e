"""The statuses of campaigns, and the actions that each allows."""

from enum import StrEnum


class CampaignStatus(StrEnum):
    DRAFT = "DRAFT"
    READY = "READY"  # started: the content is frozen and the campaign is queued
    SENDING = "SENDING"  # its messages are being created and sent
    PAUSED = "PAUSED"  # keeps its position in the queue
    SENT = "SENT"
    CANCELLED = "CANCELLED"


class QueueStatus(StrEnum):
    """The status of a queue entry.

    PENDING until its first message begins and while it is deferred, then with a reason; PROCESSING in between.
    """

    PENDING = "PENDING"
    PROCESSING = "PROCESSING"
    COMPLETED = "COMPLETED"


class CampaignAction(StrEnum):
    """The actions of an operator on a campaign. The values appear in the audit log."""

    START = "start"
    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"
    RETRY_FAILED = "retry_failed"
    ACCEPT_FAILURES = "accept_failures"
    RESOLVE_IN_DOUBT = "resolve_in_doubt"
    EDIT = "edit"
    ATTACH = "attach"
    DETACH = "detach"
    EDIT_LIMITS = "edit_limits"
    CHOOSE_WINNER = "choose_winner"
    EXTEND = "extend"
    RESCHEDULE = "reschedule"
    SEND_NOW = "send_now"
    MOVE = "move"
    TEST = "test"
    OVERRIDE_RULES = "override_sender_rules"
    ACCEPT_INCIDENTS = "accept_incidents"
    OPEN_WAVE = "open_wave"
    RESEND = "resend"
    REPEAT = "repeat"
    STOP_REPEAT = "stop_repeat"
    PAUSE_REPEAT = "pause_repeat"
    SKIP_REPEAT = "skip_repeat"
    WITHDRAW = "withdraw"
    ARCHIVE = "archive"
    DELETE = "delete"
    RESTORE = "restore"
    REQUEST_APPROVAL = "request_approval"
    WITHDRAW_REQUEST = "withdraw_approval_request"
    APPROVE = "approve"
    REJECT = "reject"


ALLOWED_STATUSES = {
    CampaignAction.START: frozenset({CampaignStatus.DRAFT}),
    CampaignAction.EDIT: frozenset({CampaignStatus.DRAFT}),
    CampaignAction.ATTACH: frozenset({CampaignStatus.DRAFT}),
    CampaignAction.DETACH: frozenset({CampaignStatus.DRAFT}),
    CampaignAction.PAUSE: frozenset({CampaignStatus.READY, CampaignStatus.SENDING}),
    CampaignAction.RESUME: frozenset({CampaignStatus.PAUSED}),
    CampaignAction.CANCEL: frozenset(set(CampaignStatus) - {CampaignStatus.SENT, CampaignStatus.CANCELLED}),
    CampaignAction.RETRY_FAILED: frozenset({CampaignStatus.SENDING}),
    CampaignAction.ACCEPT_FAILURES: frozenset({CampaignStatus.SENDING}),
    CampaignAction.RESOLVE_IN_DOUBT: frozenset(set(CampaignStatus) - {CampaignStatus.DRAFT}),
    CampaignAction.EDIT_LIMITS: frozenset(set(CampaignStatus) - {CampaignStatus.SENT, CampaignStatus.CANCELLED}),
    CampaignAction.CHOOSE_WINNER: frozenset({CampaignStatus.SENDING, CampaignStatus.PAUSED}),
    CampaignAction.EXTEND: frozenset({CampaignStatus.SENDING, CampaignStatus.SENT}),
    CampaignAction.RESCHEDULE: frozenset({CampaignStatus.DRAFT, CampaignStatus.READY, CampaignStatus.PAUSED}),
    CampaignAction.SEND_NOW: frozenset({CampaignStatus.READY}),
    CampaignAction.MOVE: frozenset({CampaignStatus.READY, CampaignStatus.SENDING, CampaignStatus.PAUSED}),
    CampaignAction.TEST: frozenset(CampaignStatus),
    CampaignAction.OVERRIDE_RULES: frozenset({CampaignStatus.READY, CampaignStatus.SENDING, CampaignStatus.PAUSED}),
    CampaignAction.ACCEPT_INCIDENTS: frozenset({CampaignStatus.READY, CampaignStatus.SENDING}),
    CampaignAction.OPEN_WAVE: frozenset({CampaignStatus.SENDING}),
    CampaignAction.RESEND: frozenset({CampaignStatus.SENT}),
    CampaignAction.REPEAT: frozenset({CampaignStatus.DRAFT}),
    CampaignAction.STOP_REPEAT: frozenset(CampaignStatus),
    CampaignAction.PAUSE_REPEAT: frozenset({CampaignStatus.DRAFT}),
    CampaignAction.SKIP_REPEAT: frozenset({CampaignStatus.DRAFT}),
    CampaignAction.WITHDRAW: frozenset({CampaignStatus.READY, CampaignStatus.PAUSED}),
    CampaignAction.ARCHIVE: frozenset({CampaignStatus.DRAFT, CampaignStatus.SENT, CampaignStatus.CANCELLED}),
    CampaignAction.DELETE: frozenset({CampaignStatus.DRAFT, CampaignStatus.CANCELLED}),
    CampaignAction.RESTORE: frozenset(CampaignStatus),
    CampaignAction.REQUEST_APPROVAL: frozenset(set(CampaignStatus) - {CampaignStatus.CANCELLED}),
    CampaignAction.WITHDRAW_REQUEST: frozenset(CampaignStatus),
    CampaignAction.APPROVE: frozenset(set(CampaignStatus) - {CampaignStatus.CANCELLED}),
    CampaignAction.REJECT: frozenset(CampaignStatus),
}

# Reason codes of lane deferrals. The policies define further codes.
PAUSED = "paused"
SCHEDULED = "scheduled"
SCHEDULE_OVERDUE = "schedule_overdue"
CANCELLED = "cancelled"
AWAITING_WINNER = "waits_for_winner"
# The results of an A/B test are not conclusive; a user must choose the winner.
UNDECIDED = "ab_test_undecided"
SENDER_RULES = "sender_rules"  # the rules of the large mailbox providers are not met
GUARD_RAILS = "guard_rails"  # too many hard bounces or complaints
NEXT_WAVE = "next_wave"  # the bounces and complaints of the last wave are observed before the next one
AWAITS_APPROVAL = "awaits_approval"  # a second person must approve what is sent
ENQUEUE_FAILED = "enqueue_failed"  # creating its messages failed; tried again after a while
# Reason codes of campaigns in the queue that nothing defers.
QUEUED = "queued"  # the tenant's campaigns before it are sent first
NO_WORKER = "no_worker"  # no worker is running
# Deferral reasons that are not limits. A changed limit does not end these deferrals.
NON_LIMIT_REASONS = (
    PAUSED,
    SCHEDULED,
    SCHEDULE_OVERDUE,
    CANCELLED,
    AWAITING_WINNER,
    UNDECIDED,
    SENDER_RULES,
    GUARD_RAILS,
    NEXT_WAVE,
    AWAITS_APPROVAL,
    ENQUEUE_FAILED,
)
# The end of a deferral that lasts until a user ends it.
INDEFINITELY: int = 253_370_764_800_000
