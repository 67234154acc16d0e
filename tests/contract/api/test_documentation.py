"""The manual and the API reference over HTTP: own files only, a strict policy, and no file outside their folder."""

import re
import zipfile
from base64 import b64encode
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path

import pytest

from mailwright.domain.clock import ManualClock
from mailwright.storage.database import Database
from mailwright.web import manual
from tests.api import Api, an_api

# The pages read nothing from the database.
pytestmark = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
built = pytest.mark.skipif(not manual.SITE.is_file(), reason="the manual is not built; run `make manual`")


@pytest.fixture
async def api(database: Database, clock: ManualClock) -> AsyncIterator[Api]:
    async with an_api(database, clock) as api:
        yield api


async def test_checkout_without_manual_names_the_command(
    api: Api, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(manual, "SITE", tmp_path / "missing")
    answer = await api.anonymous.get("/manual/")
    assert (answer.status_code, answer.text) == (404, manual.NOT_BUILT)
    assert "make manual" in answer.text


@built
@pytest.mark.promise("manual-served")
async def test_manual_is_served_without_signing_in(api: Api) -> None:
    moved = await api.anonymous.get("/manual")
    assert (moved.status_code, moved.headers["location"]) == (307, "/manual/")
    page = await api.anonymous.get("/manual/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "Mailwright manual" in page.text
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert (await api.anonymous.head("/manual/operating.html")).status_code == 200


@built
@pytest.mark.parametrize("path", ["../app.py", "..%2fapp.py", "%2e%2e/app.py", "/etc/passwd", "none.html", "assets"])
async def test_path_outside_the_manual_is_not_found(api: Api, path: str) -> None:
    answer = await api.anonymous.get(f"/manual/{path}")
    assert answer.status_code == 404
    assert "DOCUMENTATION" not in answer.text


@built
@pytest.mark.parametrize("path", ["operating", "operating/"])
async def test_page_without_its_suffix_is_redirected(api: Api, path: str) -> None:
    moved = await api.anonymous.get(f"/manual/{path}")
    assert (moved.status_code, moved.headers["location"]) == (307, "/manual/operating.html")


@built
@pytest.mark.parametrize("path", ["nope", "nope/", "a/b/nope"])
async def test_missing_page_loads_existing_files_of_the_manual(api: Api, path: str) -> None:
    page = await api.anonymous.get(f"/manual/{path}")
    assert page.status_code == 404
    styles = re.findall(r'(?:<script src|rel="stylesheet" href)="([^"]+)"', page.text)
    assert len(styles) > 2
    for address in styles:
        assert (await api.anonymous.get(address)).status_code == 200
    for script in re.findall(r"<script>(.*?)</script>", page.text, re.DOTALL):
        digest = b64encode(sha256(script.encode()).digest()).decode()
        assert digest in page.headers["content-security-policy"]


@built
async def test_files_of_the_manual_have_types_and_lifetimes(api: Api) -> None:
    with zipfile.ZipFile(manual.SITE) as archive:
        (script,) = (name for name in archive.namelist() if re.fullmatch(r"assets/javascripts/bundle\..*\.js", name))
    answer = await api.anonymous.get(f"/manual/{script}")
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
    assert "immutable" in answer.headers["cache-control"]
    assert answer.headers["content-encoding"] == "gzip"
    index = await api.anonymous.get("/manual/search.json")
    assert (index.headers["content-type"], index.headers["cache-control"]) == ("application/json", "no-cache")


async def test_reference_loads_only_existing_own_files(api: Api) -> None:
    for path in ("/docs", "/docs/email"):
        page = await api.anonymous.get(path)
        assert page.status_code == 200
        assert "unsafe" not in page.headers["content-security-policy"]
        assert not re.search(r"(?:src|href)=\"(?:https?:)?//", page.text)
        for address in re.findall(r"\"(/assets/[^\"]+)\"", page.text):
            assert (await api.anonymous.get(address)).status_code == 200


async def test_reference_links_to_every_operation(api: Api) -> None:
    index = (await api.anonymous.get("/docs")).text
    links = re.findall(r"href=\"(/docs/[^\"#]+)#([^\"]+)\"", index)
    described = (await api.anonymous.get("/openapi.json")).json()["paths"]
    assert len(links) == sum(map(len, described.values()))
    for path in {path for path, _ in links}:
        page = (await api.anonymous.get(path)).text
        assert all(f'id="{anchor}"' in page for of, anchor in links if of == path)


async def test_reference_is_searched_without_scripts(api: Api) -> None:
    page = await api.anonymous.get("/docs", params={"q": "DELETE campaign attachment"})
    assert "1 operation for “DELETE campaign attachment”" in page.text
    assert "/v1/campaigns/{campaignId}/attachments" in page.text
    nothing = await api.anonymous.get("/docs", params={"q": "<script>x"})
    assert "0 operations for “&lt;script&gt;x”" in nothing.text
    assert (await api.anonymous.get("/docs/nothing")).status_code == 404
