"""A request that is repeated after the connection to the database broke around a commit creates one message."""

from collections.abc import AsyncIterator

import pytest

from mailwright.domain.clock import ManualClock
from mailwright.outbox.audit import audit
from mailwright.storage.database import Database
from tests.api import a_request, an_api
from tests.builders import deliveries_of
from tests.engines import PostgresServer
from tests.standins.postgresql_front import Break, postgresql_front


@pytest.fixture
async def url(postgres_server: PostgresServer) -> AsyncIterator[str]:
    url = await postgres_server.create()
    yield url
    await postgres_server.drop(url)


@pytest.mark.parametrize(
    ("breaks", "status"), [(Break.BEFORE_COMMIT, 202), (Break.BEFORE_RESPONSE, 200)], ids=["before", "after"]
)
async def test_repeated_request_after_a_lost_commit_creates_one_message(
    url: str, clock: ManualClock, breaks: Break, status: int
) -> None:
    async with postgresql_front(url) as front:
        name = url.partition("?")[0].rpartition("/")[2]
        database = Database(f"postgresql://postgres@localhost:{front.port}/{name}")
        async with an_api(database, clock) as api:
            key = {"Idempotency-Key": "order-1"}
            front.breaks = breaks
            lost = await api.client.post("/v1/email/send", json=a_request(), headers=key)
            assert (lost.status_code, lost.json()["code"], front.breaks) == (503, "NOT_DURABLE", None)
            assert "with the same idempotency key" in lost.json()["detail"]
            assert "Retry-After" in lost.headers
            again = [await api.client.post("/v1/email/send", json=a_request(), headers=key) for _ in range(2)]
            assert [each.status_code for each in again] == [status, 200]
            assert len({each.json()["outboxId"] for each in again}) == 1
            assert len(await deliveries_of(database)) == 1
            assert (await audit(database)).ok
        await database.close()
