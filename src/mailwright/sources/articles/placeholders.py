"""Placeholders: `[[name]]` in a slice is the reader's own name, `[[name|friend]]` is a friend's who told none."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

from mailwright.audience import contact_fields

_PLACEHOLDER: Final = re.compile(r"\[\[([^\W\d]\w{0,63})(?:\|([^\[\]\n|]{0,200}))?\]\]")
# The code of templates. Slices say what differs by placeholders alone, so that a stray brace cannot stop a run.
_CODE: Final = re.compile(r"\{[{%#]")

# What the pipeline knows of every mail without being told.
GIVEN: Final = frozenset(["email", "unsubscribe_url", "postal_address"])


@dataclass(frozen=True, slots=True)
class Placeholder:
    name: str
    otherwise: str = ""  # where the reader has no such attribute

    @property
    def variable(self) -> str:
        """One for each name and way out, so that a template has nothing to decide."""
        if not self.otherwise or self.name in GIVEN:
            return self.name
        return f"{self.name}_or_{blake2b(self.otherwise.encode(), digest_size=4).hexdigest()}"

    def fill(self, name: str | None, attributes: Mapping[str, Any]) -> str:
        value = (name or attributes.get("name")) if self.name == "name" else attributes.get(self.name)
        return self.otherwise if value is None or value == "" else contact_fields.as_text(value)


def has_code(text: str) -> bool:
    return _CODE.search(text) is not None


def placeholders(text: str) -> frozenset[Placeholder]:
    return frozenset(_placeholder(found) for found in _PLACEHOLDER.finditer(text))


def as_template(text: str) -> str:
    return _PLACEHOLDER.sub(lambda found: f"{{{{ {_placeholder(found).variable} }}}}", text)


def _placeholder(found: re.Match[str]) -> Placeholder:
    return Placeholder(found[1], (found[2] or "").strip())
