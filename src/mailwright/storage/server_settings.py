"""Find PostgreSQL server settings that can cause a power failure to lose accepted messages."""

from typing import Final

from sqlalchemy import text

from mailwright.storage.database import PROMPT_SECONDS, Database

# The settings that make a commit durable, each with the risk of turning it off.
_RISKS: Final = {
    "fsync": "a power failure can damage the whole database",
    "full_page_writes": "a power failure can damage pages that were being written",
    "synchronous_commit": "a crash of the server can lose accepted messages and send others twice",
}
_EFFECTIVE: Final = text(
    "SELECT name, setting FROM pg_settings WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit')"
)


async def find_unsafe_settings(database: Database) -> dict[str, str]:
    """Return each durability setting that is off for Mailwright's own connections, with its risk."""
    if database.dialect == "sqlite":
        return {}
    async with database.read(within=PROMPT_SECONDS) as tx:
        rows = await tx.execute(_EFFECTIVE)
    return unsafe_settings({row.name: row.setting for row in rows})


def unsafe_settings(settings: dict[str, str]) -> dict[str, str]:
    return {name: risk for name, risk in _RISKS.items() if settings.get(name) == "off"}
