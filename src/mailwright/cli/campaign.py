"""`mailwright campaign`: one email for many recipients, from draft to report."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

import typer
from rich.text import Text

from mailwright.actions import approvals, campaign_reports, campaigns, load_noun
from mailwright.actions.approvals import CampaignApprovalResponse
from mailwright.actions.campaigns import (
    CampaignResponse,
    campaign_check_response,
    campaign_response,
    campaign_show_response,
    campaign_summary_response,
    warning_responses,
)
from mailwright.actions.exclusions import exclusion_sentence
from mailwright.app.destinations import find_sent_to
from mailwright.app.sending_readiness import load_readiness
from mailwright.app.templates import make_templates
from mailwright.cli import campaign_input, remote
from mailwright.cli.campaign_options import (
    Alone,
    Attach,
    CampaignId,
    Detach,
    ExcludeLists,
    ExcludeSegments,
    Filter,
    GuardRails,
    Hours,
    IfUndecided,
    IgnoreCap,
    Interval,
    ListedApproval,
    Lists,
    MinConfidence,
    Name,
    PerDay,
    PerHour,
    PerSecond,
    ReadersTime,
    ReplyTo,
    Segment,
    Sender,
    SendTime,
    Subject,
    TemplateId,
    TestPercent,
    TextFile,
    Tracking,
    Utm,
    Variables,
    Variants,
    WaitMinutes,
    Warmup,
    WaveMinutes,
    Waves,
    WinnerBy,
    Zone,
)
from mailwright.cli.campaign_output import (
    View,
    limits,
    picture,
    print_problems,
    print_warnings,
    repeat_text,
    status,
    waiting,
)
from mailwright.cli.campaign_repeats import repeat_command
from mailwright.cli.derived import console_context, make_group, perform, print_lines, print_result
from mailwright.cli.exit_codes import NEGATIVE
from mailwright.cli.json_input import json_object
from mailwright.cli.opening import Installation, find_tenant, run, show_zone_of, warn_if_held
from mailwright.cli.options import BlocksFile, HtmlFile, Json, Limit, MarkdownFile, MjmlFile, State, Tenant
from mailwright.cli.output import aside, clock_time, out, print_json, print_rows, two_lines
from mailwright.content.presend_checks import PresendContext, PresendIssue, links_of
from mailwright.content.template_store import TemplateStore
from mailwright.domain.campaign import NO_WORKER
from mailwright.domain.clock import to_instant
from mailwright.domain.errors import MailwrightError, NotFound
from mailwright.domain.guard_rails import GuardRails as InstallationRails
from mailwright.domain.message import Source
from mailwright.domain.permits import MIN_DEFERRAL, BulkLimit
from mailwright.domain.record_state import RecordState
from mailwright.domain.schedule import is_past
from mailwright.domain.sending_readiness import SendingReadiness
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import CONSOLE, describe_actor
from mailwright.outbox.limits import DefaultLimits
from mailwright.sources.campaigns import progress
from mailwright.sources.campaigns.bulk_limits import load_bulk_limits
from mailwright.sources.campaigns.campaigns import Campaigns, with_send_time
from mailwright.sources.campaigns.checks import (
    PAST_SEND_TIME_WARNING,
    CampaignCheck,
    check_campaign,
)
from mailwright.sources.campaigns.definition import CampaignLimits
from mailwright.sources.campaigns.enqueue import enqueue_batch
from mailwright.sources.campaigns.numbers import load_numbers
from mailwright.sources.campaigns.queue_recorder import refresh_queue
from mailwright.sources.campaigns.records import Actor, Campaign
from mailwright.sources.campaigns.review import digest_checked
from mailwright.sources.campaigns.variants import CampaignNotStartable
from mailwright.sources.sender_rules import SenderRules
from mailwright.texts.ab_tests import ab_test_text
from mailwright.texts.explanations import bulk_limit_text, deferral_text
from mailwright.texts.sending_readiness import readiness_text

noun = load_noun("campaign")
app = make_group(noun)

ACTOR: Final = Actor(CONSOLE, None)
WATCH_SECONDS: Final = 1.0
INTERRUPTED: Final = 130  # The exit code that shells use after Ctrl-C.

Reviewed = Annotated[
    str | None,
    typer.Option(
        help="The value of `reviewed` in `campaign show --json`. Refuse if the campaign has changed since.",
        show_default=False,
    ),
]
Found = TypeVar("Found")


@app.command()
def create(
    name: Name,
    *,
    subject: Subject = None,
    html: HtmlFile = None,
    mjml: MjmlFile = None,
    markdown: MarkdownFile = None,
    blocks: BlocksFile = None,
    template: TemplateId = None,
    text: TextFile = None,
    lists: Lists = None,
    segment: Segment = None,
    filter_: Filter = None,
    exclude_lists: ExcludeLists = None,
    exclude_segments: ExcludeSegments = None,
    sender: Sender = None,
    reply_to: ReplyTo = None,
    attach: Attach = None,
    schedule: SendTime = None,
    values: Variables = None,
    rate_per_second: PerSecond = None,
    rate_per_hour: PerHour = None,
    daily_limit: PerDay = None,
    working_hours: Hours = None,
    timezone: Zone = None,
    warmup: Warmup = None,
    in_readers_time_zone: ReadersTime = None,
    interval_ms: Interval = None,
    one_at_a_time: Alone = None,
    guard_rails: GuardRails = None,
    ignore_frequency_cap: IgnoreCap = None,
    variants: Variants = None,
    test_percent: TestPercent = None,
    wait_minutes: WaitMinutes = None,
    winner_by: WinnerBy = None,
    min_confidence: MinConfidence = None,
    if_undecided: IfUndecided = None,
    tracking: Tracking = None,
    utm: Utm = None,
    waves: Waves = None,
    wave_minutes: WaveMinutes = None,
    tenant: Tenant = tenants.DEFAULT,
) -> None:
    """Create a draft campaign and print only its id on stdout."""
    given = campaign_input.definition(locals())
    files = campaign_input.attachments(attach)
    made = perform(noun.find(campaigns.create), given, path={}, tenant=tenant)
    path = {"campaign_id": made.campaign_id}
    try:
        _attach(path, files)
    except MailwrightError:
        perform(noun.find(campaigns.delete), {}, path=path)
        raise
    _warn_of_past_send_time(made)
    typer.echo(made.campaign_id)


def _attach(path: Mapping[str, str], files: Sequence[dict[str, Any]]) -> None:
    for file in files:
        perform(noun.find(campaigns.attach), file, path=path)


@app.command("list")
def list_command(
    state: State = RecordState.ACTIVE,
    approval: Annotated[
        ListedApproval | None, typer.Option(help="Only campaigns that wait for an approval, or rejected ones.")
    ] = None,
    tenant: Tenant = tenants.DEFAULT,
    limit: Limit = 50,
    as_json: Json = False,
) -> None:
    """List a tenant's campaigns and why they wait."""
    if approval is not None:
        _list_approvals(approval, tenant, limit, as_json=as_json)
        return
    if remote.server() is not None:
        action = noun.find(campaigns.list_campaigns)
        found = perform(action, {"state": state.value, "limit": limit}, path={}, tenant=tenant)
        print_result(action, found, {"tenant": tenant}, as_json=as_json)
        return

    async def work(at: Installation) -> list[View]:
        owner = await find_tenant(at, tenant)
        found = await _campaigns(at).list_page(tenant_id=owner.id, limit=limit, state=state)
        now = at.clock.now()
        await refresh_queue(at.database, at.clock, _defaults(at))
        async with at.database.read() as tx:
            queue = await progress.find_positions(tx, [each.key for each in found])
        places = {place.campaign_id: place for place in queue}
        return [View(each, places.get(each.campaign_id), None, now) for each in found]

    views = run(work)
    if as_json:
        print_json([campaign_summary_response(view.campaign, view.place).to_dict() for view in views])
        return
    nothing = f"The tenant {tenant} has no campaigns. Create one with `mailwright campaign create`."
    print_rows(("Campaign and time ({zone})!", "Status and reason"), map(_row, views), nothing=nothing)


