"""Words of reporters, made fit to keep: times in any spelling, texts of any length, links without their secrets."""

from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from mailwright.domain import address
from mailwright.domain.clock import Instant, to_instant
from mailwright.domain.ids import is_uuid

MAX_TEXT_LENGTH = 500


def parse_time(value: Any, now: Instant) -> Instant:
    """An ISO time, a time with a space before its zone, or seconds since 1970; now, if it is none of these or later."""
    if isinstance(value, bool):
        return now
    try:
        if isinstance(value, int | float):
            return max(0, min(round(value * 1000), now))
        if isinstance(value, str) and value.strip().isdecimal():
            return min(int(value) * 1000, now)
        if isinstance(value, str):
            moment = datetime.fromisoformat(value.replace(" +", "+").replace(" -", "-").strip())
            zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            return max(0, min(to_instant(zoned), now))
    except (ValueError, OverflowError):
        pass
    return now


def clean_metadata(**words: Any) -> dict[str, Any]:
    """What was said, without what was not: short texts, numbers and truths only."""
    return {
        name: value[:MAX_TEXT_LENGTH] if isinstance(value, str) else value
        for name, value in words.items()
        if isinstance(value, str | int | float) and value != ""
    }


def link_without_query(url: Any) -> str | None:
    """A link may carry a token of the reader's after its question mark."""
    if not isinstance(url, str):
        return None
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return None
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


def address_key(text: str) -> str:
    """One spelling for all copies of a report, even of what is no address."""
    try:
        return address.normal(text)
    except address.InvalidAddress:
        return text.strip().lower()[: address.MAX_LENGTH]


def parse_outbox_id(text: Any) -> str | None:
    """Ours, by itself or as the part before the @ of a Message-ID."""
    if not isinstance(text, str):
        return None
    found = text.strip().strip("<>").partition("@")[0]
    return found if is_uuid(found) else None
