"""The model of the audit."""

from mailwright.schemas.base import SnakeResponseModel


class AuditResponse(SnakeResponseModel):
    """The numbers of `outbox.audit.Audit`. `ok`: every accepted message is in exactly one state."""

    accepted: int
    sent: int
    failed: int
    in_doubt: int
    closed_unknown: int
    suppressed: int
    cancelled: int
    open: int
    resent_in_doubt: int
    deleted: int
    ok: bool
