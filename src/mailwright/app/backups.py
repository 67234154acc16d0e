"""Write backups of an installation: its database and its images."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from sqlalchemy import Connection

from mailwright.app.images import own_image_files
from mailwright.content.image_files import list_stored_images
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import MailwrightError, NotDurable
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.sizes import size_text
from mailwright.ops.settings import Settings
from mailwright.ops.temporary_folder import open_temporary_folder
from mailwright.outbox.audit import Audit, audit
from mailwright.outbox.installation import get_or_create_secret
from mailwright.outbox.recorded_facts import RecordedBackup, record_backup
from mailwright.outbox.restore_guard import DATABASE_ID
from mailwright.storage.backup import load_tables, write_tables
from mailwright.storage.backup_encryption import can_decrypt, decrypted, encrypted, is_backup
from mailwright.storage.backup_file import (
    BackupContents,
    BackupHeader,
    BackupInvalid,
    BackupNotWritten,
    BackupReader,
    BackupWriter,
    TableRows,
)
from mailwright.storage.database import Database
from mailwright.storage.migrate import create_schema, upgrade
from mailwright.storage.schema_state import SchemaStatus, require_current, require_known

SUFFIX: Final = ".mwbackup"
# The prefix of folders for unfinished files. They are in the same folder as finished files, so that a file can be
# renamed or linked into place.
TEMPORARY: Final = ".mailwright-unfinished-"

# A backup stops before it takes the last free space, which accepting and sending may need.
RESERVED_BYTES: Final = 64 * 1024**2

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Backup:
    """A finished backup. `audit` is None if no audit was requested, or if the secret key for it is missing."""

    file: Path
    size_bytes: int
    contents: BackupContents
    audit: Audit | None
    deleted: list[Path]


async def back_up(
    settings: Settings,
    database: Database,
    clock: Clock,
    target: Path,
    *,
    key: Path | None = None,
    keep: int | None = None,
    force: bool = False,
    audits: bool = True,
    on_rows: Progress = lambda count: None,
) -> Backup:
    """Write a backup while all processes run, read it back and audit the copy. Delete the backup if this fails.

    `force`: replace an existing backup. Any other existing file is never replaced. `audits`: whether the copy must
    pass the audit.
    """
    now = clock.now()
    file = _file(target, now)
    _require_replaceable(file, force=force)
    header = await _header(database, now)
    with _partial_file(file) as partial:

        def on_page(count: int) -> None:
            _require_space(partial.parent)
            on_rows(count)

        with _output(partial, key, header) as writer:
            await write_tables(database, writer, on_page)
            await _write_images(settings, database, writer, clock)
        found = await audit_of(partial, key) if audits and (key is None or can_decrypt(key)) else None
        if found is not None and not found.ok:
            raise BackupInvalid("The audit of the backup failed. Run `mailwright audit` on the database.")
        _publish(partial, file, force=force)
    size = file.stat().st_size
    await record_backup(database, RecordedBackup(now, str(file), size))
    deleted = _rotate(target, keep) if keep is not None and file != target else []
    return Backup(file, size, writer.contents, found, deleted)


async def audit_of(file: Path, key: Path | None) -> Audit:
    """Load a backup into a temporary database and audit it."""
    parent = writable_folder(file)
    with open_temporary_folder(TEMPORARY, parent) as folder:
        copy = Database(f"sqlite:///{folder.path}/copy.db")
        try:
            await load(copy, file, key, on_part=lambda: _require_space(folder.path))
            return await audit(copy)
        except NotDurable as error:
            raise BackupNotWritten(
                f"The backup could not be audited: its temporary copy in {parent.absolute()} could not be written. "
                "Check the free space there; the copy needs as much as the database."
            ) from error
        finally:
            await copy.close()


def writable_folder(file: Path) -> Path:
    """Return the folder of a backup, or the current folder if that one cannot be written, for example on a read-only
    disk.
    """
    return file.parent if os.access(file.parent, os.W_OK) else Path()


async def load(
    database: Database,
    file: Path,
    key: Path | None,
    finish: Callable[[Connection], object] = lambda connection: None,
    on_part: Callable[[], None] = lambda: None,
) -> None:
    """Replace the content of a database in one transaction, call `finish` in it, and upgrade the schema."""

    def parts(reader: BackupReader) -> Iterator[TableRows]:
        for part in reader.tables():
            on_part()
            yield part

    def work(connection: Connection) -> None:
        try:
            with opened(file, key) as reader, connection.begin():
                load_tables(connection, parts(reader))
                finish(connection)
        except MailwrightError:
            raise
        except Exception:
            # The database refuses the rows of a changed file before its end, where the digest is.
            with opened(file, key) as reader:
                reader.require_digest()
            raise

    with opened(file, key) as reader:
        revision = reader.header.revision
    found = await require_known(database)
    if found.status is SchemaStatus.EMPTY:
        await create_schema(database, revision)
    elif found.revision != revision or found.status is SchemaStatus.UNFINISHED:
        raise BackupInvalid(
            f"The backup has schema revision {revision}; the database has {found.revision}. Restore into an empty "
            "database."
        )
    await database.run_sync_ddl(work)
    await upgrade(database)


@contextmanager
def opened(file: Path, key: Path | None) -> Iterator[BackupReader]:
    try:
        source = file.open("rb")
    except OSError as error:
        raise BackupInvalid(f"The file {file} cannot be read ({error.strerror}).") from error
    with source, decrypted(source, key) as stream:
        yield BackupReader(stream)


async def _header(database: Database, now: Instant) -> BackupHeader:
    found = await require_known(database)
    if found.status is SchemaStatus.EMPTY:
        raise BackupNotWritten("The database is empty, so there is nothing to back up.")
    revision = await require_current(database)
    return BackupHeader(now, revision, database.dialect, await get_or_create_secret(database, DATABASE_ID))


@contextmanager
def _output(file: Path, key: Path | None, header: BackupHeader) -> Iterator[BackupWriter]:
    try:
        with file.open("wb") as target:
            with encrypted(target, key) as stream:
                writer = BackupWriter(stream, header)
                yield writer
                writer.finish()
            target.flush()
            os.fsync(target.fileno())
    except OSError as error:
        reason = error.strerror or error
        raise BackupNotWritten(f"The backup could not be written ({reason}). The partial file was deleted.") from error


def _require_space(folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < RESERVED_BYTES:
        raise BackupNotWritten(
            f"The backup was stopped and deleted, because only {size_text(free)} of disk space are free, which "
            "sending needs. A backup and its audit need about as much space as the database. Use another disk."
        )


async def _write_images(settings: Settings, database: Database, writer: BackupWriter, clock: Clock) -> None:
    """Write the images of this machine and those in the database. Images in a bucket are not backed up."""
    files = own_image_files(settings, database, clock)
    here = settings.images.glob("*") if settings.images.is_dir() else ()
    for name in sorted({image.name for image in here if image.is_file()} | {*await list_stored_images(database)}):
        if (content := await files.read(name)) is not None:  # It was not purged in the meantime.
            writer.write_file(name, content)


def _require_replaceable(file: Path, *, force: bool) -> None:
    if not file.exists() and not file.is_symlink():
        return
    if not is_backup(file):
        raise BackupNotWritten(
            f"The file {file} exists and is not a backup, so it is not replaced. Choose another name."
        )
    if not force:
        raise BackupNotWritten(f"The backup {file} exists. Choose another name, or replace it with --force.")


def _publish(partial: Path, file: Path, *, force: bool) -> None:
    if force:
        partial.replace(file)
        return
    try:
        os.link(partial, file)  # Unlike a rename, this never replaces a file that appeared in the meantime.
    except FileExistsError:
        raise BackupNotWritten(f"The file {file} appeared meanwhile. Choose another name.") from None
    except OSError:  # The file system has no hard links, for example on USB sticks and some network shares.
        _require_replaceable(file, force=False)
        partial.replace(file)


@contextmanager
def _partial_file(file: Path) -> Iterator[Path]:
    """Yield a private file in a temporary folder beside the target.

    Also delete files that killed processes left there.
    """
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(open_temporary_folder(TEMPORARY, file.parent))
            partial = folder.path / file.name
            os.close(os.open(partial, os.O_CREAT | os.O_EXCL, 0o600))
        except OSError as error:
            if isinstance(error, FileNotFoundError):
                raise BackupNotWritten(f"The folder {file.parent} does not exist. Create it first.") from error
            raise BackupNotWritten(f"The folder {file.parent} cannot be written ({error.strerror}).") from error
        yield partial


def _file(target: Path, now: Instant) -> Path:
    """Return the file to write: the target itself, or a file with a timestamp in its name if it is a folder."""
    name = f"mailwright-{datetime.fromtimestamp(now / 1000, UTC):%Y%m%dT%H%M%SZ}{SUFFIX}"
    return target / name if target.is_dir() else target


def _rotate(folder: Path, keep: int) -> list[Path]:
    """Delete all but the newest `keep` backups of a folder. Their names sort by time."""
    old = sorted(folder.glob(f"mailwright-*{SUFFIX}"))[:-keep]
    for file in old:
        file.unlink()
    return old
