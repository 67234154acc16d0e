"""Roles and scopes: what people and programs may do. Each role may do what the one before it may."""

from enum import StrEnum
from typing import Final

from mailwright.domain.errors import InvalidInput, MailwrightError


class Forbidden(MailwrightError):
    """You are known here, but this is more than you may do."""

    code = "FORBIDDEN"


class Role(StrEnum):
    VIEWER = "viewer"  # looks at everything of a tenant
    EDITOR = "editor"  # writes and sends
    ADMIN = "admin"  # decides who may enter, and how much may be sent

    def allows(self, needed: "Role") -> bool:
        order = list(Role)
        return order.index(self) >= order.index(needed)


class Scope(StrEnum):
    SEND = "send"  # POST /v1/email/send and /v1/email/batch
    READ = "read"  # everything that changes nothing
    MANAGE = "manage"  # every other change


ALL_SCOPES: Final = frozenset(Scope)
# What a signed-in person may ask of the API.
ROLE_SCOPES: Final = {
    Role.VIEWER: frozenset({Scope.READ}),
    Role.EDITOR: ALL_SCOPES,
    Role.ADMIN: ALL_SCOPES,
}


def parse_role(text: str) -> Role:
    try:
        return Role(text)
    except ValueError as error:
        raise InvalidInput(f"a role is one of {', '.join(Role)}", field="role") from error


def parse_scopes(names: "list[str] | tuple[str, ...]") -> frozenset[Scope]:
    """None named is all of them: a key is made for a purpose that nobody else knows."""
    try:
        return frozenset(Scope(name) for name in names) or ALL_SCOPES
    except ValueError as error:
        raise InvalidInput(f"a scope is one of {', '.join(Scope)}", field="scope") from error
