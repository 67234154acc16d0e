"""A dashboard with sample data and a signed-in browser, shared by the tests of one module."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.dashboard import DESK, Dashboard, a_browser, a_dashboard


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
