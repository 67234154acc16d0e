"""Sections that a tenant does not use stay out of the navigation, on both engines."""

import re
from collections.abc import AsyncIterator

import pytest

from mailwright.access.roles import Role
from mailwright.app.wiring import Engine
from mailwright.domain.clock import ManualClock
from mailwright.outbox import tenants
from mailwright.web.app import create_app
from tests.api import an_engine
from tests.articles import the_slices, write_slices
from tests.builders import Bench
from tests.pages import HOME, PASSWORD, Visit, a_visit, actions_on

PATHS = {"/articles", "/mailouts", "/notifications"}


@pytest.fixture
def web_engine(bench: Bench, clock: ManualClock) -> Engine:
    return an_engine(bench.database, clock, base_url=HOME)


@pytest.fixture
async def ada(web_engine: Engine) -> AsyncIterator[Visit]:
    await web_engine.users.create("ada", PASSWORD, Role.ADMIN, actor="test")
    async with a_visit(create_app(web_engine)) as visit:
        yield visit


async def shown(visit: Visit) -> set[str]:
    navigation = (await visit.open("/campaigns")).text.partition('<nav aria-label="Main">')[2].partition("</nav>")[0]
    return PATHS & set(re.findall(r'href="([^"]+)"', navigation))


async def test_unused_sections_appear_when_switched_on(ada: Visit, web_engine: Engine, clock: ManualClock) -> None:
    assert await shown(ada) == set()
    # Sequences need nothing else, so every tenant sees them, and their page is marked as the current one.
    assert '<a href="/sequences" aria-current="page"' in (await ada.open("/sequences")).text
    for path in PATHS:
        await ada.open(path)  # direct addresses keep working
    await ada.open("/settings/sections")
    await ada.press("Save sections", section=["mailouts", "notifications"])
    assert ada.flash == "Sections saved."
    assert await shown(ada) == {"/mailouts", "/notifications"}
    assert await actions_on(web_engine, "default") == ["tenant.change"]
    # Another tenant keeps its own navigation.
    await tenants.create(web_engine.database, clock, "acme")
    assert (await tenants.find(web_engine.database, "acme")).sections == ""
    await ada.open("/settings/sections")
    await ada.press("Save sections", section=None)
    assert await shown(ada) == set()


async def test_section_in_use_is_always_shown(ada: Visit, bench: Bench) -> None:
    await write_slices(bench, *the_slices())
    assert await shown(ada) == {"/articles"}
    assert "because it is in use" in (await ada.open("/settings/sections")).words()
    assert 'href="/mailouts"' in (await ada.open("/search?q=mailouts")).text
