"""Email from a table in an application's own database, on both engines for the application and for Mailwright."""

import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import delete, insert, select

from mailwright.app.outbox_table import drain_outbox_table, open_application_database, open_relay
from mailwright.app.wiring import Engine
from mailwright.audience.lists import create as create_list
from mailwright.domain.clock import DAY, MINUTE, ManualClock, isoformat
from mailwright.domain.errors import ConfigurationInvalid, NotDurable
from mailwright.outbox import tenants
from mailwright.sources.outbox_table import relay as relay_module
from mailwright.sources.outbox_table.relay import OutboxRelay
from mailwright.storage.database import Database
from mailwright.storage.outbox_table import create_outbox_table
from mailwright.storage.tables import lists, messages
from tests.api import a_request, an_engine
from tests.engines import PostgresServer

pytestmark = pytest.mark.promise("outbox-table")

REFUSE_ROW = {
    "sqlite": "CREATE TRIGGER refuse BEFORE UPDATE ON mailwright_outbox WHEN OLD.id = 1 "
    "BEGIN SELECT RAISE(ABORT, 'not this row'); END",
    "postgresql": "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
    "IF OLD.id = 1 THEN RAISE check_violation; END IF; RETURN NEW; END $$; "
    "CREATE TRIGGER refuse BEFORE UPDATE ON mailwright_outbox FOR EACH ROW EXECUTE FUNCTION refuse()",
}


@dataclass(frozen=True)
class Application:
    """An application that uses its own driver, and Mailwright's engine."""

    url: str
    engine: Engine
    relay: OutboxRelay

    @property
    def is_sqlite(self) -> bool:
        return self.url.startswith("sqlite")

    def connect(self) -> Any:
        return sqlite3.connect(self.url.removeprefix("sqlite:///")) if self.is_sqlite else psycopg.connect(self.url)

    def run(self, sql: str, *values: Any, commits: bool = True) -> list[tuple[Any, ...]]:
        with closing(self.connect()) as connection:
            cursor = connection.execute(sql if self.is_sqlite else sql.replace("?", "%s"), values or None or ())
            rows = list(cursor.fetchall()) if cursor.description else []
            if commits:
                connection.commit()
            return rows

    def write(self, email: Any, *, key: str | None = None, commits: bool = True) -> None:
        content = email if isinstance(email, str) else json.dumps(email)
        if key is None:
            self.run("INSERT INTO mailwright_outbox (email) VALUES (?)", content, commits=commits)
        else:
            self.run("INSERT INTO mailwright_outbox (email, idempotency_key) VALUES (?, ?)", content, key)

    def rows(self) -> list[tuple[str, str | None, Any]]:
        found = self.run("SELECT status, outbox_id, error FROM mailwright_outbox ORDER BY id")
        return [(status, outbox_id, json.loads(error) if error else None) for status, outbox_id, error in found]

    async def accepted(self) -> list[tuple[str, str]]:
        m = messages.c
        async with self.engine.database.read() as tx:
            rows = await tx.execute(select(m.outbox_id, m.to_email).order_by(m.id))
        return [(row.outbox_id, row.to_email) for row in rows]


@pytest.fixture(params=["sqlite", "postgresql"], ids=["app-sqlite", "app-postgresql"])
async def application(
    request: pytest.FixtureRequest, database: Database, clock: ManualClock, tmp_path: Path
) -> AsyncIterator[Application]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'app.db'}"
    else:
        server: PostgresServer = request.getfixturevalue("postgres_server")
        url = await server.create_empty()
    engine = an_engine(database, clock, outbox_database_url=url)
    async with open_application_database(url) as theirs:
        await create_outbox_table(theirs)
        await create_outbox_table(theirs)  # It exists already.
    async with open_relay(engine) as relay:
        yield Application(url, engine, relay)
    await engine.close()
    if request.param == "postgresql":
        await server.drop_empty(url)


async def test_committed_email_is_accepted_and_rollback_leaves_nothing(application: Application) -> None:
    application.write(a_request(to="ada@example.com"))
    application.write(a_request(to="rolled@example.com"), commits=False)
    application.write(a_request(to="bob@example.com", tags=["orders"]))
    assert await drain_outbox_table(application.relay) == 2
    accepted = await application.accepted()
    assert [to for _, to in accepted] == ["ada@example.com", "bob@example.com"]
    assert application.rows() == [("accepted", outbox_id, None) for outbox_id, _ in accepted]
    assert await drain_outbox_table(application.relay) == 0


