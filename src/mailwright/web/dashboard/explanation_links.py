"""Link the actions of an explanation to the dashboard pages where users perform them."""

from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import quote

from mailwright.domain.actions import ActionKind
from mailwright.domain.explanation import Explanation, LimitScope, Remedy
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import gettext, lazy_gettext


@dataclass(frozen=True, slots=True)
class ActionLink:
    label: str
    href: str
    role: str  # the lowest role that can perform the action


# Actions without an entry are buttons of the page that shows the explanation.
_LINKS: Final[Mapping[ActionKind, tuple[str, str, str]]] = {
    ActionKind.ACTIVATE: (lazy_gettext("Lift the suppression"), "/suppressions?q={}", "viewer"),
    ActionKind.LIFT_SUPPRESSION: (lazy_gettext("Lift the suppression"), "/suppressions?q={}", "viewer"),
    ActionKind.EXPLAIN_CAMPAIGN: (lazy_gettext("Open the campaign"), "/campaigns/{}", "viewer"),
    ActionKind.RESUME_CAMPAIGN: (lazy_gettext("Open the campaign"), "/campaigns/{}", "viewer"),
    ActionKind.RESUME_SEQUENCE: (lazy_gettext("Open the sequence"), "/sequences/{}", "viewer"),
    ActionKind.CANCEL_CAMPAIGN: (lazy_gettext("Open the campaign"), "/campaigns/{}", "viewer"),
    ActionKind.PAUSE_CAMPAIGN: (lazy_gettext("Open that campaign"), "/campaigns/{}", "viewer"),
    ActionKind.EDIT_LIMITS: (lazy_gettext("Change the limits"), "/campaigns/{}/content#limits", "editor"),
    ActionKind.REQUEST_APPROVAL: (lazy_gettext("Open the plan"), "/campaigns/{}/approval", "viewer"),
    ActionKind.SHOW_PLAN: (lazy_gettext("Open the plan"), "/campaigns/{}/approval", "viewer"),
    ActionKind.FIND_DOUBTS: (
        lazy_gettext("Show unconfirmed messages"),
        "/campaigns/{}/recipients?show=in_doubt",
        "viewer",
    ),
}


def action_links(explanation: Explanation, page: str = "") -> list[ActionLink]:
    """Return the links to other pages that help; `page` is the path of the page that shows them."""
    return [link for link in _links(explanation) if not f"{page}/".startswith(f"{link.href}/")]


def _links(explanation: Explanation) -> Iterator[ActionLink]:
    for action in explanation.actions:
        if action.kind in _LINKS:
            label, path, role = _LINKS[action.kind]
            yield ActionLink(label, path.format(quote(action.subject, safe="")), role)
    limit = explanation.limit
    is_general = limit is not None and limit.scope in (LimitScope.TENANT, LimitScope.INSTALLATION)
    if explanation.remedy is Remedy.CHANGE_LIMIT and is_general:
        yield ActionLink(gettext("Change the limits"), "/settings/limits", "admin")
    if explanation.remedy is Remedy.RELEASE_SENDING:
        yield ActionLink(gettext("Go to Home"), "/", "viewer")
