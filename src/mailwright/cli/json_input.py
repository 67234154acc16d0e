"""Read JSON from options and files, with errors that name the option."""

from typing import Any

import orjson

from mailwright.domain.errors import InvalidInput
from mailwright.domain.foreign_json import load_json


def parse_json(text: str, field: str) -> Any:
    try:
        return load_json(text)
    except orjson.JSONDecodeError as error:
        raise InvalidInput(f"is not JSON: {error}", field=field) from error


def json_object(text: str, field: str, *, example: str) -> dict[str, Any]:
    found = parse_json(text, field)
    if not isinstance(found, dict):
        raise InvalidInput(f"must be a JSON object such as {example}", field=field)
    return found
