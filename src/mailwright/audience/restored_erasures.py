"""After a restore, erase again the people who were erased since the backup."""

from collections.abc import AsyncIterator, Collection
from pathlib import Path
from typing import Final

from sqlalchemy import select

from mailwright.audience.erasure import erase
from mailwright.audience.erasure_record import ErasureRecord, digest_of, load_erasures
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.ops.logs import logger
from mailwright.outbox.audit_log import SYSTEM
from mailwright.storage.database import Database
from mailwright.storage.tables import contact_events, contacts

_PAGE: Final = 10_000

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class RestoredErasures:
    """Counts of the people who were erased after the backup."""

    is_known: bool  # Whether the erasures since the backup are known.
    erased: int = 0
    pending: tuple[str, ...] = ()  # Addresses whose erasure waits for the result of a message.


async def save_erasures(record: ErasureRecord, replaced: Database, since: Instant) -> bool:
    """Copy the erasures of the database that is about to be replaced into the record; return whether it was read."""
    try:
        found = await load_erasures(replaced, since)
    except Exception as error:  # It may be damaged or empty, which must not prevent its restore.
        log.warning("replaced_database_unreadable", reason=type(error).__name__)
        return False
    known = record.digests_since(since) or set()
    record.add(entry for entry in found if entry[1] not in known)
    return True


async def erase_again(
    record: ErasureRecord, database: Database, clock: Clock, since: Instant, *, imports_folder: Path
) -> RestoredErasures:
    """Erase the restored contacts that, according to the record, were erased after the backup."""
    digests = record.digests_since(since)
    if not digests:
        return RestoredErasures(is_known=digests is not None)
    erased, pending = 0, list[str]()
    for tenant_id, email in [found async for found in _find_addresses(database, digests)]:
        result = await erase(database, clock, tenant_id, email, actor=SYSTEM, imports_folder=imports_folder)
        if result.is_finished:
            erased += 1
        else:
            pending.append(email)
    return RestoredErasures(is_known=True, erased=erased, pending=tuple(pending))


async def _find_addresses(database: Database, digests: Collection[str]) -> AsyncIterator[tuple[int, str]]:
    """Find contacts, and addresses that have events but never became contacts."""
    found = set[tuple[int, str]]()
    for table in (contacts, contact_events):
        c, after = table.c, 0
        while True:
            query = select(c.id, c.tenant_id, c.email).where(c.id > after).order_by(c.id).limit(_PAGE)
            async with database.read() as tx:
                rows = await tx.execute(query)
            for row in rows:
                address = (row.tenant_id, row.email)
                if address not in found and digest_of(*address) in digests:
                    found.add(address)
                    yield address
            if len(rows) < _PAGE:
                break
            after = rows[-1].id
