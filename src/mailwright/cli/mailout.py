"""`mailwright mailout`: send Notion pages to subscribers and write the results back to Notion."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Final, TypeVar

import typer
from rich.text import Text

from mailwright.app.mailouts import MailoutService
from mailwright.app.templates import make_templates
from mailwright.cli.exit_codes import NEGATIVE, sentence
from mailwright.cli.opening import Installation, run, warn_if_held
from mailwright.cli.options import Json, Limit, group
from mailwright.cli.output import aside, clock_time, out, print_json, print_rows, two_lines, write_parts, zone_time
from mailwright.content.template import RenderedEmail
from mailwright.domain.errors import NotFound
from mailwright.ops.periodic import run_periodically
from mailwright.outbox.audit_log import CONSOLE
from mailwright.schemas.base import extend
from mailwright.schemas.mailouts import MailoutDetailResponse, dry_run_response, mailout_response
from mailwright.schemas.recipient_report import recipients_csv
from mailwright.sources.campaigns import report
from mailwright.sources.mailouts.notion import NotionUnavailable
from mailwright.sources.mailouts.prepare import DryRun
from mailwright.sources.mailouts.progress import MailoutProgress, progress_of, shown_status
from mailwright.sources.mailouts.refusals import MailoutRefused
from mailwright.sources.mailouts.runs import MailoutRun, MailoutRunStatus, RunError
from mailwright.sources.mailouts.sender import MailoutSender
from mailwright.sources.mailouts.supabase import SupabaseUnavailable
from mailwright.sources.mailouts.verify import verify_mailouts
from mailwright.sources.mailouts.wait_reasons import RunWait, find_waits
from mailwright.texts.explanations import mailout_wait_text

app = group("Mailouts: Notion pages sent to subscribers.")

SHAPES: Final = {
    "accepted": ("○", "cyan"),
    "gathering": ("○", "cyan"),
    "queueing": ("○", "cyan"),
    "sending": ("→", "cyan"),
    "paused": ("‖", "yellow"),
    "cancelled": ("✗", "yellow"),
    "sent": ("✓", "green"),
    "refused": ("✗", "red"),
}

# The maximum number of errors in JSON. `mailout report` names every recipient.
MAX_ERRORS: Final = 10_000
ONLY_LOCAL: Final = "The provider is the local mailbox, so nobody receives these emails."

Page = Annotated[str, typer.Argument(metavar="PAGE", help="The page's address or id.", show_default=False)]
RunId = Annotated[str, typer.Argument(metavar="RUN", help="The run id that `mailout send` prints.", show_default=False)]

Found = TypeVar("Found")


@app.command()
def send(
    page: Page,
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Render the page, list the recipients, and send nothing.")
    ] = False,
    html: Annotated[
        Path | None, typer.Option(help="With --dry-run: write the HTML to this file.", show_default=False)
    ] = None,
    override_sender_rules: Annotated[
        bool,
        typer.Option(
            "--override-sender-rules",
            help="Send even if the large mailbox providers' sender rules are not met. The audit log records this.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Send a page and print only the run id on stdout. A worker sends the messages.

    If Test is ticked on the page, it goes to TEST_EMAILS only. A page with errors is refused and nothing is sent.
    """
    if dry_run:
        try:
            found, email = _run(lambda mailouts: _dry_run(mailouts, page))
        except MailoutRefused as refused:
            faults = [(each.code, str(each)) for each in refused.each]
            faults += [(issue.code, f"{issue.type}: {issue.reason}") for issue in refused.issues]
            raise _refused(faults) from refused
        _show_dry_run(found, email, html, as_json=as_json)
        return
    begun, wait, errors = _run_at(lambda at, mailouts: _send(at, mailouts, page, overrides_rules=override_sender_rules))
    if begun.status is MailoutRunStatus.REFUSED:
        raise _refused([(each.code, each.message) for each in errors])
    if as_json:
        print_json(mailout_response(begun, None, wait).to_dict())
    else:
        print(begun.mailout_id)


@app.command("list")
def list_runs(limit: Limit = 20, as_json: Json = False) -> None:
    """List runs, newest first."""

    async def work(at: Installation) -> list[tuple[MailoutRun, MailoutProgress | None, RunWait | None]]:
        runs = await _service(at).runs.list_runs(tenant_id=None, limit=limit)
        tallies = await progress_of(at.database, at.clock, runs)
        waits = await find_waits(at.database, at.clock, runs)
        return [(each, tallies.get(each.key), waits.get(each.key)) for each in runs]

    found = run(work)
    if as_json:
        print_json([mailout_response(each, tally, wait).to_dict() for each, tally, wait in found])
        return
    rows = ((two_lines(each.mailout_id, clock_time(each.created_at)), _about(each, tally)) for each, tally, _ in found)
    print_rows(("Run!", "Mailout"), rows, nothing="No mailouts yet. Send a page with `mailwright mailout send PAGE`.")
    _show_wait(next((wait for _, _, wait in found if wait is not None), None))


