"""What an explanation suggests to do next: requests, limited to the caller's scopes, and commands."""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from mailwright.access.api_keys import Caller
from mailwright.access.roles import Scope
from mailwright.actions.declaration import MANAGE, READ
from mailwright.domain.actions import Action, ActionKind
from mailwright.domain.explanation import (
    CampaignExplanation,
    Explanation,
    LimitScope,
    MessageExplanation,
    ReachedLimit,
    Remedy,
)
from mailwright.outbox.tenants import DEFAULT


class Suggestion(NamedTuple):
    """The request and the command of an action. Tests compare `scope` with the permission of the route."""

    method: str
    path: str
    command: str
    scope: Scope = MANAGE


_EMAIL: Final = "/v1/email/{subject}"
_CAMPAIGN: Final = "/v1/campaigns/{subject}"
SUGGESTIONS: Final[Mapping[ActionKind, Suggestion]] = {
    ActionKind.CANCEL: Suggestion("POST", f"{_EMAIL}/cancel", "message cancel {subject}"),
    ActionKind.RETRY: Suggestion("POST", f"{_EMAIL}/retry", "message retry {subject}"),
    ActionKind.RESOLVE: Suggestion("POST", f"{_EMAIL}/resolve", "message resolve {subject} --as {as}"),
    ActionKind.ACTIVATE: Suggestion("POST", "/v1/contacts/{subject}/activate", "contact activate {subject}"),
    ActionKind.LIFT_SUPPRESSION: Suggestion(
        "DELETE", "/v1/suppressions/{subject}?listKey=*", "suppression delete {subject}"
    ),
    ActionKind.EXPLAIN_CAMPAIGN: Suggestion("GET", f"{_CAMPAIGN}/explain", "campaign explain {subject}", READ),
    ActionKind.PREFLIGHT_CAMPAIGN: Suggestion(
        "POST", f"{_CAMPAIGN}/preflight", "campaign check {subject}", Scope.PROPOSE
    ),
    ActionKind.START_CAMPAIGN: Suggestion("POST", f"{_CAMPAIGN}/start", "campaign start {subject}"),
    ActionKind.PAUSE_CAMPAIGN: Suggestion("POST", f"{_CAMPAIGN}/pause", "campaign pause {subject}"),
    ActionKind.RESUME_CAMPAIGN: Suggestion("POST", f"{_CAMPAIGN}/resume", "campaign resume {subject}"),
    ActionKind.RESUME_SEQUENCE: Suggestion(
        "POST", "/v1/sequences/{subject}/resume", "sequence resume {subject} --overdue {overdue}"
    ),
    ActionKind.CANCEL_CAMPAIGN: Suggestion("POST", f"{_CAMPAIGN}/cancel", "campaign cancel {subject}"),
    ActionKind.SEND_NOW: Suggestion("PUT", f"{_CAMPAIGN}/schedule", "campaign reschedule {subject} now"),
    ActionKind.EDIT_LIMITS: Suggestion("PUT", f"{_CAMPAIGN}/limits", "campaign limits {subject}"),
    ActionKind.CHOOSE_WINNER: Suggestion("POST", f"{_CAMPAIGN}/winner", "campaign winner {subject} {version}"),
    ActionKind.RETRY_FAILED: Suggestion("POST", f"{_CAMPAIGN}/retry-failed", "campaign retry-failed {subject}"),
    ActionKind.ACCEPT_FAILURES: Suggestion(
        "POST", f"{_CAMPAIGN}/accept-failures", "campaign accept-failures {subject}"
    ),
    ActionKind.ACCEPT_INCIDENTS: Suggestion(
        "POST", f"{_CAMPAIGN}/accept-incidents", "campaign accept-incidents {subject}"
    ),
    ActionKind.OPEN_WAVE: Suggestion("POST", f"{_CAMPAIGN}/open-wave", "campaign open-wave {subject}"),
    ActionKind.REQUEST_APPROVAL: Suggestion(
        "POST", f"{_CAMPAIGN}/plan", "campaign request-approval {subject}", Scope.PROPOSE
    ),
    ActionKind.SHOW_PLAN: Suggestion("GET", f"{_CAMPAIGN}/plan", "campaign plan {subject}", READ),
    ActionKind.FIND_DOUBTS: Suggestion("GET", f"{_CAMPAIGN}/in-doubt", "campaign in-doubt list {subject}", READ),
}
# The option of `tenant edit` that changes each limit, then the options of `campaign limits` that differ.
_LIMIT_OPTIONS: Final[Mapping[str, str]] = {
    "rate_per_hour": "--rate-per-hour N",
    "daily_limit": "--daily-limit N",
    "outside_hours": "--working-hours 00:00-24:00",
    "warmup": "--warmup-since none",
    "max_in_flight": "--max-in-flight N",
}
_CEILINGS: Final[Mapping[str, str]] = {
    "rate_per_hour": "MAILWRIGHT_RATE_PER_HOUR",
    "daily_limit": "MAILWRIGHT_DAILY_LIMIT",
}
_CAMPAIGN_LIMIT_OPTIONS: Final[Mapping[str, str]] = {
    **_LIMIT_OPTIONS,
    "outside_hours": "--working-hours none",
    "warmup": "--no-warmup",
}
# Commands for remedies that are not actions of the API.
_OTHER_COMMANDS: Final[Mapping[Remedy, str]] = {
    Remedy.START_WORKER: "worker",
    Remedy.ADD_WORKERS: "worker",
    Remedy.PROVIDER_RECOVERY: "check",
    Remedy.MORE_QUOTA: "quota --sync",
    Remedy.RELEASE_SENDING: "quarantine list",
}


