"""HTTP routes that accept email, by hand because they must be fast. The other routes of messages are actions."""

from http import HTTPStatus
from typing import Annotated

from fastapi import Query, Request
from starlette.responses import Response

from mailwright.access.roles import Scope
from mailwright.actions.accepted_messages import (
    AcceptedResponse,
    BatchResponse,
    RawAcceptedResponse,
    RawQuery,
    SendingHeldResponse,
    accepted_content,
    batch_content,
    raw_accepted_response,
    sending_held_response,
)
from mailwright.app.wiring import Engine
from mailwright.content.raw import InvalidEmail, with_crlf
from mailwright.sources.api.requests import BatchRequest, SendRequest
from mailwright.web.api.caller import request_context_of
from mailwright.web.api.openapi import BODY_PROBLEMS, describe_body, describe_file_body, describe_responses
from mailwright.web.api.routes import Routes
from mailwright.web.bodies import MAX_BATCH_BYTES, RAW_MEDIA_TYPE, json_response, read_json, read_message
from mailwright.web.plain_route import PlainRoute
from mailwright.web.state import engine_of

router = Routes(prefix="/v1/email", tags=["email"], route_class=PlainRoute)


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


async def _sending_held(engine: Engine) -> SendingHeldResponse | None:
    return sending_held_response(await engine.hold_watch.current(), engine.clock.now())
