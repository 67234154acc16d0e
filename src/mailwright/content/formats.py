"""The formats in which authors write emails."""

from enum import StrEnum


class TemplateFormat(StrEnum):
    HTML = "html"
    MJML = "mjml"
    MARKDOWN = "markdown"
    BLOCKS = "blocks"  # a JSON document of blocks