def action_requests(actions: Iterable[Action], caller: Caller) -> list[dict[str, Any]]:
    """Return the requests that the caller's scopes allow."""
    return [_request(action) for action in actions if caller.allows(SUGGESTIONS[action.kind].scope)]


def commands(explanation: MessageExplanation | CampaignExplanation) -> list[str]:
    """Return the commands that help, in the order in which to run them."""
    return [f"mailwright {command}" for command in _commands(explanation)]


def _request(action: Action) -> dict[str, Any]:
    suggestion = SUGGESTIONS[action.kind]
    return {
        "do": action.kind,
        "method": suggestion.method,
        "path": suggestion.path.format(subject=quote(action.subject, safe="@")),
        "body": action.parameters,
    }


def _commands(explanation: MessageExplanation | CampaignExplanation) -> Iterator[str]:
    remedy = explanation.remedy
    if remedy is not None and remedy in _OTHER_COMMANDS:
        yield _OTHER_COMMANDS[remedy]
    if isinstance(explanation, MessageExplanation) and explanation.route_to is not None:
        yield f"provider route {explanation.route_to} --tenant {shlex.quote(explanation.tenant)}"
    if remedy is Remedy.CHANGE_LIMIT and explanation.limit is not None:
        yield from _change_limit(explanation, explanation.limit)
    for action in explanation.actions:
        yield _command(explanation, action)
    match explanation:
        case MessageExplanation(remedy=Remedy.OTHER_ADDRESS | Remedy.ACTIVATE_AND_RETRY):
            if all(action.kind is not ActionKind.RETRY for action in explanation.actions):
                yield f"message retry {explanation.outbox_id}"
        case CampaignExplanation(remedy=Remedy.START_CAMPAIGN):
            if all(action.kind is not ActionKind.START_CAMPAIGN for action in explanation.actions):
                yield f"campaign start {explanation.campaign_id}"
        case CampaignExplanation(remedy=Remedy.RESCHEDULE_CAMPAIGN | Remedy.SEND_OR_RESCHEDULE):
            yield f"campaign reschedule {explanation.campaign_id} TIME"
        case CampaignExplanation(remedy=Remedy.PAUSE_AND_RESUME):
            yield f"campaign resume {explanation.campaign_id}"


def _change_limit(explanation: Explanation, limit: ReachedLimit) -> Iterator[str]:
    """Yield the command that changes the limit. The explanation's actions cover a campaign's own limit."""
    option = _LIMIT_OPTIONS.get(limit.name)
    if limit.scope is LimitScope.INSTALLATION and limit.name in _CEILINGS:  # A tenant's own limit cannot be higher.
        yield f"setting set {_CEILINGS[limit.name]} N"
    elif option is not None and limit.scope in (LimitScope.TENANT, LimitScope.INSTALLATION):
        yield f"tenant edit {shlex.quote(str(limit.owner))} {option}"


def _command(explanation: MessageExplanation | CampaignExplanation, action: Action) -> str:
    kind = action.kind
    if kind is ActionKind.LIFT_SUPPRESSION and isinstance(explanation, MessageExplanation):
        # `contact activate` lifts the suppression of a known contact and restores its status.
        kind = ActionKind.LIFT_SUPPRESSION if explanation.contact_status is None else ActionKind.ACTIVATE
    values = {name: shlex.quote(str(value)) for name, value in (action.parameters or {}).items()}
    command = SUGGESTIONS[kind].command.format(subject=shlex.quote(action.subject), **values)
    if kind is ActionKind.EDIT_LIMITS and explanation.limit is not None:
        command = f"{command} {_CAMPAIGN_LIMIT_OPTIONS.get(explanation.limit.name, '')}".rstrip()
    is_about_address = kind in (ActionKind.ACTIVATE, ActionKind.LIFT_SUPPRESSION)
    return f"{command} --tenant {explanation.tenant}" if is_about_address and explanation.tenant != DEFAULT else command