def _list_approvals(wanted: ListedApproval, tenant: str, limit: int, *, as_json: bool) -> None:
    found = perform(approvals.noun.find(approvals.list_approvals), {}, path={}, tenant=tenant)
    listed = getattr(found, wanted)[:limit]
    if as_json:
        print_json([each.to_dict() for each in listed])
    elif wanted is ListedApproval.REJECTED:
        rows = [(*_approval_row(each), f"{each.approval.decided_by}: {each.approval.comment or ''}") for each in listed]
        titles = ("Campaign!", "Recipients", "Rejected by, and reason")
        print_rows(titles, rows, nothing=f"No campaign of the tenant {tenant} is rejected.")
    else:
        rows = [(*_approval_row(each), describe_actor(each.approval.requested_by)) for each in listed]
        titles = ("Campaign!", "Recipients", "Requested by")
        print_rows(titles, rows, nothing=f"No campaign of the tenant {tenant} waits for an approval.")


def _approval_row(found: CampaignApprovalResponse) -> tuple[Text, str]:
    return two_lines(found.campaign_id, found.name), f"{found.approval.recipients:,}"


@app.command()
def check(
    campaign_id: CampaignId,
    check_links: Annotated[bool, typer.Option("--check-links", help="Request every link.")] = False,
    as_json: Json = False,
) -> None:
    """Run the pre-send checks without starting. Exit code 1 if the campaign cannot start."""
    if remote.server() is not None:
        if check_links:
            remote.require_local("--check-links")
        action, path = noun.find(campaigns.preflight), {"campaign_id": campaign_id}
        print_result(action, perform(action, {}, path=path), path, as_json=as_json)
        return

    async def work(at: Installation) -> tuple[Campaign, CampaignCheck, list[PresendIssue], str, SendingReadiness]:
        campaign = await _found(at, campaign_id)
        found = await _examined(at, campaign, await _sender_problems(at, campaign))
        reviewed = await digest_checked(campaign, found, _rules(at))
        dead = await _dead_links(found) if check_links else []
        return campaign, found, dead, reviewed, await _readiness(at, campaign)

    campaign, examined, dead, reviewed, readiness = _run(work)
    if as_json:
        result = campaign_check_response(examined, reviewed, readiness)
        result.warnings += warning_responses(dead)
        print_json(result.to_dict())
    else:
        print_problems(examined.problems)
        print_warnings([*examined.warnings, *dead])
        errors = len(examined.problems)
        verdict = f"Cannot start: {errors} error{'' if errors == 1 else 's'}" if errors else "Ready to start"
        out.print(f"{verdict} ({_people(examined.planned)}{_in_waves(campaign)}).", soft_wrap=True)
        if examined.excluded:
            out.print(exclusion_sentence(examined.excluded), soft_wrap=True)
        out.print(examined.tracking.sentence, soft_wrap=True)
        out.print(readiness_text(readiness), markup=False, soft_wrap=True)
    if examined.problems:
        raise typer.Exit(NEGATIVE)


