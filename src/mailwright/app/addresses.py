"""The public address: from the settings, or the address that the server stored in the database."""

from mailwright.ops.settings import Settings
from mailwright.outbox.installation import find_address
from mailwright.storage.database import Database


async def located(settings: Settings, database: Database) -> Settings:
    if settings.has_public_address:
        return settings
    address = await find_address(database)
    return settings if address is None else settings.served_at(address)
