"""The navigation: at most eight entries for everybody, each with the pages that the visitor may open."""

import re
from collections.abc import AsyncIterator
from itertools import chain

import pytest

from mailwright.access.roles import Role
from mailwright.app.sections import Section
from mailwright.app.wiring import Engine
from mailwright.cli import COMMANDS
from mailwright.domain.clock import ManualClock
from mailwright.web.app import create_app
from mailwright.web.dashboard.navigation import NAVIGATION, item_at, items_for
from mailwright.web.dashboard.settings import TABS
from tests.api import an_engine
from tests.builders import Bench
from tests.pages import HOME, PASSWORD, Visit, a_visit

MOST_ENTRIES = 8
# More pages below the open entry would not fit into a window of 1280 x 720.
MOST_PAGES = 6


@pytest.fixture
async def ada(bench: Bench, clock: ManualClock) -> AsyncIterator[Visit]:
    engine: Engine = an_engine(bench.database, clock, base_url=HOME)
    await engine.users.create("ada", PASSWORD, Role.ADMIN, actor="test")
    async with a_visit(create_app(engine)) as visit:
        yield visit


@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("sections", [(), tuple(Section)], ids=["no source", "all sources"])
def test_nobody_sees_more_than_eight_entries(role: Role, sections: tuple[Section, ...]) -> None:
    found = items_for(role, sections)
    assert len(found) <= MOST_ENTRIES
    assert max(len(item.pages) for item in found) <= MOST_PAGES
    assert all(role.allows(page.role) for item in found for page in item.pages)


def test_unused_sources_take_no_room() -> None:
    shown = {page.path for item in items_for(Role.ADMIN, ()) for page in item.pages}
    assert not shown & {"/articles", "/mailouts", "/notifications"}
    assert "/mailouts" in {page.path for item in items_for(Role.ADMIN, [Section.MAILOUTS]) for page in item.pages}


@pytest.mark.parametrize(
    ("path", "title"),
    [
        ("/", "Home"),
        ("/campaigns/new", "Campaigns"),
        ("/sequences", "Campaigns"),
        ("/imports/preview", "Audience"),
        ("/settings/brand", "Content"),
        ("/settings/keys", "Developers"),
        ("/settings/users/grace", "Settings"),
        ("/dead-letters", "Delivery"),
    ],
)
def test_open_page_belongs_to_its_entry(path: str, title: str) -> None:
    found = item_at(NAVIGATION, path)
    assert found is not None
    assert found.title == title


async def test_every_page_of_the_navigation_opens_with_its_entry(ada: Visit) -> None:
    settings = [path for _, tabs in TABS for path, _ in tabs]
    for path in [*chain.from_iterable([page.path for page in item.pages] for item in NAVIGATION), *settings]:
        if path in ("/docs", "/approvals"):  # The API reference has its own frame; nobody here uses approvals.
            continue
        navigation = (await ada.open(path)).text.partition('<nav aria-label="Main">')[2].partition("</nav>")[0]
        entries = re.findall(r"<li><a href=[^>]*><svg", navigation)
        assert 1 <= len(entries) <= MOST_ENTRIES, path
        is_listed = path.startswith("/settings") or f'href="{path}"' in navigation
        is_hidden_source = path in ("/articles", "/mailouts", "/notifications")
        assert is_listed or is_hidden_source, path
        assert len(re.findall('aria-current="page"', navigation)) == (0 if is_hidden_source else 1), path


def test_commands_are_grouped_like_the_pages() -> None:
    panels = list(dict.fromkeys(panel for panel, _, _ in COMMANDS))
    titles = [str(item.title) for item in NAVIGATION]
    assert [panel for panel in panels if panel != "Run"] == [title for title in titles if title in panels]
    assert len(panels) <= MOST_ENTRIES
