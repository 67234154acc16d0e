"""`mailwright campaign repeat`: send a draft repeatedly, on a schedule."""

from typing import Annotated, Any

import typer

from mailwright.actions import campaigns
from mailwright.actions.campaign_repeats import CampaignRepeatRequest, campaign_repeat_response
from mailwright.app.templates import make_templates
from mailwright.cli.campaign_options import CampaignId
from mailwright.cli.campaign_output import print_problems, print_warnings
from mailwright.cli.derived import console_context
from mailwright.cli.exit_codes import NEGATIVE
from mailwright.cli.opening import Installation, run, show_zone_of
from mailwright.cli.options import Json
from mailwright.cli.output import aside, clock_time, out, print_json, zone_time
from mailwright.domain.errors import InvalidInput
from mailwright.outbox.audit_log import CONSOLE
from mailwright.sources.api.validation import parse_strict
from mailwright.sources.campaigns.campaigns import Campaigns
from mailwright.sources.campaigns.records import Actor
from mailwright.sources.campaigns.repeat_records import CampaignRepeat
from mailwright.sources.campaigns.repeats import CampaignRepeats
from mailwright.sources.campaigns.variants import CampaignNotStartable
from mailwright.sources.feeds.follow import FollowedFeed


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

    try:
        found = run(work)
    except CampaignNotStartable as refused:
        print_problems(refused.problems)
        aside.print("The campaign cannot repeat.")
        raise typer.Exit(NEGATIVE) from refused
    if found is not None:
        print_warnings(found.warnings)
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
        out.print(f"The next campaign starts at {zone_time(found.next_at)}.", markup=False)
        if found.refusal is not None:
            out.print(found.refusal, markup=False)
        out.print(f"Then: {', '.join(clock_time(each) for each in found.next_times[1:])}", markup=False)
    if found.followed is not None:
        _print_feed(found.followed)
    if found.last_at is not None:
        out.print(f"Last time, {zone_time(found.last_at)}: {found.last_result or 'being started.'}", markup=False)
    elif found.last_result is not None:
        out.print(found.last_result, markup=False)
    if found.last_campaign_id is not None:
        out.print(f"Its campaign: {found.last_campaign_id}", markup=False)


def _print_feed(feed: FollowedFeed) -> None:
    if feed.error is not None:
        out.print(feed.error, markup=False)
    for item in feed.newest:
        out.print(f"In the feed: {item['title']}", markup=False)


async def _open(at: Installation, campaign_id: str) -> tuple[CampaignRepeats, Any]:
    from mailwright.app.feeds import fetch_feed  # noqa: PLC0415 - slow to import, and needed only here

    templates = make_templates(at.settings, at.database, at.clock)
    found = Campaigns(at.database, at.clock, templates, campaigns.sender_rules(console_context(at)))
    campaign = await found.find(campaign_id, tenant_id=None)
    await show_zone_of(at, campaign.tenant_id)
    zone = at.settings.timezone
    return CampaignRepeats(at.database, at.clock, found, templates, fetch=fetch_feed, zone=zone), campaign
