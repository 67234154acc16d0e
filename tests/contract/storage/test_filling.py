"""The filled database of the page benchmark fits the schema on both engines."""

from pathlib import Path

from bench import filling
from sqlalchemy import func, select

from mailwright.app.wiring import open_engine
from mailwright.storage.tables import campaigns, deliveries, events, messages
from tests.conftest import DatabaseAddress


async def test_small_filled_database_fits_the_schema(engine: DatabaseAddress, tmp_path: Path) -> None:
    size = filling.Size(share=1)
    await filling.fill(engine.url, tmp_path, size)
    expected = sum(block.count for block in filling.blocks(size))
    generated = [
        (messages, messages.c.id > filling.ABOVE),
        (deliveries, deliveries.c.message_key > filling.ABOVE),
        (campaigns, campaigns.c.id > filling.ABOVE),
        (events, events.c.message_key > filling.ABOVE),
    ]
    async with open_engine(filling.settings_of(engine.url, tmp_path)) as opened, opened.database.read() as tx:
        found = [
            (await tx.execute(select(func.count()).select_from(table).where(mine)))[0][0] for table, mine in generated
        ]
    assert found[:2] == [expected, expected]
    assert found[2] == sum(1 for block in filling.blocks(size) if block.campaign)
    assert found[3] > expected
