"""Options that several commands share: the same word means the same everywhere."""

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
Tenant = Annotated[str, typer.Option("--tenant", help="The tenant's name.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Show at most so many, the newest first.")]
MessageId = Annotated[str, typer.Argument(metavar="ID", help="The message's outboxId.", show_default=False)]


def command() -> typer.Typer:
    """A command by itself. Shell completion is installed by `mailwright` as a whole."""
    return typer.Typer(add_completion=False, rich_markup_mode="markdown")


def group(summary: str) -> typer.Typer:
    """A command with commands of its own."""
    return typer.Typer(help=summary, no_args_is_help=True, add_completion=False, rich_markup_mode="markdown")
