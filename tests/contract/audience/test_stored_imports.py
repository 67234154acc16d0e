"""Uploaded files and import reports in the database, where several machines find them, on both engines."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mailwright.audience import erasure
from mailwright.audience.importing import report
from mailwright.audience.importing.imports import Import, ImportOptions, Imports
from mailwright.audience.importing.upload_files import StoredUploads
from mailwright.audience.importing.uploads import ImportUploads
from mailwright.domain.clock import ManualClock
from mailwright.storage.database import Database
from mailwright.storage.stored_files import read_parts
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
