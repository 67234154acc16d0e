"""`mailwright suppressions`: addresses that a tenant does not write to, whoever asks."""

from typing import Annotated

import typer

from mailwright.audience import suppressions
from mailwright.audience.suppressions import Suppression
from mailwright.cli.opening import Installation, run
from mailwright.cli.options import Json, Limit, Tenant, group
from mailwright.cli.output import clock_time, out, print_json, print_rows
from mailwright.domain.clock import isoformat
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import CONSOLE

app = group("Addresses that are not written to.")

Email = Annotated[str, typer.Argument(metavar="ADDRESS", help="In any spelling.", show_default=False)]


@app.command("list")
def list_command(tenant: Tenant = tenants.DEFAULT, limit: Limit = 100, as_json: Json = False) -> None:
    """List a tenant's suppressed addresses."""

    async def work(at: Installation) -> list[Suppression]:
        owner = await tenants.find(at.database, tenant)
        return await suppressions.list_page(at.database, owner.id, limit=limit)

    found = run(work)
    if as_json:
        print_json([_described(entry) for entry in found])
        return
    rows = ((entry.email, entry.list_key, entry.reason, entry.source, clock_time(entry.created_at)) for entry in found)
    print_rows(("Address", "List!", "Reason", "Source", "Since (UTC)!"), rows, nothing=f"{tenant} suppresses nobody.")


@app.command()
def add(
    email: Email,
    reason: Annotated[str, typer.Option(help="Why; shown wherever a mail is refused for it.")] = "manual",
    list_key: Annotated[
        str, typer.Option("--list", help="What is not sent: * nothing at all, general no bulk mail, or a list's key.")
    ] = suppressions.ALL_MESSAGES,
    tenant: Tenant = tenants.DEFAULT,
) -> None:
    """Never write to this address again, or not about one list. Also stops what waits for it already."""

    async def work(at: Installation) -> tuple[Suppression, bool]:
        owner = await tenants.find(at.database, tenant)
        return await suppressions.add(
            at.database, at.clock, owner.id, email, reason=reason, source="cli", list_key=list_key, actor=CONSOLE
        )

    entry, is_new = run(work, creates=True)
    if is_new:
        out.print(f"{entry.email} is not written to any more.", markup=False)
    else:
        out.print(f"{entry.email} was on the list already: {entry.reason}.", markup=False)


@app.command()
def remove(
    email: Email,
    list_key: Annotated[
        str | None, typer.Option("--list", help="Only this entry; all of them if not given.", show_default=False)
    ] = None,
    tenant: Tenant = tenants.DEFAULT,
) -> None:
    """Write to this address again. Mails that were refused stay refused: retry them by hand."""

    async def work(at: Installation) -> None:
        owner = await tenants.find(at.database, tenant)
        await suppressions.remove(at.database, owner.id, email, list_key=list_key, actor=CONSOLE, clock=at.clock)

    run(work)
    out.print(f"{email} may be written to again.", markup=False)


def _described(entry: Suppression) -> dict[str, object]:
    return {
        "email": entry.email,
        "listKey": entry.list_key,
        "reason": entry.reason,
        "source": entry.source,
        "createdAt": isoformat(entry.created_at),
    }
