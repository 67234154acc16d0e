"""Starter templates: complete emails of this project that users copy and change."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from mailwright.content.blocks.document import parse_document
from mailwright.content.variables import Variable
from mailwright.domain.errors import NotFound

_FOLDER: Final = Path(__file__).with_name("starter_templates")
# In the order of the gallery, the most common ones first.
_ORDER: Final = (
    "newsletter",
    "announcement",
    "welcome",
    "product-update",
    "digest",
    "invitation",
    "event-reminder",
    "survey",
    "re-engagement",
    "plain-email",
    "receipt",
    "password-reset",
)


class StarterVariable(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    name: str
    required: bool
    sample: Any


class Starter(BaseModel):
    """A starter template. Transactional ones have no unsubscribe link."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    name: str
    title: str
    description: str
    kind: Literal["bulk", "transactional"]
    subject: Annotated[str, Field(min_length=1)]
    starter_variables: Annotated[tuple[StarterVariable, ...], Field(alias="variables")] = ()
    document: dict[str, Any]

    @property
    def variables(self) -> tuple[Variable, ...]:
        return tuple(Variable(each.name, each.required, each.sample) for each in self.starter_variables)


@cache
def list_starters() -> Sequence[Starter]:
    """Return all starters, in the order of the gallery."""
    return tuple(Starter.model_validate_json((_FOLDER / f"{name}.json").read_bytes()) for name in _ORDER)


def load_starter(name: str) -> Starter:
    found = next((starter for starter in list_starters() if starter.name == name), None)
    if found is None:
        raise NotFound(
            "There is no starter {name}. Choose one of {order}.",
            field="starter",
            name=repr(name[:80]),
            order=", ".join(_ORDER),
        )
    parse_document(found.document)
    return found
