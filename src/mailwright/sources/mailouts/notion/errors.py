"""Errors of the Notion API, classified by remedy: fix the cause, retry later, or check the result."""

from typing import Any

from mailwright.domain.clock import Instant
from mailwright.domain.errors import MailwrightError


class NotionError(MailwrightError):
    """A request to Notion failed."""

    code = "NOTION_ERROR"

    def __init__(
        self, message: str | None = None, /, *, code: str | None = None, field: str | None = None, **values: Any
    ) -> None:
        super().__init__(message, field=field, **values)
        self.code = code or type(self).code


class NotionRefused(NotionError):
    """Notion refuses the request until something changes in Notion or in the settings. Retrying is useless."""

    code = "NOTION_REFUSED"


class NotionUnavailable(NotionError):
    """Notion is unreachable or too busy. Nothing was written; the request can be repeated later."""

    code = "NOTION_UNAVAILABLE"

    def __init__(
        self,
        message: str | None = None,
        /,
        *,
        code: str | None = None,
        retry_after: Instant | None = None,
        **values: Any,
    ) -> None:
        super().__init__(message, code=code, **values)
        self.retry_after = retry_after  # the wait that Notion requested


class NotionInDoubt(NotionUnavailable):
    """A write got no complete response, so Notion may have carried it out. Check before repeating it."""

    code = "NOTION_IN_DOUBT"
