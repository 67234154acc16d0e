"""`mailwright archive`: the public archive of campaigns."""

from typing import Annotated

import typer

from mailwright.cli.opening import Installation, find_tenant, run
from mailwright.cli.options import Json, Limit, Tenant, group
from mailwright.cli.output import clock_time, out, print_json, print_rows, two_lines
from mailwright.content.template_store import TemplateStore
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import CONSOLE
from mailwright.schemas.archive import archive_response
from mailwright.sources.campaigns.archive import Archive, ArchivedCampaign
from mailwright.sources.campaigns.records import Actor

app = group("The public archive of campaigns.")

CampaignId = Annotated[
    str, typer.Argument(metavar="ID", help="The campaign id that `campaign create` prints.", show_default=False)
]


@app.command()
def publish(campaign: CampaignId) -> None:
    """Publish a started campaign in the archive and print its addresses."""

    async def work(at: Installation) -> tuple[ArchivedCampaign, list[str], str]:
        found = await _archive(at).publish(Actor(CONSOLE, None), campaign)
        return found, await _archive(at).public_lists(found), at.settings.public_url

    for url in archive_response(*run(work)).urls:
        out.print(url, markup=False, soft_wrap=True)


@app.command()
def withdraw(campaign: CampaignId) -> None:
    """Remove a campaign from the archive."""
    found = run(lambda at: _archive(at).withdraw(Actor(CONSOLE, None), campaign))
    out.print(f"{found.name} is no longer in the archive.", markup=False)


@app.command("list")
def list_command(
    list_key: Annotated[str, typer.Argument(metavar="KEY", help="The list key.", show_default=False)],
    *,
    tenant: Tenant = tenants.DEFAULT,
    limit: Limit = 50,
    as_json: Json = False,
) -> None:
    """List the archived campaigns of a list."""

    async def work(at: Installation) -> tuple[list[tuple[ArchivedCampaign, list[str]]], str]:
        owner, archive = await find_tenant(at, tenant), _archive(at)
        found = await archive.list_public(owner.id, list_key, limit=limit)
        return [(each, await archive.public_lists(each)) for each in found], at.settings.public_url

    found, public_url = run(work)
    if as_json:
        print_json([archive_response(issue, places, public_url).to_dict() for issue, places in found])
        return
    rows = ((clock_time(issue.sent_at), two_lines(issue.name, issue.campaign_id)) for issue, _ in found)
    nothing = f"The archive of {list_key} is empty. Publish a campaign with `mailwright archive publish ID`."
    print_rows(("Sent ({zone})!", "Campaign"), rows, nothing=nothing)


def _archive(at: Installation) -> Archive:
    return Archive(at.database, at.clock, TemplateStore(at.database, at.clock))
