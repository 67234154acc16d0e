"""What Notion holds, as values: pages with properties, blocks with their children, and the tables they stand in."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class NotionPage:
    """`properties` by name, each in Notion's own form; what is written on the page is read apart."""

    id: str
    properties: Mapping[str, Mapping[str, Any]]
    is_in_trash: bool = False
    data_source_id: str | None = None  # of the table that it is a row of
    edited_at: str | None = None  # to the minute, also where only its content was changed, and by whomever


@dataclass(frozen=True, slots=True)
class DataSource:
    """A table: what its columns are called, of which type each is, and what can be chosen."""

    id: str
    name: str
    types: Mapping[str, str]
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of its selects and statuses


@dataclass(frozen=True, slots=True)
class NotionBlock:
    """One block with everything inside it; `content` is what Notion keeps under the name of its type."""

    id: str
    type: str
    content: Mapping[str, Any] = field(default_factory=dict)
    children: "tuple[NotionBlock, ...]" = ()
    missing: str | None = None  # why children that it has are not here


def every(blocks: Sequence[NotionBlock]) -> Iterator[NotionBlock]:
    """Each block before those inside it, in the order of the page."""
    for block in blocks:
        yield block
        yield from every(block.children)
