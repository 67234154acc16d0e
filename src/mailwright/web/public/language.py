"""The language of a page: what the recipient chose, else what we know of the contact, else what the browser says."""

from collections.abc import Iterator

from starlette.requests import Request

from mailwright.web.public.texts import LANGUAGES

DEFAULT = next(iter(LANGUAGES))
# Browsers send a few; a header with more is not read to its end.
MOST_WISHES = 20


def language_of(request: Request, locale: str | None = None) -> str:
    return chosen_language(request) or usual_language(request, locale)


def chosen_language(request: Request) -> str | None:
    """As the language links of our own pages put it."""
    return supported_language(request.query_params.get("lang", ""))


def usual_language(request: Request, locale: str | None) -> str:
    """What this recipient would see without choosing."""
    wishes = (locale or "", *_wishes(request.headers.get("accept-language", "")))
    return next((language for wish in wishes if (language := supported_language(wish))), DEFAULT)


def supported_language(locale: str) -> str | None:
    """`pt-BR`, `pt_BR` and `PT` are all `pt`; a language that the pages do not speak is None."""
    language = locale.replace("_", "-").partition("-")[0].strip().lower()
    return language if language in LANGUAGES else None


def _wishes(header: str) -> Iterator[str]:
    """The best liked first; among equals the order of the header."""
    wishes = [_wish(part) for part in header.split(",", MOST_WISHES)[:MOST_WISHES]]
    return (language for weight, language in sorted(wishes, key=lambda wish: -wish[0]) if weight > 0)


def _wish(part: str) -> tuple[float, str]:
    language, _, parameter = part.partition(";")
    name, _, weight = parameter.partition("=")
    if name.strip().lower() != "q":
        return 1.0, language.strip()
    try:
        liking = float(weight)
    except ValueError:
        return 0.0, language.strip()
    return (liking if 0 <= liking <= 1 else 0.0), language.strip()
