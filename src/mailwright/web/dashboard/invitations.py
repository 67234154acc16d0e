"""Invite people to the dashboard, by email or with a link that the administrator passes on."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.access.roles import parse_role
from mailwright.domain.errors import InvalidInput
from mailwright.domain.translation import gettext
from mailwright.web.dashboard.forms import read_fields
from mailwright.web.dashboard.settings import tenant_for, users_page
from mailwright.web.dashboard.shell import PageRoute, redirect
from mailwright.web.session import AdminDep
from mailwright.web.state import EngineDep

router = APIRouter(prefix="/settings/invitations", route_class=PageRoute, include_in_schema=False)


@router.post("")
async def invite(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    """Send an invitation, or show its link once, in the response itself."""
    form = await read_fields(request)
    sends_email = form["by"] != "link"
    try:
        tenant_id = await tenant_for(engine, visitor, form["home"])
        role = parse_role(form["role"])
        link = await engine.account_links.invite(
            form["email"], role, tenant_id=tenant_id, actor=visitor.actor, sends_email=sends_email
        )
    except InvalidInput as error:
        return await users_page(request, engine, visitor, form, error)
    if not sends_email:
        return await users_page(request, engine, visitor, link=link)
    return redirect(request, "/settings/users", gettext("Invitation to {form} is being sent.", form=form["email"]))


@router.post("/{invitation_id}/revoke")
async def revoke(request: Request, engine: EngineDep, visitor: AdminDep, invitation_id: int) -> Response:
    home = visitor.user.tenant_id
    email = await engine.account_links.revoke_invitation(invitation_id, tenant_id=home, actor=visitor.actor)
    return redirect(request, "/settings/users", gettext("Invitation to {email} revoked.", email=email))
