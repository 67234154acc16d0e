"""Options that several commands share."""

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Tenant = Annotated[str, typer.Option("--tenant", help="Tenant name.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Maximum number of rows, newest first.")]
MessageId = Annotated[str, typer.Argument(metavar="ID", help="The message id (outboxId).", show_default=False)]

Processes = Annotated[
    int, typer.Option("--processes", min=0, help="Number of processes, each with a worker; 0: one per core.")
]


def command() -> typer.Typer:
    """Return the app of a single command. Only the top-level app installs shell completion."""
    return typer.Typer(add_completion=False, rich_markup_mode="markdown")


def group(summary: str) -> typer.Typer:
    """Return the app of a command with subcommands."""
    return typer.Typer(help=summary, no_args_is_help=True, add_completion=False, rich_markup_mode="markdown")
