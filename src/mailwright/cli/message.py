"""`mailwright message`: send, find, explain, retry, cancel and resolve messages."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from enum import Enum
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from mailwright.cli.actions import commands, print_explanation
from mailwright.cli.message_send import send_command
from mailwright.cli.opening import Installation, find_tenant, run
from mailwright.cli.options import Json, Limit, MessageId, Tenant, group
from mailwright.cli.output import clock_time, display, out, print_json, print_rows, status_text, two_lines, zone_time
from mailwright.domain import address
from mailwright.domain.clock import Instant, to_instant
from mailwright.domain.errors import NotFound
from mailwright.domain.explanation import MessageExplanation
from mailwright.domain.message import Event, Source
from mailwright.domain.permits import split_defer_reason
from mailwright.domain.states import MessageGroup, Resolution, Status
from mailwright.outbox import message_records, tenants
from mailwright.outbox.message_records import MessageRecord, MessageSearch, MessageSummary
from mailwright.outbox.operations import Operations
from mailwright.outbox.search import find_deferrals
from mailwright.schemas.explanations import message_explanation
from mailwright.schemas.messages import message_response, message_summary_response
from mailwright.texts.explanations import deferral_text, message_text

app = group("Send, find, explain, retry, cancel and resolve messages.")
app.command("send")(send_command)

Moment = Annotated[
    datetime | None,
    typer.Option(formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"], help="Time in the tenant's time zone.", show_default=False),
]


class ShownStatus(Enum):
    """The statuses that the commands print: message states, and groups of messages that are shown like a state."""

    PENDING = Status.PENDING
    SENT_ATTEMPT = Status.SENT_ATTEMPT
    RETRY_SCHEDULED = Status.RETRY_SCHEDULED
    SENT = Status.SENT
    BOUNCED = MessageGroup.BOUNCED
    FAILED = Status.FAILED
    SUPPRESSED = MessageGroup.SUPPRESSED
    IN_DOUBT = Status.IN_DOUBT
    CLOSED_UNKNOWN = Status.CLOSED_UNKNOWN
    CANCELLED = Status.CANCELLED
    QUEUED = MessageGroup.QUEUED


# Event fields to show, each with its prefix.
_DETAILS = (
    ("provider", "by "),
    ("source", "reported by "),
    ("recipient", "to "),
    ("sender", "from "),
    ("subject", ""),
    ("bounceType", ""),
    ("bounceSubtype", ""),
    ("feedbackType", ""),
    ("machineReason", ""),
    ("status", "status "),
    ("diagnosticCode", ""),
    ("errorCode", ""),
    ("errorMessage", ""),
    ("message", ""),
    ("providerMessageId", "id "),
    ("deferReason", ""),
    ("reason", ""),
    ("worker", "worker "),
    ("resolvedBy", "by "),
    ("as", "as "),
    ("link", ""),
    ("url", ""),
)


@app.command()
def show(outbox_id: MessageId, as_json: Json = False) -> None:
    """Show a message and its events, with the fields of GET /v1/email/{id}."""

    async def work(at: Installation) -> tuple[MessageRecord, MessageExplanation]:
        record = await _found(at, outbox_id)
        if not as_json:
            owner = await tenants.find(at.database, record.tenant)
            [summary] = await with_rendered_subjects(at, owner.id, [record.summary])
            record = replace(record, summary=summary)
        return record, await _explained(at, outbox_id)

    record, explanation = run(work)
    if as_json:
        print_json(message_response(record).to_dict())
        return
    out.print(_header(record))
    for each in record.warnings:
        out.print(Text(f"! {each['detail']} [{each['code']}]", style="yellow"), soft_wrap=True)
    _print_explanation(explanation)
    out.print(_timeline(record))


@app.command()
def explain(outbox_id: MessageId, as_json: Json = False) -> None:
    """Explain why a message has not been sent yet, until when it waits, and what you can do."""

    async def work(at: Installation) -> MessageExplanation:
        await _found(at, outbox_id)
        return await _explained(at, outbox_id)

    explanation = run(work)
    if as_json:
        print_json(message_explanation(explanation))
    else:
        _print_explanation(explanation)


async def _explained(at: Installation, outbox_id: str) -> MessageExplanation:
    # Limits and policies take long to import, and other commands do not need them.
    from mailwright.app.destinations import destinations_of  # noqa: PLC0415
    from mailwright.app.limits import defaults_of  # noqa: PLC0415
    from mailwright.app.named_providers import load_named  # noqa: PLC0415
    from mailwright.providers.route import providers_of  # noqa: PLC0415
    from mailwright.sources.message_limits import explain_message  # noqa: PLC0415

    defaults = defaults_of(at.settings, providers_of(at.settings))
    destinations = destinations_of(at.settings, await load_named(at.database, at.settings))
    return await explain_message(at.database, at.clock, defaults, outbox_id, tenant_id=None, destinations=destinations)


@app.command("list")
def list_command(
    *,
    tenant: Tenant = tenants.DEFAULT,
    status: Annotated[ShownStatus | None, typer.Option(case_sensitive=False, show_default=False)] = None,
    to: Annotated[str | None, typer.Option(help="The recipient address.", show_default=False)] = None,
    source: Annotated[Source | None, typer.Option(help="The source of the message.", show_default=False)] = None,
    since: Moment = None,
    until: Moment = None,
    limit: Limit = 50,
    as_json: Json = False,
) -> None:
    """List a tenant's messages, newest first."""
    recipient = _normal(to)

    async def work(at: Installation) -> tuple[list[MessageSummary], dict[int, str]]:
        owner = await find_tenant(at, tenant)
        first, last = _instant(since), _instant(until)
        wanted = MessageSearch(to_email=recipient, source=source, since=first, until=last)
        wanted = wanted.with_shown_status(None if status is None else status.value)
        found = await message_records.search(at.database, owner.id, wanted, limit=limit)
        if as_json:
            return found, {}
        now = at.clock.now()
        waits = await find_deferrals(at.database, found, now)
        reasons = {key: deferral_text(wait.reason, wait.until, now, display.zone) for key, wait in waits.items()}
        return await with_rendered_subjects(at, owner.id, found), reasons

    found, waits = run(work)
    if as_json:
        print_json([message_summary_response(message).to_dict() for message in found])
        return
    rows = (_row(message, waits.get(message.message_key)) for message in found)
    print_rows(("Message and time ({zone})!", "Status and recipient"), rows, nothing="No messages.")


