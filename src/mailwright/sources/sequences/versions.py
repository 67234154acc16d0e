"""The published versions of sequences, compiled."""

from typing import Any, Final

import orjson
from sqlalchemy import select

from mailwright.domain.lazy_dataclass import dataclass
from mailwright.sources.sequences.definition import Definition, parse_definition
from mailwright.sources.sequences.program import Program, compile_program
from mailwright.storage.database import Transaction
from mailwright.storage.tables import sequence_versions

_MAX_PROGRAMS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Published:
    definition: Definition
    program: Program


def published_from(document: Any) -> Published:
    definition = parse_definition(document)
    return Published(definition, compile_program(definition))


async def load_published(tx: Transaction, sequence_key: int, version: int) -> Published:
    v = sequence_versions.c
    query = select(v.document).where(v.sequence_key == sequence_key, v.version == version)
    return published_from(orjson.loads((await tx.execute(query))[0].document))


class ProgramCache:
    """Versions by sequence and number. A version never changes, so an entry never becomes stale."""

    def __init__(self) -> None:
        self._published: dict[tuple[int, int], Published] = {}

    async def load(self, tx: Transaction, sequence_key: int, version: int) -> Published:
        key = (sequence_key, version)
        found = self._published.get(key)
        if found is None:
            if len(self._published) >= _MAX_PROGRAMS:
                self._published.clear()
            found = self._published[key] = await load_published(tx, sequence_key, version)
        return found
