"""`mailwright user`: people who sign in to the dashboard."""

import sys
from typing import Annotated

import typer

from mailwright.access.failed_sign_ins import FailedSignIns
from mailwright.access.roles import Role
from mailwright.access.sessions import LINK_SESSION_AGE, Sessions
from mailwright.access.users import User, Users
from mailwright.cli.opening import Installation, run
from mailwright.cli.options import Json, group
from mailwright.cli.output import aside, clock_time, out, print_json, print_rows
from mailwright.domain.clock import isoformat
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import CONSOLE

app = group("People who sign in.")
second_factor = group("Second factors.")
app.add_typer(second_factor, name="totp")

Login = Annotated[str, typer.Argument(metavar="NAME", help="What they sign in with.", show_default=False)]
PasswordFromInput = Annotated[
    bool, typer.Option("--password-stdin", help="Read the password from standard input, for scripts.")
]


@app.command()
def create(
    login: Login,
    role: Annotated[Role, typer.Option(help="What they may do.")] = Role.EDITOR,
    tenant: Annotated[
        str | None, typer.Option(help="Of this tenant only.", show_default="of the installation, and so of all tenants")
    ] = None,
    from_input: PasswordFromInput = False,
) -> None:
    """Let somebody in. The password is asked for, and never an argument: others can see those."""
    password = _password(from_input=from_input)

    async def work(at: Installation) -> User:
        tenant_id = (await tenants.find(at.database, tenant)).id if tenant is not None else None
        return await _users(at).create(login, password, role, tenant_id=tenant_id, actor=CONSOLE)

    made = run(work, creates=True)
    out.print(f"{made.login} can sign in, as {made.role}.")


@app.command("list")
def list_command(as_json: Json = False) -> None:
    """List who may sign in."""

    async def work(at: Installation) -> list[User]:
        return await _users(at).list_all()

    found = run(work)
    if as_json:
        print_json([_described(user) for user in found])
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
    columns = ("Name!", "Role!", "Tenant", "Second factor", "Seen (UTC)!", "Disabled (UTC)!")
    print_rows(
        columns, rows, nothing="Nobody can sign in yet; `mailwright user create NAME --role admin` changes that."
    )


@app.command()
def password(login: Login, from_input: PasswordFromInput = False) -> None:
    """Give somebody another password. All their sessions end."""
    text = _password(from_input=from_input)

    async def work(at: Installation) -> None:
        await _users(at).change_password(login, text, actor=CONSOLE)

    run(work)
    out.print(f"{login} has a new password, and is signed out everywhere.")


@app.command()
def link(login: Login) -> None:
    """Print an address that signs somebody in once, within an hour. Whoever has a second factor still needs it."""

    async def work(at: Installation) -> str:
        user = await _users(at).find(login)
        token = await Sessions(at.database, at.clock).open(
            user, address="console", agent="link", lasts=LINK_SESSION_AGE
        )
        return f"{at.settings.public_url}/sign-in/link?token={token}"

    typer.echo(run(work))


@app.command()
def role(login: Login, role: Annotated[Role, typer.Argument(help="What they may do from now on.")]) -> None:
    """Change what somebody may do."""

    async def work(at: Installation) -> None:
        await _users(at).change_role(login, role, actor=CONSOLE)

    run(work)
    out.print(f"{login} is {role} now.")


@app.command()
def disable(login: Login) -> None:
    """Let somebody in no more. They are signed out everywhere, at once; what they did keeps their name."""

    async def work(at: Installation) -> None:
        await _users(at).disable(login, actor=CONSOLE)

    run(work)
    out.print(f"{login} is out.")


@app.command()
def enable(login: Login) -> None:
    """Let somebody in again who was disabled."""

    async def work(at: Installation) -> None:
        await _users(at).enable(login, actor=CONSOLE)

    run(work)
    out.print(f"{login} may sign in again.")


@second_factor.command()
def reset(login: Login) -> None:
    """Take a second factor away, for somebody who has lost it and their recovery codes."""

    async def work(at: Installation) -> None:
        await _users(at).remove_second_factor(login, actor=CONSOLE)

    run(work)
    out.print(f"{login} signs in with the password alone.")


def _users(at: Installation) -> Users:
    return Users(at.database, at.clock, FailedSignIns(at.database, at.clock))


def _password(*, from_input: bool) -> str:
    if from_input:
        return sys.stdin.readline().rstrip("\n")
    if not sys.stdin.isatty():
        aside.print("Nobody is there to be asked for a password; --password-stdin reads it.")
        raise typer.Exit(2)
    return str(typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))


def _described(user: User) -> dict[str, object]:
    return {
        "login": user.login,
        "role": user.role,
        "tenant": user.tenant,
        "hasSecondFactor": user.has_second_factor,
        "createdAt": isoformat(user.created_at),
        "seenAt": isoformat(user.seen_at),
        "disabledAt": isoformat(user.disabled_at),
    }
