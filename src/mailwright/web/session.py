"""Authenticate users of the dashboard and check their role, for pages, forms and streams.

A route takes `visitor: ViewerDep`, `EditorDep` or `AdminDep`. A request without a session is redirected to the sign-in
page. A request that changes something must come from a page of this dashboard: its Origin must match, and it must carry
the form token of the session, as a field or as a header.
"""

from collections.abc import Callable, Coroutine
from dataclasses import field
from datetime import UTC, tzinfo
from typing import Annotated, Any, Final
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from fastapi import Depends, Request
from starlette.responses import Response

from mailwright.access.roles import ROLE_SCOPES, Forbidden, Role, Scope
from mailwright.access.sessions import Session, form_token, is_form_token
from mailwright.access.users import User
from mailwright.app.wiring import Engine
from mailwright.domain.errors import MailwrightError
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.network import is_numeric_or_local
from mailwright.web.bodies import FORM_WAS_READ
from mailwright.web.languages import use_language_of_user
from mailwright.web.state import engine_of

FORM_FIELD: Final = "form_token"
FORM_HEADER: Final = "X-Form-Token"
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
# The prefix `__Host-` binds a cookie to this host and to HTTPS. Browsers reject it over HTTP, for example on localhost.
_SECURE_PREFIX: Final = "__Host-"
_COOKIE: Final = "mailwright"
# The pages that set up a second factor, so they cannot require it.
_ACCOUNT_PATH: Final = "/account"


class SignInRequired(MailwrightError):
    """Sign in first."""

    code = "SIGN_IN_NEEDED"


class SecondFactorRequired(MailwrightError):
    """The password is correct. Enter the code of the second factor."""

    code = "CODE_NEEDED"


class SecondFactorMissing(Forbidden):
    """Set up two-factor authentication on your account page first. Your tenant requires it."""

    code = "SECOND_FACTOR_MISSING"


class ForeignOrigin(Forbidden):
    """This request did not come from MAILWRIGHT_BASE_URL. Open the dashboard there, or change the setting."""

    code = "NOT_FROM_HERE"


@dataclass(frozen=True, slots=True)
class Visitor:
    """A signed-in user and the tenant whose data they see."""

    session: Session
    token: str = field(repr=False)
    zone: tzinfo = UTC  # the tenant's time zone

    @property
    def user(self) -> User:
        return self.session.user

    @property
    def actor(self) -> str:
        """The user's name in the audit log."""
        return self.session.user.login

    @property
    def tenant_id(self) -> int:
        return self.session.tenant_id

    @property
    def tenant(self) -> str:
        return self.session.tenant

    @property
    def form_token(self) -> str:
        return form_token(self.token)

    @property
    def scopes(self) -> frozenset[Scope]:
        return ROLE_SCOPES[self.user.role]

    def may(self, role: Role | str) -> bool:
        return self.user.role.allows(Role(role))


async def visitor_of(request: Request, needed: Role = Role.VIEWER, *, is_seen: bool = True) -> Visitor:
    """Return the signed-in user, or raise if their role is not sufficient.

    A stream passes `is_seen=False`, so that it does not extend the session.
    """
    visitor = await find_visitor(request, is_seen=is_seen)
    if visitor is None:
        raise SignInRequired
    if visitor.session.awaits_code:
        raise SecondFactorRequired
    if visitor.session.lacks_second_factor and not request.url.path.startswith(_ACCOUNT_PATH):
        raise SecondFactorMissing
    await require_own_form(request, visitor.token)
    if not visitor.may(needed):
        raise Forbidden(
            "This requires the role {needed}. Your role is {role}.", needed=needed.label, role=visitor.user.role.label
        )
    return visitor


async def find_visitor(request: Request, *, is_seen: bool = True) -> Visitor | None:
    token = session_token(request)
    engine = engine_of(request)
    session = await engine.sessions.find(token, is_seen=is_seen) if token else None
    if session is None:
        return None
    use_language_of_user(request, session.user.language)
    return Visitor(session, token or "", ZoneInfo(session.timezone or engine.defaults.limits.timezone))


