"""Settings pages: users, API keys, limits, tracking, providers, sender domain, health and audit log.

Administrators of one tenant manage its users, API keys and audit log. Administrators of the installation manage
everything.
"""

from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from mailwright.access.roles import Forbidden, Role, Scope, parse_role, parse_scopes
from mailwright.access.users import User
from mailwright.app.sender_dns import check_sender
from mailwright.app.wiring import Engine
from mailwright.checks.health import check_health
from mailwright.domain.errors import InvalidInput, MailwrightError, NotFound
from mailwright.domain.tracking import parse_mode, strictest
from mailwright.outbox import quotas, tenants
from mailwright.outbox.audit_log import list_entries, record
from mailwright.outbox.workers import learned_rate_of, presence_by_provider
from mailwright.schemas.paging import decode_cursor, encode_cursor
from mailwright.web.dashboard.campaigns_forms import tenant_rails_fields, tenant_rails_of
from mailwright.web.dashboard.forms import Errors, Fields, field_errors, read_fields, read_values
from mailwright.web.dashboard.shell import PageRoute, fragment, page, redirect
from mailwright.web.session import AdminDep, Visitor
from mailwright.web.state import EngineDep

router = APIRouter(prefix="/settings", route_class=PageRoute, include_in_schema=False)

TABS: Final = (
    ("/settings/users", "Users"),
    ("/settings/keys", "API keys"),
    ("/settings/limits", "Limits"),
    ("/settings/tracking", "Tracking"),
    ("/settings/providers", "Providers"),
    ("/settings/domain", "Sender domain"),
    ("/settings/webhooks", "Webhooks"),
    ("/settings/health", "Health"),
    ("/settings/retention", "Retention"),
    ("/settings/audit-log", "Audit log"),
)
ROLES: Final = (
    (Role.VIEWER, "Viewer: read-only access"),
    (Role.EDITOR, "Editor: create, edit and send"),
    (Role.ADMIN, "Administrator: also manage users, API keys and settings"),
)
SCOPES: Final = (
    (Scope.SEND, "Send", "send single emails and batches"),
    (Scope.READ, "Read", "read all data"),
    (Scope.PROPOSE, "Propose", "read all data and create drafts, which a person starts; for AI agents"),
    (Scope.MANAGE, "Manage", "change campaigns, contacts, templates and everything else"),
)
_ALL_TENANTS: Final = ""
_PAGE: Final = 50
_NEWEST: Final = 2**63 - 1


@router.get("")
async def first() -> Response:
    return RedirectResponse(TABS[0][0], HTTPStatus.SEE_OTHER)


# Users.


