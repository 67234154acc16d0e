"""`mailwright campaign repeat`: send a draft again and again."""

from typing import Annotated, Any

import typer

from mailwright.app.templates import make_templates
from mailwright.cli.campaign_reports import CampaignId
from mailwright.cli.opening import Installation, run, show_zone_of
from mailwright.cli.options import Json
from mailwright.cli.output import clock_time, out, print_json
from mailwright.domain.errors import InvalidInput
from mailwright.outbox.audit_log import CONSOLE
from mailwright.schemas.campaign_repeats import CampaignRepeatRequest, campaign_repeat_response
from mailwright.sources.api.validation import parse_strict
from mailwright.sources.campaigns.campaigns import Campaigns
from mailwright.sources.campaigns.records import Actor
from mailwright.sources.campaigns.repeats import CampaignRepeat, CampaignRepeats


def repeat_command(
    campaign_id: CampaignId,
    *,
    weekday: Annotated[
        list[str] | None, typer.Option(help="mon, tue and so on; can be repeated.", show_default="every day")
    ] = None,
    month_day: Annotated[
        list[int] | None, typer.Option(help="A day of the month; can be repeated.", show_default=False)
    ] = None,
    time: Annotated[str | None, typer.Option(help="The time, for example 09:00.", show_default=False)] = None,
    timezone: Annotated[str | None, typer.Option(help="A time zone.", show_default="the tenant's")] = None,
    feed: Annotated[
        str | None, typer.Option(help="A feed whose new items the campaign contains as `items`.", show_default=False)
    ] = None,
    off: Annotated[bool, typer.Option("--off", help="Stop repeating.")] = False,
    as_json: Json = False,
) -> None:
    """Make and start a campaign from a draft at each time of a schedule, or show when it repeats."""
    given = {"weekdays": weekday, "monthDays": month_day, "time": time, "timezone": timezone, "feed": feed}
    wanted = {name: value for name, value in given.items() if value}
    if off and wanted:
        raise InvalidInput("cannot be combined with a schedule", field="off")

    async def work(at: Installation) -> CampaignRepeat | None:
        repeats, campaign = await _open(at, campaign_id)
        actor = Actor(CONSOLE, None)
        if off:
            await repeats.stop(actor, campaign_id)
            return None
        if wanted:
            request = parse_strict(CampaignRepeatRequest, wanted)
            return await repeats.set(actor, campaign_id, request.schedule, feed=request.feed)
        return await repeats.find(campaign.campaign_id, tenant_id=None)

    found = run(work)
    if found is None:
        out.print("The campaign no longer repeats.")
    elif as_json:
        print_json(campaign_repeat_response(found).to_dict())
    else:
        _print(found)


def _print(found: CampaignRepeat) -> None:
    if found.paused_at is not None:
        out.print("Repeating is paused. Set the schedule again to continue.")
    else:
        out.print(f"The next campaign starts at {clock_time(found.next_at)}.", markup=False)
        if found.refusal is not None:
            out.print(found.refusal, markup=False)
    if found.feed_error is not None:
        out.print(found.feed_error, markup=False)
    if found.last_at is not None:
        out.print(f"Last time, {clock_time(found.last_at)}: {found.last_result or 'being started.'}", markup=False)
    elif found.last_result is not None:
        out.print(found.last_result, markup=False)
    if found.last_campaign_id is not None:
        out.print(f"Its campaign: {found.last_campaign_id}", markup=False)


async def _open(at: Installation, campaign_id: str) -> tuple[CampaignRepeats, Any]:
    templates = make_templates(at.settings, at.database, at.clock)
    campaigns = Campaigns(at.database, at.clock, templates)
    campaign = await campaigns.find(campaign_id, tenant_id=None)
    await show_zone_of(at, campaign.tenant_id)
    return CampaignRepeats(at.database, at.clock, campaigns, templates, at.settings.timezone), campaign
