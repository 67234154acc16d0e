"""Roles of users and scopes of API keys. Each role includes the permissions of the one before it."""

from enum import StrEnum
from typing import Final

from mailwright.domain.errors import InvalidInput, MailwrightError
from mailwright.domain.translation import lazy_pgettext


class Forbidden(MailwrightError):
    """You do not have permission to do this."""

    code = "FORBIDDEN"


class Role(StrEnum):
    VIEWER = "viewer"  # reads all data of a tenant
    EDITOR = "editor"  # edits and sends
    ADMIN = "admin"  # manages users and limits

    @property
    def label(self) -> str:
        """The name of the role, for a sentence."""
        return _LABELS[self]

    def allows(self, needed: "Role") -> bool:
        order = list(Role)
        return order.index(self) >= order.index(needed)


_LABELS: Final = {
    Role.VIEWER: lazy_pgettext("role", "viewer"),
    Role.EDITOR: lazy_pgettext("role", "editor"),
    Role.ADMIN: lazy_pgettext("role", "admin"),
}


class Scope(StrEnum):
    SEND = "send"  # POST /v1/email/send and /v1/email/batch
    EVENTS = "events"  # POST /v1/events, and the API of Segment: events of contacts, and their attributes
    READ = "read"  # every request that changes nothing
    PROPOSE = "propose"  # drafts of campaigns and sequences, new templates, and every `read` request
    MANAGE = "manage"  # every other change, and every `events`, `read` and `propose` request

    def allows(self, needed: "Scope") -> bool:
        """Return whether this scope includes `needed`."""
        return needed in _INCLUDED[self]


_INCLUDED: Final = {
    Scope.SEND: frozenset({Scope.SEND}),
    Scope.EVENTS: frozenset({Scope.EVENTS}),
    Scope.READ: frozenset({Scope.READ}),
    Scope.PROPOSE: frozenset({Scope.READ, Scope.PROPOSE}),
    Scope.MANAGE: frozenset({Scope.READ, Scope.PROPOSE, Scope.EVENTS, Scope.MANAGE}),
}


ALL_SCOPES: Final = frozenset(Scope)
# The scopes of a signed-in user.
ROLE_SCOPES: Final = {
    Role.VIEWER: frozenset({Scope.READ}),
    Role.EDITOR: ALL_SCOPES,
    Role.ADMIN: ALL_SCOPES,
}


def parse_role(text: str) -> Role:
    try:
        return Role(text)
    except ValueError as error:
        raise InvalidInput("The role must be one of {roles}.", field="role", roles=", ".join(Role)) from error


def parse_scopes(names: "list[str] | tuple[str, ...]") -> frozenset[Scope]:
    """Parse the names of at least one scope."""
    if not names:
        raise InvalidInput("Choose at least one scope.", field="scope")
    try:
        return frozenset(Scope(name) for name in names)
    except ValueError as error:
        raise InvalidInput("A scope must be one of {scopes}.", field="scope", scopes=", ".join(Scope)) from error
