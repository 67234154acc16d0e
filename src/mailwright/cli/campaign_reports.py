"""`mailwright campaign figures`, `history`, `segment` and `resend`: reports of campaigns and actions on them."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from mailwright.actions.campaign_reports import (
    CampaignReportResponse,
    CampaignResendRequest,
    CampaignSegmentRequest,
    campaign_report_response,
    campaign_result_response,
    delay_text,
    figures_csv,
    history_csv,
)
from mailwright.actions.segments import segment_response
from mailwright.app.templates import make_templates
from mailwright.cli.opening import Installation, find_tenant, run, show_zone_of
from mailwright.cli.options import Json, Limit, Tenant
from mailwright.cli.output import clock_time, out, print_json, print_rows, two_lines, write_parts
from mailwright.domain.recipient_providers import RecipientProvider
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import CONSOLE
from mailwright.sources.api.validation import parse_strict
from mailwright.sources.campaigns.campaigns import Campaigns
from mailwright.sources.campaigns.comparison import CampaignResult, load_history
from mailwright.sources.campaigns.create_resend import create_resend
from mailwright.sources.campaigns.records import Actor, Campaign
from mailwright.sources.campaigns.report_figures import ReportFigures, load_figures
from mailwright.sources.campaigns.response_segments import SegmentOf, create_segment
from mailwright.sources.sender_rules import SenderRules

CampaignId = Annotated[
    str, typer.Argument(metavar="ID", help="The campaign id that `campaign create` prints.", show_default=False)
]
Csv = Annotated[bool, typer.Option("--csv", help="Write CSV.")]
Minutes = Annotated[int | None, typer.Option(help="Minutes after sending.", show_default=False)]


def figures_command(
    campaign_id: CampaignId,
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="The file to write.", show_default="stdout")
    ] = None,
    as_csv: Csv = False,
    as_json: Json = False,
) -> None:
    """Show every figure of a campaign's report, with the fields of GET /v1/campaigns/{id}/report."""

    async def work(at: Installation) -> tuple[CampaignReportResponse, ReportFigures | None]:
        campaign = await _find(at, campaign_id)
        found = await load_figures(at.database.reader, campaign, at.clock.now(), at.settings.tracking)
        report = campaign_report_response(campaign, found)
        if as_csv:
            await write_parts(_parts(figures_csv(report)), file)
        return report, found

    report, found = run(work)
    if as_json:
        print_json(report.to_dict())
    elif not as_csv:
        _print_figures(found)


def history_command(
    tenant: Tenant = tenants.DEFAULT, limit: Limit = 50, as_csv: Csv = False, as_json: Json = False
) -> None:
    """Show the results of a tenant's campaigns over time, latest first."""

    async def work(at: Installation) -> list[CampaignResult]:
        owner = await find_tenant(at, tenant)
        async with at.database.reader.read() as tx:
            return await load_history(tx, owner.id, at.clock.now(), limit=limit)

    found = run(work)
    if as_json:
        print_json([campaign_result_response(each).to_dict() for each in found])
    elif as_csv:
        typer.echo(history_csv(found), nl=False)
    else:
        names = ("opened", "clicked", "bounced", "unsubscribed")
        rows = (
            (
                two_lines(each.name, clock_time(each.started_at)),
                each.sent,
                *(_percent(each.rates[name]) for name in names),
            )
            for each in found
        )
        columns = ("Campaign and start ({zone})", "Sent#", *(f"{name.capitalize()}#" for name in names))
        print_rows(columns, rows, nothing="No campaign has started yet.")


def segment_command(
    campaign_id: CampaignId,
    of: Annotated[SegmentOf, typer.Option(help="Which recipients the segment contains.", show_default=False)],
    *,
    url: Annotated[str | None, typer.Option(help="Only clicks of this link.", show_default=False)] = None,
    domain: Annotated[str | None, typer.Option(help="Only addresses at this domain.", show_default=False)] = None,
    provider: Annotated[RecipientProvider | None, typer.Option(help="Only this provider.", show_default=False)] = None,
    after_minutes: Minutes = None,
    before_minutes: Minutes = None,
    key: Annotated[str | None, typer.Option(help="The key of the segment.", show_default="generated")] = None,
    name: Annotated[str | None, typer.Option(help="The name of the segment.", show_default="generated")] = None,
    as_json: Json = False,
) -> None:
    """Create a segment of a campaign's recipients by their response, and print only its key on stdout."""
    given = {
        "of": of,
        "url": url,
        "domain": domain,
        "provider": provider,
        "afterMinutes": after_minutes,
        "beforeMinutes": before_minutes,
        "segmentKey": key,
        "name": name,
    }

    async def work(at: Installation) -> dict[str, Any]:
        wanted = parse_strict(CampaignSegmentRequest, {name: each for name, each in given.items() if each is not None})
        campaign = await _find(at, campaign_id)
        made = await create_segment(
            at.database,
            at.clock,
            campaign,
            wanted.bar,
            actor=CONSOLE,
            segment_key=wanted.segment_key,
            name=wanted.name,
        )
        return segment_response(made).to_dict()

    made = run(work)
    if as_json:
        print_json(made)
    else:
        typer.echo(made["segmentKey"])


