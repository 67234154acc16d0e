"""Parse XML from strangers into a small tree. Entities, document types and deep or huge trees are refused."""

import re
from dataclasses import field
from typing import Final
from xml.parsers import expat

from mailwright.domain.lazy_dataclass import dataclass
from mailwright.events.bounces.email_parts import decode_text
from mailwright.events.dmarc.unpack import UnusableFile

MAX_DEPTH: Final = 20
MAX_ELEMENTS: Final = 500_000
MAX_TEXT: Final = 1_000  # characters of one element; the rest is ignored
_DECLARATION: Final = re.compile(rb"^<\?xml[^>]{0,200}encoding\s*=\s*[\"']([A-Za-z0-9._-]{1,40})", re.IGNORECASE)
_ADDRESS: Final = re.compile(rb"<([^<>\s/!?@]{1,64}@[^<>\s]{1,255})>")
_SCHEMA: Final = re.compile(rb"</?(?:[A-Za-z0-9_]{1,20}:)?schema\b[^<>]{0,2000}>", re.IGNORECASE)
_BEGINNING: Final = re.compile(rb"<\?xml\b|<(?:[A-Za-z0-9_]{1,20}:)?feedback\b", re.IGNORECASE)
MAX_PREAMBLE: Final = 4_000
_TEXT_AFTER_THE_END: Final = expat.errors.codes[expat.errors.XML_ERROR_JUNK_AFTER_DOC_ELEMENT]
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")


@dataclass(slots=True)
class Element:
    """An element without attributes. Names are in lower case and without their namespace."""

    name: str
    text: str = ""
    children: list["Element"] = field(default_factory=list)

    def all(self, name: str) -> list["Element"]:
        return [child for child in self.children if child.name == name]

    def first(self, *path: str) -> "Element":
        """Return the first element at a path; an empty one if there is none."""
        found = self
        for name in path:
            found = next((child for child in found.children if child.name == name), _NOTHING)
        return found

    def value(self, *path: str) -> str:
        """Return the text at a path, without control characters and the white space around it."""
        text = self.first(*path).text.strip()
        return "".join(character for character in text if character.isprintable())


_NOTHING: Final = Element("")


def parse_xml(content: bytes) -> Element:
    """Return the root element, or raise `UnusableFile`.

    Addresses in angle brackets are read as text, although they are not valid XML. A schema around the report, which
    some reporters do not close, and text before and after the report are ignored, and prefixes need no declaration.
    """
    text = _SCHEMA.sub(b"", _as_utf_8(content))
    text = text[_begin(text) :]
    try:
        return _parse(text)
    except UnusableFile:
        plain = _ADDRESS.sub(rb"\1", text)
        if plain == text:
            raise
        return _parse(plain)


def _begin(text: bytes) -> int:
    """Return where the document begins, after the text that a program wrote before it by mistake."""
    if text.startswith(b"<?xml"):
        return 0
    found = _BEGINNING.search(text[:MAX_PREAMBLE])
    return found.start() if found else 0


def _parse(text: bytes) -> Element:
    builder = _Builder()
    parser = expat.ParserCreate(encoding="utf-8")
    parser.buffer_text = True
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.add_text
    # Without a document type there are no entities, so neither exponential growth nor external files are possible.
    parser.StartDoctypeDeclHandler = builder.refuse_document_type
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        if builder.is_complete and error.code == _TEXT_AFTER_THE_END and builder.root is not None:
            return builder.root
        raise UnusableFile(f"it is not valid XML (line {error.lineno})") from error
    if builder.root is None:
        raise UnusableFile("it is not valid XML")
    return builder.root


def _as_utf_8(content: bytes) -> bytes:
    """Convert the document to UTF-8. Reporters declare wrong charsets, and put white space before the declaration."""
    if content.startswith(_UTF_16):
        return content.decode("utf-16", errors="replace").lstrip().encode("utf-8", "replace")
    stripped = content.removeprefix(b"\xef\xbb\xbf").lstrip()
    declared = _DECLARATION.match(stripped)
    return decode_text(stripped, declared[1].decode() if declared else "").encode("utf-8", "replace")


class _Builder:
    def __init__(self) -> None:
        self.root: Element | None = None
        self._open: list[Element] = []
        self._count = 0

    def start(self, name: str, _attributes: dict[str, str]) -> None:
        self._count += 1
        if len(self._open) >= MAX_DEPTH:
            raise UnusableFile(f"its XML is nested more than {MAX_DEPTH} levels deep")
        if self._count > MAX_ELEMENTS:
            raise UnusableFile(f"its XML has more than {MAX_ELEMENTS:,} elements")
        element = Element(name.rpartition(":")[2].lower())
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)

    @property
    def is_complete(self) -> bool:
        return self.root is not None and not self._open

    def end(self, _name: str) -> None:
        self._open.pop()

    def add_text(self, text: str) -> None:
        element = self._open[-1]
        if len(element.text) < MAX_TEXT:
            element.text += text[: MAX_TEXT - len(element.text)]

    def refuse_document_type(self, *_declaration: object) -> None:
        raise UnusableFile("its XML has a document type, which could define entities")
