"""The block document: its models, limits and errors.

Unknown blocks and unknown fields are kept, so that a document survives a round trip through an older version.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Final, Literal, NamedTuple
from unicodedata import normalize

import orjson
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Strict,
    Tag,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from mailwright.content import html as html_rules
from mailwright.content.brand import Font, Network
from mailwright.content.colors import parse_color
from mailwright.content.template import InvalidTemplate
from mailwright.content.template_markers import is_reserved
from mailwright.content.variables import KNOWN_VARIABLES
from mailwright.domain.translation import lazy_gettext

MAX_BLOCKS: Final = 500
# Blocks inside columns, conditions and repeats. A usual document has three levels.
MAX_BLOCK_LEVELS: Final = 8
# Pieces of template code in all blocks, because each takes time to compile.
MAX_CODE_PIECES: Final = 2_000
# Levels of JSON, because an unknown block may contain anything.
MAX_JSON_LEVELS: Final = 60
BRAND_COLORS: Final = ("primary", "text", "background", "accent")
_BRAND_PREFIX: Final = "brand:"
_SCHEMES: Final = frozenset(["http", "https", "mailto", "tel", "sms"])
_SCHEME: Final = re.compile(r"([^/?#{]*?):")
_CONTROLS: Final = dict.fromkeys([*range(0x21), 0x7F])
_MAX_NAME_LENGTH: Final = 100
_MAX_NAMES: Final = 10
_RESERVED_NAMES: Final = frozenset(
    ["and", "else", "false", "for", "if", "in", "is", "loop", "none", "not", "or", "self", "set", "true"]
)


JsonDocument = Mapping[str, Any]


class InvalidDocument(InvalidTemplate):
    """The block document is invalid."""

    def __init__(
        self, message: str, /, *, block_id: str | None = None, block_field: str | None = None, **values: Any
    ) -> None:
        super().__init__(message, **values)
        block, reason = repr(block_id), self.reason
        if block_id is not None and block_field:
            super().__init__("Block {block}, field {name}: {reason}", block=block, name=block_field, reason=reason)
        elif block_id is not None:
            super().__init__("Block {block}: {reason}", block=block, reason=reason)
        elif block_field:
            super().__init__("Field {name}: {reason}", name=block_field, reason=reason)
        self.block_id = block_id
        self.block_field = block_field


def is_variable(path: str) -> bool:
    """Return whether a template can use this name: `first_name` or `item.title`."""
    names = path.split(".")
    is_path = len(names) <= _MAX_NAMES and all(map(_is_name, names)) and not is_reserved(path)
    return is_path and names[0].lower() not in _RESERVED_NAMES


def _is_name(text: str) -> bool:
    """Return whether the template language reads this as one name, without changing any character."""
    return text.isidentifier() and len(text) <= _MAX_NAME_LENGTH and normalize("NFKC", text) == text


def brand_color(color: str) -> str | None:
    """Return the name of a colour of the brand kit: `primary` for `brand:primary`; None for any other colour."""
    return color.removeprefix(_BRAND_PREFIX) if color.startswith(_BRAND_PREFIX) else None


def _color(text: str) -> str:
    if (name := brand_color(text)) is not None:
        if name not in BRAND_COLORS:
            raise ValueError(
                lazy_gettext(
                    "must be one of {brand_colors}",
                    brand_colors=", ".join(_BRAND_PREFIX + each for each in BRAND_COLORS),
                )
            )
        return text
    parse_color(text)
    return text


def is_allowed_url(text: str) -> bool:
    return _unknown_scheme(text) is None


def _url(text: str) -> str:
    if (scheme := _unknown_scheme(text)) is not None:
        raise ValueError(
            lazy_gettext(
                "has the scheme {scheme}; use an https://, http://, mailto:, tel: or sms: address",
                scheme=repr(scheme[:30]),
            )
        )
    return text


def _unknown_scheme(text: str) -> str | None:
    """Return the scheme of a URL if it is not allowed. Control characters in it are ignored, as browsers do."""
    scheme = _SCHEME.match(text.translate(_CONTROLS))
    return None if scheme is None or scheme[1].lower() in _SCHEMES else scheme[1]


def _variable(text: str) -> str:
    if text and not is_variable(text):
        raise ValueError(
            lazy_gettext("must be the name of a variable: letters, digits, _ and dots, for example order.items")
        )
    return text


def _item_name(text: str) -> str:
    if "." in text or not is_variable(text):
        raise ValueError(
            lazy_gettext("must be a name of letters, digits and _ that is not a word of the template language")
        )
    if text in KNOWN_VARIABLES:
        raise ValueError(
            lazy_gettext(
                "is the name of a variable that every email has; choose another, for example my_{text}", text=text
            )
        )
    return text


Pixels = Annotated[int, Strict(), Field(ge=0, le=2_000)]
Percent = Annotated[int | float, Field(gt=0, le=100)]
Color = Annotated[str, Field(max_length=20), AfterValidator(_color)]
Url = Annotated[str, Field(max_length=4_000), AfterValidator(_url)]
Line = Annotated[str, Field(max_length=2_000)]
Html = Annotated[str, Field(max_length=200_000)]
BlockId = Annotated[str, Field(min_length=1, max_length=64)]


class DocumentPart(BaseModel):
    """A part of a document. Fields that this version does not know are kept."""

    model_config = ConfigDict(extra="allow", frozen=True, alias_generator=to_camel, defer_build=True)


class Padding(DocumentPart):
    top: Pixels | None = None
    bottom: Pixels | None = None


class Block(DocumentPart):
    """The fields of every block."""

    id: BlockId
    type: str
    padding: Padding | None = None
    background: Color | None = None
    align: Literal["left", "center", "right"] | None = None
    locked: Annotated[bool, Strict()] = False
    hide_on: Literal["phone", "desktop"] | None = None


class UnknownBlock(DocumentPart):
    """A block of another version: kept unchanged, and not rendered."""

    id: BlockId
    type: str


class HeadingBlock(Block):
    level: Annotated[int, Strict(), Field(ge=1, le=3)] = 1
    html: Html = ""


class TextBlock(Block):
    html: Html = ""


class ImageBlock(Block):
    src: Url = ""
    alt: Line = ""
    decorative: Annotated[bool, Strict()] = False  # The image has no meaning, so its alternative text is empty.
    href: Url | None = None
    width: Annotated[Pixels, Field(ge=1)] | None = None


class ButtonBlock(Block):
    label: Line = ""
    href: Url = ""
    color: Color | None = None
    text_color: Color | None = None
    full_width: Annotated[bool, Strict()] = False


class Column(DocumentPart):
    width: Percent | None = None
    blocks: "tuple[AnyBlock, ...]" = ()


class ColumnsBlock(Block):
    columns: Annotated[tuple[Column, ...], Field(min_length=2, max_length=3)]
    stack_on_phone: Annotated[bool, Strict()] = True


class DividerBlock(Block):
    color: Color | None = None
    thickness: Annotated[Pixels, Field(ge=1, le=20)] | None = None


class SpacerBlock(Block):
    height: Annotated[Pixels, Field(le=400)] = 24


class SocialBlockLink(DocumentPart):
    network: Network
    href: Url = ""


class SocialBlock(Block):
    links: tuple[SocialBlockLink, ...] = ()


class VideoBlock(Block):
    href: Url = ""
    thumbnail: Url = ""
    alt: Line = ""


class QuoteBlock(Block):
    html: Html = ""
    cite: Line | None = None


class HtmlBlock(Block):
    html: Html = ""


class CardBlock(Block):
    image: Url | None = None
    alt: Line | None = None
    title: Line = ""
    html: Html | None = None
    href: Url | None = None
    label: Line | None = None


class HeaderBlock(Block):
    logo: Url | None = None
    alt: Line | None = None
    href: Url | None = None


class FooterBlock(Block):
    """The postal address and the links follow `html`. A transactional email has no unsubscribe link."""

    html: Html | None = None
    transactional: Annotated[bool, Strict()] = False


class ConditionBlock(Block):
    segment: Annotated[str, Field(max_length=63)] = ""
    blocks: "tuple[AnyBlock, ...]" = ()
    otherwise: "tuple[AnyBlock, ...] | None" = None


class RepeatBlock(Block):
    over: Annotated[str, AfterValidator(_variable)] = ""
    item: Annotated[str, Field(alias="as"), AfterValidator(_item_name)] = "item"
    blocks: "tuple[AnyBlock, ...]" = ()
    limit: Annotated[int, Strict(), Field(ge=1, le=1_000)] | None = None


class SlotBlock(Block):
    name: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,62}$")]
    label: Line = ""
    kind: Literal["text", "richText", "image", "link"] = "text"
    value: Html = ""
    alt: Line | None = None

    @model_validator(mode="after")
    def _value_is_an_address(self) -> "SlotBlock":
        if self.kind in ("image", "link"):
            _url(self.value)
        return self


_BLOCKS: Final[Mapping[str, type[Block]]] = {
    "heading": HeadingBlock,
    "text": TextBlock,
    "image": ImageBlock,
    "button": ButtonBlock,
    "columns": ColumnsBlock,
    "divider": DividerBlock,
    "spacer": SpacerBlock,
    "social": SocialBlock,
    "video": VideoBlock,
    "quote": QuoteBlock,
    "html": HtmlBlock,
    "card": CardBlock,
    "header": HeaderBlock,
    "footer": FooterBlock,
    "condition": ConditionBlock,
    "repeat": RepeatBlock,
    "slot": SlotBlock,
}
BLOCK_TYPES: Final = frozenset(_BLOCKS)


def _type_of(value: Any) -> str:
    found = value.get("type") if isinstance(value, Mapping) else getattr(value, "type", None)
    return found if isinstance(found, str) and found in BLOCK_TYPES else "unknown"


AnyBlock = Annotated[
    Annotated[HeadingBlock, Tag("heading")]
    | Annotated[TextBlock, Tag("text")]
    | Annotated[ImageBlock, Tag("image")]
    | Annotated[ButtonBlock, Tag("button")]
    | Annotated[ColumnsBlock, Tag("columns")]
    | Annotated[DividerBlock, Tag("divider")]
    | Annotated[SpacerBlock, Tag("spacer")]
    | Annotated[SocialBlock, Tag("social")]
    | Annotated[VideoBlock, Tag("video")]
    | Annotated[QuoteBlock, Tag("quote")]
    | Annotated[HtmlBlock, Tag("html")]
    | Annotated[CardBlock, Tag("card")]
    | Annotated[HeaderBlock, Tag("header")]
    | Annotated[FooterBlock, Tag("footer")]
    | Annotated[ConditionBlock, Tag("condition")]
    | Annotated[RepeatBlock, Tag("repeat")]
    | Annotated[SlotBlock, Tag("slot")]
    | Annotated[UnknownBlock, Tag("unknown")],
    Discriminator(_type_of),
]


class DocumentSettings(DocumentPart):
    """The look of a document. Missing values come from the brand kit, then from the defaults."""

    width: Annotated[int, Strict(), Field(ge=320, le=900)] | None = None
    background: Color | None = None
    content_background: Color | None = None
    text_color: Color | None = None
    link_color: Color | None = None
    font: Font | None = None


class BlockDocument(DocumentPart):
    version: Literal[1]
    settings: DocumentSettings | None = None
    preheader: Line | None = None
    # MJML of a developer with a placeholder for each slot: `[[name]]`. All blocks of the document are then slots.
    mjml: Annotated[str, Field(max_length=html_rules.MAX_BYTES)] | None = None
    blocks: tuple[AnyBlock, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the document as it was written, unknown blocks and fields included."""
        return self.model_dump(by_alias=True, exclude_unset=True, mode="json")


