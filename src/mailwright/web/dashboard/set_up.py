"""The set-up of a new installation in the browser: each step can be skipped, and continued later."""

from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from mailwright.access.api_keys import Caller
from mailwright.access.roles import Scope, parse_role
from mailwright.app.destinations import destinations_of
from mailwright.app.setup import (
    SetupProgress,
    SetupStep,
    StepState,
    begin_brand,
    dismiss_checklist,
    effective_progress,
    has_sender,
    load_progress,
    record_step,
)
from mailwright.app.setup_email import compose_test_email, record_test
from mailwright.app.stored_settings import load_effective
from mailwright.app.wiring import Engine
from mailwright.domain.errors import ConfigurationInvalid, InvalidInput, MailwrightError
from mailwright.domain.sending_readiness import Destination
from mailwright.domain.states import Status
from mailwright.domain.translation import gettext, lazy_gettext
from mailwright.outbox import message_records
from mailwright.sources.api.messages import RequestContext
from mailwright.web.dashboard.forms import Errors, Fields, read_fields
from mailwright.web.dashboard.installation_settings import SECRET_FIELDS, store_dkim_key
from mailwright.web.dashboard.installation_values import installation_values, require_installation
from mailwright.web.dashboard.readiness import readiness_of
from mailwright.web.dashboard.settings import ROLES, tenant_choices, tenant_for
from mailwright.web.dashboard.shell import PageRoute, fragment, page, redirect
from mailwright.web.dashboard.stored_forms import provider_changes, save_changes, sender_changes, stored_errors
from mailwright.web.request_ids import request_id_of
from mailwright.web.session import AdminDep, Visitor
from mailwright.web.state import EngineDep

router = APIRouter(prefix="/set-up", route_class=PageRoute, include_in_schema=False)

STEPS: Final = (
    (SetupStep.SENDER, lazy_gettext("Sender")),
    (SetupStep.PROVIDER, lazy_gettext("Provider")),
    (SetupStep.DOMAIN, lazy_gettext("DNS records")),
    (SetupStep.KEY, lazy_gettext("API key")),
    (SetupStep.TEST, lazy_gettext("Test email")),
    (SetupStep.TEAM, lazy_gettext("Colleagues")),
)
# A message with one of these statuses changes only if a user acts.
_FINAL: Final = (Status.SENT, Status.FAILED, Status.CANCELLED, Status.IN_DOUBT, Status.CLOSED_UNKNOWN)


@router.get("/continue")
async def continue_setup(engine: EngineDep, visitor: AdminDep) -> Response:
    """Continue with the first step that is neither done nor skipped."""
    require_installation(visitor)
    step = (await _progress(engine)).next_step
    return RedirectResponse("/set-up/done" if step is None else f"/set-up/{step}", HTTPStatus.SEE_OTHER)


