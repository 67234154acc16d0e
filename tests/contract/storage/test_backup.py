"""A backup holds everything as of one moment, and a restore replaces everything or nothing, on both engines."""

import asyncio
import errno
import gzip
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import delete, insert, select, update

from mailwright.app.backups import RESERVED_BYTES, Backup, audit_of, back_up
from mailwright.app.images import own_image_files
from mailwright.app.restore_checks import make_guard
from mailwright.app.restoring import Restored, restore
from mailwright.app.retention import RetentionSweep
from mailwright.app.sending import release_sending
from mailwright.audience import contacts, erasure
from mailwright.audience.importing.imports import ImportOptions, Imports
from mailwright.audience.importing.upload_files import StoredUploads
from mailwright.audience.importing.uploads import ImportUploads
from mailwright.audience.lists import GENERAL
from mailwright.audience.restored_erasures import RestoredErasures
from mailwright.audience.status import apply_facts, bounce_fact, complaint_fact, unsubscribe_fact
from mailwright.domain.clock import DAY, HOUR, ManualClock
from mailwright.domain.errors import MailwrightError, NotPossibleNow
from mailwright.domain.retention import RetentionKind
from mailwright.ops.settings import Settings
from mailwright.outbox.audit import audit
from mailwright.outbox.installation import get_or_create_secret
from mailwright.outbox.recorded_facts import find_backup
from mailwright.outbox.restore_guard import DATABASE_ID
from mailwright.outbox.retention_rules import list_rules, set_rule
from mailwright.outbox.sending_hold import DueMessages, HoldReason, find_hold, release_hold
from mailwright.storage import tables
from mailwright.storage.backup_encryption import create_key
from mailwright.storage.backup_file import BackupHeader, BackupInvalid, BackupNotWritten, BackupWriter
from mailwright.storage.database import Database
from mailwright.storage.revision import newest_revision
from mailwright.storage.stored_files import list_files
from mailwright.storage.tables import deliveries, installation, suppressions, workers
from tests.builders import (
    DEFAULT_TENANT,
    SENT,
    Bench,
    a_bench,
    a_contact,
    a_message,
    a_result,
    a_settler,
    a_subscriber,
    a_tenant,
    claims_of,
    settings_for,
    suppress,
)
from tests.conftest import DatabaseAddress
from tests.engines import PostgresServer
from tests.faults.backups import RESTORE_POINTS, RESTORED, content, fill, killed
from tests.standins.provider import ScriptedProvider
from tests.warm import warm_command

pytestmark = pytest.mark.promise("backup-restores")


async def filled(url: str, clock: ManualClock) -> None:
    async with a_bench(url, clock) as bench:
        await fill(bench)


async def backed_up(url: str, clock: ManualClock, target: Path, **options: Any) -> Backup:
    database = Database(url)
    try:
        return await back_up(_settings(url, target), database, clock, target, **options)
    finally:
        await database.close()


async def restored(url: str, clock: ManualClock, file: Path, **options: Any) -> Restored:
    return await restore(_settings(url, file), clock, file, **{"key": None, "verify": True, **options})


def _settings(url: str, near: Path) -> Settings:
    folder = near if near.is_dir() else near.parent
    return settings_for(url, images=folder / "images", state=folder / "state")


@pytest.mark.parametrize("target", ["sqlite", "postgresql"])
async def test_backup_of_either_engine_restores_into_either(
    engine: DatabaseAddress, target: str, clock: ManualClock, tmp_path: Path, postgres_server: PostgresServer
) -> None:
    await filled(engine.url, clock)
    file = tmp_path / "all.mwbackup"
    written = await backed_up(engine.url, clock, file)
    assert written.audit is not None
    assert written.audit.ok
    url = f"sqlite:///{tmp_path}/other.db" if target == "sqlite" else await postgres_server.create()
    result = await restored(url, clock, file)
    assert result.audit == written.audit
    assert result.erasures == RestoredErasures(is_known=target == "postgresql" and result.kept is not None)
    assert await content(url) == await content(engine.url)
    async with a_bench(url, clock) as bench:  # New rows get new numbers.
        await bench.accept(a_message())
        assert (await audit(bench.database)).accepted == written.audit.accepted + 1
    if target == "postgresql":
        await postgres_server.drop(url)


