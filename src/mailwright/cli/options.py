"""Options that several commands share."""

import sys
from typing import Annotated

import typer

from mailwright.domain.errors import InvalidInput

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
Tenant = Annotated[str, typer.Option("--tenant", help="Tenant name.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Maximum number of rows, newest first.")]
MessageId = Annotated[str, typer.Argument(metavar="ID", help="The message id (outboxId).", show_default=False)]

Processes = Annotated[
    int, typer.Option("--processes", min=0, help="Number of processes, each with a worker; 0 means one per core.")
]


def command() -> typer.Typer:
    """Return the app of a single command. Only the top-level app installs shell completion."""
    return typer.Typer(add_completion=False, rich_markup_mode="markdown")


def group(summary: str) -> typer.Typer:
    """Return the app of a command with subcommands."""
    return typer.Typer(help=summary, no_args_is_help=True, add_completion=False, rich_markup_mode="markdown")


def confirm(question: str, *, yes: bool) -> None:
    """Ask before a change that cannot be undone. A script confirms with `--yes`."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise InvalidInput(f"{question} Confirm with --yes.")
    typer.confirm(question, abort=True)
