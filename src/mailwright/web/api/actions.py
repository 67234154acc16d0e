"""Actions: where in the API each deed lies, and which of them a caller may do."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from mailwright.access.keys import Caller
from mailwright.domain.actions import Act, Deed
from mailwright.web.api.caller import scope_of


class Place(NamedTuple):
    method: str
    path: str


PLACES: Mapping[Deed, Place] = {
    Deed.CANCEL: Place("POST", "/v1/email/{subject}/cancel"),
    Deed.RETRY: Place("POST", "/v1/email/{subject}/retry"),
    Deed.RESOLVE: Place("POST", "/v1/email/{subject}/resolve"),
    Deed.ACTIVATE: Place("POST", "/v1/contacts/{subject}/activate"),
    Deed.LIFT_SUPPRESSION: Place("DELETE", "/v1/suppressions/{subject}?listKey=*"),
    Deed.EXPLAIN_CAMPAIGN: Place("GET", "/v1/campaigns/{subject}/explain"),
    Deed.PREFLIGHT_CAMPAIGN: Place("POST", "/v1/campaigns/{subject}/preflight"),
    Deed.START_CAMPAIGN: Place("POST", "/v1/campaigns/{subject}/start"),
    Deed.PAUSE_CAMPAIGN: Place("POST", "/v1/campaigns/{subject}/pause"),
    Deed.RESUME_CAMPAIGN: Place("POST", "/v1/campaigns/{subject}/resume"),
    Deed.CANCEL_CAMPAIGN: Place("POST", "/v1/campaigns/{subject}/cancel"),
    Deed.EDIT_LIMITS: Place("PUT", "/v1/campaigns/{subject}/limits"),
    Deed.CHOOSE_WINNER: Place("POST", "/v1/campaigns/{subject}/winner"),
    Deed.RETRY_FAILED: Place("POST", "/v1/campaigns/{subject}/retry-failed"),
    Deed.ACCEPT_FAILURES: Place("POST", "/v1/campaigns/{subject}/accept-failures"),
    Deed.FIND_DOUBTS: Place("GET", "/v1/email?status=IN_DOUBT"),
}


def actions(acts: Iterable[Act], caller: Caller) -> list[dict[str, Any]]:
    """What this caller would be allowed to do; whoever may only look is offered nothing that changes anything."""
    found = [_action(act) for act in acts]
    return [each for each in found if scope_of(each["method"], each["path"].partition("?")[0]) in caller.scopes]


def _action(act: Act) -> dict[str, Any]:
    method, path = PLACES[act.deed]
    return {
        "do": act.deed,
        "method": method,
        "path": path.format(subject=quote(act.subject, safe="@")),
        "body": act.given,
    }