async def test_row_that_was_not_marked_is_accepted_once(application: Application) -> None:
    application.write(a_request(to="ada@example.com"))
    await application.relay.relay()
    [first] = application.rows()
    # As after a crash between the two commits.
    application.run("UPDATE mailwright_outbox SET status = 'pending', outbox_id = NULL")
    assert await application.relay.relay() == 1
    assert application.rows() == [first]
    assert len(await application.accepted()) == 1


@pytest.mark.parametrize("is_accepted_before", [False, True])
async def test_row_whose_send_time_passed_is_sent_late(
    application: Application, clock: ManualClock, is_accepted_before: bool
) -> None:
    application.write(a_request(scheduledAt=isoformat(clock.now() + MINUTE)))
    application.write(a_request(scheduledAt=isoformat(clock.now() - DAY)))
    application.run("UPDATE mailwright_outbox SET created_at = ?", isoformat(clock.now()))
    if is_accepted_before:
        await application.relay.relay()
        application.run("UPDATE mailwright_outbox SET status = 'pending', outbox_id = NULL, error = NULL")
    clock.advance(DAY)
    assert await drain_outbox_table(application.relay) == 2
    [(outbox_id, _)] = await application.accepted()
    [late, past] = application.rows()
    assert late == ("accepted", outbox_id, None)
    assert (past[0], past[2]["code"]) == ("refused", "IN_THE_PAST")


async def test_unmarked_row_stays_accepted_when_its_list_disappears(application: Application) -> None:
    async with application.engine.database.write() as tx:
        await tx.execute(insert(lists).values(tenant_id=1, list_key="news", name="News", is_public=False, created_at=0))
    application.write(a_request(listKey="news"))
    await application.relay.relay()
    rows = application.rows()
    application.run("UPDATE mailwright_outbox SET status = 'pending', outbox_id = NULL")
    async with application.engine.database.write() as tx:
        await tx.execute(delete(lists))
    assert await application.relay.relay() == 1
    assert application.rows() == rows
    assert [status for status, _, _ in rows] == ["accepted"]


async def test_bad_rows_name_the_field_and_stop_no_others(application: Application) -> None:
    for email in (a_request(to="ada"), a_request(colour="red"), [], a_request(), a_request(subject=None)):
        application.write(email)
    await drain_outbox_table(application.relay)
    found = [(status, error and (error["field"], error["code"])) for status, _, error in application.rows()]
    assert found == [
        ("refused", ("to", "INVALID_EMAIL")),
        ("refused", ("colour", "UNKNOWN_FIELD")),
        ("refused", ("body", "WRONG_TYPE")),
        ("accepted", None),
        ("refused", ("subject", "REQUIRED")),
    ]
    application.run(
        "UPDATE mailwright_outbox SET status = 'pending', error = NULL, email = ? WHERE id = 1", '{"to": 1}'
    )
    await drain_outbox_table(application.relay)
    assert application.rows()[0][2]["code"] == "WRONG_TYPE"


async def test_bytes_that_are_not_text_stop_no_others(application: Application) -> None:
    if not application.is_sqlite:  # PostgreSQL refuses them.
        with pytest.raises(psycopg.Error):
            application.run("INSERT INTO mailwright_outbox (email) VALUES (to_jsonb(convert_from(?, 'UTF8')))", b"\xff")
        return
    email, key = json.dumps(a_request()), b"\xff\xfe"
    application.write(email)
    columns = "INSERT INTO mailwright_outbox (email, idempotency_key, created_at) VALUES "
    application.run(columns + "(CAST(? AS TEXT), 'a', 'b')", b'{"to": "\xff"}')
    application.run(columns + "(?, ?, ?)", email.encode(), key, key)
    assert await drain_outbox_table(application.relay) == 3
    first, bad, last = application.rows()
    assert (first[0], bad[0], last[0]) == ("accepted", "refused", "accepted")
    assert (bad[2]["code"], bad[2]["field"]) == ("INVALID_JSON", "email")


async def test_own_key_is_used_once(application: Application) -> None:
    application.write(a_request(), key="order-7")
    await application.relay.relay()
    application.run("DELETE FROM mailwright_outbox")
    application.write(a_request(), key="order-7")
    await application.relay.relay()
    application.run("DELETE FROM mailwright_outbox")
    application.write(a_request(subject="Other"), key="order-7")
    await application.relay.relay()
    [(status, _, error)] = application.rows()
    assert (status, error["field"], error["code"]) == ("refused", "idempotency_key", "IDEMPOTENCY_CONFLICT")
    assert len(await application.accepted()) == 1


