"""Sender domains of a tenant: DNS records, verification and DKIM keys."""

from http import HTTPStatus
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.actions.domains import DomainRequest
from mailwright.app.wiring import Engine
from mailwright.domain import address
from mailwright.domain.clock import DAY
from mailwright.domain.dkim_rotation import KEPT_FOR, KeyState, keys_in
from mailwright.domain.errors import MailwrightError
from mailwright.domain.translation import gettext
from mailwright.outbox.dmarc_reports import DEFAULT_DAYS, list_totals
from mailwright.outbox.sender_domains import DomainTaken, SenderDomain
from mailwright.sources.api.validation import parse
from mailwright.web.dashboard.forms import Errors, Fields, field_errors, read_fields
from mailwright.web.dashboard.installation_values import require_installation
from mailwright.web.dashboard.settings import TABS
from mailwright.web.dashboard.shell import PageRoute, page, redirect
from mailwright.web.session import AdminDep, Visitor
from mailwright.web.state import EngineDep

HOME: Final = "/settings/domains"

router = APIRouter(prefix=HOME, route_class=PageRoute, include_in_schema=False)


@router.get("")
async def show_all(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    return await _list_page(request, engine, visitor, Fields())


@router.post("")
async def add(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    form = await read_fields(request)
    try:
        wanted = parse(DomainRequest, {"name": form["name"], "sender": form["sender"] or None})
        made = await engine.sender_domains.add(
            visitor.tenant_id, wanted.name, sender=wanted.sender, actor=visitor.actor
        )
    except MailwrightError as error:
        return await _list_page(request, engine, visitor, form, error)
    return redirect(
        request, f"{HOME}/{made.domain}", gettext("Domain added. Publish its DNS records, then check them.")
    )


@router.post("/unrestrict")
async def unrestrict(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    require_installation(visitor)
    await engine.sender_domains.unrestrict(visitor.tenant, actor=visitor.actor)
    text = gettext("{tenant} can send from every domain that belongs to no other tenant.", tenant=visitor.tenant)
    return redirect(request, HOME, text)


@router.get("/{name}")
async def show(request: Request, engine: EngineDep, visitor: AdminDep, name: str) -> Response:
    found = await engine.sender_domains.find(visitor.tenant_id, name)
    return await _page(
        request,
        visitor,
        "domain",
        domain=found,
        records=await engine.sender_domains.records(found),
        conflict=await engine.sender_domains.find_conflict(found),
        notes=await engine.sender_domains.notes(found),
        retired=keys_in(found.keys, KeyState.RETIRED),
        kept_days=KEPT_FOR // 86_400_000,
    )


@router.post("/{name}/check")
async def check(request: Request, engine: EngineDep, visitor: AdminDep, name: str) -> Response:
    try:
        found = await engine.sender_domains.check(visitor.tenant_id, name, actor=visitor.actor)
    except DomainTaken as error:
        return redirect(request, f"{HOME}/{name}", error.text, tone="bad")
    is_good = found.is_verified and not found.is_rotating and not found.lacks_signing_records
    return redirect(request, f"{HOME}/{found.domain}", _result(found), tone="good" if is_good else "bad")


@router.post("/{name}/rotate")
async def rotate(request: Request, engine: EngineDep, visitor: AdminDep, name: str) -> Response:
    force = bool((await read_fields(request))["force"])
    found = await engine.sender_domains.rotate(visitor.tenant_id, name, force=force, actor=visitor.actor)
    text = (
        gettext("The new keys sign from now on.")
        if force
        else gettext("Publish the new records. The old keys sign until then.")
    )
    return redirect(request, f"{HOME}/{found.domain}", text)


@router.post("/{name}/remove")
async def remove(request: Request, engine: EngineDep, visitor: AdminDep, name: str) -> Response:
    await engine.sender_domains.delete(visitor.tenant_id, name, actor=visitor.actor)
    return redirect(request, HOME, gettext("Sender domain deleted."))


def _result(domain: SenderDomain) -> str:
    shown = address.readable(domain.domain)
    if not domain.is_verified:
        return gettext("{domain} is not verified yet: {missing}.", domain=shown, missing=domain.missing)
    if domain.is_rotating:
        return gettext("The new records are not visible yet. The old keys sign until then.")
    if domain.lacks_signing_records:
        return gettext(
            "{domain} is verified, but its DKIM records are missing or wrong, so signatures fail.", domain=shown
        )
    return gettext("{domain} is verified.", domain=shown)


async def _list_page(
    request: Request, engine: Engine, visitor: Visitor, form: Fields, error: MailwrightError | None = None
) -> Response:
    found = await engine.sender_domains.list_all(visitor.tenant_id)
    reported = await list_totals(engine.database, visitor.tenant_id, engine.clock.now() - DEFAULT_DAYS * DAY)
    policy = await engine.directory.current()
    return await _page(
        request,
        visitor,
        "domains",
        error,
        domains=found,
        form=form,
        reported=reported,
        sends_nothing=policy.has_none_left(visitor.tenant_id),
        may_unrestrict=visitor.user.tenant_id is None,
    )


async def _page(
    request: Request, visitor: Visitor, name: str, error: MailwrightError | None = None, **values: Any
) -> Response:
    status = HTTPStatus.UNPROCESSABLE_ENTITY if error is not None else HTTPStatus.OK
    errors = field_errors(error) if error is not None else Errors()
    return await page(
        request, visitor, f"sender_domains/{name}.html", status=status, tabs=TABS, errors=errors, **values
    )