async def test_restored_database_is_held_from_the_start(
    engine: DatabaseAddress, clock: ManualClock, tmp_path: Path
) -> None:
    await filled(engine.url, clock)
    await backed_up(engine.url, clock, tmp_path / "a.mwbackup")
    async with a_bench(engine.url, clock) as bench:
        await bench.drain(ScriptedProvider())  # Sent after the backup.
    clock.advance(120_000)  # The worker is gone.
    result = await restored(engine.url, clock, tmp_path / "a.mwbackup")
    assert result.kept is not None
    assert result.kept.exists()
    async with a_bench(engine.url, clock) as bench:
        hold = await find_hold(bench.database)
        assert hold is not None
        assert hold.reason is HoldReason.RESTORED
        provider = ScriptedProvider()
        await bench.drain(provider)
        assert provider.messages == []


# Runs `mailwright backup`, and ends it by SIGTERM where this function is called.
TERMINATED = """
import os, signal, sys
from mailwright.app import backups
from mailwright.cli import main
point, sys.argv = sys.argv[1], ["mailwright", *sys.argv[2:]]
original = getattr(backups, point)
def terminated(*arguments, **options):
    os.kill(os.getpid(), signal.SIGTERM)
    return original(*arguments, **options)
setattr(backups, point, terminated)
main()
"""


@pytest.mark.parametrize("point", ["write_tables", "_write_images", "audit_of", "load_tables", "audit", "_publish"])
async def test_backup_ended_by_sigterm_leaves_nothing(
    engine: DatabaseAddress, clock: ManualClock, tmp_path: Path, point: str
) -> None:
    await filled(engine.url, clock)
    folder = tmp_path / "backups"
    folder.mkdir()
    command = [*warm_command(), "-c", TERMINATED, point, "backup", str(folder / "a.mwbackup")]
    environment = {**os.environ, "MAILWRIGHT_DATABASE_URL": engine.url}
    ended = await asyncio.to_thread(
        subprocess.run, command, env=environment, cwd=tmp_path, capture_output=True, check=False, timeout=60
    )
    assert ended.returncode == -signal.SIGTERM, ended
    assert list(folder.iterdir()) == []


ADA, BOB = "ada.erased@example.com", "bob.erased@example.com"


async def delete_old_bodies(bench: Bench) -> int:
    sweep = RetentionSweep(bench.engine.settings, bench.database, bench.clock)
    return sum([count.rows async for _, count in sweep.run(await list_rules(bench.database))])


@pytest.mark.promise("restore-keeps-suppressions")
async def test_restore_keeps_suppressions_newer_than_the_backup(
    engine: DatabaseAddress, clock: ManualClock, tmp_path: Path
) -> None:
    file, settings = tmp_path / "a.mwbackup", _settings(engine.url, tmp_path)
    people = [f"{name}@example.com" for name in ("left", "complained", "bounced", "earlier", "free")]
    left, complained, bounced, earlier, free = people
    async with a_bench(engine.url, clock, state=settings.state, images=settings.images) as bench:
        database, now = bench.database, clock.now()
        for email in people:
            await a_subscriber(database, email)
        await bench.accept(*(a_message(to=email, is_bulk=True) for email in people))
        await suppress(database, earlier)
        await back_up(settings, database, clock, file)
        clock.advance(HOUR)
        other = await a_tenant(database, "other")  # It is not in the backup.
        facts = (
            unsubscribe_fact(DEFAULT_TENANT, left, GENERAL, source="page", at=clock.now()),
            complaint_fact(DEFAULT_TENANT, complained, source="ses", at=now - DAY),  # Reported late.
            bounce_fact(DEFAULT_TENANT, bounced, source="ses", at=clock.now()),
            bounce_fact(other, free, source="ses", at=clock.now()),
        )
        await database.transact(lambda tx: apply_facts(tx, facts, clock.now()))
        await suppress(database, "never.a.contact@example.com")
    clock.advance(120_000)  # The worker is gone.
    result = await restored(engine.url, clock, file)
    assert result.suppressions.is_known
    assert result.suppressions.kept == {"unsubscribed": 2, "complaint": 1, "bounce": 1}
    async with a_bench(engine.url, clock, state=settings.state) as bench:
        await release_hold(bench.database, clock, actor="ada", due=DueMessages.SEND)
        provider = ScriptedProvider()
        await bench.drain(provider)
        assert [message.recipients for message in provider.messages] == [(free,)]
        async with bench.database.read() as tx:
            rows = await tx.execute(select(tables.contacts.c.email, tables.contacts.c.status))
    statuses = {row.email: row.status for row in rows}
    assert statuses == dict(zip(people, ("unsubscribed", "unsubscribed", "bounced", "active", "active"), strict=True))


