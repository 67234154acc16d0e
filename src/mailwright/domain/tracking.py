"""Tracking modes, and the rule that decides how the opens and clicks of one message are recorded.

The strictest setting of installation, tenant, list, and campaign or message applies. A level without a setting adds no
restriction. Transactional messages are tracked only if they request it, and individuals only with their consent.
"""

from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mailwright.domain.message import Claimed  # Slow to import, and the settings need only the modes.


class TrackingMode(StrEnum):
    OFF = "off"
    ANONYMOUS = "anonymous"  # Totals of a campaign. Links identify no recipient.
    INDIVIDUAL = "individual"  # Opens and clicks of each recipient who consented.


_STRICTNESS: Final = {TrackingMode.OFF: 0, TrackingMode.ANONYMOUS: 1, TrackingMode.INDIVIDUAL: 2}


def parse_mode(value: Any) -> TrackingMode | None:
    """Parse a stored setting. None adds no restriction; an unknown value turns tracking off."""
    if value is None:
        return None
    try:
        return TrackingMode(value)
    except ValueError:
        return TrackingMode.OFF


def strictest(installation: TrackingMode, *others: TrackingMode | None) -> TrackingMode:
    """Return the strictest of the settings. Each level can only restrict the levels above it further."""
    return min((installation, *(mode for mode in others if mode is not None)), key=_STRICTNESS.__getitem__)


def tracking_of(installation: TrackingMode, claimed: "Claimed") -> TrackingMode:
    """Return the tracking mode of this message. A recipient who refused gets the author's unchanged links."""
    own = claimed.payload.get("tracking")
    if installation is TrackingMode.OFF or claimed.consents_to_tracking is False:
        return TrackingMode.OFF
    if own is None and not claimed.is_bulk:
        return TrackingMode.OFF
    own = None if own is None else str(own)
    mode = _strictest_of(installation, claimed.tenant_tracking, claimed.list_tracking, own)
    if mode is TrackingMode.INDIVIDUAL:
        return mode if claimed.consents_to_tracking and not _has_copies(claimed) else TrackingMode.OFF
    # Anonymous totals belong to a campaign, so a message without a campaign is not tracked.
    return mode if claimed.campaign_key is not None else TrackingMode.OFF


def _has_copies(claimed: "Claimed") -> bool:
    """Return whether others receive copies with the same links; their clicks must not count as the recipient's."""
    payload = claimed.payload
    return bool(payload.get("cc") or payload.get("bcc") or payload.get("copy"))


@lru_cache(maxsize=256)
def _strictest_of(installation: TrackingMode, *others: str | None) -> TrackingMode:
    return strictest(installation, *map(parse_mode, others))
