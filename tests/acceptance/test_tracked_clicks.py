"""A browser opens a tracked email and follows its links through the real server to real targets."""

import threading
from collections.abc import Iterator
from email import message_from_bytes, policy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser
from sqlalchemy import update

from mailwright.app.wiring import make_worker
from mailwright.domain.clock import HOUR
from mailwright.events.tracking.drain import SpoolDrain
from mailwright.sources.campaigns.report_figures import ReportFigures, load_figures
from mailwright.sources.campaigns.scheduler import CampaignScheduler
from mailwright.storage.tables import deliveries
from tests.campaigns import OPERATOR, a_definition, join
from tests.dashboard import Dashboard, a_browser, a_dashboard
from tests.tracking import BROWSER

ANN = "ann@example.com"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with a_browser() as browser:
        yield browser


@pytest.fixture
def shop() -> Iterator[str]:
    """Serve a page that shows the path of its request."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = f"<title>Shop</title><p id='path'>{self.path}</p><p id='from'>{self.headers['referer']}</p>"
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(content.encode())

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_browser_follows_tracked_links_to_their_targets(tmp_path: Path, shop: str, browser: Browser) -> None:
    with a_dashboard(
        tmp_path, with_sample=False, tracking="individual", tracking_spool=tmp_path / "spool"
    ) as dashboard:
        campaign_id, html = dashboard.do(lambda: _send(dashboard, shop))
        context = browser.new_context(user_agent=BROWSER)
        page = context.new_page()
        page.goto(f"{shop}/mail")  # An email program that runs on its own page.
        with page.expect_response(lambda response: "/t/" in response.url) as pixel:
            page.set_content(html)
        assert pixel.value.headers["content-type"] == "image/gif"
        page.get_by_role("link", name="Offers").click()
        page.wait_for_url(f"{shop}/offers?colour=red&size=4&utm_source=news#sale")
        assert page.locator("#path").inner_text() == "/offers?colour=red&size=4&utm_source=news"
        assert page.locator("#from").inner_text() == "None"  # The target does not see the token.
        page.goto(f"{dashboard.address}/t/forged")
        assert "Shop" not in page.title()
        assert page.url == f"{dashboard.address}/t/forged"
        context.close()
        figures = dashboard.do(lambda: _figures(dashboard, campaign_id))
    assert (figures.totals.opened, figures.totals.clicked, figures.totals.tracked) == (1, 1, 1)
    assert (figures.totals.machine_opened, figures.totals.machine_clicked) == (0, 0)


async def _send(dashboard: Dashboard, shop: str) -> tuple[str, str]:
    """Send a campaign to Ann, and return its ID and the HTML of her email."""
    engine = dashboard.engine
    await join(engine.database, [ANN], consents_to_tracking=True, tracking_consent_at=0)
    link = f"{shop}/offers?colour=red&amp;size=4#sale"
    body = f'<p><a href="{link}">Offers</a></p><p><a href="{{{{ unsubscribe_url }}}}">Leave</a></p>'
    definition = a_definition(content={"subject": "News", "body": body}, utm={"source": "news"})
    campaign = await engine.campaigns.create(OPERATOR, 1, definition)
    await engine.campaigns.start(OPERATOR, campaign.campaign_id)
    while await CampaignScheduler(engine.database, engine.clock).tick():
        pass
    await (await make_worker(engine)).run(drain=True)
    async with engine.database.write() as tx:  # Nobody opens an email in the second in which it is sent.
        before = engine.clock.now() - HOUR
        await tx.execute(update(deliveries).values(attempted_at=before, sent_at=before))
    [file] = [path for path in engine.settings.mailbox.rglob("*") if path.is_file()]
    parsed = message_from_bytes(file.read_bytes(), policy=policy.default)
    return campaign.campaign_id, str(parsed.get_body(("html",)).get_content())  # type: ignore[union-attr]


async def _figures(dashboard: Dashboard, campaign_id: str) -> ReportFigures:
    engine = dashboard.engine
    await SpoolDrain(engine.database, engine.clock, engine.reports, engine.redirects).drain()
    campaign = await engine.campaigns.find(campaign_id, tenant_id=None)
    figures = await load_figures(engine.database, campaign, engine.clock.now(), engine.settings.tracking)
    assert figures is not None
    return figures
