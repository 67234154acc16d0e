"""The language of a dashboard page: the one of the user's account, otherwise the browser's. The API stays English."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from fastapi import Request
from starlette.responses import Response

from mailwright.domain.translation import use_catalogue, using
from mailwright.web.catalogues import load_catalogue
from mailwright.web.public.language import supported_language, usual_language

# Chosen on the sign-in page, where the user is not known yet.
_COOKIE: Final = "language"
_COOKIE_SECONDS: Final = 365 * 24 * 3600


@contextmanager
def translated(request: Request) -> Iterator[None]:
    """Translate what a request shows. `use_language_of_user` changes the language once the user is known."""
    request.state.is_translated = True
    with using(load_catalogue(usual_language(request, request.cookies.get(_COOKIE)))):
        yield


def use_language_of_user(request: Request, language: str | None) -> None:
    if language is not None and getattr(request.state, "is_translated", False):
        use_catalogue(load_catalogue(language))


def set_language_cookie(response: Response, language: str) -> None:
    """Remember the language of a browser. An unsupported one means the language that the browser asks for."""
    chosen = supported_language(language)
    if chosen is None:
        response.delete_cookie(_COOKIE, path="/")
    else:
        response.set_cookie(_COOKIE, chosen, max_age=_COOKIE_SECONDS, path="/", httponly=True, samesite="lax")
