"""`mailwright domain`: two commands that show more than their action returns. The others are derived."""

from typing import Annotated

import typer

from mailwright.actions import domains
from mailwright.actions.domains import noun, warn_if_nothing_is_sent
from mailwright.cli.derived import make_group, perform, print_lines
from mailwright.cli.options import Tenant
from mailwright.cli.output import out
from mailwright.outbox import tenants

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
    perform(noun.find(domains.delete), {}, path={"domain_name": name}, tenant=tenant)
    listed = perform(noun.find(domains.list_domains), {}, path={}, tenant=tenant)
    out.print(f"Deleted the sender domain {name}.", markup=False)
    print_lines(warn_if_nothing_is_sent(tenant, sends_nothing=listed.sends_nothing), None)


@app.command()
def unrestrict(tenant: Tenant = tenants.DEFAULT) -> None:
    """Let a tenant send again after its last verified domain was deleted."""
    perform(noun.find(domains.unrestrict), {}, path={"tenant_name": tenant})
    out.print(f"{tenant} can send from every domain that belongs to no other tenant.", markup=False)
