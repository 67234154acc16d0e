"""Digests of values, to find out whether they were changed."""

import hashlib
from typing import Any, Final

import orjson

_DIGITS: Final = 24


def hash_value(value: Any) -> str:
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()[:_DIGITS]
