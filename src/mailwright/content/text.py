"""Plain text from HTML: what a reader without HTML gets, with the address behind every link."""

import re
from collections.abc import Callable
from functools import cache

# The tree builder behind inscriptis refuses text with an encoding declaration, and characters that XML does not know.
_UNREADABLE = re.compile(r"<\?xml[^<>]*>|[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_TAG = re.compile(r"<[^<>]*>")
# Their text is not for reading, so a mail of pictures has none.
_UNREAD = ("<style", "<title", "<script")
_TRAILING_SPACE = re.compile(r"[ \t]+$", re.MULTILINE)
_BLANK_LINES = re.compile(r"\n{3,}")


def from_html(html: str) -> str:
    """Never fails: HTML that the parser cannot make sense of, or gives up on, loses its tags and keeps its words."""
    readable = _UNREADABLE.sub("", html)
    try:
        text = _reader()(readable)
    except Exception:  # whatever a parser chokes on, the mail still needs a text part
        text = ""
    lowered = readable.lower()
    if not text.strip() and not any(tag in lowered for tag in _UNREAD):
        text = _TAG.sub("", readable)
    return _BLANK_LINES.sub("\n\n", _TRAILING_SPACE.sub("", text)).strip("\n")


@cache
def _reader() -> Callable[[str], str]:
    # Seven megabytes with lxml, which whoever makes no mail need not have.
    from inscriptis import get_text  # type: ignore[import-untyped]  # noqa: PLC0415
    from inscriptis.css_profiles import CSS_PROFILES  # type: ignore[import-untyped]  # noqa: PLC0415
    from inscriptis.model.config import ParserConfig  # type: ignore[import-untyped]  # noqa: PLC0415

    configuration = ParserConfig(css=CSS_PROFILES["strict"], display_links=True, display_anchors=False)
    return lambda html: str(get_text(html, configuration))
