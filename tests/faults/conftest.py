"""Fixtures of the fault tests."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.conftest import DatabaseAddress
from tests.engines import sqlite_template
from tests.faults.stage import Stage, a_stage


@pytest.fixture
async def stage(engine: DatabaseAddress) -> AsyncIterator[Stage]:
    async with a_stage(engine.url) as stage:
        yield stage


@pytest.fixture
async def file_stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """Use SQLite only: for file faults, and for faults that do not depend on the engine."""
    file = tmp_path / "mailwright.db"
    file.write_bytes(sqlite_template())
    async with a_stage(f"sqlite:///{file}") as stage:
        yield stage
