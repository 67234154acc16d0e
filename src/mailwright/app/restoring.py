"""Restore a backup. Afterwards sending is held until an operator decides about the messages that were due."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from sqlalchemy import Connection

from mailwright.app.backups import SUFFIX, TEMPORARY, audit_of, back_up, load, opened, writable_folder
from mailwright.app.images import own_image_files
from mailwright.app.restore_checks import make_guard
from mailwright.audience.erasure_record import ErasureRecord
from mailwright.audience.importing.upload_files import delete_files_without_import
from mailwright.audience.restored_erasures import RestoredErasures, erase_again, save_erasures
from mailwright.audience.restored_suppressions import RestoredSuppressions
from mailwright.content.image_files import ImageFiles
from mailwright.domain.clock import MINUTE, Clock, Instant, utc_text
from mailwright.domain.errors import NotPossibleNow
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.ops.settings import Settings
from mailwright.ops.temporary_folder import open_temporary_folder
from mailwright.outbox.audit import Audit, audit
from mailwright.outbox.failover import accept_history
from mailwright.outbox.recorded_facts import RecordedBackup, record_backup
from mailwright.outbox.sending_hold import HoldReason, SendingHold, replace_hold
from mailwright.outbox.valkey import valkey_client
from mailwright.outbox.workers import list_present
from mailwright.sources.articles.runs import stop_open_runs
from mailwright.storage.backup import has_content
from mailwright.storage.backup_file import BackupHeader, BackupInvalid
from mailwright.storage.database import Database, is_missing, parse_url
from mailwright.storage.schema_state import SchemaStatus, require_known
from mailwright.storage.server_state import count_other_sessions
from mailwright.storage.sqlite_file import replace_file

# An erasure may have begun before the backup and ended after it.
ERASURE_MARGIN: Final = 5 * MINUTE


@dataclass(frozen=True, slots=True)
class Restored:
    """The result of a restore. `kept` is the replaced SQLite file, or a backup of the replaced PostgreSQL content."""

    created_at: Instant
    audit: Audit
    images: int
    kept: Path | None
    erasures: RestoredErasures
    suppressions: RestoredSuppressions


def header_of(file: Path, key: Path | None) -> BackupHeader:
    with opened(file, key) as reader:
        return reader.header


async def restore(settings: Settings, clock: Clock, file: Path, *, key: Path | None, verify: bool) -> Restored:
    """Replace the database with a backup atomically. An error or a crash leaves the previous database unchanged.

    If `verify` is true, load the backup into a temporary database first, and refuse it if its audit fails.
    """
    header = header_of(file, key)
    if verify and not (await audit_of(file, key)).ok:
        raise BackupInvalid("The audit of the backup failed: messages are missing. Restore another backup.")
    url = parse_url(settings.database_url)
    record, since, kept = ErasureRecord(settings.state, url), header.created_at - ERASURE_MARGIN, None
    with open_temporary_folder(TEMPORARY, writable_folder(file)) as folder:
        suppressions = RestoredSuppressions(folder.path / "suppressions")
        finish = partial(_finish, header, clock, suppressions)
        if url.get_backend_name() == "sqlite":
            is_read = await _save_of_file(settings, record, since, suppressions)
            kept = await _replace_file(Path(str(url.database)), file, key, finish)
        else:
            async with _opened(settings) as database:
                kept = await _keep_content(settings, database, clock, writable_folder(file))
                is_read = kept is not None and await _save(database, record, since, suppressions)
                await load(database, file, key, finish)
    async with _opened(settings) as database:
        images = await _restore_images(own_image_files(settings, database, clock), file, key)
        await _acknowledge(settings, database, clock)
        await delete_files_without_import(database)
        # A backup is recorded after it was written, so the restored content knows only the one before.
        size_bytes = (await asyncio.to_thread(file.stat)).st_size
        await record_backup(database, RecordedBackup(header.created_at, str(file), size_bytes))
        await suppressions.apply(database, clock)
        erasures = await erase_again(record, database, clock, since, imports_folder=settings.imports)
        # With PostgreSQL, each machine has its own record.
        is_known = is_read or (database.dialect == "sqlite" and erasures.is_known)
        erasures = replace(erasures, is_known=is_known)
        return Restored(header.created_at, await audit(database), images, kept, erasures, suppressions)


@asynccontextmanager
async def _opened(settings: Settings) -> AsyncIterator[Database]:
    database = Database(settings.database_direct_url or settings.database_url)
    try:
        yield database
    finally:
        await database.close()


async def _save_of_file(
    settings: Settings, record: ErasureRecord, since: Instant, suppressions: RestoredSuppressions
) -> bool:
    """Read the SQLite file that is about to be replaced. Return whether it exists and its erasures are readable."""
    async with _opened(settings) as database:
        return not is_missing(database) and await _save(database, record, since, suppressions)


async def _save(database: Database, record: ErasureRecord, since: Instant, suppressions: RestoredSuppressions) -> bool:
    await suppressions.save(database)
    return await save_erasures(record, database, since)


def _finish(header: BackupHeader, clock: Clock, suppressions: RestoredSuppressions, connection: Connection) -> None:
    """Keep suppressions and hold sending, in the transaction that loads the backup."""
    suppressions.add_to(connection)
    detail = (
        f"The database was restored from a backup of {utc_text(header.created_at)}. "
        "Messages sent since then are not in the database."
    )
    if not suppressions.is_known:
        detail += (
            " Unsubscribes, bounces and complaints since then are not known: suppress these addresses before you send."
        )
    replace_hold(connection, SendingHold(HoldReason.RESTORED, clock.now(), detail))


async def _acknowledge(settings: Settings, database: Database, clock: Clock) -> None:
    """Update the markers outside the database after a restore, so that they do not put sending on hold again."""
    valkey = valkey_client(settings.redis_url) if settings.redis_url else None
    try:
        await accept_history(database)
        await make_guard(settings, database, clock, valkey).check()
    finally:
        if valkey is not None:
            await valkey.aclose()
    await stop_open_runs(database, clock)


async def _keep_content(settings: Settings, database: Database, clock: Clock, folder: Path) -> Path | None:
    """Back up the current content of PostgreSQL, unless it is empty. Raise if another process uses it."""
    if (await require_known(database)).status is SchemaStatus.EMPTY:
        return None
    await _require_alone(database, clock)
    if not await has_content(database):
        return None
    kept = folder / f"before-restore-{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}{SUFFIX}"
    # Without an audit, because a database whose audit fails is a reason to restore a backup.
    await back_up(settings, database, clock, kept, audits=False)
    return kept


async def _require_alone(database: Database, clock: Clock) -> None:
    """Require that no other process of Mailwright uses the database: messages that it accepts now would be lost."""
    workers = {presence.worker for presence in await list_present(database, clock.now())}
    if database.has_pooler:
        raise NotPossibleNow(
            "A connection pooler hides which processes use the database. Set MAILWRIGHT_DATABASE_DIRECT_URL to the "
            "address of the server itself, then restore again."
        )
    sessions = await count_other_sessions(database)
    if workers or sessions:
        found = f"the worker {min(workers)}" if workers else f"{sessions} connections"
        raise NotPossibleNow(
            f"Other processes use the database ({found}). Stop all Mailwright processes, wait 30 seconds, then "
            "restore again."
        )


async def _replace_file(
    current: Path, file: Path, key: Path | None, finish: Callable[[Connection], None]
) -> Path | None:
    """Load the backup into a new SQLite file and move it into place. Return the path of the replaced file."""
    current.parent.mkdir(parents=True, exist_ok=True)
    with open_temporary_folder(TEMPORARY, current.parent) as folder:
        new = folder.path / "new.db"
        copy = Database(f"sqlite:///{new}")
        try:
            await load(copy, file, key, finish)
        finally:
            await copy.close()
        kept = current.with_name(f"{current.name}.before-restore-{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}")
        return kept if replace_file(current, new, kept) else None


async def _restore_images(files: ImageFiles, file: Path, key: Path | None) -> int:
    """Write the missing images. Existing files are correct, because their names are digests of their content."""
    count = 0
    with opened(file, key) as reader:
        for image in reader.files():
            name = Path(image.name).name
            if not await files.exists(name):
                await files.write(name, image.content, "")
                count += 1
    return count
