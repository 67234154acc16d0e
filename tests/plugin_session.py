"""Use the example plugin in a process of its own, because plugins are loaded when a process starts.

`python -m tests.plugin_session DATABASE_URL FOLDER` prints what happened as JSON.
"""

import asyncio
import json
import sys
from pathlib import Path

from mailwright.app.plugin_sources import make_source
from mailwright.app.wiring import make_workers, open_engine
from mailwright.checks.installation import check
from mailwright.domain.clock import SystemClock
from mailwright.ops.provider_kinds import KINDS
from mailwright.ops.source_kinds import SOURCE_KINDS
from mailwright.web.app import create_app
from tests.api import client_of
from tests.builders import record_of, settings_for
from tests.standins.vendors import SHARED_SECRET, basic_request


async def use_plugin(url: str, folder: Path) -> dict[str, object]:
    drop = folder / "drop"
    drop.mkdir()
    settings = settings_for(
        url,
        provider="jsonlines",
        jsonlines_file=folder / "sent.jsonl",
        jsonlines_webhook_secret=SHARED_SECRET,
        sources=["dropfolder"],
        dropfolder_path=drop,
    )
    email = {"to": "ada@example.com", "subject": "Hello", "text": "From a file"}
    (drop / "first.json").write_text(json.dumps(email))
    (drop / "wrong.json").write_text(json.dumps({"subject": "To nobody"}))
    async with open_engine(settings, SystemClock()) as engine:
        source = await make_source(engine, SOURCE_KINDS["dropfolder"])
        polled = [await source.poll()]
        # As after a crash between the acceptance and the rename.
        (drop / "first.sent").rename(drop / "first.json")
        polled.append(await source.poll())
        await (await make_workers(engine)).run(drain=True)
        lines = [json.loads(line) for line in (folder / "sent.jsonl").read_text().splitlines()]
        event = {"event": "bounced", "message": lines[0]["id"], "recipient": "ada@example.com"}
        headers, body = basic_request(event)
        async with client_of(create_app(engine)) as client:
            answers = [await client.post("/jsonlines-events", content=body, headers=each) for each in ({}, headers)]
        record = await record_of(engine.database, lines[0]["id"])
    return {
        "kinds": [name for name in KINDS if name == "jsonlines"],
        "polled": polled,
        "files": sorted(file.name for file in drop.iterdir()),
        "sent": [line["to"] for line in lines],
        "answers": [answer.status_code for answer in answers],
        "events": [event.type for event in record.events],
        "findings": [each.summary async for each in check(settings) if each.name in ("provider", "plugin")],
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(use_plugin(sys.argv[1], Path(sys.argv[2])))))