@app.command()
def start(
    campaign_id: CampaignId,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Return at once; workers enqueue the audience.")] = False,
    override_sender_rules: Annotated[
        bool,
        typer.Option(
            "--override-sender-rules",
            help="Start even if the large mailbox providers' sender rules are not met. The audit log records this.",
        ),
    ] = False,
    send_now: Annotated[bool, typer.Option("--now", help="Send now and ignore the send time.")] = False,
    reviewed: Annotated[
        str | None,
        typer.Option(
            help="The value of `reviewed` in `campaign check --json`. Refuse if the campaign has changed since.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Start a campaign: freeze its content and enqueue its audience. All errors are reported at once.

    A send time in the past is an error, unless you confirm with --now that the campaign should be sent now.

    Ctrl-C stops only the progress display; workers continue to enqueue the audience.
    """
    if remote.server() is not None:
        query = {"overrideSenderRules": override_sender_rules, "sendNow": send_now, "reviewed": reviewed}
        action, path = noun.find(campaigns.start), {"campaign_id": campaign_id}
        given = {name: value for name, value in query.items() if value is not None}
        print_result(action, perform(action, given, path=path), path, as_json=False)
        return

    async def work(at: Installation) -> tuple[View, str, tuple[BulkLimit, ...]]:
        draft = await _found(at, campaign_id)
        wanted = replace(draft, definition=with_send_time(draft.definition, send_now=send_now))
        print_warnings((await _examined(at, wanted)).warnings)
        campaign = await _campaigns(at).start(
            ACTOR, campaign_id, overrides_rules=override_sender_rules, send_now=send_now, reviewed=reviewed
        )
        if not no_wait:
            await _enqueue(at, campaign)
        view = await _view(at, campaign_id)
        limits = await load_bulk_limits(at.database, _defaults(at), campaign.tenant_id, at.clock.now())
        return view, await _what_happens_next(at, view), limits

    try:
        view, how, limits = _run(work)
    except KeyboardInterrupt:
        aside.print("Workers continue to enqueue the audience.")
        raise typer.Exit(INTERRUPTED) from None
    planned = view.numbers.counts.planned if view.numbers else 0
    people = f"{_people(planned)}{_in_waves(view.campaign)}"
    out.print(f"{view.campaign.name}: {people}; {how}.", markup=False, soft_wrap=True)
    if view.readiness is not None:
        out.print(readiness_text(view.readiness), markup=False, soft_wrap=True)
    for limit in limits:
        out.print(bulk_limit_text(limit), markup=False, soft_wrap=True)


@app.command()
def cancel(
    campaign_id: CampaignId,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Cancel a campaign. Messages already sent stay in the report."""
    path = {"campaign_id": campaign_id}
    if not yes:
        found = perform(noun.find(campaigns.show), {}, path=path)
        remaining = 0
        if (counts := found.counts) is not None:
            remaining = counts.not_enqueued + counts.waiting + counts.sending
        have = "has" if remaining == 1 else "have"
        unsent = f"{_people(remaining)} {have} not received it yet. " if remaining else ""
        typer.confirm(f"Cancel {found.name}? {unsent}This cannot be undone.", abort=True)
    cancelled = perform(noun.find(campaigns.cancel), {}, path=path)
    print_lines(campaigns.shown_status(cancelled, {}), cancelled)


@app.command()
def extend(
    campaign_id: CampaignId,
    segment: Annotated[str | None, typer.Option(help="Also add this segment.", show_default=False)] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count them; prints JSON with `reviewed`.")] = False,
    reviewed: Reviewed = None,
) -> None:
    """Also send the campaign to contacts who joined its audience after the start. Nobody gets it twice."""

    async def work(at: Installation) -> int:
        campaign, newcomers = await _campaigns(at).extend(ACTOR, campaign_id, segment=segment, reviewed=reviewed)
        await _enqueue(at, campaign)
        return newcomers

    path, wanted = {"campaign_id": campaign_id}, {} if segment is None else {"segment": segment}
    if dry_run:
        print_json(perform(noun.find(campaigns.show_extension), wanted, path=path).to_dict())
        return
    if remote.server() is not None:
        given = {**wanted, **({} if reviewed is None else {"reviewed": reviewed})}
        out.print(f"Added {_people(perform(noun.find(campaigns.extend), given, path=path).newcomers)}.")
        return
    out.print(f"Added {_people(_run(work))}.")


@app.command()
def winner(
    campaign_id: CampaignId,
    version: Annotated[
        str | None,
        typer.Argument(
            metavar="[VARIANT]", help="For example B. Without it, only the results are shown.", show_default=False
        ),
    ] = None,
    reviewed: Reviewed = None,
    as_json: Json = False,
) -> None:
    """Choose the winner of an A/B test and send it to the rest of the audience. Also shows the results."""

    async def work(at: Installation) -> View:
        if version is not None:
            await _campaigns(at).choose_winner(ACTOR, campaign_id, version, reviewed=reviewed)
        return await _view(at, campaign_id)

    view = _run(work)
    report = view.numbers.ab_test if view.numbers else None
    if as_json:
        print_json(campaign_response(view.campaign, view.numbers).to_dict()["abTest"])
    else:
        out.print(ab_test_text(report) if report else "The campaign has no A/B test.", markup=False, soft_wrap=True)


@app.command("test")
def send_test(
    campaign_id: CampaignId,
    addresses: Annotated[list[str], typer.Argument(metavar="ADDRESS…", show_default=False)],
    as_contact: Annotated[
        str | None, typer.Option("--as", help="Fill the email with this contact's data.", show_default="sample values")
    ] = None,
) -> None:
    """Send a test email to some addresses. It does not count in the report."""
    if remote.server() is not None:
        wanted = {"addresses": addresses, **({} if as_contact is None else {"asContact": as_contact})}
        [messages] = perform(noun.find(campaigns.test), wanted, path={"campaign_id": campaign_id}).to_dict().values()
        typer.echo("\n".join(each["outboxId"] for each in messages))
        return

    async def work(at: Installation) -> list[str]:
        messages = await _campaigns(at).test_send(ACTOR, campaign_id, addresses, as_contact=as_contact)
        await warn_if_held(at)
        return [message.outbox_id for message in messages]

    for outbox_id in _run(work):
        typer.echo(outbox_id)


@app.command()
def edit(
    campaign_id: CampaignId,
    definition: Annotated[
        typer.FileText | None,
        typer.Argument(
            metavar="[FILE]", help="The definition as JSON; - reads stdin.", encoding="utf-8", show_default=False
        ),
    ] = None,
    values: Variables = None,
    attach: Attach = None,
    detach: Detach = None,
) -> None:
    """Replace the definition of a draft, or change its variables or attachments.

    `campaign show --json` prints the current definition as `definition`.
    """
    given = (
        None
        if definition is None
        else json_object(definition.read(), "FILE", example="`definition` in `campaign show --json`")
    )
    files = campaign_input.attachments(attach)
    variables = campaign_input.variables(values or [])
    if given is None and not variables and not files and not detach:
        raise typer.BadParameter("give a FILE, --var, --attach or --detach")

    path = {"campaign_id": campaign_id}
    campaign = perform(noun.find(campaigns.show), {}, path=path)
    removed = [campaign_input.named_attachment(campaign.attachments, name) for name in detach or ()]
    if given is not None or variables:
        changed = campaign.definition if given is None else given
        changed |= {"variables": {**changed.get("variables", {}), **variables}} if variables else {}
        campaign = perform(noun.find(campaigns.edit), changed, path=path)
    for attachment_id in removed:
        perform(noun.find(campaigns.detach), {}, path={**path, "attachment_id": attachment_id})
    _attach(path, files)
    _warn_of_past_send_time(campaign)
    out.print(f"Updated {campaign.name}. Check it with `mailwright campaign check {campaign_id}`.")


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
    guard_rails: GuardRails = None,
    ignore_frequency_cap: IgnoreCap = None,
    as_json: Json = False,
) -> None:
    """Show or edit a campaign's own limits. Options that are not given stay as they are."""
    changes = campaign_input.limits(locals())

    path = {"campaign_id": campaign_id}
    found = perform(noun.find(campaigns.show), {}, path=path)
    if changes:
        wanted = {**found.definition["limits"], **changes}
        found = perform(noun.find(campaigns.edit_limits), wanted, path=path)
    own = CampaignLimits.model_validate(found.definition["limits"])
    if as_json:
        print_json(own.model_dump(mode="json", by_alias=True))
    else:
        out.print(", ".join(limits(own)) or "The campaign has no limits. The tenant's limits apply.", markup=False)


@app.command()
def show(
    campaign_id: CampaignId,
    watch: Annotated[bool, typer.Option("--watch", help="Keep updating until the campaign ends.")] = False,
    as_json: Json = False,
) -> None:
    """Show a campaign's progress and why it waits, with the fields of GET /v1/campaigns/{id}."""
    if watch and as_json:
        raise typer.BadParameter("--watch and --json cannot be combined")
    if remote.server() is not None:
        if watch:
            remote.require_local("--watch")
        action, path = noun.find(campaigns.show), {"campaign_id": campaign_id}
        print_result(action, perform(action, {}, path=path), path, as_json=as_json)
        return
    if watch:
        with suppress(KeyboardInterrupt):
            _run(lambda at: _watch(at, campaign_id))
        return
    view = _run(lambda at: _view(at, campaign_id))
    if as_json:
        assert view.readiness is not None
        print_json(campaign_show_response(view.campaign, view.numbers, view.readiness, view.sent_to).to_dict())
    else:
        out.print(picture(view))


@app.command("report")
def report_command(
    campaign_id: CampaignId,
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="The file for the recipients.", show_default="stdout")
    ] = None,
    *,
    format_: Annotated[
        Literal["csv", "jsonl"] | None,
        typer.Option("--format", help="Write the result for every recipient in this format.", show_default=False),
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="The same as --format csv.")] = False,
    as_json: Json = False,
    show: Annotated[
        str, typer.Option(help="Only these recipients, for example opened, clicked, did_not_open or bounced.")
    ] = "all",
) -> None:
    """Show the figures of a campaign. With --format, --show or a file, write the result for every recipient."""
    path = {"campaign_id": campaign_id}
    if format_ is None and not as_csv and file is None and show == "all":
        if not sys.stdout.isatty():
            aside.print(
                "Only the figures are written. For a row per recipient, add --format csv or jsonl.", markup=False
            )
        figures = noun.find(campaign_reports.show_report)
        print_result(figures, perform(figures, {}, path=path), path, as_json=as_json)
        return
    is_json = format_ == "jsonl" or (format_ is None and as_json)
    action = noun.find(campaign_reports.report_json_lines if is_json else campaign_reports.report_csv)
    perform(action, {"show": show}, path=path, target=file)


