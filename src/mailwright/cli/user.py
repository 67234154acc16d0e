"""`mailwright user`: commands that ask for a password, or that work only on this machine. The others are derived."""

import sys
from typing import Annotated, Any

import typer

from mailwright.access.roles import Role
from mailwright.access.sessions import Sessions
from mailwright.actions.users import change, create, noun, reset_second_factor, users
from mailwright.cli.derived import console_context, make_group, perform
from mailwright.cli.opening import Installation, run
from mailwright.cli.options import ask_password, group
from mailwright.cli.output import out
from mailwright.domain.errors import InvalidInput

app = make_group(noun)
second_factor = group("Two-factor authentication.")
app.add_typer(second_factor, name="totp")

Login = Annotated[str, typer.Argument(metavar="NAME", help="The user name.", show_default=False)]
PasswordFromInput = Annotated[bool, typer.Option("--password-stdin", help="Read the password from standard input.")]


@app.command("create")
def create_command(
    login: Login,
    role: Annotated[Role, typer.Option(help="The role.")] = Role.VIEWER,
    tenant: Annotated[
        str | None,
        typer.Option(
            "--tenant", help="Limit the user to this tenant. Needed if there are several.", show_default=False
        ),
    ] = None,
    all_tenants: Annotated[
        bool, typer.Option("--all-tenants", help="Give access to all tenants, also to later ones.")
    ] = False,
    from_input: PasswordFromInput = False,
) -> None:
    """Create a user. The password is prompted for, because other users can see command arguments."""
    values = {"login": login, "role": role, "tenant": tenant, "allTenants": all_tenants}
    made = perform(noun.find(create), {**values, "password": _password(from_input=from_input)}, path={})
    out.print(f"Created the user {made.login} with the role {made.role}.")


@app.command()
def password(login: Login, from_input: PasswordFromInput = False) -> None:
    """Change a user's password and end all their sessions."""
    _change(login, password=_password(from_input=from_input))
    out.print(f"Password of {login} changed. All sessions ended.")


@app.command()
def email(
    login: Login,
    address: Annotated[str, typer.Argument(metavar="EMAIL", help="The new address; empty to remove it.")],
) -> None:
    """Change a user's address without a confirmation, and notify the previous address."""
    _change(login, email=address)
    out.print(f"Address of {login} {'changed' if address.strip() else 'removed'}.")


@app.command()
def role(login: Login, role: Annotated[Role, typer.Argument(help="The new role.")]) -> None:
    """Change a user's role."""
    _change(login, role=role)
    out.print(f"{login} now has the role {role}.")


@app.command()
def link(login: Login) -> None:
    """Print a one-time sign-in link, valid for one hour. Two-factor authentication still applies."""

    async def work(at: Installation) -> str:
        user = await users(console_context(at)).find(login)
        token = await Sessions(at.database, at.clock).open_link(user, agent="link")
        return f"{at.settings.public_url}/sign-in/link?token={token}"

    typer.echo(run(work))


@second_factor.command()
def reset(login: Login) -> None:
    """Turn off two-factor authentication for a user who lost their device and recovery codes."""
    perform(noun.find(reset_second_factor), {}, path={"login": login})
    out.print(f"Two-factor authentication turned off for {login}.")


def _change(login: str, **changes: Any) -> None:
    perform(noun.find(change), changes, path={"login": login})


def _password(*, from_input: bool) -> str:
    if from_input:
        return sys.stdin.readline().rstrip("\n")
    if not sys.stdin.isatty():
        raise InvalidInput("There is no terminal to prompt for the password. Use --password-stdin.")
    return ask_password("Password")
