"""Mail over HTTP: send one or many, look them up, and act on those that need it."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from mailwright.domain.message import Source
from mailwright.domain.states import Status
from mailwright.outbox import message_records
from mailwright.outbox.explain import explain
from mailwright.outbox.search import find_page
from mailwright.schemas import answers
from mailwright.schemas.explanations import message_explanation
from mailwright.schemas.paging import Page, decode_cursor, encode_cursor
from mailwright.sources.api.requests import (
    Address,
    BatchRequest,
    Moment,
    ResolveRequest,
    SendRequest,
    parse,
)
from mailwright.web.api.actions import actions
from mailwright.web.api.caller import CallerDep, request_context_of
from mailwright.web.api.openapi import describe_body, describe_responses
from mailwright.web.bodies import LARGEST_BATCH, json_response, read_json
from mailwright.web.parts import Parts, parts_of

router = APIRouter(prefix="/v1/email", tags=["email"])

_BODY_PROBLEMS = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
)
_ACTION_PROBLEMS = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)


class SearchQuery(Page):
    status: Status | None = None
    to: Annotated[Address | None, Field(description="The recipient's address.")] = None
    source: Source | None = None
    since: Annotated[Moment | None, Field(description="Accepted at this time or later.")] = None
    until: Annotated[Moment | None, Field(description="Accepted before this time.")] = None

    def wanted(self) -> message_records.MessageSearch:
        return message_records.MessageSearch(
            status=self.status,
            to_email=self.to.lower() if self.to is not None else None,
            source=self.source,
            since=self.since,
            until=self.until,
            before_key=decode_cursor("message", self.cursor)[0] if self.cursor is not None else message_records.NEWEST,
        )


@router.post(
    "/send",
    status_code=HTTPStatus.ACCEPTED,
    openapi_extra=describe_body(SendRequest, is_idempotent=True),
    responses=describe_responses(
        {HTTPStatus.ACCEPTED: answers.AcceptedResponse, HTTPStatus.OK: answers.AcceptedResponse},
        HTTPStatus.CONFLICT,
        *_BODY_PROBLEMS,
    ),
)
async def send(request: Request) -> Response:
    """Accepts one message: 202 once it is on disk, 200 when the idempotency key was used before with this body."""
    asking = await request_context_of(request)
    accepted = await parts_of(request).mail.send(asking, await read_json(request))
    if accepted.is_replay:
        return json_response(answers.accepted(accepted), HTTPStatus.OK, {"Idempotent-Replay": "true"})
    return json_response(answers.accepted(accepted), HTTPStatus.ACCEPTED)


@router.post(
    "/batch",
    status_code=HTTPStatus.ACCEPTED,
    openapi_extra=describe_body(BatchRequest, is_idempotent=True),
    responses=describe_responses({HTTPStatus.ACCEPTED: answers.BatchResponse}, *_BODY_PROBLEMS),
)
async def send_batch(request: Request) -> Response:
    """Accepts up to 1,000 messages in one commit. A bad item is answered with its error and stops no other.

    With an idempotency key, each item has a key of its own, made of the key and the item's index.
    """
    asking = await request_context_of(request)
    results = await parts_of(request).mail.send_batch(asking, await read_json(request, LARGEST_BATCH))
    return json_response({"results": [answers.item(result) for result in results]}, HTTPStatus.ACCEPTED)


@router.get("", responses=describe_responses({HTTPStatus.OK: answers.MessageListResponse}))
async def search(parts: Parts, caller: CallerDep, query: Annotated[SearchQuery, Query()]) -> Response:
    """Messages, the latest first. There is more as long as there is a `nextCursor`, also after a page that is short."""
    found = await find_page(parts.database, caller.tenant_id, query.wanted(), limit=query.limit)
    following = encode_cursor("message", found.next_key) if found.next_key is not None else None
    return json_response({"messages": [answers.line(message) for message in found.messages], "nextCursor": following})


@router.get("/{outboxId}", responses=describe_responses({HTTPStatus.OK: answers.MessageResponse}, HTTPStatus.NOT_FOUND))
async def show(outboxId: str, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803 - the name in the address
    """One message with its whole story."""
    record = await message_records.find(parts.database, outboxId, tenant_id=caller.tenant_id)
    return json_response(answers.story(record))


@router.get(
    "/{outboxId}/explain",
    responses=describe_responses({HTTPStatus.OK: answers.MessageExplanationResponse}, HTTPStatus.NOT_FOUND),
)
async def why(outboxId: str, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803
    """Why it is not sent yet: which rule holds it, until when, what would change that, and what you can do now."""
    found = await explain(parts.database, parts.clock, outboxId, tenant_id=caller.tenant_id)
    return json_response({**message_explanation(found), "actions": actions(found.actions, caller)})


@router.post(
    "/{outboxId}/cancel",
    responses=describe_responses({HTTPStatus.OK: answers.MessageStatusResponse}, *_ACTION_PROBLEMS),
)
async def cancel(outboxId: str, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803
    """Holds back a message that no provider has been called for yet."""
    status = await parts.operations.cancel(outboxId, tenant_id=caller.tenant_id)
    return _now_is(outboxId, status)


@router.post(
    "/{outboxId}/retry", responses=describe_responses({HTTPStatus.OK: answers.MessageStatusResponse}, *_ACTION_PROBLEMS)
)
async def retry(outboxId: str, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803
    """Gives a failed message all its attempts again."""
    status = await parts.operations.requeue(outboxId, tenant_id=caller.tenant_id)
    return _now_is(outboxId, status)


@router.post(
    "/{outboxId}/resolve",
    openapi_extra=describe_body(ResolveRequest),
    responses=describe_responses({HTTPStatus.OK: answers.MessageStatusResponse}, *_ACTION_PROBLEMS, *_BODY_PROBLEMS),
)
async def resolve(request: Request, outboxId: str, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803
    """Ends a doubt: the mail was `sent`, is to `resend`, or nobody will know and it is to `close`."""
    wanted = parse(ResolveRequest, await read_json(request))
    status = await parts.operations.resolve(outboxId, wanted.resolution, tenant_id=caller.tenant_id)
    return _now_is(outboxId, status)


def _now_is(outbox_id: str, status: Status) -> Response:
    return json_response({"outboxId": outbox_id, "status": status})
