"""A database in its newest form: whoever opens an engine on PostgreSQL finds it like that, or is refused."""

from mailwright.storage.database import Database
from mailwright.storage.migrate import upgrade


async def migrated(url: str) -> str:
    database = Database(url)
    await upgrade(database)
    await database.close()
    return url