app.command("repeat")(repeat_command)


def _run(work: Callable[[Installation], Awaitable[Found]]) -> Found:
    """Run a command. If it raises because the campaign cannot start, print the errors, one per line."""
    try:
        return run(work)
    except CampaignNotStartable as refused:
        print_problems(refused.problems)
        aside.print("The campaign cannot start.")
        raise typer.Exit(NEGATIVE) from refused
    except NotFound as error:
        raise NotFound("There is no campaign with this id.") from error


def _campaigns(at: Installation) -> Campaigns:
    return Campaigns(at.database, at.clock, _templates(at), _rules(at), _guard_rails(at))


def _rules(at: Installation) -> SenderRules:
    return campaigns.sender_rules(console_context(at))


def _defaults(at: Installation) -> DefaultLimits:
    # Imported here because they are slow and few campaign commands need them.
    from mailwright.app.limits import defaults_of  # noqa: PLC0415
    from mailwright.providers.route import providers_of  # noqa: PLC0415

    return defaults_of(at.settings, providers_of(at.settings))


def _guard_rails(at: Installation) -> InstallationRails:
    from mailwright.app.limits import guard_rails  # noqa: PLC0415 - as above

    return guard_rails(at.settings)


def _templates(at: Installation) -> TemplateStore:
    return make_templates(at.settings, at.database, at.clock)


