"""The dashboard closes the temporary files of uploads, whatever a request ends with."""

from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import Any

import pytest
from starlette import formparsers

from mailwright.access.roles import Role
from mailwright.domain.clock import ManualClock
from mailwright.web.app import create_app
from mailwright.web.session import FORM_FIELD
from tests.api import an_engine
from tests.builders import Bench
from tests.pages import HOME, PASSWORD, Visit, a_visit

UPLOADS = (
    "/imports/file",
    "/imports/~move",
    "/campaigns/~attachments/no-such-campaign",
    "/sequences/~import",
    "/articles/~import",
    "/settings/brand",
    "/images",
    "/sign-in",
)
FILES = [(name, ("a.bin", b"\xff" * 1024)) for name in ("upload", "file", "files", "logo", "unknown")]


@pytest.fixture
async def grace(bench: Bench, clock: ManualClock, tmp_path: Path) -> AsyncIterator[Visit]:
    engine = an_engine(bench.database, clock, base_url=HOME, imports=tmp_path / "imports")
    await engine.users.create("grace", PASSWORD, Role.EDITOR, actor="test")
    async with a_visit(create_app(engine), "grace") as visit:
        yield visit


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    found: list[Any] = []

    def remember(*args: Any, **options: Any) -> Any:
        found.append(SpooledTemporaryFile(*args, **options))  # noqa: SIM115 - the dashboard has to close it
        return found[-1]

    monkeypatch.setattr(formparsers, "SpooledTemporaryFile", remember)
    return found


async def test_refused_uploads_leave_no_open_files(grace: Visit, opened: list[Any]) -> None:
    await grace.open("/imports/~move")
    token = dict(grace.forms()[0].fields)[FORM_FIELD]
    for path in UPLOADS:
        for fields in ({FORM_FIELD: token}, {FORM_FIELD: "of another site"}):
            opened.clear()
            answer = await grace.client.post(path, data=fields, files=FILES)
            assert answer.status_code < 500, path
            assert opened, path
            assert all(file.closed for file in opened), path


async def test_form_without_a_file_is_refused(grace: Visit) -> None:
    """The form was read for its token, so its body cannot be read again as a file."""
    await grace.open("/imports/~move")
    token = dict(grace.forms()[0].fields)[FORM_FIELD]
    for path in UPLOADS:
        for accepts in ("application/json", "text/html"):
            answer = await grace.client.post(path, data={FORM_FIELD: token, "file": "x"}, headers={"Accept": accepts})
            assert answer.status_code < 500, path
    answer = await grace.client.post("/images", data={FORM_FIELD: token}, headers={"Accept": "application/json"})
    assert answer.status_code == 422
    assert "The body is a form." in answer.text
