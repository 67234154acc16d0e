"""On PostgreSQL only the owner accesses tables, views and sequences, also if the server grants new ones to others."""

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
WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p', 'v', 'S') ORDER BY 1
"""
GRANTED = """
SELECT DISTINCT c.relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace, aclexplode(c.relacl) AS a
WHERE n.nspname = 'public' AND (a.grantee = 0 OR a.grantee IN ('anon'::regrole, 'authenticated'::regrole)) ORDER BY 1
"""


async def test_web_roles_of_supabase_may_do_nothing(postgres_server: PostgresServer, clock: ManualClock) -> None:
    url = await postgres_server.create_empty()
    database = Database(url)
    try:
        async with database.write() as tx:
            await tx.execute(text(SUPABASE))
            await tx.execute(text("GRANT USAGE ON SCHEMA public TO anon, authenticated"))
            for kind in ("TABLES", "SEQUENCES"):
                defaults = (
                    f"ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT ALL ON {kind} TO anon, authenticated, PUBLIC"
                )
                await tx.execute(text(defaults))
            await tx.execute(text("CREATE TABLE of_another_program (id int)"))
        await upgrade(database)
        await ensure_event_partitions(database, clock.now())
        async with database.read() as tx:
            names = {row.relname for row in await tx.execute(text(RELATIONS))}
        assert {"dead_letters", "contacts", "events_default", "schema_revisions", "contacts_id_seq"} <= names
        assert await granted(database) == ["of_another_program"]

        # Somebody grants everything by hand. The next start takes it back.
        async with database.write() as tx:
            await tx.execute(text("GRANT ALL ON ALL TABLES IN SCHEMA public TO anon"))
            await tx.execute(text("GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO PUBLIC"))
        assert len(await granted(database)) == len(names)
        await upgrade(database)
        assert await granted(database) == ["of_another_program"]
    finally:
        await database.close()
        await postgres_server.drop_empty(url)


async def granted(database: Database) -> list[str]:
    """Return the names of everything that web roles, or everybody, may access."""
    async with database.read() as tx:
        return [row.relname for row in await tx.execute(text(GRANTED))]
