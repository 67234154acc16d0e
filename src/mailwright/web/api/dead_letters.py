"""HTTP route of dead letters: messages that are not retried unless a user asks for it."""

from http import HTTPStatus

from starlette.responses import Response

from mailwright.access.roles import Scope
from mailwright.outbox import message_records
from mailwright.schemas.dead_letters import DeadLetterListResponse, dead_letter_response
from mailwright.schemas.paging import NEWEST, decode_cursor, encode_cursor
from mailwright.web.api.caller import CallerDep
from mailwright.web.api.openapi import describe_responses
from mailwright.web.api.paging import PageQuery
from mailwright.web.api.routes import Routes
from mailwright.web.bodies import json_response
from mailwright.web.state import EngineDep

router = Routes(prefix="/v1/dead-letters", tags=["dead letters"])


@router.get("", scope=Scope.READ, responses=describe_responses({HTTPStatus.OK: DeadLetterListResponse}))
async def list_dead_letters(engine: EngineDep, caller: CallerDep, page: PageQuery) -> Response:
    """List the dead letters, latest first. `POST /v1/email/{outboxId}/retry` retries one."""
    created_at, message_key = (
        decode_cursor("dead-letter", page.cursor, 2) if page.cursor is not None else (NEWEST, NEWEST)
    )
    dead_letters = await message_records.dead_letters(
        engine.database, caller.tenant_id, limit=page.limit, before=(created_at, message_key)
    )
    last = dead_letters[-1] if len(dead_letters) == page.limit else None
    next_cursor = encode_cursor("dead-letter", last.created_at, last.message_key) if last else None
    return json_response(
        DeadLetterListResponse(
            dead_letters=[dead_letter_response(one) for one in dead_letters], next_cursor=next_cursor
        )
    )
