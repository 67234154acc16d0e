"""Open the database of an installation, with the key that encrypts its stored secrets."""

from mailwright.ops.settings import Settings
from mailwright.storage.database import Database
from mailwright.storage.secret_box import SecretBox


def open_database(settings: Settings) -> Database:
    key = settings.secret_key.get_secret_value() if settings.secret_key is not None else None
    return Database(settings.database_url, secret_box=SecretBox(key, settings.secret_key_file))
