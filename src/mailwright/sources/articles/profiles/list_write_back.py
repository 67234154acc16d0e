"""Write unsubscribes from single lists to the table of recipients, until it has them.

There is no queue: an unsubscribe is written if it is not recorded as written. The other program may change the same
column, so a row changes only if its lists are still those that were read.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from sqlalchemy import ColumnElement, delete, false, func, insert, select

from mailwright.domain.clock import MINUTE, Clock, Instant
from mailwright.domain.unsubscribe_tokens import GENERAL
from mailwright.ops.logs import logger
from mailwright.sources.articles.profiles.errors import ProfileRowRefused
from mailwright.sources.articles.profiles.list_values import with_list, without_list
from mailwright.sources.articles.profiles.rows import InvalidProfile
from mailwright.sources.articles.profiles.table import ProfileRows, ProfileSource, ProfileTable
from mailwright.sources.contact_status_sync import BATCH_SIZE, SKIP_DURATION
from mailwright.storage.database import Database
from mailwright.storage.tables import contacts, profile_list_updates, subscriptions, suppressions

# A contact who left a list gets nothing of it anyway, so the table may have it a little later.
LOOK_EVERY: Final = MINUTE
# How often a row that the other program changes at the same time is read again.
MAX_ROUNDS: Final = 5

log = logger(__name__)


class ProfileListWriteBack:
    def __init__(self, database: Database, clock: Clock, source: ProfileSource) -> None:
        self._database = database
        self._clock = clock
        self._source = source
        self._looks_at: Instant = 0
        self._skipped_until: dict[tuple[int, str], Instant] = {}

    async def tick(self) -> int:
        """Write a batch and return its size. Raises `ProfilesError` if the table cannot be written at all."""
        now = self._clock.now()
        if self._source.table.columns.lists is None or 0 < self._looks_at - now <= LOOK_EVERY:
            return 0
        self._skipped_until = {key: until for key, until in self._skipped_until.items() if until > now}
        written = 0
        for change in await self._unwritten(await self._source.tenant_id()):
            try:
                was_changed = await self._write(change)
            except ProfileRowRefused as refused:
                about = {"contact": change.contact_id, "list": change.list_key}
                log.warning("profile_lists_refused", **about, reason=str(refused))
                self._skipped_until[change.id, change.list_key] = now + SKIP_DURATION
                continue
            await self._record(change, was_changed=was_changed)
            written += 1
        if not written:
            self._looks_at = now + LOOK_EVERY
            await self._forget_deleted()
        return written

    async def _unwritten(self, tenant_id: int) -> list[Any]:
        """Return unsubscribes that were not written, and written ones whose contacts have resubscribed since."""
        s, written = subscriptions.c, profile_list_updates.c
        person = (contacts.c.id, contacts.c.contact_id, contacts.c.email)
        same = (written.contact_key == s.contact_key) & (written.list_key == s.list_key)
        mine = (contacts.c.tenant_id == tenant_id, contacts.c.deleted_at.is_(None))
        left = (
            select(*person, s.list_key, s.unsubscribed_at, written.was_removed)
            .join(contacts, contacts.c.id == s.contact_key)
            .outerjoin(profile_list_updates, same)
            .where(*mine, s.tenant_id == tenant_id, s.list_key != GENERAL, s.unsubscribed_at.is_not(None))
            .where(written.unsubscribed_at.is_distinct_from(s.unsubscribed_at))
        )
        # Who was never subscribed here has no subscription any more after an undone unsubscribe.
        resubscribed = (
            select(*person, written.list_key, s.unsubscribed_at, written.was_removed)
            .join(contacts, contacts.c.id == written.contact_key)
            .outerjoin(subscriptions, same)
            .where(*mine, s.unsubscribed_at.is_(None), func.coalesce(s.is_pending, false()).is_(False))
            .where(~_is_suppressed(written.list_key))
        )
        most = BATCH_SIZE + len(self._skipped_until)
        async with self._database.read() as tx:
            rows = [row for each in (left, resubscribed) for row in await tx.execute(each.limit(most))]
        return [row for row in rows if (row.id, row.list_key) not in self._skipped_until]

    async def _write(self, change: Any) -> bool:
        """Change every row of the contact that needs it, and return whether there was one."""
        table, list_key = self._source.table, change.list_key
        column = table.columns.lists or "lists"
        if change.unsubscribed_at is not None:
            return await _change_rows(table, change.email, lambda lists: without_list(lists, list_key, column))
        if not change.was_removed:
            return False
        return await _change_rows(table, change.email, lambda lists: with_list(lists, list_key, column))

    async def _forget_deleted(self) -> None:
        """Forget what was written for contacts that were deleted or erased."""
        gone = select(contacts.c.id).where(contacts.c.deleted_at.is_not(None))
        theirs = profile_list_updates.c.contact_key.in_(gone)
        async with self._database.read() as tx:
            if not await tx.execute(select(profile_list_updates.c.contact_key).where(theirs).limit(1)):
                return
        async with self._database.write() as tx:
            await tx.execute(delete(profile_list_updates).where(theirs))

    async def _record(self, change: Any, *, was_changed: bool) -> None:
        c = profile_list_updates.c
        mine = (c.contact_key == change.id, c.list_key == change.list_key)
        async with self._database.write() as tx:
            await tx.execute(delete(profile_list_updates).where(*mine))
            if change.unsubscribed_at is not None:
                values = {"contact_key": change.id, "list_key": change.list_key, "was_removed": was_changed}
                values["unsubscribed_at"] = change.unsubscribed_at
                await tx.execute(insert(profile_list_updates).values(**values))


def _is_suppressed(list_key: ColumnElement[str]) -> ColumnElement[bool]:
    same = (suppressions.c.tenant_id == contacts.c.tenant_id, suppressions.c.email == contacts.c.email)
    return select(suppressions.c.email).where(*same, suppressions.c.list_key == list_key).exists()


async def _change_rows(table: ProfileTable, email: str, changed: Callable[[Any], Any]) -> bool:
    """Change the lists of all rows of an address. A row that changes meanwhile is read again."""
    has_changed = False
    before: list[tuple[str, Any]] = []
    for _ in range(MAX_ROUNDS):
        rows = await table.rows_of(email)
        try:
            outdated = _outdated(rows, changed)
        except InvalidProfile as error:
            raise ProfileRowRefused(
                "{table}: a row cannot be read: {reason}. Correct the row.",
                table=table.description,
                reason=error,
            ) from error
        if not outdated:
            return has_changed
        if outdated == before:
            break
        before = outdated
        for (stored, lists), count in _grouped(outdated):
            has_changed |= bool(await table.replace_lists(stored, lists, changed(lists), rows=count))
    raise ProfileRowRefused(
        "{table}: the lists of a recipient did not change. Check the triggers and the row level security of the table.",
        table=table.description,
    )


def _outdated(rows: ProfileRows, changed: Callable[[Any], Any]) -> list[tuple[str, Any]]:
    found = [(str(row["email"]), row.get("lists")) for row in rows]
    return [(email, lists) for email, lists in found if changed(lists) != lists]


def _grouped(outdated: list[tuple[str, Any]]) -> list[tuple[tuple[str, Any], int]]:
    """Join rows with the same address and the same lists, and count them."""
    by_text = {(email, repr(lists)): (email, lists) for email, lists in outdated}
    counts = Counter((email, repr(lists)) for email, lists in outdated)
    return [(by_text[key], number) for key, number in counts.items()]