def resend_command(
    campaign_id: CampaignId,
    subject: Annotated[str, typer.Option(help="The new subject.", show_default=False)],
    name: Annotated[str | None, typer.Option(help="The internal name.", show_default=False)] = None,
) -> None:
    """Create a draft for everyone who did not open a campaign, and print only its id on stdout.

    Possible once for each campaign, if its opens were recorded individually. Recipients without tracking consent, and
    those whose email only a machine opened, are left out.
    """

    async def work(at: Installation) -> Campaign:
        wanted = parse_strict(CampaignResendRequest, {"subject": subject, **({"name": name} if name else {})})
        campaigns = _campaigns(at)
        actor = Actor(CONSOLE, None)
        return await create_resend(at.database, campaigns, actor, campaign_id, subject=wanted.subject, name=wanted.name)

    typer.echo(run(work).campaign_id)


def _print_figures(found: ReportFigures | None) -> None:
    if found is None:
        out.print("The campaign has not started, so it has no figures.")
        return
    totals, groups = found.totals, found.open_groups
    out.print(Text(f"{totals.sent:,} sent, {totals.tracked:,} of them tracked individually"))
    if totals.tracked:
        out.print(
            f"{groups.opened:,} opened, {groups.did_not_open:,} did not open, "
            f"{groups.only_machines:,} only by machines, {groups.not_measured:,} not measured",
            soft_wrap=True,
        )
    earlier = found.comparison.campaigns
    rates = [(each.name.capitalize(), _percent(each.rate), _percent(each.median)) for each in found.comparison.rates]
    if earlier:
        print_rows(("Rate", "This campaign#", f"Median of {earlier} before#"), rows=rates, nothing="")
    else:
        print_rows(("Rate", "This campaign#"), rows=[rate[:2] for rate in rates], nothing="")
    domains = (
        (each.name, each.sent, each.opened, each.clicked, each.bounced, each.complained, each.unsubscribed)
        for each in found.breakdown.providers
    )
    columns = ("Provider", "Sent#", "Opened#", "Clicked#", "Bounced#", "Complained#", "Unsubscribed#")
    print_rows(columns, domains, nothing="")
    delays = [each for each in found.breakdown.delays if each.opened or each.clicked]
    if delays:
        rows = ((delay_text(each), each.opened, each.clicked) for each in delays)
        print_rows(("After sending", "Opened#", "Clicked#"), rows, nothing="")
    for title, reasons in (
        ("Bounce reason", found.reasons.bounces),
        ("Failure", found.reasons.failures),
        ("Complaint", found.reasons.complaints),
        ("Unsubscribed by", found.reasons.unsubscribes),
    ):
        if reasons:
            print_rows((title, "Recipients#"), ((each.name, each.recipients) for each in reasons), nothing="")


def _percent(rate: float | None) -> str:
    return "–" if rate is None else f"{rate * 100:.1f} %"


async def _parts(text: str) -> AsyncIterator[str]:
    yield text


def _campaigns(at: Installation) -> Campaigns:
    return Campaigns(at.database, at.clock, make_templates(at.settings, at.database, at.clock))


async def _find(at: Installation, campaign_id: str) -> Campaign:
    campaign = await _campaigns(at).find(campaign_id, tenant_id=None)
    await show_zone_of(at, campaign.tenant_id)
    return campaign


def sender_rules(at: Installation) -> SenderRules:
    from mailwright.app.sender_directory import make_directory  # noqa: PLC0415 - slow to import
    from mailwright.app.sender_rules import make_sender_rules  # noqa: PLC0415 - as above

    return make_sender_rules(at.settings, at.database, make_directory(at.settings, at.database, at.clock))
