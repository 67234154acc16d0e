"""`mailwright mailout send` and `watch`, which read Notion. The other commands are derived from the actions."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.text import Text

from mailwright.actions.mailouts import ONLY_LOCAL, MailoutResponse, about, mailout_responses, noun
from mailwright.app.mailouts import MailoutService
from mailwright.app.templates import make_templates
from mailwright.cli.derived import make_group, print_lines
from mailwright.cli.exit_codes import NEGATIVE
from mailwright.cli.opening import Installation, run, warn_if_held
from mailwright.cli.options import Json
from mailwright.cli.output import aside, out, print_json, print_rows
from mailwright.content.template import RenderedEmail
from mailwright.ops.periodic import run_periodically
from mailwright.outbox.audit_log import CONSOLE
from mailwright.schemas.base import From, ResponseModel, combine
from mailwright.sources.mailouts.notion import NotionUnavailable
from mailwright.sources.mailouts.prepare import DryRun
from mailwright.sources.mailouts.refusals import MailoutRefused
from mailwright.sources.mailouts.runs import MailoutRun, MailoutRunStatus, RunError
from mailwright.sources.mailouts.sender import MailoutSender
from mailwright.sources.mailouts.supabase import SupabaseUnavailable
from mailwright.sources.mailouts.verify import verify_mailouts
from mailwright.texts.sentences import sentence

app = make_group(noun)

Page = Annotated[str, typer.Argument(metavar="PAGE", help="The page's address or id.", show_default=False)]

Found = TypeVar("Found")


class MailoutRecipientResponse(ResponseModel):
    email: str
    from_name: str | None


class ExcludedRecipientResponse(ResponseModel):
    email: str
    reason: str


class UnsupportedBlockResponse(ResponseModel):
    block: Annotated[str, From("block_id")]
    type: str
    reason: str
    code: str


class MailoutDryRunResponse(ResponseModel):
    """What a mailout would send. `unsupported`: parts of the page that recipients will not see."""

    subject: str
    is_test: Annotated[bool, From("page.is_test")]
    is_local: bool
    recipients: list[MailoutRecipientResponse]
    excluded: list[ExcludedRecipientResponse]
    html: str | None
    text: str | None
    unsupported: Annotated[list[UnsupportedBlockResponse], From("content.issues")]


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
            found, email = _run(lambda _, mailouts: _dry_run(mailouts, page))
        except MailoutRefused as refused:
            faults = [(each.code, str(each)) for each in refused.each]
            faults += [(issue.code, f"{issue.type}: {issue.reason}") for issue in refused.issues]
            raise _refused(faults) from refused
        _show_dry_run(found, email, html, as_json=as_json)
        return

    async def work(at: Installation, mailouts: MailoutSender) -> tuple[MailoutRun, MailoutResponse, list[RunError]]:
        begun = await mailouts.send(page, actor=CONSOLE, overrides_rules=override_sender_rules)
        begun = await _prepare(mailouts, begun)
        await warn_if_held(at)
        [response] = await mailout_responses(at.database, at.clock, [begun])
        return begun, response, await mailouts.list_errors(begun)

    begun, response, errors = _run(work)
    if begun.status is MailoutRunStatus.REFUSED:
        raise _refused([(each.code, each.message) for each in errors])
    if as_json:
        print_json(response.to_dict())
    else:
        print(begun.mailout_id)


@app.command()
def watch(
    every: Annotated[int, typer.Option(min=5, max=86_400, help="Polling interval in seconds.")] = 30,
    once: Annotated[bool, typer.Option("--once", help="Check once and exit.")] = False,
) -> None:
    """Send every page of NOTION_DB_MAILOUTS when its status becomes Ready.

    A page that was refused is tried again when it changes. A page that was sent as a test is sent when its row changes.
    """

    async def send_ready(at: Installation, mailouts: MailoutSender) -> None:
        for begun in await mailouts.send_ready_pages(actor=f"{CONSOLE}: watch"):
            [prepared] = await mailout_responses(at.database, at.clock, [await _prepare(mailouts, begun)])
            print_lines([(prepared.run_id, "  ", about(prepared))], prepared)

    async def look(at: Installation, mailouts: MailoutSender) -> None:
        try:
            await send_ready(at, mailouts)
        except NotionUnavailable as error:
            aside.print(Text(f"! {sentence(str(error))} Retrying.", style="yellow"), soft_wrap=True)

    async def work(at: Installation, mailouts: MailoutSender) -> None:
        await run_periodically(
            "mailouts", lambda: look(at, mailouts), seconds=every, expected=(), raises_unexpected=True
        )

    _run(send_ready if once else work)


def _run(work: Callable[[Installation, MailoutSender], Awaitable[Found]]) -> Found:
    from mailwright.app.sender_directory import make_directory  # noqa: PLC0415 - as below
    from mailwright.app.sender_rules import make_sender_rules  # noqa: PLC0415 - loads the DNS checks

    async def opened(at: Installation) -> Found:
        verify_mailouts(at.settings)
        templates = make_templates(at.settings, at.database, at.clock)
        rules = make_sender_rules(at.settings, at.database, make_directory(at.settings, at.database, at.clock))
        service = MailoutService(at.settings, at.database, at.clock, templates, rules)
        try:
            return await work(at, await service.open())
        finally:
            await service.close()

    return run(opened, creates=True)


async def _dry_run(mailouts: MailoutSender, page: str) -> tuple[DryRun, RenderedEmail]:
    found = await mailouts.dry_run(page)
    return found, mailouts.preview(found.content)


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


def _show_dry_run(found: DryRun, email: RenderedEmail, html: Path | None, *, as_json: bool) -> None:
    if html is not None:
        html.write_text(email.html or "", encoding="utf-8")
    if as_json:
        response = combine(
            MailoutDryRunResponse,
            email,
            found,
            recipients=[{"email": to, "from_name": name} for to, name in found.recipients.items()],
            excluded=[{"email": to, "reason": reason} for to, reason in found.excluded.items()],
        )
        print_json(response.to_dict())
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
