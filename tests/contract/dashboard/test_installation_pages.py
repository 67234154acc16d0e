"""The pages of retention and health, and the overview while sending is on hold, on both engines."""

from collections.abc import AsyncIterator

import pytest
from fastapi import FastAPI
from sqlalchemy import update

from mailwright.access.roles import Role
from mailwright.domain.clock import DAY, ManualClock
from mailwright.domain.retention import RetentionKind
from mailwright.outbox.retention_rules import list_rules
from mailwright.outbox.sending_hold import HoldReason, SendingHold, hold_sending
from mailwright.storage.tables import deliveries, messages
from mailwright.web.app import create_app
from tests.api import an_engine
from tests.builders import DEFAULT_TENANT, Bench, a_message
from tests.pages import HOME, PASSWORD, Visit, a_visit
from tests.standins.provider import ScriptedProvider

RETENTION = "/settings/retention"


@pytest.fixture
async def app(bench: Bench, clock: ManualClock) -> AsyncIterator[FastAPI]:
    web_engine = an_engine(bench.database, clock, base_url=HOME)
    await web_engine.users.create("ada", PASSWORD, Role.ADMIN, actor="test")
    await web_engine.users.create("eve", PASSWORD, Role.ADMIN, tenant_id=DEFAULT_TENANT, actor="test")
    app = create_app(web_engine)
    yield app
    await app.state.finish()


@pytest.fixture
async def ada(app: FastAPI) -> AsyncIterator[Visit]:
    async with a_visit(app) as visit:
        yield visit


async def test_retention_is_previewed_before_it_is_switched_on(ada: Visit, bench: Bench) -> None:
    await bench.accept(a_message(), a_message())
    await bench.drain(ScriptedProvider())
    long_ago = bench.clock.now() - 40 * DAY
    async with bench.database.write() as tx:
        await tx.execute(update(messages).values(created_at=long_ago))
        await tx.execute(update(deliveries).values(attempted_at=long_ago))
    await ada.open(RETENTION)
    assert "Nothing is deleted" in ada.text
    await ada.press("Show what would be deleted", kind="bodies", days="30")
    assert "2 rows" in ada.text
    assert await list_rules(bench.database) == []
    await ada.press("Switch on")
    [rule] = await list_rules(bench.database)
    assert (rule.kind, rule.days) == (RetentionKind.BODIES, 30)
    await ada.press("Switch off")
    assert await list_rules(bench.database) == []


async def test_short_period_is_explained_at_its_field(ada: Visit, bench: Bench) -> None:
    await ada.open(RETENTION)
    await ada.press("Show what would be deleted", 422, kind="messages", days="5")
    assert "The period of messages is 30 to" in ada.text
    assert await list_rules(bench.database) == []


async def test_overview_needs_attention_while_sending_is_held(app: FastAPI, ada: Visit, bench: Bench) -> None:
    async with a_visit(app, "eve") as eve:
        await eve.open("/")
        assert "Nothing needs your attention" in eve.text
        await hold_sending(bench.database, SendingHold(HoldReason.RESTORED, bench.clock.now(), "Restored."))
        await eve.open("/")
        assert "Nothing needs your attention" not in eve.text
    await ada.open("/settings/health")
    assert "<code>mailwright quarantine list</code>" in ada.text


async def test_overview_lists_warnings_about_the_installation(ada: Visit) -> None:
    await ada.open("/")
    assert "Backup: No backup was made" in ada.text
    assert "Workers: None is running" in ada.text
    assert "Nothing needs your attention" not in ada.text


async def test_health_is_only_for_users_of_the_installation(app: FastAPI) -> None:
    async with a_visit(app, "eve") as eve:
        await eve.open("/settings/health", 403)
        assert "Only administrators of the installation" in eve.text
