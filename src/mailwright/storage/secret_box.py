"""Encrypt the secrets in the database with a key that is stored elsewhere.

A copy of the database alone, for example a stolen backup, then reveals no secret of a second factor, webhook or key
pair. The key comes from a setting or from a file. The database records the key's fingerprint. A process with another
key, for example a second server that created its own key, fails before it stores anything that other processes cannot
read.
"""

import base64
import hashlib
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import select

from mailwright.domain.errors import ConfigurationInvalid
from mailwright.storage.statements import statement
from mailwright.storage.tables import (
    api_keys,
    installation,
    provider_configurations,
    report_sources,
    sender_domains,
    stored_settings,
    users,
    webhook_endpoints,
)

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet

    from mailwright.storage.database import Transaction

STORE_SECRET_KEY_ID = statement(__package__, "store_secret_key_id")

MIN_KEY_LENGTH: Final = 32
# The name of the key's fingerprint in the table `installation`.
KEY_ID: Final = "secret_key_id"
_PREFIX: Final = "fernet:"


def is_encrypted(stored: str) -> bool:
    return stored.startswith(_PREFIX)


class SecretKeyInvalid(ConfigurationInvalid):
    """The key that encrypts stored secrets cannot be used."""

    code = "SECRET_KEY_INVALID"


class SecretBox:
    """Encrypts with the first key and decrypts with any key. Reads the keys, or creates the key file, on first use."""

    def __init__(self, setting: str | None = None, file: Path | None = None) -> None:
        self._setting = setting
        self._file = file
        self._loaded: Sequence[str] | None = None

    async def encrypt(self, tx: "Transaction", text: str) -> str:
        """Encrypt a text that the transaction stores. Raise if the database was used with a different key."""
        await self._require_same_key(tx)
        return _PREFIX + self._fernet().encrypt(text.encode()).decode()

    def decrypt(self, stored: str) -> str:
        from cryptography.fernet import InvalidToken  # noqa: PLC0415 - large, and rarely needed

        try:
            if not stored.startswith(_PREFIX):
                raise InvalidToken
            return self._fernet().decrypt(stored.removeprefix(_PREFIX)).decode()
        except InvalidToken as error:
            raise self._wrong_key() from error

    def seal(self, text: str) -> str:
        """Encrypt a text that is not stored in the database, such as a short-lived cookie."""
        return self._fernet().encrypt(text.encode()).decode()

    def unseal(self, sealed: str) -> str | None:
        """Return the sealed text, or None if another key sealed it or somebody changed it."""
        from cryptography.fernet import InvalidToken  # noqa: PLC0415 - large, and rarely needed

        try:
            return self._fernet().decrypt(sealed).decode()
        except InvalidToken:
            return None

    async def _require_same_key(self, tx: "Transaction") -> None:
        ids = [_fingerprint(key) for key in self._keys()]
        rows = await tx.execute(select(installation.c.value).where(installation.c.name == KEY_ID))
        if rows and rows[0].value not in ids and await _has_secrets(tx):
            raise self._wrong_key()
        if not rows or rows[0].value != ids[0]:
            await tx.run(STORE_SECRET_KEY_ID, name=KEY_ID, value=ids[0])

    def _keys(self) -> Sequence[str]:
        if self._loaded is None:
            self._loaded = self._from_setting() or self._from_file()
        return self._loaded

    def _from_setting(self) -> list[str]:
        keys = [key.strip() for key in (self._setting or "").split(",") if key.strip()]
        if any(len(key) < MIN_KEY_LENGTH for key in keys):
            raise SecretKeyInvalid(
                f"MAILWRIGHT_SECRET_KEY: each key needs at least {MIN_KEY_LENGTH} characters; "
                "create one with `openssl rand -base64 32`"
            )
        return keys

    def _from_file(self) -> list[str]:
        if self._file is None:
            raise SecretKeyInvalid("There is no key for stored secrets. Set MAILWRIGHT_SECRET_KEY.")
        try:
            if not self._file.exists():
                _create_key_file(self._file)
            if self._file.stat().st_mode & 0o007:
                raise SecretKeyInvalid(f"{self._file}: other users can access this key; run `chmod 600 {self._file}`")
            keys = self._file.read_text(encoding="utf-8").split()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not text"
            raise SecretKeyInvalid(f"{self._file}: the key for stored secrets cannot be read: {reason}") from error
        if not keys or any(len(key) < MIN_KEY_LENGTH for key in keys):
            raise SecretKeyInvalid(f"{self._file}: this is not a key file; restore it from your backup")
        return keys

    def _fernet(self) -> "MultiFernet":
        from cryptography.fernet import Fernet, MultiFernet  # noqa: PLC0415 - large, and rarely needed

        digests = [hashlib.sha256(key.encode()).digest() for key in self._keys()]
        return MultiFernet([Fernet(base64.urlsafe_b64encode(digest)) for digest in digests])

    def _wrong_key(self) -> SecretKeyInvalid:
        source = "MAILWRIGHT_SECRET_KEY" if self._setting else str(self._file)
        return SecretKeyInvalid(
            f"The secrets in the database were encrypted with another key than the one in {source}. Restore the old "
            "key, or use the same MAILWRIGHT_SECRET_KEY on every server. If it is lost, reset every second factor, "
            "delete every webhook and sender domain, revoke every key pair of SES and delete every stored secret; "
            "Mailwright then accepts a new key."
        )


async def _has_secrets(tx: "Transaction") -> bool:
    factors = select(users.c.id).where(users.c.totp_secret.is_not(None)).limit(1)
    pairs = select(api_keys.c.id).where(api_keys.c.encrypted_key.is_not(None)).limit(1)
    endpoints = select(webhook_endpoints.c.id).limit(1)
    settings = select(stored_settings.c.name).where(stored_settings.c.value.startswith(_PREFIX)).limit(1)
    rows = [select(table.c.id).limit(1) for table in (sender_domains, provider_configurations, report_sources)]
    return any([await tx.execute(stored) for stored in (factors, pairs, endpoints, settings, *rows)])


def _create_key_file(path: Path) -> None:
    """Create the file in one step, so that processes that start together use the same key."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(secrets.token_urlsafe(32) + "\n")
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(part, path)
    except FileExistsError:
        pass  # Another process created the file first.
    finally:
        part.unlink()


def _fingerprint(key: str) -> str:
    return hashlib.sha256(b"mailwright secret key " + key.encode()).hexdigest()[:16]
