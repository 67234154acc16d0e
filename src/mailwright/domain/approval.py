"""Approvals of campaigns by a second person."""

from enum import StrEnum
from typing import Final

# The audience may be this many percent larger than the approved number of recipients.
TOLERANCE_PERCENT: Final = 5


class ApprovalStatus(StrEnum):
    WAITING = "waiting"
    APPROVED = "approved"
    REJECTED = "rejected"
    VOID = "void"  # what is sent was changed after the request
    WITHDRAWN = "withdrawn"  # a person took the request back
    REPLACED = "replaced"  # by a later request


# After a request, the campaign starts only if exactly its content is approved, even if the tenant no longer requires
# approvals.
BINDING: Final = frozenset(
    {ApprovalStatus.WAITING, ApprovalStatus.APPROVED, ApprovalStatus.REJECTED, ApprovalStatus.VOID}
)
# A change of the campaign's content makes approvals in these statuses void.
VOIDABLE: Final = frozenset({ApprovalStatus.WAITING, ApprovalStatus.APPROVED})


def max_recipients(approved: int) -> int:
    """Return the largest audience that an approval of this number of recipients covers."""
    return approved + approved * TOLERANCE_PERCENT // 100
