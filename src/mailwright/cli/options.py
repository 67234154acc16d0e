"""Options that several commands share: the same word means the same everywhere."""

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
Tenant = Annotated[str, typer.Option("--tenant", help="The tenant's name.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Show at most so many, the newest first.")]
MessageId = Annotated[str, typer.Argument(metavar="ID", help="The message's outboxId.", show_default=False)]


def group(summary: str) -> typer.Typer:
    """A command with commands of its own."""
    return typer.Typer(help=summary, no_args_is_help=True, rich_markup_mode="rich")
