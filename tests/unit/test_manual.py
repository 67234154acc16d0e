"""The manual: every page is in its navigation, and every link works in the repository and on the site."""

import re
import zipfile
from functools import cache
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from tools import manual

from mailwright.web.manual import SITE

built = pytest.mark.skipif(not SITE.is_file(), reason="the manual is not built; run `make manual`")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files of the built manual."""
    folder = tmp_path_factory.mktemp("manual")
    with zipfile.ZipFile(SITE) as archive:
        archive.extractall(folder)
    return folder


def test_every_page_is_in_the_navigation() -> None:
    listed = set(_targets(manual.navigation()))
    assert {manual.staged(page) for page in manual.pages()} == listed


def test_navigation_follows_the_sections_of_the_readme() -> None:
    titles = [title for entry in manual.navigation() for title in entry]
    assert titles == ["Manual", "Overview", "Tutorial", "Guides", "Reference", "Explanation", "Changes"]


@pytest.mark.promise("manual-served")
def test_links_lead_to_files_of_repository_and_site() -> None:
    for page in manual.pages():
        for target, file in manual.links(page):
            assert file.is_file(), f"{page.name} links to {target}, which is not a file"
            assert manual.staged(file)


def test_staged_pages_link_to_their_new_places(tmp_path: Path) -> None:
    manual.stage(tmp_path)
    overview = (tmp_path / "overview.md").read_text(encoding="utf-8")
    assert "](tutorial.md)" in overview
    assert (tmp_path / "screens/overview-desk.webp").is_file()
    assert "](overview.md#quickstart)" in (tmp_path / "http-api.md").read_text(encoding="utf-8")
    assert "](../architecture.md" not in (tmp_path / "README.md").read_text(encoding="utf-8")


def test_link_that_leaves_the_manual_ends_the_build() -> None:
    with pytest.raises(SystemExit, match=r"Makefile, which is not part of the manual"):
        manual.staged(manual.CHECKOUT / "Makefile")


@built
@pytest.mark.promise("manual-served")
def test_every_link_of_the_site_has_a_target(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 50
    broken = []
    for page in pages:
        for link in _read(page).links:
            path, _, heading = unescape(link).partition("#")
            goal = (page.parent / path).resolve() if path else page
            is_found = goal.is_file() and (not heading or goal.suffix != ".html" or heading in _read(goal).ids)
            if not is_found and page.name != "404.html":
                broken.append(f"{page.relative_to(site)}: {link}")
    assert broken == []


@built
@pytest.mark.promise("manual-served")
def test_pages_load_nothing_from_other_hosts(site: Path) -> None:
    found = {
        f"{page.name}: {address}"
        for page in site.rglob("*.html")
        for address in re.findall(
            r"<(?:script|img|link|iframe)\b[^>]*?(?:src|href)=\"?(https?:[^\s\">]+)", page.read_text()
        )
    }
    assert found == set()


@built
def test_search_index_has_every_page(site: Path) -> None:
    index = (site / "search.json").read_text(encoding="utf-8")
    names = [manual.staged(page).replace(".md", ".html") for page in manual.pages()]
    assert [name for name in names if name != "README.html" and name not in index] == []


@built
def test_lists_and_tables_look_alike_in_repository_and_site(site: Path) -> None:
    """The site needs four spaces for what belongs to a list item; otherwise its numbers begin again."""
    for page in manual.pages():
        name = manual.staged(page).replace("README.md", "index.md").replace(".md", ".html")
        article = (site / name).read_text(encoding="utf-8").partition("<article")[2]
        text = re.sub(r"^( *)```.*?^\1```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for element, begin in (("<ol", r"^ *1\. "), ("<table", r"^ *\|[ -]*--[-| ]*$")):
            assert article.count(element) == len(re.findall(begin, text, re.MULTILINE)), (page.name, element)
        without_gap = re.findall(r"^(?!\d+\. |- |[|#<\s]).+\n(?:- |\d+\. ).*", text, re.MULTILINE)
        assert without_gap == [], f"{page.name}: a list needs an empty line before it"


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in {"href", "src"} and value and not re.match(r"[a-z]+:|//", value):
                self.links.append(value)
            elif name in {"id", "name"} and value:
                self.ids.add(value)


@cache
def _read(page: Path) -> _Page:
    parser = _Page()
    parser.feed(page.read_text(encoding="utf-8"))
    return parser


def _targets(entries: list[dict[str, Any]]) -> list[str]:
    found = []
    for entry in entries:
        for goal in entry.values():
            found += [goal] if isinstance(goal, str) else _targets(goal)
    return found
