"""`mailwright campaign excluded`: contacts in a campaign's audience who do not receive it, with the reason."""

import sys
from typing import Annotated

import typer

from mailwright.actions.exclusions import excluded_contact_response, excluded_csv, exclusion_text
from mailwright.app.templates import make_templates
from mailwright.audience.eligibility import Exclusion
from mailwright.audience.exclusions import ExcludedContact, NamedAudience, excluded_contacts, list_excluded
from mailwright.cli.opening import Installation, run
from mailwright.cli.options import Json
from mailwright.cli.output import print_json, print_rows
from mailwright.sources.campaigns.campaigns import Campaigns
from mailwright.sources.campaigns.checks import named_audience


def excluded_command(
    campaign_id: Annotated[str, typer.Argument(metavar="ID", help="The campaign id.", show_default=False)],
    *,
    reason: Annotated[
        Exclusion | None, typer.Option(help="Only contacts who are excluded for this reason.", show_default=False)
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Write all excluded contacts as CSV.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="Maximum number of rows.")] = 100,
    as_json: Json = False,
) -> None:
    """List the contacts in the audience's lists and filter who may not receive the campaign, with the reason."""

    async def work(at: Installation) -> list[ExcludedContact]:
        named, now = await _audience(at, campaign_id), at.clock.now()
        if as_csv:
            async for part in excluded_csv(excluded_contacts(at.database, named, now)):
                sys.stdout.write(part)
            return []
        async with at.database.read() as tx:
            return await list_excluded(tx, named, now, limit=limit, reason=reason)

    found = run(work)
    if as_json:
        print_json([excluded_contact_response(contact).to_dict() for contact in found])
    elif not as_csv:
        rows = ((contact.email, exclusion_text(contact)) for contact in found)
        print_rows(("Address", "Reason"), rows, nothing="Nobody is excluded.")


async def _audience(at: Installation, campaign_id: str) -> NamedAudience:
    campaigns = Campaigns(at.database, at.clock, make_templates(at.settings, at.database, at.clock))
    campaign = await campaigns.find(campaign_id, tenant_id=None)
    async with at.database.read() as tx:
        return await named_audience(tx, campaign.tenant_id, campaign.definition)
