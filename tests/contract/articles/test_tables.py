"""The tables that programs query about articles have their names and columns."""

import pytest
from sqlalchemy import text, update

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
        [row] = await tx.execute(text("SELECT id, topic, payload, error, created_at FROM dead_letters"))
    assert row.topic == "send"
    assert '"to"' in str(row.payload)
    assert row.error.startswith(f"{REFUSAL.code}: ")
    assert row.created_at == bench.clock.now()


@pytest.mark.parametrize("provider", ["sendgrid", "ses"])
async def test_provider_message_ids_of_the_history_are_unique(bench: Bench, provider: str) -> None:
    await send_article(bench, ScriptedProvider())
    history = await rows_of(bench.database, "delivery_history")
    assert len({row["provider_message_id"] for row in history}) == len(history) == 2
    async with bench.database.write() as tx:
        await tx.execute(update(deliveries).values(provider=provider, provider_message_id="same"))
    ids = [row["provider_message_id"] for row in await rows_of(bench.database, "delivery_history")]
    assert sorted(ids, key=str) == [None, "same"]
