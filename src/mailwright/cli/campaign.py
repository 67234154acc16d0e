"""`mailwright campaign`: one piece of content for many people, from its draft to its report."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import typer
from rich.text import Text

from mailwright.app.templates import make_templates
from mailwright.cli import campaign_input as written
from mailwright.cli.campaign_input import (
    Alone,
    Hours,
    Interval,
    PerDay,
    PerHour,
    PerSecond,
    ReadersTime,
    Warmup,
    Zone,
)
from mailwright.cli.campaign_output import View, limits, picture, status, waiting
from mailwright.cli.exit_codes import NEGATIVE
from mailwright.cli.opening import Installation, run
from mailwright.cli.options import Json, Limit, Tenant, group
from mailwright.cli.output import aside, clock_time, out, print_json, print_rows, two_lines
from mailwright.content.formats import TemplateFormat
from mailwright.content.presend_checks import PresendContext, PresendIssue, links_of
from mailwright.content.template_store import TemplateStore
from mailwright.domain.errors import NotFound
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import CONSOLE
from mailwright.schemas import campaigns as answers
from mailwright.schemas.campaign_requests import CampaignRequest
from mailwright.sources.campaigns import progress, report
from mailwright.sources.campaigns.campaigns import Actor, Campaign, Campaigns
from mailwright.sources.campaigns.definition import CampaignLimits
from mailwright.sources.campaigns.enqueue import enqueue_batch
from mailwright.sources.campaigns.explain import CampaignExplanation, explain_campaign
from mailwright.sources.campaigns.failed_recipients import FailedRecipient, list_failed
from mailwright.sources.campaigns.snapshot import CampaignCheck, CampaignNotStartable, CampaignProblem, check_campaign

app = group("Campaigns: one piece of content for many people.")

ME: Final = Actor(CONSOLE, None)
WATCH_SECONDS: Final = 1.0
INTERRUPTED: Final = 130  # as shells count a command that Ctrl-C ended

CampaignId = Annotated[str, typer.Argument(metavar="ID", help="As `campaign create` printed it.", show_default=False)]
Source = Annotated[
    typer.FileText | None, typer.Option(help="Its file; - reads stdin.", encoding="utf-8", show_default=False)
]

Found = TypeVar("Found")


@app.command()
def create(
    name: Annotated[str, typer.Option(help="What you call it; readers do not see it.", show_default=False)],
    *,
    subject: Annotated[
        str | None, typer.Option(help="May use variables: Hello {{ name }}.", show_default="the template's")
    ] = None,
    html: Source = None,
    mjml: Source = None,
    markdown: Source = None,
    template: Annotated[str | None, typer.Option(help="A templateId instead of a file.", show_default=False)] = None,
    text: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="The file of the text.", show_default="made from the HTML"),
    ] = None,
    lists: Annotated[
        list[str] | None, typer.Option("--list", help="Who gets it; may be given several times.", show_default=False)
    ] = None,
    segment: Annotated[str | None, typer.Option(help="Only those of them in it.", show_default=False)] = None,
    filter_: Annotated[
        str | None,
        typer.Option("--filter", metavar="JSON", help='Only who answers to it: {"tag": "vip"}.', show_default=False),
    ] = None,
    sender: Annotated[
        str | None, typer.Option("--from", help="As `Us <us@example.com>`.", show_default="MAILWRIGHT_FROM")
    ] = None,
    reply_to: Annotated[str | None, typer.Option(help="Where answers go.", show_default=False)] = None,
    schedule: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Not before, as 2027-01-15T08:00; UTC without a zone.", show_default=False),
    ] = None,
    values: Annotated[
        list[str] | None,
        typer.Option("--var", metavar="NAME=VALUE", help="The same for every reader.", show_default=False),
    ] = None,
    rate_per_second: PerSecond = None,
    rate_per_hour: PerHour = None,
    daily_limit: PerDay = None,
    working_hours: Hours = None,
    timezone: Zone = None,
    warmup: Warmup = None,
    in_readers_time_zone: ReadersTime = None,
    interval_ms: Interval = None,
    one_at_a_time: Alone = None,
    variants: Annotated[
        list[str] | None,
        typer.Option(
            "--variant",
            metavar="NAME[=SUBJECT]",
            help="Two to five: the better one wins.",
            show_default=False,
        ),
    ] = None,
    test_percent: Annotated[int | None, typer.Option(help="Who tries them, of a hundred.", show_default="20")] = None,
    wait_minutes: Annotated[int | None, typer.Option(help="How long they are tried.", show_default="240")] = None,
    winner_by: Annotated[str | None, typer.Option(help="clicks or opens.", show_default="clicks")] = None,
    tenant: Tenant = tenants.DEFAULT,
) -> None:
    """Write a campaign down as a draft, and print its id, alone, on stdout."""
    files = zip(TemplateFormat, (html, mjml, markdown), strict=True)
    given = [(format_, file.read()) for format_, file in files if file is not None]
    if len(given) + (template is not None) != 1:
        raise typer.BadParameter("give one of --html, --mjml, --markdown and --template")
    content: dict[str, Any] = {"subject": subject, "templateId": template}
    for format_, body in given:
        content |= {"format": format_, "body": body}
    if text is not None:
        content["text"] = text.read_text(encoding="utf-8")
    experiment = {
        "variants": written.variants(variants or []),
        "testPercent": test_percent,
        "waitMinutes": wait_minutes,
        "winnerBy": winner_by,
    }
    limits_ = written.limits(
        rate_per_second=rate_per_second,
        rate_per_hour=rate_per_hour,
        daily_limit=daily_limit,
        working_hours=working_hours,
        timezone=timezone,
        warmup=warmup,
        in_readers_time_zone=in_readers_time_zone,
        interval_ms=interval_ms,
        one_at_a_time=one_at_a_time,
    )
    definition: dict[str, Any] = {
        "name": name,
        "content": _without_none(content),
        "lists": lists or [],
        "segment": segment,
        "filter": None if filter_ is None else written.json_or_text(filter_),
        "from": sender,
        "replyTo": reply_to,
        "variables": written.variables(values or []),
        "limits": limits_,
        "experiment": _without_none(experiment) if variants else None,
        "scheduledAt": None if schedule is None else written.moment(schedule),
    }
    wanted = written.checked(CampaignRequest, _without_none(definition))

    async def work(at: Installation) -> Campaign:
        owner = await tenants.find(at.database, tenant)
        return await _campaigns(at).create(ME, owner.id, wanted)

    typer.echo(run(work, creates=True).campaign_id)


@app.command("list")
def list_command(tenant: Tenant = tenants.DEFAULT, limit: Limit = 50, as_json: Json = False) -> None:
    """List a tenant's campaigns, and what holds them."""

    async def work(at: Installation) -> list[View]:
        owner = await tenants.find(at.database, tenant)
        found = await _campaigns(at).some(tenant_id=owner.id, limit=limit)
        now = at.clock.now()
        async with at.database.read() as tx:
            places = {place.campaign_id: place for place in await progress.list_positions(tx, now, tenant_id=owner.id)}
        return [View(each, places.get(each.campaign_id), None, now) for each in found]

    views = run(work)
    if as_json:
        print_json([answers.line(view.campaign, view.place) for view in views])
        return
    nothing = f"The tenant {tenant} has no campaign; `mailwright campaign create` writes one."
    print_rows(("Campaign and time (UTC)!", "What, and what holds it"), map(_row, views), nothing=nothing)


