"""Return the space of deleted rows of a SQLite file to the file system. PostgreSQL does this itself (autovacuum)."""

from typing import Any

from mailwright.storage.database import Database


async def release_pages(database: Database, pages: int) -> int:
    """Remove free pages from a SQLite file, at most this many, and return how many are still free.

    A file that was created without incremental vacuum keeps its free pages and uses them again.
    """
    free: list[int] = []

    def work(connection: Any) -> None:
        driver = connection.connection.driver_connection
        # `execute` would stop after one page, because the pragma returns a row without columns for each.
        driver.executescript(f"PRAGMA incremental_vacuum({int(pages)})")
        free.append(driver.execute("PRAGMA freelist_count").fetchone()[0])

    await database.run_sync_ddl(work)
    return free[0]
