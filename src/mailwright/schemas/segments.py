"""Models of segments."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from mailwright.audience.segments import Segment
from mailwright.schemas.base import ResponseModel, Time, extend
from mailwright.schemas.contacts import ContactSummaryResponse
from mailwright.schemas.filter_text import describe
from mailwright.sources.api.fields import RequestModel

if TYPE_CHECKING:
    from mailwright.sources.sequences.segment_edits import StartedSequence

SegmentName = Annotated[str, Field(min_length=1, max_length=200)]


class SegmentRequest(RequestModel):
    """A saved filter."""

    segment_key: Annotated[str, Field(max_length=63)]
    name: SegmentName | None = None
    filter: dict[str, Any]


class SegmentUpdateRequest(RequestModel):
    """Fields that are left out keep their value. `dryRun` only counts who would enter sequences.

    `enrol`: whether people who match only because of the new filter enter the sequences that the segment starts.
    Otherwise only people who match later enter.
    """

    name: SegmentName | None = None
    filter: dict[str, Any] | None = None
    enrol: bool = False
    dry_run: bool = False


class SegmentCountRequest(RequestModel):
    filter: dict[str, Any]


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


class SegmentCountResponse(SegmentResponse):
    """A segment and the number of contacts that match it now."""

    count: int


class SegmentMembersResponse(SegmentCountResponse):
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


def segment_response(segment: Segment) -> SegmentResponse:
    return SegmentResponse(
        segment_key=segment.segment_key,
        name=segment.name,
        filter=segment.filter,
        sentence=describe(segment.filter),
        created_at=segment.created_at,
        updated_at=segment.updated_at,
    )


def segment_count_response(segment: Segment, count: int) -> SegmentCountResponse:
    return extend(SegmentCountResponse, segment_response(segment), count=count)


def segment_edit_response(segment: Segment, started: "Iterable[StartedSequence]") -> SegmentEditResponse:
    found = [StartedSequenceResponse.model_validate(each) for each in started]
    return extend(SegmentEditResponse, segment_response(segment), sequences=found)
