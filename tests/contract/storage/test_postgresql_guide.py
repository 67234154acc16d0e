"""What the guide for PostgreSQL shows works: addresses, settings, statements, commands and metrics."""

import configparser
import re
import shlex
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from click import Context
from typer.main import get_command

from mailwright.cli import app
from mailwright.ops.metrics import REGISTRY
from mailwright.ops.settings import Settings
from mailwright.storage.database import parse_url
from tests.engines import PostgresServer
from tests.pgbouncer import needs_pgbouncer, pgbouncer

GUIDE = (Path(__file__).parents[3] / "docs" / "postgresql.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)


ADDRESSES = next(block for block in blocks("text") if "sslmode=require" in block).splitlines()
POOLER = next(block for block in blocks("text") if "[pgbouncer]" in block)


@pytest.fixture
async def connection(postgres_server: PostgresServer) -> AsyncIterator[asyncpg.Connection]:
    url = await postgres_server.create()
    connection = await asyncpg.connect(url)
    yield connection
    await connection.execute("ALTER SYSTEM RESET synchronous_standby_names")
    await connection.close()
    await postgres_server.drop(url)


@pytest.mark.parametrize("address", ADDRESSES)
def test_each_address_is_understood(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    services = tmp_path / "services"
    services.write_text("[mailwright]\nhost=db.internal\ndbname=mailwright\n")
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    assert parse_url(address).database == "mailwright"


@pytest.mark.parametrize("block", blocks("sql"))
async def test_each_statement_runs(connection: asyncpg.Connection, block: str) -> None:
    for each in filter(None, map(str.strip, block.split(";"))):
        await connection.execute(each)


@pytest.mark.parametrize("value", sorted(set(re.findall(r"`synchronous_standby_names = ('[^']*')", GUIDE))))
async def test_each_list_of_standbys_is_valid(connection: asyncpg.Connection, value: str) -> None:
    await connection.execute(f"ALTER SYSTEM SET synchronous_standby_names = {value}")


def test_each_setting_exists() -> None:
    known = {field.alias or field.validation_alias for field in Settings.model_fields.values()}
    names = {str(getattr(each, "choices", [each])[0]) for each in known}
    named = {each.removesuffix("_FILE") for each in re.findall(r"MAILWRIGHT_[A-Z_]+[A-Z]", GUIDE)}
    assert named <= {each.removesuffix("_FILE") for each in names}


@pytest.mark.parametrize("line", sorted(set(re.findall(r"(?:^|`)mailwright ([a-z][^`\n]*)", GUIDE, re.MULTILINE))))
def test_each_command_exists(line: str) -> None:
    words = shlex.split(line)
    command: Any = get_command(app)
    for word in words:
        if hasattr(command, "resolve_command") and not word.startswith("-"):
            _, command, _ = command.resolve_command(Context(command), [word])
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= known


def test_each_metric_exists() -> None:
    assert set(re.findall(r"`(mailwright_[a-z_]+)`", GUIDE)) <= {family.name for family in REGISTRY.collect()}


@needs_pgbouncer
async def test_settings_of_the_pooler_are_enough(postgres_server: PostgresServer) -> None:
    """They are the only ones besides those of every PgBouncer: the address and who may connect."""
    settings = configparser.ConfigParser()
    settings.read_string(POOLER)
    url = await postgres_server.create()
    shown = settings["pgbouncer"]
    assert set(shown) == {"pool_mode", "default_pool_size"}
    with pgbouncer(url, shown["pool_mode"], size=int(shown["default_pool_size"])) as address:
        connection = await asyncpg.connect(address, statement_cache_size=0)
        assert await connection.fetchval("SELECT 1") == 1
        await connection.close()
    await postgres_server.drop(url)
