"""Contacts are moved from another product in the dashboard, and every row of the files is counted."""

import asyncio
import fcntl
import io
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from mailwright.access.roles import Role
from mailwright.app.wiring import Engine
from mailwright.audience import lists
from mailwright.audience.erasure import erase
from mailwright.audience.switching.uploads import SwitchUploads
from mailwright.domain.clock import ManualClock
from mailwright.web.app import create_app
from tests.api import an_engine
from tests.builders import DEFAULT_TENANT, Bench
from tests.campaigns import a_list
from tests.pages import HOME, PASSWORD, Visit, a_visit

SUBSCRIBED = b"Email Address,First Name\nada@example.com,Ada\nnot an address,\nleft@example.com,Lea\n"
UNSUBSCRIBED = b"Email Address,UNSUB_TIME\nleft@example.com,2024-01-01 10:00:00\n"
CLEANED = b"Email Address,CLEAN_TIME\ngone@example.com,2024-01-01 10:00:00\n"
NUMBERS = "1 subscribed + 1 unsubscribed + 1 bounced + 1 refused + 1 repeated = 5 rows"

Files = list[tuple[str, tuple[str, bytes]]]


@pytest.fixture
def web_engine(bench: Bench, clock: ManualClock, tmp_path: Path) -> Engine:
    return an_engine(bench.database, clock, base_url=HOME, imports=tmp_path / "imports")


@pytest.fixture
def app(web_engine: Engine) -> FastAPI:
    return create_app(web_engine)


@pytest.fixture
def uploads(app: FastAPI) -> SwitchUploads:
    found: SwitchUploads = app.state.engine.switch_uploads
    return found


@pytest.fixture
async def grace(web_engine: Engine, app: FastAPI) -> AsyncIterator[Visit]:
    await web_engine.users.create("grace", PASSWORD, Role.EDITOR, actor="test")
    async with a_visit(app, "grace") as visit:
        yield visit


def an_archive(**files: bytes) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name, content in files.items():
            archive.writestr(f"{name}.csv" if content else name, content)
    return written.getvalue()


async def upload(visit: Visit, files: Files, status: int = 200, **fields: str) -> None:
    await visit.open("/imports/~move")
    [form] = [form for form in visit.forms() if form.action == "/imports/~move"]
    inputs: dict[str, Any] = dict.fromkeys(("upload", "unsubscribed", "bounced", "complained", "subscribed"))
    sent = form.filled({**inputs, **fields})
    visit.answer = await visit.client.post("/imports/~move", data=sent, files=files, follow_redirects=True)
    assert visit.answer.status_code == status, visit.words()


@pytest.mark.promise("import-never-revives")
async def test_numbers_before_and_after_moving_add_up(
    grace: Visit, uploads: SwitchUploads, web_engine: Engine, tmp_path: Path
) -> None:
    archive = an_archive(subscribed_members=SUBSCRIBED, unsubscribed_members=UNSUBSCRIBED, cleaned_members=CLEANED)
    files: Files = [("upload", ("mailchimp.zip", archive))]
    await upload(grace, files, vendor="mailchimp", list="~new", newList="Shop news", confirmed="yes")
    assert NUMBERS in grace.words()
    assert await lists.list_all(web_engine.database, DEFAULT_TENANT) == []
    await grace.press("Move contacts")
    await uploads.finish()
    await grace.open(grace.path)
    assert NUMBERS in grace.words()
    assert "Completed" in grace.words()
    [made] = await lists.list_all(web_engine.database, DEFAULT_TENANT)
    assert (made.list_key, made.name) == ("shop-news", "Shop news")
    assert not list((tmp_path / "imports").glob("*.move/files"))
    report = await grace.client.get(f"{grace.path}/report.csv")
    assert "left@example.com,unsubscribed" in report.text
    imports_folder = web_engine.settings.imports
    owner = (web_engine.database, web_engine.clock, DEFAULT_TENANT)
    await erase(*owner, "left@example.com", actor="test", imports_folder=imports_folder)
    assert "left@example.com" not in (await grace.client.get(f"{grace.path}/report.csv")).text


