"""Compare the variables that an author declares with those that the template uses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mailwright.content.template import InvalidTemplate, Template

# Variables that every email has, with samples for previews.
STANDARD_VARIABLES: Mapping[str, str] = {
    "email": "jane@example.com",
    "name": "Jane Doe",
    "unsubscribe_url": "https://example.com/unsubscribe",
    "preferences_url": "https://example.com/preferences",
    "web_view_url": "https://example.com/view",
    "postal_address": "[postal address: not set]",  # obviously a placeholder
}


def standard_values(postal_address: str | None) -> dict[str, str]:
    """Return the standard variables for previews and test sends, with the postal address of this installation."""
    return {**STANDARD_VARIABLES, "postal_address": postal_address or STANDARD_VARIABLES["postal_address"]}


@dataclass(frozen=True, slots=True)
class Variable:
    name: str
    is_required: bool = True
    sample: Any = None  # Used in previews if there is no value.


def used_variables(template: Template) -> tuple[Variable, ...]:
    """Return the variables that the template uses besides the standard ones."""
    required = template.required_variables
    return tuple(Variable(name, name in required) for name in sorted(template.variables - STANDARD_VARIABLES.keys()))


def check_declared(template: Template, declared: Sequence[Variable]) -> None:
    """Raise for undeclared variables, so that typos are found on saving. Skip the check if none are declared."""
    if not declared:
        return
    names = [variable.name for variable in declared]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidTemplate(f"Variables declared twice: {', '.join(repeated)}.")
    if unknown := sorted(template.variables - STANDARD_VARIABLES.keys() - set(names)):
        raise InvalidTemplate(f"Variables used but not declared: {', '.join(unknown)}.")
    optional = {variable.name for variable in declared if not variable.is_required}
    if needed := sorted(optional & template.required_variables):
        raise InvalidTemplate(
            f"Variables declared as optional, but required by the template: {', '.join(needed)}. "
            f'Use a default such as {{{{ {needed[0]}|default("") }}}}.'
        )


def missing_variables(template: Template, given: Mapping[str, Any]) -> list[str]:
    return sorted(template.required_variables - STANDARD_VARIABLES.keys() - given.keys())
