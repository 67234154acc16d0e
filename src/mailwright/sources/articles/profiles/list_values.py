"""Change the lists of a row without changing how the other program writes them: array, JSON, or text with commas."""

import re
from typing import Any, Final

import orjson

from mailwright.sources.articles.profiles.rows import parse_texts

# What separates lists in a text.
_SEPARATOR: Final = re.compile(r"[\s,;|]+")


def without_list(value: Any, list_key: str, column: str) -> Any:
    """Return the lists without one, in the same form. The other lists keep their order and spelling.

    Raises `InvalidProfile` if the value cannot be read.
    """
    if list_key not in parse_texts(value, column):
        return value
    match value:
        case list() | tuple():
            return [each for each in value if each.strip() != list_key]
        case str() if _is_json(value):
            return _json([each for each in orjson.loads(value) if each.strip() != list_key])
        case str():
            return _without_in_text(value, list_key)
        case _:
            return value


def with_list(value: Any, list_key: str, column: str) -> Any:
    """Return the lists with this one, in the same form. Raises `InvalidProfile` if the value cannot be read."""
    if list_key in parse_texts(value, column):
        return value
    match value:
        case list() | tuple():
            return [*value, list_key]
        case str() if _is_json(value):
            return _json([*orjson.loads(value), list_key])
        case str() if value.strip().startswith("{"):
            inner = value.strip()[1:-1]
            return f"{{{inner},{list_key}}}" if inner else f"{{{list_key}}}"
        case str():
            separator = (_SEPARATOR.search(value.strip()) or [","])[0]
            return f"{value.rstrip()}{separator}{list_key}" if value.strip() else list_key
        case _:
            return [list_key]


def _is_json(value: str) -> bool:
    return value.lstrip().startswith("[")


def _json(lists: list[str]) -> str:
    return orjson.dumps(lists).decode()


def _without_in_text(value: str, list_key: str) -> str:
    """Remove each occurrence with the separator before it; the first list with the separator after it."""
    text = value.strip()
    is_array = text.startswith("{") and text.endswith("}")
    inner = text[1:-1] if is_array else text
    name = re.escape(list_key)
    item = rf'(?:"{name}"|{name})'
    inner = re.sub(rf"[\s,;|]+{item}(?=[\s,;|]|$)", "", inner)
    inner = re.sub(rf"^{item}(?:[\s,;|]+|$)", "", inner)
    return f"{{{inner}}}" if is_array else inner
