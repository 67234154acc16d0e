"""Escape template syntax, so that braces written in Notion appear as they are."""

import re

_OPENING = re.compile(r"\{(?=[{%#])")


def literal_html(html: str) -> str:
    return _OPENING.sub("&#123;", html)


def literal_text(text: str) -> str:
    return _OPENING.sub('{{ "{" }}', text)
