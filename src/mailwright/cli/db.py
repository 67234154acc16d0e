"""`mailwright db`: the database schema."""

from typing import Annotated

import typer

from mailwright.app.restore_checks import forget_missing_file, mark_new_database, require_known_file
from mailwright.app.sending import PausedSends, release_sending
from mailwright.cli.opening import Installation, run, settings_for_command
from mailwright.cli.options import Json, group
from mailwright.cli.output import out, print_json
from mailwright.cli.quarantine import print_paused
from mailwright.domain.clock import utc_text
from mailwright.domain.errors import MailwrightError
from mailwright.outbox.audit_log import CONSOLE
from mailwright.outbox.sending_hold import DueMessages, SendingHold, find_hold
from mailwright.schemas.sending_hold import SchemaStatusResponse
from mailwright.storage.database import Database, is_missing
from mailwright.storage.migrate import current_revision, upgrade
from mailwright.storage.postgresql_url import shown
from mailwright.storage.revision import newest_revision
from mailwright.storage.schema_state import SchemaOutdated, SchemaStatus, load_schema, require_usable

app = group("Upgrade the database schema, or show its version.")


@app.command("upgrade")
def upgrade_command(
    new: Annotated[
        bool, typer.Option("--new", help="Start with an empty database if the previous one is missing.")
    ] = False,
) -> None:
    """Create the database, or upgrade its schema. Safe to run repeatedly and from several machines at once."""
    if new:
        settings = settings_for_command()
        forget_missing_file(settings, Database(settings.database_url))
    out.print(run(_upgrade, any_schema=True, needs_file=False), markup=False, soft_wrap=True)


@app.command()
def release(
    due: Annotated[
        DueMessages,
        typer.Option(
            help="For messages that were due when sending was put on hold: `in-doubt` marks them as in doubt, so that "
            "you decide about each; `send` sends them now, although some may have been sent before."
        ),
    ] = DueMessages.IN_DOUBT,
) -> None:
    """Resume sending after a hold because the database was restored or replaced. `db status` shows the reason.

    Running and scheduled campaigns, and sequences, are paused. Resume each after you have checked its report.
    """
    doubted, paused = run(lambda at: _release(at, due))
    out.print("Sending resumed.")
    if doubted:
        out.print(f"Messages in doubt: {doubted:,}. List them with `mailwright message list --status IN_DOUBT`.")
    print_paused(paused)


@app.command()
def status(as_json: Json = False) -> None:
    """Show the schema version, the version that this release needs, and whether sending is on hold.

    The exit code is 1 if the versions differ or sending is on hold.
    """
    (current, problem), newest = run(_status, any_schema=True), newest_revision()
    hold = run(_hold) if problem is None else None
    if as_json:
        shown = SchemaStatusResponse(
            current=current, newest=newest, ok=problem is None, problem=problem, sending_held=hold
        )
        print_json(shown.to_dict())
    elif problem is not None:
        out.print(f"✗ {problem}", markup=False)
    elif current == newest:
        out.print(f"✓ The schema is up to date ({newest}).")
    else:
        out.print(f"✓ A newer version upgraded the schema to {current}. This version ({newest}) can run beside it.")
    if hold is not None and not as_json:
        out.print(
            f"✗ Sending has been on hold since {utc_text(hold.since)}: {hold.detail} "
            "See what may have been sent with `mailwright quarantine list`, then resume with `mailwright quarantine "
            "release`, `mailwright quarantine drop` or `mailwright db release`."
        )
    if problem is not None or hold is not None:
        raise SystemExit(1)


async def _upgrade(at: Installation) -> str:
    """Return what was done."""
    require_known_file(at.settings, at.database)
    is_new = is_missing(at.database)
    before = await load_schema(at.database)
    await upgrade(at.database)
    if before.status is SchemaStatus.EMPTY:
        await mark_new_database(at.settings, at.database, at.clock)
    after = await current_revision(at.database)
    where = shown(at.database.url)
    match before.status:
        case SchemaStatus.EMPTY if is_new:
            return f"Database {where} created, with schema {after}."
        case SchemaStatus.EMPTY:
            return f"Tables created in the empty database {where}, with schema {after}."
        case SchemaStatus.UNFINISHED:
            return f"An unfinished upgrade was completed. The schema is now up to date ({after})."
        case _ if before.revision == after:
            return f"The schema is already up to date ({after})."
    return f"Schema upgraded from {before.revision} to {after}."


async def _status(at: Installation) -> tuple[str | None, str | None]:
    """Return the revision of the database, and why this version cannot use it, if it cannot."""
    current = await current_revision(at.database)
    try:
        await require_usable(at.database)
    except SchemaOutdated as error:
        return current, f"{error} Run `mailwright db upgrade`."
    except MailwrightError as error:
        return current, str(error)
    return current, None


async def _hold(at: Installation) -> SendingHold | None:
    return await find_hold(at.database)


async def _release(at: Installation, due: DueMessages) -> tuple[int, PausedSends]:
    return await release_sending(at.database, at.clock, actor=CONSOLE, due=due)
