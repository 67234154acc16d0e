"""`mailwright dmarc import`, which reads files. The other commands are derived from the actions."""

from pathlib import Path
from typing import Annotated

import typer

from mailwright.actions.dmarc_reports import dmarc_import_response, noun
from mailwright.app.dmarc import make_dmarc_recorder
from mailwright.cli.derived import make_group
from mailwright.cli.exit_codes import NEGATIVE
from mailwright.cli.opening import Installation, find_tenant, run
from mailwright.cli.options import Json, Tenant
from mailwright.cli.output import aside, out, print_json
from mailwright.domain.address import both_forms
from mailwright.events.dmarc.recorder import ImportedReport, ImportOutcome
from mailwright.events.dmarc.unpack import MAX_FILE_BYTES
from mailwright.outbox import tenants

app = make_group(noun)


@app.command("import")
def import_command(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE", exists=True, dir_okay=False, help="XML, gzip, zip, or a saved email.", show_default=False
        ),
    ],
    tenant: Tenant = tenants.DEFAULT,
    as_json: Json = False,
) -> None:
    """Store the reports in files. A report that is already stored is skipped. Exit code 1 if one was refused."""

    async def work(at: Installation) -> list[ImportedReport]:
        owner = await find_tenant(at, tenant)
        recorder = make_dmarc_recorder(at.settings, at.database, at.clock)
        found: list[ImportedReport] = []
        for file in files:
            with file.open("rb") as opened:
                content = opened.read(MAX_FILE_BYTES + 1)
            found += await recorder.import_file(owner.id, content, file.name)
        return found

    found = run(work)
    if as_json:
        print_json(dmarc_import_response(found).to_dict())
    else:
        for each in found:
            subject = f"{each.reporter} about {both_forms(each.domain)}" if each.reporter else each.name
            out.print(f"{each.outcome}: {subject}", markup=False, soft_wrap=True, highlight=False)
            if each.reason is not None:
                aside.print(f"  {each.reason}", markup=False, soft_wrap=True)
    if any(each.outcome is ImportOutcome.REFUSED for each in found):
        raise typer.Exit(NEGATIVE)
