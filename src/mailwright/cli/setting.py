"""`mailwright setting`: settings that are stored in the database and that the dashboard can change."""

import sys
from typing import Annotated

import typer

from mailwright.app.stored_settings import EffectiveSettings, change_settings, load_effective
from mailwright.app.stored_settings import shown_settings as all_shown
from mailwright.cli.opening import Installation, run
from mailwright.cli.options import Json, group
from mailwright.cli.output import aside, clock_time, out, print_json, print_rows
from mailwright.domain.errors import InvalidInput
from mailwright.ops.stored import SECRETS, field_of, variable_of
from mailwright.outbox.audit_log import CONSOLE
from mailwright.schemas.settings import setting_response

app = group("Settings that are stored in the database. The environment and mailwright.toml have priority over them.")

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The name, for example MAILWRIGHT_FROM or sender.", show_default=False)
]


@app.command("list")
def list_command(as_json: Json = False) -> None:
    """List the settings that can be stored, their values, and where each value comes from."""
    found = all_shown(run(_load))
    if as_json:
        print_json([setting_response(each).to_dict() for each in found])
        return
    rows = ((each.variable, "–" if each.value is None else each.value, each.origin.text) for each in found)
    print_rows(("Setting!", "Value", "From"), rows, nothing="")


@app.command()
def show(name: Name, as_json: Json = False) -> None:
    """Show one setting: its value, where it comes from, and who stored it. A secret is never shown."""
    field = field_of(name)
    [found] = [each for each in all_shown(run(_load)) if each.name == field]
    if as_json:
        print_json(setting_response(found).to_dict())
        return
    out.print(f"{found.variable}: {'not set' if found.value is None else found.value}", markup=False)
    out.print(f"Value: {found.origin.text}", markup=False)
    if found.stored is not None:
        words = f"Stored by {found.stored.updated_by} at {clock_time(found.stored.updated_at)}"
        out.print(f"{words}{', and not used' if found.origin.is_fixed else ''}", markup=False)


@app.command("set")
def set_command(
    name: Name,
    value: Annotated[
        str | None,
        typer.Argument(metavar="VALUE", help="The new value. Leave it out for a secret.", show_default=False),
    ] = None,
    from_input: Annotated[bool, typer.Option("--stdin", help="Read the value from standard input.")] = False,
) -> None:
    """Store a setting. Servers and workers use it within seconds.

    A secret is prompted for or read from standard input, because other users can see command arguments. It is stored
    encrypted with the key of the installation.
    """
    field = field_of(name)
    text = _value(field, value, from_input=from_input)
    run(lambda at: _change(at, field, text), creates=True)
    out.print(f"{variable_of(field)} stored. Servers and workers use it within seconds.", markup=False)


@app.command()
def unset(name: Name) -> None:
    """Delete a stored setting. Its default applies again."""
    field = field_of(name)
    run(lambda at: _change(at, field, None))
    out.print(f"{variable_of(field)} deleted from the database.", markup=False)


async def _load(at: Installation) -> EffectiveSettings:
    return await load_effective(at.settings, at.database)


async def _change(at: Installation, field: str, text: str | None) -> None:
    await change_settings(at.settings, at.database, at.clock, {field: text}, actor=CONSOLE)


def _value(field: str, value: str | None, *, from_input: bool) -> str:
    if from_input:
        return sys.stdin.read().strip()
    if field in SECRETS and value is not None:
        raise InvalidInput(
            f"{variable_of(field)} is a secret. Leave out the value, or pass it with --stdin.", field="value"
        )
    if value is not None:
        return value
    if not sys.stdin.isatty():
        raise InvalidInput("There is no terminal to ask for the value. Pass it as an argument, or with --stdin.")
    return str(typer.prompt(variable_of(field), hide_input=field in SECRETS, err=aside.stderr))