@app.command()
def show(run_id: RunId, as_json: Json = False) -> None:
    """Show the progress and errors of a run, and when its result was written back to Notion."""

    async def work(at: Installation) -> tuple[MailoutRun, MailoutProgress | None, list[RunError], RunWait | None]:
        runs = _service(at).runs
        found = await runs.find(run_id, tenant_id=None)
        tallies = await progress_of(at.database, at.clock, [found])
        waits = await find_waits(at.database, at.clock, [found])
        errors = await runs.list_errors(found, MAX_ERRORS if as_json else 100)
        return found, tallies.get(found.key), errors, waits.get(found.key)

    found, tally, errors, wait = _find_run(lambda: run(work))
    if as_json:
        shown = mailout_response(found, tally, wait)
        print_json(extend(MailoutDetailResponse, shown, errors=errors, reported=found.figures).to_dict())
        return
    out.print(_about(found, tally))
    _show_wait(wait)
    for each in errors:
        if (each.code, each.message) == (found.error_code, found.error_message):
            continue  # Already shown above.
        whom = f" {each.email}" if each.email else ""
        out.print(Text(f"✗ {each.stage}{whom}: {each.message} [{each.code}]", style="red"), soft_wrap=True)
    if tally is not None and tally.failed:
        out.print(f"`mailwright mailout report {run_id}` lists the failed recipients.", soft_wrap=True)
    if found.reported_at is not None:
        out.print(f"Written back to Notion at {zone_time(found.reported_at)}.")
    if (waits := found.delay) is not None:
        again = f"Failed {waits.failures} times" if waits.failures > 1 else "Failed once"
        message = f"! {sentence(waits.reason)} [{waits.code}] {again}; next attempt at {zone_time(waits.next_try_at)}."
        out.print(Text(message, style="yellow"), soft_wrap=True)


@app.command("report")
def report_command(
    run_id: RunId,
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="The file to write.", show_default="stdout")
    ] = None,
) -> None:
    """Write the result for every recipient as CSV: email, status, error_message, message_id, sent_at and others."""

    async def work(at: Installation) -> None:
        found = await _service(at).runs.find(run_id, tenant_id=None)
        parts = recipients_csv(report.report_rows(at.database, found.campaign_key or 0))
        await write_parts(parts, file)

    _find_run(lambda: run(work))


@app.command()
def watch(
    every: Annotated[int, typer.Option(min=5, max=86_400, help="Polling interval in seconds.")] = 30,
    once: Annotated[bool, typer.Option("--once", help="Check once and exit.")] = False,
) -> None:
    """Send every page of NOTION_DB_MAILOUTS when its status becomes Ready.

    A page that was refused is tried again when it changes. A page that was sent as a test is sent when its row changes.
    """

    async def send_ready(mailouts: MailoutSender) -> None:
        for begun in await mailouts.send_ready_pages(actor=f"{CONSOLE}: watch"):
            prepared = await _prepare(mailouts, begun)
            out.print(Text.assemble(prepared.mailout_id, "  ", _about(prepared, None)), soft_wrap=True)

    async def look(mailouts: MailoutSender) -> None:
        try:
            await send_ready(mailouts)
        except NotionUnavailable as error:
            aside.print(Text(f"! {sentence(str(error))} Retrying.", style="yellow"), soft_wrap=True)

    async def work(mailouts: MailoutSender) -> None:
        await run_periodically("mailouts", lambda: look(mailouts), seconds=every, expected=(), raises_unexpected=True)

    _run(send_ready if once else work)


def _run(work: Callable[[MailoutSender], Awaitable[Found]]) -> Found:
    return _run_at(lambda _, mailouts: work(mailouts))


def _run_at(work: Callable[[Installation, MailoutSender], Awaitable[Found]]) -> Found:
    async def opened(at: Installation) -> Found:
        async with _opened(at) as mailouts:
            return await work(at, mailouts)

    return run(opened, creates=True)


@asynccontextmanager
async def _opened(at: Installation) -> AsyncIterator[MailoutSender]:
    verify_mailouts(at.settings)
    service = _service(at)
    try:
        yield await service.open()
    finally:
        await service.close()


def _service(at: Installation) -> MailoutService:
    from mailwright.app.sender_directory import make_directory  # noqa: PLC0415 - as below
    from mailwright.app.sender_rules import make_sender_rules  # noqa: PLC0415 - loads the DNS checks

    templates = make_templates(at.settings, at.database, at.clock)
    rules = make_sender_rules(at.settings, at.database, make_directory(at.settings, at.database, at.clock))
    return MailoutService(at.settings, at.database, at.clock, templates, rules)


