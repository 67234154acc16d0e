"""Actions: where in the API each deed lies, and which of them a caller may do."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from mailwright.access.api_keys import Caller
from mailwright.domain.actions import Action, ActionKind
from mailwright.web.api.caller import scope_of


class ActionRoute(NamedTuple):
    method: str
    path: str


ROUTES: Mapping[ActionKind, ActionRoute] = {
    ActionKind.CANCEL: ActionRoute("POST", "/v1/email/{subject}/cancel"),
    ActionKind.RETRY: ActionRoute("POST", "/v1/email/{subject}/retry"),
    ActionKind.RESOLVE: ActionRoute("POST", "/v1/email/{subject}/resolve"),
    ActionKind.ACTIVATE: ActionRoute("POST", "/v1/contacts/{subject}/activate"),
    ActionKind.LIFT_SUPPRESSION: ActionRoute("DELETE", "/v1/suppressions/{subject}?listKey=*"),
    ActionKind.EXPLAIN_CAMPAIGN: ActionRoute("GET", "/v1/campaigns/{subject}/explain"),
    ActionKind.PREFLIGHT_CAMPAIGN: ActionRoute("POST", "/v1/campaigns/{subject}/preflight"),
    ActionKind.START_CAMPAIGN: ActionRoute("POST", "/v1/campaigns/{subject}/start"),
    ActionKind.PAUSE_CAMPAIGN: ActionRoute("POST", "/v1/campaigns/{subject}/pause"),
    ActionKind.RESUME_CAMPAIGN: ActionRoute("POST", "/v1/campaigns/{subject}/resume"),
    ActionKind.CANCEL_CAMPAIGN: ActionRoute("POST", "/v1/campaigns/{subject}/cancel"),
    ActionKind.EDIT_LIMITS: ActionRoute("PUT", "/v1/campaigns/{subject}/limits"),
    ActionKind.CHOOSE_WINNER: ActionRoute("POST", "/v1/campaigns/{subject}/winner"),
    ActionKind.RETRY_FAILED: ActionRoute("POST", "/v1/campaigns/{subject}/retry-failed"),
    ActionKind.ACCEPT_FAILURES: ActionRoute("POST", "/v1/campaigns/{subject}/accept-failures"),
    ActionKind.FIND_DOUBTS: ActionRoute("GET", "/v1/email?status=IN_DOUBT"),
}


def actions(acts: Iterable[Action], caller: Caller) -> list[dict[str, Any]]:
    """What this caller would be allowed to do; whoever may only look is offered nothing that changes anything."""
    found = [_action(act) for act in acts]
    return [each for each in found if scope_of(each["method"], each["path"].partition("?")[0]) in caller.scopes]


def _action(act: Action) -> dict[str, Any]:
    method, path = ROUTES[act.kind]
    return {
        "do": act.kind,
        "method": method,
        "path": path.format(subject=quote(act.subject, safe="@")),
        "body": act.parameters,
    }
