"""`mailwright setting set`, which asks for secrets. The other commands are derived from the actions."""

import sys
from typing import Annotated

import typer

from mailwright.actions.settings import change, noun
from mailwright.cli.derived import make_group, perform
from mailwright.cli.output import aside, out
from mailwright.domain.errors import InvalidInput
from mailwright.ops.stored import SECRETS, field_of, variable_of

app = make_group(noun)


@app.command("set")
def set_command(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The name, for example MAILWRIGHT_FROM or sender.", show_default=False)
    ],
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
    perform(noun.find(change), {"settings": {variable_of(field): text}}, path={}, creates=True)
    out.print(f"{variable_of(field)} stored. Servers and workers use it within seconds.", markup=False)


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
