"""The views for reporting tools: their columns, their plans and who may read them."""

from typing import Any

import pytest
from sqlalchemy import inspect, text

from mailwright.app.backups import back_up, load
from mailwright.domain.clock import MINUTE, ManualClock
from mailwright.storage.database import Database
from mailwright.storage.migrate import upgrade
from tests.builders import FAULT, Bench, a_contact, a_message
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
# The queries that docs/reporting.md recommends.
DOCUMENTED = [
    "SELECT * FROM email_outbox WHERE id = '01890a5d-ac96-774b-bcce-b302099a8057'",
    "SELECT * FROM email_logs WHERE \"outboxId\" = '01890a5d-ac96-774b-bcce-b302099a8057'",
    "SELECT status, count(*) FROM email_logs WHERE \"companyId\" = 'default' AND \"createdAt\" >= '2027-01-15' "
    "GROUP BY status",
    'SELECT "lastError" FROM email_outbox WHERE "companyId" = \'default\' AND "createdAt" >= \'2027-01-15\' '
    "AND \"createdAt\" < '2027-01-16'",
    "SELECT * FROM email_events WHERE \"emailLogId\" = '01890a5d-ac96-774b-bcce-b302099a8057'",
    'SELECT e.type, count(*) FROM email_logs AS l JOIN email_events AS e ON e."emailLogId" = l.id '
    "WHERE l.\"companyId\" = 'default' AND l.\"createdAt\" >= '2027-01-15' GROUP BY e.type",
    "SELECT * FROM recipients WHERE id = '01890a5d-ac96-774b-bcce-b302099a8057'",
    "SELECT * FROM recipients WHERE \"companyId\" = 'default' AND email = 'ada@example.com'",
]
# Tables that hold few rows, however many messages there are.
SMALL = ("tenants", "provider_configurations", "templates")

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
    outbox = await rows(bench.database, "SELECT * FROM email_outbox")
    assert {row["id"] for row in outbox} == {sent, failed}
    assert all(row["html"] and row["processedAt"] and row["lastError"] is None for row in outbox)
    events = await rows(bench.database, f"SELECT * FROM email_events WHERE \"emailLogId\" = '{sent}'")
    assert {"RECEIVED", "VALIDATED", "SENT_ATTEMPT", "SENT"} <= {row["type"] for row in events}


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
    if database.dialect == "sqlite":
        plan = [row["detail"] for row in await rows(database, f"EXPLAIN QUERY PLAN {query}")]
        scans = [line for line in plan if line.startswith("SCAN") and "CONSTANT" not in line]
    else:
        async with database.write() as tx:
            await tx.execute(text("SET LOCAL enable_seqscan = off"))  # Empty tables would be read at once otherwise.
            plan = [str(row[0]) for row in await tx.execute(text(f"EXPLAIN {query}"))]
        scans = [line for line in plan if "Seq Scan" in line]
    assert [line for line in scans if not any(name in line for name in SMALL)] == [], plan


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