async def test_row_that_cannot_be_marked_stops_no_others(application: Application, clock: ManualClock) -> None:
    for number in range(3):
        application.write(a_request(to=f"{number}@example.com"))
    application.run(REFUSE_ROW["sqlite" if application.is_sqlite else "postgresql"])
    assert [await application.relay.relay() for _ in range(2)] == [2, 0]
    assert [status for status, _, _ in application.rows()] == ["pending", "accepted", "accepted"]
    clock.advance(6 * MINUTE)
    assert await application.relay.relay() == 0
    assert len(await application.accepted()) == 3


async def test_large_rows_are_read_in_bounded_batches(
    application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "MAX_ROW_BYTES", 3_000)
    monkeypatch.setattr(relay_module, "MAX_BATCH_BYTES", 4_000)
    for size in (2_500, 2_500, 5_000, 100):
        application.write(a_request(html="x" * size))
    assert [await application.relay.relay() for _ in range(3)] == [1, 3, 0]
    found = [(status, error and error["code"]) for status, _, error in application.rows()]
    assert found == [("accepted", None), ("accepted", None), ("refused", "TOO_LARGE"), ("accepted", None)]


async def test_table_of_the_application_itself_is_relayed(application: Application) -> None:
    """It replaces the first one while the relay runs, and allows NULL."""
    application.write(a_request())
    assert await application.relay.relay() == 1
    application.run("DROP TABLE mailwright_outbox")
    with pytest.raises(Exception, match="mailwright_outbox"):
        await application.relay.relay()
    columns = "idempotency_key TEXT, email TEXT, status TEXT, outbox_id TEXT, error TEXT, created_at TEXT"
    application.run(f"CREATE TABLE mailwright_outbox (id INTEGER PRIMARY KEY, {columns})")
    insert_row = "INSERT INTO mailwright_outbox (id, status, idempotency_key, email) VALUES (?, 'pending', ?, ?)"
    for row in enumerate([("a", None), (None, json.dumps(a_request())), ("b", json.dumps(a_request()))], start=1):
        application.run(insert_row, row[0], *row[1])
    with suppress(NotDurable):  # PostgreSQL refuses statements that were prepared for the other table once.
        await application.relay.relay()
    await drain_outbox_table(application.relay)
    found = [(status, error and (error["field"], error["code"])) for status, _, error in application.rows()]
    refused = [("refused", ("email", "INVALID_JSON")), ("refused", ("idempotency_key", "REQUIRED"))]
    assert found == [*refused, ("accepted", None)]
    assert len(await application.accepted()) == 2
    application.run("ALTER TABLE mailwright_outbox DROP COLUMN created_at")
    with pytest.raises(ConfigurationInvalid, match="no column created_at"):
        async with open_relay(application.engine):
            pass


async def test_database_without_the_table_is_refused(database: Database, clock: ManualClock, tmp_path: Path) -> None:
    for url in (f"sqlite:///{tmp_path / 'none.db'}", "mysql://localhost/app", None):
        engine = an_engine(database, clock, outbox_database_url=url)
        with pytest.raises(ConfigurationInvalid, match="MAILWRIGHT_OUTBOX_DATABASE_URL"):
            async with open_relay(engine):
                pass
        await engine.close()
    assert not (tmp_path / "none.db").exists()


@pytest.mark.both_engines
@pytest.mark.promise("second-person")
async def test_rows_of_a_list_count_towards_an_approval(application: Application) -> None:
    engine = application.engine
    await create_list(engine.database, engine.clock, 1, "news", actor="test")
    await tenants.change(engine.database, tenants.DEFAULT, actor="admin", clock=engine.clock, approval_over=2)
    for number in range(3):
        application.write(a_request(to=f"reader{number}@example.com", listKey="news"))
    assert await application.relay.relay() == 3
    assert [(status, error["code"]) for status, _, error in application.rows()] == [("refused", "AWAITS_APPROVAL")] * 3
    assert await application.accepted() == []
    application.write(a_request(to="ada@example.com", listKey="news"))
    assert await application.relay.relay() == 1
    assert len(await application.accepted()) == 1
