"""Write unsubscribes, complaints and bounces to the table of recipients, until it has them."""

from typing import Any

from mailwright.domain.clock import Clock
from mailwright.ops.logs import logger
from mailwright.sources.articles.profiles.errors import ProfileRowRefused
from mailwright.sources.articles.profiles.table import ProfileSource
from mailwright.sources.contact_status_sync import ContactStatusSync
from mailwright.sources.recipient_statuses import StatusWrite, SubscriberStatus
from mailwright.storage.database import Database
from mailwright.storage.tables import profile_status_updates

log = logger(__name__)


class ProfileWriteBack:
    def __init__(self, database: Database, clock: Clock, source: ProfileSource) -> None:
        self._database = database
        self._clock = clock
        self._source = source
        self._sync: ContactStatusSync | None = None

    async def tick(self) -> int:
        """Write a batch and return its size. Raises `ProfilesError` if the table cannot be written at all."""
        if self._source.table.columns.status is None:
            return 0
        if self._sync is None:
            tenant_id = await self._source.tenant_id()
            self._sync = ContactStatusSync(self._database, self._clock, tenant_id, profile_status_updates, self._write)
        return await self._sync.tick()

    async def _write(self, contact: Any, status: SubscriberStatus) -> StatusWrite | None:
        try:
            return await self._source.table.write_status(status)
        except ProfileRowRefused as refused:
            log.warning("profile_status_refused", contact=contact.contact_id, reason=str(refused))
            return None
