"""Commands for people and scripts. No rule is made here: options are read, parts asked, answers printed.

Each command lives in a module of its own, which is imported only when the command is called, so that `--help` and shell
completion answer at once.
"""

import atexit
import gc
import os
import sys
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from mailwright.cli.exit_codes import EXIT_CODES, ending

# Panel, command and the line that `mailwright --help` shows for it. The module has the command's name.
COMMANDS: Final = (
    ("Run", "demo", "Send sample mails through the whole road and serve the result."),
    ("Run", "serve", "Serve the HTTP API, with a worker in the same process."),
    ("Run", "worker", "Send what is due, until stopped or drained."),
    ("Set up", "check", "Tell what works: settings, database, provider, DNS, workers."),
    ("Set up", "db", "Bring the database to the newest form, or show its form."),
    ("Set up", "tenant", "Tenants and their limits."),
    ("Set up", "key", "API keys."),
    ("Set up", "user", "People who sign in."),
    ("Set up", "template", "Templates that mails are made from."),
    ("Set up", "image", "Images for mails."),
    ("Look and act", "message", "Find, explain, retry, cancel and resolve messages."),
    ("Look and act", "dead-letter", "Messages that wait for a person."),
    ("Look and act", "contact", "People, and whether they may be written to."),
    ("Look and act", "segment", "Segments: saved questions about people."),
    ("Look and act", "list", "Lists that readers join and leave."),
    ("Look and act", "suppression", "Addresses that are not written to."),
    ("Look and act", "bounce", "Take a bounce mail from a mail server, on standard input."),
    ("Look and act", "campaign", "Campaigns: one piece of content for many people."),
    ("Look and act", "article", "Articles: one personal newsletter for each reader."),
    ("Look and act", "mailout", "Mailouts: pages of Notion, sent to their readers."),
    ("Look and act", "notify", "Notifications: rows of a queue that become mails."),
    ("Look and act", "forecast", "When each campaign begins and ends, and what holds it."),
    ("Look and act", "archive", "The archive: campaigns that everyone may read."),
    ("Look and act", "webhook", "Outgoing webhooks: tell others what happens to mail."),
    ("Look and act", "quota", "What the providers still take."),
    ("Look and act", "audit-log", "Who did what."),
    ("Look and act", "audit", "Prove that every accepted message is accounted for."),
    ("Look and act", "bench", "Measure this machine, on a database of its own."),
)

# Hidden plural spellings of earlier versions, so that existing scripts keep working.
ALIASES: Final = {
    "contacts": "contact",
    "dead-letters": "dead-letter",
    "lists": "list",
    "segments": "segment",
    "suppressions": "suppression",
    "journal": "audit-log",
}


class Commands(TyperGroup):
    """Lists the commands from the table; only the one that is called is imported."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for panel, name, line in COMMANDS:
            self.add_command(TyperCommand(name, help=line, rich_help_panel=panel))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] in ALIASES:
            args = [ALIASES[args[0]], *args[1:]]
        name, listed, rest = super().resolve_command(ctx, args)
        return name, listed if name is None else _load(name), rest


def _load(name: str) -> Any:
    gc.disable()  # modules stay: looking for rubbish among them took a tenth of a command's time
    try:
        module = import_module(f"mailwright.cli.{name.replace('-', '_')}")
    finally:
        gc.enable()
    command = typer.main.get_command(module.app)
    command.name = name
    return command


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    epilog=f"Exit codes: {EXIT_CODES}",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"mailwright {version('mailwright')}")
        raise typer.Exit


@app.callback()
def mailwright(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """One engine for all the mail that a team sends: nothing lost, nothing doubled, every wait explained.

    Settings come from the environment or from mailwright.toml; `mailwright check` tells whether they work.
    """


def main() -> None:
    atexit.register(gc.freeze)  # all memory goes at once: taking it apart object by object took a fifth
    try:
        app(prog_name="mailwright")
    except Exception as error:  # whatever it was, a person gets a sentence and a script gets a code
        if os.environ.get("MAILWRIGHT_DEBUG"):
            raise
        sys.exit(ending(error))