@app.command()
def preflight(
    campaign_id: CampaignId,
    check_links: Annotated[bool, typer.Option("--check-links", help="Ask every link whether it is there.")] = False,
    as_json: Json = False,
) -> None:
    """Tell what starting would say, without starting. Exit code 1 if something must be put right first."""

    async def work(at: Installation) -> tuple[CampaignCheck, list[PresendIssue]]:
        found = await _examined(at, await _found(at, campaign_id), await _objections(at))
        return found, await _dead_links(found) if check_links else []

    examined, dead = _run(work)
    if as_json:
        told = answers.preflight(examined)
        print_json({**told, "warnings": [*told["warnings"], *answers.warnings(dead)]})
    else:
        _print_problems(examined.problems)
        _print_warnings([*examined.warnings, *dead])
        out.print(f"{'It can start' if not examined.problems else 'It cannot start'}: {_people(examined.planned)}.")
    if examined.problems:
        raise typer.Exit(NEGATIVE)


@app.command()
def start(
    campaign_id: CampaignId,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Leave it to the workers to go through the audience.")
    ] = False,
) -> None:
    """Freeze a campaign's content and go through its audience. What keeps it from starting is told at once.

    Ctrl-C while it goes through the audience stops nothing: the workers go on.
    """

    async def work(at: Installation) -> View:
        _print_warnings((await _examined(at, await _found(at, campaign_id))).warnings)
        campaign = await _campaigns(at).start(ME, campaign_id)
        if not no_wait:
            await _walk(at, campaign)
        return await _view(at, campaign_id)

    try:
        view = _run(work)
    except KeyboardInterrupt:
        aside.print("The workers go on through its audience.")
        raise typer.Exit(INTERRUPTED) from None
    how = waiting(view.place, view.now) or "workers send it now"
    planned = view.counts.planned if view.counts else 0
    out.print(f"{view.campaign.name}: {_people(planned)}; {how}.", markup=False, soft_wrap=True)


