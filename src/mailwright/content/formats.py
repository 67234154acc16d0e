"""What authors write a mail in."""

from enum import StrEnum


class TemplateFormat(StrEnum):
    HTML = "html"
    MJML = "mjml"
    MARKDOWN = "markdown"
