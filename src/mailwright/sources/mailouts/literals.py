"""Words that are no template: what somebody wrote in Notion is shown as it is, braces and all."""

import re

_OPENING = re.compile(r"\{(?=[{%#])")


def literal_html(html: str) -> str:
    return _OPENING.sub("&#123;", html)


def literal_text(text: str) -> str:
    return _OPENING.sub('{{ "{" }}', text)
