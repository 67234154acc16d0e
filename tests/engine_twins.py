"""Run tests of surfaces on SQLite only, and show that PostgreSQL runs every statement behind them in other tests.

A surface (page, route, door) hands values to the same services on both engines. Its tests on PostgreSQL repeat what the
services' own tests already show, and take minutes. Each test process records which line of the program ran a statement
on which engine. A complete run fails if a line ran statements on SQLite but never on PostgreSQL.
`pytest --both-engines` runs everything twice and compares nothing.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from mailwright.storage.database import Transaction

TESTS: Final = Path(__file__).parent
PROGRAM: Final = str(TESTS.parent / "src/mailwright")
SURFACES: Final = (
    "contract/api",
    "contract/checks",
    "contract/dashboard",
    "contract/dropin",
    "contract/settings",
    "contract/submission",
    "contract/tracking",
    "acceptance/test_cli_remote.py",
    "acceptance/test_dashboard_forms.py",
)
# Packages whose statements only run on SQLite: the demo has its own database file.
SQLITE_ONLY: Final = ("demo/",)

Site = tuple[str, int]


def without_twins(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the tests without those of surfaces on PostgreSQL that also run on SQLite."""
    known = {item.nodeid for item in items}
    return [item for item in items if not (_is_surface(item) and _twin(item) in known)]


def _is_surface(item: pytest.Item) -> bool:
    path = item.path.relative_to(TESTS).as_posix()
    return path.startswith(SURFACES) and item.get_closest_marker("both_engines") is None


def _twin(item: pytest.Item) -> str | None:
    """Return the id of the same test on SQLite, if this one runs on PostgreSQL."""
    parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    return item.nodeid.replace("postgresql", "sqlite") if parameters.get("engine") == "postgresql" else None


class StatementSites:
    """Records the lines of the program that ran statements, by engine."""

    def __init__(self) -> None:
        self.seen: dict[str, set[Site]] = {"sqlite": set(), "postgresql": set()}

    def watch(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            for name in ("run", "count", "execute"):
                patch.setattr(Transaction, name, self._recorded(getattr(Transaction, name)))
            yield

    def _recorded(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def recorded(transaction: Transaction, *values: Any, **named: Any) -> Any:
            caller = sys._getframe(1)
            self.seen[transaction._dialect].add((caller.f_code.co_filename, caller.f_lineno))
            return method(transaction, *values, **named)

        return recorded

    def merge(self, sites: dict[str, Iterable[Iterable[Any]]]) -> None:
        for engine, found in sites.items():
            self.seen[engine] |= {(str(file), int(line)) for file, line in found}

    def missing(self) -> list[str]:
        """Return the lines whose statements ran on SQLite only."""
        return sorted(
            name
            for file, line in self.seen["sqlite"] - self.seen["postgresql"]
            if file.startswith(PROGRAM)
            and not (name := f"{Path(file).relative_to(PROGRAM).as_posix()}:{line}").startswith(SQLITE_ONLY)
        )
