"""Open the database of an installation, with the key that encrypts its stored secrets, and its Valkey."""

from typing import TYPE_CHECKING

from mailwright.ops.settings import Settings
from mailwright.storage.database import Database, parse_url
from mailwright.storage.database_signals import DatabaseSignals
from mailwright.storage.secret_box import SecretBox
from mailwright.worker.wake import DatabaseWake, ValkeyWake, Wake

if TYPE_CHECKING:
    from redis.asyncio import Redis


def open_database(settings: Settings) -> Database:
    key = settings.secret_key.get_secret_value() if settings.secret_key is not None else None
    return Database(
        settings.database_url,
        connections=settings.database_connections,
        secret_box=SecretBox(key, settings.secret_key_file),
        read_url=settings.database_read_url,
    )


def valkey_client(url: str | None) -> "Redis | None":
    if url is None:
        return None
    from mailwright.outbox import valkey  # noqa: PLC0415 - imported only if Valkey is configured

    return valkey.valkey_client(url)


def make_wake(settings: Settings, database: Database, valkey: "Redis | None") -> Wake:
    """Return the signal that wakes workers: through Valkey, through PostgreSQL, or in this process only."""
    if valkey is not None:
        return ValkeyWake(valkey)
    if database.dialect == "sqlite":
        return Wake()
    direct = settings.database_direct_url
    return DatabaseWake(DatabaseSignals(database, parse_url(direct) if direct is not None else None))
