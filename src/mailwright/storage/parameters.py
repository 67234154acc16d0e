"""Parameters: a list or dict travels as one JSON text."""

from typing import Any

import orjson


def as_parameter(value: Any) -> Any:
    return orjson.dumps(value).decode() if isinstance(value, list | dict) else value
