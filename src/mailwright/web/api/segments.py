"""HTTP routes of segments."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from mailwright.app.segment_removal import delete_segment
from mailwright.audience import segments
from mailwright.audience.segments import Segment
from mailwright.schemas.contacts import ContactListResponse
from mailwright.schemas.filter_text import describe
from mailwright.schemas.segments import (
    FilterCountResponse,
    SegmentCountRequest,
    SegmentCountResponse,
    SegmentEditResponse,
    SegmentListResponse,
    SegmentMembersQuery,
    SegmentRequest,
    SegmentResponse,
    SegmentUpdateRequest,
    segment_count_response,
    segment_edit_response,
    segment_response,
)
from mailwright.sources.api.senders import require_sender
from mailwright.sources.api.validation import parse
from mailwright.sources.sequences.segment_edits import edit_segment, preview_edit
from mailwright.web.api.caller import CallerDep, actor_of
from mailwright.web.api.openapi import BODY_PROBLEMS, describe_body, describe_responses
from mailwright.web.bodies import json_response, read_json
from mailwright.web.state import EngineDep, engine_of, result_cache_of

router = APIRouter(prefix="/v1/segments", tags=["segments"])

_CHANGE = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, *BODY_PROBLEMS)


@router.get("", responses=describe_responses({HTTPStatus.OK: SegmentListResponse}))
async def list_segments(engine: EngineDep, caller: CallerDep) -> Response:
    """List the segments, by name."""
    found = await segments.list_all(engine.database, caller.tenant_id)
    return json_response(SegmentListResponse(segments=[segment_response(segment) for segment in found]))


@router.post(
    "",
    status_code=HTTPStatus.CREATED,
    openapi_extra=describe_body(SegmentRequest),
    responses=describe_responses({HTTPStatus.CREATED: SegmentResponse}, HTTPStatus.CONFLICT, *BODY_PROBLEMS),
)
async def create(request: Request, engine: EngineDep, caller: CallerDep) -> Response:
    """Save a filter as a segment. The filter is evaluated each time the segment is used."""
    wanted = parse(SegmentRequest, await read_json(request))
    created = await segments.create(
        engine.database,
        engine.clock,
        caller.tenant_id,
        wanted.segment_key,
        filter_=wanted.filter,
        name=wanted.name,
        actor=actor_of(caller),
    )
    return json_response(segment_response(created), HTTPStatus.CREATED)


@router.post(
    "/count",
    openapi_extra=describe_body(SegmentCountRequest),
    responses=describe_responses({HTTPStatus.OK: None}, *BODY_PROBLEMS),
)
async def count(request: Request, engine: EngineDep, caller: CallerDep) -> Response:
    """Count the contacts that match a filter that is not saved, and describe it in a sentence."""
    filter_ = parse(SegmentCountRequest, await read_json(request)).filter
    sentence = describe(filter_)
    async with engine.database.read() as tx:
        number = await segments.count_members(tx, caller.tenant_id, filter_, engine.clock.now())
    return json_response(FilterCountResponse(count=number, sentence=sentence))


@router.get("/{segmentKey}", responses=describe_responses({HTTPStatus.OK: SegmentCountResponse}, HTTPStatus.NOT_FOUND))
async def show(request: Request, segmentKey: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Show a segment and the number of contacts that match now, whether or not they may receive email."""
    segment = await segments.find(engine.database, caller.tenant_id, segmentKey)
    return json_response(segment_count_response(segment, await cached_member_count(request, caller.tenant_id, segment)))


@router.get(
    "/{segmentKey}/contacts",
    responses=describe_responses({HTTPStatus.OK: ContactListResponse}, HTTPStatus.NOT_FOUND),
)
async def members(
    segmentKey: str,  # noqa: N803
    engine: EngineDep,
    caller: CallerDep,
    page: Annotated[SegmentMembersQuery, Query()],
) -> Response:
    """List the contacts in a segment, by address. `nextCursor` is the `after` of the next page."""
    segment = await segments.find(engine.database, caller.tenant_id, segmentKey)
    async with engine.database.read() as tx:
        contacts = await segments.list_members(
            tx, caller.tenant_id, segment.filter, engine.clock.now(), limit=page.limit, after=page.after
        )
    next_cursor = contacts[-1].email if len(contacts) == page.limit else None
    return json_response(ContactListResponse(contacts=contacts, next_cursor=next_cursor))


@router.patch(
    "/{segmentKey}",
    openapi_extra=describe_body(SegmentUpdateRequest),
    responses=describe_responses({HTTPStatus.OK: SegmentEditResponse}, *_CHANGE),
)
async def change(request: Request, segmentKey: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Change a segment. Campaigns that have started keep the filter that they started with.

    People who match only because of a new filter enter no sequence, unless `enrol` is true.
    """
    wanted = parse(SegmentUpdateRequest, await read_json(request))
    where = (engine.database, engine.clock, caller.tenant_id, segmentKey)
    if wanted.dry_run:
        found = await segments.find(engine.database, caller.tenant_id, segmentKey)
        entering = () if wanted.filter is None else await preview_edit(*where, wanted.filter)
        return json_response(segment_edit_response(found, entering))
    if wanted.enrol:
        require_sender(caller, await engine.directory.default_sender(caller.tenant_id))
    changed, entering = await edit_segment(
        *where, filter_=wanted.filter, name=wanted.name, enrols=wanted.enrol, actor=actor_of(caller)
    )
    return json_response(segment_edit_response(changed, entering))


@router.delete(
    "/{segmentKey}",
    status_code=HTTPStatus.NO_CONTENT,
    responses=describe_responses({HTTPStatus.NO_CONTENT: None}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
)
async def remove(segmentKey: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Delete a segment. The contacts stay. A segment that a draft campaign or a template names cannot be deleted."""
    await delete_segment(engine.database, engine.clock, caller.tenant_id, segmentKey, actor=actor_of(caller))
    return Response(status_code=HTTPStatus.NO_CONTENT)


async def cached_member_count(request: Request, tenant_id: int, segment: Segment) -> int:
    """Count the contacts of a segment. The count visits every contact, so it is cached for a few seconds."""
    engine = engine_of(request)

    async def count_contacts() -> int:
        async with engine.database.read() as tx:
            return await segments.count_members(tx, tenant_id, segment.filter, engine.clock.now())

    return await result_cache_of(request).get(("segment count", tenant_id, segment.segment_key), count_contacts)
