"""Find the published sequences that use a template, a list, a segment or a campaign."""

from collections.abc import Iterator
from typing import Any, Final

import orjson
from sqlalchemy import select

from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import lazy_gettext
from mailwright.storage.database import Transaction
from mailwright.storage.tables import sequence_versions, sequences

# The fields of a document that refer to each kind of object.
TEMPLATES: Final = frozenset({"template"})
LISTS: Final = frozenset({"joinsList", "list", "subscribe", "unsubscribe"})
SEGMENTS: Final = frozenset({"entersSegment", "leavesSegment", "segment"})
CAMPAIGNS: Final = frozenset({"opens", "clicks", "campaign"})
_OPEN: Final = ("running", "paused")


@dataclass(frozen=True, slots=True)
class SequenceUse:
    sequence_id: str
    name: str

    @property
    def sentence(self) -> str:
        return lazy_gettext("the sequence {name} uses it", name=self.name)

    @property
    def remedy(self) -> str:
        return lazy_gettext("Publish a version of the sequence without it first, or archive the sequence.")


async def find_sequence_uses(
    tx: Transaction, tenant_id: int, fields: frozenset[str], name: str
) -> tuple[SequenceUse, ...]:
    """Return the running and paused sequences whose published version refers to an object, oldest first."""
    q, v = sequences.c, sequence_versions.c
    query = (
        select(q.sequence_id, q.name, v.document)
        .join_from(sequences, sequence_versions, (v.sequence_key == q.id) & (v.version == q.version))
        .where(q.tenant_id == tenant_id, q.status.in_(_OPEN))
    )
    return tuple(
        SequenceUse(row.sequence_id, row.name)
        for row in await tx.execute(query.order_by(q.id))
        if name in _named(orjson.loads(row.document), fields)
    )


def _named(value: Any, fields: frozenset[str]) -> Iterator[str]:
    """Return the texts in these fields, at any depth."""
    match value:
        case dict():
            for field, inner in value.items():
                if field in fields:
                    yield from (each for each in _as_list(inner) if isinstance(each, str))
                yield from _named(inner, fields)
        case list():
            for inner in value:
                yield from _named(inner, fields)


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
