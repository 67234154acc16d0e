"""HTTP routes of plans and approvals. Only people approve: an API key can request an approval, but never give one."""

from http import HTTPStatus
from typing import Annotated

from fastapi import Query, Request
from starlette.responses import Response

from mailwright.access.api_keys import Caller
from mailwright.access.roles import Forbidden, Role, Scope
from mailwright.access.users import User
from mailwright.actions.approvals import (
    ApprovalRequest,
    ApprovalResponse,
    ApprovalRuleRequest,
    ApprovalsResponse,
    CampaignPlanResponse,
    RejectionRequest,
    SendApprovalResponse,
    approval_response,
    campaign_approval_response,
    plan_response,
    send_approval_response,
)
from mailwright.actions.campaigns import CampaignRefused
from mailwright.app.wiring import Engine
from mailwright.domain.errors import NotFound
from mailwright.outbox import tenants
from mailwright.sources.api.validation import parse_strict
from mailwright.sources.campaigns.records import Actor
from mailwright.sources.campaigns.variants import CampaignNotStartable
from mailwright.web.api.caller import CallerDep, actor_of
from mailwright.web.api.campaign_sender import RequireCampaignSender
from mailwright.web.api.openapi import BODY_PROBLEMS, describe_body, describe_responses
from mailwright.web.api.routes import Routes
from mailwright.web.bodies import json_response, read_json
from mailwright.web.state import EngineDep

router = Routes(prefix="/v1", tags=["campaigns"], dependencies=[RequireCampaignSender])

LiftReason = Annotated[
    str, Query(description="Why a rejection is lifted. After a rejection, only an administrator can, with a reason.")
]

_PLAN = describe_responses({HTTPStatus.OK: CampaignPlanResponse}, HTTPStatus.NOT_FOUND)
_DECISION = describe_responses(
    {HTTPStatus.OK: ApprovalResponse}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, *BODY_PROBLEMS
)


_SEND = describe_responses(
    {HTTPStatus.OK: SendApprovalResponse}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, *BODY_PROBLEMS
)


