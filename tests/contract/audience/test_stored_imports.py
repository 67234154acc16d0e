"""Uploaded files and import reports in the database, where several machines find them, on both engines."""

import asyncio
import os
import shutil
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import delete

from mailwright.audience import erasure
from mailwright.audience.importing import imports as imports_module
from mailwright.audience.importing import report
from mailwright.audience.importing.imports import Import, ImportOptions, Imports
from mailwright.audience.importing.report import report_name
from mailwright.audience.importing.upload_files import (
    PREFIX,
    STAGED_SECONDS,
    FolderFiles,
    StoredUploads,
    UploadFiles,
    temporary_file,
)
from mailwright.audience.importing.uploads import ImportUploads
from mailwright.domain.clock import ManualClock
from mailwright.domain.errors import NotDurable
from mailwright.outbox import audit_log
from mailwright.storage.database import Database, Transaction
from mailwright.storage.stored_files import list_files, read_parts
from mailwright.storage.tables import stored_files
from tests.builders import DEFAULT_TENANT

PEOPLE = b"email\nada@example.com\nnobody\ngrace@example.com\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "imports").mkdir()
    return tmp_path / "imports"


@pytest.fixture
def uploads(database: Database, clock: ManualClock, folder: Path) -> ImportUploads:
    files = StoredUploads(database, clock, folder)
    return ImportUploads(Imports(database, clock), clock, folder, largest=1_000_000, files=files)


async def parts_of(content: bytes) -> AsyncIterator[bytes]:
    yield content


async def imported(uploads: ImportUploads, content: bytes = PEOPLE) -> Import:
    begun = await uploads.receive(DEFAULT_TENANT, parts_of(content), ImportOptions(), file_name="people.csv")
    await uploads.finish()
    return begun


async def report_of(uploads: ImportUploads, begun: Import) -> str:
    content = await uploads.report(DEFAULT_TENANT, begun.import_id)
    return b"".join([part async for part in content]).decode()


@pytest.mark.promise("person-erased")
async def test_simultaneous_erasures_both_redact_a_report(
    database: Database, clock: ManualClock, uploads: ImportUploads, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = await imported(uploads)
    both_have_read = asyncio.Barrier(2)

    async def read_together(database: Database, name: str) -> AsyncIterator[tuple[int, bytes]]:
        async for part in read_parts(database, name):
            await both_have_read.wait()
            yield part

    monkeypatch.setattr(report, "read_parts", read_together)
    emails = ("ada@example.com", "grace@example.com")
    await asyncio.gather(*(erasure.erase(database, clock, DEFAULT_TENANT, email, actor="test") for email in emails))
    monkeypatch.undo()
    content = await report_of(uploads, begun)
    assert [email in content for email in emails] == [False, False]


@pytest.fixture(params=["stored", "folder"])
def files(request: pytest.FixtureRequest, database: Database, clock: ManualClock, folder: Path) -> UploadFiles:
    return FolderFiles(folder) if request.param == "folder" else StoredUploads(database, clock, folder)


@pytest.mark.parametrize("is_kept_first", [False, True])
async def test_upload_that_cannot_be_kept_starts_no_import(
    database: Database,
    clock: ManualClock,
    folder: Path,
    files: UploadFiles,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_kept_first: bool,
) -> None:
    imports = Imports(database, clock)
    uploads = ImportUploads(imports, clock, folder, largest=1_000_000, files=files)
    token = (await uploads.stage(DEFAULT_TENANT, parts_of(PEOPLE))).token
    put = files.put

    async def fail(name: str, path: Path, tx: Transaction | None = None) -> None:
        if is_kept_first:
            await put(name, path, tx)
        raise NotDurable("The disk is full.")

    async def begin() -> Import:
        return await uploads.receive_staged(DEFAULT_TENANT, token, ImportOptions(), file_name="people.csv", actor="ada")

    monkeypatch.setattr(files, "put", fail)
    with pytest.raises(NotDurable):
        await begin()
    monkeypatch.undo()
    assert await imports.latest(DEFAULT_TENANT, limit=10) == []
    assert await audit_log.list_entries(database, limit=10, tenant_id=DEFAULT_TENANT) == []
    begun = await begin()
    await uploads.finish()
    assert (await uploads.find(DEFAULT_TENANT, begun.import_id)).added == 2
    assert not [path for path in folder.iterdir() if not path.name.endswith(".report.csv")]
    assert await list_files(database, f"{PREFIX}{DEFAULT_TENANT}-") == []


async def test_abandoned_copies_of_contacts_are_deleted(uploads: ImportUploads, folder: Path) -> None:
    begun = await imported(uploads)
    earlier_version, recent = folder / "earlier.part", folder / "recent.part"
    for file in (earlier_version, recent):
        file.write_bytes(PEOPLE)
    expired = time.time() - STAGED_SECONDS - 60
    os.utime(earlier_version, (expired, expired))
    async with temporary_file(folder) as in_use:
        in_use.write_bytes(PEOPLE)
        abandoned = in_use.parent.with_name(f"{in_use.parent.name}-of-a-killed-process")
        shutil.copytree(in_use.parent, abandoned)
        await uploads.delete_abandoned_files()
        assert {*folder.iterdir()} == {in_use.parent, recent}
    assert {*folder.iterdir()} == {recent}
    assert "ada@example.com" in await report_of(uploads, begun)


@pytest.mark.parametrize("written_by", ["this version", "an earlier version", "both"])
async def test_reports_are_read_without_a_copy(
    database: Database,
    clock: ManualClock,
    folder: Path,
    uploads: ImportUploads,
    monkeypatch: pytest.MonkeyPatch,
    written_by: str,
) -> None:
    monkeypatch.setattr(imports_module, "BATCH_SIZE", 2)
    people = b'email\nada@example.com\nnobody\n"no\none ""at all"""\ngrace@example.com\nnothing\n'
    begun = await imported(uploads, people)
    whole = await report_of(uploads, begun)
    name = PREFIX + report_name(begun.import_id)
    parts = [part async for part in read_parts(database, name)]
    moved = {"this version": 0, "an earlier version": len(parts), "both": 1}[written_by]
    async with database.write() as tx:
        for position, content in parts[:moved]:
            await tx.execute(
                delete(stored_files).where(stored_files.c.name == name, stored_files.c.position == position)
            )
            with (folder / report_name(begun.import_id)).open("ab") as file:
                file.write(content)
    if moved:  # Lines of a batch that was not committed.
        with (folder / report_name(begun.import_id)).open("ab") as file:
            file.write(b"9,x,refused,y\n")

    monkeypatch.setattr(StoredUploads, "opened", pytest.fail)
    monkeypatch.setattr(report, "_CHUNK_BYTES", 7)
    assert await report_of(uploads, begun) == whole
    refused = await uploads.refused_rows(DEFAULT_TENANT, begun.import_id, limit=10)
    assert [(line, email) for line, email, _ in refused] == [(3, "nobody"), (4, 'no\none "at all"'), (7, "nothing")]
    assert await uploads.refused_rows(DEFAULT_TENANT, begun.import_id, limit=1) == refused[:1]
