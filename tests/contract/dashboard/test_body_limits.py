"""Every form and body has a limit that is enforced while it is read, on both engines."""

import random
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mailwright.domain.clock import ManualClock
from mailwright.storage.database import Database
from mailwright.web.body_limits import FORM_BYTES, MAX_DISCARDED_BYTES, SIGN_IN_BYTES
from tests.api import Api, an_api
from tests.engines import on_sqlite
from tests.faults.forms import post_random_forms

HOME = "http://mail.example"
MULTIPART = {"Origin": HOME, "Content-Type": "multipart/form-data; boundary=xx"}
FORM = {"Origin": HOME, "Content-Type": "application/x-www-form-urlencoded"}
# Routes that anyone can reach.
OPEN_ROUTES = ("/sign-in", "/sign-in/code", "/sign-in/link", "/set-up", "/unsubscribe", "/tenant", "/no-such-page")


@pytest.fixture
async def api(database: Database, clock: ManualClock) -> AsyncIterator[Api]:
    async with an_api(database, clock) as api:
        yield api


class Endless:
    """A body without a Content-Length, which counts how much of it the server read."""

    def __init__(self, start: bytes = b"") -> None:
        self.start = start
        self.read = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self.start
        for _ in range(2_000):
            self.read += 64 * 1024
            yield b"x" * (64 * 1024)


PART = b'--xx\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'


@on_sqlite
@pytest.mark.promise("body-limits")
@pytest.mark.parametrize("path", OPEN_ROUTES)
@pytest.mark.parametrize(("headers", "start"), [(MULTIPART, PART), (FORM, b"login=")])
async def test_endless_form_is_refused_while_it_is_read(
    api: Api, path: str, headers: dict[str, str], start: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    body = Endless(start)
    answer = await api.anonymous.post(path, headers=headers, content=body)
    assert answer.status_code < 500, answer.text
    assert body.read <= FORM_BYTES + MAX_DISCARDED_BYTES + 128 * 1024
    assert not list(folder.iterdir())


@pytest.mark.promise("body-limits")
@pytest.mark.parametrize("path", ["/sign-in", "/set-up"])
async def test_large_sign_in_form_returns_413(api: Api, path: str) -> None:
    announced = await api.anonymous.post(path, headers=FORM, content=b"login=" + b"x" * SIGN_IN_BYTES)
    streamed = await api.anonymous.post(path, headers=MULTIPART, content=Endless(PART))
    for answer in (announced, streamed):
        assert answer.status_code == 413
        assert "The body is larger than 16 KB" in answer.text
        assert answer.headers["Connection"] == "close"


@pytest.mark.promise("body-limits")
async def test_every_api_route_has_a_limit(api: Api) -> None:
    key = {"Content-Type": "application/json"}
    for path in ("/v1/email/send", "/v1/campaigns", "/v1/templates/x", "/v1/contacts/imports", "/ses-events"):
        answer = await api.client.post(path, headers={**key, "Content-Length": str(10**12)}, content=b"{}")
        assert answer.status_code in (404, 405, 413), path


@pytest.mark.promise("body-limits")
async def test_random_forms_never_cause_an_internal_error(api: Api) -> None:
    api.anonymous.headers["Origin"] = HOME
    statuses, failed = await post_random_forms(api.anonymous, random.Random(5), 150)
    assert statuses.total() == 150
    assert failed == []
