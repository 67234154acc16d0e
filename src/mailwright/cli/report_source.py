"""`mailwright report-source`: systems that report what happened to messages."""

from typing import Annotated

import typer

from mailwright.cli.opening import Installation, run
from mailwright.cli.options import Json, group
from mailwright.cli.output import aside, clock_time, out, print_json, print_rows
from mailwright.events.report_sources import ReportSource, ReportSources
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import CONSOLE
from mailwright.schemas.base import extend
from mailwright.schemas.report_sources import ReportSourceSecretResponse, report_source_response

app = group("Systems that report what happened to messages, for example your own mail server.")

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The name of the source, for example postfix-1.", show_default=False)
]


@app.command()
def create(
    name: Name,
    *,
    tenant: Annotated[str | None, typer.Option(help="Accept reports about this tenant only.")] = None,
    provider: Annotated[
        str | None, typer.Option(help="Accept reports about messages of this provider only, also by its ids.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Create a report source. Its URL is printed on stderr and its secret on stdout, where it is shown only once."""

    async def work(at: Installation) -> tuple[ReportSource, str, str]:
        owner = None if tenant is None else (await tenants.find(at.database, tenant)).id
        made = await _sources(at).create(name, tenant_id=owner, provider=provider, actor=CONSOLE)
        return *made, at.settings.public_url

    made, secret, public_url = run(work, creates=True)
    response = report_source_response(made, public_url)
    if as_json:
        print_json(extend(ReportSourceSecretResponse, response, secret=secret).to_dict())
        return
    aside.print(f"Reports go to {response.url}. The secret, shown once:", markup=False, soft_wrap=True)
    out.print(secret, markup=False, soft_wrap=True)


@app.command("list")
def list_command(as_json: Json = False) -> None:
    """List the report sources and when each was last used."""

    async def work(at: Installation) -> tuple[list[ReportSource], str]:
        return await _sources(at).list_all(), at.settings.public_url

    found, public_url = run(work)
    if as_json:
        print_json([report_source_response(each, public_url).to_dict() for each in found])
        return
    rows = ((each.name, each.tenant or "all", each.provider or "all", clock_time(each.last_used_at)) for each in found)
    nothing = "There are no report sources. Create one with `mailwright report-source create NAME`."
    print_rows(("Name!", "Tenant", "Provider", "Last used ({zone})"), rows, nothing=nothing)


@app.command()
def delete(name: Name) -> None:
    """Delete a report source. Its requests are refused from now on."""

    async def work(at: Installation) -> None:
        await _sources(at).delete(name, actor=CONSOLE)

    run(work)
    out.print(f"Report source {name} deleted.", markup=False)


def _sources(at: Installation) -> ReportSources:
    return ReportSources(at.database, at.clock)