async def _found(at: Installation, campaign_id: str) -> Campaign:
    campaign = await _campaigns(at).find(campaign_id, tenant_id=None)
    await show_zone_of(at, campaign.tenant_id)
    return campaign


async def _view(at: Installation, campaign_id: str) -> View:
    campaign, now = await _found(at, campaign_id), at.clock.now()
    await refresh_queue(at.database, at.clock, _defaults(at))
    numbers = await load_numbers(at.database, campaign)
    return View(
        campaign,
        numbers.position if numbers else None,
        numbers,
        now,
        await _readiness(at, campaign),
        await find_sent_to(at.settings, at.database, numbers.sent_through if numbers else ()),
    )


async def _readiness(at: Installation, campaign: Campaign) -> SendingReadiness:
    sender = campaign.definition.sender
    return await load_readiness(at.settings, at.database, at.clock, campaign.tenant_id, sender=sender)


def _in_waves(campaign: Campaign) -> str:
    waves = campaign.definition.waves
    return "" if waves is None else f", {waves.sentence}"


async def _what_happens_next(at: Installation, view: View) -> str:
    """Return a sentence: the reason why a started campaign is not being sent, or that workers are sending it."""
    if view.place is not None and view.place.defer_reason == NO_WORKER:
        return "no worker is running, start one with `mailwright worker`"
    if deferral := waiting(view.place, view.now):
        return deferral
    from mailwright.sources.campaigns.forecast import forecast  # noqa: PLC0415 - as above

    found = await forecast(at.database, at.clock, _defaults(at), tenant_id=view.campaign.tenant_id)
    own = next((each for each in found.campaigns if each.campaign_id == view.campaign.campaign_id), None)
    # A shorter wait is the pace of sending, and not a deferral.
    if own is None or own.starts_at is None or own.starts_at - view.now < MIN_DEFERRAL or not own.segments:
        return "workers are sending it"
    reason = own.segments[0].reason
    return "workers are sending it" if reason is None else deferral_text(reason, own.starts_at, view.now)


