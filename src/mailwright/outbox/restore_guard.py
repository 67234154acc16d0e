"""Detect that the database was restored to an older state, with a marker outside the database.

While a process runs, it increments a number in the database every few seconds and copies it to the marker. If the
number in the database is lower than the marker, the database was restored from a backup or lost its latest commits.

A database that was used before, but has no marker here, may be an old copy on a new machine. So may one whose marker is
much older, because the marker then does not know the later states either. The database is in use, and therefore not an
old copy, if the number grows while the new process watches it: only a process that was allowed to send increments it.
"""

import asyncio
import hashlib
import os
import secrets
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import orjson
from sqlalchemy import Select, insert, select, update
from sqlalchemy.engine import URL
from sqlalchemy.exc import IntegrityError

from mailwright.domain.clock import MINUTE, Clock, Instant, utc_text
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.ops.logs import logger
from mailwright.outbox.installation import get_or_create_secret
from mailwright.outbox.installation_values import load_value, store_value
from mailwright.outbox.sending_hold import HoldReason, SendingHold, find_hold, hold_sending
from mailwright.storage.database import Database
from mailwright.storage.postgresql_url import hosts_of
from mailwright.storage.tables import (
    campaign_runs,
    campaigns,
    contacts,
    deleted_messages,
    deliveries,
    installation,
    mailouts,
    messages,
    notification_links,
    sequences,
    suppressions,
)

if TYPE_CHECKING:
    from redis.asyncio import Redis

log = logger(__name__)

DATABASE_ID = "database_id"
SEQUENCE = "sequence"
ADVANCED_AT = "advanced_at"  # when the number was last incremented
ADVANCE_SECONDS = 5.0
# How long a process without a marker waits for another one to increment the number, and how often it reads it. Four
# increments, because the other one may be busy.
JOIN_SECONDS: Final = 4 * ADVANCE_SECONDS
JOIN_POLL_SECONDS: Final = 0.5
# If the last increment is older than this, no process uses the database. Clocks differ by less.
UNUSED_AFTER: Final[Instant] = 10 * MINUTE
# After a restore, the number is raised by this much, so that it is higher than the marker of any other machine.
RESTORE_STEP = 1_000_000_000
# A database with a row in one of these tables may have sent email, or may be about to. Users, settings and templates
# exist before anything is sent.
_EVIDENCE: Final = (
    messages,
    deleted_messages,
    contacts,
    suppressions,
    campaigns,
    campaign_runs,
    sequences,
    mailouts,
    notification_links,
)
# Rows that exist only after a worker has tried to send.
_SENT: Final = (
    select(deliveries.c.message_key).where(deliveries.c.attempts > 0),
    select(deleted_messages.c.outbox_id),
)


@dataclass(frozen=True, slots=True)
class Mark:
    """The content of a marker: the latest known state of a database."""

    database_id: str
    sequence: int
    at: Instant


class MarkerStore(Protocol):
    async def load(self, database_id: str) -> Mark | None:
        """Return the marker of the database at this location, or else of the same database at another location."""
        ...

    async def save(self, mark: Mark) -> None: ...


class FileMarker:
    """A small file in the state folder. It must not be part of the database's backup."""

    def __init__(self, folder: Path, url: URL) -> None:
        self.file = folder / f"{database_name(url)}.json"

    async def load(self, database_id: str) -> Mark | None:
        return await asyncio.to_thread(self._load, database_id)

    def read(self) -> Mark | None:
        """Return the marker of the database at this location."""
        return _read(self.file)

    def _load(self, database_id: str) -> Mark | None:
        """A new path or host name in the URL changes the file name, but not the ID."""
        here = self.read()
        if here is not None:
            return here
        marks = (_read(file) for file in self.file.parent.glob("*.json"))
        return _latest(mark for mark in marks if mark is not None and mark.database_id == database_id)

    async def save(self, mark: Mark) -> None:
        await asyncio.to_thread(self._write, mark)

    def _write(self, mark: Mark) -> None:
        self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Containers that share the folder have the same process IDs.
        new = self.file.with_suffix(f".{secrets.token_hex(8)}")
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(orjson.dumps(asdict(mark)))
            file.flush()
            os.fsync(file.fileno())  # After a power failure, an empty marker would hold all sending.
        new.replace(self.file)

    def forget(self) -> None:
        self.file.unlink(missing_ok=True)


_VALKEY_PREFIX: Final = "mailwright:marker:"


class ValkeyMarker:
    """A key in Valkey, shared by all machines of the installation."""

    def __init__(self, client: "Redis", url: URL) -> None:
        self._client = client
        self._key = f"{_VALKEY_PREFIX}{database_name(url)}"

    async def load(self, database_id: str) -> Mark | None:
        here, elsewhere = await self._client.mget(self._key, f"{_VALKEY_PREFIX}{database_id}")
        stored = here if here is not None else elsewhere
        return None if stored is None else Mark(**orjson.loads(stored))

    async def save(self, mark: Mark) -> None:
        stored = orjson.dumps(asdict(mark))
        await self._client.mset({self._key: stored, f"{_VALKEY_PREFIX}{mark.database_id}": stored})


