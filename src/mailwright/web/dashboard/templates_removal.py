"""Archive, delete and restore templates."""

from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.access.roles import Role
from mailwright.content.template_removal import TemplateInUse, TemplateLocked
from mailwright.domain.errors import NotPossibleNow
from mailwright.domain.translation import gettext
from mailwright.web.dashboard.shell import PageRoute, page, redirect
from mailwright.web.session import EditorDep
from mailwright.web.state import EngineDep

router = APIRouter(prefix="/templates", route_class=PageRoute, include_in_schema=False)


@router.post("/{template_id}/archive")
async def archive(request: Request, engine: EngineDep, visitor: EditorDep, template_id: str) -> Response:
    await engine.template_removal.archive(visitor.tenant_id, template_id, actor=visitor.actor)
    return redirect(
        request,
        "/templates",
        gettext("Archived {template_id}.", template_id=template_id),
        undo=f"/templates/{template_id}/restore",
    )


@router.post("/{template_id}/delete")
async def delete(request: Request, engine: EngineDep, visitor: EditorDep, template_id: str) -> Response:
    try:
        await engine.template_removal.delete(
            visitor.tenant_id, template_id, actor=visitor.actor, keeps_locked=not visitor.may(Role.ADMIN)
        )
    except TemplateLocked as error:
        return redirect(request, f"/templates/{template_id}", error.text, tone="bad")
    except TemplateInUse as error:
        values: dict[str, Any] = {"title": gettext("Template in use"), "text": error.text, "uses": error.uses}
        back = (f"/templates/{template_id}", template_id)
        return await page(request, visitor, "refused.html", status=HTTPStatus.CONFLICT, back=back, **values)
    return redirect(
        request,
        "/templates",
        gettext("Deleted {template_id}.", template_id=template_id),
        undo=f"/templates/{template_id}/restore",
    )


@router.post("/{template_id}/restore")
async def restore(request: Request, engine: EngineDep, visitor: EditorDep, template_id: str) -> Response:
    """Bring back an archived or deleted template."""
    try:
        await engine.template_removal.restore(visitor.tenant_id, template_id, actor=visitor.actor)
    except NotPossibleNow as error:
        return redirect(request, "/templates?show=deleted", error.text, tone="bad")
    return redirect(request, f"/templates/{template_id}", gettext("Template restored."))