@app.command()
def retry(outbox_id: MessageId) -> None:
    """Retry a failed message with a fresh set of attempts."""

    async def work(at: Installation) -> Status:
        return await Operations(at.database, at.clock).requeue(outbox_id, tenant_id=None)

    _print_new_status(outbox_id, run(work))


@app.command()
def cancel(outbox_id: MessageId) -> None:
    """Cancel a waiting message. A message in flight cannot be cancelled."""

    async def work(at: Installation) -> Status:
        return await Operations(at.database, at.clock).cancel(outbox_id, tenant_id=None)

    _print_new_status(outbox_id, run(work))


@app.command()
def resolve(
    outbox_id: MessageId,
    resolution: Annotated[
        Resolution,
        typer.Option(
            "--as",
            help="sent: the provider accepted it. resend: send it again. close: close it as unknown.",
            show_default=False,
        ),
    ],
) -> None:
    """Resolve a message in doubt."""

    async def work(at: Installation) -> Status:
        return await Operations(at.database, at.clock).resolve(outbox_id, resolution, tenant_id=None)

    _print_new_status(outbox_id, run(work))


async def with_rendered_subjects(
    at: Installation, tenant_id: int, found: Sequence[MessageSummary]
) -> list[MessageSummary]:
    """Replace template subjects by the subjects that recipients see."""
    rendered = await rendered_subjects(at, tenant_id, {each.outbox_id: each.subject for each in found})
    return [replace(each, subject=rendered.get(each.outbox_id, each.subject)) for each in found]


async def rendered_subjects(at: Installation, tenant_id: int, stored: Mapping[str, str]) -> dict[str, str]:
    """Return the rendered subjects that differ from the stored ones, by message id."""
    if not any("{" in subject for subject in stored.values()):
        return {}
    from mailwright.pipeline.rerender import render_subjects  # noqa: PLC0415 - templates are slow to import

    return await render_subjects(at.database, stored, tenant_id=tenant_id, at=at.clock.now())


