"""Add an unsubscribe link to bulk email that has none."""

import re
from typing import NamedTuple

from mailwright.content.template import variables

UNSUBSCRIBE = "unsubscribe_url"


class FooterLabels(NamedTuple):
    unsubscribe: str
    preferences: str


_LABELS = {
    "en": FooterLabels("Unsubscribe", "Preferences"),
    "ru": FooterLabels("Отписаться", "Настройки рассылки"),
    "pt": FooterLabels("Cancelar a inscrição", "Preferências"),
}
_END = re.compile(r"</body\s*>(?!.*</body\s*>)", re.IGNORECASE | re.DOTALL)


def footer_labels(locale: str) -> FooterLabels:
    """Return the labels of the links in a footer, in the recipient's language if available."""
    return _LABELS.get(locale.partition("-")[0].lower(), _LABELS["en"])


def has_unsubscribe_link(html: str) -> bool:
    return UNSUBSCRIBE in variables(html)


def with_unsubscribe_link(html: str, locale: str = "") -> str:
    """Append a line with the unsubscribe link, in the recipient's language if available."""
    label = footer_labels(locale).unsubscribe
    line = (
        '<p style="margin:32px 0 16px;text-align:center;font:13px/1.5 sans-serif;color:#767676">'
        f'<a href="{{{{ {UNSUBSCRIBE} }}}}" style="color:#767676">{label}</a></p>'
    )
    end = _END.search(html)
    return html + line if end is None else html[: end.start()] + line + html[end.start() :]
