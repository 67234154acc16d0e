"""The segments in the conditions of a template: `{% if in_segments["vip"] %}`.

Mailwright checks the membership of a recipient when it creates the message, and stores it with the message's variables.
"""

import re
from typing import Final

from mailwright.content.template_markers import is_reserved
from mailwright.content.template_syntax import InvalidTemplate, read_syntax

# The variable with the membership of the recipient: the key of each segment, and true or false.
IN_SEGMENTS: Final = "in_segments"
_KEY: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}", re.ASCII)


def membership_condition(segment_key: str) -> str | None:
    """Return the expression that is true for members of the segment, or None if this cannot be a segment."""
    is_key = _KEY.fullmatch(segment_key) and not is_reserved(segment_key)
    return f'{IN_SEGMENTS}["{segment_key}"]' if is_key else None


def segments_used(*sources: str | None) -> tuple[str, ...]:
    """Return the keys of the segments that the sources name. Raise if a key is not written out."""
    found: set[str] = set()
    for source in sources:
        if source is None or IN_SEGMENTS not in source:
            continue
        for tag in read_syntax(source).tags:
            texts = [token.text for token in tag.tokens]
            for position, text in enumerate(texts):
                if (
                    text != IN_SEGMENTS
                    or tag.tokens[position].kind != "name"
                    or texts[position - 1 : position] == ["."]
                ):
                    continue
                found.add(_key_after(texts[position + 1 :], tag.line))
    return tuple(sorted(found))


def _key_after(texts: list[str], line: int) -> str:
    match texts:
        case ["[", key, "]", *_] if _KEY.fullmatch(key[1:-1]) and key[0] == key[-1] and key[0] in "\"'":
            return key[1:-1]
        case [".", key, *_] if _KEY.fullmatch(key):
            return key
    raise InvalidTemplate(
        'Write the key of the segment after {variable}, for example {variable}["vip"].', variable=IN_SEGMENTS, line=line
    )
