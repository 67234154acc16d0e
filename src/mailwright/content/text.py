"""Convert HTML to plain text with the URL behind every link."""

import re
from collections.abc import Callable
from functools import cache

# The parser behind inscriptis refuses encoding declarations and characters that XML does not allow.
_UNREADABLE = re.compile(r"<\?xml[^<>]*>|[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_TAG = re.compile(r"<[^<>]*>")
# Text in these elements is not shown, so an email of images has none.
_HIDDEN = ("<style", "<title", "<script")
_TRAILING_SPACE = re.compile(r"[ \t]+$", re.MULTILINE)
_BLANK_LINES = re.compile(r"\n{3,}")


def from_html(html: str) -> str:
    """Convert HTML to text. This never fails: if the parser cannot read the HTML, only the tags are removed."""
    readable = _UNREADABLE.sub("", html)
    try:
        text = _reader()(readable)
    except Exception:  # Whatever the parser fails on, the email still needs a text part.
        text = ""
    lowered = readable.lower()
    if not text.strip() and not any(tag in lowered for tag in _HIDDEN):
        text = _TAG.sub("", readable)
    return _BLANK_LINES.sub("\n\n", _TRAILING_SPACE.sub("", text)).strip("\n")


@cache
def _reader() -> Callable[[str], str]:
    # Imported late: lxml takes seven megabytes that other processes do not need.
    from inscriptis import get_text  # type: ignore[import-untyped]  # noqa: PLC0415
    from inscriptis.css_profiles import CSS_PROFILES  # type: ignore[import-untyped]  # noqa: PLC0415
    from inscriptis.model.config import ParserConfig  # type: ignore[import-untyped]  # noqa: PLC0415

    configuration = ParserConfig(css=CSS_PROFILES["strict"], display_links=True, display_anchors=False)
    return lambda html: str(get_text(html, configuration))
