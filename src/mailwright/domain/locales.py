"""Locales: `pt-BR` is Portuguese as in Brazil; whoever has no text of their own reads the next wider one."""

import re
from collections.abc import Mapping
from typing import TypeVar

# Whoever has no text in their own language reads this one.
DEFAULT_LOCALE = ""

_LOCALE = re.compile(r"([a-z]{2,3})(?:-([a-z]{4}))?(?:-([a-z]{2}|[0-9]{3}))?", re.ASCII)

Text = TypeVar("Text")


def normal(locale: str) -> str | None:
    """`PT_br` is `pt-BR`; None for what is no locale."""
    found = _LOCALE.fullmatch(locale.strip().lower().replace("_", "-"))
    if found is None:
        return None
    language, script, region = found.groups()
    parts = (language, script.capitalize() if script else None, region.upper() if region else None)
    return "-".join(part for part in parts if part)


def fallback_locales(locale: str | None) -> list[str]:
    """From the narrowest to everyone: `pt-BR`, `pt`, and the text that is for all."""
    parts = (normal(locale or "") or DEFAULT_LOCALE).split("-")
    names = ["-".join(parts[:length]) for length in range(len(parts), 0, -1)]
    return [*(name for name in names if name), DEFAULT_LOCALE]


def best(texts: Mapping[str, Text], locale: str | None) -> Text:
    """What this reader gets, out of texts by locale; one of them is for everyone."""
    return next(texts[name] for name in fallback_locales(locale) if name in texts)
