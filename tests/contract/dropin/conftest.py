"""A server for the SDKs of other services."""

from collections.abc import AsyncIterator

import pytest

from mailwright.domain.clock import ManualClock
from mailwright.storage.database import Database
from tests.dropin import DropIn, a_drop_in


@pytest.fixture
async def drop_in(database: Database, clock: ManualClock) -> AsyncIterator[DropIn]:
    async with a_drop_in(database, clock) as drop_in:
        yield drop_in
