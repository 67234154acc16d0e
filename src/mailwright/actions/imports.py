"""Imports of contacts: a file is stored during the request and imported afterwards.

The command `contact import` is written by hand: on the installation, it reads the file where it is and can be
interrupted; with `--server`, it uploads the file and waits for the report.
"""

from http import HTTPStatus
from typing import Annotated, Any, Final

from pydantic import Field

from mailwright.actions.contacts import noun
from mailwright.actions.context import Context
from mailwright.actions.declaration import MANAGE, CsvFile, FileBody, Option, Upload
from mailwright.audience.importing.imports import Import
from mailwright.audience.importing.plan import ImportOptions, ImportPreview
from mailwright.audience.importing.rows import ContactRow, RefusedRow
from mailwright.audience.importing.subscription_answers import SubscriptionAnswer
from mailwright.audience.legal_basis import MAX_SOURCE_LENGTH, LegalBasis, legal_basis_record
from mailwright.outbox.audit_log import API
from mailwright.schemas.base import ResponseModel, Time, combine
from mailwright.sources.api.fields import RequestModel
from mailwright.sources.api.validation import FieldError, RequestInvalid
from mailwright.texts.subscription_answers import import_answers_text

_CSV: Final = FileBody(("text/csv",))


class ImportQuery(RequestModel):
    list_key: Annotated[
        str | None, Option("--list"), Field(max_length=63, description="Subscribe the contacts to this list.")
    ] = None
    map: Annotated[
        tuple[str, ...],
        Field(
            max_length=200,
            description="Map a column: `E-Mail=email`, `Plan=tariff`, `Born=birthday:dmy`, `News?=subscribed`, or "
            "`Notes=-` to ignore it.",
        ),
    ] = ()
    tag: Annotated[tuple[str, ...], Field(max_length=50, description="Add this tag to every contact.")] = ()
    encoding: Annotated[
        str | None,
        Field(max_length=40, description="Encoding of the file, for example cp1251. By default, it is detected."),
    ] = None
    confirmed: Annotated[
        bool,
        Option("--confirmed"),
        Field(description="Send no confirmation emails, because the contacts confirmed elsewhere."),
    ] = False
    file_name: Annotated[str, Field(max_length=255, description="Name to show for the file.")] = "contacts.csv"
    legal_basis: Annotated[
        LegalBasis | None, Field(description="Why the contacts may receive bulk email without a subscription.")
    ] = None
    legal_basis_source: Annotated[
        str | None, Field(max_length=MAX_SOURCE_LENGTH, description="Evidence, for example the name of a contract.")
    ] = None
    start_sequences: Annotated[
        bool,
        Option("--start-sequences"),
        Field(description="Enrol new subscribers in the sequences that start when a contact joins the list."),
    ] = False
    keep_subscriptions: Annotated[
        bool,
        Option("--keep-subscriptions"),
        Field(description="Keep the subscriptions of contacts for whom the file says no. By default, they end."),
    ] = False
    ask: Annotated[
        bool,
        Option("--ask"),
        Field(
            description="Send a confirmation email to contacts who did not answer and, unless `confirmed` is set, to "
            "those who said yes. The list must use double opt-in."
        ),
    ] = False

    def options(self, actor: str) -> ImportOptions:
        pairs = [text.rpartition("=") for text in self.map]
        if any(not title or not sign or not target for title, sign, target in pairs):
            raise RequestInvalid([FieldError("map", "INVALID", "must look like E-Mail=email")])
        chosen = {title: target for title, _, target in pairs}
        basis = legal_basis_record(self.legal_basis, self.legal_basis_source, actor)
        return ImportOptions(
            self.list_key,
            self.tag,
            chosen,
            self.confirmed,
            self.encoding,
            basis,
            starts_sequences=self.start_sequences,
            keeps_subscriptions=self.keep_subscriptions,
            asks=self.ask,
        )


class ImportColumnResponse(ResponseModel):
    title: str
    target: str
    format: str


class ImportResponse(ResponseModel):
    """An uploaded file of contacts and the progress of its import."""

    import_id: str
    file_name: str
    list_key: str | None
    legal_basis: str | None
    columns: list[ImportColumnResponse]
    warnings: list[str]
    size_bytes: int
    read_bytes: int
    rows: int
    added: int
    changed: int
    unchanged: int
    refused: int
    repeated: Annotated[
        int, Field(description="Rows whose address is on an earlier row. Their contact is counted once.")
    ]
    subscribed: Annotated[int, Field(description="Contacts whom the import subscribed to the list.")]
    asked: Annotated[int, Field(description="Contacts who get a confirmation email.")]
    said_no: Annotated[int, Field(description="Contacts for whom the file says no. Later imports respect it.")]
    unanswered: Annotated[int, Field(description="Contacts whose answer is empty.")]
    unreadable: Annotated[int, Field(description="Contacts whose answer is neither yes nor no.")]
    answers_text: Annotated[str, Field(description="What the import did with subscriptions, in sentences.")]
    created_at: Time
    updated_at: Annotated[Time, Field(description="When rows were last stored, or confirmation emails last written.")]
    finished_at: Time | None


