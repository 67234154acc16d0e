"""Models of moves: contacts of another product, including those who must not get email."""

from typing import Annotated, Literal

from pydantic import Field

from mailwright.audience.switching.results import SwitchCounts
from mailwright.audience.switching.uploads import Move, MoveOptions
from mailwright.audience.switching.vendors import MemberStatus, Vendor
from mailwright.schemas.base import ResponseModel
from mailwright.sources.api.fields import ListKey, RequestModel


class MoveFileQuery(RequestModel):
    file_name: Annotated[str, Field(max_length=255, description="Name of the file, which may say who is in it.")] = (
        "contacts.csv"
    )
    status: Annotated[
        Literal["subscribed", "unsubscribed", "bounced", "complained"] | None,
        Field(description="Status of all contacts in the file. Default: the file says it."),
    ] = None

    @property
    def member_status(self) -> MemberStatus | None:
        return None if self.status is None else MemberStatus(self.status)


class MoveQuery(MoveFileQuery):
    vendor: Annotated[Vendor, Field(description="The product that wrote the files.")]
    list_key: Annotated[
        ListKey | None, Field(description="List that subscribers join; it is created if it does not exist.")
    ] = None
    confirmed: Annotated[bool, Field(description="The contacts confirmed their subscription there.")] = False
    filtered: Annotated[bool, Field(description="The listmonk export contains nobody who left the list.")] = False

    @property
    def options(self) -> MoveOptions:
        return MoveOptions(self.vendor, self.list_key, is_confirmed=self.confirmed, is_filtered=self.filtered)


class MoveCountsResponse(ResponseModel):
    """The rows of all files by result: `rows` is the sum of the next five. The last two are part of `unsubscribed`."""

    rows: int
    subscribed: int
    unsubscribed: int
    bounced: int
    refused: int
    repeated: int
    complained: int
    already_unsubscribed: int


class MoveResponse(ResponseModel):
    """Uploaded export files.

    Before the start, `counts` are a preview, and `problem` is the error that would stop the move.
    """

    move_id: str
    vendor: str
    list_key: str | None
    state: str
    files: list[str]
    counts: MoveCountsResponse | None
    problem: str | None


def move_response(move: Move, counts: SwitchCounts | None, problem: str) -> MoveResponse:
    return MoveResponse(
        move_id=move.token,
        vendor=move.options.vendor,
        list_key=move.options.list_key,
        state=move.state,
        files=list(move.names),
        counts=None if counts is None else MoveCountsResponse.model_validate(counts),
        problem=problem or None,
    )
