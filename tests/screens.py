"""Take screenshots of the dashboard for docs/screens: `python -m tests.screens [NAME …]`."""

import base64
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import BrowserContext, Page

from tests.dashboard import DESK, PAGES, PHONE, STANDALONE_PAGES, a_browser, a_dashboard

TARGET = Path("docs/screens")
# Two variants per page are enough for the docs.
LOOKS = (("desk", DESK, "light"), ("phone", PHONE, "dark"))
TALLEST = 1_400
# A tenth of the size of a PNG, and text stays sharp.
QUALITY = 80


def main(wanted: list[str], target: Path = TARGET, looks: Any = LOOKS) -> None:
    target.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        a_dashboard(Path(folder), moves=True, host="localhost") as dashboard,
        a_browser() as browser,
    ):
        for size, viewport, scheme in looks:
            look: Any = {"viewport": viewport, "color_scheme": scheme, "timezone_id": "Europe/Lisbon"}
            context = browser.new_context(**look)
            page = context.new_page()
            for pages in (STANDALONE_PAGES, PAGES):
                for name, path in pages.items():
                    if not wanted or name in wanted:
                        page.goto(dashboard.url(path))
                        # Wait for the parts that load after the page.
                        page.wait_for_timeout(1_500)
                        (target / f"{name}-{size}.webp").write_bytes(picture(context, page, viewport))
                page = page if pages is PAGES else dashboard.sign_in(context)
            context.close()


def picture(context: BrowserContext, page: Page, viewport: Any) -> bytes:
    """Take a screenshot, cut at TALLEST."""
    height = page.evaluate("document.documentElement.scrollHeight")
    height = min(max(height, viewport["height"]), TALLEST)
    if height > viewport["height"] and page.locator("iframe").count():
        # Browsers do not paint frames outside of the window.
        page.set_viewport_size({**viewport, "height": height})
        page.wait_for_timeout(500)
    clip = {"x": 0, "y": 0, "width": viewport["width"], "height": height, "scale": 1}
    shot = {"format": "webp", "quality": QUALITY, "captureBeyondViewport": True, "clip": clip}
    session = context.new_cdp_session(page)
    taken = session.send("Page.captureScreenshot", shot)
    session.detach()
    page.set_viewport_size(viewport)
    return base64.b64decode(taken["data"])


if __name__ == "__main__":
    main(sys.argv[1:])
