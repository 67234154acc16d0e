"""The hosted page of a sign-up form, and the address that embedded copies of it post to."""

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from importlib.resources import files
from typing import Any, Final, assert_never
from urllib.parse import urlsplit

from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.app.address_checks import make_address_checks
from mailwright.app.wiring import Engine
from mailwright.audience.form_submissions import FormSubmission
from mailwright.audience.forms import SignUpForm
from mailwright.audience.lists import List, list_all
from mailwright.audience.sign_up import SignUpRequest, SignUpResult, SignUpService
from mailwright.domain.errors import NotFound
from mailwright.domain.sign_up_forms import (
    FieldProblem,
    FormAnswers,
    consent_input,
    field_input,
    parse_answers,
)
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
from mailwright.web.public.sign_up import FRAMED_WITH_SCRIPT, RETRY_SECONDS
from mailwright.web.public.subscribers import PublicRoute, link_secrets, wants_json
from mailwright.web.public.texts import LANGUAGES, Texts
from mailwright.web.public.theme import load_theme
from mailwright.web.state import EngineDep

SCRIPT: Final = files(__package__).joinpath("form.js").read_text(encoding="utf-8")

_WRONG_ADDRESS: Final[Mapping[SignUpResult, Callable[[Texts], str]]] = {
    SignUpResult.INVALID_ADDRESS: lambda texts: texts.sign_up_invalid_email,
    SignUpResult.UNDELIVERABLE: lambda texts: texts.form_undeliverable,
}

router = APIRouter(prefix="/form", route_class=PublicRoute, include_in_schema=False)


@router.get("/~script.js")
async def script() -> Response:
    headers = {"Access-Control-Allow-Origin": "*", "Cache-Control": "public, max-age=3600"}
    return Response(SCRIPT, media_type="text/javascript", headers={**headers, "X-Content-Type-Options": "nosniff"})


@router.get("/{form_id}/challenge")
async def challenge(form_id: str, engine: EngineDep) -> Response:
    """Return a proof of work for the script of an embedded form."""
    form, _ = await _found(engine, form_id)
    return json_response(await new_challenge(engine, form.form_id), headers=SHARED)


@router.api_route("/{form_id}", methods=["GET", "HEAD"])
async def show(request: Request, form_id: str, engine: EngineDep) -> Response:
    form, target = await _found(engine, form_id)
    return await _form_page(engine, form, target, language_of(request))


@router.post("/{form_id}")
async def submit(request: Request, form_id: str, engine: EngineDep) -> Response:
    """Sign up. The response is the same for everyone, so that it does not reveal who is subscribed."""
    form, target = await _found(engine, form_id)
    given = await read_form(request)
    language = supported_language(given.get("lang", [""])[0]) or language_of(request)
    answers = parse_answers(form.content, given)
    if answers.problems:
        return await _refused(request, engine, form, target, language, given, _problem_texts(answers, language))
    if not await is_protected(engine, form.form_id, given):
        return await _ask_again(request, engine, form, target, language, given)
    result = await _sign_up(request, engine, form, answers, given, language)
    if result in _WRONG_ADDRESS:
        wrong = {"email": _WRONG_ADDRESS[result](LANGUAGES[language])}
        return await _refused(request, engine, form, target, language, given, wrong)
    if result is SignUpResult.RATE_LIMITED:
        return await _too_many(request, engine, form, target, language)
    if wants_json(request):
        return json_response({"ok": True, "listKey": form.list_key}, headers=SHARED)
    return await _page(engine, form, "form_sent", language, list=target, here=None)


async def _found(engine: Engine, form_id: str) -> tuple[SignUpForm, List]:
    """Find a form and its list. A form whose list is archived or deleted is not found."""
    form = await engine.forms.find_public(form_id)
    known = await list_all(engine.database, form.tenant_id)
    target = next((each for each in known if each.list_key == form.list_key), None)
    if target is None:
        raise NotFound
    return form, target


async def _sign_up(
    request: Request,
    engine: Engine,
    form: SignUpForm,
    answers: FormAnswers,
    given: Mapping[str, Sequence[str]],
    language: str,
) -> SignUpResult:
    secret, *_ = await link_secrets(engine)
    checks = make_address_checks(engine.settings)
    service = SignUpService(engine.database, engine.clock, await engine.double_opt_in(), secret, checks.can_receive)
    return await service.submit(
        form.tenant_id,
        form.list_key,
        SignUpRequest(
            email=given.get("email", [""])[0],
            remote_address=request.client.host if request.client else "",
            locale=language,
            honeypot=given.get("website", [""])[0],
            submission=FormSubmission(form, answers, language, _source(request, engine, form)),
        ),
    )


