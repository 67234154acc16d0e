"""The journal over HTTP: who did what to a tenant's campaigns and people."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import Response

from mailwright.outbox.audit_log import list_entries
from mailwright.schemas import campaigns as answers
from mailwright.schemas.paging import Page, decode_cursor, encode_cursor
from mailwright.web.api.caller import CallerDep
from mailwright.web.api.openapi import describe_responses
from mailwright.web.bodies import json_response
from mailwright.web.parts import Parts

router = APIRouter(prefix="/v1/journal", tags=["journal"])

_NEWEST = 2**63 - 1


class JournalPage(Page):
    subject: Annotated[
        str | None,
        Field(max_length=254, pattern=r"^[^\x00]*$", description="Only of this one, as a campaign's id."),
    ] = None


@router.get("", responses=describe_responses({HTTPStatus.OK: answers.AuditLogResponse}))
async def show(parts: Parts, caller: CallerDep, page: Annotated[JournalPage, Query()]) -> Response:
    """The latest first."""
    before = decode_cursor("deed", page.cursor)[0] if page.cursor is not None else _NEWEST
    found = await list_entries(
        parts.database, tenant_id=caller.tenant_id, limit=page.limit, before=before, subject=page.subject
    )
    following = encode_cursor("deed", found[-1].id) if len(found) == page.limit else None
    return json_response({"deeds": [answers.deed(each) for each in found], "nextCursor": following})
