"""Find settings of a PostgreSQL server with which a crash or a failover can lose accepted messages."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sqlalchemy import text

from mailwright.storage.database import PROMPT_SECONDS, Database

# The settings that make a commit durable, each with the risk of turning it off.
_RISKS: Final = {
    "fsync": "a power failure can damage the whole database",
    "full_page_writes": "a power failure can damage pages that were being written",
    "synchronous_commit": "a crash of the server can lose accepted messages and send others twice",
}
_STANDBYS: Final = "synchronous_standby_names"
_LOST_AT_FAILOVER: Final = (
    "a failover loses the latest accepted messages, and unsubscribes and results of the last seconds"
)
# Every role may count the receivers, but only some may see which of them are synchronous. A backup is no standby.
_EFFECTIVE: Final = text(
    "SELECT name, setting FROM pg_settings"
    " WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit', 'synchronous_standby_names')"
    " UNION ALL SELECT 'standbys', CAST(count(*) AS text) FROM pg_stat_replication"
    " WHERE application_name NOT IN ('pg_basebackup', 'pg_receivewal')"
)
# The settings that decide what a failover loses.
REPLICATION: Final = frozenset({"synchronous_commit", _STANDBYS})


@dataclass(frozen=True, slots=True)
class UnsafeSetting:
    name: str
    value: str
    risk: str
    wanted: str

    @property
    def problem(self) -> str:
        return f"the PostgreSQL setting {self.name} is {self.value or 'empty'}: {self.risk}"


async def find_unsafe_settings(database: Database) -> list[UnsafeSetting]:
    """Return the unsafe settings of Mailwright's own connections."""
    if database.dialect == "sqlite":
        return []
    async with database.read(within=PROMPT_SECONDS) as tx:
        rows = await tx.execute(_EFFECTIVE)
    return unsafe_settings({row.name: row.setting for row in rows})


def unsafe_settings(settings: Mapping[str, str]) -> list[UnsafeSetting]:
    found = [UnsafeSetting(name, "off", risk, "on") for name, risk in _RISKS.items() if settings.get(name) == "off"]
    if settings.get("standbys", "0") != "0" and not settings.get(_STANDBYS):
        risk = f"the standby receives commits later (asynchronously), and {_LOST_AT_FAILOVER}"
        found.append(UnsafeSetting(_STANDBYS, "", risk, "'ANY 1 (*)'"))
    if settings.get(_STANDBYS) and settings.get("synchronous_commit") == "local":
        risk = f"commits do not wait for the standby, and {_LOST_AT_FAILOVER}"
        found.append(UnsafeSetting("synchronous_commit", "local", risk, "on"))
    return found
