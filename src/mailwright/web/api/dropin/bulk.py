"""Replace the variables for unsubscribe links of other services."""

import re

from mailwright.domain.message import UNSUBSCRIBE_LINK_MARK


def mark_links(content: str | None, url: re.Pattern[str]) -> str | None:
    """Replace a service's variable for the unsubscribe link. In email without a list, nothing remains of it."""
    return None if content is None else url.sub(UNSUBSCRIBE_LINK_MARK, content)
