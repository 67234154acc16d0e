"""`mailwright db`: the database schema."""

from mailwright.cli.opening import Installation, run
from mailwright.cli.options import Json, group
from mailwright.cli.output import out, print_json
from mailwright.storage.migrate import current_revision, newest_revision, upgrade

app = group("Upgrade the database schema, or show its version.")


@app.command("upgrade")
def upgrade_command() -> None:
    """Upgrade the schema. Safe to run repeatedly and from several machines at once."""
    before, after = run(_upgrade, creates=True, any_schema=True)
    if before == after:
        out.print(f"The schema is already up to date ({after}).")
    else:
        out.print(f"Schema upgraded from {before or 'empty'} to {after}.")


@app.command()
def status(as_json: Json = False) -> None:
    """Show the schema version and the one that this release needs. Exit code 1 if they differ."""
    current, newest = run(_status, any_schema=True), newest_revision()
    if as_json:
        print_json({"current": current, "newest": newest, "ok": current == newest})
    elif current == newest:
        out.print(f"✓ The schema is up to date ({newest}).")
    else:
        out.print(f"✗ The schema is {current or 'empty'}, this version needs {newest}. Run `mailwright db upgrade`.")
    if current != newest:
        raise SystemExit(1)


async def _upgrade(at: Installation) -> tuple[str | None, str | None]:
    before = await current_revision(at.database)
    await upgrade(at.database)
    return before, await current_revision(at.database)


async def _status(at: Installation) -> str | None:
    return await current_revision(at.database)
