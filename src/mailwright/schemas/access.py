"""Models of users."""

from mailwright.access.roles import Role
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
