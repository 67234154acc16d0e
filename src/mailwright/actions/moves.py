"""Moves of contacts from another product: upload its export files, see the numbers, then start.

The command `contact import-from` is written by hand: on the installation, it reads the files where they are; with
`--server`, it uploads them.
"""

from http import HTTPStatus
from typing import Annotated, Final, Literal

from pydantic import Field

from mailwright.actions.contacts import noun
from mailwright.actions.context import Context
from mailwright.actions.declaration import MANAGE, CsvFile, FileBody, Upload
from mailwright.audience.importing.report import read_beginning
from mailwright.audience.switching.uploads import MoveOptions, UploadedExport
from mailwright.audience.switching.vendors import MemberStatus, Vendor
from mailwright.schemas.base import ResponseModel, combine
from mailwright.sources.api.fields import ListKey, RequestModel

_FILE: Final = FileBody(("application/octet-stream",))


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


@noun.post("/moves", status=HTTPStatus.CREATED, scope=MANAGE, audit=None, body=_FILE)
async def create(at: Context, file: Upload, wanted: MoveQuery) -> MoveResponse:
    """Upload the first export file as the body: CSV, .xlsx, or a zip archive of CSV files. Nothing is stored yet."""
    given = UploadedExport(wanted.file_name, wanted.member_status, file.parts)
    return await _response(at, await at.server.switch_uploads.stage(at.tenant_id, wanted.options, [given]))


@noun.post("/moves/{moveId}/files", scope=MANAGE, audit=None, conflicts=True, body=_FILE)
async def add_file(at: Context, move_id: str, file: Upload, wanted: MoveFileQuery) -> MoveResponse:
    """Upload a further export file before the start, for example that of the contacts who unsubscribed."""
    given = UploadedExport(wanted.file_name, wanted.member_status, file.parts)
    await at.server.switch_uploads.add_file(at.tenant_id, move_id, given)
    return await _response(at, move_id)


@noun.get("/moves/{moveId}")
async def show(at: Context, move_id: str) -> MoveResponse:
    """Show the numbers before the start, the state of a running move, or the result."""
    return await _response(at, move_id)


@noun.post("/moves/{moveId}/start", status=HTTPStatus.ACCEPTED, scope=MANAGE, audit="import.begin")
async def start(at: Context, move_id: str) -> MoveResponse:
    """Move the contacts in the background, or continue after an interruption. Repeating it starts nothing twice."""
    await at.server.switch_uploads.begin(at.tenant_id, move_id, actor=at.actor)
    return await _response(at, move_id)


@noun.get("/moves/{moveId}/report")
async def report(at: Context, move_id: str) -> CsvFile:
    """Download the result of each row as CSV: file, line, email, result, remark."""
    path = await at.server.switch_uploads.report(at.tenant_id, move_id)
    return CsvFile(read_beginning(path, path.stat().st_size))


async def _response(at: Context, move_id: str) -> MoveResponse:
    move, counts, problem = await at.server.switch_uploads.describe(at.tenant_id, move_id)
    return combine(
        MoveResponse, move, move.options, move_id=move.token, files=move.names, counts=counts, problem=problem or None
    )
