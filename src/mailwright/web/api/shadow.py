"""HTTP route of the report of shadow mode."""

from http import HTTPStatus
from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from mailwright.access.roles import Scope
from mailwright.outbox.shadow import load_report
from mailwright.schemas.shadow import ShadowReportQuery, ShadowReportResponse, shadow_report_response
from mailwright.web.api.caller import CallerDep
from mailwright.web.api.openapi import describe_responses
from mailwright.web.api.routes import Routes
from mailwright.web.bodies import json_response
from mailwright.web.state import EngineDep

router = Routes(prefix="/v1/shadow", tags=["shadow"])


@router.get("", scope=Scope.READ, responses=describe_responses({HTTPStatus.OK: ShadowReportResponse}))
async def report(engine: EngineDep, caller: CallerDep, query: Annotated[ShadowReportQuery, Query()]) -> Response:
    """Report the emails that shadow mode passed on, and what Mailwright would have done with them."""
    found = await load_report(engine.database, caller.tenant_id, engine.clock.now(), query.days)
    return json_response(shadow_report_response(found, engine.settings.smtp_mode))
