"""Create and delete indexes on PostgreSQL while writes go on.

Safe to begin again, and from several processes at once.
"""

from typing import Any, Final

from sqlalchemy import Connection, text

from mailwright.storage.revision import IndexChange

# A killed process leaves an invalid index. So does one that another process is building at this moment.
_STATE: Final = text("""
SELECT i.indisvalid AS is_valid, EXISTS (
    SELECT 1 FROM pg_locks AS l
    WHERE l.relation = i.indrelid AND l.mode = 'ShareUpdateExclusiveLock' AND l.granted
      AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  ) AS is_busy
FROM pg_index AS i WHERE i.indexrelid = to_regclass(:name)
""")
_WAIT: Final = text("SELECT pg_sleep(0.1)")
# A deadlock, or an index of this name: another process began at the same moment.
_OTHER_PROCESS: Final = ("40P01", "42P07")


def change_index(connection: Connection, change: IndexChange) -> None:
    """Run the statement, which PostgreSQL refuses in a transaction, until the index is as it should be."""
    while not _is_done(connection, change):
        try:
            _run_alone(connection, change.postgresql)
        except Exception as error:
            if getattr(error, "sqlstate", None) not in _OTHER_PROCESS:
                raise


def _is_done(connection: Connection, change: IndexChange) -> bool:
    """Wait while another process changes an index of the table. Delete the incomplete index of a killed process."""
    while True:
        with connection.begin():
            found = connection.execute(_STATE, {"name": change.name}).one_or_none()
            if found is None or (change.creates and found.is_valid):
                return change.creates == (found is not None)
            if found.is_busy:
                connection.execute(_WAIT)
                continue
        if change.creates:
            _run_alone(connection, f"DROP INDEX CONCURRENTLY IF EXISTS {change.name}")
        return False


def _run_alone(connection: Connection, statement: str) -> None:
    """Run a statement outside of a transaction, as one message: behind a pooler, two could reach different servers."""
    driver: Any = connection.connection.dbapi_connection
    driver.run_async(lambda session: session.execute(statement))
