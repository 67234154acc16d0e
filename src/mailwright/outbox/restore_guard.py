"""Detect that the database was restored to an older state, with a marker outside the database.

While a process runs, it increments a number in the database every few seconds and copies it to the marker. If the
number in the database is lower than the marker, the database was restored from a backup or lost its latest commits.
"""

import asyncio
import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import orjson
from sqlalchemy import insert, select, update
from sqlalchemy.engine import URL
from sqlalchemy.exc import IntegrityError

from mailwright.domain.clock import Clock, Instant, utc_text
from mailwright.ops.logs import logger
from mailwright.outbox.installation import get_or_create_secret
from mailwright.outbox.sending_hold import HoldReason, SendingHold, hold_sending
from mailwright.storage.database import Database
from mailwright.storage.tables import installation

if TYPE_CHECKING:
    from redis.asyncio import Redis

log = logger(__name__)

DATABASE_ID = "database_id"
SEQUENCE = "sequence"
ADVANCE_SECONDS = 5.0
# After a restore, the number is raised by this much, so that it is higher than the marker of any other machine.
RESTORE_STEP = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Mark:
    """The content of a marker: the latest known state of a database."""

    database_id: str
    sequence: int
    at: Instant


class MarkerStore(Protocol):
    async def load(self) -> Mark | None: ...

    async def save(self, mark: Mark) -> None: ...


class FileMarker:
    """A small file in the state folder. It must not be part of the database's backup."""

    def __init__(self, folder: Path, url: URL) -> None:
        self.file = folder / f"{_name(url)}.json"

    async def load(self) -> Mark | None:
        return await asyncio.to_thread(self.read)

    def read(self) -> Mark | None:
        try:
            return Mark(**orjson.loads(self.file.read_bytes()))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError) as error:
            log.warning("restore_marker_unreadable", file=str(self.file), reason=str(error))
            return None

    async def save(self, mark: Mark) -> None:
        await asyncio.to_thread(self._write, mark)

    def _write(self, mark: Mark) -> None:
        self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = self.file.with_suffix(f".{os.getpid()}")
        new.write_bytes(orjson.dumps(asdict(mark)))
        new.chmod(0o600)
        new.replace(self.file)

    def forget(self) -> None:
        self.file.unlink(missing_ok=True)


class ValkeyMarker:
    """A key in Valkey, shared by all machines of the installation."""

    def __init__(self, client: "Redis", url: URL) -> None:
        self._client = client
        self._key = f"mailwright:marker:{_name(url)}"

    async def load(self) -> Mark | None:
        stored = await self._client.get(self._key)
        return None if stored is None else Mark(**orjson.loads(stored))

    async def save(self, mark: Mark) -> None:
        await self._client.set(self._key, orjson.dumps(asdict(mark)))


class RestoreGuard:
    """Compares the database with its markers, at the start of a process and every few seconds while it runs."""

    def __init__(self, database: Database, clock: Clock, markers: Sequence[MarkerStore]) -> None:
        self._database = database
        self._clock = clock
        self._markers = markers
        self._latest: Mark | None = None  # the latest state that this process has seen

    async def check(self) -> SendingHold | None:
        """Put sending on hold if the database is older than a marker; otherwise increment the number.

        Return the new hold, or None.
        """
        known = await self._known_marks()
        database_id = await get_or_create_secret(self._database, DATABASE_ID)
        now = self._clock.now()
        sequence = await self._sequence()
        found = [mark for mark in known if mark.database_id != database_id or mark.sequence > sequence]
        hold = _hold(found[0], database_id, now) if found else None
        if hold is not None and await hold_sending(self._database, hold):
            log.error("sending_held", reason=hold.reason, detail=hold.detail)
        highest = max([mark.sequence for mark in known], default=0)
        sequence = highest + RESTORE_STEP if hold is not None else sequence + 1
        await self._advance(sequence)
        await self._save(Mark(database_id, sequence, now))
        return hold

    async def _known_marks(self) -> list[Mark]:
        known = [self._latest] if self._latest is not None else []
        for marker in self._markers:
            try:
                mark = await marker.load()
            except Exception as error:  # If one marker does not respond, still check the others.
                log.warning("restore_marker_unavailable", reason=str(error))
                continue
            if mark is not None:
                known.append(mark)
        return known

    async def _sequence(self) -> int:
        async with self._database.read() as tx:
            rows = await tx.execute(select(installation.c.value).where(installation.c.name == SEQUENCE))
        return int(rows[0].value) if rows else 0

    async def _advance(self, sequence: int) -> None:
        """Set the number, unless another process has set a higher one."""
        with suppress(IntegrityError):  # Another process inserted it at the same time.
            async with self._database.write() as tx:
                rows = await tx.execute(
                    select(installation.c.value).where(installation.c.name == SEQUENCE).with_for_update()
                )
                if not rows:
                    await tx.execute(insert(installation).values(name=SEQUENCE, value=str(sequence)))
                elif int(rows[0].value) < sequence:
                    await tx.execute(
                        update(installation).where(installation.c.name == SEQUENCE).values(value=str(sequence))
                    )

    async def _save(self, mark: Mark) -> None:
        self._latest = mark
        for marker in self._markers:
            try:
                await marker.save(mark)
            except Exception as error:
                log.warning("restore_marker_not_saved", reason=str(error))


def _hold(mark: Mark, database_id: str, now: Instant) -> SendingHold:
    if mark.database_id != database_id:
        detail = f"A different database was in use until {utc_text(mark.at)}."
        return SendingHold(HoldReason.REPLACED, now, detail)
    detail = f"The database is older than its state of {utc_text(mark.at)}. Messages sent since its backup are unknown."
    return SendingHold(HoldReason.RESTORED, now, detail)


def _name(url: URL) -> str:
    """Return a name for the database's location that does not reveal the password."""
    place = str(Path(str(url.database)).resolve()) if url.get_backend_name() == "sqlite" else url.database
    facts = f"{url.get_backend_name()}|{url.host or url.query.get('host') or ''}|{url.port or ''}|{place}"
    return hashlib.blake2b(facts.encode(), digest_size=8).hexdigest()
