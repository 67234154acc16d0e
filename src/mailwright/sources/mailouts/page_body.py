"""Read any Notion page as HTML, for the composer."""

from mailwright.domain.lazy_dataclass import dataclass
from mailwright.sources.mailouts.notion import Notion, notion_id, read_content
from mailwright.sources.mailouts.rendering import ImageCopier, render


@dataclass(frozen=True, slots=True)
class PageReader:
    notion: Notion
    images: ImageCopier
    tenant_id: int

    async def read_html(self, page: str) -> str:
        """Return the content of a page, named by its address or ID. Only copies of its images are stored."""
        blocks = await read_content(self.notion, notion_id(page, field="page"))
        return render(blocks, await self.images.copy(self.tenant_id, blocks)).html
