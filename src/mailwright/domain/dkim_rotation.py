"""The DKIM keys of a sender domain, and the steps of their rotation.

A key is *new* until its DNS record is visible, then *active*: it signs. When a newer key becomes active, this one is
*retired*: it no longer signs, but its record must stay published for `KEPT_FOR`, because receivers verify delayed email
later.
"""

from collections.abc import Collection, Sequence
from dataclasses import field, replace
from enum import StrEnum

from mailwright.domain.clock import DAY, Instant
from mailwright.domain.lazy_dataclass import dataclass

# Longer than mail servers retry a delivery, which is five days.
KEPT_FOR: Instant = 7 * DAY
# How many retired keys are listed.
MAX_RETIRED = 10


class KeyState(StrEnum):
    NEW = "new"
    ACTIVE = "active"
    RETIRED = "retired"


@dataclass(frozen=True, slots=True)
class DomainKey:
    """A DKIM key. A retired one has no private key."""

    selector: str
    algorithm: str  # rsa or ed25519
    record: str  # The value of its TXT record.
    created_at: Instant
    active_since: Instant | None = None
    retired_at: Instant | None = None
    private_key: str | None = field(default=None, repr=False)  # Encrypted.

    @property
    def state(self) -> KeyState:
        if self.retired_at is not None:
            return KeyState.RETIRED
        return KeyState.NEW if self.active_since is None else KeyState.ACTIVE

    @property
    def removable_at(self) -> Instant | None:
        """When the DNS record of a retired key can be deleted."""
        return None if self.retired_at is None else self.retired_at + KEPT_FOR


def keys_in(keys: Sequence[DomainKey], state: KeyState) -> list[DomainKey]:
    return [key for key in keys if key.state is state]


def add_generation(keys: Sequence[DomainKey], created: Sequence[DomainKey]) -> tuple[DomainKey, ...]:
    """Add new keys. They replace new keys that were never active."""
    return (*created, *(key for key in keys if key.state is not KeyState.NEW))


def activate(keys: Sequence[DomainKey], now: Instant) -> tuple[DomainKey, ...]:
    """Let the new keys sign, and retire the active ones. Without new keys, nothing changes."""
    if not keys_in(keys, KeyState.NEW):
        return tuple(keys)
    changed = [_advance(key, now) for key in keys]
    current = [key for key in changed if key.state is not KeyState.RETIRED]
    retired = sorted(keys_in(changed, KeyState.RETIRED), key=lambda key: key.retired_at or 0, reverse=True)
    return (*current, *retired[:MAX_RETIRED])


def activate_visible(keys: Sequence[DomainKey], visible: Collection[str], now: Instant) -> tuple[DomainKey, ...]:
    """Activate the new keys if the records of all of them are visible, by selector. Until then, the old ones sign."""
    is_visible = all(key.selector in visible for key in keys_in(keys, KeyState.NEW))
    return activate(keys, now) if is_visible else tuple(keys)


def _advance(key: DomainKey, now: Instant) -> DomainKey:
    match key.state:
        case KeyState.NEW:
            return replace(key, active_since=now)
        case KeyState.ACTIVE:
            return replace(key, retired_at=now, private_key=None)
        case KeyState.RETIRED:
            return key
