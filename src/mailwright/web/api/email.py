"""HTTP routes of messages: send, search, explain, cancel, retry and resolve."""

from http import HTTPStatus
from typing import Annotated

from fastapi import Query, Request
from starlette.responses import Response

from mailwright.access.roles import Scope
from mailwright.app.destinations import destinations_of
from mailwright.app.wiring import Engine
from mailwright.content.raw import InvalidEmail, with_crlf
from mailwright.domain.states import Status
from mailwright.outbox import message_records
from mailwright.outbox.search import find_page
from mailwright.schemas.explanations import message_explanation
from mailwright.schemas.messages import (
    AcceptedResponse,
    BatchResponse,
    MessageExplanationResponse,
    MessageListResponse,
    MessageResponse,
    MessageSearchQuery,
    MessageStatusResponse,
    RawAcceptedResponse,
    RawQuery,
    ResolveRequest,
    SendingHeldResponse,
    accepted_content,
    batch_content,
    message_response,
    message_summary_response,
    raw_accepted_response,
    sending_held_response,
)
from mailwright.schemas.paging import encode_cursor
from mailwright.sources.api.requests import BatchRequest, SendRequest
from mailwright.sources.api.validation import parse
from mailwright.sources.message_limits import explain_message
from mailwright.web.api.actions import action_requests
from mailwright.web.api.caller import CallerDep, request_context_of
from mailwright.web.api.openapi import BODY_PROBLEMS, describe_body, describe_file_body, describe_responses
from mailwright.web.api.routes import Routes
from mailwright.web.bodies import MAX_BATCH_BYTES, RAW_MEDIA_TYPE, json_response, read_json, read_message
from mailwright.web.plain_route import PlainRoute
from mailwright.web.state import EngineDep, engine_of

router = Routes(prefix="/v1/email", tags=["email"], route_class=PlainRoute)

_ACTION_PROBLEMS = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)


@router.post(
    "/send",
    scope=Scope.SEND,
    status_code=HTTPStatus.ACCEPTED,
    openapi_extra=describe_body(SendRequest, is_idempotent=True),
    responses=describe_responses(
        {HTTPStatus.ACCEPTED: AcceptedResponse, HTTPStatus.OK: AcceptedResponse},
        HTTPStatus.CONFLICT,
        *BODY_PROBLEMS,
    ),
)
async def send(request: Request) -> Response:
    """Accept one message.

    The response is 202 if the message was stored durably, and 200 if the idempotency key was used before with the same
    body.
    """
    context, engine = await request_context_of(request), engine_of(request)
    accepted = await engine.api_messages.send(context, await read_json(request))
    response = accepted_content(accepted, await _sending_held(engine))
    if accepted.is_replay:
        return json_response(response, HTTPStatus.OK, {"Idempotent-Replay": "true"})
    return json_response(response, HTTPStatus.ACCEPTED)


@router.post(
    "/batch",
    scope=Scope.SEND,
    status_code=HTTPStatus.ACCEPTED,
    openapi_extra=describe_body(BatchRequest, is_idempotent=True),
    responses=describe_responses({HTTPStatus.ACCEPTED: BatchResponse}, *BODY_PROBLEMS),
)
async def send_batch(request: Request) -> Response:
    """Accept up to 1,000 messages in one commit. An invalid item gets an error and does not stop the others.

    If the request has an idempotency key, each item's key is derived from it and the item's index.
    """
    context, engine = await request_context_of(request), engine_of(request)
    results = await engine.api_messages.send_batch(context, await read_json(request, MAX_BATCH_BYTES))
    return json_response(batch_content(results, await _sending_held(engine)), HTTPStatus.ACCEPTED)


