"""Withdraw scheduled campaigns, and archive, delete and restore campaigns."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.domain.errors import InvalidInput, NotPossibleNow
from mailwright.domain.translation import gettext
from mailwright.sources.campaigns.records import Actor
from mailwright.web.dashboard.shell import PageRoute, redirect
from mailwright.web.session import EditorDep
from mailwright.web.state import EngineDep

router = APIRouter(prefix="/campaigns", route_class=PageRoute, include_in_schema=False)


@router.post("/{campaign_id}/withdraw")
async def withdraw(request: Request, engine: EngineDep, visitor: EditorDep, campaign_id: str) -> Response:
    """Turn a campaign that has not begun to send back into a draft."""
    to = f"/campaigns/{campaign_id}"
    try:
        await engine.campaign_removal.withdraw(Actor(visitor.actor, visitor.tenant_id), campaign_id)
    except NotPossibleNow as error:
        return redirect(request, to, error.text, tone="bad")
    return redirect(request, to, gettext("Withdrawn. The campaign is a draft again, and nothing is sent."))


@router.post("/{campaign_id}/archive")
async def archive(request: Request, engine: EngineDep, visitor: EditorDep, campaign_id: str) -> Response:
    try:
        archived = await engine.campaign_removal.archive(Actor(visitor.actor, visitor.tenant_id), campaign_id)
    except NotPossibleNow as error:
        return redirect(request, f"/campaigns/{campaign_id}", error.text, tone="bad")
    return redirect(
        request, "/campaigns", gettext("Archived {name}.", name=archived.name), undo=f"/campaigns/{campaign_id}/restore"
    )


@router.post("/{campaign_id}/delete")
async def delete(request: Request, engine: EngineDep, visitor: EditorDep, campaign_id: str) -> Response:
    """Delete a campaign that never started."""
    try:
        deleted = await engine.campaign_removal.delete(Actor(visitor.actor, visitor.tenant_id), campaign_id)
    except NotPossibleNow as error:
        return redirect(request, f"/campaigns/{campaign_id}", error.text, tone="bad")
    return redirect(
        request, "/campaigns", gettext("Deleted {name}.", name=deleted.name), undo=f"/campaigns/{campaign_id}/restore"
    )


@router.post("/{campaign_id}/restore")
async def restore(request: Request, engine: EngineDep, visitor: EditorDep, campaign_id: str) -> Response:
    """Bring back an archived or deleted campaign."""
    try:
        await engine.campaign_removal.restore(Actor(visitor.actor, visitor.tenant_id), campaign_id)
    except (InvalidInput, NotPossibleNow) as error:
        return redirect(request, "/campaigns?show=deleted", error.text, tone="bad")
    return redirect(request, f"/campaigns/{campaign_id}", gettext("Campaign restored."))
