"""Ids: UUIDv7 for what the world sees, so that ids sort by the time they were made."""

import secrets
import uuid
from collections.abc import Callable

from mailwright.domain.clock import Instant

# Of the digit after the third hyphen two bits are random, and two say that the standard's variant is meant.
_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}


def uuid7(now: Instant, random_bytes: Callable[[int], bytes] = secrets.token_bytes) -> str:
    """RFC 9562, version 7: 48 bits of milliseconds, then 74 random bits."""
    return uuid7s(now, 1, random_bytes)[0]


def uuid7s(now: Instant, count: int, random_bytes: Callable[[int], bytes] = secrets.token_bytes) -> list[str]:
    """Many at once: asking the system for randomness costs more than all the rest."""
    time = f"{now & 0xFFFF_FFFF_FFFF:012x}"
    head, tails = f"{time[:8]}-{time[8:]}-7", random_bytes(10 * count).hex()
    # Cut from one text: a million contacts are imported at once.
    return [
        f"{head}{tails[at + 1 : at + 4]}-{_VARIANT[tails[at + 4]]}{tails[at + 5 : at + 8]}-{tails[at + 8 : at + 20]}"
        for at in range(0, 20 * count, 20)
    ]


def is_uuid(text: str) -> bool:
    """Only the canonical spelling: an id has one form, in logs, addresses and tables alike."""
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False


def token() -> int:
    """Names one claim or one settlement. Positive and below 2**63, so that it fits a bigint column on every engine."""
    return secrets.randbits(62) | 1
