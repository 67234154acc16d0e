"""Convert HTML to plain text: links as `text (https://…)`, and the alternative text of images."""

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

# The parser behind inscriptis refuses encoding declarations and characters that XML does not allow.
_UNREADABLE = re.compile(r"<\?xml[^<>]*>|[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_TAG = re.compile(r"<[^<>]*>")
# Text in these elements is not shown, so an email of images has none.
_HIDDEN = ("<style", "<title", "<script")
_TRAILING_SPACE = re.compile(r"[ \t]+$", re.MULTILINE)
_BLANK_LINES = re.compile(r"\n{3,}")
# Links to these need no address in the text: they lead nowhere outside of the email.
_NOWHERE = ("#", "javascript:", "data:", "cid:")


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


def links(html: str) -> Iterator[tuple[str, str]]:
    """Yield the text and the address of every link that leads out of the email."""
    yield from (
        (_link_text(link), address)
        for link in _parse(_UNREADABLE.sub("", html)).iter("a")
        if (address := _address(link))
    )


@cache
def _reader() -> Callable[[str], str]:
    # Imported late: lxml takes seven megabytes that other processes do not need.
    from inscriptis import Inscriptis  # type: ignore[import-untyped]  # noqa: PLC0415
    from inscriptis.css_profiles import CSS_PROFILES  # type: ignore[import-untyped]  # noqa: PLC0415
    from inscriptis.model.config import ParserConfig  # type: ignore[import-untyped]  # noqa: PLC0415

    configuration = ParserConfig(css=CSS_PROFILES["strict"])

    def read(html: str) -> str:
        tree = _parse(html)
        for link in tree.iter("a"):
            _write_address(link)
        return str(Inscriptis(tree, configuration).get_text())

    return read


def _parse(html: str) -> Any:
    """Parse HTML, with the alternative texts of images in their place."""
    from lxml.etree import ParserError  # type: ignore[import-untyped]  # noqa: PLC0415 - see above
    from lxml.html import document_fromstring  # type: ignore[import-untyped]  # noqa: PLC0415 - see above

    try:
        tree = document_fromstring(html)
    except ParserError:  # It has no element: only comments, or nothing at all.
        tree = document_fromstring(f"<pre>{html}</pre>")
    for image in tree.iter("img"):
        image.tag, image.text = "span", (image.get("alt") or "").strip()
    return tree


def _write_address(link: Any) -> None:
    """Write the address behind the text of a link. A link without text is its address."""
    address, shown = _address(link), _link_text(link)
    if address and address != shown:
        written = link.makeelement("span")
        written.text = f" ({address})" if shown else address
        link.append(written)


def _link_text(link: Any) -> str:
    return " ".join(link.text_content().split())


def _address(link: Any) -> str:
    address = link.get("href") or ""
    is_nowhere = not address.strip() or address.lower().startswith(_NOWHERE)
    return "" if is_nowhere else address.removeprefix("mailto:")
