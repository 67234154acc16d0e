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
    sample: Any = None  # for previews without values


def used_variables(template: Template) -> tuple[Variable, ...]:
    """Return the variables that the template uses besides the standard ones."""
    required = template.required_variables
    return tuple(Variable(name, name in required) for name in sorted(template.variables - STANDARD_VARIABLES.keys()))


def check_declared(template: Template, declared: Sequence[Variable]) -> None:
    """Report misspelt variables when the template is saved. Without a declaration, any variable may be used."""
    if not declared:
        return
    names = [variable.name for variable in declared]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidTemplate(f"Declared twice: {', '.join(repeated)}.")
    if unknown := sorted(template.variables - STANDARD_VARIABLES.keys() - set(names)):
        raise InvalidTemplate(f"Used but not declared: {', '.join(unknown)}.")
    optional = {variable.name for variable in declared if not variable.is_required}
    if needed := sorted(optional & template.required_variables):
        raise InvalidTemplate(
            f"Declared as optional, but the template requires {', '.join(needed)}: "
            f'use a default such as {{{{ {needed[0]}|default("") }}}}.'
        )


def missing_variables(template: Template, given: Mapping[str, Any]) -> list[str]:
    return sorted(template.required_variables - STANDARD_VARIABLES.keys() - given.keys())
