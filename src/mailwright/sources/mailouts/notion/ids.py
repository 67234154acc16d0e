"""Parse Notion ids in any form that people paste."""

import re
from urllib.parse import urlsplit

from mailwright.domain.errors import InvalidInput

_DASHED = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII)
_BARE = re.compile(r"[0-9a-f]{32}", re.ASCII)


def notion_id(pasted: str, *, field: str = "notionPageId") -> str:
    """Return the id with dashes and in lower case, from an id or the address of a page."""
    text = pasted.strip().strip("<>\"'").lower()
    found = _bare_id(text) or _in_address(text)
    if found is None:
        raise InvalidInput(
            "must be the id or address of a Notion page; in Notion, use Share, then Copy link",
            field=field,
        )
    return f"{found[:8]}-{found[8:12]}-{found[12:16]}-{found[16:20]}-{found[20:]}"


def is_id(value: object) -> bool:
    return isinstance(value, str) and _bare_id(value) is not None


def _bare_id(text: str) -> str | None:
    return text.replace("-", "") if _DASHED.fullmatch(text) or _BARE.fullmatch(text) else None


def _in_address(text: str) -> str | None:
    """Find the id in the query (`?p=…`, if the page was opened beside its table), or else at the end of the path."""
    if text.startswith(("notion.so/", "www.notion.so/", "app.notion.com/", "notion.site/")):
        text = f"https://{text}"
    try:
        parts = urlsplit(text)
    except ValueError:
        return None
    if parts.scheme not in ("http", "https", "notion"):
        return None
    for pair in parts.query.split("&"):
        if pair.startswith("p=") and (found := _bare_id(pair.removeprefix("p="))):
            return found
    last = parts.path.rstrip("/").rpartition("/")[2]
    return _bare_id(last) or _bare_id(last[-36:]) or _bare_id(last[-32:])
