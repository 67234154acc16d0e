"""`mailwright approval`: sends that wait for the approval of a second person. `list` shows a part of the result."""

from typing import Annotated

import typer

from mailwright.actions import approvals
from mailwright.actions.approvals import SendApprovalResponse
from mailwright.actions.declaration import Cell, Moment, Table, TwoLines
from mailwright.cli.derived import make_group, perform, print_lines
from mailwright.cli.options import Json, Tenant
from mailwright.cli.output import print_json
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import describe_actor

app = make_group(approvals.noun)


@app.command("list")
def list_command(
    tenant: Tenant = tenants.DEFAULT,
    rejected: Annotated[bool, typer.Option("--rejected", help="List the rejected ones instead, newest first.")] = False,
    as_json: Json = False,
) -> None:
    """List the articles, mailouts and sequences that wait for an approval."""
    found = perform(approvals.noun.find(approvals.list_approvals), {}, path={}, tenant=tenant)
    rows, last, described = "sends", "Requested ({zone})", _requested
    nothing = "Nothing of the tenant {tenant} waits for an approval."
    if rejected:
        rows, last, described = "rejected_sends", "Rejected ({zone})", _rejected
        nothing = "Nothing of the tenant {tenant} is rejected."
    if as_json:
        print_json([each.to_dict() for each in getattr(found, rows)])
        return
    columns: dict[str, Cell] = {
        "ID!": "id",
        "Name and kind": lambda each: TwoLines(each.name, each.kind),
        "Recipients": lambda each: f"{each.recipients:,}",
        last: described,
    }
    print_lines([Table(rows, columns, nothing)], found, {"tenant": tenant})


def _requested(approval: SendApprovalResponse) -> tuple[str, Moment]:
    return (f"{describe_actor(approval.requested_by)}, ", Moment(approval.requested_at))


def _rejected(approval: SendApprovalResponse) -> tuple[str, Moment]:
    return (f"{approval.decided_by}, ", Moment(approval.decided_at))
