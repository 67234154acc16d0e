"""The base of all response models."""

from contextlib import suppress
from itertools import product
from operator import attrgetter
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import AliasChoices, AliasPath, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from mailwright.domain.clock import isoformat

Response = TypeVar("Response", bound="ResponseModel")


def _time_text(value: Any) -> Any:
    return isoformat(value) if isinstance(value, int) else value


# An instant (milliseconds since 1970) becomes ISO 8601 text.
Time = Annotated[str, BeforeValidator(_time_text), Field(json_schema_extra={"format": "date-time"})]


class From(NamedTuple):
    """Annotation: the attribute of the domain object, for example `row.created_at`, if it differs from the field."""

    path: str


class ResponseModel(BaseModel):
    """JSON names are camelCase. `model_validate` takes the fields from the attributes of a domain object."""

    model_config = ConfigDict(
        extra="forbid",
        alias_generator=to_camel,
        populate_by_name=True,
        from_attributes=True,
        # Compile each model at its first use, which keeps the start fast.
        defer_build=True,
    )

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        for name, field in cls.model_fields.items():
            for each in field.metadata:
                if isinstance(each, From):
                    written = to_camel(name) if cls.model_config["alias_generator"] else name
                    field.validation_alias = AliasChoices(written, AliasPath(*each.path.split(".")))

    def to_json(self) -> bytes:
        return self.__pydantic_serializer__.to_json(self, by_alias=True)

    def to_dict(self) -> dict[str, Any]:
        """Return the content of `to_json` as a dict, for output in another format."""
        return self.model_dump(mode="json", by_alias=True)


class SnakeResponseModel(ResponseModel):
    """JSON names are snake_case, because other programs already rely on them."""

    model_config = ConfigDict(alias_generator=None)


def extend(model: type[Response], response: ResponseModel, **fields: Any) -> Response:
    """Build `model` from the fields of a response that it extends."""
    return model(**dict(response), **fields)


def combine(model: type[Response], *sources: Any, **fields: Any) -> Response:
    """Build `model` from these fields, and take each other field from the first source that has it as an attribute."""
    found = dict(fields)
    for name, field in model.model_fields.items():
        paths = [*(each.path for each in field.metadata if isinstance(each, From)), name]
        for source, path in product(sources, paths):
            if name not in found:
                with suppress(AttributeError):
                    found[name] = attrgetter(path)(source)
    return model(**found)