@app.command()
def pause(campaign_id: CampaignId) -> None:
    """Let nothing more leave after the batch that is under way. The campaign keeps its place."""
    _act(lambda campaigns: campaigns.pause(ME, campaign_id))


@app.command()
def resume(campaign_id: CampaignId) -> None:
    """Go on where it was."""
    _act(lambda campaigns: campaigns.resume(ME, campaign_id))


@app.command()
def cancel(campaign_id: CampaignId) -> None:
    """Send nothing more of it. What was sent stays in the report."""
    _act(lambda campaigns: campaigns.cancel(ME, campaign_id))


@app.command("accept-failures")
def accept_failures(campaign_id: CampaignId) -> None:
    """Count the campaign as sent, without those whom it did not reach."""
    _act(lambda campaigns: campaigns.accept_failures(ME, campaign_id))


@app.command("retry-failed")
def retry_failed(campaign_id: CampaignId) -> None:
    """Give everyone whose mail failed all attempts again."""

    async def work(at: Installation) -> int:
        return (await _campaigns(at).retry_failed(ME, campaign_id))[1]

    out.print(f"{_people(_run(work))} get all attempts again.")


@app.command()
def extend(
    campaign_id: CampaignId,
    segment: Annotated[str | None, typer.Option(help="Also for this segment.", show_default=False)] = None,
) -> None:
    """Send it also to whoever has joined since. Nobody gets it twice."""

    async def work(at: Installation) -> int:
        campaign, newcomers = await _campaigns(at).extend(ME, campaign_id, segment=segment)
        await _walk(at, campaign)
        return newcomers

    out.print(f"{_people(_run(work))} more.")


@app.command()
def winner(
    campaign_id: CampaignId,
    version: Annotated[str, typer.Argument(metavar="VERSION", help="As B.", show_default=False)],
) -> None:
    """Decide an experiment by your own word: the version goes to everyone who has none yet."""
    _act(lambda campaigns: campaigns.choose_winner(ME, campaign_id, version))


@app.command()
def duplicate(
    campaign_id: CampaignId,
    name: Annotated[str | None, typer.Option(help="What you call it.", show_default=False)] = None,
) -> None:
    """Make a draft with the same content and audience, and print its id, alone, on stdout."""

    async def work(at: Installation) -> Campaign:
        return await _campaigns(at).duplicate(ME, campaign_id, name)

    typer.echo(_run(work).campaign_id)


@app.command("test")
def try_out(
    campaign_id: CampaignId,
    addresses: Annotated[list[str], typer.Argument(metavar="ADDRESS…", show_default=False)],
    as_contact: Annotated[
        str | None, typer.Option("--as", help="Whose name and attributes fill it.", show_default="samples")
    ] = None,
) -> None:
    """Send its mail to a few addresses, marked as a test. It counts for nothing."""

    async def work(at: Installation) -> list[str]:
        mails = await _campaigns(at).test_send(ME, campaign_id, addresses, as_contact=as_contact)
        return [mail.outbox_id for mail in mails]

    for outbox_id in _run(work):
        typer.echo(outbox_id)


@app.command()
def edit(
    campaign_id: CampaignId,
    definition: Annotated[
        typer.FileText,
        typer.Argument(
            metavar="FILE", help="The definition as JSON; - reads stdin.", encoding="utf-8", show_default=False
        ),
    ],
) -> None:
    """Replace what a draft says, to whom and when. `campaign show --json` prints what there is, as `definition`."""
    wanted = written.checked(CampaignRequest, written.json_object(definition.read(), "FILE"))

    async def work(at: Installation) -> Campaign:
        return await _campaigns(at).edit(ME, campaign_id, wanted)

    changed = _run(work)
    out.print(f"{changed.name} is changed; `mailwright campaign preflight {campaign_id}` says whether it can start.")


