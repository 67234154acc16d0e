"""Create and check ids. Public ids are UUIDv7, so they sort by creation time."""

import os
import re
import secrets
from collections import deque
from collections.abc import Callable

from mailwright.domain.clock import Instant


def uuid7(now: Instant, random_bytes: Callable[[int], bytes] | None = None) -> str:
    """Create a version 7 UUID (RFC 9562): 48 bits of milliseconds, then 74 random bits."""
    return uuid7s(now, 1, random_bytes)[0]


def uuid7s(now: Instant, count: int, random_bytes: Callable[[int], bytes] | None = None) -> list[str]:
    """Create many UUIDs with one call for random bytes, which is the expensive part."""
    if random_bytes is None:
        random_bytes = _ten_random_bytes if count == 1 else secrets.token_bytes
    digits = random_bytes(10 * count).hex()
    time = f"{now & 0xFFFF_FFFF_FFFF:012x}"
    head = f"{time[:8]}-{time[8:]}-7"
    return [_as_uuid7(head, digits[start : start + 20]) for start in range(0, 20 * count, 20)]


_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# The number of IDs for which random bytes are read ahead, because a system call takes longer than the rest.
_AHEAD = 64
_random: deque[bytes] = deque()
# A forked child process must not use the same random bytes as its parent. Windows has no fork.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_random.clear)


def _ten_random_bytes(_: int) -> bytes:
    try:
        return _random.popleft()
    except IndexError:
        drawn = secrets.token_bytes(10 * _AHEAD)
        _random.extend(drawn[start : start + 10] for start in range(10, 10 * _AHEAD, 10))
        return drawn[:10]


# The UUID variant replaces the two upper bits of a hex digit; the two lower bits stay random.
_VARIANT = dict(zip("0123456789abcdef", "89ab" * 4, strict=True))


def _as_uuid7(head: str, digits: str) -> str:
    return f"{head}{digits[1:4]}-{_VARIANT[digits[4]]}{digits[5:8]}-{digits[8:]}"


def is_uuid(text: str) -> bool:
    """Return whether a text is a UUID in canonical form, so that an ID looks the same in logs, URLs and tables."""
    return _UUID.fullmatch(text) is not None


def created_at(uuid: str) -> Instant:
    """Return the time that a version 7 UUID contains."""
    return int(uuid[:8] + uuid[9:13], 16)


def token() -> int:
    """Create a random token for a claim or a settlement. It is positive and fits a bigint column on both engines."""
    return secrets.randbits(62) | 1
