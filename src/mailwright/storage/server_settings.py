"""Find settings of a PostgreSQL server with which a crash or a failover can lose accepted messages."""

from collections.abc import Mapping
from typing import Final

from sqlalchemy import text

from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import lazy_gettext
from mailwright.storage.database import PROMPT_SECONDS, Database
from mailwright.storage.standbys import STANDBYS, Standbys, standbys_from

# The settings that make a commit durable, each with the risk of turning it off.
_RISKS: Final = {
    "fsync": lazy_gettext("a power failure can damage the whole database"),
    "full_page_writes": lazy_gettext("a power failure can damage pages that were being written"),
    "synchronous_commit": lazy_gettext("a crash of the server can lose accepted messages and send others twice"),
}
_STANDBYS: Final = "synchronous_standby_names"
# The settings that decide what a failover loses.
REPLICATION: Final = frozenset({"synchronous_commit", _STANDBYS})
_EFFECTIVE: Final = text(
    "SELECT name, setting FROM pg_settings WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit')"
)


@dataclass(frozen=True, slots=True)
class UnsafeSetting:
    name: str
    value: str
    risk: str
    advice: str

    @property
    def problem(self) -> str:
        return lazy_gettext(
            "the PostgreSQL setting {name} is {value}: {risk}",
            name=self.name,
            value=self.value or lazy_gettext("empty"),
            risk=self.risk,
        )


async def find_unsafe_settings(database: Database) -> list[UnsafeSetting]:
    """Return the unsafe settings of Mailwright's own connections."""
    if database.dialect == "sqlite":
        return []
    async with database.read(within=PROMPT_SECONDS) as tx:
        settings = {row.name: row.setting for row in await tx.execute(_EFFECTIVE)}
        standbys = standbys_from(await tx.execute(STANDBYS))
    return unsafe_settings(settings, standbys)


async def find_standbys(database: Database) -> Standbys:
    """Return the standbys of a PostgreSQL server; none on SQLite."""
    if database.dialect == "sqlite":
        return Standbys()
    async with database.read(within=PROMPT_SECONDS) as tx:
        return standbys_from(await tx.execute(STANDBYS))


def unsafe_settings(settings: Mapping[str, str], standbys: Standbys) -> list[UnsafeSetting]:
    found = [
        UnsafeSetting(name, "off", risk, _set(name, "on"))
        for name, risk in _RISKS.items()
        if settings.get(name) == "off"
    ]
    if standbys.connected and not standbys.required:
        advice = (
            _set(_STANDBYS, "'ANY 1 (*)'")
            if len(standbys.connected) > 1
            else lazy_gettext(
                "add a second standby and set synchronous_standby_names = 'ANY 1 (*)' in postgresql.conf; with a "
                "single one, nothing is accepted while it is down, so otherwise leave the setting empty and accept the "
                "loss; see docs/postgresql.md"
            )
        )
        risk = lazy_gettext(
            "the standby receives commits later (asynchronously), and a failover loses the latest accepted messages, "
            "and unsubscribes and results of the last seconds"
        )
        found.append(UnsafeSetting(_STANDBYS, "", risk, advice))
    if standbys.required and settings.get("synchronous_commit") == "local":
        risk = lazy_gettext(
            "commits do not wait for the standby, and a failover loses the latest accepted messages, and unsubscribes "
            "and results of the last seconds"
        )
        found.append(UnsafeSetting("synchronous_commit", "local", risk, _set("synchronous_commit", "on")))
    elif standbys.required and standbys.required == standbys.synchronous:
        risk = lazy_gettext(
            "each commit waits for {required} of {connected} connected standbys, so nothing is accepted or sent while "
            "one of them is down, also if it only serves reports",
            required=standbys.required,
            connected=standbys.synchronous,
        )
        advice = lazy_gettext(
            "add another standby; if the only one is a replica for reading, set synchronous_standby_names = '' "
            "instead, and accept that a lost primary loses its latest commits; see docs/postgresql.md"
        )
        found.append(UnsafeSetting(_STANDBYS, standbys.names, risk, advice))
    return found


def _set(name: str, value: str) -> str:
    return lazy_gettext(
        "set {name} = {wanted} in postgresql.conf; docs/postgresql.md explains which set-ups lose nothing",
        name=name,
        wanted=value,
    )
