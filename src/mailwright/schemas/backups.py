"""Models of audits, backups and restores."""

from mailwright.app.backups import Backup
from mailwright.app.restoring import Restored
from mailwright.schemas.audit import AuditResponse
from mailwright.schemas.base import ResponseModel, Time


class BackupResponse(ResponseModel):
    """A backup that was written. `audit` is null if it is encrypted. `deleted`: older backups."""

    file: str
    bytes: int
    rows: dict[str, int]
    images: int
    audit: AuditResponse | None
    deleted: list[str]


class RestoreResponse(ResponseModel):
    """`kept`: where the replaced content is. `…Known`: whether anything says who was erased or suppressed since."""

    created_at: Time
    audit: AuditResponse
    images: int
    kept: str | None
    erasures_known: bool
    erased_again: int
    still_erasing: tuple[str, ...]
    suppressions_known: bool
    suppressions_kept: dict[str, int]


def backup_response(written: Backup) -> BackupResponse:
    return BackupResponse(
        file=str(written.file),
        bytes=written.size_bytes,
        rows=written.contents.rows,
        images=written.contents.files,
        audit=None if written.audit is None else AuditResponse.model_validate(written.audit),
        deleted=[str(old) for old in written.deleted],
    )


def restore_response(restored: Restored) -> RestoreResponse:
    erasures, suppressions = restored.erasures, restored.suppressions
    return RestoreResponse(
        created_at=restored.created_at,
        audit=AuditResponse.model_validate(restored.audit),
        images=restored.images,
        kept=None if restored.kept is None else str(restored.kept),
        erasures_known=erasures.is_known,
        erased_again=erasures.erased,
        still_erasing=erasures.pending,
        suppressions_known=suppressions.is_known,
        suppressions_kept=suppressions.kept,
    )
