"""The views for reporting tools: their columns, their plans and who may read them."""

import re
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from sqlalchemy import inspect, text

from mailwright.app.backups import back_up, load
from mailwright.domain.clock import MINUTE, ManualClock
from mailwright.domain.results import SendResult
from mailwright.storage.database import Database
from mailwright.storage.migrate import upgrade
from tests.builders import FAULT, REFUSAL, Bench, a_contact, a_message
from tests.engines import PostgresServer
from tests.standins.provider import ScriptedProvider

COLUMNS = {
    "email_outbox": "id companyId recipientId externalId to subject html status attempts lastError requestId createdAt "
    "scheduledAt processedAt",
    "email_logs": "id outboxId companyId recipientId to subject status provider providerMessageId sesMessageId "
    "errorCode errorReason attempts durationMs requestId createdAt sentAt failedAt",
    "email_events": "id emailLogId type metadata createdAt",
    "recipients": "id companyId email name status createdAt deletedAt",
}
ID = "'01890a5d-ac96-774b-bcce-b302099a8057'"
COMPANY = "\"companyId\" = 'default'"
WEEK = "\"createdAt\" >= '2027-01-15' AND \"createdAt\" < '2027-01-22'"
# The queries that docs/reporting.md recommends.
DOCUMENTED = [
    f"SELECT * FROM email_outbox WHERE id = {ID}",
    f'SELECT * FROM email_logs WHERE "outboxId" = {ID}',
    f"SELECT * FROM email_logs WHERE {COMPANY} AND \"to\" = 'ada@example.com'",
    'SELECT l.* FROM recipients AS r JOIN email_logs AS l ON l."companyId" = r."companyId" AND l."to" = r.email '
    f"WHERE r.id = {ID}",
    f"SELECT status, count(*) FROM email_logs WHERE {COMPANY} AND {WEEK} GROUP BY status",
    f'SELECT "lastError", count(*) FROM email_outbox WHERE {COMPANY} AND {WEEK} GROUP BY 1',
    f"SELECT * FROM email_outbox WHERE {COMPANY} AND status = 'PENDING' AND {WEEK}",
    f"SELECT * FROM email_logs WHERE {COMPANY} AND status = 'FAILED'",
    f'SELECT * FROM email_events WHERE "emailLogId" = {ID}',
    'SELECT e.type, count(*) FROM email_logs AS l JOIN email_events AS e ON e."emailLogId" = l.id '
    f"WHERE l.{COMPANY} AND l.{WEEK.replace(' AND ', ' AND l.')} GROUP BY e.type",
    f"SELECT * FROM recipients WHERE id = {ID}",
    f"SELECT * FROM recipients WHERE {COMPANY} AND email = 'ada@example.com'",
]
# The tables that grow with every message, on PostgreSQL with the partitions of `events`.
LARGE = ("messages", "deliveries", "contacts", "events")

VIEWS = (
    "delivery_history",
    "delivery_events",
    "dead_letters",
    "email_outbox",
    "email_logs",
    "email_events",
    "recipients",
)


async def rows(database: Database, query: str) -> list[dict[str, Any]]:
    async with database.read() as tx:
        return [dict(row._mapping) for row in await tx.execute(text(query))]


@pytest.mark.parametrize("view", COLUMNS)
async def test_view_has_the_documented_columns(database: Database, view: str) -> None:
    found: list[str] = []
    await database.run_sync_ddl(
        lambda connection: found.extend(column["name"] for column in inspect(connection).get_columns(view))
    )
    assert found == COLUMNS[view].split()


async def test_views_show_a_sent_and_a_failed_message(bench: Bench) -> None:
    sent, failed = await bench.accept(a_message(), a_message())
    await bench.drain(ScriptedProvider(FAULT, name="ses"), window=1)
    bench.clock.advance(MINUTE)
    await bench.drain(ScriptedProvider(name="ses"))
    logs = {row["id"]: row for row in await rows(bench.database, "SELECT * FROM email_logs")}
    assert {row["status"] for row in logs.values()} == {"SENT"}
    assert sorted(row["attempts"] for row in logs.values()) == [1, 2]
    assert all(row["sesMessageId"] == row["providerMessageId"] and row["sentAt"] for row in logs.values())
    assert all(row["durationMs"] is not None and row["createdAt"] and row["requestId"] for row in logs.values())
    assert {(row["outboxId"], row["companyId"], row["to"]) for row in logs.values()} == {
        (row["id"], "default", row["to"]) for row in await rows(bench.database, "SELECT * FROM email_outbox")
    }
    outbox = await rows(bench.database, "SELECT * FROM email_outbox")
    assert {row["id"] for row in outbox} == {sent, failed}
    assert all(row["html"] and row["processedAt"] and row["lastError"] is None for row in outbox)
    events = await rows(bench.database, f"SELECT * FROM email_events WHERE \"emailLogId\" = '{sent}'")
    assert {"RECEIVED", "VALIDATED", "SENT_ATTEMPT", "SENT"} <= {row["type"] for row in events}


