"""The senders that an API key may use: single addresses and whole domains."""

from collections.abc import Iterable
from typing import Final

from mailwright.domain import address
from mailwright.domain.errors import InvalidInput
from mailwright.domain.lazy_dataclass import dataclass

MAX_SENDERS: Final = 100
MAX_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class AllowedSenders:
    """Addresses, and domains as `@example.com`, in normalized form. A domain does not include its subdomains."""

    entries: frozenset[str]

    def allow(self, sender: str) -> bool:
        """Return whether a sender is allowed. An invalid address never is."""
        try:
            found = address.normal(sender)
        except address.InvalidAddress:
            return False
        return found in self.entries or f"@{address.domain_of(found)}" in self.entries

    def __str__(self) -> str:
        shown = sorted(self.entries)
        more = len(shown) - MAX_SHOWN
        return ", ".join(shown[:MAX_SHOWN]) + (f" and {more} more" if more > 0 else "")


def parse_allowed_senders(texts: Iterable[str]) -> AllowedSenders | None:
    """Return the senders that these texts name; None, for every sender, if there are none."""
    entries = frozenset(_entry(trimmed) for text in texts if (trimmed := address.trim(text)))
    if len(entries) > MAX_SENDERS:
        raise InvalidInput(
            "A key can have at most {max_senders} senders; name whole domains.", field="sender", max_senders=MAX_SENDERS
        )
    return AllowedSenders(entries) if entries else None


def _entry(text: str) -> str:
    is_domain = text.startswith("@")
    try:
        normal = address.normal(f"any{text}" if is_domain else text)
    except address.InvalidAddress as error:
        raise InvalidInput(
            "{text} is neither an address (news@example.com) nor a domain (@example.com): {error}.",
            text=repr(text[:80]),
            error=error,
            field="sender",
        ) from error
    return normal.removeprefix("any") if is_domain else normal
