"""Validation: four questions in order; the first that is answered with no ends the message for good."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from mailwright.content import html as html_rules
from mailwright.content import subject as subject_rules
from mailwright.domain import address
from mailwright.domain.message import Claimed


class ValidationKind(StrEnum):
    INTEGRITY = "INTEGRITY"
    OUTBOX = "OUTBOX"
    RECIPIENT = "RECIPIENT"
    TEMPLATE = "TEMPLATE"


@dataclass(frozen=True, slots=True)
class ValidationFailure:
    kind: ValidationKind
    code: str
    reason: str


def objection(claimed: Claimed) -> ValidationFailure | None:
    """What keeps this message from being sent, whoever would carry it."""
    for question in QUESTIONS:
        if found := question(claimed):
            return found
    return None


def integrity(claimed: Claimed) -> ValidationFailure | None:
    """The payload is complete and of one piece."""
    if not claimed.is_in_outbox:
        return None  # nothing is known of it: the next question says so
    payload = claimed.payload
    reason = None
    if not isinstance(payload.get("to"), str) or not isinstance(payload.get("subject", ""), str):
        reason = "The payload needs a `to` and a `subject`, both as text."
    elif not payload.get("html") and not payload.get("text") and claimed.template_key is None:
        reason = "The payload has no content: it needs `html`, `text` or a template."
    elif not isinstance(payload.get("html", ""), str) or not isinstance(payload.get("text", ""), str):
        reason = "`html` and `text` must be text."
    elif not claimed.recipient_id and not claimed.external_id:
        reason = "The recipient has neither a recipientId nor an externalId."
    elif _normal(payload["to"]) not in (claimed.to_email, None):
        reason = "`recipient.email` and `to` are not the same address."
    return ValidationFailure(ValidationKind.INTEGRITY, "INVALID_PAYLOAD", reason) if reason else None


def outbox(claimed: Claimed) -> ValidationFailure | None:
    """The row exists, and belongs to the tenant that it was claimed for."""
    if claimed.is_in_outbox:
        return None
    return ValidationFailure(
        ValidationKind.OUTBOX, "OUTBOX_NOT_FOUND", "The outbox has no such message for this tenant."
    )


def recipient(claimed: Claimed) -> ValidationFailure | None:
    """The recipient is known where one was named, the address can be written to, and nobody has left."""
    if claimed.recipient_id and (claimed.contact_email is None or claimed.is_contact_deleted):
        return ValidationFailure(
            ValidationKind.RECIPIENT, "RECIPIENT_NOT_FOUND", "There is no such recipient, or it was deleted."
        )
    if claimed.recipient_id and claimed.contact_email != claimed.to_email:
        return ValidationFailure(ValidationKind.RECIPIENT, "RECIPIENT_NOT_FOUND", "The recipient has another address.")
    try:
        local, _ = address.parse(claimed.payload["to"])
    except address.InvalidAddress as error:
        return ValidationFailure(ValidationKind.RECIPIENT, "INVALID_EMAIL", f"The address is not valid: {error}.")
    if not local.isascii():
        reason = "The address has characters before the @ that not all mail servers take: write to another one."
        return ValidationFailure(ValidationKind.RECIPIENT, "INVALID_EMAIL", reason)
    if claimed.suppressed_because is not None:
        return suppressed(claimed.suppressed_because)
    return None


def template(claimed: Claimed) -> ValidationFailure | None:
    """What the mail says is whole and harmless. A stored template was checked when it was stored."""
    if claimed.template_key is not None:
        return None
    html = claimed.payload.get("html")
    reason = subject_rules.subject_problem(claimed.payload.get("subject", ""))
    if reason is None and html is not None:
        reason = html_rules.html_problem(html)
    return ValidationFailure(ValidationKind.TEMPLATE, "INVALID_TEMPLATE", reason) if reason else None


QUESTIONS: tuple[Callable[[Claimed], ValidationFailure | None], ...] = (integrity, outbox, recipient, template)


def suppressed(reason: str) -> ValidationFailure:
    return ValidationFailure(
        ValidationKind.RECIPIENT, "RECIPIENT_SUPPRESSED", f"The recipient is on the suppression list: {reason}."
    )


def _normal(text: str) -> str | None:
    try:
        return address.normal(text)
    except address.InvalidAddress:
        return None
