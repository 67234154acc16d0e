"""The command line. Commands read options, call the engine and print; they hold no business rule.

The module of a command is imported only when the command runs, so `--help` and shell completion stay fast.
"""

import atexit
import gc
import os
import signal
import sys
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from mailwright import __version__
from mailwright.cli.exit_codes import EXIT_CODES, report_error
from mailwright.ops.paused_collection import paused_collection

# Pydantic searches all installed packages for plugins, which takes 20 ms of every command. Mailwright uses none.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

# The help panel, the name and the help line of each command. Its module has the same name. The panels are
# the entries of the dashboard's navigation.
COMMANDS: Final = (
    ("Run", "serve", "Serve the API and the dashboard, with a worker in the same process."),
    ("Run", "worker", "Send due messages until stopped or drained."),
    ("Run", "smtp", "Accept email over SMTP in a separate process."),
    ("Run", "mcp", "Serve an AI agent over standard input and output."),
    ("Run", "demo", "Send sample emails into a local mailbox and serve the dashboard."),
    ("Run", "health", "Show what is wrong now, since when, and what to do."),
    ("Run", "sending", "Show whether email leaves this machine, and what is missing."),
    ("Run", "forecast", "When each campaign starts and finishes, and why it waits."),
    ("Run", "audit", "Verify that every accepted message is accounted for."),
    ("Run", "quarantine", "After a restore: messages that may have been sent since the backup."),
    ("Run", "bench", "Measure this machine with a temporary database."),
    ("Campaigns", "campaign", "Campaigns: one email for many recipients."),
    ("Campaigns", "sequence", "Sequences: a series of emails for each person."),
    ("Campaigns", "approval", "Articles, mailouts and sequences that wait for a second person."),
    ("Campaigns", "archive", "The public archive of campaigns."),
    ("Campaigns", "article", "Articles: one newsletter, assembled per recipient."),
    ("Campaigns", "mailout", "Mailouts: Notion pages sent to subscribers."),
    ("Campaigns", "notify", "Notifications from an external queue."),
    ("Campaigns", "outbox", "Email from a table in an application's own database."),
    ("Audience", "contact", "Contacts: import, export, status, history, erasure."),
    ("Audience", "list", "Mailing lists and subscriptions."),
    ("Audience", "segment", "Segments: saved filters over contacts."),
    ("Audience", "form", "Sign-up forms: fields, consents and the HTML to embed."),
    ("Audience", "suppression", "The suppression list."),
    ("Content", "template", "Email templates."),
    ("Content", "image", "Images for emails."),
    ("Content", "brand", "The brand kit: name, logo, colours, fonts, footer and links."),
    ("Delivery", "message", "Send, find, explain, retry, cancel and resolve messages."),
    ("Delivery", "dead-letter", "Messages that failed permanently."),
    ("Delivery", "domain", "Sender domains of a tenant: DNS records and DKIM keys."),
    ("Delivery", "dmarc", "DMARC reports: who sends with your domains, and what receivers did with it."),
    ("Delivery", "bounce", "Process a bounce email from standard input."),
    ("Delivery", "quota", "Remaining provider quota."),
    ("Delivery", "report-source", "Systems that report what happened to messages."),
    ("Delivery", "shadow", "Report what shadow mode passed on to your relay."),
    ("Developers", "key", "API keys."),
    ("Developers", "webhook", "Outbound webhooks."),
    ("Developers", "event", "Contact events: what contacts did in your own systems."),
    ("Settings", "setup", "Set up a new installation: administrator, sender, provider, DNS, API key, test email."),
    ("Settings", "setting", "Settings that the dashboard can change: list, set, unset."),
    ("Settings", "apply", "Change lists, templates, forms, settings … as a YAML file describes them."),
    ("Settings", "export", "Print a YAML file for `mailwright apply`."),
    ("Settings", "provider", "Providers of their own for tenants: credentials, connection test, routes."),
    ("Settings", "tenant", "Tenants and their limits."),
    ("Settings", "user", "Dashboard users."),
    ("Settings", "check", "Check settings, database, providers, DNS and workers."),
    ("Settings", "db", "Upgrade the database schema, or show its version."),
    ("Settings", "upgrade", "Show what an update would change, before it happens."),
    ("Settings", "backup", "Back up the installation while it runs."),
    ("Settings", "restore", "Replace the database with a backup."),
    ("Settings", "retention", "Delete old data: message bodies, events, reports, the audit log, imports."),
    ("Settings", "audit-log", "The audit log: who did what."),
)

