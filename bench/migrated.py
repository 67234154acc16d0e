"""Create a database with the current schema."""

from mailwright.storage.database import Database
from mailwright.storage.migrate import upgrade


async def migrated(url: str) -> str:
    database = Database(url)
    await upgrade(database)
    await database.close()
    return url
