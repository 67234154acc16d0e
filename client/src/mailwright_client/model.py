"""Base classes of the generated models: dataclasses in Python, camelCase JSON on the wire."""

import json
import types
from dataclasses import MISSING, dataclass, fields, is_dataclass
from datetime import datetime
from functools import cache
from typing import Any, Literal, Self, Union, get_args, get_origin, get_type_hints


class Unset:
    """The default of a request field that the caller did not give. It is not sent."""

    def __repr__(self) -> str:
        return "UNSET"

    def __bool__(self) -> bool:
        return False


UNSET: Any = Unset()


@dataclass(frozen=True, kw_only=True)
class RequestModel:
    """A request body. Fields that were not given are not sent, so the server applies its own defaults."""

    def to_json(self) -> bytes:
        return json.dumps(_encode(self), ensure_ascii=False, separators=(",", ":")).encode()


@dataclass(frozen=True, kw_only=True)
class ResponseModel:
    """A response body. Fields that a newer server adds are ignored."""

    @classmethod
    def from_json(cls, content: bytes) -> Self:
        found: Self = _decode(json.loads(content), cls)
        return found


def _encode(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {
            key: _encode(given)
            for name, key in _json_names(type(value)).items()
            if (given := getattr(value, name)) is not UNSET
        }
    match value:
        case datetime():
            return value.isoformat()
        case dict():
            return {key: _encode(each) for key, each in value.items()}
        case list() | tuple():
            return [_encode(each) for each in value]
        case _:
            return value


def _decode(value: Any, kind: Any) -> Any:
    """Read a JSON value as the annotated type; a value of another type stays as it is."""
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _decode_union(value, get_args(kind))
    if origin is list and isinstance(value, list):
        [item] = get_args(kind)
        return [_decode(each, item) for each in value]
    if origin is dict and isinstance(value, dict):
        return {key: _decode(each, get_args(kind)[1]) for key, each in value.items()}
    if kind is datetime and isinstance(value, str):
        return datetime.fromisoformat(value)
    if is_dataclass(kind) and isinstance(value, dict):
        hints = _hints(kind)  # type: ignore[arg-type]
        names = _json_names(kind)  # type: ignore[arg-type]
        return kind(**{name: _decode(value.get(key), hints[name]) for name, key in names.items()})  # type: ignore[operator]
    return value


def _decode_union(value: Any, kinds: tuple[Any, ...]) -> Any:
    """Choose the model whose required fields the value has; scalars need no choice, except times."""
    if isinstance(value, dict):
        models = [kind for kind in kinds if is_dataclass(kind)]
        chosen = next((kind for kind in models if _required(kind) <= value.keys()), None)  # type: ignore[arg-type]
        return value if chosen is None else _decode(value, chosen)
    if isinstance(value, list):
        lists = [kind for kind in kinds if get_origin(kind) is list]
        return _decode(value, lists[0]) if lists else value
    if isinstance(value, str) and datetime in kinds and not any(get_origin(kind) is Literal for kind in kinds):
        return _decode(value, datetime)
    return value


@cache
def _hints(model: type) -> dict[str, Any]:
    return get_type_hints(model)


@cache
def _json_names(model: type) -> dict[str, str]:
    """The JSON name of each field: camelCase, unless the model says otherwise."""
    return {field.name: field.metadata.get("json", _camel(field.name)) for field in fields(model)}


@cache
def _required(model: type) -> frozenset[str]:
    names = _json_names(model)
    return frozenset(names[field.name] for field in fields(model) if field.default is MISSING)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
