"""The plan of a campaign, and the approval of a second person."""

from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from mailwright.access.roles import Role
from mailwright.actions.exclusions import EXCLUSION_TEXT
from mailwright.app.wiring import Engine
from mailwright.domain.approval import TOLERANCE_PERCENT, ApprovalStatus
from mailwright.domain.errors import InvalidInput, MailwrightError, NotFound, NotPossibleNow
from mailwright.domain.message import Source
from mailwright.domain.translation import gettext
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import describe_actor
from mailwright.sources.campaigns.approvals import SecondPersonRequired
from mailwright.sources.campaigns.records import Actor
from mailwright.sources.campaigns.variants import CampaignNotStartable
from mailwright.sources.send_approvals import KIND_TEXTS, SendKind
from mailwright.web.dashboard.campaigns import find_visible, load_row, review_values, tabs_of
from mailwright.web.dashboard.forms import Errors, field_errors, read_fields
from mailwright.web.dashboard.readiness import readiness_of
from mailwright.web.dashboard.shell import PageRoute, email_frame, page, redirect
from mailwright.web.session import EditorDep, ViewerDep, Visitor
from mailwright.web.state import EngineDep

router = APIRouter(route_class=PageRoute, include_in_schema=False)

ApprovalId = Annotated[int, Path(ge=1, le=2**63 - 1)]
_SOURCES: Final = {
    SendKind.ARTICLE: Source.ARTICLE,
    SendKind.MAILOUT: Source.MAILOUT,
    SendKind.SEQUENCE: Source.SEQUENCE,
    SendKind.ENROLMENT: Source.SEQUENCE,
}


@router.get("/approvals")
async def list_waiting(request: Request, engine: EngineDep, visitor: ViewerDep) -> Response:
    """List the campaigns that wait for an approval: first those that the visitor can decide about."""
    waiting = await engine.campaign_approvals.list_waiting(visitor.tenant_id)
    conflicts = await engine.campaign_approvals.find_conflicts(visitor.user, waiting)
    sends = await engine.send_approvals.list_waiting(visitor.tenant_id)
    blocked = [(each, await engine.send_approvals.find_conflict(visitor.user, each)) for each in sends]
    values: dict[str, Any] = {
        "own": [(each, None) for each in waiting if conflicts[each.campaign_id] is None],
        "others": [(each, conflicts[each.campaign_id]) for each in waiting if conflicts[each.campaign_id]],
        "own_sends": [(each, None) for each, conflict in blocked if conflict is None],
        "other_sends": [(each, conflict) for each, conflict in blocked if conflict is not None],
        "rejected": await engine.campaign_approvals.list_rejected(visitor.tenant_id),
        "rejected_sends": await engine.send_approvals.list_rejected(visitor.tenant_id),
        "over": (await tenants.find(engine.database, visitor.tenant)).approval_over,
        "describe_actor": describe_actor,
        "kinds": KIND_TEXTS,
    }
    return await page(request, visitor, "approvals.html", **values)


@router.get("/approvals/{approval_id}")
async def show_send(request: Request, engine: EngineDep, visitor: ViewerDep, approval_id: ApprovalId) -> Response:
    """Show what an article, a mailout or a sequence sends, for an approver."""
    return await _send_page(request, engine, visitor, approval_id)


@router.get("/approvals/{approval_id}/email")
async def show_send_email(engine: EngineDep, visitor: ViewerDep, approval_id: ApprovalId) -> Response:
    """Serve the email of an article or a mailout as the approval covers it, for the frame of the page."""
    html = (await engine.send_approvals.find(visitor.tenant_id, approval_id)).content.get("html")
    if not isinstance(html, str):
        raise NotFound
    return email_frame(html)


@router.post("/approvals/{approval_id}")
async def decide_send(request: Request, engine: EngineDep, visitor: EditorDep, approval_id: ApprovalId) -> Response:
    """Approve or reject the content that the page showed."""
    form = await read_fields(request)
    approves, to = _approves(form["decision"]), f"/approvals/{approval_id}"
    try:
        await engine.send_approvals.decide(
            visitor.user, visitor.tenant_id, approval_id, form["digest"], approves=approves, comment=form["comment"]
        )
    except InvalidInput as error:
        return await _send_page(request, engine, visitor, approval_id, error=error, comment=form["comment"])
    except (NotPossibleNow, SecondPersonRequired) as error:
        return redirect(request, to, error.text, tone="bad")
    return redirect(request, to, gettext("Approved. It can be sent now.") if approves else gettext("Rejected."))


@router.post("/approvals/{approval_id}/withdraw")
async def withdraw_send(request: Request, engine: EngineDep, visitor: EditorDep, approval_id: ApprovalId) -> Response:
    """Withdraw the request. An administrator can also lift a rejection, with a reason."""
    to, reason = f"/approvals/{approval_id}", (await read_fields(request))["reason"]
    may_lift = visitor.user.role.allows(Role.ADMIN)
    try:
        await engine.send_approvals.withdraw(
            visitor.actor, visitor.tenant_id, approval_id, reason=reason, may_lift=may_lift
        )
    except (NotPossibleNow, InvalidInput) as error:
        return redirect(request, to, error.text, tone="bad")
    return redirect(request, to, gettext("Rejection lifted.") if reason else gettext("Request withdrawn."))


