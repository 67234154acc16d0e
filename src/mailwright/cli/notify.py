"""`mailwright notify`: serves a queue of notifications, shows why they wait, and requeues what has ended."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

import orjson
import typer
import uvloop

from mailwright.app.notifications import notify, opened_desk, queue_database
from mailwright.app.serving import Shutdown
from mailwright.app.wiring import open_engine
from mailwright.cli.opening import Installation, run, settings_for_service
from mailwright.cli.options import Json, Limit, group
from mailwright.cli.output import out, print_json, print_rows, two_lines
from mailwright.domain.errors import InvalidInput
from mailwright.ops.settings import Settings
from mailwright.outbox.audit_log import CONSOLE
from mailwright.schemas.notifications import emitted as emitted_answer
from mailwright.schemas.notifications import notification
from mailwright.sources.notifications import times
from mailwright.sources.notifications.event_types import OPEN_SEAT
from mailwright.sources.notifications.overview import Desk, Standing
from mailwright.sources.notifications.producer import Emitted, Happening
from mailwright.sources.notifications.queue import create_queue
from mailwright.sources.notifications.statuses import Fanout

app = group("Notifications: rows of a queue that become mails.")

Answer = TypeVar("Answer")

DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database", metavar="URL", help="Where the queue is.", show_default="MAILWRIGHT_NOTIFY_DATABASE_URL"
    ),
]
Schema = Annotated[
    str | None, typer.Option("--schema", help="The PostgreSQL schema of its tables.", show_default=False)
]
NotificationId = Annotated[int, typer.Argument(metavar="ID", help="As notify list shows it.", show_default=False)]

_SHAPES = {
    Fanout.PENDING: "○",
    Fanout.SENT: "✓",
    Fanout.SKIPPED: "–",
    Fanout.FAILED: "✗",
    Fanout.EXPIRED: "⊘",
}


@app.command("run")
def run_command(
    database: DatabaseUrl = None,
    schema: Schema = None,
    drain: Annotated[bool, typer.Option("--drain", help="Exit once nothing is due.")] = False,
) -> None:
    """Serve a queue: lock what is due, send it, and tell its rows, until stopped or drained.

    The queue's tables are used as they are. Any number of these may serve one queue, with one MAILWRIGHT_DATABASE_URL.
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
    """Make the tables of a queue, for those who have none yet. What is there stays as it is."""

    async def work(at: Installation) -> None:
        async with queue_database(_named(at.settings, database, schema), at.database) as theirs:
            await create_queue(theirs, schema or at.settings.notify_schema)

    run(work, creates=True)
    out.print("The queue's tables are there.", markup=False)


@app.command("emit")
def emit_command(
    term: Annotated[str, typer.Option(help="The subject, as subscriptions name it: its term,", show_default=False)],
    campus: Annotated[str, typer.Option(help="its campus", show_default=False)],
    index: Annotated[str, typer.Option(help="and its index number.", show_default=False)],
    after: Annotated[str, typer.Option(help="The status that it has now, as Open.", show_default=False)],
    *,
    before: Annotated[str | None, typer.Option(help="The one that it had, as Closed.", show_default=False)] = None,
    kind: Annotated[str, typer.Option(help="The kind of event.")] = OPEN_SEAT,
    at: Annotated[str | None, typer.Option(help="When; now if not given.", show_default=False)] = None,
    payload: Annotated[
        str, typer.Option(help='What mails say of it, as JSON: {"courseTitle": "Algebra"}.', show_default=False)
    ] = "{}",
    dedupe_key: Annotated[str | None, typer.Option(help="Made from the rest if not given.", show_default=False)] = None,
    trace_id: Annotated[str | None, typer.Option(help="Kept with each mail.", show_default=False)] = None,
    database: DatabaseUrl = None,
    schema: Schema = None,
    as_json: Json = False,
) -> None:
    """Tell of an event: everyone who is subscribed to its subject gets a notification."""
    happening = Happening(
        kind=kind,
        term_id=term,
        campus_code=campus,
        index_number=index,
        status_before=before,
        status_after=after,
        event_at=_moment(at),
        dedupe_key=dedupe_key,
        trace_id=trace_id,
        payload=_object(payload),
    )
    found: Emitted = _at_desk(lambda desk: desk.emit(happening), database, schema)
    if as_json:
        print_json(emitted_answer(found))
    elif found.is_repeat:
        out.print(f"Event {found.open_event_id} told of this a moment ago; nothing was written.", markup=False)
    else:
        out.print(f"Event {found.open_event_id} makes {found.notifications} notifications.", markup=False)


