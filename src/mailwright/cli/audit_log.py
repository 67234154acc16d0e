"""`mailwright audit-log`: the actions of users, API keys and the console."""

from typing import Annotated

import typer

from mailwright.cli.opening import Installation, find_tenant, run
from mailwright.cli.options import Json, Limit, command
from mailwright.cli.output import clock_time, print_json, print_rows, two_lines
from mailwright.outbox.audit_log import AuditEntry, list_entries
from mailwright.schemas.audit_log import AuditEntryResponse

app = command()


@app.command()
def audit_log(
    *,
    tenant: Annotated[
        str | None, typer.Option("--tenant", help="Only actions in this tenant.", show_default=False)
    ] = None,
    subject: Annotated[
        str | None, typer.Option(help="Only actions on this object, for example a campaign id.", show_default=False)
    ] = None,
    limit: Limit = 50,
    as_json: Json = False,
) -> None:
    """List the actions of users, API keys and the console."""

    async def work(at: Installation) -> list[AuditEntry]:
        tenant_id = None if tenant is None else (await find_tenant(at, tenant)).id
        return await list_entries(at.database, tenant_id=tenant_id, limit=limit, subject=subject)

    found = run(work)
    if as_json:
        print_json([AuditEntryResponse.model_validate(each).to_dict() for each in found])
        return
    rows = (
        (
            two_lines(clock_time(each.created_at), each.actor),
            two_lines(f"{each.action}  {each.subject}", _details(each)),
        )
        for each in found
    )
    print_rows(("Time ({zone}) and actor!", "Action and subject"), rows, nothing="The audit log is empty.")


def _details(done: AuditEntry) -> str:
    return ", ".join(f"{name}: {value}" for name, value in done.detail.items() if value is not None)
