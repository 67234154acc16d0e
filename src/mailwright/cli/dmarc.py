"""`mailwright dmarc import`, which reads several files. The other commands are derived from the actions."""

from pathlib import Path
from typing import Annotated

import typer

from mailwright.actions.dmarc_reports import DmarcImportResponse, import_file, noun
from mailwright.cli.derived import make_group, perform
from mailwright.cli.exit_codes import NEGATIVE
from mailwright.cli.options import Json, Tenant
from mailwright.cli.output import aside, out, print_json
from mailwright.domain.address import both_forms
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

    action = noun.find(import_file)
    results = [perform(action, {"fileName": each.name}, path={}, tenant=tenant, upload=each) for each in files]
    found = [report for result in results for report in result.reports]
    if as_json:
        counts = {name: sum(getattr(each, name) for each in results) for name in ("stored", "repeated", "refused")}
        print_json(DmarcImportResponse(**counts, reports=found).to_dict())
    else:
        for each in found:
            subject = f"{each.reporter} about {both_forms(each.domain)}" if each.reporter else each.name
            out.print(f"{each.outcome}: {subject}", markup=False, soft_wrap=True, highlight=False)
            if each.reason is not None:
                aside.print(f"  {each.reason}", markup=False, soft_wrap=True)
    if any(result.refused for result in results):
        raise typer.Exit(NEGATIVE)
