"""Stored secrets are encrypted with a key outside of the database, and files are private, on both engines."""

import os
import stat
from pathlib import Path
from typing import Any

import pyotp
import pytest
from sqlalchemy import select

from mailwright.access.failed_sign_ins import FailedSignIns
from mailwright.access.roles import Role
from mailwright.access.second_factors import SecondFactors
from mailwright.access.users import Users
from mailwright.app.databases import open_database
from mailwright.domain.clock import ManualClock
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.events.outbound.endpoints import WebhookEndpointInput, WebhookEndpoints
from mailwright.ops.settings import load
from mailwright.providers.mailbox.provider import MailboxProvider
from mailwright.storage.database import Database
from mailwright.storage.migrate import upgrade
from mailwright.storage.secret_box import SecretBox, SecretKeyInvalid
from mailwright.storage.tables import users as user_rows
from mailwright.storage.tables import webhook_endpoints
from tests.builders import DEFAULT_TENANT, account_notices, user_store
from tests.conftest import DatabaseAddress

PASSWORD = "correct horse battery"
HOOK = WebhookEndpointInput("https://example.com/hook")
OLD, NEW = "o" * 32, "n" * 32


async def stored(database: Database, column: Any) -> list[str]:
    async with database.read() as tx:
        return [row[0] for row in await tx.execute(select(column)) if row[0] is not None]


def users_of(database: Database, clock: ManualClock) -> Users:
    return user_store(database, clock)


@pytest.mark.promise("secrets-encrypted")
async def test_second_factor_is_encrypted_and_works(database: Database, clock: ManualClock) -> None:
    users = users_of(database, clock)
    ada = await users.create("ada", PASSWORD, Role.ADMIN, actor="test")
    factors = SecondFactors(database, clock, FailedSignIns(database, clock), account_notices(database, clock))
    secret = await factors.begin(ada)
    assert await factors.pending_secret(ada) == secret
    assert await factors.confirm(ada, pyotp.TOTP(secret).at(clock.now() // 1000)) is not None
    clock.advance(30_000)
    assert await factors.verify(ada, pyotp.TOTP(secret).at(clock.now() // 1000), "192.0.2.1")
    [kept] = await stored(database, user_rows.c.totp_secret)
    assert secret not in kept


@pytest.mark.promise("secrets-encrypted")
async def test_webhook_secrets_are_encrypted(database: Database, clock: ManualClock) -> None:
    endpoints = WebhookEndpoints(database, clock)
    endpoint, first = await endpoints.create(DEFAULT_TENANT, HOOK, actor="test")
    rotated, second = await endpoints.rotate(endpoint.webhook_id, tenant_id=DEFAULT_TENANT, actor="test")
    [kept] = await stored(database, webhook_endpoints.c.secrets)
    assert first not in kept
    assert second not in kept
    assert [database.secret_box.decrypt(key) for key in rotated.keys(clock.now())] == [second, first]


@pytest.mark.promise("secrets-encrypted")
async def test_another_key_fails_closed_and_rotation_works(engine: DatabaseAddress, clock: ManualClock) -> None:
    old, other = (Database(engine.url, secret_box=SecretBox(key)) for key in (OLD, NEW))
    rotating = Database(engine.url, secret_box=SecretBox(f"{NEW}, {OLD}"))
    try:
        endpoint, secret = await WebhookEndpoints(old, clock).create(DEFAULT_TENANT, HOOK, actor="test")
        with pytest.raises(SecretKeyInvalid, match="encrypted with another key"):
            await WebhookEndpoints(other, clock).create(DEFAULT_TENANT, HOOK, actor="test")
        with pytest.raises(SecretKeyInvalid, match="encrypted with another key"):
            other.secret_box.decrypt(endpoint.keys(clock.now())[0])
        assert rotating.secret_box.decrypt(endpoint.keys(clock.now())[0]) == secret
        await WebhookEndpoints(rotating, clock).create(DEFAULT_TENANT, HOOK, actor="test")
        # From now on the new key is the one to use.
        with pytest.raises(SecretKeyInvalid):
            await WebhookEndpoints(old, clock).create(DEFAULT_TENANT, HOOK, actor="test")
        await WebhookEndpoints(other, clock).create(DEFAULT_TENANT, HOOK, actor="test")
        # Once no secret is left, a lost key can be replaced.
        for each in await WebhookEndpoints(old, clock).list_all(DEFAULT_TENANT):
            await WebhookEndpoints(old, clock).remove(each.webhook_id, tenant_id=None, actor="test")
        await WebhookEndpoints(old, clock).create(DEFAULT_TENANT, HOOK, actor="test")
    finally:
        for database in (old, other, rotating):
            await database.close()


@pytest.mark.promise("secrets-encrypted")
async def test_key_file_is_created_without_configuration(
    engine: DatabaseAddress, clock: ManualClock, tmp_path: Path
) -> None:
    file = tmp_path / "config" / "mailwright.key"
    settings = load(database_url=engine.url, secret_key_file=file)
    first, second = open_database(settings), open_database(settings)
    try:
        endpoint, secret = await WebhookEndpoints(first, clock).create(DEFAULT_TENANT, HOOK, actor="test")
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        # Another process of the same server reads the same file.
        assert second.secret_box.decrypt(endpoint.keys(clock.now())[0]) == secret
    finally:
        await first.close()
        await second.close()


@pytest.mark.parametrize(
    ("content", "mode", "message"),
    [
        ("k" * 43, 0o644, "chmod 600"),
        ("", 0o600, "not a key file"),
        ("short", 0o600, "not a key file"),
    ],
)
def test_unusable_key_file_is_refused(content: str, mode: int, message: str, tmp_path: Path) -> None:
    file = tmp_path / "mailwright.key"
    file.write_text(content)
    file.chmod(mode)
    with pytest.raises(SecretKeyInvalid, match=message):
        SecretBox(None, file).decrypt("fernet:x")
    with pytest.raises(SecretKeyInvalid, match="cannot be read"):
        SecretBox(None, tmp_path).decrypt("fernet:x")


def test_short_or_missing_key_is_refused() -> None:
    with pytest.raises(SecretKeyInvalid, match="at least 32 characters"):
        SecretBox("short").decrypt("fernet:x")
    with pytest.raises(SecretKeyInvalid, match="MAILWRIGHT_SECRET_KEY"):
        SecretBox().decrypt("fernet:x")


def test_unencrypted_secret_is_refused() -> None:
    with pytest.raises(SecretKeyInvalid):
        SecretBox(OLD).decrypt("whsec_plain")


@pytest.mark.promise("secrets-encrypted")
async def test_database_and_mailbox_are_private(tmp_path: Path, clock: ManualClock) -> None:
    previous = os.umask(0o022)
    try:
        database = Database(f"sqlite:///{tmp_path}/private.db")
        await upgrade(database)
        await database.close()
        mailbox = tmp_path / "mailbox"
        content = b"Subject: reset\r\n\r\nsecret link\r\n"
        await MailboxProvider(mailbox, clock).send(OutgoingMessage("id", "a@example.com", ("b@example.com",), content))
    finally:
        os.umask(previous)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    files = {name: mode for name, mode in modes.items() if name.startswith("private.db") or name.endswith("mailwright")}
    assert files
    assert set(files.values()) == {0o600}
    assert {modes[name] for name in ("mailbox", "tmp", "new", "cur")} == {0o700}
