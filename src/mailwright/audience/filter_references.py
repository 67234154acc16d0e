"""The objects in a filter: lists and campaigns, which must exist, and tags, which some contact should have."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson
from sqlalchemy import ColumnElement, select

from mailwright.audience.contact_fields import normalize_tag
from mailwright.audience.filters import InvalidFilter, values_named
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import lazy_gettext
from mailwright.domain.unsubscribe_tokens import GENERAL
from mailwright.storage.database import Transaction
from mailwright.storage.tables import campaigns, contact_tags, contacts, lists, segments

UNKNOWN_LIST: Final = "UNKNOWN_LIST"
UNKNOWN_CAMPAIGN: Final = "UNKNOWN_CAMPAIGN"


@dataclass(frozen=True, slots=True)
class MissingReferences:
    """The missing objects that a filter refers to. Such a filter matches nobody."""

    lists: tuple[str, ...]
    campaigns: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.lists or self.campaigns)

    @property
    def problems(self) -> tuple[tuple[str, str], ...]:
        """A code and a sentence for each."""
        return (
            *((UNKNOWN_LIST, lazy_gettext("There is no list {key}", key=each)) for each in self.lists),
            *(
                (UNKNOWN_CAMPAIGN, lazy_gettext("There is no campaign {campaign}", campaign=each))
                for each in self.campaigns
            ),
        )


@dataclass(frozen=True, slots=True)
class SegmentUse:
    """A segment whose filter names a list."""

    segment_key: str
    name: str


async def find_missing(tx: Transaction, tenant_id: int, filter_: Any, *, is_saved: bool = False) -> MissingReferences:
    """Return the lists and campaigns of the filter that do not exist.

    If the filter `is_saved` in this transaction, its lists are locked, so that nobody deletes one at this moment.
    """
    wanted_lists = {*values_named(filter_, "list")} - {GENERAL}
    wanted_campaigns = {*values_named(filter_, "campaign")}
    found_lists = await _existing(tx, lists.c.list_key, lists.c.tenant_id == tenant_id, wanted_lists, locks=is_saved)
    found_campaigns = await _existing(tx, campaigns.c.campaign_id, campaigns.c.tenant_id == tenant_id, wanted_campaigns)
    return MissingReferences(
        tuple(sorted(wanted_lists - found_lists)), tuple(sorted(wanted_campaigns - found_campaigns))
    )


async def require_references(tx: Transaction, tenant_id: int, filter_: Any) -> None:
    """Raise if a filter that is about to be saved names a list or a campaign that does not exist."""
    missing = await find_missing(tx, tenant_id, filter_, is_saved=True)
    if missing:
        raise InvalidFilter(
            "{problems}. Create it first, or check its name.", field="filter", problems=missing.problems[0][1]
        )


async def find_unused_tags(tx: Transaction, tenant_id: int, filter_: Mapping[str, Any]) -> list[str]:
    """Return the tags of the filter that no contact has."""
    wanted = {*values_named(filter_, "tag")}
    if not wanted:
        return []
    own = contacts.join(contact_tags, contact_tags.c.contact_key == contacts.c.id)
    matching = (contacts.c.tenant_id == tenant_id, contacts.c.deleted_at.is_(None))
    unused = []
    for tag in sorted(wanted):
        query = select(contact_tags.c.tag).select_from(own).where(*matching, contact_tags.c.tag == normalize_tag(tag))
        if not await tx.execute(query.limit(1)):
            unused.append(tag)
    return unused


async def find_segments_of_list(tx: Transaction, tenant_id: int, list_key: str) -> tuple[SegmentUse, ...]:
    """Return the segments whose filters name the list, by name."""
    s = segments.c
    rows = await tx.execute(
        select(s.segment_key, s.name, s.filter).where(s.tenant_id == tenant_id).order_by(s.name, s.segment_key)
    )
    return tuple(
        SegmentUse(row.segment_key, row.name)
        for row in rows
        if list_key in values_named(orjson.loads(row.filter), "list")
    )


async def _existing(
    tx: Transaction,
    column: ColumnElement[str],
    is_own: ColumnElement[bool],
    wanted: Iterable[str],
    *,
    locks: bool = False,
) -> set[str]:
    if not wanted:
        return set()
    query = select(column).where(is_own, column.in_(sorted(wanted)))
    return {str(row[0]) for row in await tx.execute(query.with_for_update() if locks else query)}
