"""The way out: bulk mail that forgot its link to leave gets one at its end."""

import re

from mailwright.content.template import variables

UNSUBSCRIBE = "unsubscribe_url"

_WORDS = {"en": "Unsubscribe", "ru": "Отписаться", "pt": "Cancelar a inscrição"}
_END = re.compile(r"</body\s*>(?!.*</body\s*>)", re.IGNORECASE | re.DOTALL)


def has_unsubscribe_link(html: str) -> bool:
    return UNSUBSCRIBE in variables(html)


def with_unsubscribe_link(html: str, locale: str = "") -> str:
    """A small line below everything else, in the reader's language where we have it."""
    words = _WORDS.get(locale.partition("-")[0].lower(), _WORDS["en"])
    line = (
        '<p style="margin:32px 0 16px;text-align:center;font:13px/1.5 sans-serif;color:#767676">'
        f'<a href="{{{{ {UNSUBSCRIBE} }}}}" style="color:#767676">{words}</a></p>'
    )
    end = _END.search(html)
    return html + line if end is None else html[: end.start()] + line + html[end.start() :]
