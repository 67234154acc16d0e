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


def dead_letter_response(dead_letter: DeadLetter) -> DeadLetterResponse:
    return DeadLetterResponse(
        outbox_id=dead_letter.outbox_id,
        to=dead_letter.to_email,
        subject=dead_letter.subject,
        source=dead_letter.source,
        request_id=dead_letter.request_id,
        code=dead_letter.code,
        reason=dead_letter.reason,
        attempts=dead_letter.attempts,
        created_at=dead_letter.created_at,
    )
