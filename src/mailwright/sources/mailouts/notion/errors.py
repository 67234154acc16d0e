"""What can go wrong with Notion, by what is to be done about it: change something there, or try again later."""

from mailwright.domain.clock import Instant
from mailwright.domain.errors import MailwrightError


class NotionError(MailwrightError):
    """Notion did not do what was asked."""

    code = "NOTION_ERROR"

    def __init__(self, message: str | None = None, *, code: str | None = None, field: str | None = None) -> None:
        super().__init__(message, field=field)
        self.code = code or type(self).code


class NotionRefused(NotionError):
    """Notion refuses this until somebody changes something there or in our settings. Asking again is no use."""

    code = "NOTION_REFUSED"


class NotionUnavailable(NotionError):
    """Notion cannot be reached or is too busy. The same request may be made again later; nothing was written."""

    code = "NOTION_UNAVAILABLE"

    def __init__(
        self, message: str | None = None, *, code: str | None = None, retry_after: Instant | None = None
    ) -> None:
        super().__init__(message, code=code)
        self.retry_after = retry_after  # how long Notion itself asked us to wait


class NotionInDoubt(NotionUnavailable):
    """No whole answer came to a request that writes: Notion may have done it. Look before asking again."""

    code = "NOTION_IN_DOUBT"
