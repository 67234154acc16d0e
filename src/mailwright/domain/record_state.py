"""The state of a campaign, a list or a template: in use, archived or deleted. It decides where the object is shown."""

from enum import StrEnum


class RecordState(StrEnum):
    ACTIVE = "active"
    ARCHIVED = "archived"  # hidden from lists; nothing is lost
    DELETED = "deleted"  # found by nobody; can be restored
