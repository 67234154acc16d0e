"""Choose the language of a public page: explicit choice, then the contact's, then the browser's."""

from collections.abc import Iterator

from starlette.requests import Request

from mailwright.web.public.texts import LANGUAGES

DEFAULT = next(iter(LANGUAGES))
# Accept-Language headers are cut to this length.
MAX_LANGUAGES = 20


def language_of(request: Request, locale: str | None = None) -> str:
    return chosen_language(request) or usual_language(request, locale)


def chosen_language(request: Request) -> str | None:
    """Return the language of the `lang` parameter, which the language links set."""
    return supported_language(request.query_params.get("lang", ""))


def usual_language(request: Request, locale: str | None) -> str:
    """Return the default language, without an explicit choice: the contact's, otherwise the browser's."""
    preferred = (locale or "", *_preferred(request.headers.get("accept-language", "")))
    return next((language for locale_ in preferred if (language := supported_language(locale_))), DEFAULT)


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
