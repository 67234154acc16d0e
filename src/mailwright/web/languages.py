"""The language of a page: an explicit choice, the one of the user or contact, the browser's, or the installation's.

The API stays English.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from mailwright.domain.translation import Catalogue, current_catalogue, use_catalogue, using
from mailwright.ops.catalogues import LANGUAGES, load_catalogue
from mailwright.web.state import engine_of

T = TypeVar("T")

# Accept-Language headers are cut to this length.
MAX_LANGUAGES = 20
# Chosen on the sign-in page, where the user is not known yet.
_COOKIE: Final = "language"
_COOKIE_SECONDS: Final = 365 * 24 * 3600


@contextmanager
def translated(request: Request) -> Iterator[None]:
    """Translate the response to a request. `use_language_of_user` changes the language once the user is known."""
    request.state.is_translated = True
    with using(load_catalogue(usual_language(request, request.cookies.get(_COOKIE)))):
        yield


def use_language_of_user(request: Request, language: str | None) -> None:
    if language is not None and getattr(request.state, "is_translated", False):
        use_catalogue(load_catalogue(language))


def in_language_of_page(parts: AsyncIterator[T]) -> AsyncIterator[T]:
    """Write parts in the language of the page, also those that are made after the request was handled."""
    return _written_in(current_catalogue(), parts)


async def _written_in(catalogue: Catalogue, parts: AsyncIterator[T]) -> AsyncIterator[T]:
    while True:
        with using(catalogue):
            try:
                part = await anext(parts)
            except StopAsyncIteration:
                return
        yield part


def set_language_cookie(response: Response, language: str) -> None:
    """Store the language that was chosen in a browser.

    An unsupported value means that the browser's own language applies.
    """
    chosen = supported_language(language)
    if chosen is None:
        response.delete_cookie(_COOKIE, path="/")
    else:
        response.set_cookie(_COOKIE, chosen, max_age=_COOKIE_SECONDS, path="/", httponly=True, samesite="lax")


def language_of(request: Request, locale: str | None = None) -> str:
    return chosen_language(request) or usual_language(request, locale)


def chosen_language(request: Request) -> str | None:
    """Return the language of the `lang` parameter, which the language links set."""
    return supported_language(request.query_params.get("lang", ""))


def usual_language(request: Request, locale: str | None) -> str:
    """Return the language without an explicit choice: the contact's, the browser's, otherwise the installation's."""
    preferred = (locale or "", *_preferred(request.headers.get("accept-language", "")))
    return next((language for locale_ in preferred if (language := supported_language(locale_))), _default(request))


def _default(request: Request) -> str:
    return engine_of(request).settings.language


def supported_language(locale: str) -> str | None:
    """Map `pt-BR`, `pt_BR` and `PT` to `pt`; return None for an unsupported language."""
    language = locale.replace("_", "-").partition("-")[0].strip().lower()
    return language if language in LANGUAGES else None


def _preferred(header: str) -> Iterator[str]:
    """Yield the languages of an Accept-Language header by preference."""
    preferred = [_preference(part) for part in header.split(",", MAX_LANGUAGES)[:MAX_LANGUAGES]]
    return (language for weight, language in sorted(preferred, key=lambda locale_: -locale_[0]) if weight > 0)


def _preference(part: str) -> tuple[float, str]:
    language, _, parameter = part.partition(";")
    name, _, weight = parameter.partition("=")
    if name.strip().lower() != "q":
        return 1.0, language.strip()
    try:
        quality = float(weight)
    except ValueError:
        return 0.0, language.strip()
    return (quality if 0 <= quality <= 1 else 0.0), language.strip()