@router.post(
    "/raw",
    scope=Scope.SEND,
    status_code=HTTPStatus.ACCEPTED,
    openapi_extra=describe_file_body(RAW_MEDIA_TYPE, is_idempotent=True),
    responses=describe_responses(
        {HTTPStatus.ACCEPTED: RawAcceptedResponse, HTTPStatus.OK: RawAcceptedResponse},
        HTTPStatus.CONFLICT,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    ),
)
async def send_raw(request: Request, query: Annotated[RawQuery, Query()]) -> Response:
    """Accept a complete email (RFC 5322). Mailwright sends it unchanged and adds a DKIM signature.

    `from` and `to` are the envelope addresses; by default they are taken from the headers of the email. Each recipient
    gets a message of their own. The idempotency key is the header Idempotency-Key, by default the Message-ID.
    """
    context, engine = await request_context_of(request), engine_of(request)
    received = await read_message(request)
    if received.strip() and b"\n" not in received:
        raise InvalidEmail("The email has only one line. With curl, use --data-binary, because -d removes line ends.")
    content = with_crlf(received)
    accepted = await engine.raw_messages.send(context, content, query.sender, query.to)
    response = raw_accepted_response(accepted, await _sending_held(engine))
    if accepted.is_replay:
        return json_response(response, HTTPStatus.OK, {"Idempotent-Replay": "true"})
    return json_response(response, HTTPStatus.ACCEPTED)


@router.get("", scope=Scope.READ, responses=describe_responses({HTTPStatus.OK: MessageListResponse}))
async def search(engine: EngineDep, caller: CallerDep, query: Annotated[MessageSearchQuery, Query()]) -> Response:
    """Search messages, latest first. If the response has a `nextCursor`, there may be more, even after a short page."""
    found = await find_page(engine.database, caller.tenant_id, query.search(), limit=query.limit)
    next_cursor = encode_cursor("message", found.next_key) if found.next_key is not None else None
    messages = [message_summary_response(message) for message in found.messages]
    return json_response(MessageListResponse(messages=messages, next_cursor=next_cursor))


@router.get(
    "/{outboxId}",
    scope=Scope.READ,
    responses=describe_responses({HTTPStatus.OK: MessageResponse}, HTTPStatus.NOT_FOUND),
)
async def show(outboxId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Show a message with all its events."""
    record = await message_records.find(engine.database, outboxId, tenant_id=caller.tenant_id)
    return json_response(message_response(record))


@router.get(
    "/{outboxId}/explain",
    scope=Scope.READ,
    responses=describe_responses({HTTPStatus.OK: MessageExplanationResponse}, HTTPStatus.NOT_FOUND),
)
async def why(outboxId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Explain why a message is not sent yet: the reason, until when, what would change it, and what you can do now."""
    found = await explain_message(
        engine.database,
        engine.clock,
        engine.defaults,
        outboxId,
        tenant_id=caller.tenant_id,
        destinations=destinations_of(engine.settings, engine.named),
    )
    return json_response({**message_explanation(found), "actions": action_requests(found.actions, caller)})


@router.post(
    "/{outboxId}/cancel",
    scope=Scope.MANAGE,
    responses=describe_responses({HTTPStatus.OK: MessageStatusResponse}, *_ACTION_PROBLEMS),
)
async def cancel(outboxId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Cancel a message that has not been handed to a provider yet."""
    status = await engine.operations.cancel(outboxId, tenant_id=caller.tenant_id)
    return _status(outboxId, status)


@router.post(
    "/{outboxId}/retry",
    scope=Scope.MANAGE,
    responses=describe_responses({HTTPStatus.OK: MessageStatusResponse}, *_ACTION_PROBLEMS),
)
async def retry(outboxId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Retry a failed message and count its attempts from zero."""
    status = await engine.operations.requeue(outboxId, tenant_id=caller.tenant_id)
    return _status(outboxId, status)


@router.post(
    "/{outboxId}/resolve",
    scope=Scope.MANAGE,
    openapi_extra=describe_body(ResolveRequest),
    responses=describe_responses({HTTPStatus.OK: MessageStatusResponse}, *_ACTION_PROBLEMS, *BODY_PROBLEMS),
)
async def resolve(request: Request, outboxId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Resolve a message in doubt: it was `sent`, must be sent again (`resend`), or remains unknown (`close`)."""
    wanted = parse(ResolveRequest, await read_json(request))
    status = await engine.operations.resolve(outboxId, wanted.resolution, tenant_id=caller.tenant_id)
    return _status(outboxId, status)


async def _sending_held(engine: Engine) -> SendingHeldResponse | None:
    return sending_held_response(await engine.hold_watch.current(), engine.clock.now())


def _status(outbox_id: str, status: Status) -> Response:
    return json_response(MessageStatusResponse(outbox_id=outbox_id, status=status))
