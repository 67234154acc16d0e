"""The pages about contracts: every statement says how, where and by which test, and every name in them exists."""

import re
from pathlib import Path
from typing import Final

import pytest

CHECKOUT: Final = Path(__file__).parents[2]
CONTRACTS: Final = CHECKOUT / "docs" / "contracts"
# The number of statements of each contract. A row is changed when its behaviour changes, and never dropped.
STATEMENTS: Final = {
    "article-newsletter.md": 63,
    "campaign-queue.md": 57,
    "email-gateway.md": 146,
    "mailout-executor.md": 99,
    "notification-worker.md": 58,
}
HEADER: Final = ["statement", "how Mailwright does it", "where", "test"]


def test_every_contract_has_its_page_in_the_manual() -> None:
    assert {page.name for page in CONTRACTS.glob("*.md")} == set(STATEMENTS)
    manual = (CHECKOUT / "docs" / "README.md").read_text(encoding="utf-8")
    for name in STATEMENTS:
        assert f"](contracts/{name})" in manual


@pytest.mark.parametrize(("name", "statements"), STATEMENTS.items())
def test_every_statement_has_a_way_a_section_and_a_test(name: str, statements: int) -> None:
    header, _, *rows = _rows(CONTRACTS / name)
    assert header == HEADER
    assert len(rows) == statements
    assert len({row[0] for row in rows}) == statements, "a statement is listed twice"
    for row in rows:
        assert len(row) == len(HEADER), f"a row has other columns: {row}"
        assert all(row), f"a cell is empty: {row}"
        statement, how, where, test = row
        assert how == "as written" or re.fullmatch(r"differs: \S.{9,}", how), f"{statement}: {how}"
        link = re.fullmatch(r"\[[^\]]+\]\(\.\./(?P<page>[\w-]+\.md)(?:#(?P<heading>[\w-]+))?\)", where)
        assert link is not None, f"{statement} names no section: {where}"
        guide = CHECKOUT / "docs" / link["page"]
        assert guide.is_file(), f"{statement} leads to {where}, which does not exist"
        assert link["heading"] is None or link["heading"] in _headings(guide), f"{statement} leads to {where}"
        named = re.fullmatch(r"`(?P<file>tests/[\w/]+\.py)::(?P<function>test_\w+)`", test)
        assert named is not None, f"{statement} names no test: {test}"
        file = CHECKOUT / named["file"]
        assert file.is_file(), f"{statement} names {test}, which does not exist"
        defined = re.findall(r"^(?:async )?def (test_\w+)", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert named["function"] in defined, f"{statement} names {test}, which does not exist"


def _rows(page: Path) -> list[list[str]]:
    lines = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def _headings(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