async def _found(at: Installation, outbox_id: str) -> MessageRecord:
    try:
        found = await message_records.find(at.database, outbox_id, tenant_id=None)
    except NotFound as error:
        raise NotFound(f"There is no message {outbox_id[:80]}.") from error
    await find_tenant(at, found.tenant)
    return found


def _print_new_status(outbox_id: str, status: Status) -> None:
    out.print(Text.assemble(f"{outbox_id} is now ", status_text(status)), soft_wrap=True)


def _row(message: MessageSummary, deferral: str | None) -> tuple[Text, Text]:
    about = Text.assemble(status_text(message.shown_status), f"  {message.to_email}\n{message.subject}")
    if reason := deferral or why(message):
        about.append(f"\n{reason}", style="bright_black")
    return two_lines(message.outbox_id, clock_time(message.created_at)), about


def _header(record: MessageRecord) -> Table:
    message = record.summary
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bright_black", no_wrap=True)
    grid.add_column(overflow="fold")
    facts: tuple[tuple[str, Any], ...] = (
        ("message", message.outbox_id),
        ("status", status_text(message.shown_status)),
        ("to", message.to_email),
        ("subject", message.subject),
        ("tenant", record.tenant),
        ("source", message.source),
        ("request", message.request_id),
        ("accepted", zone_time(message.created_at)),
        ("attempts", message.attempts or None),
        ("provider", _provider(message)),
        ("error", why(message) or None),
    )
    for name, value in facts:
        if value is not None:
            grid.add_row(name, value if isinstance(value, Text) else Text(str(value)))
    return grid


def _provider(message: MessageSummary) -> str | None:
    if message.provider is None:
        return None
    return f"{message.provider}, {message.provider_message_id}" if message.provider_message_id else message.provider


def why(message: MessageSummary) -> str:
    """Return the error in one line, or an empty string."""
    if message.error_code is None:
        return split_defer_reason(message.defer_reason)[0] or ""
    return f"{message.error_code}: {message.error_reason}" if message.error_reason else message.error_code


def _print_explanation(explanation: MessageExplanation) -> None:
    out.print()
    print_explanation(message_text(explanation, display.zone), commands(explanation))


def _timeline(record: MessageRecord) -> Table:
    """Show each event with the time since acceptance."""
    start = record.summary.created_at
    grid = Table.grid(padding=(0, 2))
    grid.add_column(justify="right", style="bright_black", no_wrap=True)
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row("", "", "")
    grid.add_row("+0 ms", "ACCEPTED", "")
    for event in record.events:
        grid.add_row(_after(event.at - start), str(event.type), Text(_details(event)))
    return grid


def _details(event: Event) -> str:
    metadata = event.metadata
    parts: list[str] = [f"attempt {metadata['attempt']}"] if "attempt" in metadata else []
    parts += ["by a machine"] if event.is_machine else ["automatic"] if event.is_automatic else []
    parts += [f"{words}{metadata[name]}" for name, words in _DETAILS if metadata.get(name)]
    if metadata.get("willRetry"):
        parts.append(f"retry in {metadata.get('backoffDelay', 0) / 1000:.3g} s")
    return ", ".join(parts)


def _after(milliseconds: Instant) -> str:
    """Format a duration as `+12 ms`, `+3.41 s` or `+2 h 05 min`."""
    if milliseconds < 1_000:
        return f"+{milliseconds} ms"
    if milliseconds < 60_000:
        return f"+{milliseconds / 1000:.2f} s"
    minutes, seconds = divmod(milliseconds // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    return f"+{hours} h {minutes:02} min" if hours else f"+{minutes} min {seconds:02} s"


def _normal(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return address.normal(text)
    except address.InvalidAddress as error:
        raise typer.BadParameter(str(error), param_hint="--to") from error


def _instant(time: datetime | None) -> Instant | None:
    return None if time is None else to_instant(time.replace(tzinfo=display.zone))