async def test_backup_of_another_installation_gets_no_suppressions(
    engine: DatabaseAddress, clock: ManualClock, tmp_path: Path
) -> None:
    file = tmp_path / "a.mwbackup"
    async with a_bench(engine.url, clock) as bench:
        await get_or_create_secret(bench.database, DATABASE_ID)
        await back_up(_settings(engine.url, tmp_path), bench.database, clock, file)
        async with bench.database.write() as tx:
            await tx.execute(update(installation).where(installation.c.name == DATABASE_ID).values(value="another"))
        await suppress(bench.database, ADA)
    result = await restored(engine.url, clock, file)
    assert (result.suppressions.is_known, result.suppressions.kept) == (False, {})
    async with a_bench(engine.url, clock) as bench:
        hold = await find_hold(bench.database)
        assert hold is not None
        assert "complaints since then are not known" in hold.detail
    assert (await content(engine.url))["suppressions"] == []


@pytest.mark.promise("restore-keeps-suppressions")
@pytest.mark.parametrize("known_by", ["replaced database", "record"])
async def test_restore_erases_people_again_who_were_erased_since(
    engine: DatabaseAddress, clock: ManualClock, tmp_path: Path, known_by: str
) -> None:
    file, settings = tmp_path / "a.mwbackup", _settings(engine.url, tmp_path)
    async with a_bench(engine.url, clock, state=settings.state, images=settings.images) as bench:
        database, record = bench.database, bench.engine.erasure_record
        for email in (ADA, BOB):
            await a_contact(database, email)
        await bench.accept(a_message(to=ADA))
        await bench.drain(ScriptedProvider())
        clock.advance(40 * DAY)
        kind = RetentionKind.BODIES
        await set_rule(database, clock, DEFAULT_TENANT, kind, days=7, exports=False, actor="ada")
        await bench.accept(a_message(to=BOB))
        [claimed] = await claims_of(database, clock).claim(1)
        await a_settler(database, clock).exchange([], [claimed])  # The backup contains an attempt without its result.
        await back_up(settings, database, clock, file)
        clock.advance(HOUR)
        await a_settler(database, clock).exchange([a_result(claimed, SENT, clock.now())], [])
        assert await delete_old_bodies(bench) == 1
        for email in (ADA, BOB):
            await erasure.erase(database, clock, DEFAULT_TENANT, email, actor="ada", record=record)
        assert "@" not in record.file.read_text()
        if known_by == "record":
            async with database.write() as tx:
                await tx.execute(delete(suppressions))
        else:
            record.file.unlink()  # Another machine erased them.
    clock.advance(120_000)  # The worker is gone.
    result = await restored(engine.url, clock, file)
    assert result.audit.ok
    assert result.erasures == RestoredErasures(is_known=True, erased=1, pending=(BOB,))
    kept = await content(engine.url)
    kept_suppressions = {(row[2], row[4]) for row in kept.pop("suppressions")}
    assert kept_suppressions == {(ADA, "erasure"), (BOB, "erasure")}
    assert ADA not in str(kept)
    async with a_bench(engine.url, clock, state=settings.state) as bench:
        assert await delete_old_bodies(bench) == 0  # The erasure has emptied the body already.
        assert (await audit(bench.database)).ok


