"""The nightly run reports each part, and a part that fails does not stop the others."""

from collections.abc import Sequence

from tools.nightly import PartResult, report, run_parts


def test_failed_part_does_not_stop_the_others() -> None:
    ended = {"test-all": 2, "faults": 0, "bench": 1}

    def run(name: str) -> tuple[int, Sequence[str]]:
        return ended[name], [f"output of {name}"]

    results = run_parts(tuple(ended), run)
    assert [(each.name, each.exit_code, each.last_lines) for each in results] == [
        (name, code, (f"output of {name}",)) for name, code in ended.items()
    ]


def test_report_names_what_failed() -> None:
    results = [PartResult("test-all", 0, 600, ("12 passed",)), PartResult("faults", 1, 3_630, ("1 missed",))]
    text = report(results, "2026-11-19 02:00 UTC", "abc123")
    assert text.startswith("# Nightly run of 2026-11-19 02:00 UTC, commit abc123\n\nFailed: faults.\n")
    assert "| `make test-all` | passed | 10 min |" in text
    assert "| `make faults` | failed (1) | 60 min |" in text
    assert "## make faults\n\n```text\n1 missed\n```\n" in text


def test_report_of_a_good_night() -> None:
    assert "\nEverything passed.\n" in report([PartResult("bench", 0, 60, ())], "2026-11-19", "abc123")


def test_output_with_a_fence_stays_inside_its_block() -> None:
    text = report([PartResult("bench", 0, 60, ("```", "# no heading"))], "2026-11-19", "abc123")
    assert text.endswith("````text\n```\n# no heading\n````\n")
