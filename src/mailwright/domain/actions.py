"""Deeds: what somebody can do about what waits or went wrong. Where each is done, every surface says for itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from mailwright.domain.campaign import POSSIBLE, Action, CampaignStatus


class Deed(StrEnum):
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
    CANCEL_CAMPAIGN = "cancel_campaign"
    EDIT_LIMITS = "edit_limits"
    CHOOSE_WINNER = "choose_winner"
    RETRY_FAILED = "retry_failed"
    ACCEPT_FAILURES = "accept_failures"
    FIND_DOUBTS = "find_doubts"


@dataclass(frozen=True, slots=True)
class Act:
    """One deed, ready to be done."""

    deed: Deed
    subject: str  # the id of the message or the campaign, or the address
    given: Mapping[str, Any] | None = None  # what is said with it


_ACTIONS: Mapping[Deed, Action] = {
    Deed.START_CAMPAIGN: Action.START,
    Deed.PAUSE_CAMPAIGN: Action.PAUSE,
    Deed.RESUME_CAMPAIGN: Action.RESUME,
    Deed.CANCEL_CAMPAIGN: Action.CANCEL,
    Deed.EDIT_LIMITS: Action.EDIT_LIMITS,
    Deed.CHOOSE_WINNER: Action.CHOOSE_WINNER,
    Deed.RETRY_FAILED: Action.RETRY_FAILED,
    Deed.ACCEPT_FAILURES: Action.ACCEPT_FAILURES,
}


def on_campaign(campaign_id: str, status: str, *deeds: Deed) -> tuple[Act, ...]:
    """Those of the deeds that are possible while the campaign stands so."""
    return tuple(Act(deed, campaign_id) for deed in deeds if is_possible(deed, status))


def is_possible(deed: Deed, status: str) -> bool:
    return deed not in _ACTIONS or CampaignStatus(status) in POSSIBLE[_ACTIONS[deed]]
