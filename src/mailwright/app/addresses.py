"""Where we are reached: a process that is not told by its settings asks the database, where the server has told it."""

import asyncio
import contextlib
from typing import Final

from mailwright.domain.errors import NotDurable
from mailwright.ops.settings import Settings
from mailwright.outbox.installation import find_address
from mailwright.storage.database import Database

# So long may mails still lead to where nobody serves any more.
LOOK_SECONDS: Final = 2.0


async def located(settings: Settings, database: Database) -> Settings:
    if settings.has_public_address:
        return settings
    address = await find_address(database)
    return settings if address is None else settings.served_at(address)


async def wait_until_moved(settings: Settings, database: Database) -> str:
    """The new address, once a server has told of another than these settings know. Those that name one never change."""
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        with contextlib.suppress(NotDurable):  # it is looked at again
            address = (await located(settings, database)).public_url
            if address != settings.public_url:
                return address
