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
    tails = random_bytes(10 * count)
    head = (now & 0xFFFF_FFFF_FFFF) << 80
    return [_as_uuid7(head | int.from_bytes(tails[start : start + 10], "big")) for start in range(0, 10 * count, 10)]


def _as_uuid7(number: int) -> str:
    text = f"{number & ~(0xF << 76) & ~(0x3 << 62) | 0x7 << 76 | 0x2 << 62:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def is_uuid(text: str) -> bool:
    """Only the canonical spelling: an id has one form, in logs, addresses and tables alike."""
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False


def token() -> int:
    """Names one claim or one settlement. Positive and below 2**63, so that it fits a bigint column on every engine."""
    return secrets.randbits(62) | 1
