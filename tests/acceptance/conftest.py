"""A dashboard with sample data and a signed-in browser, shared by the tests of one module."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.dashboard import DESK, Dashboard, a_browser, a_dashboard

# A real process or browser that reached a deadline may only have run on a busy machine, so its test runs a second time,
# and the summary names it. An aborted navigation (ERR_ABORTED) was seen once on a busy
# machine, probably by a page of the test before that was still loading. A test with a wrong result never runs again.
DEADLINES = ["it never happened", "TimeoutError", "Failed: Timeout", "with timeout 30000ms", "ERR_ABORTED"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    folder = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(folder):
            item.add_marker(pytest.mark.flaky(reruns=1, only_rerun=DEADLINES))


@pytest.fixture(scope="module")
def dashboard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    with a_dashboard(tmp_path_factory.mktemp("dashboard")) as made:
        yield made


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with a_browser() as made:
        yield made


@pytest.fixture(scope="module")
def ada(dashboard: Dashboard, browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport=DESK, timezone_id="Europe/Lisbon")
    page = dashboard.sign_in(context)
    page.set_default_timeout(30_000)
    yield page
    context.close()
