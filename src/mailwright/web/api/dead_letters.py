"""Dead letters over HTTP: what will not be tried again unless somebody asks for it."""

from http import HTTPStatus

from fastapi import APIRouter
from starlette.responses import Response

from mailwright.outbox import message_records
from mailwright.schemas import answers
from mailwright.schemas.paging import PageQuery, decode_cursor, encode_cursor
from mailwright.web.api.caller import CallerDep
from mailwright.web.api.openapi import describe_responses
from mailwright.web.bodies import json_response
from mailwright.web.parts import Parts

router = APIRouter(prefix="/v1/dead-letters", tags=["dead letters"])


@router.get("", responses=describe_responses({HTTPStatus.OK: answers.DeadLetterListResponse}))
async def list_dead_letters(parts: Parts, caller: CallerDep, page: PageQuery) -> Response:
    """Messages that wait for an operator, the latest first. `POST /v1/email/{outboxId}/retry` tries one again."""
    created_at, message_key = (
        decode_cursor("dead-letter", page.cursor, 2)
        if page.cursor is not None
        else (message_records.NEWEST, message_records.NEWEST)
    )
    found = await message_records.dead_letters(
        parts.database, caller.tenant_id, limit=page.limit, before=(created_at, message_key)
    )
    last = found[-1] if len(found) == page.limit else None
    following = encode_cursor("dead-letter", last.created_at, last.message_key) if last else None
    return json_response({"deadLetters": [answers.dead_letter(letter) for letter in found], "nextCursor": following})
