"""Clean values from provider events before they are stored: times, texts, links and addresses."""

from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from mailwright.domain import address
from mailwright.domain.clock import Instant, to_instant
from mailwright.domain.ids import is_uuid

MAX_TEXT_LENGTH = 500


def parse_time(value: Any, now: Instant) -> Instant:
    """Parse an ISO time or Unix seconds. Return `now` if the value is later than now or not a time."""
    if isinstance(value, bool):
        return now
    try:
        if isinstance(value, int | float):
            return max(0, min(round(value * 1000), now))
        if isinstance(value, str) and value.strip().isdecimal():
            return min(int(value) * 1000, now)
        if isinstance(value, str):
            parsed = datetime.fromisoformat(value.replace(" +", "+").replace(" -", "-").strip())
            zoned = parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
            return max(0, min(to_instant(zoned), now))
    except (ValueError, OverflowError):
        pass
    return now


def clean_metadata(**fields: Any) -> dict[str, Any]:
    """Keep strings (truncated), numbers and booleans; drop empty and other values."""
    return {
        name: value[:MAX_TEXT_LENGTH] if isinstance(value, str) else value
        for name, value in fields.items()
        if isinstance(value, str | int | float) and value != ""
    }


def link_without_query(url: Any) -> str | None:
    """Remove the query, which may contain a personal token."""
    if not isinstance(url, str):
        return None
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return None
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


def address_key(text: str) -> str:
    """Normalize an address for report keys; other text is lowercased and truncated."""
    return address.normal_mailbox(text) or text.strip().lower()[: address.MAX_LENGTH]


def parse_outbox_id(text: Any) -> str | None:
    """Return our message ID. The text is either the ID itself or a Message-ID whose local part is the ID."""
    if not isinstance(text, str):
        return None
    candidate = text.strip().strip("<>").partition("@")[0]
    return candidate if is_uuid(candidate) else None