def parse_document(source: str | bytes | Mapping[str, Any]) -> BlockDocument:
    """Parse a document, or raise an error that names the block and the field."""
    raw = read_json(source) if isinstance(source, str | bytes) else dict(source)
    _check_structure(raw)
    try:
        document = BlockDocument.model_validate(raw)
    except ValidationError as error:
        raise _first_error(error, raw) from error
    _check_slots(document)
    if _count_openings(raw) > MAX_CODE_PIECES:
        raise InvalidDocument(
            "The document has more than {max_code_pieces} pieces of template code. Remove some.",
            max_code_pieces=MAX_CODE_PIECES,
        )
    return document


def _count_openings(value: Any) -> int:
    """Count the places where template code may begin."""
    if isinstance(value, str):
        return sum(map(value.count, ("{{", "{%", "{#", "data-variable")))
    if isinstance(value, Mapping):
        return sum(map(_count_openings, value.values()))
    return sum(map(_count_openings, value)) if isinstance(value, list | tuple) else 0


def check_draft(raw: JsonDocument) -> None:
    """Raise if the composer cannot open the document. The fields of its blocks may be unfinished."""
    _check_structure(raw)
    if raw.get("version") != 1:
        raise InvalidDocument("The version of the document must be 1.")
    placed = [each.block for each in iter_blocks(raw)]
    inner = [each for block in placed for each in _inner_lists(block) if each is not None]
    for blocks in (raw.get("blocks"), *inner):
        if not isinstance(blocks, list) or not all(isinstance(block, Mapping) for block in blocks):
            raise InvalidDocument("Each list of blocks must be an array of objects.", block_field="blocks")
    for block in placed:
        if not all(isinstance(block.get(name), str) and block[name] for name in ("id", "type")):
            raise InvalidDocument("Each block must have an id and a type.", block_field="blocks")
        if block["type"] == "columns" and not isinstance(block.get("columns"), list):
            raise InvalidDocument("must be an array.", block_id=block["id"], block_field="columns")


