"""Read the fields of an input model: their types, limits and help. Commands and forms are derived from them."""

from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from mailwright.actions.context import Context
from mailwright.actions.declaration import DeclaredAction
from mailwright.outbox import tenants
from mailwright.sources.api.validation import parse, parse_strict


async def read_input(action: DeclaredAction, at: Context, values: Any) -> list[BaseModel]:
    """Return the input of an action, as the rules of its noun read it; an empty list if it takes none."""
    if action.input is None:
        return []
    zone = None
    if action.noun.takes_local_times:
        zone = await tenants.load_zone(at.database, at.tenant_id, at.settings.timezone)
    return [(parse_strict if action.noun.is_strict else parse)(action.input, values, zone)]


def help_of(field: FieldInfo) -> str:
    inner = (getattr(each, "description", None) for each in annotations_of(field))
    return field.description or next(filter(None, inner), "")


def annotations_of(field: FieldInfo) -> list[Any]:
    """Return the annotations of a field, also those of the type inside of an optional field."""
    inner = [each for annotation in get_args(field.annotation) for each in get_args(annotation)[1:]]
    # Pydantic keeps the limits of such a type in a `FieldInfo`.
    return [
        *field.metadata,
        *inner,
        *(limit for each in inner if isinstance(each, FieldInfo) for limit in each.metadata),
    ]


def find_annotation(field: FieldInfo, kind: type) -> Any:
    return next((each for each in annotations_of(field) if isinstance(each, kind)), None)


def plain_type(annotation: Any) -> tuple[Any, bool]:
    """Return the type of a field without annotations and None, and whether the field takes many values of it."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        return plain_type(next(each for each in inner if each is not NoneType))
    if origin is Annotated:
        return plain_type(inner[0])
    if origin in (tuple, list):
        return plain_type(inner[0])[0], True
    return annotation, False
