"""Models of users and API keys."""

from mailwright.access.api_keys import ApiKey
from mailwright.access.roles import Role, Scope
from mailwright.schemas.base import ResponseModel, Time


class UserResponse(ResponseModel):
    """A user. `tenant` is null for users of the whole installation."""

    login: str
    role: Role
    tenant: str | None
    has_second_factor: bool
    created_at: Time
    seen_at: Time | None
    disabled_at: Time | None


class ApiKeyResponse(ResponseModel):
    """An API key without its secret. `hint`: its last four characters. `senders` is null if it may use all."""

    id: int
    tenant: str
    name: str
    hint: str
    scopes: list[Scope]
    senders: list[str] | None
    owner: str | None
    created_at: Time
    revoked_at: Time | None


def api_key_response(key: ApiKey) -> ApiKeyResponse:
    return ApiKeyResponse(
        id=key.id,
        tenant=key.tenant,
        name=key.name,
        hint=key.hint,
        scopes=[scope for scope in Scope if scope in key.scopes],
        senders=None if key.senders is None else sorted(key.senders.entries),
        owner=key.owner,
        created_at=key.created_at,
        revoked_at=key.revoked_at,
    )
