"""Dashboard users. A user is disabled, never deleted, so that the audit log keeps their name."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from mailwright.access.account_links import AccountLinks
from mailwright.access.account_notices import AccountNotices
from mailwright.access.failed_sign_ins import FailedSignIns
from mailwright.access.roles import Role
from mailwright.access.second_factors import SecondFactors
from mailwright.access.users import Users
from mailwright.actions.context import Context
from mailwright.actions.declaration import PLATFORM_MANAGE, PLATFORM_READ, Argument, Noun, Option, Table, time_of
from mailwright.outbox import tenants
from mailwright.schemas.base import ResponseModel, Time
from mailwright.sources.api.fields import RequestModel

noun = Noun(
    "user",
    "Dashboard users.",
    "/v1/users",
    reads=PLATFORM_READ,
    parameters={"login": ("NAME", "The user name.")},
)

_Text = Annotated[str, Field(max_length=1_000)]
_Password = Annotated[
    str, Field(max_length=1_000, description="The new password.", json_schema_extra={"format": "password"})
]


class _UserTenant(RequestModel):
    """`tenant` limits the user to one tenant, `allTenants` gives access to all. One is needed if there are several."""

    role: Annotated[Role, Field(description="The role.")] = Role.VIEWER
    tenant: Annotated[
        _Text | None, Field(description="Limit the user to this tenant. Needed if there are several.")
    ] = None
    all_tenants: Annotated[
        bool, Option("--all-tenants"), Field(description="Give access to all tenants, also to later ones.")
    ] = False

    async def home(self, at: Context) -> int | None:
        """Return the tenant of the user; None means all tenants."""
        found = await tenants.find_one_or_all(at.database, self.tenant, all_tenants=self.all_tenants)
        return None if found is None else found.id


class UserRequest(_UserTenant):
    """A user with a password, which you give them yourself. `POST /v1/users/invitations` sends a link instead."""

    login: _Text
    password: _Password


class InvitationRequest(_UserTenant):
    """The person to invite. With `link`, no email is sent, and the response has the link of the invitation."""

    email: Annotated[_Text, Argument("EMAIL"), Field(description="The address of the person.")]
    link: Annotated[bool, Option("--link"), Field(description="Print the link instead of sending it.")] = False


class UserUpdateRequest(RequestModel):
    """Fields that are left out keep their value. An empty `email` removes the address.

    A new password ends all sessions of the user.
    """

    role: Role | None = None
    email: _Text | None = None
    password: _Password | None = None


class UserResponse(ResponseModel):
    """A user. `tenant` is null for users of the whole installation."""

    login: str
    role: Role
    tenant: str | None
    has_second_factor: bool
    created_at: Time
    seen_at: Time | None
    disabled_at: Time | None


class UserListResponse(ResponseModel):
    users: list[UserResponse]


class InvitationResponse(ResponseModel):
    """`link` is null if the link was sent by email. It is shown only in this response."""

    email: str
    role: Role
    link: str | None


@noun.post(scope=PLATFORM_MANAGE, audit="user_create")
async def create(at: Context, wanted: UserRequest) -> UserResponse:
    """Create a user with a password."""
    home = await wanted.home(at)
    made = await users(at).create(wanted.login, wanted.password, wanted.role, tenant_id=home, actor=at.actor)
    return UserResponse.model_validate(made)


def _invited(made: InvitationResponse, _given: Mapping[str, Any]) -> Iterator[str]:
    yield made.link or f"Invitation to {made.email} queued. A worker sends it."


@noun.post("/invitations", scope=PLATFORM_MANAGE, audit="user_invite", command="invite", shown=_invited)
async def invite(at: Context, wanted: InvitationRequest) -> InvitationResponse:
    """Invite a person by email. The invitation works once, within seven days."""
    home = await wanted.home(at)
    link = await account_links(at).invite(
        wanted.email, wanted.role, tenant_id=home, actor=at.actor, sends_email=not wanted.link
    )
    return InvitationResponse(email=wanted.email, role=wanted.role, link=link if wanted.link else None)


@noun.get(
    command="list",
    shown=Table(
        "users",
        {
            "Name!": "login",
            "Role!": "role",
            "Tenant": lambda each: each.tenant or "all",
            "Two-factor": "has_second_factor",
            "Last seen ({zone})!": time_of("seen_at"),
            "Disabled ({zone})!": time_of("disabled_at"),
        },
        nothing="There are no users. Create one with `mailwright user create NAME --role admin`.",
    ),
)
async def list_users(at: Context) -> UserListResponse:
    """List all users, by name."""
    return UserListResponse(users=[UserResponse.model_validate(each) for each in await users(at).list_all()])


@noun.get("/{login}")
async def show(at: Context, login: str) -> UserResponse:
    """Show a user."""
    return UserResponse.model_validate(await users(at).find(login))


@noun.patch("/{login}", scope=PLATFORM_MANAGE, audit="user_role")
async def change(at: Context, login: str, wanted: UserUpdateRequest) -> UserResponse:
    """Change the role, the address or the password of a user. The last administrator keeps their role."""
    await users(at).change(login, role=wanted.role, email=wanted.email, password=wanted.password, actor=at.actor)
    return UserResponse.model_validate(await users(at).find(login))


@noun.delete(
    "/{login}",
    scope=PLATFORM_MANAGE,
    audit="user_disable",
    command="disable",
    shown="Disabled the user {login}.",
)
async def disable(at: Context, login: str) -> None:
    """Disable a user and end all their sessions at once. The audit log keeps their name.

    The last administrator cannot be disabled.
    """
    await users(at).disable(login, actor=at.actor)


@noun.post(
    "/{login}/enable",
    scope=PLATFORM_MANAGE,
    audit="user_enable",
    command="enable",
    shown="Enabled the user {login}.",
)
async def enable(at: Context, login: str) -> UserResponse:
    """Enable a disabled user."""
    await users(at).enable(login, actor=at.actor)
    return UserResponse.model_validate(await users(at).find(login))


@noun.delete("/{login}/second-factor", scope=PLATFORM_MANAGE, audit="user_second_factor_gone")
async def reset_second_factor(at: Context, login: str) -> None:
    """Turn off two-factor authentication for a user who lost their device and recovery codes."""
    user = await users(at).find(login)
    factors = (
        SecondFactors(at.database, at.clock, FailedSignIns(at.database, at.clock), _notices(at))
        if at.engine is None
        else at.engine.second_factors
    )
    await factors.remove(user, actor=at.actor)


def users(at: Context) -> Users:
    """Return the users of the running server, which hashes one password at a time."""
    if at.engine is not None:
        return at.engine.users
    return Users(at.database, at.clock, FailedSignIns(at.database, at.clock), _notices(at))


def account_links(at: Context) -> AccountLinks:
    if at.engine is not None:
        return at.engine.account_links
    return AccountLinks(at.database, at.clock, users(at), _notices(at))


def _notices(at: Context) -> AccountNotices:
    from mailwright.app.system_emails import make_account_notices  # noqa: PLC0415 - slow to import

    return make_account_notices(at.settings, at.database, at.clock)
