"""Actions that a user can take on a message or a campaign. Each interface renders them in its own way."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from mailwright.domain.campaign import ALLOWED_STATUSES, CampaignAction, CampaignStatus
from mailwright.domain.lazy_dataclass import dataclass


class ActionKind(StrEnum):
    CANCEL = "cancel"
    RETRY = "retry"
    RESOLVE = "resolve"
    ACTIVATE = "activate"
    LIFT_SUPPRESSION = "lift_suppression"
    EXPLAIN_CAMPAIGN = "explain_campaign"
    PREFLIGHT_CAMPAIGN = "preflight_campaign"
    START_CAMPAIGN = "start_campaign"
    PAUSE_CAMPAIGN = "pause_campaign"
    RESUME_CAMPAIGN = "resume_campaign"
    RESUME_SEQUENCE = "resume_sequence"
    CANCEL_CAMPAIGN = "cancel_campaign"
    EDIT_LIMITS = "edit_limits"
    SEND_NOW = "send_now"
    CHOOSE_WINNER = "choose_winner"
    RETRY_FAILED = "retry_failed"
    ACCEPT_FAILURES = "accept_failures"
    FIND_DOUBTS = "find_doubts"
    ACCEPT_INCIDENTS = "accept_incidents"
    OPEN_WAVE = "open_wave"
    REQUEST_APPROVAL = "request_approval"
    SHOW_PLAN = "show_plan"


@dataclass(frozen=True, slots=True)
class Action:
    """An action with everything needed to perform it."""

    kind: ActionKind
    subject: str  # the id of the message or campaign, or the email address
    parameters: Mapping[str, Any] | None = None


_CAMPAIGN_ACTIONS: Mapping[ActionKind, CampaignAction] = {
    ActionKind.START_CAMPAIGN: CampaignAction.START,
    ActionKind.PAUSE_CAMPAIGN: CampaignAction.PAUSE,
    ActionKind.RESUME_CAMPAIGN: CampaignAction.RESUME,
    ActionKind.CANCEL_CAMPAIGN: CampaignAction.CANCEL,
    ActionKind.EDIT_LIMITS: CampaignAction.EDIT_LIMITS,
    ActionKind.SEND_NOW: CampaignAction.RESCHEDULE,
    ActionKind.CHOOSE_WINNER: CampaignAction.CHOOSE_WINNER,
    ActionKind.RETRY_FAILED: CampaignAction.RETRY_FAILED,
    ActionKind.ACCEPT_FAILURES: CampaignAction.ACCEPT_FAILURES,
    ActionKind.ACCEPT_INCIDENTS: CampaignAction.ACCEPT_INCIDENTS,
    ActionKind.OPEN_WAVE: CampaignAction.OPEN_WAVE,
    ActionKind.REQUEST_APPROVAL: CampaignAction.REQUEST_APPROVAL,
}


def campaign_actions(campaign_id: str, status: str, *kinds: ActionKind) -> tuple[Action, ...]:
    """Return the actions that the campaign's status allows."""
    return tuple(Action(kind, campaign_id) for kind in kinds if is_allowed(kind, status))


def is_allowed(kind: ActionKind, status: str) -> bool:
    action = _CAMPAIGN_ACTIONS.get(kind)
    return action is None or CampaignStatus(status) in ALLOWED_STATUSES[action]
