"""Parse JSON that others wrote."""

from typing import Any, Final

import orjson

# Deeper JSON is refused. The parser accepts 1,024 levels, but nobody writes them on purpose, and the writer, which
# stores values inside other values, accepts 254.
MAX_LEVELS: Final = 100


class JsonTooDeep(orjson.JSONDecodeError):
    def __init__(self) -> None:
        super().__init__(f"it is nested more than {MAX_LEVELS} levels deep", "", 0)

    def __str__(self) -> str:
        return self.msg


def load_json(content: bytes | str) -> Any:
    """Parse JSON strictly. Raise `orjson.JSONDecodeError` if it is invalid or nested too deeply."""
    found = orjson.loads(content)
    # Nearly all JSON has few lists and objects, so that it need not be searched.
    source = content.encode("utf-8", "replace") if isinstance(content, str) else content
    if source.count(b"{") + source.count(b"[") > MAX_LEVELS and _levels_exceed(found, MAX_LEVELS):
        raise JsonTooDeep
    return found


def _levels_exceed(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True
