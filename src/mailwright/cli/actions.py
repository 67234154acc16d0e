"""The CLI commands that perform the actions which an explanation suggests."""

import shlex
from collections.abc import Iterator, Mapping
from typing import Final

from rich.text import Text

from mailwright.cli.output import out
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
from mailwright.texts.explanations import ExplanationText

_COMMANDS: Final[Mapping[ActionKind, str]] = {
    ActionKind.CANCEL: "message cancel {subject}",
    ActionKind.RETRY: "message retry {subject}",
    ActionKind.RESOLVE: "message resolve {subject} --as {as}",
    ActionKind.ACTIVATE: "contact activate {subject}",
    ActionKind.LIFT_SUPPRESSION: "suppression delete {subject}",
    ActionKind.EXPLAIN_CAMPAIGN: "campaign explain {subject}",
    ActionKind.PREFLIGHT_CAMPAIGN: "campaign check {subject}",
    ActionKind.START_CAMPAIGN: "campaign start {subject}",
    ActionKind.PAUSE_CAMPAIGN: "campaign pause {subject}",
    ActionKind.RESUME_CAMPAIGN: "campaign resume {subject}",
    ActionKind.RESUME_SEQUENCE: "sequence resume {subject} --overdue {overdue}",
    ActionKind.CANCEL_CAMPAIGN: "campaign cancel {subject}",
    ActionKind.EDIT_LIMITS: "campaign limits {subject}",
    ActionKind.SEND_NOW: "campaign reschedule {subject} now",
    ActionKind.CHOOSE_WINNER: "campaign winner {subject} {version}",
    ActionKind.RETRY_FAILED: "campaign retry-failed {subject}",
    ActionKind.ACCEPT_FAILURES: "campaign accept-failures {subject}",
    ActionKind.ACCEPT_INCIDENTS: "campaign accept-incidents {subject}",
    ActionKind.OPEN_WAVE: "campaign open-wave {subject}",
    ActionKind.REQUEST_APPROVAL: "campaign request-approval {subject}",
    ActionKind.SHOW_PLAN: "campaign plan {subject}",
    ActionKind.FIND_DOUBTS: "campaign in-doubt list {subject}",
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


def commands(explanation: MessageExplanation | CampaignExplanation) -> list[str]:
    """Return the commands that help, in the order in which to run them."""
    return [f"mailwright {command}" for command in _commands(explanation)]


def print_explanation(text: ExplanationText, helpful: list[str]) -> None:
    out.print(Text(text.sentence, style="bold"))
    if text.what_would_change:
        out.print(Text(f"What you can do: {text.what_would_change}"))
    for command in helpful:
        out.print(Text(f"  {command}", style="cyan"), soft_wrap=True)
    if text.then:
        out.print(Text(f"Forecast: {text.then}"))


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
    command = _COMMANDS[kind].format(subject=shlex.quote(action.subject), **values)
    if kind is ActionKind.EDIT_LIMITS and explanation.limit is not None:
        command = f"{command} {_CAMPAIGN_LIMIT_OPTIONS.get(explanation.limit.name, '')}".rstrip()
    is_about_address = kind in (ActionKind.ACTIVATE, ActionKind.LIFT_SUPPRESSION)
    return f"{command} --tenant {explanation.tenant}" if is_about_address and explanation.tenant != DEFAULT else command
