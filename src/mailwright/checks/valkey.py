"""Check whether Valkey responds. Without it, everything works through the database, but more slowly."""

from typing import TYPE_CHECKING

from mailwright.domain.errors import MailwrightError

if TYPE_CHECKING:
    from redis.asyncio import Redis


async def find_valkey_error(url: str) -> str | None:
    """Connect to Valkey. Return why it does not respond, or None."""
    from mailwright.outbox.valkey import valkey_client  # noqa: PLC0415 - imported only if Valkey is configured

    try:
        async with valkey_client(url) as client:
            return await ping(client)
    except MailwrightError as error:
        return str(error)


async def ping(client: "Redis") -> str | None:
    """Return why Valkey does not respond, or None."""
    from mailwright.outbox.valkey import UNAVAILABLE  # noqa: PLC0415 - as above

    try:
        await client.ping()
    except UNAVAILABLE as error:
        return str(error)
    return None
