"""`mailwright upgrade`: show what an update would change."""

import os
from typing import Annotated

import typer

from mailwright import __version__
from mailwright.checks.upgrade import UpgradeCheck, check_upgrade
from mailwright.cli.exit_codes import NEGATIVE, NEWER_DATABASE
from mailwright.cli.opening import Installation, run
from mailwright.cli.options import Json, command
from mailwright.cli.output import clock_time, out, print_json
from mailwright.domain.clock import SECOND
from mailwright.ops.released_settings import ChangedDefault
from mailwright.schemas.upgrades import upgrade_response
from mailwright.texts.times import duration

app = command()


@app.command()
def upgrade(
    check: Annotated[
        bool, typer.Option("--check", help="Show what this version would change. This is the default.")
    ] = True,
    as_json: Json = False,
) -> None:
    """Show what this version of Mailwright would change before you run it. Changes nothing.

    Lists pending migrations with the tables that they lock and an estimate of how long they take, settings that have no
    effect in this version, changed defaults of settings that you do not set, and the last backup. To upgrade the
    database, run `mailwright db upgrade`. Exit code 0 if nothing changes, 1 if something does or there is no database
    yet, 3 if the database cannot be read, 4 if a newer version upgraded it.
    """

    async def work(at: Installation) -> UpgradeCheck:
        return await check_upgrade(at.settings, at.database, at.clock, os.environ)

    found = run(work, any_schema=True, needs_file=False)
    if as_json:
        print_json(upgrade_response(found, __version__).to_dict())
    else:
        _print(found)
    if found.schema.is_newer:
        raise typer.Exit(NEWER_DATABASE)
    if found.needs_attention:
        raise typer.Exit(NEGATIVE)


def _print(found: UpgradeCheck) -> None:
    if found.problem is not None and found.is_empty:
        out.print(f"✗ {found.problem}", markup=False)
    elif found.is_missing:
        out.print("There is no database yet: `mailwright db upgrade` creates it.")
    elif found.is_empty:
        out.print("The database is empty: `mailwright db upgrade` creates the tables of this version.")
    else:
        _print_migrations(found)
        if found.problem is None:
            _print_backup(found)
    for unknown in found.settings:
        out.print(f"! {unknown.name} {unknown.problem}", markup=False)
    for default in found.changed_defaults:
        out.print(f"! {_default_text(default)}", markup=False)


def _print_migrations(found: UpgradeCheck) -> None:
    schema = found.schema
    out.print(
        f"Mailwright {__version__} needs schema {schema.newest}; the database has {schema.found.revision or 'none'}."
    )
    if found.problem is not None:
        out.print(f"✗ {found.problem}", markup=False)
    elif not schema.pending:
        out.print("✓ No migration is pending.")
    for migration in schema.pending:
        time = "less than a second" if migration.seconds < 1 else f"about {duration(round(migration.seconds) * SECOND)}"
        sending = "sending goes on" if migration.is_safe else "sending stops meanwhile"
        head = f"{'✓' if migration.is_safe else '!'} Migration {migration.revision}: {migration.title}"
        out.print(f"{head} Takes {time}; {sending}.", markup=False)
        for change in migration.changes:
            out.print(f"  {'✓' if change.is_safe else '!'} {change.table}: {change.effect}", markup=False)
    if schema.pending:
        _print_advice(found)


def _print_backup(found: UpgradeCheck) -> None:
    if found.backup is None:
        out.print("! There is no backup. Make one first: `mailwright backup FILE`.")
    elif not found.has_fresh_backup:
        out.print(f"! The last backup is of {clock_time(found.backup.at)}. Make another one first.")
    else:
        out.print(f"✓ The last backup is of {clock_time(found.backup.at)}.")


def _print_advice(found: UpgradeCheck) -> None:
    if found.is_safe_during_traffic:
        out.print("✓ Servers and workers can keep running during `mailwright db upgrade`. Restart them afterwards.")
    else:
        out.print("! Stop all processes of Mailwright before `mailwright db upgrade`.")


def _default_text(changed: ChangedDefault) -> str:
    before, after = changed.before or "empty", changed.after or "empty"
    advice = "" if changed.before is None else f" To keep {before}, set {changed.name}={changed.before}."
    return f"{changed.name} is not set, and its default changes from {before} to {after}.{advice}"
