"""Settings of named providers with their own credentials, and of the routes that choose them."""

from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from mailwright.actions.providers import named_provider_response
from mailwright.app.named_providers import fields_of, is_secret, named_provider, required_fields
from mailwright.app.provider_test import advice_for
from mailwright.app.wiring import Engine
from mailwright.domain.clock import Instant
from mailwright.domain.errors import InvalidInput, MailwrightError, NotFound
from mailwright.domain.message import Source
from mailwright.domain.provider_routes import ALL_SOURCES, INSTALLATION, parse_source
from mailwright.domain.translation import gettext, lazy_gettext
from mailwright.ops.provider_kinds import KINDS
from mailwright.ops.settings import Settings
from mailwright.ops.stored import variable_of
from mailwright.outbox import tenants
from mailwright.outbox.provider_configurations import ProviderChanged, ProviderConfiguration, ProviderHasMessages
from mailwright.outbox.workers import presence_by_provider
from mailwright.web.dashboard.forms import Errors, Fields, field_errors, read_fields
from mailwright.web.dashboard.installation_values import require_installation
from mailwright.web.dashboard.settings import TABS
from mailwright.web.dashboard.shell import PageRoute, page, redirect
from mailwright.web.session import AdminDep, Visitor
from mailwright.web.state import EngineDep

HOME: Final = "/settings/named-providers"

router = APIRouter(prefix=HOME, route_class=PageRoute, include_in_schema=False)

# The sources as people know them.
# The limits of a provider, with the labels of the page about limits.
_LIMIT_LABELS: Final = {
    "rate_per_second": lazy_gettext("Emails per second"),
    "rate_per_hour": lazy_gettext("Emails per hour"),
    "daily_limit": lazy_gettext("Emails per day"),
    "warmup_since": lazy_gettext("Warm-up start date"),
    "warmup_start": lazy_gettext("Emails on the first warm-up day"),
    "warmup_factor": lazy_gettext("Warm-up factor per day"),
}
_WITHOUT_MARKS: Final = str.maketrans("", "", "`*")  # The descriptions are Markdown.
_SOURCES: Final = (
    (ALL_SOURCES, lazy_gettext("Everything")),
    (Source.API.value, lazy_gettext("Transactional email (API, SMTP, outbox table)")),
    (Source.CAMPAIGN.value, lazy_gettext("Campaigns")),
    (Source.SEQUENCE.value, lazy_gettext("Sequences")),
    (Source.MAILOUT.value, lazy_gettext("Mailouts")),
    (Source.ARTICLE.value, lazy_gettext("Articles")),
    (Source.NOTIFICATION.value, lazy_gettext("Notifications")),
)


