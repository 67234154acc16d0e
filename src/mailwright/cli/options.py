"""Options that several commands share."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from mailwright.domain.errors import InvalidInput
from mailwright.domain.record_state import RecordState

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Csv = Annotated[bool, typer.Option("--csv", help="Write CSV.")]
CsvFileTarget = Annotated[
    Path | None, typer.Argument(metavar="[FILE]", help="The file to write.", show_default="stdout")
]
CsvTarget = Annotated[
    Path | None, typer.Argument(metavar="[FILE]", help="The file that --csv writes.", show_default="stdout")
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
Tenant = Annotated[str, typer.Option("--tenant", help="Tenant name.")]
TenantOrAll = Annotated[
    str | None, typer.Option("--tenant", help="Tenant name. Default: all tenants.", show_default=False)
]
Limit = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Maximum number of rows, newest first.")]
State = Annotated[RecordState, typer.Option("--state", help="List those in this state.")]
MessageId = Annotated[str, typer.Argument(metavar="ID", help="The message id (outboxId).", show_default=False)]

Processes = Annotated[
    int, typer.Option("--processes", min=0, help="Number of processes, each with a worker; 0 means one per core.")
]


def _source(what: str) -> Any:
    return typer.Option(
        metavar="FILE", help=f"A file with {what}; - reads stdin.", encoding="utf-8", show_default=False
    )


HtmlFile = Annotated[typer.FileText | None, _source("HTML")]
MjmlFile = Annotated[typer.FileText | None, _source("MJML")]
MarkdownFile = Annotated[typer.FileText | None, _source("Markdown")]
BlocksFile = Annotated[typer.FileText | None, _source("blocks of the composer as JSON")]


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


def ask_password(label: str) -> str:
    """Ask twice for a new password. The caller refuses an empty one; the prompt would silently ask for it again."""
    return str(typer.prompt(label, default="", show_default=False, hide_input=True, confirmation_prompt=True, err=True))
