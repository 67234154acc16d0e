"""A record of erasures outside the database, because a restored backup does not know who was erased after it.

It contains times and digests of addresses, in a file of the state folder, which is not restored with the database.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.engine import URL

from mailwright.audience.importing.store import ERASURE
from mailwright.domain.clock import Instant
from mailwright.ops.logs import logger
from mailwright.outbox.restore_guard import FileMarker
from mailwright.storage.database import Database
from mailwright.storage.tables import suppressions

Entry = tuple[Instant, str]

log = logger(__name__)


class ErasureRecord:
    def __init__(self, folder: Path, url: URL) -> None:
        self.file = FileMarker(folder, url).file.with_suffix(".erasures")

    def add(self, entries: Iterable[Entry]) -> None:
        """Append entries durably. A failure is only logged, because the database also has the erasures."""
        text = "".join(f"{at} {digest}\n" for at, digest in entries)
        if not text:
            return
        try:
            self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            opened = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(opened, "a", encoding="ascii") as file:
                file.write(text)
                file.flush()
                os.fsync(opened)
        except OSError as error:
            log.warning("erasure_not_recorded", file=str(self.file), reason=str(error))

    def digests_since(self, since: Instant) -> set[str] | None:
        """Return the digests of addresses erased since then, or None if there is no record."""
        try:
            lines = self.file.read_text(encoding="ascii").splitlines()
        except FileNotFoundError:
            return None
        # A process that was killed may have written a part of the last line.
        return {digest for at, digest in _complete(lines) if at >= since}


def digest_of(tenant_id: int, email: str) -> str:
    return hashlib.sha256(f"{tenant_id}:{email}".encode()).hexdigest()


async def load_erasures(database: Database, since: Instant) -> list[Entry]:
    """Return the erasures that the database knows, from the suppressions that they leave."""
    s = suppressions.c
    async with database.read() as tx:
        rows = await tx.execute(
            select(s.tenant_id, s.email, s.created_at).where(s.source == ERASURE, s.created_at >= since)
        )
    return [(row.created_at, digest_of(row.tenant_id, row.email)) for row in rows]


def _complete(lines: Iterable[str]) -> Iterator[Entry]:
    for line in lines:
        at, _, digest = line.partition(" ")
        if at.isdecimal() and len(digest) == hashlib.sha256().digest_size * 2:
            yield int(at), digest
