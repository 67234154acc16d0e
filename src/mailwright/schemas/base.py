"""The base of all response models."""

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from mailwright.domain.clock import isoformat

Response = TypeVar("Response", bound="ResponseModel")


def _time_text(value: Any) -> Any:
    return isoformat(value) if isinstance(value, int) else value


# An instant (milliseconds since 1970) becomes ISO 8601 text.
Time = Annotated[str, BeforeValidator(_time_text), Field(json_schema_extra={"format": "date-time"})]


class ResponseModel(BaseModel):
    """JSON names are camelCase. `model_validate` takes the fields from a domain object with the same attributes."""

    model_config = ConfigDict(
        extra="forbid",
        alias_generator=to_camel,
        populate_by_name=True,
        from_attributes=True,
        # Compile each model at its first use, which keeps the start fast.
        defer_build=True,
    )

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
    missing = [name for name in model.model_fields if name not in fields]
    found = {name: next((each for each in sources if hasattr(each, name)), None) for name in missing}
    return model(**{name: getattr(source, name) for name, source in found.items() if source is not None}, **fields)
