"""The navigation of the dashboard, in display order."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from mailwright.access.roles import Role
from mailwright.app.sections import Section


@dataclass(frozen=True, slots=True)
class NavItem:
    title: str
    path: str  # active for this path and every path below it
    icon: str  # a name of templates/icons.html
    group: str
    role: Role = Role.VIEWER
    section: Section | None = None  # shown only to tenants that use this section

    def is_at(self, path: str) -> bool:
        return path == self.path or (path.startswith(f"{self.path.rstrip('/')}/") and self.path != "/")


# Shown only to tenants that use approvals, with the number of campaigns that wait for the visitor.
APPROVALS: Final = "Approvals"
NAVIGATION: Final = (
    NavItem("Overview", "/", "overview", ""),
    NavItem("Campaigns", "/campaigns", "campaigns", "Sending"),
    NavItem(APPROVALS, "/approvals", "check", "Sending"),
    NavItem("Sequences", "/sequences", "sequences", "Sending", section=Section.SEQUENCES),
    NavItem("Reports", "/reports", "chart", "Sending"),
    NavItem("Articles", "/articles", "articles", "Sending", section=Section.ARTICLES),
    NavItem("Mailouts", "/mailouts", "mailouts", "Sending", section=Section.MAILOUTS),
    NavItem("Notifications", "/notifications", "notifications", "Sending", section=Section.NOTIFICATIONS),
    NavItem("Templates", "/templates", "templates", "Sending"),
    NavItem("Images", "/images", "images", "Sending"),
    NavItem("Messages", "/messages", "messages", "Delivery"),
    NavItem("Dead letters", "/dead-letters", "attention", "Delivery"),
    NavItem("Mailbox", "/mailbox", "mailbox", "Delivery"),
    NavItem("Contacts", "/contacts", "contacts", "Audience"),
    NavItem("Lists", "/lists", "lists", "Audience"),
    NavItem("Sign-up forms", "/forms", "pencil", "Audience"),
    NavItem("Segments", "/segments", "segments", "Audience"),
    NavItem("Events", "/events", "clock", "Audience"),
    NavItem("Imports", "/imports", "imports", "Audience"),
    NavItem("Suppressions", "/suppressions", "suppressions", "Audience"),
    NavItem("Settings", "/settings", "settings", "Installation", Role.ADMIN),
)


# What the search offers in addition to pages. `words` are other words that users type for it.
@dataclass(frozen=True, slots=True)
class Shortcut:
    title: str
    path: str
    icon: str = "plus"
    role: Role = Role.EDITOR
    words: str = ""


SHORTCUTS: Final = (
    Shortcut("New campaign", "/campaigns/new", words="create compose send newsletter email"),
    Shortcut("New sequence", "/sequences/~new", words="create series automation welcome drip journey"),
    Shortcut("New template", "/templates/~start", words="create"),
    Shortcut("Add contact", "/contacts/new", words="new create person recipient subscriber"),
    Shortcut("Import contacts", "/imports", "imports", words="upload csv excel file"),
    Shortcut("New list", "/lists/~new", words="create"),
    Shortcut("New segment", "/segments/new", words="create filter"),
    Shortcut("Suppress address", "/suppressions/~new", "suppressions", words="block unsubscribe add"),
    Shortcut("Unconfirmed messages", "/messages?status=IN_DOUBT", "question", Role.VIEWER, words="in doubt"),
    Shortcut("Failed messages", "/messages?status=FAILED", "cross", Role.VIEWER, words="error rejected"),
    Shortcut("Queued messages", "/messages?status=QUEUED", "clock", Role.VIEWER, words="waiting pending deferred"),
    Shortcut("Your account", "/account", "contacts", Role.VIEWER, words="password second factor sign-in profile"),
    Shortcut("Time zone", "/settings/limits", "clock", Role.ADMIN, words="timezone utc local time"),
    Shortcut("Manual", "/manual/", "question", Role.VIEWER, words="help documentation docs"),
)


def items_for(role: Role, sections: Collection[Section]) -> list[NavItem]:
    return [
        item for item in NAVIGATION if role.allows(item.role) and (item.section is None or item.section in sections)
    ]
