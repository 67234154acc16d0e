"""HTTP routes of retention rules."""

from http import HTTPStatus
from typing import Annotated

from fastapi import Query, Request
from starlette.responses import Response

from mailwright.access.roles import Role, Scope
from mailwright.app.retention import make_retention
from mailwright.domain.errors import NotFound
from mailwright.domain.retention import RetentionKind
from mailwright.outbox.retention_rules import list_rules, remove_rule, set_rule
from mailwright.schemas.retention import (
    RetentionPreviewQuery,
    RetentionPreviewResponse,
    RetentionRuleListResponse,
    RetentionRuleRequest,
    RetentionRuleResponse,
    retention_preview_response,
    retention_rule_response,
)
from mailwright.sources.api.validation import parse
from mailwright.web.api.caller import CallerDep, actor_of
from mailwright.web.api.openapi import BODY_PROBLEMS, describe_body, describe_responses
from mailwright.web.api.routes import Routes
from mailwright.web.bodies import json_response, read_json
from mailwright.web.state import EngineDep

router = Routes(prefix="/v1/retention", tags=["retention"])


@router.get(
    "", scope=Scope.READ, role=Role.ADMIN, responses=describe_responses({HTTPStatus.OK: RetentionRuleListResponse})
)
async def list_retention(engine: EngineDep, caller: CallerDep) -> Response:
    """List all kinds of data with their retention rules."""
    rules = {rule.kind: rule for rule in await list_rules(engine.database, caller.tenant_id)}
    return json_response(
        RetentionRuleListResponse(rules=[retention_rule_response(kind, rules.get(kind)) for kind in RetentionKind])
    )


@router.get(
    "/{kind}/preview",
    scope=Scope.READ,
    role=Role.ADMIN,
    responses=describe_responses({HTTPStatus.OK: RetentionPreviewResponse}, HTTPStatus.NOT_FOUND, *BODY_PROBLEMS),
)
async def preview(
    kind: str, engine: EngineDep, caller: CallerDep, query: Annotated[RetentionPreviewQuery, Query()]
) -> Response:
    """Count what a rule would delete now. Nothing is changed."""
    wanted = _kind(kind)
    retention = make_retention(engine.settings, engine.database, engine.clock)
    found = await retention.preview(caller.tenant_id, wanted, query.days)
    return json_response(retention_preview_response(wanted, query.days, found))


@router.put(
    "/{kind}",
    scope=Scope.MANAGE,
    role=Role.ADMIN,
    openapi_extra=describe_body(RetentionRuleRequest),
    responses=describe_responses({HTTPStatus.OK: RetentionRuleResponse}, HTTPStatus.NOT_FOUND, *BODY_PROBLEMS),
)
async def save(request: Request, kind: str, engine: EngineDep, caller: CallerDep) -> Response:
    """Switch a rule on or change it. Old data is deleted in the background, and cannot be restored."""
    wanted = parse(RetentionRuleRequest, await read_json(request))
    make_retention(engine.settings, engine.database, engine.clock).check_export(exports=wanted.exports)
    rule = await set_rule(
        engine.database,
        engine.clock,
        caller.tenant_id,
        _kind(kind),
        days=wanted.days,
        exports=wanted.exports,
        actor=actor_of(caller),
    )
    return json_response(retention_rule_response(rule.kind, rule))


@router.delete(
    "/{kind}",
    scope=Scope.MANAGE,
    role=Role.ADMIN,
    status_code=HTTPStatus.NO_CONTENT,
    responses=describe_responses({}, HTTPStatus.NOT_FOUND),
)
async def remove(kind: str, engine: EngineDep, caller: CallerDep) -> Response:
    """Switch a rule off."""
    await remove_rule(engine.database, engine.clock, caller.tenant_id, _kind(kind), actor=actor_of(caller))
    return Response(status_code=HTTPStatus.NO_CONTENT)


def _kind(text: str) -> RetentionKind:
    try:
        return RetentionKind(text)
    except ValueError:
        known = ", ".join(RetentionKind)
        raise NotFound(f"There is no kind of data {text[:40]}. Use one of {known}.") from None
