"""Dead letters: messages that failed permanently."""

from typing import Annotated

from mailwright.actions.context import Context
from mailwright.actions.declaration import Noun, Table, TwoLines, time_of
from mailwright.outbox import message_records
from mailwright.schemas.base import From, ResponseModel, Time
from mailwright.schemas.paging import NEWEST, Page, decode_cursor, encode_cursor

noun = Noun("dead-letter", "Messages that failed permanently.", "/v1/dead-letters")


class DeadLetterResponse(ResponseModel):
    outbox_id: str
    to: Annotated[str, From("to_email")]
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


@noun.get(
    command="list",
    shown=Table(
        "dead_letters",
        {
            "Message and time ({zone})!": lambda each: TwoLines(each.outbox_id, time_of("created_at")(each)),
            "Recipient and error": lambda each: TwoLines(each.to, each.reason),
        },
        nothing="The tenant {tenant} has no dead letters.",
    ),
)
async def list_dead_letters(at: Context, page: Page) -> DeadLetterListResponse:
    """List the dead letters, latest first. `POST /v1/email/{outboxId}/retry` retries one."""
    before = (NEWEST, NEWEST) if page.cursor is None else decode_cursor("dead-letter", page.cursor, 2)
    found = await message_records.dead_letters(
        at.database, at.tenant_id, limit=page.limit, before=(before[0], before[1])
    )
    last = found[-1] if len(found) == page.limit else None
    next_cursor = encode_cursor("dead-letter", last.created_at, last.message_key) if last else None
    return DeadLetterListResponse.model_validate({"dead_letters": found, "next_cursor": next_cursor})