@router.get("/users")
async def show_users(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    return await _users_page(request, engine, visitor)


@router.post("/users")
async def create_user(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    form = await read_fields(request)
    try:
        tenant_id = await _tenant_for(engine, visitor, form["home"])
        role = parse_role(form["role"])
        user = await engine.users.create(
            form["login"], form["password"], role, tenant_id=tenant_id, actor=visitor.actor
        )
    except InvalidInput as error:
        return await _users_page(request, engine, visitor, form, error)
    return redirect(
        request, "/settings/users", f"User {user.login} created. Give them their password yourself; no email is sent."
    )


@router.get("/users/{login}")
async def show_user(request: Request, engine: EngineDep, visitor: AdminDep, login: str) -> Response:
    return await _user_page(request, visitor, await _find_user(engine, visitor, login))


@router.post("/users/{login}/role")
async def change_role(request: Request, engine: EngineDep, visitor: AdminDep, login: str) -> Response:
    user = await _find_user(engine, visitor, login)
    role = parse_role((await read_fields(request))["role"])
    await engine.users.change_role(user.login, role, actor=visitor.actor)
    return redirect(request, "/settings/users", f"{user.login} now has the role {role}.")


@router.post("/users/{login}/password")
async def set_password(request: Request, engine: EngineDep, visitor: AdminDep, login: str) -> Response:
    user = await _find_user(engine, visitor, login)
    form = await read_fields(request)
    try:
        await engine.users.change_password(user.login, form["password"], actor=visitor.actor)
    except InvalidInput as error:
        return await _user_page(request, visitor, user, error)
    words = f"Password of {user.login} changed and all their sessions signed out. Give them the new password yourself."
    return redirect(request, "/settings/users", words)


@router.post("/users/{login}/second-factor/drop")
async def remove_second_factor(request: Request, engine: EngineDep, visitor: AdminDep, login: str) -> Response:
    user = await _find_user(engine, visitor, login)
    await engine.users.remove_second_factor(user.login, actor=visitor.actor)
    return redirect(request, "/settings/users", f"Two-factor authentication of {user.login} turned off.")


@router.post("/users/{login}/disable")
async def disable(request: Request, engine: EngineDep, visitor: AdminDep, login: str) -> Response:
    user = await _find_user(engine, visitor, login)
    await engine.users.disable(user.login, actor=visitor.actor)
    return redirect(request, "/settings/users", f"User {user.login} disabled and signed out.")


@router.post("/users/{login}/enable")
async def enable(request: Request, engine: EngineDep, visitor: AdminDep, login: str) -> Response:
    user = await _find_user(engine, visitor, login)
    await engine.users.enable(user.login, actor=visitor.actor)
    return redirect(request, "/settings/users", f"User {user.login} enabled.")


async def _users_page(
    request: Request,
    engine: Engine,
    visitor: Visitor,
    form: Fields | None = None,
    error: MailwrightError | None = None,
) -> Response:
    home = visitor.user.tenant_id
    found = [user for user in await engine.users.list_all() if home in (None, user.tenant_id)]
    names = [tenant.name for tenant in await tenants.list_all(engine.database)] if home is None else []
    return await _page(
        request,
        visitor,
        "users",
        error,
        users=found,
        roles=ROLES,
        role_names=[(role, role.value) for role in Role],
        tenant_choices=[(_ALL_TENANTS, "All tenants"), *((name, name) for name in names)] if names else [],
        form=form or Fields(role=Role.EDITOR),
    )


async def _user_page(request: Request, visitor: Visitor, user: User, error: MailwrightError | None = None) -> Response:
    return await _page(request, visitor, "user", error, user=user)


async def _tenant_for(engine: Engine, visitor: Visitor, name: str) -> int | None:
    """Return the tenant of a new user. Administrators of one tenant can create users of that tenant only."""
    if visitor.user.tenant_id is not None:
        return visitor.user.tenant_id
    return None if name == _ALL_TENANTS else (await tenants.find(engine.database, name)).id


async def _find_user(engine: Engine, visitor: Visitor, login: str) -> User:
    user = await engine.users.find(login)
    if visitor.user.tenant_id not in (None, user.tenant_id):
        raise NotFound(f"There is no user {login[:80]}")
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
        key = await engine.keys.create(visitor.tenant_id, form["name"], scopes)
    except InvalidInput as error:
        return await _keys_page(request, engine, visitor, error=error)
    await _record(engine, visitor, "key_create", key[-4:], name=form["name"], scopes=sorted(scopes))
    return await _keys_page(request, engine, visitor, made=key)


@router.post("/keys/{key_id}/revoke")
async def revoke_key(request: Request, engine: EngineDep, visitor: AdminDep, key_id: int) -> Response:
    await engine.keys.revoke(visitor.tenant_id, key_id)
    await _record(engine, visitor, "key_revoke", str(key_id))
    return redirect(request, "/settings/keys", "API key revoked.")


async def _keys_page(
    request: Request,
    engine: Engine,
    visitor: Visitor,
    *,
    made: str | None = None,
    error: MailwrightError | None = None,
) -> Response:
    found = await engine.keys.list_all(visitor.tenant_id)
    return await _page(request, visitor, "keys", error, keys=found[::-1], made=made, scopes=SCOPES)


# Limits.

_NUMBERS: Final = ("rate_per_second", "rate_per_hour", "daily_limit", "max_in_flight")


@router.get("/limits")
async def show_limits(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    return await _limits_page(request, engine, visitor)


@router.post("/limits")
async def change_limits(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    """Save the limits of the tenant. An empty field means the default of the installation."""
    _require_installation(visitor)
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
    return redirect(request, "/settings/limits", "Limits saved. They apply to queued emails immediately.")


async def _limits_page(
    request: Request,
    engine: Engine,
    visitor: Visitor,
    form: Fields | None = None,
    error: MailwrightError | None = None,
) -> Response:
    tenant = await tenants.find(engine.database, visitor.tenant)
    shown = form or {
        name: getattr(tenant, name)
        for name in (*_NUMBERS, "working_hours", "timezone", "warmup_since", "frequency_cap", "weight")
    } | tenant_rails_fields(tenant.guard_rails)
    may_change = visitor.user.tenant_id is None
    limits = engine.defaults.limits
    return await _page(
        request,
        visitor,
        "limits",
        error,
        form=shown,
        limits=limits,
        rails=engine.campaigns.rails,
        may_change=may_change,
    )


# Tracking.


@router.get("/tracking")
async def show_tracking(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    return await _tracking_page(request, engine, visitor)


@router.post("/tracking")
async def change_tracking(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    """Save the tracking mode and the tracking host of the tenant."""
    _require_installation(visitor)
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
    return redirect(request, "/settings/tracking", "Tracking saved. It applies to emails that are sent from now on.")


async def _tracking_page(
    request: Request,
    engine: Engine,
    visitor: Visitor,
    form: Fields | None = None,
    error: MailwrightError | None = None,
) -> Response:
    tenant = await tenants.find(engine.database, visitor.tenant)
    return await _page(
        request,
        visitor,
        "tracking",
        error,
        form=form or {"tracking": tenant.tracking or "", "tracking_host": tenant.tracking_host or ""},
        installation=engine.settings.tracking,
        effective=strictest(engine.settings.tracking, parse_mode(tenant.tracking)),
        host=tenant.tracking_host or engine.public_url,
        may_change=visitor.user.tenant_id is None,
    )


# Providers, and the sender's domain.


@router.get("/providers")
async def show_providers(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    known = {each.provider: each for each in await quotas.load_quotas(engine.database)}
    seen = await presence_by_provider(engine.database, engine.clock.now(), engine.defaults.providers)
    return await _page(request, visitor, "providers", None, seen=seen, quotas=known, learned_rate=learned_rate_of)


@router.get("/domain")
async def show_domain(request: Request, visitor: AdminDep) -> Response:
    return await _page(request, visitor, "domain", None)


@router.get("/domain/checks")
async def check_domain(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    """Check DNS after the page has loaded, because that can be slow."""
    checks = [each async for each in check_sender(engine.settings)]
    return fragment(request, visitor, "settings/domain_checks.html", checks=checks)


# Health.


@router.get("/health")
async def show_health(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    """Show the state of the installation, checked now."""
    if visitor.user.tenant_id is not None:
        raise Forbidden("Only administrators of the installation can see its health.")
    findings = await check_health(engine.settings, engine.database, engine.clock)
    return await _page(request, visitor, "health", None, findings=findings)


# Audit log.


@router.get("/audit-log")
async def show_audit_log(
    request: Request,
    engine: EngineDep,
    visitor: AdminDep,
    cursor: Annotated[str | None, Query(max_length=200)] = None,
    subject: Annotated[str, Query(max_length=254)] = "",
) -> Response:
    """Show the audit log. Administrators of the installation also see entries without a tenant."""
    before = decode_cursor("deed", cursor)[0] if cursor else _NEWEST
    tenant_id = None if visitor.user.tenant_id is None else visitor.tenant_id
    found = await list_entries(
        engine.database, tenant_id=tenant_id, limit=_PAGE, before=before, subject=subject or None
    )
    following = encode_cursor("deed", found[-1].id) if len(found) == _PAGE else None
    names = {tenant.id: tenant.name for tenant in await tenants.list_all(engine.database)}
    values = {"entries": found, "following": following, "tenant_names": names, "is_first": cursor is None}
    return await _page(request, visitor, "audit_log", None, subject=subject, **values)


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


def _require_installation(visitor: Visitor) -> None:
    if visitor.user.tenant_id is not None:
        raise Forbidden("Only administrators of the installation can change this.")
