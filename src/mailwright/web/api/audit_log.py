"""HTTP route of the audit log."""

from http import HTTPStatus
from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from mailwright.access.roles import Role, Scope
from mailwright.outbox.audit_log import list_entries
from mailwright.schemas.audit_log import AuditLogPage, AuditLogResponse
from mailwright.web.api.caller import CallerDep
from mailwright.web.api.openapi import describe_responses
from mailwright.web.api.routes import Routes
from mailwright.web.bodies import json_response
from mailwright.web.state import EngineDep

router = Routes(prefix="/v1/journal", tags=["journal"])


@router.get("", scope=Scope.READ, role=Role.ADMIN, responses=describe_responses({HTTPStatus.OK: AuditLogResponse}))
async def show(engine: EngineDep, caller: CallerDep, page: Annotated[AuditLogPage, Query()]) -> Response:
    """List the audit log, latest first."""
    entries = await list_entries(
        engine.database,
        tenant_id=caller.tenant_id,
        limit=page.limit,
        before=page.before("deed"),
        subject=page.subject,
    )
    next_cursor = page.next_cursor("deed", [entry.id for entry in entries])
    return json_response(AuditLogResponse(deeds=entries, next_cursor=next_cursor))
