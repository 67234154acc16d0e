"""What a page of rows costs does not grow with the queue: SQLite finds each row and each link by its key.

With an index on the status, as a program may well have one, it would rather walk through all pending rows and read the
whole page anew for each of them.
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
from mailwright.storage.hot import MOST_VALUES
from mailwright.storage.statements import Statement
from mailwright.storage.tables import metadata
from tests.notifications import FOREIGN_DDL

INDEX = "CREATE INDEX theirs ON open_event_notifications (fanout_status, locked_at)"
A_ROW = (
    "INSERT INTO open_event_notifications (open_event_id, subscription_id, dedupe_key, created_at)"
    " VALUES (?, 1, 'key', 'now')"
)
ON_ROWS = [each.name for each in fields(QueueStatements) if each.name != "append_sent"]


@pytest.fixture(params=[0, 5_000], ids=["empty", "full"])
def queue(request: pytest.FixtureRequest) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(FOREIGN_DDL)
        connection.execute(INDEX)
        connection.executemany(A_ROW, [(number,) for number in range(request.param)])
        connection.execute("ANALYZE")
        yield connection


def plans(connection: sqlite3.Connection, statement: Statement) -> Iterator[list[str]]:
    """In both forms in which a page is given: as JSON and as values."""
    for form in (statement.on("sqlite"), statement.with_values(3)):
        values = form.text.count("?")  # more than enough: a number may stand for one that was there before
        for count in range(values, -1, -1):
            try:
                found = connection.execute(f"EXPLAIN QUERY PLAN {form.text}", ["[]"] * count).fetchall()
            except sqlite3.ProgrammingError:
                continue
            yield [row[3] for row in found]
            break
        else:
            pytest.fail(form.text)


def test_a_page_is_no_more_than_a_statement_takes_as_values() -> None:
    assert max(PAGE, BATCH) <= MOST_VALUES


@pytest.mark.parametrize("name", ON_ROWS)
def test_rows_are_found_by_their_numbers_whatever_indexes_their_owner_has(queue: sqlite3.Connection, name: str) -> None:
    for plan in plans(queue, getattr(statements_of(None), name)):
        [step] = [each for each in plan if "open_event_notifications" in each]
        assert step == "SEARCH open_event_notifications USING INTEGER PRIMARY KEY (rowid=?)", plan


@pytest.mark.parametrize(
    ("statement", "key"),
    [(links.FIND_LINKS, "row_key=?"), (links.COUNT_UNDER_WAY, "subscription_id=?")],
    ids=lambda each: each.name if isinstance(each, Statement) else "",
)
def test_links_are_found_by_their_rows(statement: Statement, key: str) -> None:
    engine = create_engine("sqlite://")
    metadata.create_all(engine)
    with closing(engine.raw_connection()) as ours:
        connection = ours.driver_connection
        assert isinstance(connection, sqlite3.Connection)
        for plan in plans(connection, statement):
            [step] = [each for each in plan if each.startswith("SEARCH l ")]
            assert f"(queue=? AND {key}" in step, plan