async def test_restore_deletes_files_of_imports_newer_than_the_backup(
    engine: DatabaseAddress, clock: ManualClock, tmp_path: Path
) -> None:
    async def imported(uploads: ImportUploads) -> str:
        async def content() -> AsyncIterator[bytes]:
            yield b"email\nada@example.com\n"

        begun = await uploads.receive(DEFAULT_TENANT, content(), ImportOptions(), file_name="people.csv")
        await uploads.finish()
        return f"imports/{begun.import_id}.report.csv"

    async with a_bench(engine.url, clock) as bench:
        database = bench.database
        files = StoredUploads(database, clock, tmp_path / "imports")
        uploads = ImportUploads(Imports(database, clock), clock, tmp_path / "imports", largest=1_000_000, files=files)
        earlier = await imported(uploads)
        await back_up(_settings(engine.url, tmp_path), database, clock, tmp_path / "a.mwbackup")
        later = await imported(uploads)
        assert {*await list_files(database, "")} == {earlier, later}
    clock.advance(120_000)
    await restored(engine.url, clock, tmp_path / "a.mwbackup")
    async with a_bench(engine.url, clock) as bench:
        # A restored SQLite file is new, and has no files.
        assert await list_files(bench.database, "") == ([earlier] if bench.database.dialect == "postgresql" else [])


async def test_backup_is_one_snapshot_while_messages_are_accepted(
    engine: DatabaseAddress, clock: ManualClock, tmp_path: Path
) -> None:
    async with a_bench(engine.url, clock) as bench:
        await bench.accept(*[a_message() for _ in range(50)])
        stop = False

        async def accept() -> None:
            while not stop:
                await bench.accept(a_message())

        accepting = asyncio.create_task(accept())
        written = await back_up(
            _settings(engine.url, tmp_path),
            bench.database,
            clock,
            tmp_path / "a.mwbackup",
        )
        stop = True
        await accepting
    assert written.audit is not None
    assert written.audit.ok
    assert written.audit.accepted >= 50


