"""Where a campaign, a list or a template is shown: in use, archived or deleted."""

from enum import StrEnum


class RecordState(StrEnum):
    ACTIVE = "active"
    ARCHIVED = "archived"  # hidden from lists; nothing is lost
    DELETED = "deleted"  # found by nobody; can be restored
