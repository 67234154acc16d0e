"""Open the database of an installation, with the key that encrypts its stored secrets, and its Valkey."""

from typing import TYPE_CHECKING

from mailwright.ops.settings import Settings
from mailwright.storage.database import Database
from mailwright.storage.secret_box import SecretBox

if TYPE_CHECKING:
    from redis.asyncio import Redis


def open_database(settings: Settings) -> Database:
    key = settings.secret_key.get_secret_value() if settings.secret_key is not None else None
    return Database(settings.database_url, secret_box=SecretBox(key, settings.secret_key_file))


def valkey_client(url: str | None) -> "Redis | None":
    if url is None:
        return None
    from mailwright.outbox import valkey  # noqa: PLC0415 - imported only if Valkey is configured

    return valkey.valkey_client(url)
