"""The public sign-up form of a list, to link to, to embed or to post to."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, assert_never

from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.audience.sign_up import SignUpRequest, SignUpResult, SignUpService
from mailwright.audience.tracking_consent import can_track
from mailwright.web.bodies import json_response
from mailwright.web.errors import problem
from mailwright.web.languages import language_of, supported_language
from mailwright.web.public.forms import read_form
from mailwright.web.public.pages import page
from mailwright.web.public.proof_of_work import (
    REQUIRED,
    SHARED,
    SOLVE_FIRST,
    is_protected,
    kept_inputs,
    new_challenge,
    new_step,
)
from mailwright.web.public.public_lists import PublicList, find_public_list
from mailwright.web.public.subscribers import PublicRoute, link_secrets, wants_json
from mailwright.web.public.texts import LANGUAGES
from mailwright.web.public.theme import load_theme
from mailwright.web.state import EngineDep

# The form may be framed by other sites: it shows no personal data and has no session.
FRAMED_WITH_SCRIPT: Mapping[str, str] = {"frame-ancestors": "*", "script-src": "'self'"}
RETRY_SECONDS = "3600"

router = APIRouter(route_class=PublicRoute, include_in_schema=False)


@router.api_route("/subscribe/{list_key}", methods=["GET", "HEAD"])
async def show(request: Request, list_key: str, engine: EngineDep) -> Response:
    public_list = await find_public_list(request, engine, list_key)
    return await _form(engine, public_list, language_of(request), asks=await _asks_for_consent(engine, public_list))


@router.get("/subscribe/{list_key}/challenge")
async def challenge(request: Request, list_key: str, engine: EngineDep) -> Response:
    """Return a proof of work for the script of an embedded form."""
    public_list = await find_public_list(request, engine, list_key)
    return json_response(await new_challenge(engine, _form_name(public_list)), headers=SHARED)


@router.post("/subscribe/{list_key}")
async def sign_up(request: Request, list_key: str, engine: EngineDep) -> Response:
    """Sign up. The response is the same for everyone, so that it does not reveal who is subscribed."""
    public_list = await find_public_list(request, engine, list_key)
    form = await read_form(request)
    language = supported_language(form.get("lang", [""])[0]) or language_of(request)
    asks = await _asks_for_consent(engine, public_list)
    sign_up_request = SignUpRequest(
        email=form.get("email", [""])[0],
        remote_address=request.client.host if request.client else "",
        locale=language,
        honeypot=form.get("website", [""])[0],
        consent_wording=LANGUAGES[language].tracking_consent if asks and "tracking" in form else None,
    )
    if sign_up_request.has_valid_email and not await is_protected(engine, _form_name(public_list), form):
        return await _ask_again(request, engine, public_list, language, form)
    secret, *_ = await link_secrets(engine)
    service = SignUpService(engine.database, engine.clock, await engine.double_opt_in(), secret)
    result = await service.submit(public_list.tenant_id, list_key, sign_up_request)
    return await _respond(request, engine, public_list, sign_up_request, result, asks=asks)


async def _respond(
    request: Request,
    engine: EngineDep,
    public_list: PublicList,
    wanted: SignUpRequest,
    result: SignUpResult,
    *,
    asks: bool,
) -> Response:
    list_key, language = public_list.list.list_key, wanted.locale or language_of(request)
    match result:
        case SignUpResult.ACCEPTED if wants_json(request):
            return json_response({"ok": True, "listKey": list_key}, headers={"Cache-Control": "no-store"})
        case SignUpResult.ACCEPTED:
            return await _page("signed_up", engine, public_list, language, here=None)
        case SignUpResult.INVALID_ADDRESS | SignUpResult.UNDELIVERABLE if wants_json(request):
            return problem(HTTPStatus.UNPROCESSABLE_ENTITY, "INVALID_EMAIL", "Enter a valid email address.")
        case SignUpResult.INVALID_ADDRESS | SignUpResult.UNDELIVERABLE:
            return await _form(engine, public_list, language, wanted, asks=asks)
        case SignUpResult.RATE_LIMITED if wants_json(request):
            return problem(
                HTTPStatus.TOO_MANY_REQUESTS,
                "TOO_MANY_SIGN_UPS",
                "Too many sign-ups from this network. Try again later.",
                headers={"Retry-After": RETRY_SECONDS},
            )
        case SignUpResult.RATE_LIMITED:
            return await _too_many(engine, public_list, language)
        case other:
            assert_never(other)


async def _too_many(engine: EngineDep, public_list: PublicList, language: str) -> Response:
    wait, status = {"Retry-After": RETRY_SECONDS}, HTTPStatus.TOO_MANY_REQUESTS
    return await _page("too_many", engine, public_list, language, status=status, headers=wait, here=None)


def _form_name(public_list: PublicList) -> str:
    """Return the name for which a proof of work counts. It is never the ID of a form."""
    return f"list {public_list.tenant_id} {public_list.list.list_key}"


async def _ask_again(
    request: Request, engine: EngineDep, public_list: PublicList, language: str, given: Mapping[str, Sequence[str]]
) -> Response:
    """Show a second page with one button, for visitors without scripts."""
    if wants_json(request):
        return problem(HTTPStatus.FORBIDDEN, REQUIRED, SOLVE_FIRST, headers=SHARED)
    hidden = kept_inputs(given, ("email", "tracking")) | {"lang": [language]}
    step = await new_step(engine, _form_name(public_list), given, request)
    if step is None:
        return await _too_many(engine, public_list, language)
    action = public_list.link(public_list.list.list_key)
    values: dict[str, Any] = {"hidden": hidden, "step": step, "action": action}
    return await _page("form_step", engine, public_list, language, here=None, **values)


async def _asks_for_consent(engine: EngineDep, public_list: PublicList) -> bool:
    """Return whether the form asks for consent. Without double opt-in, anyone could give it for anyone."""
    if not public_list.list.requires_confirmation:
        return False
    async with engine.database.read() as tx:
        return await can_track(tx, engine.settings.tracking, public_list.tenant_id, public_list.list.list_key)


async def _form(
    engine: EngineDep,
    public_list: PublicList,
    language: str,
    wrong: SignUpRequest | None = None,
    *,
    asks: bool,
) -> Response:
    status = HTTPStatus.OK if wrong is None else HTTPStatus.UNPROCESSABLE_ENTITY
    return await _page(
        "sign_up",
        engine,
        public_list,
        language,
        status=status,
        here=public_list.here,
        action=public_list.link(public_list.list.list_key),
        is_invalid=wrong is not None,
        entered_email="" if wrong is None else wrong.email[:254],
        asks_for_consent=asks,
        consents=wrong is not None and wrong.consent_wording is not None,
        **await new_challenge(engine, _form_name(public_list)),
    )


async def _page(
    template: str,
    engine: EngineDep,
    public_list: PublicList,
    language: str,
    *,
    status: HTTPStatus = HTTPStatus.OK,
    headers: Mapping[str, str] | None = None,
    **values: Any,
) -> Response:
    return page(
        template,
        language,
        status,
        headers=headers,
        rules=FRAMED_WITH_SCRIPT,
        theme=await load_theme(engine, public_list.tenant_id),
        list=public_list.list,
        **values,
    )
