"""Roles of users and scopes of API keys. Each role includes the permissions of the one before it.

A tenant's key has scopes for the data of that tenant. A platform key has scopes for the installation, and no others.
"""

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
    PLATFORM_READ = "platform_read"  # tenants, keys, users, settings and providers of the installation
    PLATFORM_MANAGE = "platform_manage"  # changes of these, and every `platform_read` request

    @property
    def is_platform(self) -> bool:
        """Whether only platform keys have this scope."""
        return self in PLATFORM_SCOPES

    def allows(self, needed: "Scope") -> bool:
        """Return whether this scope includes `needed`."""
        return needed in _INCLUDED[self]


_INCLUDED: Final = {
    Scope.SEND: frozenset({Scope.SEND}),
    Scope.EVENTS: frozenset({Scope.EVENTS}),
    Scope.READ: frozenset({Scope.READ}),
    Scope.PROPOSE: frozenset({Scope.READ, Scope.PROPOSE}),
    Scope.MANAGE: frozenset({Scope.READ, Scope.PROPOSE, Scope.EVENTS, Scope.MANAGE}),
    Scope.PLATFORM_READ: frozenset({Scope.PLATFORM_READ}),
    Scope.PLATFORM_MANAGE: frozenset({Scope.PLATFORM_READ, Scope.PLATFORM_MANAGE}),
}


PLATFORM_SCOPES: Final = frozenset({Scope.PLATFORM_READ, Scope.PLATFORM_MANAGE})
# All scopes of a tenant's key.
ALL_SCOPES: Final = frozenset(Scope) - PLATFORM_SCOPES
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
    """Parse the names of at least one scope of a tenant's key."""
    if not names:
        raise InvalidInput("Choose at least one scope.", field="scope")
    if any(name not in ALL_SCOPES for name in names):
        allowed = ", ".join(scope for scope in Scope if scope in ALL_SCOPES)
        raise InvalidInput("A scope must be one of {scopes}.", field="scope", scopes=allowed)
    return frozenset(Scope(name) for name in names)


def check_scopes(scopes: frozenset[Scope], *, is_platform: bool) -> None:
    """Raise if a key of this kind cannot have one of the scopes."""
    allowed = PLATFORM_SCOPES if is_platform else ALL_SCOPES
    if scopes and scopes <= allowed:
        return
    names = ", ".join(scope for scope in Scope if scope in allowed)
    if is_platform:
        raise InvalidInput("A scope of a platform key must be one of {scopes}.", field="scopes", scopes=names)
    raise InvalidInput("A scope of a tenant's key must be one of {scopes}.", field="scopes", scopes=names)