# The commands that are derived from the actions alone. Other commands have a module here.
DERIVED: Final = frozenset(
    "audit-log brand form image key list report-source segment sending shadow suppression tenant".split()  # noqa: SIM905
)

# Hidden aliases: the command names of earlier versions, so that existing scripts keep working. They say the new name.
ALIASES: Final = {
    "contacts": "contact",
    "dead-letters": "dead-letter",
    "lists": "list",
    "segments": "segment",
    "suppressions": "suppression",
    "journal": "audit-log",
}


class Commands(TyperGroup):
    """Lists the commands from the table above and imports a command's module only when it runs."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for panel, name, line in COMMANDS:
            self.add_command(TyperCommand(name, help=line, rich_help_panel=panel))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] in ALIASES:
            from mailwright.cli.output import aside  # noqa: PLC0415 - most commands have their present name

            aside.print(f"! `{args[0]}` is now `{ALIASES[args[0]]}`.", markup=False)
            args = [ALIASES[args[0]], *args[1:]]
        name, listed, rest = super().resolve_command(ctx, args)
        return name, listed if name is None else _load(name), rest

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")  # Pydantic puts this prefix before the message.
            raise


def _load(name: str) -> Any:
    """Import the commands of a name: those of its module here, or those of its actions."""
    with paused_collection():
        if name in DERIVED:
            from mailwright.actions import load_noun  # noqa: PLC0415 - only the commands of actions need it
            from mailwright.cli.derived import make_group  # noqa: PLC0415

            found = make_group(load_noun(name))
        else:
            found = import_module(f"mailwright.cli.{name.replace('-', '_')}").app
    command = typer.main.get_command(found)
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
        typer.echo(f"mailwright {__version__}")
        raise typer.Exit


@app.callback()
def mailwright(
    ctx: typer.Context,
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    server: Annotated[
        str | None,
        typer.Option(
            envvar="MAILWRIGHT_SERVER",
            metavar="URL",
            help="Run the command on this server, with the API key in MAILWRIGHT_API_KEY.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """One engine for all the email a team sends: nothing lost, nothing sent twice unnoticed, every wait explained.

    Settings come from the environment, from mailwright.toml or from the dashboard; `mailwright check` verifies them.
    """
    if server:
        from mailwright.actions import MODULES  # noqa: PLC0415 - most commands run here
        from mailwright.cli.remote import require_local, use_server  # noqa: PLC0415

        use_server(server)
        name = ALIASES.get(ctx.invoked_subcommand or "", ctx.invoked_subcommand)
        if name not in MODULES and name not in ("apply", "export"):
            require_local(f"`mailwright {name}`")


def main() -> None:
    os.umask(0o077)  # Databases, mailboxes, uploads and exports contain personal data: only the owner reads new files.
    atexit.register(gc.freeze)  # Skip freeing every object at exit, which took a fifth of a command's time.
    signal.signal(signal.SIGTERM, _terminate)  # Services replace it with their graceful shutdown.
    try:
        app(prog_name="mailwright")
    except _Terminated:
        signal.raise_signal(signal.SIGTERM)
    except Exception as error:
        if os.environ.get("MAILWRIGHT_DEBUG"):
            raise
        sys.exit(report_error(error, _option_name))


class _Terminated(SystemExit):
    """SIGTERM arrived. The command deletes its temporary files, as after Ctrl-C, and then ends by the signal."""


def _terminate(number: int, _frame: object) -> None:
    signal.signal(number, signal.SIG_DFL)  # A second signal ends the process at once.
    raise _Terminated(128 + number)


def _option_name(field: str) -> str:
    from mailwright.cli.option_names import option_name  # noqa: PLC0415 - only for errors

    names = [each for each in sys.argv[1:] if each in ALIASES or any(each == listed for _, listed, _ in COMMANDS)]
    if not names:
        return field
    arguments = sys.argv[sys.argv.index(names[0]) + 1 :]
    return option_name(field, _load(ALIASES.get(names[0], names[0])), arguments)
