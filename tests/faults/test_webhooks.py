"""Short webhook run; `make faults` sends twenty thousand."""

from pathlib import Path

import pytest

from tests.conftest import DatabaseAddress
from tests.engines import PostgresServer
from tests.faults import webhooks
from tests.faults.stage import a_stage


async def test_webhooks_in_any_order_count_once(
    engine: DatabaseAddress, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    server: PostgresServer | None = None
    if engine.name == "sqlite":
        file = tmp_path / "in-order.db"
        file.write_bytes(request.getfixturevalue("empty_sqlite"))
        other = f"sqlite:///{file}"
    else:
        server = request.getfixturevalue("postgres_server")
        assert server is not None
        other = await server.create()
    async with a_stage(other) as in_order, a_stage(engine.url) as shuffled:
        figures = await webhooks.run(in_order, shuffled, webhooks=120)
    if server is not None:
        await server.drop(other)
    assert figures.misses == []
