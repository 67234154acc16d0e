"""`mailwright domain`: two commands for administrators of the installation. The others are derived from the actions."""

from typing import Annotated

import typer

from mailwright.actions.domains import noun, warn_if_nothing_is_sent
from mailwright.app.sender_domains import SenderDomainService
from mailwright.cli.derived import make_group, print_lines
from mailwright.cli.opening import Installation, find_tenant, run
from mailwright.cli.options import Tenant
from mailwright.cli.output import out
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import CONSOLE

app = make_group(noun)


@app.command()
def delete(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The domain, for example example.com.", show_default=False)
    ],
    *,
    tenant: Tenant = tenants.DEFAULT,
) -> None:
    """Delete a domain and its keys. A tenant whose last verified domain is deleted sends nothing."""

    async def work(at: Installation) -> bool:
        service = _service(at)
        await service.delete((await find_tenant(at, tenant)).id, name, actor=CONSOLE)
        return tenant in {each.name for each in await service.list_restricted()}

    sends_nothing = run(work)
    out.print(f"Deleted the sender domain {name}.", markup=False)
    print_lines(warn_if_nothing_is_sent(tenant, sends_nothing=sends_nothing), None)


@app.command()
def unrestrict(tenant: Tenant = tenants.DEFAULT) -> None:
    """Let a tenant send again after its last verified domain was deleted."""

    async def work(at: Installation) -> None:
        await _service(at).unrestrict(tenant, actor=CONSOLE)

    run(work)
    out.print(f"{tenant} can send from every domain that belongs to no other tenant.", markup=False)


def _service(at: Installation) -> SenderDomainService:
    return SenderDomainService(at.settings, at.database, at.clock)