@app.command("limits")
def limits_command(
    campaign_id: CampaignId,
    *,
    rate_per_second: PerSecond = None,
    rate_per_hour: PerHour = None,
    daily_limit: PerDay = None,
    working_hours: Hours = None,
    timezone: Zone = None,
    warmup: Warmup = None,
    in_readers_time_zone: ReadersTime = None,
    interval_ms: Interval = None,
    one_at_a_time: Alone = None,
    as_json: Json = False,
) -> None:
    """Show a campaign's own limits, or change them: what is named changes, the rest stays. Workers soon follow."""
    changes = written.limits(
        rate_per_second=rate_per_second,
        rate_per_hour=rate_per_hour,
        daily_limit=daily_limit,
        working_hours=working_hours,
        timezone=timezone,
        warmup=warmup,
        in_readers_time_zone=in_readers_time_zone,
        interval_ms=interval_ms,
        one_at_a_time=one_at_a_time,
    )

    async def work(at: Installation) -> Campaign:
        campaign = await _found(at, campaign_id)
        if not changes:
            return campaign
        now = campaign.definition.limits.model_dump(mode="json", by_alias=True)
        wanted = written.checked(CampaignLimits, {**now, **changes})
        return await _campaigns(at).edit_limits(ME, campaign_id, wanted)

    campaign = _run(work)
    if as_json:
        print_json(campaign.definition.limits.model_dump(mode="json", by_alias=True))
    else:
        out.print(", ".join(limits(campaign)) or "None of its own; the tenant's hold.", markup=False)


@app.command()
def show(
    campaign_id: CampaignId,
    watch: Annotated[bool, typer.Option("--watch", help="Go on showing it until it has ended.")] = False,
    as_json: Json = False,
) -> None:
    """Show how far a campaign is and what holds it. The JSON has the fields of GET /v1/campaigns/{id}."""
    if watch and as_json:
        raise typer.BadParameter("--watch is for people and --json for scripts")
    if watch:
        with suppress(KeyboardInterrupt):  # as whoever watches leaves
            _run(lambda at: _watch(at, campaign_id))
        return
    view = _run(lambda at: _view(at, campaign_id))
    if as_json:
        print_json(answers.campaign(view.campaign, view.place, view.counts))
    else:
        out.print(picture(view))


@app.command()
def explain(campaign_id: CampaignId, as_json: Json = False) -> None:
    """Say why a campaign is not sent yet, which rule holds it, until when, and what would change that."""

    # The whole application is slow to import, and no other of these commands needs it.
    from mailwright.app.providers import providers_of  # noqa: PLC0415
    from mailwright.app.wiring import defaults_of  # noqa: PLC0415

    async def work(at: Installation) -> CampaignExplanation:
        defaults = defaults_of(at.settings, providers_of(at.settings))
        return await explain_campaign(at.database, at.clock, defaults, campaign_id, tenant_id=None)

    found = _run(work)
    if as_json:
        print_json(found.as_dict())
        return
    out.print(Text(found.sentence, style="bold"))
    for words, what in (("What would change it", found.what_would_change), ("Then", found.then)):
        if what:
            out.print(Text(f"{words}: {what}"))


@app.command("report")
def report_command(
    campaign_id: CampaignId,
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Where to; or else stdout.", show_default=False)
    ] = None,
    _as_csv: Annotated[bool, typer.Option("--csv", help="CSV, which it is anyway.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="JSON, a row a line.")] = False,
) -> None:
    """Write what became of every recipient's mail: email, status, error_message, message_id, sent_at."""

    async def work(at: Installation) -> None:
        rows = report.report_rows(at.database, (await _found(at, campaign_id)).key)
        parts = answers.report_json(rows) if as_json else answers.report_csv(rows)
        if file is None or str(file) == "-":
            async for part in parts:
                sys.stdout.write(part)
            return
        with await asyncio.to_thread(file.open, "w", encoding="utf-8", newline="") as opened:
            async for part in parts:
                opened.write(part)

    _run(work)


@app.command()
def failures(
    campaign_id: CampaignId,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="Show at most so many.")] = 100,
    as_json: Json = False,
) -> None:
    """List whom a campaign did not reach, and why. Whoever left before their turn is not among them."""

    async def work(at: Installation) -> list[FailedRecipient]:
        campaign = await _found(at, campaign_id)
        async with at.database.read() as tx:
            place = await progress.find_position(tx, campaign.key, at.clock.now())
            return [] if place is None else await list_failed(tx, place.lane, limit=limit)

    found = _run(work)
    if as_json:
        print_json([answers.failure(each) for each in found])
        return
    rows = (
        (each.email, each.error_code, each.error_reason, each.attempts, clock_time(each.failed_at)) for each in found
    )
    print_rows(("Address", "Code!", "Reason", "Attempts#", "Failed (UTC)!"), rows, nothing="Nobody.")