@router.get("/campaigns/{campaignId}/plan", scope=Scope.READ, responses=_PLAN)
async def show_plan(campaignId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Show what the campaign would send now, to whom and when, and whether a second person must approve it."""
    report = await engine.campaign_approvals.report(campaignId, tenant_id=caller.tenant_id)
    return json_response(plan_response(report))


@router.post(
    "/campaigns/{campaignId}/plan",
    scope=Scope.PROPOSE,
    responses=describe_responses({HTTPStatus.OK: CampaignPlanResponse}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
)
async def request_approval(campaignId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Request that a second person approves the campaign as it is now. A later change makes the request void.

    The scope `propose` can request it for drafts that a key of the same name created and nobody else has changed.
    """
    actor, must_be_own = Actor(actor_of(caller), caller.tenant_id), not caller.allows(Scope.MANAGE)
    try:
        report = await engine.campaign_approvals.request(actor, campaignId, must_be_own=must_be_own)
    except CampaignNotStartable as error:
        raise CampaignRefused(error) from error
    return json_response(plan_response(report))


@router.delete(
    "/campaigns/{campaignId}/plan",
    scope=Scope.MANAGE,
    responses=describe_responses({HTTPStatus.OK: ApprovalResponse}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
)
async def withdraw_request(
    campaignId: str,  # noqa: N803
    engine: EngineDep,
    caller: CallerDep,
    reason: LiftReason = "",
) -> Response:
    """Withdraw the request for an approval, or an approval, as a signed-in user. Then the tenant's rule applies."""
    await engine.campaigns.find(campaignId, tenant_id=caller.tenant_id)
    user = await _person(engine, caller)
    withdrawn = await engine.campaign_approvals.withdraw(
        Actor(actor_of(caller), caller.tenant_id),
        campaignId,
        reason=reason,
        may_lift=user.role.allows(Role.ADMIN),
    )
    return json_response(approval_response(withdrawn))


@router.post(
    "/campaigns/{campaignId}/approve",
    scope=Scope.MANAGE,
    openapi_extra=describe_body(ApprovalRequest),
    responses=_DECISION,
)
async def approve(request: Request, campaignId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Approve the plan with this digest, as a signed-in user who neither requested it nor last changed it."""
    wanted = parse_strict(ApprovalRequest, await read_json(request))
    await engine.campaigns.find(campaignId, tenant_id=caller.tenant_id)
    user = await _person(engine, caller)
    decided = await engine.campaign_approvals.approve(user, caller.tenant_id, campaignId, wanted.digest, wanted.comment)
    return json_response(approval_response(decided))


@router.post(
    "/campaigns/{campaignId}/reject",
    scope=Scope.MANAGE,
    openapi_extra=describe_body(RejectionRequest),
    responses=_DECISION,
)
async def reject(request: Request, campaignId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Reject the plan with this digest, as a signed-in user.

    The comment explains to the requester what has to change.
    """
    wanted = parse_strict(RejectionRequest, await read_json(request))
    await engine.campaigns.find(campaignId, tenant_id=caller.tenant_id)
    user = await _person(engine, caller)
    decided = await engine.campaign_approvals.reject(user, caller.tenant_id, campaignId, wanted.digest, wanted.comment)
    return json_response(approval_response(decided))


@router.get("/approvals", scope=Scope.READ, responses=describe_responses({HTTPStatus.OK: ApprovalsResponse}))
async def list_approvals(engine: EngineDep, caller: CallerDep) -> Response:
    """Show which campaigns need an approval, and list those that wait for one."""
    return json_response(await _approvals(engine, caller))


@router.put(
    "/approvals",
    scope=Scope.MANAGE,
    role=Role.ADMIN,
    openapi_extra=describe_body(ApprovalRuleRequest),
    responses=describe_responses({HTTPStatus.OK: ApprovalsResponse}, *BODY_PROBLEMS),
)
async def change_rule(request: Request, engine: EngineDep, caller: CallerDep) -> Response:
    """Change which campaigns need an approval, as a signed-in administrator. Campaigns that wait keep waiting."""
    wanted = parse_strict(ApprovalRuleRequest, await read_json(request))
    await _person(engine, caller)
    await tenants.change(
        engine.database, caller.tenant, actor=actor_of(caller), clock=engine.clock, approval_over=wanted.over
    )
    return json_response(await _approvals(engine, caller))


@router.get(
    "/approvals/{approvalId}",
    scope=Scope.READ,
    responses=describe_responses({HTTPStatus.OK: SendApprovalResponse}, HTTPStatus.NOT_FOUND),
)
async def show_send(approvalId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Show the request to approve an article, a mailout or a sequence, with what it covers."""
    return json_response(
        send_approval_response(await engine.send_approvals.find(caller.tenant_id, _approval_id(approvalId)))
    )


@router.delete(
    "/approvals/{approvalId}",
    scope=Scope.MANAGE,
    responses=describe_responses({HTTPStatus.OK: SendApprovalResponse}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
)
async def withdraw_send(
    approvalId: str,  # noqa: N803
    engine: EngineDep,
    caller: CallerDep,
    reason: LiftReason = "",
) -> Response:
    """Withdraw the request to approve an article, a mailout or a sequence, as a signed-in user."""
    approval_id = _approval_id(approvalId)
    await engine.send_approvals.find(caller.tenant_id, approval_id)
    user = await _person(engine, caller)
    withdrawn = await engine.send_approvals.withdraw(
        user.login, caller.tenant_id, approval_id, reason=reason, may_lift=user.role.allows(Role.ADMIN)
    )
    return json_response(send_approval_response(withdrawn))


@router.post(
    "/approvals/{approvalId}/approve", scope=Scope.MANAGE, openapi_extra=describe_body(ApprovalRequest), responses=_SEND
)
async def approve_send(request: Request, approvalId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Approve the content with this digest, as a signed-in user who did not request it."""
    wanted = parse_strict(ApprovalRequest, await read_json(request))
    return await _decide(engine, caller, approvalId, wanted, approves=True)


@router.post(
    "/approvals/{approvalId}/reject", scope=Scope.MANAGE, openapi_extra=describe_body(RejectionRequest), responses=_SEND
)
async def reject_send(request: Request, approvalId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Reject the content with this digest, as a signed-in user. The comment says what has to change."""
    wanted = parse_strict(RejectionRequest, await read_json(request))
    return await _decide(engine, caller, approvalId, wanted, approves=False)


async def _approvals(engine: Engine, caller: Caller) -> ApprovalsResponse:
    over = (await tenants.find(engine.database, caller.tenant)).approval_over
    campaigns, sends, tenant_id = engine.campaign_approvals, engine.send_approvals, caller.tenant_id
    return ApprovalsResponse(
        over=over,
        waiting=[campaign_approval_response(each) for each in await campaigns.list_waiting(tenant_id)],
        rejected=[campaign_approval_response(each) for each in await campaigns.list_rejected(tenant_id)],
        sends=[send_approval_response(each) for each in await sends.list_waiting(tenant_id)],
        rejected_sends=[send_approval_response(each) for each in await sends.list_rejected(tenant_id)],
    )


async def _decide(
    engine: Engine, caller: Caller, approval: str, wanted: ApprovalRequest | RejectionRequest, *, approves: bool
) -> Response:
    approval_id = _approval_id(approval)
    await engine.send_approvals.find(caller.tenant_id, approval_id)
    user = await _person(engine, caller)
    decided = await engine.send_approvals.decide(
        user, caller.tenant_id, approval_id, wanted.digest, approves=approves, comment=wanted.comment
    )
    return json_response(send_approval_response(decided))


def _approval_id(text: str) -> int:
    if not text.isdecimal() or not text.isascii() or len(text) > 18:
        raise NotFound("There is no such approval.")
    return int(text)


async def _person(engine: Engine, caller: Caller) -> User:
    if caller.actor is None:
        raise Forbidden("Only a signed-in user can do this. Sign in to the dashboard.")
    return await engine.users.find(caller.actor)