async def _dry_run(mailouts: MailoutSender, page: str) -> tuple[DryRun, RenderedEmail]:
    found = await mailouts.dry_run(page)
    return found, mailouts.preview(found.content)


async def _send(
    at: Installation, mailouts: MailoutSender, page: str, *, overrides_rules: bool
) -> tuple[MailoutRun, RunWait | None, list[RunError]]:
    """Send the page and return its run, the reason why it waits, and its errors."""
    begun = await _prepare(mailouts, await mailouts.send(page, actor=CONSOLE, overrides_rules=overrides_rules))
    await warn_if_held(at)
    waits = await find_waits(at.database, at.clock, [begun])
    return begun, waits.get(begun.key), await mailouts.list_errors(begun)


def _refused(faults: Sequence[tuple[str, str]]) -> typer.Exit:
    """Print one line per error, with its code."""
    for code, message in faults:
        aside.print(Text(f"✗ {sentence(message)} [{code}]", style="red"), soft_wrap=True)
    return typer.Exit(NEGATIVE)


async def _prepare(mailouts: MailoutSender, begun: MailoutRun) -> MailoutRun:
    """Prepare the run now, so that its errors are shown. After a temporary failure, a worker tries again."""
    if begun.status is MailoutRunStatus.REFUSED:
        return begun
    if (waits := begun.delay) is not None:
        _leave_to_worker(waits.reason)
        return begun
    try:
        with aside.status("Reading the page and its recipients …"):
            return await mailouts.prepare(begun)
    except (NotionUnavailable, SupabaseUnavailable) as error:
        _leave_to_worker(str(error))
        return begun


def _leave_to_worker(reason: str) -> None:
    aside.print(Text(f"! {sentence(reason)} A worker will retry.", style="yellow"), soft_wrap=True)


def _show_wait(wait: RunWait | None) -> None:
    if wait is not None:
        text = mailout_wait_text(wait.remedy)
        out.print(Text(f"! {text.sentence} {text.what_would_change}", style="yellow"), soft_wrap=True)
        out.print(Text("  mailwright worker", style="cyan"))


def _find_run(work: Callable[[], Found]) -> Found:
    try:
        return work()
    except NotFound as error:
        raise NotFound("There is no run with this id.") from error


def _about(found: MailoutRun, tally: MailoutProgress | None) -> Text:
    status = shown_status(found, tally)
    shape, colour = SHAPES[status]
    kind = "" if found.is_test is None else "  TEST" if found.is_test else "  REAL"
    about = Text.assemble((f"{shape} {status}", colour), f"  {found.subject or found.page_id}{kind}")
    if found.is_local:
        about.append(f"\n{ONLY_LOCAL}", style="yellow")
    if found.error_code is not None:
        about.append(f"\n{found.error_code}: {found.error_message}", style="bright_black")
    if tally is not None:
        about.append(f"\n{_counted(found, tally)}", style="bright_black")
    return about


def _counted(found: MailoutRun, tally: MailoutProgress) -> str:
    parts = [f"{tally.sent:,} of {found.planned or 0:,} sent", f"{tally.failed:,} failed"]
    rate = f" ({tally.bounce_rate:.1%})"
    others = (
        (f"bounced{rate}", tally.bounced),
        ("waiting", tally.waiting),
        ("in doubt", tally.in_doubt),
        ("suppressed", tally.suppressed),
    )
    parts += [f"{count:,} {words}" for words, count in (*others, ("cancelled", tally.cancelled)) if count]
    return ", ".join(parts)


def _show_dry_run(found: DryRun, email: RenderedEmail, html: Path | None, *, as_json: bool) -> None:
    if html is not None:
        html.write_text(email.html or "", encoding="utf-8")
    if as_json:
        print_json(dry_run_response(found, email).to_dict())
        return
    out.print(Text(email.subject, style="bold"), soft_wrap=True)
    out.print(Text(email.text or ""), soft_wrap=True)
    for each in found.content.issues:
        aside.print(Text(f"! {each.type}: {each.reason} [{each.code}]", style="yellow"), soft_wrap=True)
    print_rows(("Recipient", "From name"), found.recipients.items(), nothing="No recipients.")
    if found.excluded:
        rows = ((email, reason.replace("_", " ")) for email, reason in found.excluded.items())
        print_rows(("Excluded", "Reason"), rows, nothing="")
    count = len(found.recipients)
    people = f"{count:,} {'person' if count == 1 else 'people'}"
    kind = "TEST" if found.page.is_test else "REAL"
    excluded = f", {len(found.excluded):,} excluded" if found.excluded else ""
    out.print(Text(f"{kind}, {people}{excluded}. Nothing was sent.", style="bold"))
    if found.is_local:
        out.print(Text(ONLY_LOCAL, style="yellow"), soft_wrap=True)