def _source(request: Request, engine: Engine, form: SignUpForm) -> str:
    """Return where the form was: the site that embeds it, as browsers report it, or its own page."""
    own = f"{engine.public_url}/form/{form.form_id}"
    origin = request.headers.get("origin", "")[:200]
    is_site = origin.isprintable() and urlsplit(origin).scheme in ("http", "https")
    return origin if is_site and not own.startswith(f"{origin}/") else own


def _problem_texts(answers: FormAnswers, language: str) -> dict[str, str]:
    texts = LANGUAGES[language]
    return {name: _problem_text(texts, name, each) for name, each in answers.problems.items()}


def _problem_text(texts: Texts, name: str, found: FieldProblem) -> str:
    if name.startswith("consent."):
        return texts.form_consent_missing
    match found:
        case FieldProblem.MISSING:
            return texts.form_missing
        case FieldProblem.NOT_A_NUMBER:
            return texts.form_not_a_number
        case FieldProblem.NOT_A_DATE:
            return texts.form_not_a_date
        case FieldProblem.INVALID:
            return texts.form_invalid
        case _:
            assert_never(found)


async def _refused(
    request: Request,
    engine: Engine,
    form: SignUpForm,
    target: List,
    language: str,
    given: Mapping[str, Sequence[str]],
    wrong: Mapping[str, str],
) -> Response:
    status = HTTPStatus.UNPROCESSABLE_ENTITY
    if wants_json(request):
        detail = " ".join(f"{name}: {text}" for name, text in wrong.items())
        return problem(status, "INVALID_FORM", detail, headers=SHARED)
    return await _form_page(engine, form, target, language, given, wrong, status)


async def _too_many(request: Request, engine: Engine, form: SignUpForm, target: List, language: str) -> Response:
    status, wait = HTTPStatus.TOO_MANY_REQUESTS, {"Retry-After": RETRY_SECONDS}
    if wants_json(request):
        detail = "Too many sign-ups from this network. Try again later."
        return problem(status, "TOO_MANY_SIGN_UPS", detail, headers={**SHARED, **wait})
    return await _page(engine, form, "too_many", language, status, headers=wait, list=target, here=None)


async def _ask_again(
    request: Request,
    engine: Engine,
    form: SignUpForm,
    target: List,
    language: str,
    given: Mapping[str, Sequence[str]],
) -> Response:
    """Show a second page with one button, for visitors without scripts."""
    if wants_json(request):
        return problem(HTTPStatus.FORBIDDEN, REQUIRED, SOLVE_FIRST, headers=SHARED)
    names = ["email", *map(field_input, form.content.fields), *map(consent_input, form.content.consents)]
    hidden = kept_inputs(given, names) | {"lang": [language]}
    step = await new_step(engine, form.form_id, given, request)
    if step is None:
        return await _too_many(request, engine, form, target, language)
    values: dict[str, Any] = {"hidden": hidden, "step": step, "action": form.form_id}
    return await _page(engine, form, "form_step", language, list=target, here=None, **values)


async def _form_page(
    engine: Engine,
    form: SignUpForm,
    target: List,
    language: str,
    given: Mapping[str, Sequence[str]] | None = None,
    wrong: Mapping[str, str] | None = None,
    status: HTTPStatus = HTTPStatus.OK,
) -> Response:
    entered = given or {}
    return await _page(
        engine,
        form,
        "form",
        language,
        status,
        list=target,
        here="?",
        action=f"{form.form_id}?lang={language}",
        content=form.content,
        given=lambda name: (entered.get(name) or [""])[0][:500],
        problems={"email": "", **dict.fromkeys(_inputs(form), ""), **(wrong or {})},
        field_input=field_input,
        consent_input=consent_input,
        **await new_challenge(engine, form.form_id),
    )


def _inputs(form: SignUpForm) -> list[str]:
    return [*map(field_input, form.content.fields), *map(consent_input, form.content.consents)]


async def _page(
    engine: Engine,
    form: SignUpForm,
    template: str,
    language: str,
    status: HTTPStatus = HTTPStatus.OK,
    *,
    headers: Mapping[str, str] | None = None,
    **values: Any,
) -> Response:
    theme = await load_theme(engine, form.tenant_id)
    return page(template, language, status, headers=headers, rules=FRAMED_WITH_SCRIPT, theme=theme, **values)