async def _watch(at: Installation, campaign_id: str) -> None:
    from rich.live import Live  # noqa: PLC0415 - as above

    view = await _view(at, campaign_id)
    with Live(picture(view), console=out, auto_refresh=False) as shown:
        while not view.is_over:
            await asyncio.sleep(WATCH_SECONDS)
            view = await _view(at, campaign_id)
            shown.update(picture(view), refresh=True)


async def _enqueue(at: Installation, campaign: Campaign) -> None:
    """Enqueue the audience like a worker does, so that it is ready even if no worker runs yet."""
    view = await _view(at, campaign.campaign_id)
    if view.place is None or view.place.defer_reason is not None:
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415 - as above

    columns = (BarColumn(), TextColumn("{task.completed:,.0f} recipients"), TimeRemainingColumn())
    with Progress(*columns, console=aside, transient=True) as shown:
        task = shown.add_task("", total=view.place.planned)
        while (entry := await enqueue_batch(at.database, at.clock, campaign.key)) is not None:
            shown.update(task, completed=entry.processed)


async def _examined(at: Installation, campaign: Campaign, sender_problems: tuple[str, ...] = ()) -> CampaignCheck:
    from mailwright.app.limits import default_limits  # noqa: PLC0415 - as above

    return await check_campaign(
        at.database,
        _templates(at),
        campaign.definition,
        tenant_id=campaign.tenant_id,
        now=at.clock.now(),
        facts=PresendContext(
            postal_address=at.settings.postal_address, sender=sender_problems, limits=default_limits(at.settings)
        ),
        counts_excluded=True,
        rules=_rules(at),
        attachments=campaign.attachments,
    )


