"""`mailwright provider`: named providers with their own credentials, and the routes of tenants."""

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from mailwright.app.named_providers import ProviderService, is_secret, named_provider
from mailwright.app.provider_test import advice_for
from mailwright.cli.exit_codes import NEGATIVE
from mailwright.cli.opening import Installation, run
from mailwright.cli.options import Json, Tenant, Yes, confirm, group
from mailwright.cli.output import aside, clock_time, out, print_json, print_rows
from mailwright.domain.errors import InvalidInput
from mailwright.domain.message import Source
from mailwright.domain.provider_routes import ALL_SOURCES, INSTALLATION, parse_source
from mailwright.ops.provider_kinds import KINDS
from mailwright.ops.settings import Settings
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import CONSOLE
from mailwright.outbox.provider_configurations import ProviderConfiguration, StoredProviders
from mailwright.providers.protocol import ProviderCheck
from mailwright.providers.route import providers_of
from mailwright.schemas.providers import (
    NamedProviderResponse,
    ProviderCheckResponse,
    named_provider_response,
    provider_route_response,
)

app = group("Providers with credentials of their own, and which tenants use them.")

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The name of the provider, for example acme-postmark.", show_default=False)
]
Values = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A setting that is not a secret. Can be repeated."),
]
FromInput = Annotated[
    bool, typer.Option("--stdin", help="Read NAME=VALUE lines, also with secrets, from standard input.")
]
SourceOption = Annotated[
    str, typer.Option("--source", help=f"Only messages of this source: {', '.join(Source)}.", show_default=ALL_SOURCES)
]


@app.command("list")
def list_command(as_json: Json = False) -> None:
    """List the providers and the tenants that use them."""
    settings, found = run(_load)
    if as_json:
        print_json([_response(each, found, settings).to_dict() for each in found.configurations])
        return
    rows = [(INSTALLATION, ", ".join(providers_of(settings)), "everything else", "")]
    for each in found.configurations:
        state = "✗ cannot be used" if named_provider(each, settings).problem else ""
        rows.append((each.name, each.kind, _used_by(each.name, found) or "nobody", state))
    print_rows(("Name!", "Kind", "Used by", "State"), rows, nothing="")


@app.command()
def show(name: Name, as_json: Json = False) -> None:
    """Show a provider: its settings without secrets, its webhook URL and its routes."""

    async def work(at: Installation) -> tuple[Settings, ProviderConfiguration, StoredProviders]:
        service = _service(at)
        return at.settings, await service.find(name), await service.list_all()

    settings, found, everything = run(work)
    shown = _response(found, everything, settings)
    if as_json:
        print_json(shown.to_dict())
        return
    out.print(f"{shown.name} ({shown.kind})", markup=False)
    if shown.problem is not None:
        out.print(f"✗ Cannot be used: {shown.problem}", markup=False)
    for each in shown.settings:
        out.print(f"{each.name}: {'set' if each.is_secret else each.value}", markup=False, soft_wrap=True)
    if shown.webhook_url is not None:
        out.print(f"Events: {shown.webhook_url}", markup=False, soft_wrap=True)
    out.print(f"Used by: {_used_by(name, everything) or 'nobody'}", markup=False)
    out.print(f"Changed by {found.updated_by} at {clock_time(found.updated_at)}", markup=False)


@app.command()
def create(
    name: Name,
    *,
    kind: Annotated[str, typer.Option(help=f"One of {', '.join(KINDS)}.", show_default=False)],
    values: Values = None,
    from_input: FromInput = False,
) -> None:
    """Create a provider. Nobody uses it until `mailwright provider route` names it."""
    given = _given(values, from_input=from_input)

    async def work(at: Installation) -> None:
        await _service(at).create(name, kind, given, actor=CONSOLE)

    run(work, creates=True)
    out.print(f"Provider {name} created. Test it with `mailwright provider test {name}`.", markup=False)


@app.command()
def edit(
    name: Name,
    *,
    values: Values = None,
    unset: Annotated[
        list[str] | None, typer.Option("--unset", metavar="NAME", help="Remove a setting. Can be repeated.")
    ] = None,
    from_input: FromInput = False,
) -> None:
    """Change settings of a provider and keep the others. Workers use them within seconds."""
    given: dict[str, str | None] = {**_given(values, from_input=from_input), **dict.fromkeys(unset or ())}
    if not given:
        raise InvalidInput("Nothing to change. Use --set, --unset or --stdin.")

    async def work(at: Installation) -> None:
        await _service(at).edit(name, given, actor=CONSOLE)

    run(work)
    out.print(f"Provider {name} changed. Workers use it within seconds.", markup=False)


