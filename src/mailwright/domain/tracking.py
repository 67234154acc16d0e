"""Tracking modes, and the rule that decides how the opens and clicks of one message are recorded.

The strictest setting wins: installation, tenant, list, and the campaign or message. A level without a setting does not
restrict. Transactional messages are tracked only if they ask for it, and individuals only with their consent.
"""

from enum import StrEnum
from typing import Any, Final

from mailwright.domain.message import Claimed


class TrackingMode(StrEnum):
    OFF = "off"
    ANONYMOUS = "anonymous"  # Totals of a campaign. Links identify no recipient.
    INDIVIDUAL = "individual"  # Opens and clicks of each recipient who consented.


_STRICTNESS: Final = {TrackingMode.OFF: 0, TrackingMode.ANONYMOUS: 1, TrackingMode.INDIVIDUAL: 2}


def parse_mode(value: Any) -> TrackingMode | None:
    """Read a stored setting. None restricts nothing; a value that is not known is off."""
    if value is None:
        return None
    try:
        return TrackingMode(value)
    except ValueError:
        return TrackingMode.OFF


def strictest(installation: TrackingMode, *others: TrackingMode | None) -> TrackingMode:
    """Return the strictest of the settings: each level can only restrict the levels above it."""
    return min((installation, *(mode for mode in others if mode is not None)), key=_STRICTNESS.__getitem__)


def tracking_of(installation: TrackingMode, claimed: Claimed) -> TrackingMode:
    """Return how this message is tracked. A recipient without consent gets the author's exact bytes."""
    own = parse_mode(claimed.payload.get("tracking"))
    if own is None and not claimed.is_bulk:
        return TrackingMode.OFF
    mode = strictest(installation, parse_mode(claimed.tenant_tracking), parse_mode(claimed.list_tracking), own)
    if mode is TrackingMode.INDIVIDUAL:
        return mode if claimed.consents_to_tracking and not _has_copies(claimed) else TrackingMode.OFF
    # Totals belong to a campaign. Without one there is nothing that they could be added to.
    return mode if claimed.campaign_key is not None else TrackingMode.OFF


def _has_copies(claimed: Claimed) -> bool:
    """Return whether others receive the same links: their clicks must not count as the recipient's."""
    return any(claimed.payload.get(kind) for kind in ("cc", "bcc", "copy"))
