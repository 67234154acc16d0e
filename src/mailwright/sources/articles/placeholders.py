"""Placeholders of slices: `[[name]]` is the recipient's name, `[[name|friend]]` is "friend" if they have none."""

import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final

from mailwright.audience import contact_fields
from mailwright.domain.lazy_dataclass import dataclass

_PLACEHOLDER: Final = re.compile(r"\[\[([^\W\d]\w{0,63})(?:\|([^\[\]\n|]{0,200}))?\]\]")
# Template syntax is refused in slices, so that a stray brace cannot stop a run.
_CODE: Final = re.compile(r"\{[{%#]")

# Variables that the pipeline sets for every message.
STANDARD_NAMES: Final = frozenset(["email", "unsubscribe_url", "postal_address"])


@dataclass(frozen=True, slots=True)
class Placeholder:
    name: str
    fallback: str = ""  # used if the recipient has no such attribute

    @property
    def variable(self) -> str:
        """The template variable. Each pair of name and fallback has its own, so the template needs no conditions."""
        if not self.fallback or self.name in STANDARD_NAMES:
            return self.name
        return f"{self.name}_or_{blake2b(self.fallback.encode(), digest_size=4).hexdigest()}"

    def fill(self, name: str | None, attributes: Mapping[str, Any]) -> str:
        value = (name or attributes.get("name")) if self.name == "name" else attributes.get(self.name)
        return self.fallback if value is None or value == "" else contact_fields.as_text(value)


def has_code(text: str) -> bool:
    return _CODE.search(text) is not None


def placeholders(text: str) -> frozenset[Placeholder]:
    return frozenset(_placeholder(match) for match in _PLACEHOLDER.finditer(text))


def as_template(text: str) -> str:
    return _PLACEHOLDER.sub(lambda match: f"{{{{ {_placeholder(match).variable} }}}}", text)


def _placeholder(match: re.Match[str]) -> Placeholder:
    return Placeholder(match[1], (match[2] or "").strip())
