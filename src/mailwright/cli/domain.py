"""`mailwright domain`: the domains that a tenant sends from."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Final

import typer
from rich.text import Text

from mailwright.app.sender_domains import SenderDomainService
from mailwright.cli.exit_codes import NEGATIVE
from mailwright.cli.opening import Installation, find_tenant, run
from mailwright.cli.options import Json, Tenant, group
from mailwright.cli.output import aside, clock_time, display, out, print_json, print_rows
from mailwright.domain import address
from mailwright.domain.dkim_rotation import KeyState, keys_in
from mailwright.domain.dns_records import DnsResult, DnsState
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import CONSOLE
from mailwright.outbox.sender_domains import SenderDomain, key_name
from mailwright.schemas.domains import domain_response

app = group("Sender domains of a tenant: DNS records, verification and DKIM keys.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The domain, such as example.com.", show_default=False)]

STATES: Final = {
    DnsState.OK: ("✓", "green"),
    DnsState.MISSING: ("✗", "red"),
    DnsState.WRONG: ("✗", "red"),
    DnsState.UNKNOWN: ("?", "yellow"),
}
Described = tuple[SenderDomain, Sequence[DnsResult], Sequence[str]]


@app.command()
def add(
    name: Name,
    *,
    sender: Annotated[
        str | None,
        typer.Option(help="The default sender, such as `Example <news@example.com>`."),
    ] = None,
    tenant: Tenant = tenants.DEFAULT,
    as_json: Json = False,
) -> None:
    """Add a domain and print the DNS records to publish. From now on the tenant sends only from verified domains."""
    _show(
        _work(tenant, lambda service, owner: service.add(owner, name, sender=sender, actor=CONSOLE), creates=True),
        as_json=as_json,
    )


@app.command()
def check(name: Name, *, tenant: Tenant = tenants.DEFAULT, as_json: Json = False) -> None:
    """Look up the DNS records of a domain. Exit code 1 until it is verified, or if a DKIM record is gone."""
    found = _work(tenant, lambda service, owner: service.check(owner, name, actor=CONSOLE))
    _show(found, as_json=as_json)
    if not found[0].is_verified or found[0].lacks_signing_records:
        raise typer.Exit(NEGATIVE)


@app.command("list")
def list_command(tenant: Tenant = tenants.DEFAULT, as_json: Json = False) -> None:
    """List a tenant's sender domains with their state."""

    async def work(at: Installation) -> tuple[list[Described], bool]:
        service, owner = _service(at), await find_tenant(at, tenant)
        listed = [await _describe(service, each) for each in await service.list_all(owner.id)]
        return listed, await _sends_nothing(service, tenant)

    found, sends_nothing = run(work)
    if as_json:
        print_json([domain_response(*each).to_dict() for each in found])
        return
    rows = (
        (address.both_forms(each.domain), _state(each), clock_time(each.checked_at), address.readable(each.sender))
        for each, *_ in found
    )
    nothing = f"{tenant} has no sender domains. Add one with `mailwright domain add NAME`."
    print_rows(("Domain!", "State!", "Checked ({zone})", "Default sender"), rows, nothing=nothing)
    _warn(tenant, sends_nothing=sends_nothing)


@app.command()
def rotate(
    name: Name,
    *,
    force: Annotated[
        bool, typer.Option("--force", help="Sign with the new keys at once, although their records may be missing.")
    ] = False,
    tenant: Tenant = tenants.DEFAULT,
    as_json: Json = False,
) -> None:
    """Create new DKIM keys. The old ones sign until `domain check` sees the new records."""
    _show(
        _work(tenant, lambda service, owner: service.rotate(owner, name, force=force, actor=CONSOLE)),
        as_json=as_json,
    )


@app.command()
def delete(name: Name, *, tenant: Tenant = tenants.DEFAULT) -> None:
    """Delete a domain and its keys. A tenant whose last verified domain is deleted sends nothing."""

    async def work(at: Installation) -> bool:
        service = _service(at)
        await service.delete((await find_tenant(at, tenant)).id, name, actor=CONSOLE)
        return await _sends_nothing(service, tenant)

    sends_nothing = run(work)
    out.print(f"Deleted the sender domain {name}.", markup=False)
    _warn(tenant, sends_nothing=sends_nothing)


@app.command()
def unrestrict(tenant: Tenant = tenants.DEFAULT) -> None:
    """Let a tenant send again after its last verified domain was deleted."""

    async def work(at: Installation) -> None:
        await _service(at).unrestrict(tenant, actor=CONSOLE)

    run(work)
    out.print(f"{tenant} can send from every domain that belongs to no other tenant.", markup=False)


async def _sends_nothing(service: SenderDomainService, tenant: str) -> bool:
    return tenant in {each.name for each in await service.list_restricted()}


def _warn(tenant: str, *, sends_nothing: bool) -> None:
    if sends_nothing:
        aside.print(
            f"{tenant} has no verified domain left, so it sends nothing. Verify a domain, or lift the restriction with "
            f"`mailwright domain unrestrict --tenant {tenant}`.",
            markup=False,
        )


def _service(at: Installation) -> SenderDomainService:
    return SenderDomainService(at.settings, at.database, at.clock)


def _work(
    tenant: str, change: Callable[[SenderDomainService, int], Awaitable[SenderDomain]], *, creates: bool = False
) -> Described:
    async def work(at: Installation) -> Described:
        service, owner = _service(at), await find_tenant(at, tenant)
        return await _describe(service, await change(service, owner.id))

    return run(work, creates=creates)


async def _describe(service: SenderDomainService, domain: SenderDomain) -> Described:
    return domain, await service.records(domain), await service.notes(domain)


def _show(found: Described, *, as_json: bool) -> None:
    domain, records, notes = found
    if as_json:
        print_json(domain_response(*found).to_dict())
        return
    shown = address.both_forms(domain.domain)
    aside.print(_state(domain), shown, f"· default sender {address.readable(domain.sender)}", markup=False)
    for each in records:
        shape, colour = STATES[each.state]
        out.print(Text(f"{shape} {each.record.type} {each.record.name}", style=colour), soft_wrap=True)
        for text in filter(None, (each.record.value, each.record.hint)):
            out.print(f"  {text}", markup=False, soft_wrap=True, highlight=False)
        aside.print(f"  {each.detail}", markup=False, soft_wrap=True)
    for note in notes:
        aside.print(note, markup=False, soft_wrap=True)
    for key in keys_in(domain.keys, KeyState.RETIRED):
        record = key_name(key, domain.domain)
        aside.print(f"Keep the TXT record {record} until {clock_time(key.removable_at)} {display.zone}.", markup=False)


def _state(domain: SenderDomain) -> Text:
    if domain.is_verified and domain.lacks_signing_records:
        return Text("✗ verified, but DKIM records are missing or wrong", style="red")
    if domain.is_rotating:
        return Text("↻ verified, rotating keys", style="yellow")
    return Text("✓ verified", style="green") if domain.is_verified else Text("○ pending", style="cyan")
