"""`mailwright contact`: commands that read and write files. The others are derived from the actions."""

from pathlib import Path
from typing import Annotated

import typer

from mailwright.actions.contacts import export, noun
from mailwright.cli import contact_files, contact_switch
from mailwright.cli.derived import make_group, perform
from mailwright.cli.options import Tenant
from mailwright.outbox import tenants

app = make_group(noun)


@app.command("export")
def export_command(
    *,
    list_key: Annotated[
        str | None, typer.Option("--list", help="Only subscribers of this list.", show_default=False)
    ] = None,
    segment: Annotated[str | None, typer.Option(help="Only members of this segment.", show_default=False)] = None,
    json_lines: Annotated[bool, typer.Option("--jsonl", help="JSON lines instead of CSV.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write.", show_default="standard output")
    ] = None,
    tenant: Tenant = tenants.DEFAULT,
) -> None:
    """Export contacts with lists, tags and attributes. Importing the unchanged CSV changes nothing."""
    wanted = {"format": "jsonl" if json_lines else "csv", "listKey": list_key, "segmentKey": segment}
    given = {name: value for name, value in wanted.items() if value is not None}
    perform(noun.find(export), given, path={}, tenant=tenant, target=output)


app.command("import")(contact_files.import_command)
app.command("import-from")(contact_switch.import_from_command)
