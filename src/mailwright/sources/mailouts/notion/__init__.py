"""Notion: pages are read as they are, figures are written back, and whatever is wrong is said in one sentence."""

from mailwright.sources.mailouts.notion.client import NOTION_URL, VERSIONS, Notion
from mailwright.sources.mailouts.notion.content import content_of, surface_of
from mailwright.sources.mailouts.notion.errors import (
    NotionError,
    NotionInDoubt,
    NotionRefused,
    NotionUnavailable,
)
from mailwright.sources.mailouts.notion.ids import notion_id
from mailwright.sources.mailouts.notion.pace import SharedPace
from mailwright.sources.mailouts.notion.pages import Block, DataSource, Page
from mailwright.sources.mailouts.notion.properties import (
    Cell,
    ErrorNames,
    Mailout,
    MailoutNames,
    Written,
    plain,
    read_mailout,
    written,
)

__all__ = [
    "NOTION_URL",
    "VERSIONS",
    "Block",
    "Cell",
    "DataSource",
    "ErrorNames",
    "Mailout",
    "MailoutNames",
    "Notion",
    "NotionError",
    "NotionInDoubt",
    "NotionRefused",
    "NotionUnavailable",
    "Page",
    "SharedPace",
    "Written",
    "content_of",
    "notion_id",
    "plain",
    "read_mailout",
    "surface_of",
    "written",
]
