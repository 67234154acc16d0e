"""Revisions create the tables that the code uses, on both engines, keep rows, and can run again."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.schema import CreateIndex, CreateTable
from tools import revision as tool

from mailwright.app.schema import prepare
from mailwright.domain.errors import DatabaseNotReady
from mailwright.storage.database import Database
from mailwright.storage.migrate import create_schema, current_revision, upgrade
from mailwright.storage.revision import list_names, load_revision, newest_revision
from mailwright.storage.schema_facts import facts_of_code, facts_of_revision, read_facts
from mailwright.storage.schema_state import SchemaOutdated, SchemaStatus, UnknownSchema, load_schema, require_usable
from mailwright.storage.tables import EXPRESSION_INDEXES, VIEWS, metadata
from tests.engines import PostgresServer
from tests.schema_versions import MOTTO, add_revisions, next_name


@pytest.fixture(params=["sqlite", "postgresql"])
async def empty(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    """A database without any tables."""
    if request.param == "sqlite":
        database = Database(f"sqlite:///{tmp_path}/empty.db")
        yield database
        await database.close()
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    url = await server.create_empty()
    database = Database(url)
    yield database
    await database.close()
    await server.drop_empty(url)


# Everything of a PostgreSQL schema except what only the revisions define: partitions, views, indexes on expressions.
_COLUMNS = """
SELECT c.relname || '.' || a.attname AS name,
  concat_ws(' ', format_type(a.atttypid, a.atttypmod), o.collname, a.attnotnull, a.attidentity,
    pg_get_expr(d.adbin, d.adrelid)) AS definition
FROM pg_class AS c
JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
LEFT JOIN pg_collation AS o ON o.oid = a.attcollation
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
UNION ALL
SELECT i.relname, replace(pg_get_indexdef(i.oid), ' ON ONLY ', ' ON ')
FROM pg_class AS i JOIN pg_index AS x ON x.indexrelid = i.oid JOIN pg_class AS c ON c.oid = x.indrelid
WHERE i.relnamespace = 'public'::regnamespace AND NOT c.relispartition
UNION ALL
SELECT conname, pg_get_constraintdef(o.oid)
FROM pg_constraint AS o JOIN pg_class AS c ON c.oid = o.conrelid
WHERE o.connamespace = 'public'::regnamespace AND o.contype IN ('p', 'u', 'c', 'f') AND NOT c.relispartition
"""


async def test_postgresql_gets_the_tables_of_the_code(postgres_server: PostgresServer) -> None:
    schemas = []
    for create in (upgrade, create_tables_of_the_code):
        url = await postgres_server.create_empty()
        database = Database(url)
        try:
            await create(database)
            async with database.read() as tx:
                schemas.append({(row.name, row.definition) for row in await tx.execute(text(_COLUMNS))})
        finally:
            await database.close()
            await postgres_server.drop_empty(url)
    differences = {name for name, _ in schemas[0] ^ schemas[1]}
    assert len(schemas[1]) > 1_000
    # A partitioned table needs the column of its partitions in its key.
    assert differences == {"pk_events", *EXPRESSION_INDEXES}


async def create_tables_of_the_code(database: Database) -> None:
    def create(connection: Connection) -> None:
        for table in metadata.sorted_tables:
            connection.execute(CreateTable(table))
            for index in table.indexes:
                connection.execute(CreateIndex(tool.for_postgresql(index)))
        connection.commit()

    await database.run_sync_ddl(create)


def test_revisions_create_the_tables_of_the_code() -> None:
    assert list(tool.check()) == []
    assert facts_of_code() == facts_of_revision(newest_revision())


async def test_both_engines_get_the_same_names(database: Database) -> None:
    async with database.read() as tx:
        assert await read_facts(tx, database.dialect) == facts_of_code()


def test_check_finds_each_kind_of_difference(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    steps = (
        'sql("CREATE TABLE mottos (id INTEGER NOT NULL, CONSTRAINT pk_mottos PRIMARY KEY (id))")',
        'sql("ALTER TABLE tenants DROP COLUMN brand")',
        'sql("DROP INDEX ix_contacts_inactive"), sql("CREATE INDEX ix_contacts_inactive ON contacts (id)")',
        'sql("DROP INDEX ix_contacts_not_deleted")',
        'sql("ALTER TABLE tenants DROP COLUMN timezone")'
        ', sql("ALTER TABLE tenants ADD COLUMN timezone TEXT DEFAULT 1")',
    )
    add_revisions(tmp_path, monkeypatch, *steps)
    monkeypatch.setattr(tool, "VERSIONS", tmp_path / "versions")
    found = "\n".join(tool.check())
    assert "tables: mottos is not in tables.py" in found
    assert "columns: tenants.brand is in tables.py, but no revision creates it" in found
    assert "columns: tenants.timezone is TEXT DEFAULT 1 in the revisions and TEXT in tables.py" in found
    assert "indexes: ix_contacts_inactive is ('contacts', ('id',)" in found
    assert "indexes: ix_contacts_not_deleted is in tables.py" in found


def test_released_revision_must_not_change(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    add_revisions(tmp_path, monkeypatch)
    monkeypatch.setattr(tool, "VERSIONS", tmp_path / "versions")
    with (tmp_path / "versions" / "0001_initial_schema.sqlite.sql").open("a") as file:
        file.write("-- changed\n")
    assert list(tool.check()) == [
        "0001_initial_schema.sqlite.sql: a release has this revision, so it must not change; add another revision"
    ]


def test_two_revisions_of_one_number_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    [name] = add_revisions(tmp_path, monkeypatch, 'sql("SELECT 1")')
    versions = tmp_path / "versions"
    (versions / f"{name}_other.py").write_text((versions / f"{name}_next.py").read_text())
    monkeypatch.setattr(tool, "VERSIONS", versions)
    assert list(tool.check()) == [
        f"revision {name}: 2 files have this number; rename the one that has not landed to the next"
    ]


async def test_draft_turns_the_revisions_into_the_code(
    empty: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The draft of a revision that undoes others creates the schema of the code again, on both engines."""
    add_revisions(
        tmp_path,
        monkeypatch,
        'sql("DROP TABLE mailout_logs"), sql("ALTER TABLE tenants DROP COLUMN weight")',
        'sql("ALTER TABLE tenants ADD COLUMN motto TEXT"), sql("DROP INDEX ix_contacts_snoozed")',
    )
    monkeypatch.setattr(tool, "VERSIONS", tmp_path / "versions")
    draft = tool.write_draft("Undo what came before")
    assert draft.name.endswith("_undo_what_came_before.py")
    assert load_revision(newest_revision()).oldest_compatible == newest_revision()  # It removes a column.
    assert list(tool.check()) == []
    await upgrade(empty)
    async with empty.read() as tx:
        assert await read_facts(tx, empty.dialect) == facts_of_code()


