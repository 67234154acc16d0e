"""Where we are reached: a process that is not told by its settings asks the database, where the server has told it."""

from mailwright.ops.settings import Settings
from mailwright.outbox.installation import found_address
from mailwright.storage.database import Database


async def located(settings: Settings, database: Database) -> Settings:
    if settings.tells_address:
        return settings
    address = await found_address(database)
    return settings if address is None else settings.served_at(address)
