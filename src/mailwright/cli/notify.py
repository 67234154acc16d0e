"""`mailwright notify`: process an external queue of notifications."""

from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import typer
import uvloop

from mailwright.app.notification_queue import open_notification_service, open_queue_database
from mailwright.app.notifications import notify
from mailwright.app.shutdown import Shutdown
from mailwright.app.wiring import open_engine
from mailwright.cli.json_input import json_object
from mailwright.cli.opening import Installation, run, settings_for_service
from mailwright.cli.options import Json, Limit, group
from mailwright.cli.output import out, print_json, print_rows, two_lines
from mailwright.domain.errors import InvalidInput
from mailwright.ops.settings import Settings
from mailwright.outbox.audit_log import CONSOLE
from mailwright.schemas.notifications import (
    NotificationEventResponse,
    RequeuedNotificationsResponse,
    explanation_sentence,
    notification_response,
)
from mailwright.sources.notifications import times
from mailwright.sources.notifications.event_kinds import OPEN_SEAT
from mailwright.sources.notifications.producer import EmittedEvent, NewEvent
from mailwright.sources.notifications.queue import create_queue
from mailwright.sources.notifications.service import NotificationService, NotificationStatus
from mailwright.sources.notifications.statuses import FanoutStatus

app = group("Notifications from an external queue.")

Answer = TypeVar("Answer")

DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database", metavar="URL", help="The database of the queue.", show_default="MAILWRIGHT_NOTIFY_DATABASE_URL"
    ),
]
Schema = Annotated[
    str | None, typer.Option("--schema", help="The PostgreSQL schema of the queue's tables.", show_default=False)
]
NotificationId = Annotated[int, typer.Argument(metavar="ID", help="The id shown by `notify list`.", show_default=False)]

_SHAPES = {
    FanoutStatus.PENDING: "○",
    FanoutStatus.SENT: "✓",
    FanoutStatus.SKIPPED: "–",
    FanoutStatus.FAILED: "✗",
    FanoutStatus.EXPIRED: "⊘",
}


@app.command("run")
def run_command(
    database: DatabaseUrl = None,
    schema: Schema = None,
    drain: Annotated[bool, typer.Option("--drain", help="Exit when nothing is due.")] = False,
) -> None:
    """Process a queue until stopped or drained: lock due rows, send them and record the results.

    The queue's schema is never changed. Several processes can serve one queue if they share MAILWRIGHT_DATABASE_URL.
    """
    settings = settings_for_service(notify_database_url=database, notify_schema=schema)
    uvloop.run(_run(settings, drain=drain))


async def _run(settings: Settings, *, drain: bool) -> None:
    shutdown = Shutdown()
    shutdown.listen()
    async with open_engine(settings) as engine:
        await notify(engine, shutdown, drain=drain)


@app.command("init")
def init_command(database: DatabaseUrl = None, schema: Schema = None) -> None:
    """Create the tables of a queue. Existing tables stay unchanged."""

    async def work(at: Installation) -> None:
        async with open_queue_database(_named(at.settings, database, schema), at.database) as queue:
            await create_queue(queue, schema or at.settings.notify_schema)

    run(work, creates=True)
    out.print("The queue's tables are ready.", markup=False)


@app.command("emit")
def emit_command(
    term: Annotated[str, typer.Option(help="The term of the subject.", show_default=False)],
    campus: Annotated[str, typer.Option(help="The campus of the subject.", show_default=False)],
    index: Annotated[str, typer.Option(help="The index number of the subject.", show_default=False)],
    after: Annotated[str, typer.Option(help="The current status, for example Open.", show_default=False)],
    *,
    before: Annotated[
        str | None, typer.Option(help="The previous status, for example Closed.", show_default=False)
    ] = None,
    kind: Annotated[str, typer.Option(help="The event type.")] = OPEN_SEAT,
    at: Annotated[str | None, typer.Option(help="The time of the event.", show_default="now")] = None,
    payload: Annotated[
        str, typer.Option(help='Template data as JSON, for example {"courseTitle": "Algebra"}.', show_default=False)
    ] = "{}",
    dedupe_key: Annotated[str | None, typer.Option(help="The deduplication key.", show_default="derived")] = None,
    trace_id: Annotated[str | None, typer.Option(help="Stored with each message.", show_default=False)] = None,
    section_id: Annotated[
        int | None, typer.Option(min=1, help="The section of the subject.", show_default="found by its index number")
    ] = None,
    database: DatabaseUrl = None,
    schema: Schema = None,
    as_json: Json = False,
) -> None:
    """Publish an event. Every subscriber of its subject gets a notification."""
    happening = NewEvent(
        kind=kind,
        term_id=term,
        campus_code=campus,
        index_number=index,
        status_before=before,
        status_after=after,
        event_at=_moment(at),
        section_id=section_id,
        dedupe_key=dedupe_key,
        trace_id=trace_id,
        payload=json_object(payload, "--payload", example='{"courseTitle": "Algebra"}'),
    )
    found: EmittedEvent = _with_service(lambda service: service.emit(happening), database, schema)
    if as_json:
        print_json(NotificationEventResponse.model_validate(found).to_dict())
    elif found.is_repeat:
        out.print(
            f"Nothing was written: event {found.open_event_id} is the same, within the deduplication window.",
            markup=False,
        )
    else:
        out.print(f"Published event {found.open_event_id}. Notifications created: {found.notifications}.", markup=False)


