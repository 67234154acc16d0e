"""HTTP routes of notifications: publish an event, list notifications, and requeue them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Annotated

from fastapi import Path, Query, Request
from starlette.responses import Response

from mailwright.access.roles import Scope
from mailwright.domain.errors import ConfigurationInvalid, NotFound, NotPossibleNow
from mailwright.schemas.notifications import (
    NotificationEventRequest,
    NotificationEventResponse,
    NotificationListResponse,
    NotificationPage,
    NotificationResponse,
    notification_response,
)
from mailwright.schemas.paging import decode_cursor
from mailwright.sources.api.senders import require_sender
from mailwright.sources.api.validation import parse
from mailwright.sources.notifications.service import NEWEST, NotificationService
from mailwright.web.api.caller import CallerDep, actor_of
from mailwright.web.api.openapi import BODY_PROBLEMS, describe_body, describe_responses
from mailwright.web.api.routes import Routes
from mailwright.web.bodies import json_response, read_json
from mailwright.web.state import EngineDep

router = Routes(prefix="/v1/notifications", tags=["notifications"])

NotificationId = Annotated[int, Path(ge=1, le=2**53)]


@router.get(
    "", scope=Scope.READ, responses=describe_responses({HTTPStatus.OK: NotificationListResponse}, HTTPStatus.CONFLICT)
)
async def list_notifications(
    engine: EngineDep, caller: CallerDep, page: Annotated[NotificationPage, Query()]
) -> Response:
    """List the notifications, latest first, each with the reason why it waits. Empty if no queue is configured."""
    before = decode_cursor("notification", page.cursor)[0] if page.cursor is not None else NEWEST
    async with _open_service(engine, caller) as service:
        found = await service.list_notifications(status=page.status, before=before, limit=page.limit) if service else []
    return json_response(
        NotificationListResponse(
            notifications=[notification_response(notification) for notification in found],
            next_cursor=page.next_cursor("notification", [each.row.notification_id for each in found]),
        )
    )


@router.post(
    "/events",
    scope=Scope.MANAGE,
    status_code=HTTPStatus.CREATED,
    openapi_extra=describe_body(NotificationEventRequest),
    responses=describe_responses(
        {HTTPStatus.CREATED: NotificationEventResponse},
        HTTPStatus.CONFLICT,
        *BODY_PROBLEMS,
    ),
)
async def emit(request: Request, engine: EngineDep, caller: CallerDep) -> Response:
    """Publish an event; every subscriber of its subject gets a notification.

    Repeating an event within the deduplication window of its kind changes nothing, and `isRepeat` is true.
    """
    require_sender(caller, await engine.directory.default_sender(caller.tenant_id))
    event = parse(NotificationEventRequest, await read_json(request)).event()
    async with _open_service(engine, caller) as service:
        if service is None:
            raise NotPossibleNow("No notification queue is configured. Set MAILWRIGHT_NOTIFY_DATABASE_URL.")
        emitted = await service.emit(event)
    return json_response(NotificationEventResponse.model_validate(emitted), HTTPStatus.CREATED)


@router.get(
    "/{notificationId}",
    scope=Scope.READ,
    responses=describe_responses({HTTPStatus.OK: NotificationResponse}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
)
async def show(notificationId: NotificationId, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Show a notification: its status, why it waits, and its message."""
    async with _open_service(engine, caller) as service:
        if service is None:
            raise NotFound
        return json_response(notification_response(await service.find(notificationId)))


@router.post(
    "/{notificationId}/requeue",
    scope=Scope.MANAGE,
    responses=describe_responses({HTTPStatus.OK: NotificationResponse}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
)
async def requeue(notificationId: NotificationId, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Requeue a notification that failed, was skipped or expired. One that was sent stays sent."""
    async with _open_service(engine, caller) as service:
        if service is None:
            raise NotFound
        require_sender(caller, await engine.directory.default_sender(caller.tenant_id))
        return json_response(notification_response(await service.requeue(notificationId, actor=actor_of(caller))))


@asynccontextmanager
async def _open_service(engine: EngineDep, caller: CallerDep) -> AsyncIterator[NotificationService | None]:
    """Yield None if no queue is configured, or if the queue belongs to another tenant."""
    if engine.open_notifications is None:
        yield None
        return
    try:
        async with engine.open_notifications() as service:
            yield service if service.tenant_id == caller.tenant_id else None
    except ConfigurationInvalid as error:
        raise NotPossibleNow("The notification queue cannot be used. `mailwright notify list` shows why.") from error
