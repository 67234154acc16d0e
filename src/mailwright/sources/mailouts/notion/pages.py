"""Pages, blocks and tables of Notion as values."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from mailwright.domain.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class NotionPage:
    """A page. `properties` are in Notion's format, by name; blocks are read separately."""

    id: str
    properties: Mapping[str, Mapping[str, Any]]
    is_in_trash: bool = False
    data_source_id: str | None = None  # the table of the page
    edited_at: str | None = None  # the last edit of properties or content, to the minute


@dataclass(frozen=True, slots=True)
class DataSource:
    """A table, with the types and options of its columns by name."""

    id: str
    name: str
    types: Mapping[str, str]
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of its select and status columns


@dataclass(frozen=True, slots=True)
class NotionBlock:
    """A block with its children. `content` is the object that Notion stores under the type of the block."""

    id: str
    type: str
    content: Mapping[str, Any] = field(default_factory=dict)
    children: "tuple[NotionBlock, ...]" = ()
    missing: str | None = None  # why its children were not read


def every(blocks: Sequence[NotionBlock]) -> Iterator[NotionBlock]:
    """Yield every block in page order, parents before children."""
    for block in blocks:
        yield block
        yield from every(block.children)
