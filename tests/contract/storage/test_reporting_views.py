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
    "delivery_history": "id tenant_id email campaign_tag send_batch_id provider_message_id sent_at",
    "delivery_events": "id tenant_id email event_type provider_message_id event_at campaign_tag send_batch_id",
    "dead_letters": "id topic payload error created_at tenant_id email campaign_tag send_batch_id",
}
ID = "'01890a5d-ac96-774b-bcce-b302099a8057'"
COMPANY = "\"companyId\" = 'default'"
WEEK = "\"createdAt\" >= '2027-01-15' AND \"createdAt\" < '2027-01-22'"
# The queries that docs/reporting.md recommends.
DOCUMENTED = [
    f"SELECT * FROM email_outbox WHERE id = {ID}",
    f'SELECT * FROM email_logs WHERE "outboxId" = {ID}',
    "SELECT * FROM email_logs WHERE \"sesMessageId\" = '0100-000000'",
    f"SELECT * FROM email_logs WHERE {COMPANY} AND \"to\" = 'ada@example.com'",
    'SELECT l.* FROM recipients AS r JOIN email_logs AS l ON l."companyId" = r."companyId" AND l."to" = r.email '
    f"WHERE r.id = {ID}",
    f"SELECT status, count(*) FROM email_logs WHERE {COMPANY} AND {WEEK} GROUP BY status",
    f'SELECT "companyId", status, count(*) FROM email_logs WHERE {WEEK} GROUP BY 1, 2',
    f'SELECT "lastError", count(*) FROM email_outbox WHERE {COMPANY} AND {WEEK} GROUP BY 1',
    f"SELECT * FROM email_logs WHERE {COMPANY} AND status = 'FAILED'",
    f'SELECT * FROM email_logs WHERE {COMPANY} ORDER BY "createdAt" DESC LIMIT 50',
    'SELECT * FROM email_outbox ORDER BY "createdAt" DESC LIMIT 50',
    f'SELECT * FROM email_events WHERE "emailLogId" = {ID}',
    'SELECT e.type, count(*) FROM email_logs AS l JOIN email_events AS e ON e."emailLogId" = l.id '
    f"WHERE l.{COMPANY} AND l.{WEEK.replace(' AND ', ' AND l.')} GROUP BY e.type",
    f"SELECT * FROM recipients WHERE id = {ID}",
    f"SELECT * FROM recipients WHERE {COMPANY} AND email = 'ada@example.com'",
    *(
        f"SELECT * FROM {view} WHERE {condition}"
        for view in ("delivery_history", "dead_letters")
        for condition in (f"id = {ID}", "campaign_tag = 'tag7'", "send_batch_id = 'batch7'")
    ),
    "SELECT event_type, count(*) FROM delivery_events WHERE campaign_tag = 'tag7' GROUP BY 1",
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


MESSAGES = 20_000
RUNS = 100
# A message in ten minutes, so that a week has a twentieth of them. Half of them are of articles, and some failed.
FILL = (
    f"""
INSERT INTO campaign_runs (run_id, tenant_id, campaign_tag, article_key, actor, send_batch_id, audience_filter,
  list_key, content, recipients, skipped, enqueued_to, started_at)
WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {RUNS} - 1)
SELECT 'run' || i, 1, 'tag' || i, 'article', 'ada', 'batch' || i, '{{}}', 'news', '[]', 100, 0, '', 1 FROM n
""",
    f"""
INSERT INTO messages (id, outbox_id, tenant_id, source, request_id, to_email, subject, payload, retry_policy, on_doubt,
  is_bulk, created_at)
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {MESSAGES})
SELECT i, 'm' || i, 1, CASE WHEN i % 2 = 0 THEN 'article' ELSE 'api' END,
  CASE WHEN i % 2 = 0 THEN 'run' || (i / 2 % {RUNS}) ELSE 'r' || i END, 'person' || i || '@example.com', 'News',
  '{{}}', 'default', 'hold', FALSE,
  1800000000000 + CAST(i AS BIGINT) * 600000 FROM n
""",
    """
INSERT INTO deliveries (message_key, tenant_id, lane, status, claimable_at, attempts, claims, resends, provider,
  provider_message_id, sent_at, failed_at, error_code)
SELECT id, 1, 1, CASE WHEN id % 400 = 100 THEN 'FAILED' ELSE 'SENT' END, created_at, 1, 1, 0, 'ses', '0100-' || id,
  CASE WHEN id % 400 <> 100 THEN created_at END, CASE WHEN id % 400 = 100 THEN created_at END,
  CASE WHEN id % 400 = 100 THEN 'REFUSED' END FROM messages
""",
    """
INSERT INTO events (message_key, tenant_id, type, created_at, metadata)
SELECT id, 1, 'SENT', created_at, '{}' FROM messages
""",
    """
INSERT INTO contacts (id, contact_id, tenant_id, email, created_at)
SELECT id, 'c' || id, 1, to_email, created_at FROM messages
""",
)
# PostgreSQL would rather read so few rows at once, and join them by a hash table.
LIKE_MANY = ("enable_seqscan", "enable_hashjoin", "enable_mergejoin")


@pytest.fixture
async def filled(database: Database) -> Database:
    """A database with many messages, which PostgreSQL has statistics of, as in production."""
    async with database.write() as tx:
        if database.dialect == "postgresql":  # Earlier tests left pages in the indexes, which change the costs.
            await tx.execute(text(f"TRUNCATE {', '.join(LARGE)}"))
        for statement in FILL:
            await tx.execute(text(statement))
        if database.dialect == "postgresql":
            await tx.execute(text(f"ANALYZE tenants, campaign_runs, {', '.join(LARGE)}"))
    return database


@pytest.mark.promise("reporting-views")
async def test_documented_queries_read_few_rows(filled: Database) -> None:
    assert {query: found for query in DOCUMENTED if (found := await whole_reads(filled, query))} == {}
    # The comparison notices a query that no index serves.
    assert await whole_reads(filled, "SELECT count(*) FROM email_logs WHERE attempts > 3") != []


@pytest.mark.promise("reporting-views")
async def test_newest_messages_and_ses_ids_are_found(filled: Database) -> None:
    newest = f'SELECT id FROM email_logs WHERE {COMPANY} ORDER BY "createdAt" DESC LIMIT 50'
    of_all = 'SELECT id FROM email_outbox ORDER BY "createdAt" DESC LIMIT 50'
    ses_id = "SELECT id FROM email_logs WHERE \"sesMessageId\" = '0100-777'"
    for query in (newest, of_all, ses_id):
        assert await whole_reads(filled, query, as_is=True) == [], query
    expected = [{"id": f"m{number}"} for number in range(MESSAGES, MESSAGES - 50, -1)]
    assert await rows(filled, newest) == await rows(filled, of_all) == expected
    assert await rows(filled, ses_id) == [{"id": "m777"}]


async def test_views_of_articles_are_read_by_batch(filled: Database) -> None:
    batch = "WHERE send_batch_id = 'batch50'"
    [found] = await rows(filled, f"SELECT count(*) AS sent FROM delivery_history {batch}")
    [failed] = await rows(filled, f"SELECT count(*) AS failed, max(error) AS error FROM dead_letters {batch}")
    assert (found["sent"], failed["failed"], failed["error"]) == (50, 50, "REFUSED: ")


async def whole_reads(database: Database, query: str, *, as_is: bool = False) -> list[str]:
    """Return the steps that read a large part of a large table. `as_is`: as PostgreSQL does it with so few rows."""
    if database.dialect == "sqlite":
        plan = [row["detail"] for row in await rows(database, f"EXPLAIN QUERY PLAN {query}")]
        is_newest = "LIMIT" in query and not any("ORDER BY" in line for line in plan)  # It stops after the limit.
        return [
            line
            for line in plan
            if re.match(r"SCAN ([mdsec]|earlier)\b", line) and not (is_newest and "ix_messages_by_time" in line)
        ]
    async with database.write() as tx:
        for setting in () if as_is else LIKE_MANY:
            await tx.execute(text(f"SET LOCAL {setting} = off"))
        [(plan,)] = await tx.execute(text(f"EXPLAIN (ANALYZE, FORMAT JSON) {query}"))
    return [
        f"{node['Node Type']} on {node['Relation Name']}"
        for node in nodes_of(plan[0]["Plan"])
        if str(node.get("Relation Name", "")).startswith(LARGE) and rows_read(node) > MESSAGES / 10
    ]


def nodes_of(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for each in node.get("Plans", ()):
        yield from nodes_of(each)


def rows_read(node: dict[str, Any]) -> float:
    removed = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
    return float((node["Actual Rows"] + removed) * node["Actual Loops"])


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
