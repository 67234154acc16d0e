"""Normalize locales and choose the best text for a recipient: `pt-BR` falls back to `pt`, then to the default."""

import re
from collections.abc import Mapping
from typing import TypeVar

# The key of the default text, for recipients whose locale has no text.
DEFAULT_LOCALE = ""

_LOCALE = re.compile(r"([a-z]{2,3})(?:-([a-z]{4}))?(?:-([a-z]{2}|[0-9]{3}))?", re.ASCII)

# Languages that are written from right to left, unless the locale names another script.
_RIGHT_TO_LEFT = frozenset(["ar", "arc", "ckb", "dv", "fa", "he", "ps", "sd", "ug", "ur", "yi"])
_RIGHT_TO_LEFT_SCRIPTS = frozenset(["Arab", "Hebr", "Syrc", "Thaa", "Nkoo", "Adlm"])

Text = TypeVar("Text")


def normal(locale: str) -> str | None:
    """Normalize a locale (`PT_br` becomes `pt-BR`); None if the text is not a locale."""
    match = _LOCALE.fullmatch(locale.strip().lower().replace("_", "-"))
    if match is None:
        return None
    language, script, region = match.groups()
    parts = (language, script.capitalize() if script else None, region.upper() if region else None)
    return "-".join(part for part in parts if part)


def is_right_to_left(locale: str) -> bool:
    language, *rest = (normal(locale) or DEFAULT_LOCALE).split("-")
    script = next((part for part in rest if len(part) == 4), None)
    return language in _RIGHT_TO_LEFT if script is None else script in _RIGHT_TO_LEFT_SCRIPTS


def fallback_locales(locale: str | None) -> list[str]:
    """List the locales to try, most specific first: `pt-BR`, `pt`, then the default."""
    parts = (normal(locale or "") or DEFAULT_LOCALE).split("-")
    names = ["-".join(parts[:length]) for length in range(len(parts), 0, -1)]
    return [*(name for name in names if name), DEFAULT_LOCALE]


def best(texts: Mapping[str, Text], locale: str | None) -> Text:
    """Choose the text for a recipient's locale. The texts must include one for the default locale."""
    return next(texts[name] for name in fallback_locales(locale) if name in texts)