async def test_damaged_backups_are_refused_and_change_nothing(
    engine: DatabaseAddress, clock: ManualClock, tmp_path: Path
) -> None:
    await filled(engine.url, clock)
    clock.advance(120_000)
    good = tmp_path / "good.mwbackup"
    await backed_up(engine.url, clock, good)
    before = await content(engine.url)
    whole = good.read_bytes()
    changed = bytearray(whole)
    changed[len(whole) // 2] ^= 0xFF
    bad = {
        "truncated": whole[: len(whole) * 2 // 3],
        "without its last byte": whole[:-1],
        "changed": bytes(changed),
        "empty": b"",
        "foreign": b"PK\x03\x04 some other archive",
        "text": b"hello\n",
    }
    for name, data in bad.items():
        file = tmp_path / f"{name}.mwbackup"
        file.write_bytes(data)
        for verify in (True, False):
            with pytest.raises(BackupInvalid):
                await restored(engine.url, clock, file, verify=verify)
    with pytest.raises(BackupInvalid):
        await restored(engine.url, clock, tmp_path / "missing")
    assert await content(engine.url) == before
    assert {each.name for each in tmp_path.glob(".*")} == set()


async def test_backup_with_any_changed_line_is_refused(
    engine: DatabaseAddress, clock: ManualClock, tmp_path: Path
) -> None:
    await filled(engine.url, clock)
    good = tmp_path / "good.mwbackup"
    await backed_up(engine.url, clock, good)
    before = await content(engine.url)
    lines = gzip.decompress(good.read_bytes()).splitlines(keepends=True)
    [table] = [line for line in lines if line.startswith(b'{"table":"messages"')]
    row = lines[lines.index(table) + 1]
    for old, new in {
        table: table.replace(b'"columns"', b'"culumns"'),
        table[:-1]: table[:-1].replace(b'"outbox_id"', b'"outbox_iq"'),
        row: b"[1]\n",
        row[:-1]: b"{}",
        b'{"end"': b'{"emd"',
    }.items():
        file = tmp_path / "changed.mwbackup"
        file.write_bytes(gzip.compress(b"".join(lines).replace(old, new, 1)))
        for verify in (True, False):
            with pytest.raises(BackupInvalid):
                await restored(engine.url, clock, file, verify=verify)
    assert await content(engine.url) == before


async def test_rows_that_do_not_add_up_are_refused(engine: DatabaseAddress, clock: ManualClock, tmp_path: Path) -> None:
    before = await content(engine.url)
    for name, change in {
        "newer": {"revision": "9999"},
        "format": {"format_version": 2},
    }.items():
        file = tmp_path / name
        with file.open("wb") as stream:
            header = {"created_at": 1, "revision": newest_revision(), "engine": "sqlite", "database_id": "x", **change}
            writer = BackupWriter(stream, BackupHeader(**header))
            writer.finish()
        with pytest.raises(MailwrightError, match=r"newer version|reads format"):
            await restored(engine.url, clock, file)
    for table, message in (("other", "does not know"), ("tenants", r"columns .* does not have: tenants\.a\.")):
        file = tmp_path / table
        with file.open("wb") as stream:
            writer = BackupWriter(stream, BackupHeader(1, newest_revision(), "sqlite", "x"))
            writer.start_table(table, ["a"])
            writer.write_rows(table, [(1,)])
            writer.finish()
        with pytest.raises(BackupInvalid, match=message):
            await restored(engine.url, clock, file, verify=False)
    assert await content(engine.url) == before


async def test_running_worker_prevents_a_restore(
    clock: ManualClock, tmp_path: Path, postgres_server: PostgresServer
) -> None:
    url = await postgres_server.create()
    await backed_up(url, clock, tmp_path / "a.mwbackup")
    database = Database(url)
    async with database.write() as tx:
        row = {"worker_id": "one/mailbox", "provider": "mailbox", "seen_at": clock.now(), "started_at": clock.now()}
        await tx.execute(insert(workers).values(**row))
    await database.close()
    with pytest.raises(NotPossibleNow, match="the worker one"):
        await restored(url, clock, tmp_path / "a.mwbackup")
    await postgres_server.drop(url)


async def test_other_process_prevents_a_restore(
    clock: ManualClock, tmp_path: Path, postgres_server: PostgresServer
) -> None:
    url = await postgres_server.create()
    await backed_up(url, clock, tmp_path / "a.mwbackup")
    async with a_bench(url, clock) as bench:
        await bench.accept(a_message())
        with pytest.raises(NotPossibleNow, match="connections"):
            await restored(url, clock, tmp_path / "a.mwbackup")
        assert (await audit(bench.database)).accepted == 1
    await postgres_server.drop(url)


async def test_replaced_content_is_kept_whatever_its_state(
    clock: ManualClock, tmp_path: Path, postgres_server: PostgresServer
) -> None:
    url, file = await postgres_server.create(), tmp_path / "a.mwbackup"
    await backed_up(url, clock, file)
    assert (await restored(url, clock, file)).kept is None  # A new database has nothing to lose.
    async with a_bench(url, clock) as bench:
        await contacts.put(bench.database, clock, DEFAULT_TENANT, "ada@example.com", contacts.ContactChange())
    kept = (await restored(url, clock, file)).kept
    assert kept is not None
    assert (await restored(url, clock, kept)).audit.ok
    await filled(url, clock)
    clock.advance(120_000)
    database = Database(url)
    async with database.write() as tx:
        await tx.execute(delete(deliveries))
    await database.close()
    assert (await restored(url, clock, file)).kept is not None  # Also if its audit fails.
    await postgres_server.drop(url)


async def test_existing_files_are_never_overwritten(clock: ManualClock, tmp_path: Path, empty_sqlite: bytes) -> None:
    file = tmp_path / "mailwright.db"
    file.write_bytes(empty_sqlite)
    url, key, good = f"sqlite:///{file}", tmp_path / "key.txt", tmp_path / "a.mwbackup"
    create_key(key)
    (tmp_path / "notes.txt").write_text("hello")
    for target in (file, key, tmp_path / "notes.txt"):
        for force in (False, True):
            before = target.read_bytes()
            with pytest.raises(BackupNotWritten, match="is not a backup"):
                await backed_up(url, clock, target, key=key, force=force)
            assert target.read_bytes() == before
    await backed_up(url, clock, good)
    with pytest.raises(BackupNotWritten, match="--force"):
        await backed_up(url, clock, good)
    await backed_up(url, clock, good, force=True)


async def test_released_restore_is_not_held_again(engine: DatabaseAddress, clock: ManualClock, tmp_path: Path) -> None:
    settings = _settings(engine.url, tmp_path)
    database = Database(engine.url)
    await make_guard(settings, database, clock, None).check()
    await backed_up(engine.url, clock, tmp_path / "a.mwbackup")
    await make_guard(settings, database, clock, None).check()
    await database.close()
    await restored(engine.url, clock, tmp_path / "a.mwbackup")
    database = Database(engine.url)
    await release_sending(database, clock, actor="ada", due=DueMessages.IN_DOUBT)
    assert await make_guard(settings, database, clock, None).check() is None
    assert await find_hold(database) is None
    found = await find_backup(database)
    assert found is not None
    assert (found.at, found.file) == (clock.now(), str(tmp_path / "a.mwbackup"))
    await database.close()


async def test_open_sqlite_file_is_not_replaced(clock: ManualClock, tmp_path: Path, empty_sqlite: bytes) -> None:
    (tmp_path / "mailwright.db").write_bytes(empty_sqlite)
    url = f"sqlite:///{tmp_path}/mailwright.db"
    await backed_up(url, clock, tmp_path / "a.mwbackup")
    other = sqlite3.connect(tmp_path / "mailwright.db")
    other.execute("PRAGMA journal_mode = WAL")
    other.execute("BEGIN")
    other.execute("SELECT count(*) FROM tenants").fetchall()
    with pytest.raises(NotPossibleNow, match="Another process uses"):
        await restored(url, clock, tmp_path / "a.mwbackup")
    other.close()
    await restored(url, clock, tmp_path / "a.mwbackup")


async def test_damaged_database_is_replaced_and_kept(clock: ManualClock, tmp_path: Path, empty_sqlite: bytes) -> None:
    file = tmp_path / "mailwright.db"
    file.write_bytes(empty_sqlite)
    url = f"sqlite:///{file}"
    await filled(url, clock)
    await backed_up(url, clock, tmp_path / "a.mwbackup")
    before = await content(url)
    file.write_bytes(b"not a database" * 1_000)
    result = await restored(url, clock, tmp_path / "a.mwbackup")
    assert result.kept is not None
    assert result.kept.read_bytes().startswith(b"not a database")
    assert await content(url) == before


async def test_encrypted_backup_needs_its_key(engine: DatabaseAddress, clock: ManualClock, tmp_path: Path) -> None:
    await filled(engine.url, clock)
    clock.advance(120_000)
    key, wrong = tmp_path / "key.txt", tmp_path / "wrong.txt"
    create_key(key)
    create_key(wrong)
    file = tmp_path / "secret.mwbackup"
    written = await backed_up(engine.url, clock, file, key=key)
    assert written.audit is not None
    assert b"reader" not in file.read_bytes()
    with pytest.raises(BackupInvalid, match="--key KEYFILE"):
        await restored(engine.url, clock, file)
    with pytest.raises(BackupInvalid, match="key"):
        await restored(engine.url, clock, file, key=wrong)
    before = await content(engine.url)
    await restored(engine.url, clock, file, key=key)
    assert await content(engine.url) == before
    public = tmp_path / "public.txt"
    public.write_text(key.read_text().split("public key: ")[1].splitlines()[0])
    written = await backed_up(engine.url, clock, tmp_path / "public.mwbackup", key=public)
    assert written.audit is None  # The key that is needed to read the backup is not available here.
    assert (await audit_of(tmp_path / "public.mwbackup", key)).ok


async def test_images_come_back_and_old_backups_are_deleted(
    engine: DatabaseAddress, clock: ManualClock, tmp_path: Path
) -> None:
    folder = tmp_path / "backups"
    (folder / "images").mkdir(parents=True)
    (folder / "images" / "ab12.png").write_bytes(b"\x89PNG")
    for _ in range(4):
        clock.advance(1_000)
        written = await backed_up(engine.url, clock, folder, keep=2)
    assert len(list(folder.glob("*.mwbackup"))) == 2
    assert len(written.deleted) == 1
    (folder / "images" / "ab12.png").unlink()
    assert (await restored(engine.url, clock, written.file)).images == 1
    database = Database(engine.url)
    images = own_image_files(_settings(engine.url, folder), database, clock)
    assert await images.read("ab12.png") == b"\x89PNG"
    await database.close()
    again = await backed_up(engine.url, clock, folder / "again.mwbackup")
    assert again.contents.files == 1


async def test_full_disk_leaves_no_file(
    engine: DatabaseAddress, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(gzip.GzipFile, "write", fail)
    for options in ({}, {"key": tmp_path / "key.txt"}):
        if options:
            create_key(options["key"])
        with pytest.raises(BackupNotWritten, match="No space left"):
            await backed_up(engine.url, clock, tmp_path / "a.mwbackup", **options)
    with pytest.raises(BackupNotWritten, match="does not exist"):
        await backed_up(engine.url, clock, tmp_path / "no such folder" / "a.mwbackup")
    assert [*tmp_path.glob("*.mwbackup"), *tmp_path.glob(".*")] == []


async def test_backup_leaves_space_for_sending(
    engine: DatabaseAddress, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(engine.url, clock)
    asked: list[Path] = []
    answers = [1_000]

    def usage(folder: Path) -> Any:
        asked.append(folder)
        return SimpleNamespace(free=RESERVED_BYTES - (len(asked) > answers[-1]))

    monkeypatch.setattr(shutil, "disk_usage", usage)
    await backed_up(engine.url, clock, tmp_path / "first.mwbackup")
    for enough in (0, len(asked) - 1):  # While the backup is written, and while it is audited.
        answers.append(enough)
        asked.clear()
        with pytest.raises(BackupNotWritten, match="disk space are free"):
            await backed_up(engine.url, clock, tmp_path / "a.mwbackup")
        assert [each.name for each in (*tmp_path.glob("*.mwbackup"), *tmp_path.glob(".*"))] == ["first.mwbackup"]


async def test_backup_in_a_read_only_folder_is_restored(
    engine: DatabaseAddress, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(engine.url, clock)
    clock.advance(120_000)
    await backed_up(engine.url, clock, tmp_path / "a.mwbackup")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert (await restored(engine.url, clock, tmp_path / "a.mwbackup")).kept is not None
    kept = [each.name for each in (tmp_path / "work").iterdir()]
    assert len(kept) == (engine.name == "postgresql")
    assert [each.name for each in tmp_path.glob("*.mwbackup")] == ["a.mwbackup"]


async def test_backup_works_without_hard_links(
    clock: ManualClock, tmp_path: Path, empty_sqlite: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    (tmp_path / "mailwright.db").write_bytes(empty_sqlite)
    monkeypatch.setattr(os, "link", refuse)
    await backed_up(f"sqlite:///{tmp_path}/mailwright.db", clock, tmp_path / "a.mwbackup")
    assert (await audit_of(tmp_path / "a.mwbackup", None)).ok


async def test_full_disk_during_the_audit_leaves_no_file(
    engine: DatabaseAddress, clock: ManualClock, tmp_path: Path
) -> None:
    await backed_up(engine.url, clock, tmp_path / "first.mwbackup")  # Gives the database an ID.
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))  # Enough for the backup, not for its copy.
    try:
        with pytest.raises(BackupNotWritten, match="free space"):
            await backed_up(engine.url, clock, tmp_path / "a.mwbackup")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [each.name for each in (*tmp_path.glob("*.mwbackup"), *tmp_path.glob(".*"))] == ["first.mwbackup"]


# Few points, because each starts a process. `make faults` runs all.
async def test_killed_restore_leaves_one_whole_database(
    engine: DatabaseAddress, clock: ManualClock, tmp_path: Path
) -> None:
    file = tmp_path / "a.mwbackup"
    await filled(engine.url, clock)
    await backed_up(engine.url, clock, file)
    old = await content(engine.url)
    async with a_bench(engine.url, clock) as bench:
        await bench.accept(a_message())
    new = await content(engine.url)
    points = RESTORE_POINTS[engine.name]
    for point in points[1:5:3] + points[6:7]:
        assert await killed("restore", engine.url, file, point), point
        assert await content(engine.url) == (old if point in RESTORED else new)
    async with a_bench(engine.url, clock) as bench:
        await bench.accept(a_message())  # New rows still get new numbers.
    result = await restore(_settings(engine.url, tmp_path), clock, file, key=None, verify=True)
    assert result.audit.ok
    assert await content(engine.url) == old


async def test_killed_backup_leaves_no_half_file(engine: DatabaseAddress, clock: ManualClock, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    file = folder / "a.mwbackup"
    await filled(engine.url, clock)
    await backed_up(engine.url, clock, tmp_path / "first.mwbackup")  # Gives the database an ID.
    before = await content(engine.url)
    for point in ("table 20", "sqlite rows 2"):
        assert await killed("backup", engine.url, file, point), point
        assert not file.exists()
        assert await content(engine.url) == before
    other = folder / "b.mwbackup"
    assert (await backed_up(engine.url, clock, other)).audit is not None
    assert [each.name for each in folder.iterdir() if each.name.startswith(".")] == []