@app.command()
def delete(name: Name, yes: Yes = False) -> None:
    """Delete a provider that no route names."""
    confirm(f"Delete the provider {name}?", yes=yes)

    async def work(at: Installation) -> None:
        await _service(at).delete(name, actor=CONSOLE)

    run(work)
    out.print(f"Provider {name} deleted.", markup=False)


@app.command("test")
def check_connection(name: Name, as_json: Json = False) -> None:
    """Connect and sign in to a provider without sending anything. Exit code 1 if that fails."""

    async def work(at: Installation) -> ProviderCheck:
        return await _service(at).test(name)

    found = run(work)
    advice = advice_for(found)
    if as_json:
        print_json(ProviderCheckResponse(is_ok=found.is_ok, summary=found.summary, advice=advice).to_dict())
    else:
        out.print(f"{'✓' if found.is_ok else '✗'} {found.summary}", markup=False)
        if advice:
            aside.print(advice, markup=False)
    if not found.is_ok:
        raise typer.Exit(NEGATIVE)


@app.command()
def routes(as_json: Json = False) -> None:
    """List the routes: which provider sends the messages of each tenant and source."""
    _, found = run(_load)
    if as_json:
        print_json([provider_route_response(each).to_dict() for each in found.routes])
        return
    rows = ((each.tenant, each.source or ALL_SOURCES, each.provider or INSTALLATION) for each in found.routes)
    print_rows(("Tenant!", "Source", "Provider"), rows, nothing="Everything goes through the installation's provider.")


@app.command()
def route(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help=f"The provider; {INSTALLATION} for that of the installation."),
    ],
    *,
    tenant: Tenant = tenants.DEFAULT,
    source: SourceOption = ALL_SOURCES,
) -> None:
    """Send the messages of a tenant, or of one of its sources, through a provider."""
    wanted = parse_source(source)

    async def work(at: Installation) -> None:
        owner = await tenants.find(at.database, tenant)
        provider = None if name == INSTALLATION else name
        await _service(at).set_route(owner.id, wanted, provider, actor=CONSOLE)

    run(work)
    out.print(f"{tenant}, {source}: through {name}. Workers use the route within seconds.", markup=False)


@app.command()
def unroute(*, tenant: Tenant = tenants.DEFAULT, source: SourceOption = ALL_SOURCES) -> None:
    """Delete the route of a tenant, or of one of its sources."""
    wanted = parse_source(source)

    async def work(at: Installation) -> None:
        await _service(at).delete_route((await tenants.find(at.database, tenant)).id, wanted, actor=CONSOLE)

    run(work)
    out.print(f"Route of {tenant}, {source} deleted.", markup=False)


def _service(at: Installation) -> ProviderService:
    return ProviderService(at.settings, at.database, at.clock)


async def _load(at: Installation) -> tuple[Settings, StoredProviders]:
    return at.settings, await _service(at).list_all()


def _response(found: ProviderConfiguration, everything: StoredProviders, settings: Settings) -> NamedProviderResponse:
    problem = named_provider(found, settings).problem
    return named_provider_response(found, everything, problem=problem, public_url=settings.public_url)


def _used_by(name: str, found: StoredProviders) -> str:
    uses = [(each.tenant, each.source) for each in found.routes if each.provider == name]
    return ", ".join(tenant if source is None else f"{tenant} ({source})" for tenant, source in uses)


def _given(values: Sequence[str] | None, *, from_input: bool) -> dict[str, str]:
    """Return the settings of the options and of standard input.

    Secrets are not options, because other users of the machine can see command options.
    """
    given = _pairs(values or (), "--set")
    if secret := next((name for name in given if _is_secret(name)), None):
        raise InvalidInput(f"{secret} is a secret. Pass it with --stdin, as a line {secret}=VALUE.", field=secret)
    if not from_input:
        return given
    lines = [line.strip() for line in sys.stdin.read().splitlines()]
    return given | _pairs([line for line in lines if line and not line.startswith("#")], "Standard input")


def _pairs(texts: Sequence[str], where: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise InvalidInput(f"{where}: write NAME=VALUE.", field=name[:80])
        found[name.strip()] = value.strip()
    return found


def _is_secret(name: str) -> bool:
    fields: Mapping[str, str] = {str(each.alias): field for field, each in Settings.model_fields.items()}
    field = fields.get(name.upper(), name.lower())
    return field in Settings.model_fields and is_secret(field)
