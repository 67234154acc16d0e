"""The filled database of the page benchmark fits the schema on both engines."""

from collections import Counter
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest
from bench import filling, pages
from sqlalchemy import func, select

from mailwright.app.wiring import Engine, open_engine
from mailwright.ops.settings import load
from mailwright.outbox import tallies
from mailwright.schemas.paging import encode_cursor
from mailwright.storage.database import Transaction
from mailwright.storage.tables import campaigns, deliveries, events, messages
from mailwright.web.app import create_app
from tests.api import client_of
from tests.conftest import DatabaseAddress
from tests.pages import HOME, a_visit

# Events that a page adds to tallies that lag, in these tests.
UNTALLIED: Final = 200
# The most that a page reads. The filled database has several times as many messages.
MOST_ROWS: Final = 400
MOST_STATEMENTS: Final = 200


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


class Reads:
    """Counts the statements and the rows that they return."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counts: Counter[str] = Counter()
        for name in ("execute", "run"):
            monkeypatch.setattr(Transaction, name, self._counting(getattr(Transaction, name)))

    def _counting(self, original: Any) -> Any:
        async def counted(transaction: Transaction, statement: Any, /, *values: Any, **named: Any) -> Any:
            rows = await original(transaction, statement, *values, **named)
            self.counts.update(statements=1, rows=len(rows))
            return rows

        return counted


async def read_counts(engine: Engine, reads: Reads) -> dict[str, tuple[int, int]]:
    """Return how many statements and rows each page and route of the benchmark takes."""
    key = await engine.keys.create(filling.SHOP)
    app = create_app(engine)
    found = {}
    async with a_visit(app, "admin", pages.PASSWORD) as visit, client_of(app, key) as client:
        webhooks = (await client.get("/v1/webhooks")).json()["webhooks"]
        imports = (await client.get("/v1/contacts/imports")).json()["imports"]
        names = {
            "webhook": webhooks[0]["webhookId"],
            "import": imports[0]["importId"],
            "middle": quote(encode_cursor("message", filling.ABOVE + 100)),
        }
        for paths, asking in ((pages.PAGES, visit.client), (pages.ROUTES, client)):
            for path in paths:
                reads.counts.clear()
                answer = await asking.get(path.format(**names))
                assert answer.status_code == 200, f"{path}: {answer.status_code}"
                found[path] = (reads.counts["statements"], reads.counts["rows"])
    return found


async def test_pages_read_few_rows_while_tallies_lag(
    engine: DatabaseAddress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = filling.Size(share=2)
    await filling.fill(engine.url, tmp_path, size, is_tallied=False)
    monkeypatch.setattr(tallies, "MAX_UNTALLIED", UNTALLIED)
    settings = load(**filling.places(engine.url, tmp_path), admin_password=pages.PASSWORD, base_url=HOME)
    async with open_engine(settings) as opened:
        counts = await read_counts(opened, Reads(monkeypatch))
        async with a_visit(create_app(opened), "admin", pages.PASSWORD) as visit:
            report = (await visit.open(f"/campaigns/{pages.LARGE}/report/figures")).text
    counts.pop("/readyz")  # Reads the columns of the schema, the same number at any size.
    assert {path: rows for path, (_, rows) in counts.items() if rows > MOST_ROWS} == {}
    assert max(statements for statements, _ in counts.values()) <= MOST_STATEMENTS
    assert sum(block.count for block in filling.blocks(size)) > 3 * MOST_ROWS
    assert "are not counted yet" in report
