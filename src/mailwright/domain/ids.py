"""Ids: UUIDv7 for what the world sees, so that ids sort by the time they were made."""

import secrets
import uuid
from collections.abc import Callable

from mailwright.domain.clock import Instant


def uuid7(now: Instant, random_bytes: Callable[[int], bytes] = secrets.token_bytes) -> str:
    """RFC 9562, version 7: 48 bits of milliseconds, then 74 random bits."""
    tail = random_bytes(10)
    number = (now & 0xFFFF_FFFF_FFFF) << 80 | int.from_bytes(tail, "big")
    number = number & ~(0xF << 76) | 0x7 << 76
    number = number & ~(0x3 << 62) | 0x2 << 62
    text = f"{number:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def is_uuid(text: str) -> bool:
    """Only the canonical spelling: an id has one form, in logs, addresses and tables alike."""
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False


def claim_token() -> int:
    """Names one claim. Positive and below 2**63, so that it fits a bigint column on every engine."""
    return secrets.randbits(62) | 1