async def test_interrupted_move_is_shown_and_continued(
    grace: Visit, uploads: SwitchUploads, web_engine: Engine, tmp_path: Path
) -> None:
    await a_list(web_engine.database)
    files: Files = [("upload", ("subscribed_members.csv", SUBSCRIBED)), ("bounced", ("old.csv", CLEANED))]
    await upload(grace, files, vendor="mailchimp", list="news", confirmed="yes")
    [folder] = (tmp_path / "imports").glob("*.move")
    with (folder / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        await grace.open(grace.path)
        assert "Running" in grace.words()
    await grace.open(grace.path)
    assert "Interrupted" in grace.words()
    await grace.press("Continue")
    await uploads.finish()
    await grace.open(grace.path)
    assert "2 subscribed + 0 unsubscribed + 1 bounced + 1 refused + 0 repeated = 4 rows" in grace.words()


async def test_double_click_moves_once(grace: Visit, uploads: SwitchUploads, web_engine: Engine) -> None:
    files: Files = [("upload", ("subscribed_members.csv", SUBSCRIBED))]
    await upload(grace, files, vendor="mailchimp", list="~new", newList="Shop news", confirmed="yes")
    [form] = [form for form in grace.forms() if form.action == grace.path]
    answers = await asyncio.gather(*[grace.client.post(grace.path, data=form.filled({})) for _ in range(2)])
    assert [answer.headers["location"] for answer in answers] == [grace.path] * 2
    await uploads.finish()
    assert len(await lists.list_all(web_engine.database, DEFAULT_TENANT)) == 1
    assert len(await web_engine.import_uploads.latest(DEFAULT_TENANT, limit=10)) == 1


@pytest.mark.parametrize(
    ("files", "fields", "message"),
    [
        ([], {"vendor": "mailchimp", "list": "news"}, "Choose the files of the export."),
        ([("upload", ("a.csv", SUBSCRIBED))], {"vendor": "mailchimp", "list": "news"}, "it is not clear whether"),
        ([("upload", ("subscribed.csv", SUBSCRIBED))], {"vendor": "mailchimp"}, "Choose the list"),
        ([("upload", ("a.csv", b"email,status\n"))], {"vendor": "listmonk", "list": "news"}, "Export them separately"),
        (
            [("upload", ("a.zip", an_archive(notes=b"")))],
            {"vendor": "mailchimp", "list": "news"},
            "contains 0 CSV files",
        ),
        ([("upload", ("a.csv", SUBSCRIBED))], {"vendor": "hubspot", "list": "news"}, "Choose the product"),
        (
            [("upload", ("subscribed.csv", SUBSCRIBED))],
            {"vendor": "mailchimp", "list": "~new", "newList": "News"},
            "the contacts must have agreed",
        ),
    ],
)
async def test_bad_upload_is_explained_and_stores_nothing(
    grace: Visit, web_engine: Engine, files: Files, fields: dict[str, str], message: str
) -> None:
    await a_list(web_engine.database)
    await upload(grace, files, 422, **fields)
    assert message in grace.words()
    assert len(await lists.list_all(web_engine.database, DEFAULT_TENANT)) == 1


async def test_other_tenants_do_not_find_an_upload(
    grace: Visit, uploads: SwitchUploads, web_engine: Engine, tmp_path: Path
) -> None:
    await a_list(web_engine.database)
    await upload(grace, [("upload", ("subscribed.csv", SUBSCRIBED))], vendor="mailchimp", list="news")
    token = grace.path.rpartition("/")[2]
    assert (await uploads.find(DEFAULT_TENANT, token)).names == ("subscribed.csv",)
    [folder] = (tmp_path / "imports").glob("*.move")
    folder.rename(folder.with_name(folder.name.replace(f"{DEFAULT_TENANT}-", f"{DEFAULT_TENANT + 1}-", 1)))
    await grace.open(grace.path, 422)
    assert "The uploaded files have expired." in grace.words()
