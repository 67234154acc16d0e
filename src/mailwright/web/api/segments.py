"""Segments over HTTP: saved questions about people, counted and listed as they are now."""

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from mailwright.audience import segments
from mailwright.audience.segments import Segment
from mailwright.outbox.audit_log import API
from mailwright.schemas import answers
from mailwright.schemas.filter_text import describe
from mailwright.sources.api.requests import RequestModel, parse
from mailwright.web.api.caller import CallerDep
from mailwright.web.api.openapi import describe_body, describe_responses
from mailwright.web.bodies import json_response, read_json
from mailwright.web.parts import Parts
from mailwright.web.state import engine_of, result_cache_of

router = APIRouter(prefix="/v1/segments", tags=["segments"])

_BODY_PROBLEMS = (HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNSUPPORTED_MEDIA_TYPE)

Name = Annotated[str, Field(min_length=1, max_length=200)]


class SegmentRequest(RequestModel):
    """A question about people, under a key."""

    segment_key: Annotated[str, Field(max_length=63)]
    name: Name | None = None
    filter: dict[str, Any]


class SegmentUpdateRequest(RequestModel):
    name: Name | None = None
    filter: dict[str, Any] | None = None


class SegmentCountRequest(RequestModel):
    filter: dict[str, Any]


class MemberPage(RequestModel):
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    after: Annotated[str, Field(max_length=254, description="The last address of the page before.")] = ""


@router.get("", responses=describe_responses({HTTPStatus.OK: answers.SegmentListResponse}))
async def list_segments(parts: Parts, caller: CallerDep) -> Response:
    """By name."""
    found = await segments.list_all(parts.database, caller.tenant_id)
    return json_response({"segments": [_shown(each) for each in found]})


@router.post(
    "",
    status_code=HTTPStatus.CREATED,
    openapi_extra=describe_body(SegmentRequest),
    responses=describe_responses({HTTPStatus.CREATED: answers.SegmentResponse}, HTTPStatus.CONFLICT, *_BODY_PROBLEMS),
)
async def create(request: Request, parts: Parts, caller: CallerDep) -> Response:
    """A segment is asked anew each time: whoever answers to it now is in it now."""
    wanted = parse(SegmentRequest, await read_json(request))
    made = await segments.create(
        parts.database,
        parts.clock,
        caller.tenant_id,
        wanted.segment_key,
        filter_=wanted.filter,
        name=wanted.name,
        actor=API,
    )
    return json_response(_shown(made), HTTPStatus.CREATED)


@router.post(
    "/count",
    openapi_extra=describe_body(SegmentCountRequest),
    responses=describe_responses({HTTPStatus.OK: None}, *_BODY_PROBLEMS),
)
async def count(request: Request, parts: Parts, caller: CallerDep) -> Response:
    """How many people answer to a filter that is not saved, and the filter in a sentence."""
    asked = parse(SegmentCountRequest, await read_json(request)).filter
    sentence = describe(asked)
    async with parts.database.read() as tx:
        found = await segments.count(tx, caller.tenant_id, asked, parts.clock.now())
    return json_response({"count": found, "sentence": sentence})


@router.get(
    "/{segmentKey}", responses=describe_responses({HTTPStatus.OK: answers.SegmentCountResponse}, HTTPStatus.NOT_FOUND)
)
async def show(request: Request, segmentKey: str, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803
    """With the number of people who are in it now, whether they may be written to or not."""
    found = await segments.find(parts.database, caller.tenant_id, segmentKey)
    return json_response({**_shown(found), "count": await people_in(request, caller.tenant_id, found)})


@router.get(
    "/{segmentKey}/contacts",
    responses=describe_responses({HTTPStatus.OK: answers.ContactListResponse}, HTTPStatus.NOT_FOUND),
)
async def members(
    segmentKey: str,  # noqa: N803
    parts: Parts,
    caller: CallerDep,
    page: Annotated[MemberPage, Query()],
) -> Response:
    """In the order of addresses; `nextCursor` is the `after` of the next page."""
    found = await segments.find(parts.database, caller.tenant_id, segmentKey)
    async with parts.database.read() as tx:
        people = await segments.members(
            tx, caller.tenant_id, found.filter, parts.clock.now(), limit=page.limit, after=page.after
        )
    following = people[-1].email if len(people) == page.limit else None
    return json_response({"contacts": [answers.contact(person) for person in people], "nextCursor": following})


@router.patch(
    "/{segmentKey}",
    openapi_extra=describe_body(SegmentUpdateRequest),
    responses=describe_responses({HTTPStatus.OK: answers.SegmentResponse}, HTTPStatus.NOT_FOUND, *_BODY_PROBLEMS),
)
async def change(request: Request, segmentKey: str, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803
    """Campaigns that were started keep the question that they were started with."""
    wanted = parse(SegmentUpdateRequest, await read_json(request))
    changed = await segments.change(
        parts.database,
        parts.clock,
        caller.tenant_id,
        segmentKey,
        filter_=wanted.filter,
        name=wanted.name,
        actor=API,
    )
    return json_response(_shown(changed))


@router.delete(
    "/{segmentKey}",
    status_code=HTTPStatus.NO_CONTENT,
    responses=describe_responses({HTTPStatus.NO_CONTENT: None}, HTTPStatus.NOT_FOUND),
)
async def forget(segmentKey: str, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803
    """The people stay."""
    await segments.delete_segment(parts.database, caller.tenant_id, segmentKey, actor=API, clock=parts.clock)
    return Response(status_code=HTTPStatus.NO_CONTENT)


async def people_in(request: Request, tenant_id: int, segment: Segment) -> int:
    """Count the contacts of a segment. The count visits every contact, so it is cached for a few seconds."""
    engine = engine_of(request)

    async def count_contacts() -> int:
        async with engine.database.read() as tx:
            return await segments.count(tx, tenant_id, segment.filter, engine.clock.now())

    return await result_cache_of(request).get(("segment count", tenant_id, segment.segment_key), count_contacts)


def _shown(found: Segment) -> dict[str, Any]:
    return answers.segment(found, describe(found.filter))
