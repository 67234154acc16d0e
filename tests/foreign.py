"""Data of other systems with random changes, so that most of it is still read, for tests of what reads it."""

import json
from typing import Any, Final

from hypothesis import strategies as st

# Values that a program may write although nobody expects them: JSON allows each of them.
ODD_VALUES: Final = (
    *(None, True, False, 0, -1, 1e300, -1.5, 2**31, 2**53, 2**63 - 1, 2**63, 2**64, -(2**63), 10**40),
    *("", " ", "\0", "a\0b", "\ud800", "\u202e", "\U0010ffff", "x" * 5_000, "0", "-1", "9" * 30, "1e999", "null"),
    *("\r\nX: y", "<ada@example.com>", "ada@", "@", "a@b@c", "ada@\u0000.example", "http://[", "//", "data:,x", "%00"),
    *("0000-00-00", "9999-12-31T23:59:59Z", "2026-13-01T00:00:00Z", "2026-11-01T10:00:00+99:99", "550 5.1.1"),
    *([], {}, [None], [[]], [{}], {"": None}, {"a": {"b": []}}, ["x", 7], [[[[[[["deep"]]]]]]]),
)

Path = tuple[str | int, ...]


def places_in(value: Any, before: Path = ()) -> list[Path]:
    """Return the paths of all values inside a JSON value, and of itself."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [before, *(path for key, each in inner for path in places_in(each, (*before, key)))]


def with_value(sample: Any, path: Path, value: Any) -> Any:
    """Return a copy of a JSON value with another value at the path, if the path still exists."""
    if not path:
        return value
    key, rest = path[0], path[1:]
    if isinstance(sample, dict) and key in sample:
        return {**sample, key: with_value(sample[key], rest, value)}
    if isinstance(sample, list) and isinstance(key, int) and key < len(sample):
        return [*sample[:key], with_value(sample[key], rest, value), *sample[key + 1 :]]
    return sample


def changed(*samples: Any) -> st.SearchStrategy[Any]:
    """Return JSON values that are like one of these, with other values in up to three places."""

    @st.composite
    def some(draw: st.DrawFn) -> Any:
        found = draw(st.sampled_from(samples))
        for _ in range(draw(st.integers(0, 3))):
            place = draw(st.sampled_from(places_in(found)))
            found = with_value(found, place, draw(st.sampled_from(ODD_VALUES) | st.text(max_size=8)))
        return found

    return some()


def to_json(value: Any) -> bytes:
    """Write JSON as other programs do: with escapes for half a character, and with numbers of any size."""
    return json.dumps(value).encode()
