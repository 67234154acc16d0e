"""Compare the variables that an author declares with those that the template uses."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from mailwright.content.segments_used import IN_SEGMENTS
from mailwright.content.template import InvalidTemplate, Template
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import lazy_gettext, lazy_join

# Variables that every email has, with samples for previews.
STANDARD_VARIABLES: Mapping[str, str] = {
    "email": "jane@example.com",
    "name": "Jane Doe",
    "unsubscribe_url": "https://example.com/unsubscribe",
    "preferences_url": "https://example.com/preferences",
    "web_view_url": "https://example.com/view",
    "postal_address": "[postal address: not set]",  # obviously a placeholder
}
# Variables that need no value in a request, because Mailwright knows their values.
KNOWN_VARIABLES = STANDARD_VARIABLES.keys() | {IN_SEGMENTS}


def standard_values(postal_address: str | None) -> dict[str, str]:
    """Return the standard variables for previews and test sends, with the postal address of this installation."""
    address = on_one_line(postal_address or STANDARD_VARIABLES["postal_address"])
    return {**STANDARD_VARIABLES, "postal_address": address}


@lru_cache(maxsize=64)
def on_one_line(postal_address: str) -> str:
    """Join the lines of an address visibly: HTML would show its line breaks as spaces."""
    lines = (line.strip(" ,") for line in postal_address.splitlines())
    return " · ".join(line for line in lines if line)


@dataclass(frozen=True, slots=True)
class Variable:
    name: str
    is_required: bool = True
    sample: Any = None  # Used in previews if there is no value.


def used_variables(template: Template) -> tuple[Variable, ...]:
    """Return the variables that the template uses in addition to the standard ones."""
    required = template.required_variables
    return tuple(Variable(name, name in required) for name in sorted(template.variables - KNOWN_VARIABLES))


def check_declared(template: Template, declared: Sequence[Variable]) -> None:
    """Raise for undeclared variables, so that typos are found on saving. Skip the check if none are declared."""
    if not declared:
        return
    names = [variable.name for variable in declared]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidTemplate("Variables declared twice: {repeated}.", repeated=", ".join(repeated))
    if unknown := sorted(template.variables - KNOWN_VARIABLES - set(names)):
        raise InvalidTemplate("Variables used but not declared: {unknown}.", unknown=", ".join(unknown))
    if sentences := optional_but_required(template, declared):
        raise InvalidTemplate(lazy_join(" ", sentences))


def optional_but_required(template: Template, declared: Sequence[Variable]) -> list[str]:
    """Return a sentence for each variable that is declared as optional although the template fails without it."""
    optional = {variable.name for variable in declared if not variable.is_required}
    places: dict[str, str] = {}  # The first one: the title of the HTML repeats the subject.
    labelled = (
        (lazy_gettext("Subject"), template.subject),
        (lazy_gettext("Content"), template.html),
        (lazy_gettext("Plain text"), template.text),
    )
    for label, part in labelled:
        for name in sorted(optional & part.required_variables) if part is not None else ():
            places.setdefault(name, label)
    return [
        lazy_gettext(
            "{part}: some contacts have no {name}. Write what they see instead, for example {example}.",
            part=label,
            name=name,
            example=f'{{{{ {name}|default("…", true) }}}}',
        )
        for name, label in places.items()
    ]


def missing_variables(template: Template, given: Mapping[str, Any]) -> list[str]:
    return sorted(template.required_variables - KNOWN_VARIABLES - given.keys())
