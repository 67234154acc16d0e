"""`mailwright db`: the form of the database."""

from mailwright.cli.opening import Installation, run
from mailwright.cli.options import Json, group
from mailwright.cli.output import out, print_json
from mailwright.storage.migrate import current_revision, newest_revision, upgrade

app = group("Bring the database to the newest form, or show its form.")


@app.command("upgrade")
def upgrade_command() -> None:
    """Bring the database to the newest form. Safe to run again, and from several machines at once."""
    before, after = run(_upgrade, creates=True, of_any_form=True)
    if before == after:
        out.print(f"The database has the newest form already: {after}.")
    else:
        out.print(f"The database now has the form {after}; it {f'had {before}' if before else 'was empty'}.")


@app.command()
def status(as_json: Json = False) -> None:
    """Show which form the database has, and which one this version needs. Exit 1 if they differ."""
    current, newest = run(_status, of_any_form=True), newest_revision()
    if as_json:
        print_json({"current": current, "newest": newest, "ok": current == newest})
    elif current == newest:
        out.print(f"✓ The database has the newest form: {newest}.")
    else:
        out.print(f"✗ The database has the form {current or 'none'}, the newest is {newest}: `mailwright db upgrade`.")
    if current != newest:
        raise SystemExit(1)


async def _upgrade(at: Installation) -> tuple[str | None, str | None]:
    before = await current_revision(at.database)
    await upgrade(at.database)
    return before, await current_revision(at.database)


async def _status(at: Installation) -> str | None:
    return await current_revision(at.database)
