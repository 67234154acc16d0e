"""The Notion API: read pages and blocks, write properties and rows, and explain every error."""

from mailwright.sources.mailouts.notion.client import NOTION_URL, VERSIONS, Notion
from mailwright.sources.mailouts.notion.content import read_content, read_top_level
from mailwright.sources.mailouts.notion.errors import (
    NotionError,
    NotionInDoubt,
    NotionRefused,
    NotionUnavailable,
)
from mailwright.sources.mailouts.notion.ids import notion_id
from mailwright.sources.mailouts.notion.pages import DataSource, NotionBlock, NotionPage
from mailwright.sources.mailouts.notion.properties import (
    Cell,
    ErrorColumns,
    MailoutColumns,
    MailoutPage,
    PropertyUpdate,
    build_properties,
    plain,
    read_mailout,
)
from mailwright.sources.mailouts.notion.rate_limit import SharedRateLimit

__all__ = [
    "NOTION_URL",
    "VERSIONS",
    "Cell",
    "DataSource",
    "ErrorColumns",
    "MailoutColumns",
    "MailoutPage",
    "Notion",
    "NotionBlock",
    "NotionError",
    "NotionInDoubt",
    "NotionPage",
    "NotionRefused",
    "NotionUnavailable",
    "PropertyUpdate",
    "SharedRateLimit",
    "build_properties",
    "notion_id",
    "plain",
    "read_content",
    "read_mailout",
    "read_top_level",
]
