"""Home shows what the role needs, on both engines."""

from collections.abc import AsyncIterator

import pytest

from mailwright.access.roles import Role
from mailwright.app.wiring import Engine
from mailwright.domain.clock import ManualClock
from mailwright.web.app import create_app
from tests.api import an_engine
from tests.builders import Bench
from tests.campaigns import NEWS, CampaignHarness, a_list, join
from tests.pages import HOME, PASSWORD, Visit, a_visit


@pytest.fixture
def web_engine(bench: Bench, clock: ManualClock) -> Engine:
    return an_engine(bench.database, clock, base_url=HOME)


@pytest.fixture
async def editor(web_engine: Engine) -> AsyncIterator[Visit]:
    await web_engine.users.create("grace", PASSWORD, Role.EDITOR, actor="test")
    async with a_visit(create_app(web_engine), "grace") as visit:
        yield visit


@pytest.fixture
async def admin(web_engine: Engine) -> AsyncIterator[Visit]:
    await web_engine.users.create("ada", PASSWORD, Role.ADMIN, actor="test")
    async with a_visit(create_app(web_engine), "ada") as visit:
        yield visit


async def test_editors_see_last_campaign_and_next_steps(editor: Visit, bench: Bench) -> None:
    empty = (await editor.open("/")).words()
    assert "No campaign has been sent yet." in empty
    assert "Health" not in empty
    await a_list(bench.database)
    await join(bench.database, ["ada@example.com"])
    desk = CampaignHarness(bench)
    await desk.start(name="Spring", lists=[NEWS])
    await desk.run_scheduler()
    await bench.drain()
    await desk.create(name="Summer")
    shown = (await editor.open("/")).words()
    assert "Spring" in shown
    assert "Summer" in shown
    assert "Forecast" in (await editor.open("/?view=sending")).words()
    assert "New, last 30 days" in (await editor.open("/overview/growth")).words()


async def test_administrators_see_sending_first(admin: Visit) -> None:
    shown = (await admin.open("/")).words()
    assert "Health" in shown
    assert "Forecast" in shown
    assert "Last campaign" in (await admin.open("/?view=campaigns")).words()
