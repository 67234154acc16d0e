"""Settings pages: users, API keys, limits, tracking, providers and sender domain.

Administrators of one tenant manage its users and API keys. Administrators of the installation manage
everything.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from mailwright.access.api_keys import KeyPair
from mailwright.access.roles import Role, Scope, parse_role, parse_scopes
from mailwright.access.users import User, email_of
from mailwright.app.sender_dns import check_sender
from mailwright.app.setup import SetupStep, StepState, record_step
from mailwright.app.stored_settings import load_effective
from mailwright.app.wiring import Engine
from mailwright.audience.suppressions import suppressed_among
from mailwright.domain.allowed_senders import parse_allowed_senders
from mailwright.domain.errors import InvalidInput, MailwrightError, NotFound
from mailwright.domain.findings import Verdict
from mailwright.domain.shadow import SmtpMode
from mailwright.domain.tracking import parse_mode, strictest
from mailwright.domain.translation import gettext, lazy_gettext
from mailwright.outbox import quotas, tenants
from mailwright.outbox.audit_log import record
from mailwright.outbox.shadow import load_report
from mailwright.outbox.workers import learned_rate_of, presence_by_provider
from mailwright.web.dashboard.campaigns_forms import tenant_rails_fields, tenant_rails_of
from mailwright.web.dashboard.forms import Errors, Fields, field_errors, read_fields, read_values
from mailwright.web.dashboard.installation_values import installation_values, require_installation
from mailwright.web.dashboard.shell import PageRoute, fragment, page, redirect
from mailwright.web.dashboard.sign_in import origin_of
from mailwright.web.session import AdminDep, Visitor
from mailwright.web.state import EngineDep

router = APIRouter(prefix="/settings", route_class=PageRoute, include_in_schema=False)

# The pages of the settings in four groups. Brand, API keys and webhooks belong to other entries of the navigation.
TABS: Final = (
    (
        lazy_gettext("Workspace"),
        (
            ("/settings/limits", lazy_gettext("Limits")),
            ("/settings/tracking", lazy_gettext("Tracking")),
            ("/settings/sections", lazy_gettext("Sections")),
        ),
    ),
    (
        lazy_gettext("Sending"),
        (
            ("/settings/sender", lazy_gettext("Sender")),
            ("/settings/providers", lazy_gettext("Providers")),
            ("/settings/domain", lazy_gettext("Default domain")),
            ("/settings/domains", lazy_gettext("Sender domains")),
        ),
    ),
    (
        lazy_gettext("People and security"),
        (
            ("/settings/users", lazy_gettext("Users")),
            ("/settings/audit-log", lazy_gettext("Audit log")),
        ),
    ),
    (
        lazy_gettext("System"),
        (
            ("/settings/health", lazy_gettext("Health")),
            ("/settings/retention", lazy_gettext("Retention")),
        ),
    ),
)
ROLES: Final = (
    (Role.VIEWER, lazy_gettext("Viewer: read-only access")),
    (Role.EDITOR, lazy_gettext("Editor: create, edit and send")),
    (Role.ADMIN, lazy_gettext("Administrator: also manage users, API keys and settings")),
)
SCOPES: Final = (
    (Scope.SEND, lazy_gettext("Send"), lazy_gettext("send single emails and batches")),
    (Scope.EVENTS, lazy_gettext("Events"), lazy_gettext("submit events of contacts and their attributes")),
    (Scope.READ, lazy_gettext("Read"), lazy_gettext("read all data")),
    (
        Scope.PROPOSE,
        lazy_gettext("Propose"),
        lazy_gettext("read all data, create drafts and request their approval by a person; for AI agents"),
    ),
    (Scope.MANAGE, lazy_gettext("Manage"), lazy_gettext("change campaigns, contacts, templates and everything else")),
)
_ALL_TENANTS: Final = "*"  # No tenant has this name.
_SHADOW_DAYS: Final = 7


@router.get("")
async def first() -> Response:
    return RedirectResponse("/settings/users", HTTPStatus.SEE_OTHER)


# Users.


@router.get("/users")
async def show_users(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    return await users_page(request, engine, visitor)


@router.post("/users")
async def create_user(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    form = await read_fields(request)
    try:
        tenant_id = await tenant_for(engine, visitor, form["home"])
        role = parse_role(form["role"])
        if visitor.user.tenant_id is not None and "@" in form["login"]:
            # Refuse addresses that nobody has verified, because invitations and identities match users by their
            # address.
            raise InvalidInput(gettext("Choose a user name without @, or invite the person by email."), field="login")
        user = await engine.users.create(
            form["login"], form["password"], role, tenant_id=tenant_id, actor=visitor.actor
        )
    except InvalidInput as error:
        return await users_page(request, engine, visitor, form, error)
    return redirect(
        request,
        "/settings/users",
        gettext("User {login} created. Give them their password yourself; no email is sent.", login=user.login),
    )


@router.post("/second-factor/{choice}")
async def require_second_factor(
    request: Request, engine: EngineDep, visitor: AdminDep, choice: Literal["required", "optional"]
) -> Response:
    await tenants.change(
        engine.database,
        visitor.tenant,
        actor=visitor.actor,
        clock=engine.clock,
        requires_second_factor=choice == "required",
    )
    text = gettext(
        "Two-factor authentication is now {choice} for everyone who works in {tenant}.",
        choice=choice,
        tenant=visitor.tenant,
    )
    return redirect(request, "/settings/users", text)


@router.post("/approvals")
async def change_approvals(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    """Save which campaigns need the approval of a second person. If the field is empty, none do."""
    form = await read_fields(request)
    try:
        over = form.number("approval_over")
        await tenants.change(
            engine.database, visitor.tenant, actor=visitor.actor, clock=engine.clock, approval_over=over
        )
    except InvalidInput as error:
        return await users_page(request, engine, visitor, form, error)
    words = gettext("No campaign needs an approval now.") if over is None else gettext("Approvals saved.")
    return redirect(
        request, "/settings/users", gettext("{words} Campaigns that wait for an approval keep waiting.", words=words)
    )


@router.get("/users/{login}")
async def show_user(request: Request, engine: EngineDep, visitor: AdminDep, login: str) -> Response:
    return await _user_page(request, engine, visitor, await _find_user(engine, visitor, login))


@router.post("/users/{login}/role")
async def change_role(request: Request, engine: EngineDep, visitor: AdminDep, login: str) -> Response:
    user = await _find_user(engine, visitor, login)
    role = parse_role((await read_fields(request))["role"])
    await engine.users.change_role(user.login, role, actor=visitor.actor)
    return redirect(
        request, "/settings/users", gettext("{login} now has the role {role}.", login=user.login, role=role)
    )


@router.post("/users/{login}/password")
async def set_password(request: Request, engine: EngineDep, visitor: AdminDep, login: str) -> Response:
    user = await _find_user(engine, visitor, login)
    form = await read_fields(request)
    try:
        await engine.users.change_password(
            user.login, form["password"], actor=visitor.actor, origin=origin_of(request, engine)
        )
    except InvalidInput as error:
        return await _user_page(request, engine, visitor, user, error)
    words = gettext(
        "Password of {login} changed and all their sessions signed out. Give them the new password yourself.",
        login=user.login,
    )
    return redirect(request, "/settings/users", words)


@router.post("/users/{login}/second-factor/drop")
async def remove_second_factor(request: Request, engine: EngineDep, visitor: AdminDep, login: str) -> Response:
    user = await _find_user(engine, visitor, login)
    await engine.second_factors.remove(user, actor=visitor.actor, origin=origin_of(request, engine))
    return redirect(
        request, "/settings/users", gettext("Two-factor authentication of {login} turned off.", login=user.login)
    )


@router.post("/users/{login}/sign-out")
async def sign_out_user(request: Request, engine: EngineDep, visitor: AdminDep, login: str) -> Response:
    user = await _find_user(engine, visitor, login)
    await engine.sessions.end_all(user, actor=visitor.actor)
    return redirect(
        request, f"/settings/users/{user.login}", gettext("{login} is signed out everywhere.", login=user.login)
    )


@router.post("/users/{login}/disable")
async def disable(request: Request, engine: EngineDep, visitor: AdminDep, login: str) -> Response:
    user = await _find_user(engine, visitor, login)
    await engine.users.disable(user.login, actor=visitor.actor)
    return redirect(request, "/settings/users", gettext("User {login} disabled and signed out.", login=user.login))


@router.post("/users/{login}/enable")
async def enable(request: Request, engine: EngineDep, visitor: AdminDep, login: str) -> Response:
    user = await _find_user(engine, visitor, login)
    await engine.users.enable(user.login, actor=visitor.actor)
    return redirect(request, "/settings/users", gettext("User {login} enabled.", login=user.login))


async def users_page(
    request: Request,
    engine: Engine,
    visitor: Visitor,
    form: Fields | None = None,
    error: MailwrightError | None = None,
    *,
    link: str | None = None,
) -> Response:
    """Show the users and the open invitations. `link` is the link of a new invitation, which is shown only once."""
    home = visitor.user.tenant_id
    found = [user for user in await engine.users.list_all() if home in (None, user.tenant_id)]
    own = await tenants.find(engine.database, visitor.tenant)
    return await _page(
        request,
        visitor,
        "users",
        error,
        users=found,
        invitations=await engine.account_links.list_invitations(home),
        link=link,
        requires_second_factor=own.requires_second_factor,
        approval_over=own.approval_over,
        roles=ROLES,
        suppressed=await _suppressed_users(engine, found),
        tenant_choices=await tenant_choices(engine, visitor),
        form=form or Fields(role=Role.VIEWER),
    )


async def _user_page(
    request: Request, engine: Engine, visitor: Visitor, user: User, error: MailwrightError | None = None
) -> Response:
    sessions = await engine.sessions.list_for_user(user, visitor.session)
    return await _page(request, visitor, "user", error, user=user, roles=ROLES, sessions=sessions)


async def _suppressed_users(engine: Engine, found: Sequence[User]) -> list[str]:
    """Return the users who get no links and notices, because their addresses are suppressed."""
    first = min(tenant.id for tenant in await tenants.list_all(engine.database))
    suppressed = []
    async with engine.database.read() as tx:
        for user in found:
            email = email_of(user.login, user.email)
            if email is not None and await suppressed_among(tx, user.tenant_id or first, {email}, None):
                suppressed.append(user.login)
    return suppressed


async def tenant_choices(engine: Engine, visitor: Visitor) -> list[tuple[str, str]]:
    """Return the tenants that an administrator of the installation can choose for a new user.

    If there are several, none is preselected. Administrators of one tenant have no choice.
    """
    if visitor.user.tenant_id is not None:
        return []
    names = [tenant.name for tenant in await tenants.list_all(engine.database)]
    everyone = (_ALL_TENANTS, gettext("All tenants"))
    if len(names) == 1:
        return [everyone, (names[0], names[0])]
    return [("", gettext("Choose a tenant")), *((name, name) for name in names), everyone]


async def tenant_for(engine: Engine, visitor: Visitor, name: str) -> int | None:
    """Return the tenant of a new user. Administrators of one tenant can create users of that tenant only."""
    if visitor.user.tenant_id is not None:
        return visitor.user.tenant_id
    is_all = name == _ALL_TENANTS
    try:
        found = await tenants.find_one_or_all(engine.database, None if is_all else name or None, all_tenants=is_all)
    except tenants.TenantMissing as error:
        raise InvalidInput(gettext("Choose a tenant, or all tenants."), field="home") from error
    return None if found is None else found.id


async def _find_user(engine: Engine, visitor: Visitor, login: str) -> User:
    user = await engine.users.find(login)
    if visitor.user.tenant_id not in (None, user.tenant_id):
        raise NotFound(gettext("There is no user {login}", login=login[:80]))
    return user


# API keys.


@router.get("/keys")
async def show_keys(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    return await _keys_page(request, engine, visitor)


@router.post("/keys")
async def create_key(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    """Create a key and show it once, in the response itself."""
    form = await read_fields(request)
    try:
        scopes = parse_scopes(await read_values(request, "scope"))
        senders = parse_allowed_senders(re.split(r"[\s,;]+", form["sender"]))
        who = {"owner": visitor.actor, "actor": visitor.actor}
        made = await engine.keys.issue(visitor.tenant_id, form["name"], scopes, senders, signs=bool(form["ses"]), **who)
    except InvalidInput as error:
        return await _keys_page(request, engine, visitor, form=form, error=error)
    return await _keys_page(request, engine, visitor, made=made)


@router.post("/keys/{key_id}/revoke")
async def revoke_key(request: Request, engine: EngineDep, visitor: AdminDep, key_id: int) -> Response:
    await engine.keys.revoke(visitor.tenant_id, key_id, actor=visitor.actor)
    return redirect(request, "/settings/keys", gettext("API key revoked."))


@router.post("/keys/{key_id}/own")
async def own_key(request: Request, engine: EngineDep, visitor: AdminDep, key_id: int) -> Response:
    """Become the owner of a key that has none.

    Users cannot make somebody else the owner, because they could then approve the key's requests themselves.
    """
    await engine.keys.set_owner(visitor.tenant_id, key_id, visitor.actor, actor=visitor.actor, must_be_free=True)
    return redirect(request, "/settings/keys", gettext("You are now the owner of the API key."))


async def _keys_page(
    request: Request,
    engine: Engine,
    visitor: Visitor,
    *,
    made: KeyPair | None = None,
    form: Fields | None = None,
    error: MailwrightError | None = None,
) -> Response:
    found = await engine.keys.list_all(visitor.tenant_id)
    shown = form or Fields()
    return await _page(request, visitor, "keys", error, keys=found[::-1], made=made, scopes=SCOPES, form=shown)


# Limits.

_NUMBERS: Final = ("rate_per_second", "rate_per_hour", "daily_limit", "max_in_flight")


@router.get("/limits")
async def show_limits(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    return await _limits_page(request, engine, visitor)


@router.post("/limits")
async def change_limits(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    """Save the limits of the tenant. An empty field means the default of the installation."""
    require_installation(visitor)
    form = await read_fields(request)
    try:
        changes: Any = {name: form.number(name) for name in _NUMBERS}
        changes |= {name: form[name] or None for name in ("working_hours", "timezone", "warmup_since", "frequency_cap")}
        changes["weight"] = form.number("weight") or 1
        changes["guard_rails"] = tenant_rails_of(form)
        await tenants.change(engine.database, visitor.tenant, **changes)
    except InvalidInput as error:
        return await _limits_page(request, engine, visitor, form, error)
    own = {name: value for name, value in changes.items() if value is not None}
    await _record(engine, visitor, "tenant_limits", visitor.tenant, **own)
    return redirect(request, "/settings/limits", gettext("Limits saved. They apply to queued emails immediately."))


async def _limits_page(
    request: Request,
    engine: Engine,
    visitor: Visitor,
    form: Fields | None = None,
    error: MailwrightError | None = None,
) -> Response:
    values = await _limits_values(engine, visitor, form)
    return await _page(request, visitor, "limits", error, **await installation_values(engine, visitor), **values)


async def _limits_values(engine: Engine, visitor: Visitor, form: Fields | None = None) -> dict[str, Any]:
    tenant = await tenants.find(engine.database, visitor.tenant)
    shown = form or {
        name: getattr(tenant, name)
        for name in (*_NUMBERS, "working_hours", "timezone", "warmup_since", "frequency_cap", "weight")
    } | tenant_rails_fields(tenant.guard_rails)
    may_change = visitor.user.tenant_id is None
    limits = engine.defaults.limits
    return {"form": shown, "limits": limits, "rails": engine.campaigns.rails, "may_change": may_change}


# Tracking.


@router.get("/tracking")
async def show_tracking(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    return await _tracking_page(request, engine, visitor)


@router.post("/tracking")
async def change_tracking(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    """Save the tracking mode and the tracking host of the tenant."""
    require_installation(visitor)
    form = await read_fields(request)
    mode, host = form["tracking"] or None, form["tracking_host"].rstrip("/") or None
    try:
        await tenants.change(
            engine.database,
            visitor.tenant,
            actor=visitor.actor,
            clock=engine.clock,
            tracking=mode,
            tracking_host=host,
        )
    except InvalidInput as error:
        return await _tracking_page(request, engine, visitor, form, error)
    return redirect(
        request, "/settings/tracking", gettext("Tracking saved. It applies to emails that are sent from now on.")
    )


async def _tracking_page(
    request: Request,
    engine: Engine,
    visitor: Visitor,
    form: Fields | None = None,
    error: MailwrightError | None = None,
) -> Response:
    values = await _tracking_values(engine, visitor, form)
    return await _page(request, visitor, "tracking", error, **await installation_values(engine, visitor), **values)


async def _tracking_values(engine: Engine, visitor: Visitor, form: Fields | None = None) -> dict[str, Any]:
    tenant = await tenants.find(engine.database, visitor.tenant)
    allowed = (await load_effective(engine.settings, engine.database)).settings.tracking
    return {
        "form": form or {"tracking": tenant.tracking or "", "tracking_host": tenant.tracking_host or ""},
        "installation": allowed,
        "effective": strictest(allowed, parse_mode(tenant.tracking)),
        "host": tenant.tracking_host or engine.public_url,
        "may_change": visitor.user.tenant_id is None,
    }


# Providers, and the sender's domain.


@router.get("/providers")
async def show_providers(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    values = await _provider_values(engine, visitor)
    return await _page(request, visitor, "providers", None, **await installation_values(engine, visitor), **values)


async def _provider_values(engine: Engine, visitor: Visitor) -> dict[str, Any]:
    known = {each.provider: each for each in await quotas.load_quotas(engine.database)}
    seen = await presence_by_provider(engine.database, engine.clock.now(), engine.defaults.providers)
    shadow = await load_report(engine.database.reader, visitor.tenant_id, engine.clock.now(), _SHADOW_DAYS)
    is_shadow = engine.settings.smtp_mode is SmtpMode.SHADOW
    values = {"seen": seen, "quotas": known, "learned_rate": learned_rate_of}
    return {**values, "shadow": shadow, "is_shadow": is_shadow}


# The content of each page in addition to the settings of the installation.
PAGE_VALUES: Final[Mapping[str, Callable[[Engine, Visitor], Awaitable[dict[str, Any]]]]] = {
    "limits": _limits_values,
    "tracking": _tracking_values,
    "providers": _provider_values,
}


@router.get("/domain")
async def show_domain(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    require_installation(visitor)
    return await _page(request, visitor, "domain", None, **await installation_values(engine, visitor))


@router.get("/domain/checks")
async def check_domain(
    request: Request, engine: EngineDep, visitor: AdminDep, *, in_setup: Annotated[bool, Query(alias="setup")] = False
) -> Response:
    """Check DNS after the page has loaded, because that can be slow."""
    require_installation(visitor)
    effective = await load_effective(engine.settings, engine.database)
    checks = [each async for each in check_sender(effective.settings)]
    if all(each.verdict is not Verdict.PROBLEM and each.name != "sender" for each in checks):
        await record_step(engine.database, SetupStep.DOMAIN, StepState.DONE)
    origin = effective.origin("sender")
    sender = {
        "path": "/set-up/sender" if in_setup else "/settings/sender",
        "fixed": origin.text if origin.is_fixed else "",
    }
    return fragment(request, visitor, "settings/domain_checks.html", checks=checks, sender=sender)


async def _page(
    request: Request, visitor: Visitor, name: str, error: MailwrightError | None, **values: Any
) -> Response:
    status = HTTPStatus.UNPROCESSABLE_ENTITY if error is not None else HTTPStatus.OK
    errors = field_errors(error) if error is not None else Errors()
    return await page(request, visitor, f"settings/{name}.html", status=status, tabs=TABS, errors=errors, **values)


async def _record(engine: Engine, visitor: Visitor, action: str, subject: str, **detail: Any) -> None:
    async with engine.database.write() as tx:
        await record(
            tx,
            engine.clock.now(),
            actor=visitor.actor,
            action=action,
            subject=subject,
            tenant_id=visitor.tenant_id,
            detail=detail,
        )