def _run(work: Callable[[Installation], Awaitable[Found]]) -> Found:
    """A refusal is told line by line: each is a thing to put right."""
    try:
        return run(work)
    except CampaignNotStartable as refused:
        _print_problems(refused.problems)
        aside.print("The campaign cannot start.")
        raise typer.Exit(NEGATIVE) from refused
    except NotFound as error:
        raise NotFound("There is no campaign with this id here.") from error


def _act(work: Callable[[Campaigns], Awaitable[Campaign]]) -> None:
    campaign = _run(lambda at: work(_campaigns(at)))
    out.print(Text.assemble(f"{campaign.name} is now ", status(campaign.status)), soft_wrap=True)


def _campaigns(at: Installation) -> Campaigns:
    return Campaigns(at.database, at.clock, _templates(at))


def _templates(at: Installation) -> TemplateStore:
    return make_templates(at.settings, at.database, at.clock)


async def _found(at: Installation, campaign_id: str) -> Campaign:
    return await _campaigns(at).find(campaign_id, tenant_id=None)


async def _view(at: Installation, campaign_id: str) -> View:
    campaign, now = await _found(at, campaign_id), at.clock.now()
    async with at.database.read() as tx:
        place = await progress.find_position(tx, campaign.key, now)
        return View(campaign, place, None if place is None else await progress.count_messages(tx, place), now)


async def _watch(at: Installation, campaign_id: str) -> None:
    from rich.live import Live  # noqa: PLC0415 - as above

    view = await _view(at, campaign_id)
    with Live(picture(view), console=out, auto_refresh=False) as shown:
        while not view.is_over:
            await asyncio.sleep(WATCH_SECONDS)
            view = await _view(at, campaign_id)
            shown.update(picture(view), refresh=True)


async def _walk(at: Installation, campaign: Campaign) -> None:
    """As any worker would: with one that runs they take turns, without one it is ready for the first that starts."""
    view = await _view(at, campaign.campaign_id)
    if view.place is None or view.place.defer_reason is not None:
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415 - as above

    columns = (BarColumn(), TextColumn("{task.completed:,.0f} recipients"), TimeRemainingColumn())
    with Progress(*columns, console=aside, transient=True) as shown:
        task = shown.add_task("", total=view.place.planned)
        while (entry := await enqueue_batch(at.database, at.clock, campaign.key)) is not None:
            shown.update(task, completed=entry.walked)


async def _examined(at: Installation, campaign: Campaign, objections: tuple[str, ...] = ()) -> CampaignCheck:
    return await check_campaign(
        at.database,
        _templates(at),
        campaign.definition,
        tenant_id=campaign.tenant_id,
        now=at.clock.now(),
        facts=PresendContext(postal_address=at.settings.postal_address, sender=objections),
    )


async def _objections(at: Installation) -> tuple[str, ...]:
    """What DNS says against the sender's domain."""
    from mailwright.checks.findings import Verdict  # noqa: PLC0415 - as above
    from mailwright.checks.sender_dns import check_sender  # noqa: PLC0415

    found = [each async for each in check_sender(at.settings) if each.verdict is Verdict.PROBLEM]
    return tuple(f"{each.name.upper()}: {each.summary}" for each in found)


async def _dead_links(examined: CampaignCheck) -> list[PresendIssue]:
    from mailwright.app.link_checks import dead_links  # noqa: PLC0415 - as above

    bodies = [text.html for draft in examined.drafts for text in draft.texts.values()]
    return await dead_links(list(dict.fromkeys(link for html in bodies for link in links_of(html))))


def _print_problems(problems: Iterable[CampaignProblem]) -> None:
    for each in problems:
        aside.print(Text(f"✗ {each.field}: {each.message} [{each.code}]", style="red"), soft_wrap=True)


def _print_warnings(found: Iterable[PresendIssue]) -> None:
    for each in found:
        aside.print(Text(f"! {each.where}: {each.sentence} [{each.code}]", style="yellow"), soft_wrap=True)


def _row(view: View) -> tuple[Text, Text]:
    about = Text.assemble(status(view.campaign.status), f"  {view.campaign.name}")
    if held := waiting(view.place, view.now):
        about.append(f"\n{held}", style="bright_black")
    return two_lines(view.campaign.campaign_id, clock_time(view.campaign.created_at)), about


def _people(count: int) -> str:
    return f"{count:,} recipient{'' if count == 1 else 's'}"


def _without_none(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}
