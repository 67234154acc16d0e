"""Stored sequences, as values."""

from enum import StrEnum
from typing import Any, Final

import orjson
from sqlalchemy import ColumnElement, and_, select

from mailwright.domain.clock import Instant
from mailwright.domain.errors import NotFound
from mailwright.domain.lanes import sequence_lane
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import lazy_pgettext
from mailwright.storage.database import Transaction
from mailwright.storage.tables import sequences


class SequenceStatus(StrEnum):
    DRAFT = "draft"
    RUNNING = "running"
    PAUSED = "paused"
    ARCHIVED = "archived"

    @property
    def phrase(self) -> str:
        """A sentence that describes the status."""
        return _PHRASES[self]


_PHRASES: Final = {
    SequenceStatus.DRAFT: lazy_pgettext("sequence", "a draft"),
    SequenceStatus.RUNNING: lazy_pgettext("sequence", "running"),
    SequenceStatus.PAUSED: lazy_pgettext("sequence", "paused"),
    SequenceStatus.ARCHIVED: lazy_pgettext("sequence", "archived"),
}


@dataclass(frozen=True, slots=True)
class StoredSequence:
    id: int
    sequence_id: str
    tenant_id: int
    name: str
    status: SequenceStatus
    draft: Any
    revision: int
    version: int | None
    trigger_kind: str | None
    trigger_value: str | None
    list_key: str | None
    created_at: Instant
    updated_at: Instant

    @property
    def lane(self) -> int:
        """The lane of its emails, which a pause defers."""
        return sequence_lane(self.tenant_id, self.id)


async def find_sequence(
    tx: Transaction, tenant_id: int, sequence_id: str, *, for_update: bool = False
) -> StoredSequence:
    """Return a sequence by its ID, or raise NotFound."""
    query = select(*columns()).where(is_sequence(tenant_id, sequence_id))
    rows = await tx.execute(query.with_for_update() if for_update else query)
    if not rows:
        raise NotFound("There is no such sequence.")
    return stored(rows[0])


def is_sequence(tenant_id: int, sequence_id: str) -> ColumnElement[bool]:
    return and_(sequences.c.tenant_id == tenant_id, sequences.c.sequence_id == sequence_id)


def columns() -> list[ColumnElement[Any]]:
    return [sequences.c[name] for name in StoredSequence.__slots__]


def stored(row: Any) -> StoredSequence:
    """Return the sequence in a row, which may have other columns too."""
    values = {name: getattr(row, name) for name in StoredSequence.__slots__}
    return StoredSequence(**{**values, "draft": orjson.loads(row.draft), "status": SequenceStatus(row.status)})
