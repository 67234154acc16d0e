"""How fast the API accepts messages durably. wrk sends the requests; the audit counts the accepted messages."""

import json
import math
import secrets
import time
from pathlib import Path

from bench import mailwright
from bench.children import NotMeasured, call
from bench.debian import tool
from bench.stage import Stage

SCRIPT = Path(__file__).parent / "accept.lua"
MESSAGE = {
    "to": "reader@readers.example",
    "subject": "Your receipt from Harbour Lane",
    "html": "<h1>Thank you</h1>\n" + "<p>One crate of oranges, packed by hand, is on its way to you.</p>\n" * 15,
}


def accepted_per_second(stage: Stage, *, batch: int, seconds: int, database_url: str, processes: int = 1) -> float:
    """Messages per second through POST /v1/email/send (`batch` 1) or /v1/email/batch."""
    wrk = tool("wrk", "wrk")
    body = stage.scratch / f"accept-{batch}.json"
    body.write_text(json.dumps(MESSAGE if batch == 1 else {"messages": [MESSAGE] * batch}))
    connections = 64 if batch == 1 else 4
    with mailwright.serving(stage, database_url, processes=processes) as service:
        route = f"{service.url}/v1/email/{'send' if batch == 1 else 'batch'}"

        def load(duration: int) -> dict[str, float]:
            words: list[str | Path] = [
                "-t1",
                f"-c{connections}",
                f"-d{duration}s",
                "--timeout",
                "10s",
                "-s",
                SCRIPT,
                route,
            ]
            printed = call([wrk, *words, "--", body, service.key, secrets.token_hex(6)])
            found: dict[str, float] = json.loads(printed.strip().splitlines()[-1])
            if found["errors"] or not found["requests"]:
                raise NotMeasured(
                    f"the API answered {found['requests']} requests, {found['errors']} with errors: {printed}"
                )
            time.sleep(1)  # Requests that were in flight when wrk stopped are still being accepted.
            return found

        for _ in range(processes):
            load(1)  # Warm up: open connections and prepare statements.
        before = mailwright.audit(database_url)["accepted"]
        measured = load(seconds)
        durable = (mailwright.audit(database_url)["accepted"] - before) / batch
    # wrk does not wait for the last answer of each connection.
    if not measured["requests"] <= math.ceil(durable) <= measured["requests"] + connections:
        raise NotMeasured(f"{measured['requests']} requests were answered with 2xx and {durable} are in the database")
    return measured["requests"] * batch / measured["seconds"]
