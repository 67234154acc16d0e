"""Read the feeds that are due and store their new items."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from mailwright.content.blocks.feed import FeedItem
from mailwright.domain.clock import Clock
from mailwright.domain.errors import MailwrightError, NotDurable
from mailwright.ops.logs import logger
from mailwright.sources.feeds.follow import (
    NOT_READ,
    Validators,
    claim_feed,
    due_feeds,
    keep_items,
    record_error,
    store_items,
)
from mailwright.storage.database import Database

BATCH_SIZE: Final = 10


class FeedReading(NamedTuple):
    """The content of a feed; None if it has not changed."""

    items: Sequence[FeedItem] | None
    validators: Validators = NOT_READ


Fetch = Callable[[str], Awaitable[Sequence[FeedItem]]]
FetchChanged = Callable[[str, Validators], Awaitable[FeedReading]]

log = logger(__name__)


class FeedReader:
    """Several processes may read feeds: each due feed is claimed by one of them."""

    def __init__(self, database: Database, clock: Clock, fetch: FetchChanged) -> None:
        self._database = database
        self._clock = clock
        self._fetch = fetch

    async def read_due(self) -> int:
        """Read the feeds that are due. Return how many there were."""
        async with self._database.read() as tx:
            due = await tx.execute(due_feeds(self._clock.now(), limit=BATCH_SIZE))
        for row in due:
            await self._read(row.id, row.url, Validators.of(row.validators))
        return len(due)

    async def _read(self, feed_key: int, url: str, known: Validators) -> None:
        async with self._database.write() as tx:
            if not await claim_feed(tx, feed_key, self._clock.now()):
                return
        try:
            reading = await self._fetch(url, known)
        except NotDurable:
            raise
        except Exception as error:  # One feed that cannot be read must not block the others.
            is_known = isinstance(error, MailwrightError)
            reason = str(error) if is_known else f"The feed cannot be read: {type(error).__name__}."
            log.warning("feed_not_read", feed=feed_key, reason=reason)
            async with self._database.write() as tx:
                await record_error(tx, feed_key, reason)
            return
        async with self._database.write() as tx:
            now = self._clock.now()
            if reading.items is None:
                await keep_items(tx, feed_key, now)
                return
            new = await store_items(tx, feed_key, reading.items, now, validators=reading.validators)
        if new:
            log.info("feed_has_new_items", feed=feed_key, items=new)
