"""The benchmark of a large installation works on both engines. A small run shows it; it measures nothing."""

from pathlib import Path

import pytest
from bench import scale
from bench.stage import Stage

from tests.conftest import DatabaseAddress

PEOPLE = 500
# With the default steps, each row is measured; a run without messages left over is the only one that is not.
STEPS = ("fill", "import", "campaign", "size", "audit", "pages", "backup", "send")


@pytest.mark.both_engines
@pytest.mark.timeout(400)  # Fifteen programs start one after the other.
def test_small_run_measures_each_row(engine: DatabaseAddress, tmp_path: Path) -> None:
    with Stage() as stage:
        facts = {"messages": 1_000, "people": PEOPLE, "seconds": 1.0, "times": 1, "only": "/reports"}
        at = scale.Installation(stage, engine.url, tmp_path, **facts)
        rows = {row.what: row.measured for row in scale.measured(at, STEPS)}
    assert [what for what, measured in rows.items() if measured.startswith("not measured")] == []
    assert {f"importing {PEOPLE} new people", "`backup`", "`restore` into an empty database"} <= {*rows}
    assert f"a campaign to {PEOPLE} people, until each has a message" in rows
    assert rows["sending, one worker"].partition(" ")[0] != "0"


def test_step_that_fails_is_a_row_with_its_reason(tmp_path: Path) -> None:
    with Stage() as stage:
        at = scale.Installation(stage, f"sqlite:///{tmp_path}/missing/none.db", tmp_path)
        [row] = scale.measured(at, ["audit"])
    assert row.measured.startswith("not measured: `mailwright audit")
    assert row.met is None
