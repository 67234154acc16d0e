"""`mailwright provider create` and `edit`, which read secrets from standard input. The others are derived."""

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from mailwright.actions.providers import create_provider, edit_provider, noun
from mailwright.app.named_providers import is_secret
from mailwright.cli.derived import make_group, perform
from mailwright.cli.output import out
from mailwright.domain.errors import InvalidInput
from mailwright.ops.provider_kinds import KINDS
from mailwright.ops.settings import Settings

app = make_group(noun)

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The name of the provider, for example acme-postmark.", show_default=False)
]
Values = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A setting that is not a secret. Can be repeated."),
]
FromInput = Annotated[
    bool, typer.Option("--stdin", help="Read NAME=VALUE lines, also with secrets, from standard input.")
]


@app.command()
def create(
    name: Name,
    *,
    kind: Annotated[str, typer.Option(help=f"One of {', '.join(KINDS)}.", show_default=False)],
    values: Values = None,
    from_input: FromInput = False,
) -> None:
    """Create a provider. Nobody uses it until `mailwright provider route` names it."""
    wanted = {"name": name, "kind": kind, "settings": _given(values, from_input=from_input)}
    perform(noun.find(create_provider), wanted, path={})
    out.print(f"Provider {name} created. Test it with `mailwright provider test {name}`.", markup=False)


@app.command()
def edit(
    name: Name,
    *,
    values: Values = None,
    unset: Annotated[
        list[str] | None, typer.Option("--unset", metavar="NAME", help="Remove a setting. Can be repeated.")
    ] = None,
    from_input: FromInput = False,
) -> None:
    """Change settings of a provider and keep the others. Workers use them within seconds."""
    given: dict[str, str | None] = {**_given(values, from_input=from_input), **dict.fromkeys(unset or ())}
    if not given:
        raise InvalidInput("Nothing to change. Use --set, --unset or --stdin.")
    perform(noun.find(edit_provider), {"settings": given}, path={"provider_name": name})
    out.print(f"Provider {name} changed. Workers use it within seconds.", markup=False)


def _given(values: Sequence[str] | None, *, from_input: bool) -> dict[str, str]:
    """Return the settings of the options and of standard input.

    Secrets are not options, because other users of the machine can see command options.
    """
    given = _pairs(values or (), "--set")
    if secret := next((name for name in given if _is_secret(name)), None):
        raise InvalidInput(f"{secret} is a secret. Pass it with --stdin, as a line {secret}=VALUE.", field=secret)
    if not from_input:
        return given
    lines = [line.strip() for line in sys.stdin.read().splitlines()]
    return given | _pairs([line for line in lines if line and not line.startswith("#")], "Standard input")


def _pairs(texts: Sequence[str], where: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise InvalidInput(f"{where}: write NAME=VALUE.", field=name[:80])
        found[name.strip()] = value.strip()
    return found


def _is_secret(name: str) -> bool:
    fields: Mapping[str, str] = {str(each.alias): field for field, each in Settings.model_fields.items()}
    field = fields.get(name.upper(), name.lower())
    return field in Settings.model_fields and is_secret(field)
