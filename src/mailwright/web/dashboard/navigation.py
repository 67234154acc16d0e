"""The navigation of the dashboard, in display order."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from mailwright.access.roles import Role
from mailwright.app.sections import Section
from mailwright.domain.translation import lazy_gettext


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
APPROVALS: Final = lazy_gettext("Approvals")
NAVIGATION: Final = (
    NavItem(lazy_gettext("Overview"), "/", "overview", ""),
    NavItem(lazy_gettext("Campaigns"), "/campaigns", "campaigns", lazy_gettext("Sending")),
    NavItem(APPROVALS, "/approvals", "check", lazy_gettext("Sending")),
    NavItem(lazy_gettext("Sequences"), "/sequences", "sequences", lazy_gettext("Sending")),
    NavItem(lazy_gettext("Reports"), "/reports", "chart", lazy_gettext("Sending")),
    NavItem(lazy_gettext("Articles"), "/articles", "articles", lazy_gettext("Sending"), section=Section.ARTICLES),
    NavItem(lazy_gettext("Mailouts"), "/mailouts", "mailouts", lazy_gettext("Sending"), section=Section.MAILOUTS),
    NavItem(
        lazy_gettext("Notifications"),
        "/notifications",
        "notifications",
        lazy_gettext("Sending"),
        section=Section.NOTIFICATIONS,
    ),
    NavItem(lazy_gettext("Templates"), "/templates", "templates", lazy_gettext("Sending")),
    NavItem(lazy_gettext("Images"), "/images", "images", lazy_gettext("Sending")),
    NavItem(lazy_gettext("Messages"), "/messages", "messages", lazy_gettext("Delivery")),
    NavItem(lazy_gettext("Dead letters"), "/dead-letters", "attention", lazy_gettext("Delivery")),
    NavItem(lazy_gettext("Mailbox"), "/mailbox", "mailbox", lazy_gettext("Delivery")),
    NavItem(lazy_gettext("Contacts"), "/contacts", "contacts", lazy_gettext("Audience")),
    NavItem(lazy_gettext("Lists"), "/lists", "lists", lazy_gettext("Audience")),
    NavItem(lazy_gettext("Sign-up forms"), "/forms", "pencil", lazy_gettext("Audience")),
    NavItem(lazy_gettext("Segments"), "/segments", "segments", lazy_gettext("Audience")),
    NavItem(lazy_gettext("Events"), "/events", "clock", lazy_gettext("Audience")),
    NavItem(lazy_gettext("Imports"), "/imports", "imports", lazy_gettext("Audience")),
    NavItem(lazy_gettext("Suppressions"), "/suppressions", "suppressions", lazy_gettext("Audience")),
    NavItem(lazy_gettext("Settings"), "/settings", "settings", lazy_gettext("Installation"), Role.ADMIN),
)


# Actions that the search offers in addition to pages. `words` are other words that users may type.
@dataclass(frozen=True, slots=True)
class Shortcut:
    title: str
    path: str
    icon: str = "plus"
    role: Role = Role.EDITOR
    words: str = ""


SHORTCUTS: Final = (
    Shortcut(lazy_gettext("New campaign"), "/campaigns/new", words="create compose send newsletter email"),
    Shortcut(lazy_gettext("New sequence"), "/sequences/~new", words="create series automation welcome drip journey"),
    Shortcut(lazy_gettext("New template"), "/templates/~start", words="create"),
    Shortcut(lazy_gettext("Add contact"), "/contacts/new", words="new create person recipient subscriber"),
    Shortcut(lazy_gettext("Import contacts"), "/imports", "imports", words="upload csv excel file"),
    Shortcut(lazy_gettext("New list"), "/lists/~new", words="create"),
    Shortcut(lazy_gettext("New segment"), "/segments/new", words="create filter"),
    Shortcut(lazy_gettext("Suppress address"), "/suppressions/~new", "suppressions", words="block unsubscribe add"),
    Shortcut(
        lazy_gettext("Unconfirmed messages"), "/messages?status=IN_DOUBT", "question", Role.VIEWER, words="in doubt"
    ),
    Shortcut(lazy_gettext("Failed messages"), "/messages?status=FAILED", "cross", Role.VIEWER, words="error rejected"),
    Shortcut(
        lazy_gettext("Queued messages"),
        "/messages?status=QUEUED",
        "clock",
        Role.VIEWER,
        words="waiting pending deferred",
    ),
    Shortcut(
        lazy_gettext("Your account"),
        "/account",
        "contacts",
        Role.VIEWER,
        words="password second factor sign-in profile",
    ),
    Shortcut(lazy_gettext("Time zone"), "/settings/limits", "clock", Role.ADMIN, words="timezone utc local time"),
    Shortcut(lazy_gettext("Manual"), "/manual/", "question", Role.VIEWER, words="help documentation docs"),
)


def items_for(role: Role, sections: Collection[Section]) -> list[NavItem]:
    return [
        item for item in NAVIGATION if role.allows(item.role) and (item.section is None or item.section in sections)
    ]
