"""Approvals of campaigns by a second person."""

from enum import StrEnum
from typing import Final

# By how many percent the audience may be larger than the approved number of recipients.
TOLERANCE_PERCENT: Final = 5


class ApprovalStatus(StrEnum):
    WAITING = "waiting"
    APPROVED = "approved"
    REJECTED = "rejected"
    VOID = "void"  # what is sent was changed after the request
    WITHDRAWN = "withdrawn"  # a person took the request back
    REPLACED = "replaced"  # by a later request


# After a request, only an approval of exactly what is sent lets the campaign start, whatever the tenant requires then.
BINDING: Final = frozenset(
    {ApprovalStatus.WAITING, ApprovalStatus.APPROVED, ApprovalStatus.REJECTED, ApprovalStatus.VOID}
)
# A change of what is sent makes these void.
VOIDABLE: Final = frozenset({ApprovalStatus.WAITING, ApprovalStatus.APPROVED})


def max_recipients(approved: int) -> int:
    """Return the largest audience that an approval of this number of recipients covers."""
    return approved + approved * TOLERANCE_PERCENT // 100
