"""`mailwright suppression`: the suppression list."""

from typing import Annotated

import typer

from mailwright.audience import suppressions
from mailwright.audience.suppressions import Suppression
from mailwright.cli.opening import Installation, find_tenant, run
from mailwright.cli.options import Json, Limit, Tenant, group
from mailwright.cli.output import clock_time, out, print_json, print_rows
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import CONSOLE
from mailwright.schemas.suppressions import SuppressionResponse

app = group("The suppression list.")

Email = Annotated[str, typer.Argument(metavar="ADDRESS", help="The email address.", show_default=False)]


@app.command("list")
def list_command(tenant: Tenant = tenants.DEFAULT, limit: Limit = 100, as_json: Json = False) -> None:
    """List a tenant's suppressed addresses."""

    async def work(at: Installation) -> list[Suppression]:
        owner = await find_tenant(at, tenant)
        return await suppressions.list_page(at.database, owner.id, limit=limit)

    found = run(work)
    if as_json:
        print_json([SuppressionResponse.model_validate(entry).to_dict() for entry in found])
        return
    rows = ((entry.email, entry.list_key, entry.reason, entry.source, clock_time(entry.created_at)) for entry in found)
    print_rows(
        ("Address", "List!", "Reason", "Source", "Since ({zone})!"),
        rows,
        nothing=f"The suppression list of {tenant} is empty.",
    )


@app.command()
def create(
    email: Email,
    reason: Annotated[str, typer.Option(help="The reason, shown with each message that is refused.")] = "manual",
    list_key: Annotated[
        str, typer.Option("--list", help="The scope: * for all email, general for all bulk email, or a list key.")
    ] = suppressions.ALL_MESSAGES,
    tenant: Tenant = tenants.DEFAULT,
) -> None:
    """Suppress an address, for all email or for one list. Messages that already wait are stopped too."""

    async def work(at: Installation) -> tuple[Suppression, bool]:
        owner = await find_tenant(at, tenant)
        return await suppressions.add(
            at.database, at.clock, owner.id, email, reason=reason, source="cli", list_key=list_key, actor=CONSOLE
        )

    entry, is_new = run(work, creates=True)
    if is_new:
        out.print(f"{entry.email} is suppressed.", markup=False)
    else:
        out.print(f"{entry.email} was already suppressed: {entry.reason}.", markup=False)


@app.command()
def delete(
    email: Email,
    list_key: Annotated[str | None, typer.Option("--list", help="Only this scope.", show_default=False)] = None,
    tenant: Tenant = tenants.DEFAULT,
) -> None:
    """Remove a suppression. Messages that it refused are not retried automatically."""

    async def work(at: Installation) -> None:
        owner = await find_tenant(at, tenant)
        await suppressions.remove(at.database, owner.id, email, list_key=list_key, actor=CONSOLE, clock=at.clock)

    run(work)
    out.print(f"{email} is no longer suppressed.", markup=False)