class RestoreGuard:
    """Compares the database with its markers, at the start of a process and every few seconds while it runs."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        markers: Sequence[MarkerStore],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._database = database
        self._clock = clock
        self._markers = markers
        self._sleep = sleep
        self._latest: Mark | None = None  # the latest state that this process has seen

    async def check(self) -> SendingHold | None:
        """Put sending on hold if the database is older than a marker or its past is unknown; otherwise increment the
        number.

        Return the new hold, or None. Without a marker, this waits until another process increments the number, at most
        `JOIN_SECONDS`.
        """
        database_id = await get_or_create_secret(self._database, DATABASE_ID)
        known = await self._known_marks(database_id)
        sequence, used_at = await self._recorded()
        found = [mark for mark in known if mark.database_id != database_id or mark.sequence > (sequence or 0)]
        hold = None
        if found:
            hold = _hold(found[0], database_id, self._clock.now())
        elif self._latest is None and _is_outdated(known, used_at) and not await self._is_past_known(sequence):
            marked_at = max((mark.at for mark in known), default=None)
            if not await self._is_in_use(database_id, sequence, used_at):
                hold = _hold_unmarked(used_at, marked_at, self._clock.now())
        if hold is not None and await hold_sending(self._database, hold):
            log.error("sending_held", reason=hold.reason, detail=hold.detail)
        highest = max([mark.sequence for mark in known], default=sequence or 0)
        await self._advance_to(database_id, highest + RESTORE_STEP if hold is not None else (sequence or 0) + 1)
        return hold

    async def newest_mark(self) -> Mark | None:
        """Return the latest known state of this database, or None if there is no marker of it."""
        database_id = await get_or_create_secret(self._database, DATABASE_ID)
        return _latest(mark for mark in await self._known_marks(database_id) if mark.database_id == database_id)

    async def _advance_to(self, database_id: str, sequence: int) -> None:
        now = self._clock.now()
        await self._advance(sequence, now)
        await self._save(Mark(database_id, sequence, now))

    async def _is_past_known(self, sequence: int | None) -> bool:
        """Return whether a database without a recent marker is empty, or on hold already."""
        if await find_hold(self._database) is not None:
            return True
        if sequence is None:
            # No process that counts has used it. If it sent all the same, it comes from a version before the number.
            return not await self._exists(*_SENT)
        return not await self._exists(*(select(*table.primary_key) for table in _EVIDENCE))

    async def _is_in_use(self, database_id: str, sequence: int | None, used_at: Instant | None) -> bool:
        """Return whether another process uses the database. It increments the number, or saves a marker here."""
        if await self._has_marker(database_id, used_at):
            return True
        if sequence is None or (used_at is not None and abs(self._clock.now() - used_at) > UNUSED_AFTER):
            return False
        log.info("restore_marker_missing", message="Waiting for another process to show that the database is in use.")
        for _ in range(int(JOIN_SECONDS / JOIN_POLL_SECONDS)):
            await self._sleep(JOIN_POLL_SECONDS)
            current, _ = await self._recorded()
            if (current is not None and current > sequence) or await self._has_marker(database_id, used_at):
                return True
        return False

    async def _has_marker(self, database_id: str, used_at: Instant | None) -> bool:
        """Return whether a process that started together with this one has saved a marker by now.

        It does so before it sends. What this one found in the database may be its work, and it may end soon.
        """
        return not _is_outdated(await self._known_marks(database_id), used_at)

    async def _exists(self, *queries: Select[Any]) -> bool:
        """Return whether any of the queries finds a row."""
        async with self._database.read() as tx:
            for query in queries:
                if await tx.execute(query.limit(1)):
                    return True
        return False

    async def _known_marks(self, database_id: str) -> list[Mark]:
        known = [self._latest] if self._latest is not None else []
        for marker in self._markers:
            try:
                mark = await marker.load(database_id)
            except Exception as error:  # If one marker does not respond, still check the others.
                log.warning("restore_marker_unavailable", reason=str(error))
                continue
            if mark is not None:
                known.append(mark)
        return known

    async def _recorded(self) -> tuple[int | None, Instant | None]:
        """Return the number, and when it was last incremented. Both are None in a database that no process has used."""
        async with self._database.read() as tx:
            sequence, used_at = await load_value(tx, SEQUENCE), await load_value(tx, ADVANCED_AT)
        return None if sequence is None else int(sequence), None if used_at is None else int(used_at)

    async def _advance(self, sequence: int, now: Instant) -> None:
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
                await store_value(tx, ADVANCED_AT, str(now))

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
    return restored_hold(mark, now)


def restored_hold(mark: Mark, now: Instant) -> SendingHold:
    detail = f"The database is older than its state of {utc_text(mark.at)}. Messages sent since its backup are unknown."
    return SendingHold(HoldReason.RESTORED, now, detail)


def _is_outdated(known: Sequence[Mark], used_at: Instant | None) -> bool:
    """Return whether the database was used long after its latest marker was saved, or has no marker."""
    return not known or (used_at is not None and used_at - max(mark.at for mark in known) > UNUSED_AFTER)


def _hold_unmarked(used_at: Instant | None, marked_at: Instant | None, now: Instant) -> SendingHold:
    last_use = "" if used_at is None else f" It was last used at {utc_text(used_at)}."
    marker = "no marker of the database" if marked_at is None else f"an older marker, of {utc_text(marked_at)},"
    detail = (
        f"This machine has {marker} in the folder MAILWRIGHT_STATE, and no other process uses the database.{last_use} "
        "It may be an old copy, so messages sent since then are unknown."
    )
    return SendingHold(HoldReason.UNMARKED, now, detail)


def _read(file: Path) -> Mark | None:
    try:
        return Mark(**orjson.loads(file.read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        log.warning("restore_marker_unreadable", file=str(file), reason=str(error))
        return None


def _latest(marks: Iterable[Mark]) -> Mark | None:
    return max(marks, key=lambda mark: mark.sequence, default=None)


def database_name(url: URL) -> str:
    """Return a name for the database's location that does not reveal the password."""
    place = str(Path(str(url.database)).resolve()) if url.get_backend_name() == "sqlite" else url.database
    facts = f"{url.get_backend_name()}|{hosts_of(url)}|{url.port or ''}|{place}"
    return hashlib.blake2b(facts.encode(), digest_size=8).hexdigest()
