"""Validate a message with four checks in order. The message fails permanently at the first failed check."""

from collections.abc import Callable
from enum import StrEnum

from mailwright.content import html as html_rules
from mailwright.content import subject as subject_rules
from mailwright.domain import address
from mailwright.domain.clock import utc_text
from mailwright.domain.frequency import CapReached
from mailwright.domain.ids import is_uuid
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import FREE_SUBJECT, Claimed


class ValidationKind(StrEnum):
    INTEGRITY = "INTEGRITY"
    OUTBOX = "OUTBOX"
    RECIPIENT = "RECIPIENT"
    TEMPLATE = "TEMPLATE"
    SENDER = "SENDER"


@dataclass(frozen=True, slots=True)
class ValidationFailure:
    kind: ValidationKind
    code: str
    reason: str


def validate(claimed: Claimed) -> ValidationFailure | None:
    """Return why no provider may send this message; None if it is valid."""
    for check in CHECKS:
        if failure := check(claimed):
            return failure
    return None


def check_integrity(claimed: Claimed) -> ValidationFailure | None:
    """Check that the payload is complete and consistent."""
    if not claimed.is_in_outbox:
        return None  # `check_outbox` reports a missing payload.
    payload = claimed.payload
    reason = None
    if not isinstance(payload.get("to"), str) or not isinstance(payload.get("subject", ""), str):
        reason = "The payload needs `to` and `subject` as text."
    elif not (payload.get("html") or payload.get("text") or claimed.template_key or claimed.content_digest):
        reason = "The payload has no content: it needs `html`, `text` or a template."
    elif not isinstance(payload.get("html", ""), str) or not isinstance(payload.get("text", ""), str):
        reason = "`html` and `text` must be text."
    elif not claimed.recipient_id and not claimed.external_id:
        reason = "The recipient has neither recipientId nor externalId."
    elif claimed.recipient_id and claimed.contact_email is None and not is_uuid(claimed.recipient_id):
        reason = "The recipientId is not a UUID."
    elif payload["to"] != claimed.to_email and _normal(payload["to"]) not in (claimed.to_email, None):
        reason = "`recipient.email` and `to` are different addresses."
    return ValidationFailure(ValidationKind.INTEGRITY, "INVALID_PAYLOAD", reason) if reason else None


def check_outbox(claimed: Claimed) -> ValidationFailure | None:
    """Check that the message exists and belongs to the tenant that it was claimed for."""
    if claimed.is_in_outbox:
        return None
    return ValidationFailure(ValidationKind.OUTBOX, "OUTBOX_NOT_FOUND", "The tenant's outbox has no such message.")


def check_recipient(claimed: Claimed) -> ValidationFailure | None:
    """Check that the named recipient exists and that the address is valid and not suppressed."""
    if claimed.recipient_id and (claimed.contact_email is None or claimed.is_contact_deleted):
        return ValidationFailure(
            ValidationKind.RECIPIENT, "RECIPIENT_NOT_FOUND", "The recipient does not exist or was deleted."
        )
    if claimed.recipient_id and claimed.contact_email != claimed.to_email:
        return ValidationFailure(
            ValidationKind.RECIPIENT, "RECIPIENT_NOT_FOUND", "The recipient has a different address than the message."
        )
    try:
        local, _ = address.parse(claimed.payload["to"])
    except address.InvalidAddress as error:
        return ValidationFailure(ValidationKind.RECIPIENT, "INVALID_EMAIL", f"The address is not valid: {error}.")
    if not local.isascii() and claimed.content_digest is None:  # The provider decides about emails of applications.
        reason = "The address has characters before the @ that not all mail servers accept. Use another address."
        return ValidationFailure(ValidationKind.RECIPIENT, "INVALID_EMAIL", reason)
    return _refused_by_recipient(claimed)


def check_template(claimed: Claimed) -> ValidationFailure | None:
    """Check that the content is complete and safe. Templates and raw emails were checked when they were stored."""
    if claimed.template_key is not None or claimed.content_digest is not None:
        return None
    payload, html = claimed.payload, claimed.payload.get("html")
    reason = subject_rules.subject_problem(payload.get("subject", ""), is_free=FREE_SUBJECT in payload)
    if reason is None and html is not None:
        reason = html_rules.html_problem(html)
    return ValidationFailure(ValidationKind.TEMPLATE, "INVALID_TEMPLATE", reason) if reason else None


CHECKS: tuple[Callable[[Claimed], ValidationFailure | None], ...] = (
    check_integrity,
    check_outbox,
    check_recipient,
    check_template,
)


def _refused_by_recipient(claimed: Claimed) -> ValidationFailure | None:
    """Check that the address is not suppressed, and has not paused bulk email beyond the message's lifetime."""
    if claimed.suppressed_because is not None:
        return suppressed(claimed.suppressed_because)
    if claimed.snoozed_until is None or claimed.snoozed_until <= claimed.received_at:
        return None
    until = utc_text(claimed.snoozed_until)
    reason = f"The recipient has paused bulk email until {until}, which is after the end of this message's lifetime."
    return ValidationFailure(ValidationKind.RECIPIENT, "RECIPIENT_SNOOZED", reason)


def suppressed(reason: str) -> ValidationFailure:
    return ValidationFailure(
        ValidationKind.RECIPIENT, "RECIPIENT_SUPPRESSED", f"The recipient is on the suppression list: {reason}."
    )


def over_frequency_cap(reached: CapReached) -> ValidationFailure:
    cap, until = reached.cap, utc_text(reached.until)
    received = f"The recipient has received {cap.limit} of {cap.limit} bulk emails within {cap.days} days."
    reason = f"{received} The next email is allowed at {until}, after this message expires."
    return ValidationFailure(ValidationKind.RECIPIENT, "FREQUENCY_CAP", reason)


def _normal(text: str) -> str | None:
    try:
        return address.normal(text)
    except address.InvalidAddress:
        return None
