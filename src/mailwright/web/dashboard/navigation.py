"""The navigation of the dashboard, in display order."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from mailwright.access.roles import Role
from mailwright.app.sections import Section
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import lazy_gettext


@dataclass(frozen=True, slots=True)
class NavPage:
    """A page of the dashboard, active for its path and every path below it."""

    title: str
    path: str
    icon: str  # a name of templates/icons.html
    role: Role = Role.VIEWER
    section: Section | None = None  # shown only to tenants that use this section

    def is_at(self, path: str) -> bool:
        return path == self.path or (path.startswith(f"{self.path.rstrip('/')}/") and self.path != "/")


@dataclass(frozen=True, slots=True)
class NavItem:
    """An entry of the navigation. Its pages are shown below it while one of them is open."""

    title: str
    icon: str
    pages: tuple[NavPage, ...]

    @property
    def path(self) -> str:
        return self.pages[0].path

    def page_at(self, path: str) -> NavPage | None:
        """Return the open page, or None if this entry is not the current one."""
        found = [page for page in self.pages if page.is_at(path)]
        return max(found, key=lambda page: len(page.path), default=None)


# Shown only to tenants that use approvals, with the number of campaigns that wait for the visitor.
APPROVALS: Final = lazy_gettext("Approvals")
# What people come for, and not the parts of the engine: at most eight entries.
NAVIGATION: Final = (
    NavItem(lazy_gettext("Home"), "overview", (NavPage(lazy_gettext("Home"), "/", "overview"),)),
    NavItem(
        lazy_gettext("Campaigns"),
        "campaigns",
        (
            NavPage(lazy_gettext("Campaigns"), "/campaigns", "campaigns"),
            NavPage(lazy_gettext("Sequences"), "/sequences", "sequences"),
            NavPage(APPROVALS, "/approvals", "check"),
            NavPage(lazy_gettext("Articles"), "/articles", "articles", section=Section.ARTICLES),
            NavPage(lazy_gettext("Mailouts"), "/mailouts", "mailouts", section=Section.MAILOUTS),
            NavPage(lazy_gettext("Notifications"), "/notifications", "notifications", section=Section.NOTIFICATIONS),
        ),
    ),
    NavItem(
        lazy_gettext("Audience"),
        "contacts",
        (
            NavPage(lazy_gettext("Contacts"), "/contacts", "contacts"),
            NavPage(lazy_gettext("Lists"), "/lists", "lists"),
            NavPage(lazy_gettext("Segments"), "/segments", "segments"),
            NavPage(lazy_gettext("Sign-up forms"), "/forms", "pencil"),
            NavPage(lazy_gettext("Imports"), "/imports", "imports"),
            NavPage(lazy_gettext("Suppressions"), "/suppressions", "suppressions"),
        ),
    ),
    NavItem(
        lazy_gettext("Content"),
        "templates",
        (
            NavPage(lazy_gettext("Templates"), "/templates", "templates"),
            NavPage(lazy_gettext("Images"), "/images", "images"),
            NavPage(lazy_gettext("Brand"), "/settings/brand", "pencil", Role.ADMIN),
        ),
    ),
    NavItem(lazy_gettext("Reports"), "chart", (NavPage(lazy_gettext("Reports"), "/reports", "chart"),)),
    NavItem(
        lazy_gettext("Delivery"),
        "messages",
        (
            NavPage(lazy_gettext("Messages"), "/messages", "messages"),
            NavPage(lazy_gettext("Dead letters"), "/dead-letters", "attention"),
            NavPage(lazy_gettext("Mailbox"), "/mailbox", "mailbox"),
        ),
    ),
    NavItem(
        lazy_gettext("Developers"),
        "code",
        (
            NavPage(lazy_gettext("API keys"), "/settings/keys", "code", Role.ADMIN),
            NavPage(lazy_gettext("Webhooks"), "/settings/webhooks", "loop", Role.ADMIN),
            NavPage(lazy_gettext("Events"), "/events", "clock"),
            NavPage(lazy_gettext("API reference"), "/docs", "articles"),
        ),
    ),
    NavItem(
        lazy_gettext("Settings"),
        "settings",
        (NavPage(lazy_gettext("Settings"), "/settings", "settings", Role.ADMIN),),
    ),
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


def items_for(role: Role, sections: Collection[Section], *, has_approvals: bool = True) -> list[NavItem]:
    """Return the entries with the pages that the visitor may open, without sources that the tenant does not use."""

    def is_shown(page: NavPage) -> bool:
        is_used = page.section is None or page.section in sections
        return role.allows(page.role) and is_used and (has_approvals or page.title != APPROVALS)

    found = [replace(item, pages=tuple(page for page in item.pages if is_shown(page))) for item in NAVIGATION]
    return [item for item in found if item.pages]


def item_at(items: Sequence[NavItem], path: str) -> NavItem | None:
    """Return the entry with the open page. Pages below `/settings` can belong to another entry."""
    found = [(page, item) for item in items if (page := item.page_at(path)) is not None]
    return max(found, key=lambda each: len(each[0].path))[1] if found else None