async def _viewer(request: Request) -> Visitor:
    return await visitor_of(request, Role.VIEWER)


async def _editor(request: Request) -> Visitor:
    return await visitor_of(request, Role.EDITOR)


async def _admin(request: Request) -> Visitor:
    return await visitor_of(request, Role.ADMIN)


ViewerDep = Annotated[Visitor, Depends(_viewer)]
EditorDep = Annotated[Visitor, Depends(_editor)]
AdminDep = Annotated[Visitor, Depends(_admin)]


def access_check(request: Request, needed: Role = Role.VIEWER) -> Callable[[], Coroutine[Any, Any, bool]]:
    """Return a function with which a stream checks whether the user still has access, without extending the session."""

    async def is_allowed() -> bool:
        try:
            await visitor_of(request, needed, is_seen=False)
        except (SignInRequired, SecondFactorRequired, Forbidden):
            return False
        return True

    return is_allowed


# Origin of requests.


async def require_own_form(request: Request, token: str) -> None:
    """Reject a change that another site requested (cross-site request forgery)."""
    if request.method in SAFE_METHODS:
        return
    require_own_origin(request)
    shown = request.headers.get(FORM_HEADER)
    if shown is None and _is_form(request):
        given = (await request.form()).get(FORM_FIELD)
        setattr(request.state, FORM_WAS_READ, True)
        shown = given if isinstance(given, str) else None
    if shown is None or not is_form_token(shown, token):
        raise ForeignOrigin


def require_own_origin(request: Request) -> None:
    """Check the Origin header, which browsers set and pages cannot change."""
    origin = request.headers.get("origin")
    if origin is None:
        # Some browsers omit Origin for requests of the same origin, but send Sec-Fetch-Site.
        if request.headers.get("sec-fetch-site") == "same-origin":
            return
        raise ForeignOrigin
    if origin not in _own_origins(request, engine_of(request)):
        raise ForeignOrigin


def _own_origins(request: Request, engine: Engine) -> set[str]:
    """Return the configured origin and, if the Host header is an IP address or localhost, its origin too.

    Any other Host could be a name of another site that resolves to this server (DNS rebinding).
    """
    public = urlsplit(engine.public_url)
    origins = {f"{public.scheme}://{public.netloc}"}
    shown = request.headers.get("host", "")
    if is_numeric_or_local(urlsplit(f"//{shown}").hostname or ""):
        origins.add(f"{request.url.scheme}://{shown}")
    return origins


def _is_form(request: Request) -> bool:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind in {"application/x-www-form-urlencoded", "multipart/form-data"}


# The cookie.


def session_token(request: Request) -> str | None:
    return read_cookie(request, _COOKIE)


def set_session_cookie(request: Request, response: Response, token: str) -> None:
    """Set a cookie that lasts until the browser closes. The server decides when the session expires."""
    set_cookie(request, response, _COOKIE, token)


def delete_session_cookie(request: Request, response: Response) -> None:
    delete_cookie(request, response, _COOKIE)


def read_cookie(request: Request, name: str) -> str | None:
    return request.cookies.get(_full_name(request, name))


def set_cookie(request: Request, response: Response, name: str, value: str) -> None:
    """Set a cookie that scripts cannot read and that browsers send to this host only."""
    is_secure = _is_secure(request)
    response.set_cookie(_full_name(request, name), value, path="/", secure=is_secure, httponly=True, samesite="lax")


def delete_cookie(request: Request, response: Response, name: str) -> None:
    is_secure = _is_secure(request)
    response.delete_cookie(_full_name(request, name), path="/", secure=is_secure, httponly=True, samesite="lax")


def _full_name(request: Request, name: str) -> str:
    return f"{_SECURE_PREFIX}{name}" if _is_secure(request) else name


def host_of(request: Request) -> str | None:
    return request.client.host if request.client else None


def _is_secure(request: Request) -> bool:
    """Return whether clients use HTTPS. Behind a proxy that terminates TLS, only the configured URL shows it."""
    return request.url.scheme == "https" or engine_of(request).public_url.startswith("https://")
