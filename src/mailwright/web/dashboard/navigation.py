"""The navigation of the dashboard, in display order."""

from dataclasses import dataclass
from typing import Final

from mailwright.access.roles import Role


@dataclass(frozen=True, slots=True)
class NavItem:
    title: str
    path: str  # active for this path and every path below it
    icon: str  # a name of templates/icons.html
    group: str
    role: Role = Role.VIEWER

    def is_at(self, path: str) -> bool:
        return path == self.path or (path.startswith(f"{self.path.rstrip('/')}/") and self.path != "/")


NAVIGATION: Final = (
    NavItem("Overview", "/", "overview", ""),
    NavItem("Campaigns", "/campaigns", "campaigns", "Sending"),
    NavItem("Reports", "/reports", "chart", "Sending"),
    NavItem("Articles", "/articles", "articles", "Sending"),
    NavItem("Mailouts", "/mailouts", "mailouts", "Sending"),
    NavItem("Notifications", "/notifications", "notifications", "Sending"),
    NavItem("Templates", "/templates", "templates", "Sending"),
    NavItem("Messages", "/messages", "messages", "Delivery"),
    NavItem("Dead letters", "/dead-letters", "attention", "Delivery"),
    NavItem("Mailbox", "/mailbox", "mailbox", "Delivery"),
    NavItem("Contacts", "/contacts", "contacts", "Audience"),
    NavItem("Lists", "/lists", "lists", "Audience"),
    NavItem("Segments", "/segments", "segments", "Audience"),
    NavItem("Imports", "/imports", "imports", "Audience"),
    NavItem("Suppressions", "/suppressions", "suppressions", "Audience"),
    NavItem("Settings", "/settings", "settings", "Installation", Role.ADMIN),
)


def items_for(role: Role) -> list[NavItem]:
    return [item for item in NAVIGATION if role.allows(item.role)]
