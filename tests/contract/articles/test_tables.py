"""The tables that programs query about articles have their names and columns."""

from datetime import UTC, datetime

import pytest
from sqlalchemy import text, update

from mailwright.domain.clock import SECOND, Instant, to_instant
from mailwright.storage.tables import deliveries
from tests.articles import begin, rows_of, two_recipients, write_slices
from tests.builders import REFUSAL, Bench
from tests.standins.provider import ScriptedProvider


async def send_article(bench: Bench, provider: ScriptedProvider) -> None:
    await write_slices(bench)
    await two_recipients(bench)
    await begin(bench)
    await bench.drain(provider)


async def test_dead_letters_are_queried_by_their_columns(bench: Bench) -> None:
    await send_article(bench, ScriptedProvider(REFUSAL))
    async with bench.database.read() as tx:
        [row] = await tx.execute(
            text("SELECT id, topic, payload ->> 'to' AS address, error, created_at FROM dead_letters")
        )
    assert row.topic == "send"
    assert "@" in row.address
    assert row.error.startswith(f"{REFUSAL.code}: ")
    assert instant_of(row.created_at) == bench.clock.now()


async def test_delivery_history_can_be_queried_by_day(bench: Bench) -> None:
    await send_article(bench, ScriptedProvider())
    day = {"sqlite": "date(sent_at)", "postgresql": "CAST(date_trunc('day', sent_at AT TIME ZONE 'UTC') AS date)"}
    async with bench.database.read() as tx:
        [row] = await tx.execute(
            text(f"SELECT {day[bench.database.dialect]} AS day, count(*) AS sent FROM delivery_history GROUP BY 1")
        )
    assert (str(row.day), row.sent) == (str(datetime.fromtimestamp(bench.clock.now() / SECOND, UTC).date()), 2)


def instant_of(time: str | datetime) -> Instant:
    return to_instant(datetime.fromisoformat(time) if isinstance(time, str) else time)


@pytest.mark.parametrize("provider", ["sendgrid", "ses"])
async def test_provider_message_ids_of_the_history_are_unique(bench: Bench, provider: str) -> None:
    await send_article(bench, ScriptedProvider())
    history = await rows_of(bench.database, "delivery_history")
    assert len({row["provider_message_id"] for row in history}) == len(history) == 2
    async with bench.database.write() as tx:
        await tx.execute(update(deliveries).values(provider=provider, provider_message_id="same"))
    ids = [row["provider_message_id"] for row in await rows_of(bench.database, "delivery_history")]
    assert sorted(ids, key=str) == [None, "same"]
