"""Archive, delete and restore lists.

A deleted list and its subscriptions move to tables that no other query reads, so nobody can be reached, signed up or
found through it. Unsubscribes stay where they are, so that a new list with the same key does not reach these contacts.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import and_, delete, insert, literal, select, update

from mailwright.audience.filter_references import SegmentUse, find_segments_of_list
from mailwright.audience.filters import values_named
from mailwright.audience.lists import GENERAL, List, ListExists, columns
from mailwright.domain.clock import DAY, Clock, Instant
from mailwright.domain.errors import NotFound, NotPossibleNow
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import lazy_gettext
from mailwright.outbox import audit_log
from mailwright.outbox.campaign_uses import CampaignUse, find_uses
from mailwright.outbox.sequence_uses import LISTS, SequenceUse, find_sequence_uses
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import (
    campaign_runs,
    contacts,
    deleted_lists,
    deleted_subscriptions,
    lists,
    subscriptions,
)

# A deleted list can be restored for this long. The next deletion then removes it permanently.
RESTORABLE: Final[Instant] = 30 * DAY
# An error names at most this many segments.
_NAMED: Final = 5
_KEPT: Final = ("contact_key", "subscribed_at", "source", "is_pending", "confirmed_at", "requested_consent")


ListUser = CampaignUse | SegmentUse | SequenceUse


class ListInUse(NotPossibleNow):
    """A campaign, an article, a segment or a sequence uses this list."""

    code = "LIST_IN_USE"

    def __init__(
        self,
        name: str,
        what: str,
        user: str,
        remedy: str,
        uses: tuple["ListUser", ...] = (),
    ) -> None:
        super().__init__(
            "The list {name} cannot be archived because {user}. {remedy}"
            if what == "archived"
            else "The list {name} cannot be deleted because {user}. {remedy}",
            name=name,
            user=user,
            remedy=remedy,
        )
        self.uses = uses


@dataclass(frozen=True, slots=True)
class DeletedList:
    list_key: str
    name: str
    deleted_at: Instant
    deleted_by: str


class ListRemoval:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def archive(self, tenant_id: int, list_key: str, *, actor: str) -> List:
        """Hide a list: no form, page or campaign offers it any more. Its subscribers stay."""
        now = self._clock.now()
        async with self._database.write() as tx:
            found = await _lock(tx, tenant_id, list_key)
            await _require_unused(tx, tenant_id, found, "archived")
            if found.archived_at is None:
                await tx.execute(update(lists).where(_named(tenant_id, list_key)).values(archived_at=now))
                await self._record(tx, actor, "archive", tenant_id, list_key)
        return replace(found, archived_at=found.archived_at or now)

    async def delete(self, tenant_id: int, list_key: str, *, actor: str) -> None:
        """Delete a list and its subscriptions, or raise `ListInUse`."""
        if list_key == GENERAL:
            raise NotPossibleNow("The list general stands for all bulk email and cannot be deleted.")
        now = self._clock.now()
        async with self._database.write() as tx:
            found = await _lock(tx, tenant_id, list_key)
            await _require_unused(tx, tenant_id, found, "deleted")
            await _require_no_segment(tx, tenant_id, found)
            if in_sequences := await find_sequence_uses(tx, tenant_id, LISTS, list_key):
                use = in_sequences[0]
                raise ListInUse(found.name, "deleted", use.sentence, use.remedy, in_sequences)
            await _remove_permanently(tx, tenant_id, list_key, now)
            values = {name: getattr(found, name) for name in List.__slots__}
            rows = await tx.execute(
                insert(deleted_lists)
                .values(tenant_id=tenant_id, **values, deleted_at=now, deleted_by=actor)
                .returning(deleted_lists.c.id)
            )
            current = and_(_subscribed(tenant_id, list_key), subscriptions.c.unsubscribed_at.is_(None))
            moved = select(literal(rows[0].id), *(subscriptions.c[name] for name in _KEPT)).where(current)
            await tx.execute(insert(deleted_subscriptions).from_select(["deleted_list", *_KEPT], moved))
            await tx.execute(delete(subscriptions).where(current))
            await tx.execute(delete(lists).where(_named(tenant_id, list_key)))
            await self._record(tx, actor, "delete", tenant_id, list_key)

    async def restore(self, tenant_id: int, list_key: str, *, actor: str) -> None:
        """Restore an archived list, or else a deleted one.

        Contacts who unsubscribed in the meantime stay unsubscribed.
        """
        named = _named(tenant_id, list_key)
        async with self._database.write() as tx:
            archived = and_(named, lists.c.archived_at.is_not(None))
            if await tx.execute(select(lists.c.id).where(archived).with_for_update()):
                await tx.execute(update(lists).where(named).values(archived_at=None))
            else:
                matching = and_(deleted_lists.c.tenant_id == tenant_id, deleted_lists.c.list_key == list_key)
                rows: Any = await tx.execute(select(deleted_lists).where(matching).with_for_update())
                if not rows:
                    await _lock(tx, tenant_id, list_key)
                    return
                await self._undelete(tx, tenant_id, rows[0])
            await self._record(tx, actor, "restore", tenant_id, list_key)

    async def list_deleted(self, tenant_id: int) -> list[DeletedList]:
        """Return the lists that can be restored, the latest deletion first."""
        d = deleted_lists.c
        query = select(d.list_key, d.name, d.deleted_at, d.deleted_by).where(
            d.tenant_id == tenant_id, d.deleted_at > self._clock.now() - RESTORABLE
        )
        async with self._database.read() as tx:
            rows: Any = await tx.execute(query.order_by(d.deleted_at.desc(), d.list_key))
        return [DeletedList(**row._mapping) for row in rows]

    async def _undelete(self, tx: Transaction, tenant_id: int, row: Any) -> None:
        if self._clock.now() - row.deleted_at >= RESTORABLE:
            raise NotFound("There is no such list.")
        if await tx.execute(select(lists.c.id).where(_named(tenant_id, row.list_key))):
            raise ListExists(
                "Another list has the key {list_key} now. Delete it first.", field="listKey", list_key=row.list_key
            )
        values = {name: row._mapping[name] for name in List.__slots__}
        await tx.execute(insert(lists).values(tenant_id=tenant_id, **values))
        d, s = deleted_subscriptions.c, subscriptions.c
        # Leave out contacts who were erased, or who unsubscribed through the link of an old email.
        known = select(contacts.c.id).where(contacts.c.id == d.contact_key, contacts.c.deleted_at.is_(None)).exists()
        again = select(s.id).where(s.contact_key == d.contact_key, s.list_key == row.list_key).exists()
        moved = select(literal(tenant_id), literal(row.list_key), *(d[name] for name in _KEPT)).where(
            d.deleted_list == row.id, known, ~again
        )
        await tx.execute(insert(subscriptions).from_select(["tenant_id", "list_key", *_KEPT], moved))
        await tx.execute(delete(deleted_subscriptions).where(d.deleted_list == row.id))
        await tx.execute(delete(deleted_lists).where(deleted_lists.c.id == row.id))

    async def _record(self, tx: Transaction, actor: str, action: str, tenant_id: int, list_key: str) -> None:
        await audit_log.record(
            tx, self._clock.now(), actor=actor, action=f"list.{action}", subject=list_key, tenant_id=tenant_id
        )


async def _lock(tx: Transaction, tenant_id: int, list_key: str) -> List:
    rows: Any = await tx.execute(select(*columns()).where(_named(tenant_id, list_key)).with_for_update())
    if not rows:
        raise NotFound("There is no such list.")
    return List(**rows[0]._mapping)


async def _require_unused(tx: Transaction, tenant_id: int, found: List, what: str) -> None:
    uses = await find_uses(tx, tenant_id, lambda definition: found.list_key in _lists_of(definition))
    if uses:
        raise ListInUse(found.name, what, uses[0].sentence, uses[0].remedy, uses)
    run = (campaign_runs.c.tenant_id == tenant_id, campaign_runs.c.list_key == found.list_key)
    rows = await tx.execute(
        select(campaign_runs.c.article_key).where(*run, campaign_runs.c.enqueue_ended_at.is_(None)).limit(1)
    )
    if rows:
        reason = lazy_gettext("the article {article} is being sent to it", article=rows[0].article_key)
        raise ListInUse(found.name, what, reason, lazy_gettext("Wait until it is sent, or cancel the run."))


async def _require_no_segment(tx: Transaction, tenant_id: int, found: List) -> None:
    """Raise if a segment names the list. Without its subscriptions, "not on this list" would match everyone."""
    uses = await find_segments_of_list(tx, tenant_id, found.list_key)
    if uses:
        named, others = ", ".join(each.name for each in uses[:_NAMED]), len(uses) - _NAMED
        if len(uses) == 1:
            user = lazy_gettext("the filter of the segment {segment} names it", segment=named)
        elif others <= 0:
            user = lazy_gettext("the filters of the segments {segments} name it", segments=named)
        else:
            user = lazy_gettext(
                "the filters of the segments {segments} and {count} more name it", segments=named, count=others
            )
        remedy = lazy_gettext("Change or delete these segments first, or archive the list.")
        raise ListInUse(found.name, "deleted", user, remedy, uses)


def _lists_of(definition: Mapping[str, Any]) -> set[str]:
    """Return the lists of a campaign: those it is sent to or leaves out, and those that its filters name."""
    started = definition.get("started", {})
    filters = (definition.get("filter"), started.get("filter"), started.get("segments"))
    named = {name for each in filters for name in values_named(each, "list")}
    return named.union(definition.get("lists", ()), definition.get("excludeLists", ()))


async def _remove_permanently(tx: Transaction, tenant_id: int, list_key: str, now: Instant) -> None:
    """Remove deleted lists that can no longer be restored, and an older deleted list with the same key."""
    d = deleted_lists.c
    is_gone = and_(d.tenant_id == tenant_id, (d.deleted_at <= now - RESTORABLE) | (d.list_key == list_key))
    gone = select(d.id).where(is_gone)
    await tx.execute(delete(deleted_subscriptions).where(deleted_subscriptions.c.deleted_list.in_(gone)))
    await tx.execute(delete(deleted_lists).where(is_gone))


def _named(tenant_id: int, list_key: str) -> Any:
    return and_(lists.c.tenant_id == tenant_id, lists.c.list_key == list_key)


def _subscribed(tenant_id: int, list_key: str) -> Any:
    return and_(subscriptions.c.tenant_id == tenant_id, subscriptions.c.list_key == list_key)
