"""Add an unsubscribe link to bulk email that has none."""

import re

from mailwright.content.template import variables

UNSUBSCRIBE = "unsubscribe_url"

_LABELS = {"en": "Unsubscribe", "ru": "Отписаться", "pt": "Cancelar a inscrição"}
_END = re.compile(r"</body\s*>(?!.*</body\s*>)", re.IGNORECASE | re.DOTALL)


def has_unsubscribe_link(html: str) -> bool:
    return UNSUBSCRIBE in variables(html)


def with_unsubscribe_link(html: str, locale: str = "") -> str:
    """Append a line with the unsubscribe link, in the recipient's language if available."""
    label = _LABELS.get(locale.partition("-")[0].lower(), _LABELS["en"])
    line = (
        '<p style="margin:32px 0 16px;text-align:center;font:13px/1.5 sans-serif;color:#767676">'
        f'<a href="{{{{ {UNSUBSCRIBE} }}}}" style="color:#767676">{label}</a></p>'
    )
    end = _END.search(html)
    return html + line if end is None else html[: end.start()] + line + html[end.start() :]
