"""Change tags and attributes of many contacts at once."""

from collections.abc import Sequence

from mailwright.storage.database import Transaction
from mailwright.storage.statements import statement

ADD_TAGS = statement(__package__, "add_tags")
REMOVE_TAGS = statement(__package__, "remove_tags")
SET_ATTRIBUTES = statement(__package__, "set_attributes")


async def add_tags(tx: Transaction, tenant_id: int, tags: Sequence[tuple[int, str]]) -> None:
    """Add tags. Each entry is the key of a contact and a tag."""
    await tx.count(ADD_TAGS, tags=tags, tenant_id=tenant_id)


async def remove_tags(tx: Transaction, tags: Sequence[tuple[int, str]]) -> None:
    await tx.count(REMOVE_TAGS, tags=tags)


async def set_attributes(tx: Transaction, attributes: Sequence[tuple[int, str]]) -> None:
    """Replace attributes. Each entry is the key of a contact and all its attributes as JSON."""
    await tx.count(SET_ATTRIBUTES, contacts=attributes)