@router.get("")
async def show_all(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    require_installation(visitor)
    return await _list_page(request, engine, visitor)


@router.get("/~new")
async def show_new(
    request: Request, engine: EngineDep, visitor: AdminDep, kind: Annotated[str, Query(max_length=40)] = "smtp"
) -> Response:
    require_installation(visitor)
    return await _form_page(request, engine, visitor, _known(kind), Fields())


@router.post("")
async def create(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    require_installation(visitor)
    form = await read_fields(request)
    kind = _known(form["kind"])
    given = {variable_of(name): form[variable_of(name)] for name in fields_of(kind) if form[variable_of(name)]}
    try:
        made = await engine.providers.create(form["name"], kind, given, actor=visitor.actor)
    except MailwrightError as error:
        return await _form_page(request, engine, visitor, kind, form, error)
    engine.settings_saved.set()
    return redirect(request, f"{HOME}/{made.name}", gettext("Provider created. Test the connection, then add a route."))


@router.post("/~routes")
async def set_route(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    require_installation(visitor)
    form = await read_fields(request)
    provider = None if form["provider"] == INSTALLATION else form["provider"]
    try:
        owner = await tenants.find(engine.database, form["tenant"])
        await engine.providers.set_route(owner.id, parse_source(form["source"]), provider, actor=visitor.actor)
    except (InvalidInput, NotFound) as error:
        return await _list_page(request, engine, visitor, form, error)
    engine.settings_saved.set()
    return redirect(request, HOME, gettext("Route saved. Workers use it within seconds."))


@router.post("/~routes/delete")
async def delete_route(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    require_installation(visitor)
    form = await read_fields(request)
    owner = await tenants.find(engine.database, form["tenant"])
    await engine.providers.delete_route(owner.id, parse_source(form["source"]), actor=visitor.actor)
    engine.settings_saved.set()
    return redirect(request, HOME, gettext("Route deleted."))


@router.get("/{name}")
async def show(request: Request, engine: EngineDep, visitor: AdminDep, name: str) -> Response:
    require_installation(visitor)
    return await _one_page(request, engine, visitor, await engine.providers.find(name))


@router.post("/{name}")
async def edit(request: Request, engine: EngineDep, visitor: AdminDep, name: str) -> Response:
    """Save the settings. An empty secret keeps the stored one; any other empty field removes its setting."""
    require_installation(visitor)
    found, form = await engine.providers.find(name), await read_fields(request)
    given: dict[str, str | None] = {}
    for each in fields_of(found.kind):
        text = form[variable_of(each)]
        if text or not is_secret(each):
            given[variable_of(each)] = text or None
        elif form[f"remove-{variable_of(each)}"]:
            given[variable_of(each)] = None
    try:
        await engine.providers.edit(name, given, actor=visitor.actor, seen_at=_seen_at(form))
    except ProviderChanged as error:
        return await _one_page(request, engine, visitor, await engine.providers.find(name), error=error)
    except (InvalidInput, ProviderHasMessages) as error:
        return await _one_page(request, engine, visitor, found, form, error)
    engine.settings_saved.set()
    return redirect(request, f"{HOME}/{name}", gettext("Provider saved. Workers use it within seconds."))


@router.post("/{name}/test")
async def check_connection(request: Request, engine: EngineDep, visitor: AdminDep, name: str) -> Response:
    require_installation(visitor)
    check = await engine.providers.test(name)
    advice = advice_for(check)
    text = (
        f"{check.summary}. {advice}".strip()
        if not check.is_ok
        else gettext("Connection works: {summary}.", summary=check.summary)
    )
    return redirect(request, f"{HOME}/{name}", text, tone="good" if check.is_ok else "bad")


@router.post("/{name}/delete")
async def delete(request: Request, engine: EngineDep, visitor: AdminDep, name: str) -> Response:
    require_installation(visitor)
    try:
        await engine.providers.delete(name, actor=visitor.actor)
    except MailwrightError as error:
        return redirect(request, f"{HOME}/{name}", error.text, tone="bad")
    engine.settings_saved.set()
    return redirect(request, HOME, gettext("Provider deleted."))


async def _list_page(
    request: Request, engine: Engine, visitor: Visitor, form: Fields | None = None, error: MailwrightError | None = None
) -> Response:
    found = await engine.providers.list_all()
    values = {
        "providers": [(each, named_provider(each, engine.settings).problem) for each in found.configurations],
        "routes": found.routes,
        "seen": await presence_by_provider(engine.database, engine.clock.now(), ()),
        "tenant_choices": [(each.name, each.name) for each in await tenants.list_all(engine.database)],
        "sources": _SOURCES,
        "source_names": dict(_SOURCES),
        "choices": [(each.name, each.name) for each in found.configurations]
        + [(INSTALLATION, gettext("The installation's provider"))],
        "kinds": KINDS,
        "form": form or Fields(),
    }
    return await _page(request, visitor, "named_providers", error, **values)


async def _form_page(
    request: Request, _engine: Engine, visitor: Visitor, kind: str, form: Fields, error: MailwrightError | None = None
) -> Response:
    values = {"kind": kind, "kinds": KINDS, "inputs": _inputs(kind, {}), "form": form}
    return await _page(request, visitor, "named_provider_new", error, **values)


async def _one_page(
    request: Request,
    engine: Engine,
    visitor: Visitor,
    found: ProviderConfiguration,
    form: Fields | None = None,
    error: MailwrightError | None = None,
) -> Response:
    everything = await engine.providers.list_all()
    shown = named_provider_response(found, everything, engine.settings)
    known = [name for name in fields_of(found.kind) if name in found.settings and not is_secret(name)]
    stored = {variable_of(name): found.settings[name] for name in known}
    values = {
        "provider": shown,
        "updated_at": found.updated_at,
        "routes": [each for each in everything.routes if each.provider == found.name],
        "source_names": dict(_SOURCES),
        "inputs": _inputs(found.kind, found.settings),
        "form": form or Fields(stored),
    }
    return await _page(request, visitor, "named_provider", error, **values)


def _inputs(kind: str, stored: Any) -> list[dict[str, Any]]:
    labels = _LIMIT_LABELS | {each.name: each.label for each in KINDS[kind].form_fields}
    if (server := KINDS[kind].smtp_server) is not None:
        labels[server.name] = gettext("SMTP server")
    return [
        {
            "name": variable_of(name),
            "label": labels.get(name, variable_of(name)),
            "hint": str(Settings.model_fields[name].description).translate(_WITHOUT_MARKS),
            "is_secret": is_secret(name),
            "is_stored": name in stored,
            "is_required": name in required_fields(kind),
        }
        for name in fields_of(kind)
    ]


def _seen_at(form: Fields) -> Instant:
    """Return when the settings in the form were last changed; 0 if the form does not contain that time."""
    text = form["seen-at"]
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else 0


def _known(kind: str) -> str:
    if kind not in KINDS:
        raise NotFound(gettext("There is no kind of provider {kind}.", kind=repr(kind[:40])))
    return kind


async def _page(
    request: Request, visitor: Visitor, name: str, error: MailwrightError | None, **values: Any
) -> Response:
    status = HTTPStatus.UNPROCESSABLE_ENTITY if error is not None else HTTPStatus.OK
    errors = field_errors(error) if error is not None else Errors()
    return await page(request, visitor, f"settings/{name}.html", status=status, tabs=TABS, errors=errors, **values)
