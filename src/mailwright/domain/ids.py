"""Ids: UUIDv7 for what the world sees, so that ids sort by the time they were made."""

import secrets
import uuid
from collections.abc import Callable

from mailwright.domain.clock import Instant


def uuid7(now: Instant, random_bytes: Callable[[int], bytes] = secrets.token_bytes) -> str:
    """RFC 9562, version 7: 48 bits of milliseconds, then 74 random bits."""
    return uuid7s(now, 1, random_bytes)[0]


def uuid7s(now: Instant, count: int, random_bytes: Callable[[int], bytes] = secrets.token_bytes) -> list[str]:
    """Many at once: asking the system for randomness costs more than all the rest."""
    digits = random_bytes(10 * count).hex()
    time = f"{now & 0xFFFF_FFFF_FFFF:012x}"
    head = f"{time[:8]}-{time[8:]}-7"
    return [_as_uuid7(head, digits[start : start + 20]) for start in range(0, 20 * count, 20)]


# The digit that carries the variant keeps its two lower bits.
_VARIANT = dict(zip("0123456789abcdef", "89ab" * 4, strict=True))


def _as_uuid7(head: str, digits: str) -> str:
    return f"{head}{digits[1:4]}-{_VARIANT[digits[4]]}{digits[5:8]}-{digits[8:]}"


def is_uuid(text: str) -> bool:
    """Only the canonical spelling: an id has one form, in logs, addresses and tables alike."""
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False


def token() -> int:
    """Names one claim or one settlement. Positive and below 2**63, so that it fits a bigint column on every engine."""
    return secrets.randbits(62) | 1