async def _sender_problems(at: Installation, campaign: Campaign) -> tuple[str, ...]:
    """Return the DNS problems of the sender's domain, for the provider that sends the campaign."""
    from mailwright.app.named_providers import load_named  # noqa: PLC0415
    from mailwright.app.sender_dns import check_sender  # noqa: PLC0415
    from mailwright.domain.findings import Verdict  # noqa: PLC0415 - as above

    provider = (await load_named(at.database, at.settings)).find(campaign.tenant_id, Source.CAMPAIGN)
    settings = at.settings if provider is None else provider.settings
    sender = await _rules(at).sender_of(campaign.tenant_id, campaign.definition.sender)
    own = settings.model_copy(update={"sender": sender or settings.sender})
    found = [each async for each in check_sender(own) if each.verdict is Verdict.PROBLEM]
    return tuple(f"{each.name.upper()}: {each.summary}" for each in found)


async def _dead_links(examined: CampaignCheck) -> list[PresendIssue]:
    from mailwright.app.link_checks import dead_links  # noqa: PLC0415 - as above

    bodies = [text.html for draft in examined.drafts for text in draft.texts.values()]
    return await dead_links(list(dict.fromkeys(link for html in bodies for link in links_of(html))))


def _warn_of_past_send_time(saved: CampaignResponse) -> None:
    updated_at = to_instant(datetime.fromisoformat(saved.updated_at))
    if saved.scheduled_at is not None and is_past(to_instant(datetime.fromisoformat(saved.scheduled_at)), updated_at):
        aside.print(Text(f"! --schedule: {PAST_SEND_TIME_WARNING} [SCHEDULE_IN_PAST]", style="yellow"), soft_wrap=True)


def _row(view: View) -> tuple[Text, Text]:
    about = Text.assemble(status(view.campaign.status), f"  {view.campaign.name}")
    if deferral := waiting(view.place, view.now):
        about.append(f"\n{deferral}", style="bright_black")
    if repeats := repeat_text(view.campaign):
        about.append(f"\n{repeats}", style="bright_black")
    return two_lines(view.campaign.campaign_id, clock_time(view.campaign.created_at)), about


def _people(count: int) -> str:
    return f"{count:,} recipient{'' if count == 1 else 's'}"