async def test_upgrading_again_changes_nothing(database: Database) -> None:
    before = await current_revision(database)
    await upgrade(database)
    assert await current_revision(database) == before == newest_revision()


async def test_upgrades_at_once_do_not_disturb_each_other(empty: Database) -> None:
    others = [Database(empty.url.render_as_string(hide_password=False)) for _ in range(3)]
    try:
        await asyncio.gather(*(upgrade(each) for each in (empty, *others)))
    finally:
        for each in others:
            await each.close()
    async with empty.read() as tx:
        assert len(await tx.execute(text("SELECT * FROM schema_revisions"))) == len(list_names())


async def test_upgrade_keeps_the_rows_of_an_older_schema(
    empty: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    await upgrade(empty)
    [added] = add_revisions(tmp_path, monkeypatch, MOTTO)
    assert (await load_schema(empty)).status is SchemaStatus.OLDER
    with pytest.raises(SchemaOutdated, match=rf"older than this version \(needs {added}\)"):
        await require_usable(empty)
    await upgrade(empty)
    async with empty.read() as tx:
        [tenant] = await tx.execute(text("SELECT name, motto FROM tenants"))
        revisions = await tx.execute(text("SELECT revision, finished_at FROM schema_revisions ORDER BY revision"))
    assert tuple(tenant) == ("default", "none")
    assert [row.revision for row in revisions] == list(list_names())
    assert all(row.finished_at for row in revisions)


async def test_empty_database_gets_every_revision(
    empty: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    [added] = add_revisions(tmp_path, monkeypatch, MOTTO)
    await upgrade(empty)
    async with empty.read() as tx:
        assert len(await tx.execute(text("SELECT motto FROM tenants"))) == 1
    assert await current_revision(empty) == added


async def test_failed_revision_changes_nothing(
    empty: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    await upgrade(empty)
    before = await current_revision(empty)
    add_revisions(tmp_path, monkeypatch, f'{MOTTO}, sql("ALTER TABLE nowhere ADD COLUMN a TEXT")')
    with pytest.raises(Exception, match="nowhere"):
        await upgrade(empty)
    assert await current_revision(empty) == before
    async with empty.read() as tx:
        assert "motto" not in (await tx.execute(text("SELECT * FROM tenants")))[0]._fields


async def test_unknown_revision_is_refused_in_plain_words(empty: Database) -> None:
    await upgrade(empty)
    await record_revision(empty, next_name(), oldest_compatible=next_name())
    message = f"revision {next_name()}, which this version of Mailwright does not know"
    for refused in (upgrade, prepare, require_usable):
        with pytest.raises(UnknownSchema, match=message):
            await refused(empty)


async def test_older_version_goes_on_beside_a_compatible_newer_one(empty: Database) -> None:
    await upgrade(empty)
    await record_revision(empty, next_name(), oldest_compatible=newest_revision())
    await require_usable(empty)
    await prepare(empty)
    with pytest.raises(UnknownSchema):  # Nothing is downgraded.
        await upgrade(empty)


async def record_revision(database: Database, name: str, *, oldest_compatible: str) -> None:
    """Record a revision of a newer version."""
    row = {"name": name, "oldest": oldest_compatible}
    async with database.write() as tx:
        insert = "INSERT INTO schema_revisions VALUES (:name, '9.0', :oldest, 1, 1, 1, NULL)"
        await tx.execute(text(insert), row)


async def test_startup_upgrades_sqlite_and_explains_postgresql(empty: Database) -> None:
    if empty.dialect == "sqlite":
        await prepare(empty)
        assert await current_revision(empty) == newest_revision()
        return
    with pytest.raises(SchemaOutdated) as refusal:
        await prepare(empty)
    assert str(refusal.value) == f"The database is empty (needs schema {newest_revision()})."


async def as_earlier_build(database: Database, *changes: str) -> None:
    """Turn a database of revision 0001 into one of a build before 0.2.0."""
    await create_schema(database, "0001")
    async with database.write() as tx:
        for change in ("DROP TABLE schema_revisions", "CREATE TABLE alembic_version (version_num TEXT)", *changes):
            await tx.execute(text(change))


async def test_database_of_the_last_earlier_build_is_upgraded(empty: Database) -> None:
    await as_earlier_build(
        empty, "INSERT INTO contacts (contact_id, tenant_id, email, created_at) VALUES ('a', 1, 'b', 1)"
    )
    assert (await load_schema(empty)).status is SchemaStatus.UNRECORDED
    with pytest.raises(SchemaOutdated):
        await require_usable(empty)
    await upgrade(empty)
    assert (await load_schema(empty)).status is SchemaStatus.CURRENT
    async with empty.read() as tx:
        assert len(await tx.execute(text("SELECT 1 FROM contacts"))) == 1


async def test_database_of_another_earlier_build_is_refused(empty: Database) -> None:
    await as_earlier_build(empty, "ALTER TABLE tenants DROP COLUMN brand", "ALTER TABLE lists ADD COLUMN colour TEXT")
    for refused in (upgrade, prepare, require_usable):
        with pytest.raises(DatabaseNotReady) as refusal:
            await refused(empty)
        assert "A build of Mailwright before 0.2.0 created the database" in str(refusal.value)
        assert "column tenants.brand is missing, column lists.colour is not in 0.2.0" in str(refusal.value)


async def test_changed_tables_are_named(empty: Database) -> None:
    await upgrade(empty)
    async with empty.write() as tx:
        await tx.execute(text("DROP INDEX ix_contacts_snoozed"))
        await tx.execute(text(f"DROP VIEW {VIEWS[0]}"))
    for refused in (upgrade, prepare, require_usable):
        with pytest.raises(DatabaseNotReady) as refusal:
            await refused(empty)
        assert f"index ix_contacts_snoozed is missing, view {VIEWS[0]} is missing" in str(refusal.value)


async def test_objects_of_operators_do_not_matter(empty: Database) -> None:
    await upgrade(empty)
    async with empty.write() as tx:
        await tx.execute(text("CREATE INDEX for_our_reports ON contacts (name)"))
        await tx.execute(text("CREATE TABLE of_our_own (id int)"))
    await require_usable(empty)
    await upgrade(empty)


async def test_tables_of_another_program_are_left_alone(empty: Database) -> None:
    async with empty.write() as tx:
        await tx.execute(text("CREATE TABLE users (id int)"))
    for refused in (upgrade, prepare, require_usable):
        with pytest.raises(DatabaseNotReady, match=r"belongs to another program \(table users\)"):
            await refused(empty)
    async with empty.read() as tx:
        assert {fact.name for fact in await read_facts(tx, empty.dialect)} == {"users", "users.id"}
