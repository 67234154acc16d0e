"""What requests and answers have in common: names as Python has them, camelCase on the wire."""

from typing import Self

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Request(BaseModel):
    """Filled in by callers. A field that the API does not know is refused here already."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)

    def as_json(self) -> bytes:
        """What was given, and nothing else: the server knows its own defaults."""
        return self.model_dump_json(by_alias=True, exclude_unset=True).encode()


class Answer(BaseModel):
    """Read from the server. What a later version adds is passed over."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True)

    @classmethod
    def read(cls, content: bytes) -> Self:
        return cls.model_validate_json(content, by_alias=True)
