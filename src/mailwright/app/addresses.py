"""The public address: from the settings, or the address that the server stored in the database."""

import asyncio
import contextlib
from typing import Final

from mailwright.domain.errors import NotDurable
from mailwright.ops.settings import Settings
from mailwright.outbox.installation import find_address
from mailwright.storage.database import Database

# How often to check for a new address. Links may use the old address this long after the server moved.
POLL_SECONDS: Final = 2.0


async def located(settings: Settings, database: Database) -> Settings:
    if settings.has_public_address:
        return settings
    address = await find_address(database)
    return settings if address is None else settings.served_at(address)


async def wait_until_moved(settings: Settings, database: Database) -> str:
    """Wait until the server stores an address that differs from these settings, and return it."""
    while True:
        await asyncio.sleep(POLL_SECONDS)
        with contextlib.suppress(NotDurable):  # The next round checks again.
            address = (await located(settings, database)).public_url
            if address != settings.public_url:
                return address
