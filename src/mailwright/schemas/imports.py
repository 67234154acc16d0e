"""Models of contact imports."""

from typing import Annotated, Any

from pydantic import Field

from mailwright.audience.importing.imports import Import
from mailwright.audience.importing.plan import ImportOptions, ImportPreview
from mailwright.audience.importing.rows import ContactRow, RefusedRow
from mailwright.audience.importing.subscription_answers import SubscriptionAnswer
from mailwright.audience.legal_basis import MAX_SOURCE_LENGTH, LegalBasis, legal_basis_record
from mailwright.schemas.base import ResponseModel, Time
from mailwright.sources.api.fields import RequestModel
from mailwright.sources.api.validation import FieldError, RequestInvalid


class ImportQuery(RequestModel):
    list_key: Annotated[str | None, Field(max_length=63, description="List to subscribe the contacts to.")] = None
    tag: Annotated[tuple[str, ...], Field(max_length=50, description="Tag for every contact in the file.")] = ()
    map: Annotated[
        tuple[str, ...], Field(max_length=200, description="Field for a column: `E-Mail=email`, `Born=birthday:dmy`.")
    ] = ()
    encoding: Annotated[
        str | None, Field(max_length=40, description="Encoding, for example cp1251. Default: detected.")
    ] = None
    confirmed: Annotated[bool, Field(description="The contacts confirmed their subscription elsewhere.")] = False
    file_name: Annotated[str, Field(max_length=255, description="Name to show for the file.")] = "contacts.csv"
    legal_basis: Annotated[
        LegalBasis | None, Field(description="Why the contacts may receive bulk email without a subscription.")
    ] = None
    legal_basis_source: Annotated[
        str | None, Field(max_length=MAX_SOURCE_LENGTH, description="Evidence, for example the name of a contract.")
    ] = None
    start_sequences: Annotated[
        bool, Field(description="Let new subscribers enter the sequences that joining the list starts.")
    ] = False

    keep_subscriptions: Annotated[
        bool, Field(description="Keep the subscriptions of contacts for whom the file says no. By default, they end.")
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
    created_at: Time
    finished_at: Time | None


class ImportReportResponse(ImportResponse):
    """An import from the command line. `report`: the file that lists refused rows."""

    report: str


class ImportListResponse(ResponseModel):
    imports: list[ImportResponse]


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


class ImportPersonResponse(ResponseModel):
    """The contact that a row of a file describes."""

    email: str
    name: str | None
    locale: str | None
    timezone: str | None
    tags: list[str]
    attributes: dict[str, Any]
    answer: SubscriptionAnswer | None


def import_response(import_: Import) -> ImportResponse:
    return ImportResponse(
        import_id=import_.import_id,
        file_name=import_.file_name,
        list_key=import_.plan.list_key,
        legal_basis=None if import_.plan.legal_basis is None else import_.plan.legal_basis.basis,
        columns=import_.plan.columns,
        warnings=import_.plan.warnings,
        size_bytes=import_.size_bytes,
        read_bytes=import_.read_bytes,
        rows=import_.records,
        added=import_.added,
        changed=import_.changed,
        unchanged=import_.unchanged,
        refused=import_.refused,
        repeated=import_.repeated,
        created_at=import_.created_at,
        finished_at=import_.finished_at,
    )


def import_preview_response(preview: ImportPreview) -> ImportPreviewResponse:
    file_format = preview.plan.file_format
    return ImportPreviewResponse(
        encoding=file_format.encoding,
        delimiter=file_format.delimiter,
        warnings=preview.plan.warnings,
        columns=preview.plan.columns,
        total_rows=preview.plan.rows,
        rows=[_preview_row(line, row) for line, row in preview.rows],
        checked=preview.checked,
        refused=preview.refused,
        first_refused=[_preview_row(line, row) for line, row in preview.first_refused],
        answers=dict(preview.answers),
    )


def _preview_row(line: int, row: ContactRow | RefusedRow) -> dict[str, Any]:
    if isinstance(row, RefusedRow):
        return {"line": line, "refused": row.reason, "email": row.email, "person": None}
    return {"line": line, "refused": None, "email": row.email, "person": ImportPersonResponse.model_validate(row)}
