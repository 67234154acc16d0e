"""Read the blocks of a page in page order, depth first, without following cycles."""

from collections.abc import Mapping
from typing import Any

from mailwright.domain.translation import lazy_gettext
from mailwright.sources.mailouts.notion.client import Notion
from mailwright.sources.mailouts.notion.errors import NotionRefused
from mailwright.sources.mailouts.notion.ids import notion_id
from mailwright.sources.mailouts.notion.pages import NotionBlock

MAX_DEPTH = 10
# At 100 blocks per request and three requests per second, larger pages would take minutes.
MAX_BLOCKS = 5_000

# The children of these blocks are not read: other pages, private notes, and blocks that the API does not return.
CLOSED = frozenset({"child_page", "child_database", "template", "meeting_notes", "transcription", "unsupported"})


async def read_content(notion: Notion, page_id: str) -> tuple[NotionBlock, ...]:
    """Read all blocks of a page. A block's `missing` explains why its children were not read."""
    return await _PageReader(notion, MAX_DEPTH).inside(notion_id(page_id), depth=1, seen=frozenset())


async def read_top_level(notion: Notion, page_id: str) -> tuple[NotionBlock, ...]:
    """Read the first level only, usually with one request. Blocks with children have a reason in `missing`."""
    return await _PageReader(notion, 1).inside(notion_id(page_id), depth=1, seen=frozenset())


class _PageReader:
    """Reads one page and counts its blocks."""

    def __init__(self, notion: Notion, most_depth: int) -> None:
        self._notion = notion
        self._most_depth = most_depth
        self._count = 0

    async def inside(self, block_id: str, *, depth: int, seen: frozenset[str]) -> tuple[NotionBlock, ...]:
        found = await self._notion.children(block_id)
        self._count += len(found)
        if self._count > MAX_BLOCKS:
            raise NotionRefused(
                "The page has more than {max_blocks} blocks. Shorten it to send it as an email.",
                code="NOTION_PAGE_TOO_LARGE",
                max_blocks=MAX_BLOCKS,
            )
        return tuple([await self._block(each, depth, seen) for each in found])

    async def _block(self, found: Mapping[str, Any], depth: int, seen: frozenset[str]) -> NotionBlock:
        kind, block_id = str(found.get("type")), str(found.get("id"))
        inner = found.get(kind)
        content: Mapping[str, Any] = inner if isinstance(inner, Mapping) else {}
        if kind == "link_to_page":
            return await self._linked(block_id, content)
        original = _original(content) if kind == "synced_block" else None
        if kind in CLOSED or not (found.get("has_children") or original):
            return NotionBlock(block_id, kind, content)
        source = original or block_id
        if source in seen:
            return NotionBlock(block_id, kind, content, missing=lazy_gettext("it contains itself"))
        if depth >= self._most_depth:
            return NotionBlock(
                block_id,
                kind,
                content,
                missing=lazy_gettext("it is nested more than {depth} levels deep", depth=self._most_depth),
            )
        try:
            children = await self.inside(source, depth=depth + 1, seen=seen | {source})
        except NotionRefused as refused:
            if original is None or refused.code != "NOTION_NOT_SHARED":
                raise
            return NotionBlock(
                block_id, kind, content, missing=lazy_gettext("its original is on a page without access")
            )
        return NotionBlock(block_id, kind, content, children)

    async def _linked(self, block_id: str, content: Mapping[str, Any]) -> NotionBlock:
        """Add the title and public address of the linked page, if there are any."""
        target = content.get("page_id")
        if not isinstance(target, str):
            return NotionBlock(block_id, "link_to_page", content)
        try:
            title, public_url = await self._notion.named_page(target)
        except NotionRefused:
            return NotionBlock(
                block_id, "link_to_page", content, missing=lazy_gettext("it links to a page without access")
            )
        return NotionBlock(block_id, "link_to_page", {**content, "title": title, "public_url": public_url})


def _original(content: Mapping[str, Any]) -> str | None:
    source = content.get("synced_from")
    found = source.get("block_id") if isinstance(source, Mapping) else None
    return found if isinstance(found, str) else None
