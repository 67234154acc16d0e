"""Pictures of the dashboard's pages, for docs/screens: `python -m tests.screens [NAME …]`, or all without a name."""

import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.dashboard import ALONE, DESK, PAGES, PHONE, a_browser, a_dashboard

TARGET = Path("docs/screens")
# Two looks of each are enough to show: the suite looks at all four.
LOOKS = (("desk", DESK, "light"), ("phone", PHONE, "dark"))
TALLEST = 1_400


def main(wanted: list[str], target: Path = TARGET) -> None:
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, a_dashboard(Path(folder)) as dashboard, a_browser() as browser:
        for size, viewport, scheme in LOOKS:
            look: Any = {"viewport": viewport, "color_scheme": scheme, "timezone_id": "Europe/Lisbon"}
            context = browser.new_context(**look)
            for pages, page in ((ALONE, context.new_page()), (PAGES, dashboard.sign_in(context))):
                for name, path in pages.items():
                    if not wanted or name in wanted:
                        page.goto(dashboard.url(path))
                        # What is asked for after the page is there, is there.
                        page.wait_for_timeout(1_500)
                        page.screenshot(path=target / f"{name}-{size}.png", clip=_top(page, viewport), full_page=True)
            context.close()


def _top(page: Any, viewport: Any) -> Any:
    """Long lists show no more by being long."""
    height = page.evaluate("document.documentElement.scrollHeight")
    return {"x": 0, "y": 0, "width": viewport["width"], "height": min(max(height, viewport["height"]), TALLEST)}


if __name__ == "__main__":
    main(sys.argv[1:])
