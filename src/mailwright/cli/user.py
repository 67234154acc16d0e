"""`mailwright user`: dashboard users."""

import sys
from typing import Annotated

import typer

from mailwright.access.account_links import AccountLinks
from mailwright.access.account_notices import AccountNotices
from mailwright.access.failed_sign_ins import FailedSignIns
from mailwright.access.roles import Role
from mailwright.access.second_factors import SecondFactors
from mailwright.access.sessions import Sessions
from mailwright.access.users import User, Users
from mailwright.app.system_emails import make_account_notices
from mailwright.cli.opening import Installation, run
from mailwright.cli.options import Json, ask_password, group
from mailwright.cli.output import aside, clock_time, out, print_json, print_rows
from mailwright.domain.errors import InvalidInput
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import CONSOLE
from mailwright.schemas.access import UserResponse

app = group("Dashboard users.")
second_factor = group("Two-factor authentication.")
app.add_typer(second_factor, name="totp")

Login = Annotated[str, typer.Argument(metavar="NAME", help="The user name.", show_default=False)]
HomeTenant = Annotated[
    str | None,
    typer.Option("--tenant", help="Limit the user to this tenant. Needed if there are several.", show_default=False),
]
AllTenants = Annotated[bool, typer.Option("--all-tenants", help="Give access to all tenants, also to later ones.")]
PasswordFromInput = Annotated[bool, typer.Option("--password-stdin", help="Read the password from standard input.")]


@app.command()
def create(
    login: Login,
    role: Annotated[Role, typer.Option(help="The role.")] = Role.VIEWER,
    tenant: HomeTenant = None,
    all_tenants: AllTenants = False,
    from_input: PasswordFromInput = False,
) -> None:
    """Create a user. The password is prompted for, because other users can see command arguments."""
    password = _password(from_input=from_input)

    async def work(at: Installation) -> User:
        tenant_id = await _home(at, tenant, all_tenants=all_tenants)
        return await users_of(at).create(login, password, role, tenant_id=tenant_id, actor=CONSOLE)

    made = run(work, creates=True)
    out.print(f"Created the user {made.login} with the role {made.role}.")


@app.command()
def invite(
    email: Annotated[str, typer.Argument(metavar="EMAIL", help="The address of the person.", show_default=False)],
    role: Annotated[Role, typer.Option(help="The role.")] = Role.VIEWER,
    tenant: HomeTenant = None,
    all_tenants: AllTenants = False,
    by_link: Annotated[bool, typer.Option("--link", help="Print the link instead of sending it.")] = False,
) -> None:
    """Invite a person by email. The invitation works once, within seven days."""

    async def work(at: Installation) -> str:
        tenant_id = await _home(at, tenant, all_tenants=all_tenants)
        return await account_links_of(at).invite(
            email, role, tenant_id=tenant_id, actor=CONSOLE, sends_email=not by_link
        )

    link = run(work)
    if by_link:
        typer.echo(link)
    else:
        out.print(f"Invitation to {email} queued. A worker sends it.")


@app.command("list")
def list_command(as_json: Json = False) -> None:
    """List all users."""

    async def work(at: Installation) -> list[User]:
        return await users_of(at).list_all()

    found = run(work)
    if as_json:
        print_json([UserResponse.model_validate(user).to_dict() for user in found])
        return
    rows = (
        (
            user.login,
            user.role,
            user.tenant or "all",
            "yes" if user.has_second_factor else "no",
            clock_time(user.seen_at),
            clock_time(user.disabled_at),
        )
        for user in found
    )
    columns = ("Name!", "Role!", "Tenant", "Two-factor", "Last seen ({zone})!", "Disabled ({zone})!")
    print_rows(columns, rows, nothing="There are no users. Create one with `mailwright user create NAME --role admin`.")


@app.command()
def password(login: Login, from_input: PasswordFromInput = False) -> None:
    """Change a user's password and end all their sessions."""
    text = _password(from_input=from_input)

    async def work(at: Installation) -> None:
        await users_of(at).change_password(login, text, actor=CONSOLE)

    run(work)
    out.print(f"Password of {login} changed. All sessions ended.")


@app.command()
def email(
    login: Login,
    address: Annotated[str, typer.Argument(metavar="EMAIL", help="The new address; empty to remove it.")],
) -> None:
    """Change a user's address without a confirmation, and notify the previous address."""

    async def work(at: Installation) -> None:
        await users_of(at).change_email(login, address, actor=CONSOLE)

    run(work)
    out.print(f"Address of {login} {'changed' if address.strip() else 'removed'}.")


@app.command()
def link(login: Login) -> None:
    """Print a one-time sign-in link, valid for one hour. Two-factor authentication still applies."""

    async def work(at: Installation) -> str:
        user = await users_of(at).find(login)
        token = await Sessions(at.database, at.clock).open_link(user, agent="link")
        return f"{at.settings.public_url}/sign-in/link?token={token}"

    typer.echo(run(work))


@app.command()
def role(login: Login, role: Annotated[Role, typer.Argument(help="The new role.")]) -> None:
    """Change a user's role."""

    async def work(at: Installation) -> None:
        await users_of(at).change_role(login, role, actor=CONSOLE)

    run(work)
    out.print(f"{login} now has the role {role}.")


@app.command()
def disable(login: Login) -> None:
    """Disable a user and end all their sessions at once. The audit log keeps their name."""

    async def work(at: Installation) -> None:
        await users_of(at).disable(login, actor=CONSOLE)

    run(work)
    out.print(f"Disabled the user {login}.")


@app.command()
def enable(login: Login) -> None:
    """Enable a disabled user."""

    async def work(at: Installation) -> None:
        await users_of(at).enable(login, actor=CONSOLE)

    run(work)
    out.print(f"Enabled the user {login}.")


@second_factor.command()
def reset(login: Login) -> None:
    """Turn off two-factor authentication for a user who lost their device and recovery codes."""

    async def work(at: Installation) -> None:
        counter = FailedSignIns(at.database, at.clock)
        factors = SecondFactors(at.database, at.clock, counter, _notices(at))
        await factors.remove(await users_of(at).find(login), actor=CONSOLE)

    run(work)
    out.print(f"Two-factor authentication turned off for {login}.")


async def _home(at: Installation, name: str | None, *, all_tenants: bool) -> int | None:
    """Return the tenant of a new user; None means all tenants."""
    try:
        tenant = await tenants.find_one_or_all(at.database, name, all_tenants=all_tenants)
    except tenants.TenantMissing as error:
        raise InvalidInput(
            "There are several tenants. Name one with --tenant, or give access to all of them with --all-tenants."
        ) from error
    return None if tenant is None else tenant.id


def account_links_of(at: Installation) -> AccountLinks:
    return AccountLinks(at.database, at.clock, users_of(at), _notices(at))


def _notices(at: Installation) -> AccountNotices:
    return make_account_notices(at.settings, at.database, at.clock)


def users_of(at: Installation) -> Users:
    counter = FailedSignIns(at.database, at.clock)
    return Users(at.database, at.clock, counter, _notices(at))


def _password(*, from_input: bool) -> str:
    if from_input:
        return sys.stdin.readline().rstrip("\n")
    if not sys.stdin.isatty():
        aside.print("No terminal to prompt for the password. Use --password-stdin.")
        raise typer.Exit(2)
    return ask_password("Password")
