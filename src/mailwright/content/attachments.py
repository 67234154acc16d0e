"""Attachments: their limits, and the files of a campaign, which are read and encoded once for all its messages."""

from collections import OrderedDict
from typing import Final

from sqlalchemy import select

from mailwright.content.mime import EmailAttachment, Enclosure, enclose
from mailwright.storage.database import Database
from mailwright.storage.tables import campaign_attachments

# The limits apply to each message, and to each campaign as a whole.
MAX_ATTACHMENTS: Final = 20
MAX_ATTACHMENTS_BYTES: Final = 10 * 1024 * 1024
# The limit for all cached enclosures together, except that the latest one is always kept.
MAX_CACHED_BYTES: Final = 32 * 1024 * 1024


class EnclosureCache:
    """LRU cache of encoded attachments by their IDs. It never goes stale, because stored attachments never change."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._enclosures: OrderedDict[tuple[int, tuple[str, ...]], Enclosure] = OrderedDict()

    async def load(self, tenant_id: int, attachment_ids: tuple[str, ...]) -> Enclosure | None:
        """Return the attachments, encoded in this order; None if one of them no longer exists."""
        key = (tenant_id, attachment_ids)
        if key in self._enclosures:
            self._enclosures.move_to_end(key)
            return self._enclosures[key]
        a = campaign_attachments.c
        query = select(campaign_attachments).where(a.tenant_id == tenant_id, a.attachment_id.in_(attachment_ids))
        async with self._database.read() as tx:
            rows = {row.attachment_id: row for row in await tx.execute(query)}
        if len(rows) < len(attachment_ids):
            return None
        found = [rows[attachment_id] for attachment_id in attachment_ids]
        files = [EmailAttachment(row.filename, row.content_type, row.content, row.content_id) for row in found]
        self._enclosures[key] = enclosure = enclose(files)
        while len(self._enclosures) > 1 and self._size_bytes > MAX_CACHED_BYTES:
            self._enclosures.popitem(last=False)
        return enclosure

    @property
    def _size_bytes(self) -> int:
        return sum(enclosure.size_bytes for enclosure in self._enclosures.values())
