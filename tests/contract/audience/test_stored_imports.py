"""Uploaded files and import reports in the database, where several machines find them, on both engines."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mailwright.audience import erasure
from mailwright.audience.importing import report
from mailwright.audience.importing.imports import Import, ImportOptions, Imports
from mailwright.audience.importing.upload_files import PREFIX, FolderFiles, StoredUploads, UploadFiles
from mailwright.audience.importing.uploads import ImportUploads
from mailwright.domain.clock import ManualClock
from mailwright.domain.errors import NotDurable
from mailwright.outbox import audit_log
from mailwright.storage.database import Database, Transaction
from mailwright.storage.stored_files import list_files, read_parts
from tests.builders import DEFAULT_TENANT

PEOPLE = b"email\nada@example.com\nnobody\ngrace@example.com\n"


@pytest.fixture
def uploads(database: Database, clock: ManualClock, tmp_path: Path) -> ImportUploads:
    files = StoredUploads(database, clock, tmp_path)
    return ImportUploads(Imports(database, clock), clock, tmp_path, largest=1_000_000, files=files)


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
    assert "example.com" not in await report_of(uploads, begun)


@pytest.fixture(params=["stored", "folder"])
def files(request: pytest.FixtureRequest, database: Database, clock: ManualClock, tmp_path: Path) -> UploadFiles:
    return FolderFiles(tmp_path) if request.param == "folder" else StoredUploads(database, clock, tmp_path)


@pytest.mark.parametrize("is_kept_first", [False, True])
async def test_upload_that_cannot_be_kept_starts_no_import(
    database: Database,
    clock: ManualClock,
    tmp_path: Path,
    files: UploadFiles,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_kept_first: bool,
) -> None:
    imports = Imports(database, clock)
    uploads = ImportUploads(imports, clock, tmp_path, largest=1_000_000, files=files)
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
    assert not [path for path in tmp_path.iterdir() if not path.name.endswith(".report.csv")]
    assert await list_files(database, f"{PREFIX}{DEFAULT_TENANT}-") == []
