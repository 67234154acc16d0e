"""What authors write a mail in."""

from enum import StrEnum


class Format(StrEnum):
    HTML = "html"
    MJML = "mjml"
    MARKDOWN = "markdown"