class ImportListResponse(ResponseModel):
    imports: list[ImportResponse]


class ImportRemarkResponse(ResponseModel):
    line: int
    email: str
    remark: str


class ImportPreviewResponse(ResponseModel):
    """The first rows of a file, as an import would read them."""

    encoding: str
    delimiter: str
    warnings: list[str]
    columns: list[ImportColumnResponse]
    total_rows: Annotated[int, Field(description="Number of rows in the file, without the header.")]
    rows: list[dict[str, Any]]
    checked: Annotated[int, Field(description="Rows that the preview read: all, or the first 100,000.")]
    refused: Annotated[int, Field(description="Number of the checked rows that the import will refuse.")]
    first_refused: Annotated[list[dict[str, Any]], Field(description="The first of them, with the reasons.")]
    answers: Annotated[
        dict[SubscriptionAnswer, int],
        Field(description="Answers to the newsletter, if a column has them. Only `yes` subscribes."),
    ]
    first_unreadable: Annotated[
        list[ImportRemarkResponse], Field(description="The first rows whose answer is neither yes nor no.")
    ]
    blocked: Annotated[
        int,
        Field(
            description="Addresses among the checked rows that the import does not subscribe although the file agrees, "
            "for example because they unsubscribed."
        ),
    ]
    first_blocked: Annotated[list[ImportRemarkResponse], Field(description="The first of them, with the reasons.")]


class ImportPersonResponse(ResponseModel):
    """The contact that a row of a file describes."""

    email: str
    name: str | None
    locale: str | None
    timezone: str | None
    tags: list[str]
    attributes: dict[str, Any]
    answer: SubscriptionAnswer | None


@noun.post("/imports", status=HTTPStatus.ACCEPTED, scope=MANAGE, audit="import.begin", body=_CSV)
async def begin(at: Context, file: Upload, wanted: ImportQuery) -> ImportResponse:
    """Upload a file of contacts as the body. The response comes after its columns are read; the rows follow later."""
    if wanted.ask:
        await at.require_default_sender()
    started = await at.server.import_uploads.receive(
        at.tenant_id, file.parts, wanted.options(API), file_name=wanted.file_name, actor=at.actor
    )
    return import_response(started)


@noun.post("/imports/preview", scope=MANAGE, audit=None, body=_CSV)
async def preview(at: Context, file: Upload, wanted: ImportQuery) -> ImportPreviewResponse:
    """Show how the first rows would be read. Nothing is stored."""
    return import_preview_response(
        await at.server.import_uploads.preview(at.tenant_id, file.parts, wanted.options(API))
    )


@noun.get("/imports")
async def list_imports(at: Context) -> ImportListResponse:
    """List the imports, latest first."""
    found = await at.server.import_uploads.latest(at.tenant_id, limit=100)
    return ImportListResponse(imports=[import_response(each) for each in found])


@noun.get("/imports/{importId}")
async def show(at: Context, import_id: str) -> ImportResponse:
    """Show the progress of an import."""
    return import_response(await at.server.import_uploads.find(at.tenant_id, import_id))


@noun.get("/imports/{importId}/report")
async def report(at: Context, import_id: str) -> CsvFile:
    """Download the report as CSV, one line for every imported row: line, email, outcome, reason."""
    return CsvFile(await at.server.import_uploads.report(at.tenant_id, import_id))


def import_response(found: Import) -> ImportResponse:
    basis = found.plan.legal_basis
    return combine(
        ImportResponse,
        found,
        found.plan,
        legal_basis=None if basis is None else basis.basis,
        rows=found.records,
        answers_text=import_answers_text(found),
    )


def import_preview_response(found: ImportPreview) -> ImportPreviewResponse:
    return combine(
        ImportPreviewResponse,
        found,
        found.plan,
        found.plan.file_format,
        total_rows=found.plan.rows,
        rows=[_preview_row(line, row) for line, row in found.rows],
        first_refused=[_preview_row(line, row) for line, row in found.first_refused],
        answers=dict(found.answers),
        first_unreadable=[
            ImportRemarkResponse(line=line, email=row.email, remark=row.remark) for line, row in found.first_unreadable
        ],
        blocked=len(found.blocked),
        first_blocked=[
            ImportRemarkResponse(line=line, email=email, remark=why) for line, email, why in found.first_blocked
        ],
    )


def _preview_row(line: int, row: ContactRow | RefusedRow) -> dict[str, Any]:
    if isinstance(row, RefusedRow):
        return {"line": line, "refused": row.reason, "email": row.email, "person": None}
    return {"line": line, "refused": None, "email": row.email, "person": ImportPersonResponse.model_validate(row)}
