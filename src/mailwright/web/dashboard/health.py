"""The health of the installation, and the decision about emails that may have been sent before a restore."""

from typing import Literal

from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.access.roles import Forbidden
from mailwright.app.sending import decide_quarantine
from mailwright.checks.health import check_health
from mailwright.domain.errors import NotPossibleNow
from mailwright.domain.states import Resolution
from mailwright.domain.translation import gettext
from mailwright.outbox.quarantine import QuarantineFilter, find_quarantine
from mailwright.web.dashboard.forms import Errors, read_fields
from mailwright.web.dashboard.installation_values import require_installation
from mailwright.web.dashboard.messages import SOURCES
from mailwright.web.dashboard.settings import TABS
from mailwright.web.dashboard.shell import PageRoute, page, redirect
from mailwright.web.session import AdminDep
from mailwright.web.state import EngineDep

HEALTH = "/settings/health"

router = APIRouter(prefix=HEALTH, route_class=PageRoute, include_in_schema=False)


@router.get("")
async def show(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    """Show the state of the installation, checked now."""
    if visitor.user.tenant_id is not None:
        raise Forbidden(gettext("Only administrators of the installation can see its health."))
    findings = await check_health(engine.settings, engine.database, engine.clock)
    # Finding the messages of a restore reads large tables, so it is done only if there are some.
    is_restored = any(each.name in ("sending", "quarantine") for each in findings)
    quarantine = await find_quarantine(engine.database) if is_restored else None
    return await page(
        request,
        visitor,
        "settings/health.html",
        findings=findings,
        quarantine=quarantine,
        sources=SOURCES,
        tabs=TABS,
        errors=Errors(),
    )


@router.post("/quarantine/{decision}")
async def decide(request: Request, engine: EngineDep, visitor: AdminDep, decision: Literal["send", "drop"]) -> Response:
    """Send or drop the emails that may have been sent before a restore: all of them, or those of one row."""
    require_installation(visitor)
    form = await read_fields(request)
    only = QuarantineFilter(form.get("tenant"), form.get("source"), form.get("campaign"))
    resolution = Resolution.RESEND if decision == "send" else Resolution.CLOSE
    try:
        (await find_quarantine(engine.database)).count_undecided(only)
        count, stopped = await decide_quarantine(
            engine.database, engine.clock, resolution, was_held=bool(form["held"]), actor=visitor.actor, only=only
        )
    except NotPossibleNow as error:
        return redirect(request, HEALTH, error.text, tone="bad")
    paused = len(stopped.campaigns)
    text = (
        gettext("Emails that will be sent: {count}. Paused campaigns: {paused}.", count=count, paused=paused)
        if decision == "send"
        else gettext("Emails dropped: {count}. Paused campaigns: {paused}.", count=count, paused=paused)
    )
    return redirect(request, HEALTH, text)
