"""`mailwright approval`: sends that wait for the approval of a second person."""

from typing import Annotated

import typer

from mailwright.actions.approvals import send_approval_response
from mailwright.cli.opening import Installation, find_tenant, run
from mailwright.cli.options import Json, Tenant, group
from mailwright.cli.output import clock_time, out, print_json, print_rows, two_lines
from mailwright.domain.approval import ApprovalStatus
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import CONSOLE, describe_actor
from mailwright.sources.send_approvals import SendApproval, SendApprovals

app = group("Articles, mailouts and sequences that wait for a second person, who decides in the dashboard.")


ApprovalId = Annotated[int, typer.Argument(metavar="ID", min=1)]


@app.command("list")
def list_command(
    tenant: Tenant = tenants.DEFAULT,
    rejected: Annotated[bool, typer.Option("--rejected", help="List the rejected ones instead, newest first.")] = False,
    as_json: Json = False,
) -> None:
    """List the articles, mailouts and sequences that wait for an approval."""

    async def work(at: Installation) -> list[SendApproval]:
        owner, approvals = await find_tenant(at, tenant), SendApprovals(at.database, at.clock)
        return await (approvals.list_rejected(owner.id) if rejected else approvals.list_waiting(owner.id))

    found = run(work)
    if as_json:
        print_json([send_approval_response(each).to_dict() for each in found])
        return
    described, last = (_rejected, "Rejected ({zone})") if rejected else (_requested, "Requested ({zone})")
    rows = ((str(each.id), two_lines(each.name, each.kind), f"{each.recipients:,}", described(each)) for each in found)
    nothing = f"Nothing of the tenant {tenant} {'is rejected' if rejected else 'waits for an approval'}."
    print_rows(("ID!", "Name and kind", "Recipients", last), rows, nothing=nothing)


@app.command()
def show(
    approval_id: ApprovalId,
    tenant: Tenant = tenants.DEFAULT,
    as_json: Json = False,
) -> None:
    """Show a request for approval: the content, the number of recipients and the decision."""

    async def work(at: Installation) -> SendApproval:
        owner = await find_tenant(at, tenant)
        return await SendApprovals(at.database, at.clock).find(owner.id, approval_id)

    _print(run(work), as_json=as_json)


@app.command()
def withdraw(
    approval_id: ApprovalId,
    reason: Annotated[str, typer.Option(help="Why the rejection is lifted; required after a rejection.")] = "",
    tenant: Tenant = tenants.DEFAULT,
    as_json: Json = False,
) -> None:
    """Withdraw a request for approval, or lift a rejection with --reason.

    The rule of the tenant then decides whether the next attempt to send needs an approval.
    """

    async def work(at: Installation) -> SendApproval:
        owner, approvals = await find_tenant(at, tenant), SendApprovals(at.database, at.clock)
        return await approvals.withdraw(CONSOLE, owner.id, approval_id, reason=reason, may_lift=True)

    _print(run(work), as_json=as_json)


def _print(found: SendApproval, *, as_json: bool) -> None:
    if as_json:
        print_json(send_approval_response(found).to_dict())
        return
    is_decision = found.status in (ApprovalStatus.APPROVED, ApprovalStatus.REJECTED)
    decision = f"{found.status} by {found.decided_by}" if is_decision else found.status.value
    out.print(f"{found.kind.capitalize()} {found.name}, {found.recipients:,} recipients: {decision}", markup=False)
    out.print(f"Requested by {_requested(found)}", markup=False)
    if found.comment:
        out.print(f"Comment: {found.comment}", markup=False)
    for name, value in found.content.items():
        out.print(f"{name}: {value}", markup=False, highlight=False)


def _requested(approval: SendApproval) -> str:
    return f"{describe_actor(approval.requested_by)}, {clock_time(approval.requested_at)}"


def _rejected(approval: SendApproval) -> str:
    return f"{approval.decided_by}, {clock_time(approval.decided_at)}"
