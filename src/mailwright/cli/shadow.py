"""`mailwright shadow`: the email that shadow mode passed on, and what Mailwright would have done with it."""

from typing import Annotated

import typer

from mailwright.cli.opening import Installation, find_tenant, run
from mailwright.cli.options import Json, Tenant, group
from mailwright.cli.output import clock_time, out, print_json, print_rows
from mailwright.domain.shadow import SmtpMode
from mailwright.outbox import tenants
from mailwright.outbox.shadow import ShadowReport, load_report

app = group("Shadow mode: email that comes over SMTP is passed on to your relay.")


@app.callback()
def shadow() -> None:
    """Make `report` a subcommand. Without a callback, typer would run it as `mailwright shadow`."""


@app.command()
def report(
    tenant: Tenant = tenants.DEFAULT,
    days: Annotated[int, typer.Option(min=1, max=366, help="How many days the report covers.")] = 7,
    as_json: Json = False,
) -> None:
    """Report the emails passed on, and what Mailwright would have suppressed, deduplicated, deferred or refused."""

    async def work(at: Installation) -> tuple[ShadowReport, SmtpMode]:
        owner = await find_tenant(at, tenant)
        return await load_report(at.database, owner.id, at.clock.now(), days), at.settings.smtp_mode

    found, mode = run(work)
    if as_json:
        from mailwright.schemas.shadow import shadow_report_response  # noqa: PLC0415 - slow to import

        print_json(shadow_report_response(found, mode).model_dump(mode="json", by_alias=True))
        return
    out.print(f"Mode: {mode}. Since {clock_time(found.since)}, emails to {found.passed:,} recipients were passed on;")
    out.print(f"the relay accepted {found.accepted:,} and rejected {found.rejected:,}. Mailwright would have found:")
    print_rows(("Finding", "Recipients#"), ((name, f"{count:,}") for name, count in found.findings.items()), nothing="")
    examples = (
        (clock_time(row.created_at), row.recipient, row.findings.replace(" ", ", "), row.detail)
        for row in found.examples[:20]
    )
    print_rows(("At ({zone})!", "Recipient", "Findings", "Detail"), examples, nothing="No findings.")