def read_json(source: str | bytes) -> dict[str, Any]:
    """Read the JSON of a document without checking its blocks."""
    if len(source if isinstance(source, bytes) else source.encode("utf-8", "replace")) > html_rules.MAX_BYTES:
        raise InvalidDocument("The document is larger than {max_bytes} KB.", max_bytes=html_rules.MAX_BYTES // 1024)
    try:
        raw = orjson.loads(source)
    except orjson.JSONDecodeError as error:
        raise InvalidDocument("The document is not valid JSON: {error}.", error=error) from error
    if not isinstance(raw, dict):
        raise InvalidDocument("The document must be a JSON object with a version and blocks.")
    return raw


class PlacedBlock(NamedTuple):
    """A block of the JSON document, with its position. `parent` names the block and the list that contain it."""

    block: Mapping[str, Any]
    level: int
    is_in_columns: bool
    parent: str = ""


def iter_blocks(raw: Mapping[str, Any]) -> Iterator[PlacedBlock]:
    """Yield every block of a JSON document, each before the blocks in it."""
    return _walk(raw.get("blocks"), PlacedBlock({}, 0, False))


def _check_structure(raw: Mapping[str, Any]) -> None:
    """Check limits of the whole document, before the recursive models read it."""
    if _levels_exceed(raw, MAX_JSON_LEVELS):
        raise InvalidDocument(
            "The document is nested more than {max_json_levels} levels deep.", max_json_levels=MAX_JSON_LEVELS
        )
    seen: set[str] = set()
    for number, placed in enumerate(iter_blocks(raw), 1):
        block_id = placed.block.get("id")
        name = block_id if isinstance(block_id, str) else None
        if number > MAX_BLOCKS:
            raise InvalidDocument(
                "The document has more than {max_blocks} blocks. Split it into two emails.", max_blocks=MAX_BLOCKS
            )
        if placed.level > MAX_BLOCK_LEVELS:
            raise InvalidDocument(
                "blocks are nested more than {max_block_levels} levels deep.",
                block_id=name,
                max_block_levels=MAX_BLOCK_LEVELS,
            )
        if placed.is_in_columns and placed.block.get("type") == "columns":
            raise InvalidDocument("columns cannot be inside columns.", block_id=name)
        if name is not None and name in seen:
            raise InvalidDocument("another block has the same id.", block_id=name, block_field="id")
        seen.add(name or "")


def _walk(blocks: Any, outer: PlacedBlock) -> Iterator[PlacedBlock]:
    """Yield the blocks of a list. `outer` has the position of its blocks, except the level."""
    level, is_in_columns = outer.level + 1, outer.is_in_columns
    for block in blocks if isinstance(blocks, list | tuple) else ():
        if not isinstance(block, Mapping):
            continue
        yield PlacedBlock(block, level, is_in_columns, outer.parent)
        if level > MAX_BLOCK_LEVELS:
            continue
        inside = is_in_columns or block.get("type") == "columns"
        for number, inner in enumerate(_inner_lists(block)):
            yield from _walk(inner, PlacedBlock(block, level, inside, f"{block.get('id')}/{number}"))


def _inner_lists(block: Mapping[str, Any]) -> Iterable[Any]:
    match block.get("type"):
        case "columns":
            columns = block.get("columns")
            for column in columns if isinstance(columns, list | tuple) else ():
                yield column.get("blocks") if isinstance(column, Mapping) else None
        case "condition":
            yield from (block.get("blocks"), block.get("otherwise"))
        case "repeat":
            yield block.get("blocks")


def _levels_exceed(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        level = [
            inner
            for each in level
            if isinstance(each, Mapping | list | tuple)
            for inner in (each.values() if isinstance(each, Mapping) else each)
        ]
        if not level:
            return False
    return True


def _check_slots(document: BlockDocument) -> None:
    names: set[str] = set()
    for block in document.blocks:
        if isinstance(block, SlotBlock):
            if block.name in names:
                raise InvalidDocument("another slot has the same name.", block_id=block.id, block_field="name")
            names.add(block.name)
        elif document.mjml is not None:
            raise InvalidDocument("a document with its own MJML can contain only slots.", block_id=block.id)


def _first_error(error: ValidationError, raw: Mapping[str, Any]) -> InvalidDocument:
    details = error.errors(include_url=False)[0]
    block_id, fields = _place(details, raw)
    message = details["msg"].removeprefix("Value error, ")
    return InvalidDocument("{reason}.", reason=message, block_id=block_id, block_field=".".join(fields))


def _place(details: ErrorDetails, raw: Mapping[str, Any]) -> tuple[str | None, list[str]]:
    """Return the id of the innermost block and the field in it. Names of union members are not in the document."""
    block_id, fields = None, []
    found: Any = raw
    for step in details["loc"]:
        if isinstance(step, int):
            found = found[step] if isinstance(found, list | tuple) and step < len(found) else None
            fields.append(str(step + 1))
        elif isinstance(found, Mapping) and step in found:
            found = found[step]
            fields.append(step)
        else:
            fields += [step] if details["type"] == "missing" and step == details["loc"][-1] else []
            continue
        if isinstance(found, Mapping) and isinstance(found.get("id"), str) and "type" in found:
            block_id, fields = found["id"], []
    return block_id, fields
