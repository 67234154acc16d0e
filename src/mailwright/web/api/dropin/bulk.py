"""Find the list of bulk email in the fields of services that have no field for it."""

import re
from collections.abc import Mapping
from typing import Final

from mailwright.content.headers import UNSUBSCRIBE_HEADERS
from mailwright.domain.message import UNSUBSCRIBE_LINK_MARK

_LIST_ID: Final = "list-id"
_IN_BRACKETS: Final = re.compile(r"<([^<>]*)>")


def list_of_header(headers: Mapping[str, str]) -> str | None:
    """Return the key of the list that a List-Id names: `news` of `Our news <news.example.com>`."""
    value = next((value for name, value in headers.items() if name.lower() == _LIST_ID), "")
    found = _IN_BRACKETS.search(value)
    return (found[1] if found else value).strip().partition(".")[0].lower() or None


def without_unsubscribe(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers without those that Mailwright writes for a list."""
    return {name: value for name, value in headers.items() if name.lower() not in UNSUBSCRIBE_HEADERS}


def mark_links(content: str | None, url: re.Pattern[str]) -> str | None:
    """Replace a service's variable for the unsubscribe link. In email without a list, nothing remains of it."""
    return None if content is None else url.sub(UNSUBSCRIBE_LINK_MARK, content)
