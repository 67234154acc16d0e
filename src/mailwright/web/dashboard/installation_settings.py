"""Change the settings of the installation: sender, provider, default limits, tracking and the DKIM key.

Only administrators of the whole installation can see and change them, because they apply to every tenant.
"""

from collections.abc import Callable
from http import HTTPStatus

from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.app.stored_settings import EffectiveSettings, load_effective
from mailwright.app.wiring import Engine
from mailwright.domain.errors import ConfigurationInvalid, InvalidInput, MailwrightError, NotPossibleNow
from mailwright.domain.translation import gettext
from mailwright.ops.provider_kinds import KINDS
from mailwright.ops.stored import SECRETS
from mailwright.web.dashboard import settings
from mailwright.web.dashboard.forms import Errors, Fields, read_fields
from mailwright.web.dashboard.installation_values import installation_values, require_installation
from mailwright.web.dashboard.shell import PageRoute, fragment, page, redirect
from mailwright.web.dashboard.stored_forms import (
    SMTP_FORMS,
    Changes,
    limit_changes,
    provider_changes,
    save_changes,
    sender_changes,
    stored_errors,
    try_changes,
)
from mailwright.web.session import AdminDep, Visitor
from mailwright.web.state import EngineDep

router = APIRouter(prefix="/settings", route_class=PageRoute, include_in_schema=False)

SECRET_FIELDS = (*(f"{prefix}_password" for prefix in SMTP_FORMS), *(SECRETS - {"dkim_key"}))


@router.get("/sender")
async def show_sender(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    require_installation(visitor)
    return await _page(request, engine, visitor, "sender")


@router.post("/sender")
async def change_sender(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    return await _save(request, engine, visitor, "sender", lambda form, _: sender_changes(form))


@router.post("/providers")
async def change_provider(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    return await _save(request, engine, visitor, "providers", _provider_changes)


@router.post("/providers/test")
async def check_provider(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    """Connect with the values of the form, without storing them."""
    require_installation(visitor)
    form = await read_fields(request, verbatim=SECRET_FIELDS)
    effective = await load_effective(engine.settings, engine.database)
    try:
        found = await try_changes(engine, _provider_changes(form, effective))
        problems: list[str] = []
    except (InvalidInput, ConfigurationInvalid) as error:
        found, problems = [], list(stored_errors(error).values())
    is_local = form["provider"] in KINDS and KINDS[form["provider"]].is_local
    values = {"found": found, "problems": problems, "is_mailbox": is_local}
    return fragment(request, visitor, "settings/connection.html", **values)


@router.post("/limits/installation")
async def change_default_limits(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    return await _save(request, engine, visitor, "limits", lambda form, _: limit_changes(form))


@router.post("/tracking/installation")
async def change_allowed_tracking(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    return await _save(
        request, engine, visitor, "tracking", lambda form, _: {"tracking": form["installation_tracking"]}
    )


@router.post("/domain/key")
async def create_dkim_key(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    """Create a DKIM key and store it. The page then shows the record to publish."""
    require_installation(visitor)
    await store_dkim_key(engine, visitor)
    return redirect(request, "/settings/domain", gettext("DKIM key created. Publish its DNS record before you send."))


async def store_dkim_key(engine: Engine, visitor: Visitor) -> None:
    """Create a DKIM key. Raise if there is one, because receivers would reject email signed with an unpublished key."""
    from mailwright.content.dkim_key import new_private_key  # noqa: PLC0415 - large, and rarely needed

    used = (await load_effective(engine.settings, engine.database)).settings
    if used.dkim_key is not None or used.dkim_key_file is not None:
        raise NotPossibleNow(
            gettext(
                "There is a DKIM key already. To create another one, unset MAILWRIGHT_DKIM_KEY or "
                "MAILWRIGHT_DKIM_KEY_FILE."
            )
        )
    changes: Changes = {"dkim_key": new_private_key()}
    if used.dkim_selector is None:
        changes["dkim_selector"] = "mailwright"
    await save_changes(engine, visitor, changes)


async def _save(
    request: Request,
    engine: Engine,
    visitor: Visitor,
    name: str,
    changes_of: Callable[[Fields, EffectiveSettings], Changes],
) -> Response:
    require_installation(visitor)
    form = await read_fields(request, verbatim=SECRET_FIELDS)
    try:
        changes = changes_of(form, await load_effective(engine.settings, engine.database))
        has_changed = await save_changes(engine, visitor, changes)
    except (InvalidInput, ConfigurationInvalid) as error:
        return await _page(request, engine, visitor, name, form, error)
    text = (
        gettext("Saved. Servers and workers use it within seconds.") if has_changed else gettext("Nothing was changed.")
    )
    return redirect(request, f"/settings/{name}", text)


def _provider_changes(form: Fields, effective: EffectiveSettings) -> Changes:
    return provider_changes(form, effective.settings, effective.fixed)


async def _page(
    request: Request,
    engine: Engine,
    visitor: Visitor,
    name: str,
    form: Fields | None = None,
    error: MailwrightError | None = None,
) -> Response:
    values = await installation_values(engine, visitor, form)
    if name in settings.PAGE_VALUES:
        values |= await settings.PAGE_VALUES[name](engine, visitor)
    status = HTTPStatus.OK if error is None else HTTPStatus.UNPROCESSABLE_ENTITY
    errors = Errors() if error is None else stored_errors(error)
    return await page(
        request, visitor, f"settings/{name}.html", status=status, tabs=settings.TABS, errors=errors, **values
    )
