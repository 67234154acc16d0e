"""Models of dead letters."""

from mailwright.outbox.message_records import DeadLetter
from mailwright.schemas.base import ResponseModel, Time


class DeadLetterResponse(ResponseModel):
    outbox_id: str
    to: str
    subject: str
    source: str
    request_id: str
    code: str
    reason: str
    attempts: int
    created_at: Time


class DeadLetterListResponse(ResponseModel):
    dead_letters: list[DeadLetterResponse]
    next_cursor: str | None


def dead_letter_response(letter: DeadLetter) -> DeadLetterResponse:
    return DeadLetterResponse(
        outbox_id=letter.outbox_id,
        to=letter.to_email,
        subject=letter.subject,
        source=letter.source,
        request_id=letter.request_id,
        code=letter.code,
        reason=letter.reason,
        attempts=letter.attempts,
        created_at=letter.created_at,
    )
