"""Notifications over HTTP: tell of an event, see why its notifications wait, and requeue what has ended."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from mailwright.domain.errors import ConfigurationInvalid, NotFound, NotPossibleNow
from mailwright.schemas import notifications as answers
from mailwright.schemas.notification_requests import NotificationEventRequest, NotificationQuery
from mailwright.schemas.paging import decode_cursor, encode_cursor
from mailwright.sources.api.requests import parse
from mailwright.sources.notifications.service import NEWEST, NotificationService
from mailwright.web.api.caller import CallerDep
from mailwright.web.api.openapi import describe_body, describe_responses
from mailwright.web.bodies import json_response, read_json
from mailwright.web.parts import Parts

router = APIRouter(prefix="/v1/notifications", tags=["notifications"])

NotificationId = Annotated[int, Path(ge=1, le=2**53)]


@router.get("", responses=describe_responses({HTTPStatus.OK: answers.NotificationListResponse}, HTTPStatus.CONFLICT))
async def list_notifications(parts: Parts, caller: CallerDep, page: NotificationQuery) -> Response:
    """The newest first, each with the reason of its wait. Where no queue is configured, there are none."""
    before = decode_cursor("notification", page.cursor)[0] if page.cursor is not None else NEWEST
    async with _desk(parts, caller) as desk:
        found = await desk.list_notifications(status=page.status, before=before, limit=page.limit) if desk else []
    last = found[-1] if len(found) == page.limit else None
    following = encode_cursor("notification", last.row.notification_id) if last else None
    shown = [answers.notification(each) for each in found]
    return json_response({"notifications": shown, "nextCursor": following})


@router.post(
    "/events",
    status_code=HTTPStatus.CREATED,
    openapi_extra=describe_body(NotificationEventRequest),
    responses=describe_responses(
        {HTTPStatus.CREATED: answers.NotificationEventResponse},
        HTTPStatus.CONFLICT,
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    ),
)
async def emit(request: Request, parts: Parts, caller: CallerDep) -> Response:
    """Everyone who is subscribed to the subject gets a notification. The same again within the window of its kind
    changes nothing, and says so."""
    wanted = parse(NotificationEventRequest, await read_json(request)).happening()
    async with _desk(parts, caller) as desk:
        if desk is None:
            raise NotPossibleNow("No queue of notifications is configured: set MAILWRIGHT_NOTIFY_DATABASE_URL.")
        return json_response(answers.emitted(await desk.emit(wanted)), HTTPStatus.CREATED)


@router.get(
    "/{notificationId}",
    responses=describe_responses(
        {HTTPStatus.OK: answers.NotificationResponse}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT
    ),
)
async def show(notificationId: NotificationId, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803
    """Where it stands, why it waits, and the message that it became."""
    async with _desk(parts, caller) as desk:
        if desk is None:
            raise NotFound
        return json_response(answers.notification(await desk.find(notificationId)))


@router.post(
    "/{notificationId}/requeue",
    responses=describe_responses(
        {HTTPStatus.OK: answers.NotificationResponse}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT
    ),
)
async def requeue(notificationId: NotificationId, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803
    """One that failed, was skipped or expired begins anew. What was sent stays sent."""
    async with _desk(parts, caller) as desk:
        if desk is None:
            raise NotFound
        return json_response(answers.notification(await desk.requeue(notificationId, actor="api")))


@asynccontextmanager
async def _desk(parts: Parts, caller: CallerDep) -> AsyncIterator[NotificationService | None]:
    """None where no queue is configured, or the queue is another tenant's."""
    if parts.open_notifications is None:
        yield None
        return
    try:
        async with parts.open_notifications() as desk:
            yield desk if desk.tenant_id == caller.tenant_id else None
    except ConfigurationInvalid as error:
        raise NotPossibleNow("The queue of notifications cannot be used; `mailwright notify list` says why.") from error
