"""Signed links of recipients: verify tokens, render pages and errors."""

import re
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.responses import Response

from mailwright.app.wiring import Engine
from mailwright.domain import address
from mailwright.domain.errors import NotDurable, NotFound
from mailwright.domain.ids import is_uuid
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.unsubscribe_tokens import (
    FIRST_TENANT,
    InvalidToken,
    UnsubscribeTokens,
    parse_amazonsender_token,
    unsubscribe_link,
)
from mailwright.ops.logs import logger
from mailwright.outbox import tenants
from mailwright.outbox.installation import UNSUBSCRIBE_SECRET, find_secret, get_or_create_secret
from mailwright.outbox.pending_erasures import ErasurePending, refuse_erasing
from mailwright.web.errors import HEADERS, problem
from mailwright.web.languages import chosen_language, language_of
from mailwright.web.public.pages import page
from mailwright.web.public.theme import load_theme

# The source that is recorded with changes made on these pages.
SOURCE = "reader"

log = logger(__name__)

_SUBMISSION_ID = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class SubscriberLinks:
    """The links of a recipient. They are relative, so that they work behind any proxy path."""

    unsubscribe: str
    resubscribe: str
    preferences: str
    confirm: str

    def in_language(self, language: str | None) -> "SubscriberLinks":
        """Return the same links with the chosen language added to each."""
        if language is None:
            return self
        return SubscriberLinks(
            *(
                f"{link}&lang={language}"
                for link in (self.unsubscribe, self.resubscribe, self.preferences, self.confirm)
            )
        )


@dataclass(frozen=True, slots=True)
class LinkRecipient:
    tenant_id: int
    email: str
    list_key: str
    links: SubscriberLinks
    message_id: str | None = None  # the message that contained the link
    confirms_consent: bool = False  # whether the confirmation link is also for the consent to tracking
    submission_id: str | None = None  # the submitted form that the confirmation link belongs to
    is_test: bool = False  # The link is from a test email, so it changes nothing.

    @property
    def masked(self) -> str:
        """The masked address. Emails get forwarded, so a link must not reveal the full address."""
        return address.mask(self.email)


async def recipient_of(
    request: Request, engine: Engine, *, returns: bool = False, confirms: bool = False
) -> LinkRecipient:
    """Verify the token of a link. `returns` expects a resubscribe link, `confirms` a confirmation link."""
    token, name = request.query_params.get("token", ""), request.query_params.get("tenant", tenants.DEFAULT)
    tenant_id = await tenant_named(engine, name)
    tokens = UnsubscribeTokens(*await link_secrets(engine)).for_tenant(tenant_id)
    is_test = not confirms and _is_of_test(tokens, token, returns=returns)
    tokens = tokens.for_test() if is_test else tokens
    try:
        purpose = tokens.for_resubscribe() if returns else _confirmation(tokens, token) if confirms else tokens
        leaving = purpose.parse(token)
    except InvalidToken:
        if returns or confirms or "tenant" in request.query_params:
            raise
        leaving = parse_amazonsender_token(token, engine.public_pages.configured_secrets)
        name = engine.settings.mailout_tenant
        tenant_id = await tenant_named(engine, name)
        tokens = UnsubscribeTokens(*await link_secrets(engine)).for_tenant(tenant_id)
    try:
        email = address.normal(leaving.email)
    except address.InvalidAddress as error:
        raise InvalidToken from error
    tenant = None if tenant_id == FIRST_TENANT else name
    confirmation = _confirmation(tokens, token)
    leave, back = tokens.make(*leaving), tokens.for_resubscribe().make(*leaving)
    named = request.query_params.get("message", "")
    message = named if is_uuid(named) else None
    submitted = request.query_params.get("form", "")
    submission = submitted if _SUBMISSION_ID.fullmatch(submitted) else None
    links = SubscriberLinks(
        unsubscribe=unsubscribe_link("unsubscribe", leave, tenant, message),
        resubscribe=unsubscribe_link("resubscribe", back, tenant, message),
        preferences=unsubscribe_link("preferences", leave, tenant, message),
        confirm=unsubscribe_link("confirm", confirmation.make(*leaving), tenant)
        + (f"&form={submission}" if submission else ""),
    )
    with_consent = confirmation is tokens.for_confirmation(with_consent=True)
    return LinkRecipient(tenant_id, email, leaving.list_key, links, message, with_consent, submission, is_test)


