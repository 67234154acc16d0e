"""An application with a webhook. Its clock shows the present time, because verifiers refuse old signatures."""

from collections.abc import AsyncIterator

import pytest

from mailwright.domain.clock import ManualClock, SystemClock
from mailwright.storage.database import Database
from tests.dropin import a_drop_in

pytest.importorskip("anymail", reason="django-anymail is not installed")
from tests.webhook_formats import Application, Receiver, a_dispatcher


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(SystemClock().now())


@pytest.fixture
async def application(database: Database, clock: ManualClock) -> AsyncIterator[Application]:
    async with a_drop_in(database, clock) as drop_in, Receiver() as receiver:
        dispatcher = a_dispatcher(drop_in, clock)
        yield Application(drop_in, clock, receiver, dispatcher)
        await dispatcher.close()
        assert not receiver.violations
