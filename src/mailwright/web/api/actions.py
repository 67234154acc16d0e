"""Actions as API requests, limited to those that the caller may perform."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from mailwright.access.api_keys import Caller
from mailwright.access.roles import Scope
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
    ActionKind.RESUME_SEQUENCE: ActionRoute("POST", "/v1/sequences/{subject}/resume"),
    ActionKind.CANCEL_CAMPAIGN: ActionRoute("POST", "/v1/campaigns/{subject}/cancel"),
    ActionKind.SEND_NOW: ActionRoute("PUT", "/v1/campaigns/{subject}/schedule"),
    ActionKind.EDIT_LIMITS: ActionRoute("PUT", "/v1/campaigns/{subject}/limits"),
    ActionKind.CHOOSE_WINNER: ActionRoute("POST", "/v1/campaigns/{subject}/winner"),
    ActionKind.RETRY_FAILED: ActionRoute("POST", "/v1/campaigns/{subject}/retry-failed"),
    ActionKind.ACCEPT_FAILURES: ActionRoute("POST", "/v1/campaigns/{subject}/accept-failures"),
    ActionKind.ACCEPT_INCIDENTS: ActionRoute("POST", "/v1/campaigns/{subject}/accept-incidents"),
    ActionKind.OPEN_WAVE: ActionRoute("POST", "/v1/campaigns/{subject}/open-wave"),
    ActionKind.REQUEST_APPROVAL: ActionRoute("POST", "/v1/campaigns/{subject}/plan"),
    ActionKind.SHOW_PLAN: ActionRoute("GET", "/v1/campaigns/{subject}/plan"),
    ActionKind.FIND_DOUBTS: ActionRoute("GET", "/v1/campaigns/{subject}/in-doubt"),
}


def action_requests(actions: Iterable[Action], caller: Caller) -> list[dict[str, Any]]:
    """Return the requests that the caller's scopes allow."""
    return [_request(action) for action in actions if caller.allows(_scope(ROUTES[action.kind]))]


def _scope(route: ActionRoute) -> Scope:
    return scope_of(route.method, route.path.partition("?")[0])


def _request(action: Action) -> dict[str, Any]:
    method, path = ROUTES[action.kind]
    return {
        "do": action.kind,
        "method": method,
        "path": path.format(subject=quote(action.subject, safe="@")),
        "body": action.parameters,
    }