async def refuse_erasing_recipient(engine: Engine, recipient: LinkRecipient) -> None:
    """Raise `ErasurePending` if the recipient's data is being erased, because then there is nothing to choose."""
    async with engine.database.read() as tx:
        await refuse_erasing(tx, recipient.tenant_id, [recipient.email])


def _is_of_test(tokens: UnsubscribeTokens, token: str, *, returns: bool) -> bool:
    """Return whether a link is from a test email. The signature decides, so that nobody can disable a real link."""
    test = tokens.for_test()
    try:
        (test.for_resubscribe() if returns else test).parse(token)
    except InvalidToken:
        return False
    return True


def _confirmation(tokens: UnsubscribeTokens, token: str) -> UnsubscribeTokens:
    """Return the tokens with which a confirmation link was made: with the consent to tracking, or without."""
    with_consent = tokens.for_confirmation(with_consent=True)
    try:
        with_consent.parse(token)
    except InvalidToken:
        return tokens.for_confirmation()
    return with_consent


async def recipient_page(
    request: Request,
    engine: Engine,
    recipient: LinkRecipient,
    template: str,
    *,
    locale: str | None,
    language: str | None = None,
    **values: Any,
) -> Response:
    """Render a page for a recipient in their language."""
    chosen = language or chosen_language(request)
    return page(
        template,
        chosen or language_of(request, locale),
        theme=await load_theme(engine, recipient.tenant_id),
        email=recipient.masked,
        links=recipient.links.in_language(chosen),
        **values,
    )


async def tenant_named(engine: Engine, name: str) -> int:
    if not name.isascii() or not name.isprintable():
        raise InvalidToken  # Not a valid tenant name, and PostgreSQL rejects such text.
    try:
        return (await tenants.find(engine.database, name)).id
    except NotFound as error:
        raise InvalidToken from error


async def link_secrets(engine: Engine) -> list[str]:
    """Return the signing secrets, current first.

    Links in old emails stay valid, including those signed with the generated secret.
    """
    pages = engine.public_pages
    if pages.secret is None:
        return [await get_or_create_secret(engine.database, UNSUBSCRIBE_SECRET), *pages.retired]
    ours = await find_secret(engine.database, UNSUBSCRIBE_SECRET)
    return [pages.secret, *pages.retired, *([ours] if ours else [])]


def wants_json(request: Request) -> bool:
    """Return whether the client asks for JSON. Mailbox providers and browsers get HTML."""
    accepted = request.headers.get("accept", "").lower()
    return "application/json" in accepted and "text/html" not in accepted


class PublicRoute(APIRoute):
    """A route that renders errors as a page in the visitor's language, or as a problem for API clients."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_with_error_pages(request: Request) -> Response:
            try:
                return await handle(request)
            except InvalidToken as error:
                return error_page(request, "invalid_link", HTTPStatus.BAD_REQUEST, error.code, str(error))
            except ErasurePending as error:
                return error_page(request, "erasing", HTTPStatus.CONFLICT, error.code, str(error))
            except NotFound as error:
                return error_page(request, "not_found", HTTPStatus.NOT_FOUND, error.code, str(error))
            except NotDurable as error:
                # The error message of the database is only logged.
                log.warning("not_durable", path=request.url.path, reason=str(error))
                return error_page(request, "unavailable", HTTPStatus.SERVICE_UNAVAILABLE, error.code, str(NotDurable()))

        return handle_with_error_pages


async def page_not_found(request: Request, _error: Exception) -> Response:
    """Respond to requests that match no route: with a page for browsers, with a problem for other clients."""
    status = HTTPStatus.NOT_FOUND
    if "text/html" not in request.headers.get("accept", "").lower():
        return problem(status, status.name, status.description)
    return error_page(request, "not_found", status, status.name, status.description)


def error_page(request: Request, template: str, status: HTTPStatus, code: str, detail: str) -> Response:
    if wants_json(request):
        return problem(status, code, detail)
    # Offer other languages, except after a failed save, because the language link would repeat that request.
    here = "?token=" if status in (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND) else None
    return page(template, language_of(request), status, headers=HEADERS.get(status), here=here)