@router.get("/campaigns/{campaign_id}/approval")
async def show(request: Request, engine: EngineDep, visitor: ViewerDep, campaign_id: str) -> Response:
    """Show the plan with everything that an approver needs."""
    return await _page(request, engine, visitor, campaign_id)


@router.post("/campaigns/{campaign_id}/approval/request")
async def request_approval(request: Request, engine: EngineDep, visitor: EditorDep, campaign_id: str) -> Response:
    to = f"/campaigns/{campaign_id}/approval"
    try:
        await engine.campaign_approvals.request(Actor(visitor.actor, visitor.tenant_id), campaign_id)
    except (NotPossibleNow, CampaignNotStartable) as error:
        return redirect(request, to, error.text, tone="bad")
    return redirect(request, to, gettext("Approval requested. People who can approve it get an email."))


@router.post("/campaigns/{campaign_id}/approval/withdraw")
async def withdraw(request: Request, engine: EngineDep, visitor: EditorDep, campaign_id: str) -> Response:
    """Withdraw the request. An administrator can also lift a rejection, with a reason."""
    to, reason = f"/campaigns/{campaign_id}/approval", (await read_fields(request))["reason"]
    may_lift = visitor.user.role.allows(Role.ADMIN)
    try:
        actor = Actor(visitor.actor, visitor.tenant_id)
        await engine.campaign_approvals.withdraw(actor, campaign_id, reason=reason, may_lift=may_lift)
    except (NotPossibleNow, InvalidInput) as error:
        return redirect(request, to, error.text, tone="bad")
    return redirect(request, to, gettext("Rejection lifted.") if reason else gettext("Request withdrawn."))


@router.post("/campaigns/{campaign_id}/approval")
async def decide(request: Request, engine: EngineDep, visitor: EditorDep, campaign_id: str) -> Response:
    """Approve or reject the plan that the page showed."""
    form = await read_fields(request)
    approves = _approves(form["decision"])
    decides = engine.campaign_approvals.approve if approves else engine.campaign_approvals.reject
    try:
        await decides(visitor.user, visitor.tenant_id, campaign_id, form["digest"], form["comment"])
    except InvalidInput as error:
        return await _page(request, engine, visitor, campaign_id, error=error, comment=form["comment"])
    except (NotPossibleNow, SecondPersonRequired) as error:
        return redirect(request, f"/campaigns/{campaign_id}/approval", error.text, tone="bad")
    words = gettext("Campaign approved. It can start now.") if approves else gettext("Campaign rejected.")
    return redirect(request, f"/campaigns/{campaign_id}/approval", words)


def _approves(decision: str) -> bool:
    if decision not in ("approve", "reject"):
        raise InvalidInput(gettext("choose whether to approve or to reject"), field="decision")
    return decision == "approve"


async def _send_page(
    request: Request,
    engine: Engine,
    visitor: Visitor,
    approval_id: int,
    *,
    error: MailwrightError | None = None,
    comment: str = "",
) -> Response:
    approval = await engine.send_approvals.find(visitor.tenant_id, approval_id)
    values: dict[str, Any] = {
        "approval": approval,
        "readiness": await readiness_of(engine, visitor, source=_SOURCES[approval.kind]),
        "is_waiting": approval.status is ApprovalStatus.WAITING,
        "rejection": await engine.send_approvals.find_rejection(approval),
        "conflict": await engine.send_approvals.find_conflict(visitor.user, approval),
        "tolerance": TOLERANCE_PERCENT,
        "describe_actor": describe_actor,
        "errors": field_errors(error) if error is not None else Errors(),
        "comment": comment,
    }
    status = HTTPStatus.UNPROCESSABLE_ENTITY if error is not None else HTTPStatus.OK
    return await page(request, visitor, "approval.html", status=status, **values)


async def _page(
    request: Request,
    engine: Engine,
    visitor: Visitor,
    campaign_id: str,
    *,
    error: MailwrightError | None = None,
    comment: str = "",
) -> Response:
    line = await load_row(engine, await find_visible(engine, visitor, campaign_id))
    report = await engine.campaign_approvals.report(campaign_id, tenant_id=visitor.tenant_id)
    is_waiting = report.approval is not None and report.approval.status is ApprovalStatus.WAITING
    conflict = await engine.campaign_approvals.find_conflict(visitor.user, report) if is_waiting else None
    values: dict[str, Any] = {
        "line": line,
        "readiness": await readiness_of(engine, visitor, line.campaign),
        "tabs": tabs_of(line),
        "report": report,
        "is_waiting": is_waiting,
        "conflict": conflict,
        "tolerance": TOLERANCE_PERCENT,
        "exclusions": EXCLUSION_TEXT,
        "describe_actor": describe_actor,
        "zone_name": str(visitor.zone),
        "errors": field_errors(error) if error is not None else Errors(),
        "comment": comment,
        **await review_values(request, engine, visitor, line.campaign),
    }
    status = HTTPStatus.UNPROCESSABLE_ENTITY if error is not None else HTTPStatus.OK
    return await page(request, visitor, "campaigns/approval.html", status=status, **values)
