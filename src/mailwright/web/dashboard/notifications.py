"""Notification pages: events, their notifications, requeueing and event types."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from itertools import groupby
from typing import Annotated, Any, Final

import orjson
from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from mailwright.actions.notifications import explanation_sentence
from mailwright.app.wiring import Engine
from mailwright.content.template_store import latest_by_locale
from mailwright.domain.clock import Instant
from mailwright.domain.errors import ConfigurationInvalid, InvalidInput, NotFound, NotPossibleNow
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import Source
from mailwright.domain.translation import gettext, lazy_gettext
from mailwright.schemas.paging import decode_cursor, encode_cursor
from mailwright.sources.notifications import jobs, times
from mailwright.sources.notifications.service import NEWEST, NotificationService, NotificationStatus
from mailwright.sources.notifications.statuses import FanoutStatus
from mailwright.texts.times import count_text
from mailwright.web.dashboard.forms import read_fields, read_values
from mailwright.web.dashboard.readiness import readiness_of
from mailwright.web.dashboard.shell import PageRoute, page, redirect
from mailwright.web.session import EditorDep, ViewerDep, Visitor
from mailwright.web.state import EngineDep

router = APIRouter(prefix="/notifications", route_class=PageRoute, include_in_schema=False)

NotificationId = Annotated[int, Path(ge=1, le=2**53)]

TABS: Final = (("/notifications", lazy_gettext("Notifications")), ("/notifications/types", lazy_gettext("Event types")))
ENDED: Final = (FanoutStatus.FAILED, FanoutStatus.SKIPPED, FanoutStatus.EXPIRED)
_PAGE: Final = 50
_MAX_REQUEUED: Final = 1_000


class _QueueUnavailable(Exception):
    """The notification queue is not available; the page shows the reason."""

    def __init__(self, why: str, detail: str = "") -> None:
        super().__init__(detail)
        self.why = why
        self.detail = detail


@dataclass(frozen=True, slots=True)
class EventGroup:
    """One event and its notifications on this page."""

    kind: str
    subject: str
    change: str
    at: Instant | None
    event_id: int
    notifications: tuple[NotificationStatus, ...]


@router.get("")
async def show_all(
    request: Request,
    engine: EngineDep,
    visitor: ViewerDep,
    show: Annotated[str, Query(max_length=20)] = "",
    kind: Annotated[str, Query(max_length=100)] = "",
    cursor: Annotated[str | None, Query(max_length=200)] = None,
) -> Response:
    before = decode_cursor("notification", cursor)[0] if cursor else NEWEST
    wanted = next((each for each in FanoutStatus if each == show), None)
    try:
        async with _open_queue(engine, visitor) as service:
            kinds = [each.name for each in service.kinds]
            chosen_kind = kind if kind in kinds else None
            found = await service.list_notifications(status=wanted, kind=chosen_kind, before=before, limit=_PAGE)
    except _QueueUnavailable as closed:
        return await _unavailable_page(request, visitor, closed)
    last = found[-1] if len(found) == _PAGE else None
    return await page(
        request,
        visitor,
        "notifications/list.html",
        tabs=TABS,
        readiness=await readiness_of(engine, visitor, source=Source.NOTIFICATION),
        events=_by_event(found),
        show=wanted or "",
        statuses=list(FanoutStatus),
        kind=chosen_kind or "",
        kinds=kinds,
        ended=ENDED,
        following=encode_cursor("notification", last.row.notification_id) if last else None,
        is_first=cursor is None,
    )


@router.get("/types")
async def show_types(request: Request, engine: EngineDep, visitor: ViewerDep) -> Response:
    """List event types with the languages of their templates."""
    try:
        async with _open_queue(engine, visitor) as service:
            kinds = service.kinds
    except _QueueUnavailable as closed:
        return await _unavailable_page(request, visitor, closed)
    async with engine.database.read() as tx:
        stored = {kind.name: sorted(await latest_by_locale(tx, visitor.tenant_id, kind.template_id)) for kind in kinds}
    return await page(request, visitor, "notifications/types.html", tabs=TABS, kinds=kinds, stored=stored)


@router.post("/requeue")
async def requeue_many(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    """Requeue the selected notifications, or all with one status."""
    form, ticked = await read_fields(request), await read_values(request, "id")
    back = f"/notifications?show={form['show']}" if form["show"] in ENDED else "/notifications"
    async with _require_queue(engine, visitor) as service:
        if form["all"] in ENDED:
            count = await service.requeue_all(FanoutStatus(form["all"]), actor=visitor.actor, limit=_MAX_REQUEUED)
        else:
            count = await _requeue(service, [int(each) for each in ticked if each.isdecimal()], visitor.actor)
    if not count:
        return redirect(
            request, back, gettext("Nothing was requeued. Select failed, skipped or expired notifications."), tone="bad"
        )
    return redirect(request, back, gettext("{count} requeued.", count=count_text(count, "notification")))


@router.get("/{notification_id}")
async def show(request: Request, engine: EngineDep, visitor: ViewerDep, notification_id: NotificationId) -> Response:
    async with _require_queue(engine, visitor) as service:
        notification = await service.find(notification_id)
    [happened] = _by_event([notification])
    values: dict[str, Any] = {
        "notification": notification,
        "happened": happened,
        "may_requeue": notification.row.status in ENDED,
    }
    values["explanation"] = explanation_sentence(notification, visitor.zone)
    values |= {"error": _pretty(notification.error), "payload": _pretty(_payload(notification))}
    return await page(request, visitor, "notifications/show.html", **values, parse_time=times.parse)


@router.post("/{notification_id}/requeue")
async def requeue(request: Request, engine: EngineDep, visitor: EditorDep, notification_id: NotificationId) -> Response:
    async with _require_queue(engine, visitor) as service:
        await service.requeue(notification_id, actor=visitor.actor)
    return redirect(request, f"/notifications/{notification_id}", gettext("Notification requeued."))


@asynccontextmanager
async def _open_queue(engine: Engine, visitor: Visitor) -> AsyncIterator[NotificationService]:
    if engine.open_notifications is None:
        raise _QueueUnavailable("none")
    try:
        async with engine.open_notifications() as service:
            if service.tenant_id != visitor.tenant_id:
                raise _QueueUnavailable("other")
            yield service
    except ConfigurationInvalid as error:
        raise _QueueUnavailable("broken", error.text) from error


@asynccontextmanager
async def _require_queue(engine: Engine, visitor: Visitor) -> AsyncIterator[NotificationService]:
    try:
        async with _open_queue(engine, visitor) as service:
            yield service
    except _QueueUnavailable as closed:
        raise NotFound(gettext("The notification queue is not available.")) from closed


async def _requeue(service: NotificationService, notification_ids: Sequence[int], actor: str) -> int:
    count = 0
    for each in notification_ids[:_PAGE]:
        try:
            await service.requeue(each, actor=actor)
            count += 1
        except (NotPossibleNow, NotFound, InvalidInput):
            continue  # The notification changed after the page was rendered.
    return count


async def _unavailable_page(request: Request, visitor: Visitor, closed: _QueueUnavailable) -> Response:
    status = HTTPStatus.SERVICE_UNAVAILABLE if closed.why == "broken" else HTTPStatus.OK
    values: dict[str, Any] = {"why": closed.why, "detail": closed.detail if visitor.may("admin") else ""}
    return await page(request, visitor, "notifications/unavailable.html", status=status, **values)


def _by_event(found: Sequence[NotificationStatus]) -> list[EventGroup]:
    return [_event_group(tuple(those)) for _, those in groupby(found, key=lambda each: each.row.open_event_id)]


def _event_group(notifications: tuple[NotificationStatus, ...]) -> EventGroup:
    event = notifications[0].row.event or {}
    subject = " ".join(str(event[name]) for name in ("term_id", "campus_code", "index_number") if event.get(name))
    title = _payload(notifications[0]).get("courseTitle")
    before, after = event.get("status_before"), event.get("status_after")
    return EventGroup(
        str(jobs.event_kind_name(jobs.parse_json_column(event.get("payload"))) or "unknown"),
        f"{title} ({subject})" if title else subject or gettext("Deleted event"),
        f"{before} → {after}" if before else str(after or ""),
        times.parse(event.get("event_at")),
        notifications[0].row.open_event_id,
        notifications,
    )


def _payload(notification: NotificationStatus) -> Mapping[str, Any]:
    found = jobs.parse_json_column((notification.row.event or {}).get("payload"))
    return found if isinstance(found, Mapping) else {}


def _pretty(value: Any) -> str:
    if not value:
        return ""
    return value if isinstance(value, str) else orjson.dumps(value, option=orjson.OPT_INDENT_2, default=str).decode()
