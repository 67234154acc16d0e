"""`mailwright approval`: what waits for the approval of a second person."""

from typing import Annotated

import typer

from mailwright.cli.opening import Installation, find_tenant, run
from mailwright.cli.options import Json, Tenant, group
from mailwright.cli.output import clock_time, out, print_json, print_rows, two_lines
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import describe_actor
from mailwright.schemas.approvals import send_approval_response
from mailwright.sources.send_approvals import SendApproval, SendApprovals

app = group("Articles, mailouts and sequences that wait for a second person, who decides in the dashboard.")


@app.command("list")
def list_command(tenant: Tenant = tenants.DEFAULT, as_json: Json = False) -> None:
    """List the articles, mailouts and sequences that wait for an approval."""

    async def work(at: Installation) -> list[SendApproval]:
        owner = await find_tenant(at, tenant)
        return await SendApprovals(at.database, at.clock).list_waiting(owner.id)

    found = run(work)
    if as_json:
        print_json([send_approval_response(each).to_dict() for each in found])
        return
    rows = ((str(each.id), two_lines(each.name, each.kind), f"{each.recipients:,}", _requested(each)) for each in found)
    nothing = f"Nothing of the tenant {tenant} waits for an approval."
    print_rows(("ID!", "Name and kind", "Recipients", "Requested ({zone})"), rows, nothing=nothing)


@app.command()
def show(
    approval_id: Annotated[int, typer.Argument(metavar="ID", min=1)],
    tenant: Tenant = tenants.DEFAULT,
    as_json: Json = False,
) -> None:
    """Show a request for an approval: what would be sent, to how many, and the decision."""

    async def work(at: Installation) -> SendApproval:
        owner = await find_tenant(at, tenant)
        return await SendApprovals(at.database, at.clock).find(owner.id, approval_id)

    found = run(work)
    if as_json:
        print_json(send_approval_response(found).to_dict())
        return
    decision = f"{found.status} by {found.decided_by}" if found.decided_by else found.status.value
    out.print(f"{found.kind.capitalize()} {found.name}, {found.recipients:,} recipients: {decision}", markup=False)
    out.print(f"Requested by {_requested(found)}", markup=False)
    for name, value in found.content.items():
        out.print(f"{name}: {value}", markup=False, highlight=False)


def _requested(approval: SendApproval) -> str:
    return f"{describe_actor(approval.requested_by)}, {clock_time(approval.requested_at)}"
