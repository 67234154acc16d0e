"""`mailwright outbox` with an application that writes email in its own transactions, and kills of the relay."""

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.acceptance.commands import Commands

APP = "sqlite:///app.db"


@pytest.fixture
def commands(tmp_path: Path) -> Commands:
    return Commands(tmp_path)


def an_order(number: int) -> str:
    return json.dumps({"to": f"{number}@example.com", "subject": f"Order {number}", "text": "Thank you."})


def place_orders(file: Path, numbers: range) -> Iterator[int]:
    """Commit each order with its email; roll every fifth back. Yield after each commit."""
    with closing(sqlite3.connect(file, timeout=30)) as connection:
        for number in numbers:
            connection.execute("INSERT INTO orders VALUES (?)", (number,))
            connection.execute("INSERT INTO mailwright_outbox (email) VALUES (?)", (an_order(number),))
            if number % 5 == 4:
                connection.rollback()
            else:
                connection.commit()
                yield number


@pytest.mark.promise("outbox-table")
@pytest.mark.timeout(300)
async def test_killed_relay_loses_and_repeats_no_email(commands: Commands) -> None:
    file = commands.folder / "app.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE orders (number INTEGER)")
    await commands.ok("outbox", "init", "--database", APP)
    await commands.ok("db", "upgrade")
    committed = []
    for kill in range(3):
        async with commands.service("outbox", "run", "--database", APP) as service:
            await service.logged("outbox_table_opened")
            for number in place_orders(file, range(kill * 60, kill * 60 + 60)):
                committed.append(number)
                await asyncio.sleep(0)
        # The block ends with SIGKILL, at any point of the relay's work.
    assert (await commands.ok("outbox", "run", "--database", APP, "--drain")).out.startswith("Rows processed: ")
    with closing(sqlite3.connect(file)) as connection:
        orders = [number for (number,) in connection.execute("SELECT number FROM orders ORDER BY number")]
        rows = connection.execute("SELECT status, outbox_id, email FROM mailwright_outbox ORDER BY id").fetchall()
    assert orders == committed
    assert {status for status, _, _ in rows} == {"accepted"}
    with closing(sqlite3.connect(commands.folder / "mailwright.db")) as connection:
        stored = connection.execute("SELECT outbox_id, to_email FROM messages ORDER BY id").fetchall()
    assert sorted(stored) == sorted((outbox_id, json.loads(email)["to"]) for _, outbox_id, email in rows)
    assert len(stored) == len(committed) == 144


async def test_definition_is_printed_without_a_change(commands: Commands) -> None:
    printed = await commands.ok("outbox", "init", "--database", "postgresql://localhost/app", "--print")
    assert "CREATE TABLE IF NOT EXISTS mailwright_outbox" in printed.out
    printed = await commands.ok("outbox", "init", "--print", MAILWRIGHT_OUTBOX_DATABASE_URL=APP)
    assert "AUTOINCREMENT" in printed.out
    assert not (commands.folder / "app.db").exists()
    refused = await commands.run("outbox", "run", "--drain", "--database", APP)
    assert (refused.code, "mailwright outbox init" in refused.err) == (2, True)
