"""Pictures of the dashboard's pages, for docs/screens: `python -m tests.screens [NAME …]`, or all without a name."""

import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.dashboard import ALONE, DESK, PAGES, PHONE, a_browser, a_dashboard

TARGET = Path("docs/screens")


def main(wanted: list[str], target: Path = TARGET) -> None:
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, a_dashboard(Path(folder)) as dashboard, a_browser() as browser:
        for size, viewport in (("desk", DESK), ("phone", PHONE)):
            for scheme in ("light", "dark"):
                look: Any = {"viewport": viewport, "color_scheme": scheme, "timezone_id": "Europe/Lisbon"}
                context = browser.new_context(**look)
                for pages, page in ((ALONE, context.new_page()), (PAGES, dashboard.sign_in(context))):
                    for name, path in pages.items():
                        if not wanted or name in wanted:
                            page.goto(dashboard.url(path))
                            # What is asked for after the page is there, is there.
                            page.wait_for_timeout(1_500)
                            page.screenshot(path=target / f"{name}-{size}-{scheme}.png", full_page=True)
                context.close()


if __name__ == "__main__":
    main(sys.argv[1:])
