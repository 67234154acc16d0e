"""Render emails for previews in light and dark mode."""

import re
from html import escape
from typing import Final

from mailwright.content.template import RenderedEmail

_SCHEME = re.compile(r"\(\s*prefers-color-scheme\s*:\s*(dark|light)\s*\)", re.IGNORECASE)
_HEAD = re.compile(r"</head\s*>", re.IGNORECASE)

# These media queries always or never match. They replace prefers-color-scheme, to ignore the viewer's own setting.
_ALWAYS: Final = "(min-width: 0px)"
_NEVER: Final = "(max-width: 0px)"
_LIGHT_PAGE: Final = "<style>:root{color-scheme:light}</style>"
_DARK_PAGE: Final = "<style>:root{color-scheme:dark}</style>"
# Simulates email clients that force dark mode: invert everything, then invert images back.
_DARKENED: Final = (
    "<style>:root{color-scheme:light;background:#fff;filter:invert(.92) hue-rotate(180deg)}"
    "img,video{filter:invert(1) hue-rotate(180deg)}</style>"
)


def in_light(html: str) -> str:
    return _with_style(_SCHEME.sub(lambda found: _media_query(found[1].lower() == "light"), html), _LIGHT_PAGE)


def in_dark(html: str) -> str:
    """Apply the dark mode styles of the email, or simulate a client that forces dark mode."""
    if not has_dark_style(html):
        return _with_style(html, _DARKENED)
    return _with_style(_SCHEME.sub(lambda found: _media_query(found[1].lower() == "dark"), html), _DARK_PAGE)


def has_dark_style(html: str) -> bool:
    return any(found[1].lower() == "dark" for found in _SCHEME.finditer(html))


def preview_html(rendered: RenderedEmail, *, is_dark: bool) -> str:
    html = rendered.html if rendered.html is not None else _plain(rendered.text or "")
    return in_dark(html) if is_dark else in_light(html)


def notice(text: str) -> str:
    """Return a page for the frame when there is no email to show."""
    style = "font:15px/1.5 system-ui,sans-serif;color:#5d6069;padding:24px;margin:0"
    return f'<!DOCTYPE html><html lang="en"><title>No preview</title><p style="{style}">{escape(text)}</p></html>'


def _media_query(is_on: bool) -> str:
    return _ALWAYS if is_on else _NEVER


def _plain(text: str) -> str:
    style = "font:14px/1.5 ui-monospace,monospace;white-space:pre-wrap;padding:24px;margin:0"
    return f'<!DOCTYPE html><html><title>Text</title><pre style="{style}">{escape(text)}</pre></html>'


def _with_style(html: str, style: str) -> str:
    head = _HEAD.search(html)
    return html + style if head is None else html[: head.start()] + style + html[head.start() :]
