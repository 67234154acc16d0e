"""Escape template syntax, so that braces written in Notion appear as they are, except for the placeholders."""

import re

# Written in Notion as `{{name}}`, in upper or lower case. All other braces are text.
PLACEHOLDERS = ("name", "email", "from_name")

_SYNTAX = re.compile(r"\{\{\s*(" + "|".join(PLACEHOLDERS) + r")\s*\}\}|\{(?=[{%#])", re.IGNORECASE)


def literal_html(html: str) -> str:
    return _escape(html, "&#123;")


def literal_text(text: str) -> str:
    return _escape(text, '{{ "{" }}')


def _escape(text: str, brace: str) -> str:
    return _SYNTAX.sub(lambda found: f"{{{{ {found[1].lower()} }}}}" if found[1] else brace, text)
