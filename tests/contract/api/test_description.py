"""The API accepts and returns what its OpenAPI description says."""

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import schemathesis
import uvicorn
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import CHECKS
from schemathesis.generation import GenerationMode

from mailwright.domain.clock import SystemClock
from mailwright.storage.database import Database
from mailwright.web.app import create_app
from tests.api import an_engine
from tests.examples import examples

# Rules that a schema cannot state: html or a template, a subject unless there is a template, deliverable addresses,
# reserved header names. A request that fits the schema can therefore get 422, but nothing worse.
CANNOT_STATE = ["positive_data_acceptance"]
# A batch accepts invalid items and returns an error for each.
JUDGES_ITEMS_ALONE = {"/v1/email/batch": ["negative_data_rejection"]}


# An email is sent as bytes, like a file.
schemathesis.serializer.alias("message/rfc822", "application/octet-stream")


@dataclass(frozen=True)
class Served:
    url: str
    key: str


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, empty_sqlite: bytes) -> Iterator[Served]:
    """Serve the application in a thread with its own event loop, because the checks are synchronous."""
    file: Path = tmp_path_factory.mktemp("described") / "mailwright.db"
    file.write_bytes(empty_sqlite)
    ready: dict[str, Any] = {}
    is_ready = threading.Event()

    async def serve() -> None:
        database, clock = Database(f"sqlite:///{file}"), SystemClock()
        engine = an_engine(database, clock)
        server = uvicorn.Server(uvicorn.Config(create_app(engine), port=0, log_config=None, lifespan="off"))
        ready["server"], ready["key"] = server, await engine.keys.create(1)
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        ready["port"] = server.servers[0].sockets[0].getsockname()[1]
        is_ready.set()
        await serving
        await database.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert is_ready.wait(60)
    yield Served(f"http://127.0.0.1:{ready['port']}", ready["key"])
    ready["server"].should_exit = True
    thread.join()


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
@pytest.mark.timeout(400)  # hundreds of generated requests per mode
@pytest.mark.many
def test_api_matches_its_description(served: Served, mode: GenerationMode) -> None:
    schema = schemathesis.openapi.from_url(f"{served.url}/openapi.json")
    headers = {"Authorization": f"Bearer {served.key}"}
    for found in schema.get_all_operations():
        operation = found.ok()
        if mode is GenerationMode.NEGATIVE and not operation.definition.raw.keys() & {"parameters", "requestBody"}:
            continue  # A route without input cannot get invalid input.
        excluded = CHECKS.get_by_names([*CANNOT_STATE, *JUDGES_ITEMS_ALONE.get(operation.path, [])])
        check(operation.as_strategy(mode), base_url=served.url, headers=headers, excluded_checks=excluded)


def check(cases: Any, **asking: Any) -> None:
    @settings(
        max_examples=examples(2),
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases)
    def keeps_its_word(case: Any) -> None:
        case.call_and_validate(**asking)

    keeps_its_word()