@router.get("/done")
async def show_done(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    require_installation(visitor)
    progress = await _progress(engine)
    found = await readiness_of(engine, visitor, counts_consent=True)
    return await page(request, visitor, "set_up/done.html", step=None, progress=progress, steps=STEPS, readiness=found)


@router.post("/dismiss")
async def dismiss(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    require_installation(visitor)
    await dismiss_checklist(engine.database)
    return redirect(request, "/", gettext("Checklist closed. You can open the set-up under Settings."))


@router.post("/sender")
async def save_sender(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    require_installation(visitor)
    form = await read_fields(request)
    try:
        await save_changes(engine, visitor, sender_changes(form))
    except (InvalidInput, ConfigurationInvalid) as error:
        return await _step_page(request, engine, visitor, SetupStep.SENDER, form, error)
    used = (await load_effective(engine.settings, engine.database)).settings
    await begin_brand(engine.brands, visitor.tenant_id, used.sender if has_sender(used) else None, actor=visitor.actor)
    return await _complete(request, engine, SetupStep.SENDER)


@router.post("/provider")
async def save_provider(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    require_installation(visitor)
    form = await read_fields(request, verbatim=SECRET_FIELDS)
    try:
        effective = await load_effective(engine.settings, engine.database)
        await save_changes(engine, visitor, provider_changes(form, effective.settings, effective.fixed))
    except (InvalidInput, ConfigurationInvalid) as error:
        return await _step_page(request, engine, visitor, SetupStep.PROVIDER, form, error)
    return await _complete(request, engine, SetupStep.PROVIDER)


@router.post("/domain")
async def save_domain(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    """Continue. The live check records whether the DNS records are correct."""
    require_installation(visitor)
    await record_step(engine.database, SetupStep.DOMAIN, StepState.SKIPPED)
    return redirect(request, f"/set-up/{SetupStep.KEY}")


@router.post("/domain/key")
async def create_dkim_key(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    require_installation(visitor)
    await store_dkim_key(engine, visitor)
    return redirect(
        request, f"/set-up/{SetupStep.DOMAIN}", gettext("DKIM key created. Publish its DNS record before you send.")
    )


@router.post("/key")
async def create_key(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    """Create an API key and show it once, in the response itself."""
    require_installation(visitor)
    form = await read_fields(request)
    try:
        key = await engine.keys.create(
            visitor.tenant_id, form["name"], frozenset([Scope.SEND]), owner=visitor.actor, actor=visitor.actor
        )
    except InvalidInput as error:
        return await _step_page(request, engine, visitor, SetupStep.KEY, form, error)
    await record_step(engine.database, SetupStep.KEY, StepState.DONE)
    return await _step_page(request, engine, visitor, SetupStep.KEY, made=key)


@router.post("/test")
async def send_test(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    require_installation(visitor)
    form = await read_fields(request)
    context = RequestContext(Caller(visitor.tenant_id, visitor.tenant, actor=visitor.actor), request_id_of(request))
    try:
        accepted = await engine.api_messages.send(context, compose_test_email(form["to"], engine.public_url))
    except InvalidInput as error:
        return await _step_page(request, engine, visitor, SetupStep.TEST, form, error)
    return redirect(request, f"/set-up/{SetupStep.TEST}?message={accepted.outbox_id}")


@router.get("/test/status")
async def show_test_status(request: Request, engine: EngineDep, visitor: AdminDep, message: str) -> Response:
    """Show the status of the test email. The page asks again until the status is final."""
    require_installation(visitor)
    found = (await message_records.find(engine.database, message, tenant_id=visitor.tenant_id)).summary
    is_final = found.status in _FINAL
    await record_test(engine.database, found)
    destination = destinations_of(engine.settings, engine.named).get(found.provider or "", Destination.RECIPIENTS)
    values = {"message": found, "is_final": is_final, "destination": destination}
    values |= await installation_values(engine, visitor)
    return fragment(request, visitor, "set_up/test_status.html", **values)


@router.post("/team")
async def add_colleague(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    """Invite a colleague by email, and show the link once, in the response itself."""
    require_installation(visitor)
    form = await read_fields(request)
    try:
        home = await tenant_for(engine, visitor, form["home"])
        link = await engine.account_links.invite(
            form["email"], parse_role(form["role"]), tenant_id=home, actor=visitor.actor
        )
    except InvalidInput as error:
        return await _step_page(request, engine, visitor, SetupStep.TEAM, form, error)
    await record_step(engine.database, SetupStep.TEAM, StepState.DONE)
    return await _step_page(request, engine, visitor, SetupStep.TEAM, made=link, colleague=form["email"])


@router.post("/{step}/skip")
async def skip(request: Request, engine: EngineDep, visitor: AdminDep, step: SetupStep) -> Response:
    require_installation(visitor)
    await record_step(engine.database, step, StepState.SKIPPED)
    return redirect(request, _after(step))


def _shows(step: SetupStep) -> Callable[..., Coroutine[Any, Any, Response]]:
    async def show(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
        require_installation(visitor)
        return await _step_page(request, engine, visitor, step)

    return show


for _each in SetupStep:
    router.add_api_route(f"/{_each}", _shows(_each), methods=["GET"])


async def _progress(engine: Engine) -> SetupProgress:
    used = (await load_effective(engine.settings, engine.database)).settings
    return effective_progress(await load_progress(engine.database), used)


async def _complete(request: Request, engine: Engine, step: SetupStep) -> Response:
    await record_step(engine.database, step, StepState.DONE)
    return redirect(request, _after(step))


def _after(step: SetupStep) -> str:
    return f"/set-up/{step.following or 'done'}"


def _before(step: SetupStep) -> str | None:
    order = list(SetupStep)
    position = order.index(step)
    return None if position == 0 else f"/set-up/{order[position - 1]}"


async def _step_page(
    request: Request,
    engine: Engine,
    visitor: Visitor,
    step: SetupStep,
    form: Fields | None = None,
    error: MailwrightError | None = None,
    **more: Any,
) -> Response:
    progress = await _progress(engine)
    values: dict[str, Any] = await installation_values(engine, visitor, form)
    values |= {"made": None, "colleague": None, "message_id": request.query_params.get("message", ""), **more}
    values |= {"form": form or Fields(), "roles": ROLES, "login": visitor.user.login}
    values["tenant_choices"] = await tenant_choices(engine, visitor)
    values["readiness"] = await readiness_of(engine, visitor)
    return await page(
        request,
        visitor,
        f"set_up/{step}.html",
        status=HTTPStatus.OK if error is None else HTTPStatus.UNPROCESSABLE_ENTITY,
        errors=Errors() if error is None else stored_errors(error),
        step=step,
        steps=STEPS,
        progress=progress,
        back=_before(step),
        following=_after(step),
        **values,
    )
