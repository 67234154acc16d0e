"""Roles of users and scopes of API keys. Each role includes the permissions of the one before it."""

from enum import StrEnum
from typing import Final

from mailwright.domain.errors import InvalidInput, MailwrightError


class Forbidden(MailwrightError):
    """You do not have permission to do this."""

    code = "FORBIDDEN"


class Role(StrEnum):
    VIEWER = "viewer"  # reads all data of a tenant
    EDITOR = "editor"  # edits and sends
    ADMIN = "admin"  # manages users and limits

    def allows(self, needed: "Role") -> bool:
        order = list(Role)
        return order.index(self) >= order.index(needed)


class Scope(StrEnum):
    SEND = "send"  # POST /v1/email/send and /v1/email/batch
    READ = "read"  # every request that changes nothing
    MANAGE = "manage"  # every other change, and every request that changes nothing

    def allows(self, needed: "Scope") -> bool:
        """Return whether this scope includes `needed`. Only `manage` includes another scope: `read`."""
        return self is needed or (self is Scope.MANAGE and needed is Scope.READ)


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
        raise InvalidInput(f"The role must be one of {', '.join(Role)}.", field="role") from error


def parse_scopes(names: "list[str] | tuple[str, ...]") -> frozenset[Scope]:
    """Parse names of scopes. If there are no names, return all scopes."""
    try:
        return frozenset(Scope(name) for name in names) or ALL_SCOPES
    except ValueError as error:
        raise InvalidInput(f"A scope must be one of {', '.join(Scope)}.", field="scope") from error
