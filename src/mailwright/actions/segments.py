"""Segments: saved filters over contacts."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from mailwright.actions.contacts import ContactListResponse, ContactSummaryResponse
from mailwright.actions.context import Context
from mailwright.actions.declaration import MANAGE, READ, AgentTool, Argument, Aside, Line, Noun, Option, Table
from mailwright.app.segment_removal import delete_segment
from mailwright.audience import segments
from mailwright.audience.attribute_names import case_mistake_sentence, find_case_mistakes
from mailwright.audience.contacts import Contact
from mailwright.audience.segments import Segment
from mailwright.schemas.base import ResponseModel, Time, combine, extend
from mailwright.sources.api.fields import RequestModel, SegmentName
from mailwright.sources.sequences.segment_edits import edit_segment, preview_edit
from mailwright.texts.filters import describe

noun = Noun(
    "segment",
    "Segments: saved filters over contacts.",
    "/v1/segments",
    parameters={"segment_key": ("KEY", "The segment key, for example big-spenders.")},
)

Filter = Annotated[dict[str, Any], Argument("FILTER"), Field(description='JSON, for example {"tag": "vip"}.')]
DisplayName = Annotated[SegmentName, Field(description="The display name.")]
MAX_CONTACTS = 10_000


class SegmentRequest(RequestModel):
    """A saved filter."""

    segment_key: Annotated[
        str, Argument("KEY"), Field(max_length=63, description="The segment key, for example big-spenders.")
    ]
    filter: Filter
    name: DisplayName | None = None


class SegmentUpdateRequest(RequestModel):
    """Fields that are left out keep their value. `dryRun` only counts who would enter sequences.

    `enrol`: whether people who match only because of the new filter enter the sequences that the segment starts.
    Otherwise only people who match later enter.
    """

    filter: Filter | None = None
    name: DisplayName | None = None
    enrol: Annotated[
        bool,
        Field(description="Let people who match only because of the edit enter the sequences that the segment starts."),
    ] = False
    dry_run: Annotated[bool, Field(description="Only show who would enter sequences.")] = False


class SegmentCountRequest(RequestModel):
    filter: Filter


class SegmentQuery(RequestModel):
    contacts: Annotated[
        int, Field(ge=0, le=MAX_CONTACTS, description="Maximum number of contacts to include."), Option("--limit")
    ] = 0


class SegmentMembersQuery(RequestModel):
    limit: Annotated[int, Field(ge=1, le=200, description="Maximum number of entries.")] = 50
    after: Annotated[str, Field(max_length=254, description="Last address of the previous page.")] = ""


class SegmentResponse(ResponseModel):
    """A saved filter, with a sentence that describes it."""

    segment_key: str
    name: str
    filter: dict[str, Any]
    sentence: str
    created_at: Time
    updated_at: Time
    # Attributes that contacts have only in another case, so that they match nobody.
    warnings: list[str] = Field(default_factory=list)


class SegmentCountResponse(SegmentResponse):
    """A segment and the number of contacts that match it now."""

    count: int


class SegmentMembersResponse(SegmentCountResponse):
    """A segment, the number of contacts that match it now, and as many of them as were requested."""

    contacts: list[ContactSummaryResponse]


class StartedSequenceResponse(ResponseModel):
    """A sequence that the segment starts, and how many people match the segment only because of the edit."""

    sequence_id: str
    name: str
    people: int


class SegmentEditResponse(SegmentResponse):
    """The segment, and the people who match only because of the edit.

    They have entered the sequences only with `enrol`.
    """

    sequences: list[StartedSequenceResponse]


class SegmentListResponse(ResponseModel):
    segments: list[SegmentResponse]


class FilterCountResponse(ResponseModel):
    count: int
    sentence: str


def segment_response(segment: Segment, warnings: Iterable[str] = ()) -> SegmentResponse:
    return combine(SegmentResponse, segment, sentence=describe(segment.filter), warnings=list(warnings))


async def member_count(at: Context, segment: Segment) -> int:
    """Count the contacts of a segment. The count visits every contact, so servers cache it for a few seconds."""

    async def count_contacts() -> int:
        async with at.database.read() as tx:
            return await segments.count_members(tx, at.tenant_id, segment.filter, at.clock.now())

    counted: int = await at.cached(("segment count", at.tenant_id, segment.segment_key), count_contacts)
    return counted


def _sentence(found: SegmentCountResponse, _given: Mapping[str, Any]) -> Iterator[Line]:
    yield from map(Aside, found.warnings)
    yield f"{found.sentence} Contacts now: {found.count}."


def _members(found: SegmentMembersResponse, given: Mapping[str, Any]) -> Iterator[Line]:
    yield from _sentence(found, given)
    yield Table("contacts", {"Address": "email", "Name": "name", "Status!": "status"}, nothing="No contacts.")


def _edited(found: SegmentEditResponse, given: Mapping[str, Any]) -> Iterator[Line]:
    yield from map(Aside, found.warnings)
    yield "Nothing was changed." if given["dry_run"] else found.sentence
    then = "enter" if given["enrol"] else "do not enter"
    for each in found.sequences:
        yield f"Match only because of this: {each.people}. They {then} the sequence {each.name}."


@noun.get(
    command="list",
    agent=AgentTool("list_segments", "List the segments: saved filters over contacts."),
    shown=Table("segments", {"Key!": "segment_key", "Name": "name", "Filter": "sentence"}, nothing="No segments."),
)
async def list_segments(at: Context) -> SegmentListResponse:
    """List the segments, by name."""
    found = await segments.list_all(at.database, at.tenant_id)
    return SegmentListResponse(segments=[segment_response(segment) for segment in found])


@noun.post(scope=MANAGE, audit="segment.create", command="create", shown=_sentence)
async def create(at: Context, wanted: SegmentRequest) -> SegmentCountResponse:
    """Save a filter as a segment. The filter is evaluated each time the segment is used."""
    made = await segments.create(
        at.database,
        at.clock,
        at.tenant_id,
        wanted.segment_key,
        filter_=wanted.filter,
        name=wanted.name,
        actor=at.actor,
    )
    return await _counted(at, made)


@noun.post(
    "/count",
    scope=READ,
    audit=None,
    command="count",
    agent=AgentTool("count_segment", "Count the contacts that match a filter."),
    shown="{sentence} Contacts now: {count}.",
)
async def count(at: Context, wanted: SegmentCountRequest) -> FilterCountResponse:
    """Count the contacts that match a filter that is not saved, and describe it in a sentence."""
    sentence = describe(wanted.filter)
    async with at.database.read() as tx:
        number = await segments.count_members(tx, at.tenant_id, wanted.filter, at.clock.now())
    return FilterCountResponse(count=number, sentence=sentence)


@noun.get("/{segmentKey}", command="show", command_defaults={"contacts": 20}, shown=_members)
async def show(at: Context, segment_key: str, query: SegmentQuery) -> SegmentMembersResponse:
    """Show a segment and the number of contacts that match now, whether or not they may receive email."""
    segment = await segments.find(at.database, at.tenant_id, segment_key)
    people: list[Contact] = []
    if query.contacts:
        async with at.database.read() as tx:
            people = await segments.list_members(tx, at.tenant_id, segment.filter, at.clock.now(), limit=query.contacts)
    return extend(SegmentMembersResponse, await _counted(at, segment), contacts=people)


@noun.get("/{segmentKey}/contacts")
async def members(at: Context, segment_key: str, page: SegmentMembersQuery) -> ContactListResponse:
    """List the contacts in a segment, by address. `nextCursor` is the `after` of the next page."""
    segment = await segments.find(at.database, at.tenant_id, segment_key)
    async with at.database.read() as tx:
        people = await segments.list_members(
            tx, at.tenant_id, segment.filter, at.clock.now(), limit=page.limit, after=page.after
        )
    next_cursor = people[-1].email if len(people) == page.limit else None
    return ContactListResponse(contacts=people, next_cursor=next_cursor)


@noun.patch("/{segmentKey}", scope=MANAGE, audit="segment.edit", command="edit", shown=_edited)
async def change(at: Context, segment_key: str, wanted: SegmentUpdateRequest) -> SegmentEditResponse:
    """Change a segment. Campaigns that have started keep the filter that they started with.

    People who match only because of a new filter enter no sequence, unless `enrol` is true.
    """
    where = (at.database, at.clock, at.tenant_id, segment_key)
    if wanted.dry_run:
        found = await segments.find(at.database, at.tenant_id, segment_key)
        entering = () if wanted.filter is None else await preview_edit(*where, wanted.filter)
    else:
        if wanted.enrol:
            await at.require_default_sender()
        found, entering = await edit_segment(
            *where, filter_=wanted.filter, name=wanted.name, enrols=wanted.enrol, actor=at.actor
        )
    started = [StartedSequenceResponse.model_validate(each) for each in entering]
    warnings = await _warnings(at, wanted.filter or found.filter)
    return extend(SegmentEditResponse, segment_response(found, warnings), sequences=started)


@noun.delete(
    "/{segmentKey}",
    scope=MANAGE,
    audit="segment.forget",
    command="delete",
    shown="Deleted the segment {segment_key}.",
)
async def remove(at: Context, segment_key: str) -> None:
    """Delete a segment. The contacts stay. A segment that a draft campaign or a template names cannot be deleted."""
    await delete_segment(at.database, at.clock, at.tenant_id, segment_key, actor=at.actor)


async def _counted(at: Context, segment: Segment) -> SegmentCountResponse:
    response = segment_response(segment, await _warnings(at, segment.filter))
    return extend(SegmentCountResponse, response, count=await member_count(at, segment))


async def _warnings(at: Context, filter_: dict[str, Any]) -> list[str]:
    """Name the attributes of a filter that contacts have only in another case, because they match nobody."""
    async with at.database.read() as tx:
        mistakes = await find_case_mistakes(tx, at.tenant_id, filter_)
    return [case_mistake_sentence(name, existing) for name, existing in mistakes.items()]
