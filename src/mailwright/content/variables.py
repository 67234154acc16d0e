"""Variables of templates: what an author declares, held against what the template uses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mailwright.content.template import InvalidTemplate, Template

# What every mail can say of its reader and itself, without anybody giving it.
STANDARD_VARIABLES: Mapping[str, str] = {
    "email": "reader@example.com",
    "name": "Jane Doe",
    "unsubscribe_url": "https://example.com/unsubscribe",
    "preferences_url": "https://example.com/preferences",
    "web_view_url": "https://example.com/view",
    "postal_address": "[postal address: not set]",  # nobody takes it for real
}


def standard_values(postal_address: str | None) -> dict[str, str]:
    """The same where a mail is only looked at or tried out: our own address is known by then."""
    return {**STANDARD_VARIABLES, "postal_address": postal_address or STANDARD_VARIABLES["postal_address"]}


@dataclass(frozen=True, slots=True)
class Variable:
    name: str
    is_required: bool = True
    sample: Any = None  # shown in previews where nothing is given


def used_variables(template: Template) -> tuple[Variable, ...]:
    """What the template uses beside the standard ones."""
    required = template.required_variables
    return tuple(Variable(name, name in required) for name in sorted(template.variables - STANDARD_VARIABLES.keys()))


def check_declared(template: Template, declared: Sequence[Variable]) -> None:
    """A misspelt variable is found when the template is written. Where nothing is declared, anything may be used."""
    if not declared:
        return
    names = [variable.name for variable in declared]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidTemplate(f"declared twice: {', '.join(repeated)}")
    if unknown := sorted(template.variables - STANDARD_VARIABLES.keys() - set(names)):
        raise InvalidTemplate(f"used and not declared: {', '.join(unknown)}")
    optional = {variable.name for variable in declared if not variable.is_required}
    if needed := sorted(optional & template.required_variables):
        raise InvalidTemplate(
            f"declared as optional, and the mail cannot be made without: {', '.join(needed)}; "
            f'use a default, as in {{{{ {needed[0]}|default("") }}}}'
        )


def missing_variables(template: Template, given: Mapping[str, Any]) -> list[str]:
    return sorted(template.required_variables - STANDARD_VARIABLES.keys() - given.keys())
