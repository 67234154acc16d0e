"""`mailwright restore`: replace the database with a backup."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from mailwright.app.restoring import header_of
from mailwright.app.restoring import restore as restore_backup
from mailwright.audience.restored_erasures import RestoredErasures
from mailwright.audience.restored_suppressions import RestoredSuppressions
from mailwright.cli.audit import print_identity
from mailwright.cli.exit_codes import NEGATIVE
from mailwright.cli.opening import settings_for_command
from mailwright.cli.options import Json, Yes, command, confirm
from mailwright.cli.output import out, print_json, zone_time
from mailwright.domain.clock import SystemClock
from mailwright.schemas.backups import restore_response

app = command()


@app.command()
def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that `mailwright backup` wrote.")],
    verify: Annotated[
        bool, typer.Option("--verify", help="First load the backup into a temporary database and audit it.")
    ] = False,
    key: Annotated[
        Path | None, typer.Option(metavar="KEYFILE", help="File with the secret key of an encrypted backup.")
    ] = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Replace the database with a backup. Stop all processes of Mailwright first.

    Afterwards sending is on hold, because messages that were due may have been sent after the backup. `mailwright
    quarantine list` shows these messages. Suppressions of the replaced database stay in force, and people who were
    erased since the backup are erased again. If a SQLite file is replaced, it is kept beside the new one.
    """
    settings, clock = settings_for_command(), SystemClock()
    header = header_of(file, key)
    confirm(f"Replace the database with the backup of {zone_time(header.created_at)}?", yes=yes)
    restored = asyncio.run(restore_backup(settings, clock, file, key=key, verify=verify))
    if as_json:
        print_json(restore_response(restored).to_dict())
    else:
        out.print(f"✓ Restored the backup of {zone_time(restored.created_at)}.")
        print_identity(restored.audit)
        if restored.kept is not None:
            _print_line(f"The previous database is {restored.kept}.")
        _print_suppressions(restored.suppressions)
        _print_erasures(restored.erasures)
        _print_line("Sending is on hold. `mailwright quarantine list` shows what may have been sent since the backup.")
    if not restored.audit.ok:
        raise typer.Exit(NEGATIVE)


def _print_line(text: str) -> None:
    """Print an indented line without breaks, so that only the terminal wraps it."""
    out.print(f"  {text}", markup=False, soft_wrap=True)


def _print_suppressions(found: RestoredSuppressions) -> None:
    if not found.is_known:
        _print_line(
            "This database does not know who unsubscribed, bounced or complained after the backup. Before you send, "
            "add these addresses with `mailwright suppression create EMAIL`, for example from your provider."
        )
    if found.kept:
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in sorted(found.kept.items()))
        _print_line(f"Suppressions that are newer than the backup, and are kept: {reasons}.")


def _print_erasures(found: RestoredErasures) -> None:
    if not found.is_known:
        _print_line(
            "This database does not know who was erased after the backup. Erase these people again with `mailwright "
            "contact erase EMAIL`."
        )
    if found.erased:
        _print_line(f"Contacts that were erased after the backup, and are erased again: {found.erased:,}.")
    if found.pending:
        _print_line(
            "These contacts were erased after the backup, and get no more email. A worker erases them again as soon as "
            "a message to them has a result, within a day:"
        )
        for email in found.pending:
            _print_line(f"  {email}")