@app.command("list")
def list_command(
    *,
    status: Annotated[FanoutStatus | None, typer.Option(help="Only this status.", show_default=False)] = None,
    limit: Limit = 50,
    database: DatabaseUrl = None,
    schema: Schema = None,
    as_json: Json = False,
) -> None:
    """List notifications. Each deferred one is shown with its reason."""
    found: list[NotificationStatus] = _with_service(
        lambda service: service.list_notifications(status=status, limit=limit), database, schema
    )
    if as_json:
        print_json([notification_response(each).to_dict() for each in found])
        return
    rows = (
        (each.row.notification_id, _status(each), each.to or "–", each.row.attempts, two_lines(*_reason_and_end(each)))
        for each in found
    )
    print_rows(("Id#", "Status!", "To", "Attempts#", "Reason"), rows, nothing="No notifications.")


@app.command("show")
def show_command(
    notification_id: NotificationId, database: DatabaseUrl = None, schema: Schema = None, as_json: Json = False
) -> None:
    """Show a notification: its status, its reason and its message."""
    found: NotificationStatus = _with_service(lambda service: service.find(notification_id), database, schema)
    if as_json:
        print_json(notification_response(found).to_dict())
        return
    out.print(f"{found.row.notification_id}  {_status(found)}  to {found.to or 'nobody'}", markup=False)
    for line in _reason_and_end(found):
        if line:
            out.print(f"  {line}", markup=False)
    if sentence := explanation_sentence(found):
        out.print(f"  {sentence}", markup=False)
    if found.outbox_id is not None:
        out.print(f"  `mailwright message show {found.outbox_id}` shows the message.", markup=False)


@app.command("requeue")
def requeue_command(
    notification_id: Annotated[
        int | None, typer.Argument(metavar="[ID]", help="The id shown by `notify list`.", show_default=False)
    ] = None,
    *,
    status: Annotated[
        FanoutStatus | None,
        typer.Option(help="Requeue all with this status: failed, skipped or expired.", show_default=False),
    ] = None,
    limit: Limit = 10_000,
    database: DatabaseUrl = None,
    schema: Schema = None,
    as_json: Json = False,
) -> None:
    """Reset notifications to pending with no attempts. Sent notifications stay sent."""
    if (notification_id is None) == (status is None):
        raise InvalidInput("give an id or --status")

    async def requeue(service: NotificationService) -> int:
        if notification_id is not None:
            await service.requeue(notification_id, actor=CONSOLE)
            return 1
        assert status is not None
        return await service.requeue_all(status, actor=CONSOLE, limit=limit)

    count = _with_service(requeue, database, schema)
    if as_json:
        print_json(RequeuedNotificationsResponse(requeued=count).to_dict())
    else:
        out.print(f"{count} requeued.", markup=False)


def _with_service(
    work: Callable[[NotificationService], Awaitable[Answer]], database: str | None, schema: str | None
) -> Answer:
    async def opened(at: Installation) -> Answer:
        async with open_notification_service(_named(at.settings, database, schema), at.database, at.clock) as service:
            return await work(service)

    return run(opened, creates=True)


def _named(settings: Settings, database: str | None, schema: str | None) -> Settings:
    given = {"notify_database_url": database, "notify_schema": schema}
    return settings.model_copy(update={name: value for name, value in given.items() if value is not None})


def _status(notification: NotificationStatus) -> str:
    return f"{_SHAPES.get(notification.row.status, ' ')} {notification.row.status}"  # type: ignore[call-overload]


def _reason_and_end(notification: NotificationStatus) -> tuple[str, str]:
    """Describe why a notification waits and until when, or its error."""
    if notification.wait is not None:
        until = f"until {times.format_time(notification.wait.until)}" if notification.wait.until is not None else ""
        return f"{notification.wait.reason}: {notification.wait.detail}", until
    if notification.outlook is not None:
        return notification.outlook, ""
    error = notification.error
    if isinstance(error, dict) and "code" in error:
        return str(error["code"]), str(error.get("message") or "")
    return "", ""


def _moment(text: str | None) -> int | None:
    if text is None:
        return None
    found = times.parse(text)
    if found is None:
        raise InvalidInput("must be a time such as 2027-01-15T08:00:00Z", field="--at")
    return found