@app.command("list")
def list_command(
    *,
    status: Annotated[Fanout | None, typer.Option(help="Only these.", show_default=False)] = None,
    limit: Limit = 50,
    database: DatabaseUrl = None,
    schema: Schema = None,
    as_json: Json = False,
) -> None:
    """List notifications, with the reason of each wait."""
    found: list[Standing] = _at_desk(lambda desk: desk.some(status=status, limit=limit), database, schema)
    if as_json:
        print_json([notification(each) for each in found])
        return
    rows = (
        (each.row.notification_id, _status(each), each.to or "–", each.row.attempts, two_lines(*_words(each)))
        for each in found
    )
    print_rows(("Id#", "Status!", "To", "Attempts#", "Why"), rows, nothing="There are no such notifications.")


@app.command("show")
def show_command(
    notification_id: NotificationId, database: DatabaseUrl = None, schema: Schema = None, as_json: Json = False
) -> None:
    """Show a notification: where it stands, why it waits, and the message that it became."""
    found: Standing = _at_desk(lambda desk: desk.find(notification_id), database, schema)
    if as_json:
        print_json(notification(found))
        return
    out.print(f"{found.row.notification_id}  {_status(found)}  to {found.to or 'nobody'}", markup=False)
    for line in _words(found):
        if line:
            out.print(f"  {line}", markup=False)
    if found.outbox_id is not None:
        out.print(f"  `mailwright message show {found.outbox_id}` tells the mail's story.", markup=False)


@app.command("requeue")
def requeue_command(
    notification_id: Annotated[
        int | None, typer.Argument(metavar="[ID]", help="As notify list shows it.", show_default=False)
    ] = None,
    *,
    status: Annotated[
        Fanout | None,
        typer.Option(help="All that failed, were skipped or expired, instead of one.", show_default=False),
    ] = None,
    limit: Limit = 10_000,
    database: DatabaseUrl = None,
    schema: Schema = None,
    as_json: Json = False,
) -> None:
    """Try again from the beginning: pending, no attempts, no error. What was sent stays sent."""
    if (notification_id is None) == (status is None):
        raise InvalidInput("give an id, or --status for all of them")

    async def requeue(desk: Desk) -> int:
        if notification_id is not None:
            await desk.requeue(notification_id, actor=CONSOLE)
            return 1
        assert status is not None
        return await desk.requeue_all(status, actor=CONSOLE, limit=limit)

    count = _at_desk(requeue, database, schema)
    if as_json:
        print_json({"requeued": count})
    else:
        out.print(f"{count} requeued.", markup=False)


def _at_desk(work: Callable[[Desk], Awaitable[Answer]], database: str | None, schema: str | None) -> Answer:
    async def opened(at: Installation) -> Answer:
        async with opened_desk(_named(at.settings, database, schema), at.database, at.clock) as desk:
            return await work(desk)

    return run(opened, creates=True)


def _named(settings: Settings, database: str | None, schema: str | None) -> Settings:
    given = {"notify_database_url": database, "notify_schema": schema}
    return settings.model_copy(update={name: value for name, value in given.items() if value is not None})


def _status(standing: Standing) -> str:
    return f"{_SHAPES.get(standing.row.status, ' ')} {standing.row.status}"  # type: ignore[call-overload]


def _words(standing: Standing) -> tuple[str, str]:
    """Why it stands where it stands, and until when."""
    if standing.wait is not None:
        until = f"until {times.write(standing.wait.until)}" if standing.wait.until is not None else ""
        return f"{standing.wait.reason}: {standing.wait.detail}", until
    if standing.outlook is not None:
        return standing.outlook, ""
    error = standing.error
    if isinstance(error, dict) and "code" in error:
        return str(error["code"]), str(error.get("message") or "")
    return "", ""


def _moment(text: str | None) -> int | None:
    if text is None:
        return None
    found = times.read(text)
    if found is None:
        raise InvalidInput("must be a time, as 2027-01-15T08:00:00Z", field="--at")
    return found


def _object(text: str) -> dict[str, Any]:
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidInput(f"is not JSON: {error}", field="--payload") from error
    if not isinstance(found, dict):
        raise InvalidInput('must be a JSON object, as {"courseTitle": "Algebra"}', field="--payload")
    return found
