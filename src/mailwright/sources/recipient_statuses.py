"""Statuses of recipients that Mailwright writes to tables of other programs."""

from enum import Enum, auto

from mailwright.domain.clock import Instant
from mailwright.domain.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class SubscriberStatus:
    """The new status of a subscriber. `active` only undoes an unsubscribe that we wrote before."""

    email: str
    status: str
    at: Instant
    bounce_type: str | None = None
    bounce_subtype: str | None = None


class StatusWrite(Enum):
    """The result of a status update for the rows of an address."""

    CHANGED = auto()
    UNCHANGED = auto()  # every row has a status that the new one does not replace
    MISSING = auto()  # the table has no such address


def is_replaced(current: object, status: str, *, null_is_active: bool) -> bool:
    """Return whether a status replaces another: bounced outranks unsubscribed, which outranks active."""
    match status:
        case "bounced":
            return True
        case "unsubscribed":
            return current != "bounced" and (current is not None or null_is_active)
        case _:
            return current == "unsubscribed"
