"""`mailwright export`: write a file that describes a tenant or the installation, for `mailwright apply`."""

import asyncio
from typing import Annotated

import typer

from mailwright.cli import configuration, remote
from mailwright.cli.apply import local_call, remote_call
from mailwright.cli.configuration import Fields
from mailwright.cli.opening import Installation, find_tenant, run
from mailwright.cli.options import Json, Tenant, command
from mailwright.cli.output import print_json
from mailwright.cli.yaml_file import to_yaml
from mailwright.outbox import tenants

app = command()


@app.command()
def export(
    *,
    platform: Annotated[
        bool, typer.Option("--platform", help="Export settings and tenants, and not the data of a tenant.")
    ] = False,
    tenant: Tenant = tenants.DEFAULT,
    as_json: Json = False,
) -> None:
    """Print lists, segments, templates, brand, forms, sequences, webhooks and domains as YAML, without secrets."""

    async def work(at: Installation) -> Fields:
        return await configuration.export(local_call(at, await find_tenant(at, tenant)), platform=platform)

    if remote.server() is None:
        content = run(work)
    else:
        content = asyncio.run(configuration.export(remote_call(tenant), platform=platform))
    if as_json:
        print_json(content)
    else:
        typer.echo(to_yaml(content), nl=False)