@pytest.mark.parametrize(
    ("result", "status", "error"),
    [(REFUSAL, "FAILED", ("REFUSED", REFUSAL.message)), (FAULT, "RETRY_SCHEDULED", ("TEMPORARY", FAULT.message))],
    ids=["failed", "retried"],
)
async def test_log_has_code_reason_and_attempts_of_an_error(
    bench: Bench, result: SendResult, status: str, error: tuple[str, str]
) -> None:
    contact = await a_contact(bench.database, "ada@example.com")
    [outbox_id] = await bench.accept(a_message(to="ada@example.com", recipient_id=contact))
    await bench.drain(ScriptedProvider(result))
    [row] = await rows(bench.database, "SELECT * FROM email_logs")
    assert (row["outboxId"], row["recipientId"], row["status"], row["attempts"]) == (outbox_id, contact, status, 1)
    assert (row["errorCode"], row["errorReason"]) == error
    assert (row["failedAt"] is not None, row["sentAt"]) == (status == "FAILED", None)
    [event] = await rows(bench.database, f"SELECT * FROM email_events WHERE type = '{status}'")
    metadata = orjson.loads(event["metadata"]) if isinstance(event["metadata"], str) else event["metadata"]
    assert (event["emailLogId"], metadata["errorCode"]) == (outbox_id, error[0])
    assert event["createdAt"] == row["createdAt"]


async def test_times_are_utc_and_failures_have_their_error(bench: Bench) -> None:
    await bench.accept(a_message())
    await bench.drain(ScriptedProvider(FAULT))
    [row] = await rows(bench.database, "SELECT * FROM email_outbox")
    assert (row["status"], row["lastError"], row["processedAt"]) == ("RETRY_SCHEDULED", "TEMPORARY: later", None)
    created = row["createdAt"]
    assert (created if isinstance(created, str) else created.isoformat()).startswith("2027-01-15T08:00:00")


async def test_deleted_recipient_has_its_time(bench: Bench) -> None:
    await a_contact(bench.database, "ada@example.com", deleted_at=bench.clock.now())
    [row] = await rows(bench.database, "SELECT * FROM recipients")
    assert row["email"] == "ada@example.com"
    assert row["deletedAt"] is not None


@pytest.mark.promise("reporting-views")
@pytest.mark.parametrize("query", DOCUMENTED)
async def test_documented_query_reads_no_whole_table(database: Database, query: str) -> None:
    assert await whole_reads(database, query) == []


@pytest.mark.promise("reporting-views")
async def test_query_without_a_condition_is_recognised_as_a_whole_read(database: Database) -> None:
    assert await whole_reads(database, "SELECT count(*) FROM email_logs WHERE attempts > 3") != []


async def whole_reads(database: Database, query: str) -> list[str]:
    """Return the steps of the plan that read a large table from one end to the other."""
    if database.dialect == "sqlite":
        plan = [row["detail"] for row in await rows(database, f"EXPLAIN QUERY PLAN {query}")]
        return [line for line in plan if re.match(r"SCAN [mde]\b", line)]
    async with database.write() as tx:
        await tx.execute(text("SET LOCAL enable_seqscan = off"))  # Empty tables would be read at once otherwise.
        [(plan,)] = await tx.execute(text(f"EXPLAIN (FORMAT JSON) {query}"))
    return [
        f"{node['Node Type']} on {node['Relation Name']}"
        for node in nodes_of(plan[0]["Plan"])
        if str(node.get("Relation Name", "")).startswith(LARGE) and not is_narrowed(node)
    ]


def nodes_of(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for each in node.get("Plans", ()):
        yield from nodes_of(each)


def is_narrowed(node: dict[str, Any]) -> bool:
    """Return whether a step reads a part of its table by a condition of an index."""
    return node["Node Type"] == "Bitmap Heap Scan" or "Index Cond" in node


@pytest.mark.promise("reporting-views")
async def test_views_are_left_to_their_owner(postgres_server: PostgresServer) -> None:
    """Supabase grants every new relation to these roles."""
    url = await postgres_server.create_empty()
    database = Database(url)
    async with database.write() as tx:
        for role in ("anon", "authenticated"):
            exists = await tx.execute(text(f"SELECT 1 FROM pg_roles WHERE rolname = '{role}'"))
            if not exists:
                await tx.execute(text(f"CREATE ROLE {role} NOLOGIN"))
            await tx.execute(text(f"ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT ALL ON TABLES TO {role}"))
    await upgrade(database)
    granted = await rows(
        database,
        "SELECT table_name, grantee FROM information_schema.role_table_grants "
        "WHERE grantee IN ('anon', 'authenticated', 'PUBLIC') AND table_schema = 'public'",
    )
    assert {row["table_name"] for row in granted} & set(VIEWS) == set()
    await database.close()


async def test_restored_backup_has_the_views(bench: Bench, clock: ManualClock, tmp_path: Any) -> None:
    await bench.accept(a_message())
    backup = await back_up(bench.engine.settings, bench.database, clock, tmp_path)
    await load(bench.database, backup.file, None)
    assert len(await rows(bench.database, "SELECT * FROM email_outbox")) == 1
