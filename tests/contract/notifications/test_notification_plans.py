"""The cost of a page does not grow with the queue: SQLite searches each row and link by its key.

With an index on the status, as the owner may have, SQLite would otherwise scan all pending rows once per row.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import fields

import pytest
from sqlalchemy import create_engine

from mailwright.sources.notifications import links
from mailwright.sources.notifications.fanout import BATCH, PAGE
from mailwright.sources.notifications.tables import QueueStatements, statements_of
from mailwright.storage.hot import MAX_VALUES
from mailwright.storage.statements import Statement
from mailwright.storage.tables import metadata
from tests.notifications import FOREIGN_DDL

INDEX = "CREATE INDEX theirs ON open_event_notifications (fanout_status, locked_at)"
A_ROW = (
    "INSERT INTO open_event_notifications (open_event_id, subscription_id, dedupe_key, created_at)"
    " VALUES (?, 1, 'key', 'now')"
)
ON_ROWS = [each.name for each in fields(QueueStatements) if each.name != "append_sent"]


def _table_of(name: str) -> str:
    return "subscriptions" if name == "set_notified" else "open_event_notifications"


@pytest.fixture(params=[0, 5_000], ids=["empty", "full"])
def queue(request: pytest.FixtureRequest) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(FOREIGN_DDL)
        connection.execute(INDEX)
        connection.executemany(A_ROW, [(number,) for number in range(request.param)])
        connection.execute("ANALYZE")
        yield connection


def plans(connection: sqlite3.Connection, statement: Statement) -> Iterator[list[str]]:
    """Yield the plans of both forms of a statement: with JSON and with values."""
    for form in (statement.on("sqlite"), statement.with_values(3)):
        values = form.text.count("?")  # an upper bound: placeholders may repeat
        for count in range(values, -1, -1):
            try:
                found = connection.execute(f"EXPLAIN QUERY PLAN {form.text}", ["[]"] * count).fetchall()
            except sqlite3.ProgrammingError:
                continue
            yield [row[3] for row in found]
            break
        else:
            pytest.fail(form.text)


def test_page_fits_the_values_of_a_statement() -> None:
    assert max(PAGE, BATCH) <= MAX_VALUES


@pytest.mark.parametrize("name", ON_ROWS)
def test_rows_are_searched_by_primary_key(queue: sqlite3.Connection, name: str) -> None:
    for plan in plans(queue, getattr(statements_of(None), name)):
        [step] = [each for each in plan if _table_of(name) in each]
        assert step.endswith("USING INTEGER PRIMARY KEY (rowid=?)"), plan
        assert step.startswith("SEARCH"), plan


@pytest.mark.parametrize(
    ("statement", "key"),
    [(links.FIND_LINKS, "row_key=?"), (links.COUNT_IN_PROGRESS, "subscription_id=?")],
    ids=lambda each: each.name if isinstance(each, Statement) else "",
)
def test_links_are_searched_by_row(statement: Statement, key: str) -> None:
    engine = create_engine("sqlite://")
    metadata.create_all(engine)
    with closing(engine.raw_connection()) as ours:
        connection = ours.driver_connection
        assert isinstance(connection, sqlite3.Connection)
        for plan in plans(connection, statement):
            [step] = [each for each in plan if each.startswith("SEARCH l ")]
            assert f"(queue=? AND {key}" in step, plan
