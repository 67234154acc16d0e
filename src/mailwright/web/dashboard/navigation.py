"""Navigation: the places of the dashboard, in the order and the groups in which people look for them."""

from dataclasses import dataclass
from typing import Final

from mailwright.access.roles import Role


@dataclass(frozen=True, slots=True)
class Place:
    title: str
    path: str  # its pages are this path and all below it
    icon: str  # a name of templates/icons.html
    group: str
    role: Role = Role.VIEWER

    def is_at(self, path: str) -> bool:
        return path == self.path or (path.startswith(f"{self.path.rstrip('/')}/") and self.path != "/")


# A page that is not built yet has no line here: nothing in the navigation leads nowhere.
PLACES: Final = (
    Place("Overview", "/", "overview", ""),
    Place("Campaigns", "/campaigns", "campaigns", "Sending"),
    Place("Articles", "/articles", "articles", "Sending"),
    Place("Mailouts", "/mailouts", "mailouts", "Sending"),
    Place("Notifications", "/notifications", "notifications", "Sending"),
    Place("Templates", "/templates", "templates", "Sending"),
    Place("Messages", "/messages", "messages", "Mail"),
    Place("Dead letters", "/dead-letters", "attention", "Mail"),
    Place("Mailbox", "/mailbox", "mailbox", "Mail"),
    Place("Contacts", "/contacts", "contacts", "Audience"),
    Place("Lists", "/lists", "lists", "Audience"),
    Place("Segments", "/segments", "segments", "Audience"),
    Place("Imports", "/imports", "imports", "Audience"),
    Place("Suppressions", "/suppressions", "suppressions", "Audience"),
    Place("Settings", "/settings", "settings", "Installation", Role.ADMIN),
)


def link(to: str) -> str | None:
    """The address itself, if there is a page under it: what a page cannot lead to yet, it does not lead to."""
    path = to.partition("?")[0].partition("#")[0]
    return to if any(place.is_at(path) for place in PLACES) else None


def places_for(role: Role) -> list[Place]:
    return [place for place in PLACES if role.allows(place.role)]
