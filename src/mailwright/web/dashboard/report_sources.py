"""Settings of report sources: systems that report what happened to messages, each with its own secret."""

from http import HTTPStatus
from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.app.wiring import Engine
from mailwright.domain.errors import InvalidInput, MailwrightError, NotFound, NotPossibleNow
from mailwright.domain.translation import gettext
from mailwright.events.report_sources import PROVIDERS_WITH_IDS
from mailwright.outbox import tenants
from mailwright.web.dashboard.forms import Errors, Fields, field_errors, read_fields
from mailwright.web.dashboard.installation_values import require_installation
from mailwright.web.dashboard.settings import TABS
from mailwright.web.dashboard.shell import PageRoute, page, redirect
from mailwright.web.session import AdminDep, Visitor
from mailwright.web.state import EngineDep

HOME: Final = "/settings/report-sources"

router = APIRouter(prefix=HOME, route_class=PageRoute, include_in_schema=False)


@router.get("")
async def show_all(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    require_installation(visitor)
    return await _page(request, engine, visitor)


@router.post("")
async def create(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    """Create a source and show its secret once, in the response itself."""
    require_installation(visitor)
    form = await read_fields(request)
    try:
        owner = await tenants.find(engine.database, form["tenant"]) if form["tenant"] else None
        made, secret = await engine.report_sources.create(
            form["name"],
            tenant_id=None if owner is None else owner.id,
            provider=form["provider"] or None,
            actor=visitor.actor,
        )
    except (InvalidInput, NotFound, NotPossibleNow) as error:
        return await _page(request, engine, visitor, form=form, error=error)
    return await _page(request, engine, visitor, made=made.name, secret=secret)


@router.post("/{name}/delete")
async def delete(request: Request, engine: EngineDep, visitor: AdminDep, name: str) -> Response:
    require_installation(visitor)
    await engine.report_sources.delete(name, actor=visitor.actor)
    return redirect(request, HOME, gettext("Report source deleted. Its requests are refused from now on."))


async def _page(
    request: Request,
    engine: Engine,
    visitor: Visitor,
    *,
    form: Fields | None = None,
    error: MailwrightError | None = None,
    made: str | None = None,
    secret: str | None = None,
) -> Response:
    named = [each.name for each in (await engine.providers.list_all()).configurations]
    owners = [each.name for each in await tenants.list_all(engine.database)]
    sources = await engine.report_sources.list_all()
    return await page(
        request,
        visitor,
        "settings/report_sources.html",
        status=HTTPStatus.OK if error is None else HTTPStatus.UNPROCESSABLE_ENTITY,
        tabs=TABS,
        errors=Errors() if error is None else field_errors(error),
        sources=[(each, f"{engine.public_url}/v1/reports/{each.name}") for each in sources],
        tenant_choices=[("", gettext("All tenants")), *((each, each) for each in owners)],
        provider_choices=[
            ("", gettext("All providers")),
            *((each, each) for each in (*named, *sorted(PROVIDERS_WITH_IDS))),
        ],
        form=form or Fields(),
        made=made,
        secret=secret,
    )
