"""On PostgreSQL only the owner reads tables and views, also if the server lets web roles read new ones."""

from sqlalchemy import text

from mailwright.domain.clock import ManualClock
from mailwright.storage.database import Database
from mailwright.storage.migrate import upgrade
from mailwright.storage.partitions import ensure_event_partitions
from tests.engines import PostgresServer

SUPABASE = """
DO $$ BEGIN
  IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'anon') THEN CREATE ROLE anon; END IF;
  IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'authenticated') THEN CREATE ROLE authenticated; END IF;
END $$
"""
RELATIONS = """
SELECT c.relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p', 'v') AND c.relname <> 'alembic_version' ORDER BY 1
"""


async def test_web_roles_of_supabase_read_nothing(postgres_server: PostgresServer, clock: ManualClock) -> None:
    url = await postgres_server.create_empty()
    database = Database(url)
    try:
        async with database.write() as tx:
            await tx.execute(text(SUPABASE))
            await tx.execute(text("GRANT USAGE ON SCHEMA public TO anon, authenticated"))
            await tx.execute(
                text("ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT ALL ON TABLES TO anon, authenticated")
            )
            await tx.execute(text("CREATE TABLE of_another_program (id int)"))
        await upgrade(database)
        await ensure_event_partitions(database, clock.now())
        async with database.read() as tx:
            names = [row.relname for row in await tx.execute(text(RELATIONS))]
        assert {"dead_letters", "delivery_history", "delivery_events", "contacts", "events_default"} <= set(names)
        for role in ("anon", "authenticated"):
            async with database.read() as tx:
                query = text("SELECT has_table_privilege(:role, :name, 'SELECT, INSERT, UPDATE, DELETE') AS may")
                allowed = [name for name in names if (await tx.execute(query, {"role": role, "name": name}))[0].may]
            assert allowed == ["of_another_program"]
    finally:
        await database.close()
        await postgres_server.drop_empty(url)
