"""Run the suite on both engines, the fault runs and the benchmarks, and write one report: `make nightly`.

A part that fails does not stop the others. The report is var/nightly/DATE.md; exit 1 if a part failed.
"""

import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).resolve().parent.parent
PARTS: Final = ("test-all", "faults", "bench")
# Enough for the summary of the suite, and for the tables of the fault runs and the benchmarks.
_SHOWN_LINES: Final = 200


@dataclass(frozen=True, slots=True)
class PartResult:
    name: str
    exit_code: int
    seconds: float
    last_lines: tuple[str, ...]


def main() -> None:
    began = datetime.now(UTC)
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=CHECKOUT, capture_output=True, text=True, check=False
    ).stdout.strip()
    results = run_parts(PARTS, run_target)
    file = CHECKOUT / f"var/nightly/{began:%Y-%m-%d}.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(report(results, f"{began:%Y-%m-%d %H:%M} UTC", commit or "without history"), encoding="utf-8")
    print(f"Wrote {file.relative_to(CHECKOUT)}.")
    if any(each.exit_code for each in results):
        sys.exit(1)


def run_parts(names: Sequence[str], run: Callable[[str], tuple[int, Sequence[str]]]) -> list[PartResult]:
    """Run each part, also after one that failed."""
    results = []
    for name in names:
        began = time.monotonic()
        exit_code, lines = run(name)
        results.append(PartResult(name, exit_code, time.monotonic() - began, tuple(lines)))
    return results


def run_target(name: str) -> tuple[int, Sequence[str]]:
    """Run a target of the Makefile, show its output, and return its last lines."""
    lines: deque[str] = deque(maxlen=_SHOWN_LINES)
    process = subprocess.Popen(
        ["make", name], cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    assert process.stdout is not None
    for line in process.stdout:
        print(line, end="", flush=True)
        lines.append(line.rstrip())
    return process.wait(), lines


def report(results: Sequence[PartResult], began: str, commit: str) -> str:
    failed = [each.name for each in results if each.exit_code]
    head = f"Failed: {', '.join(failed)}." if failed else "Everything passed."
    rows = [
        f"| `make {each.name}` | {'passed' if each.exit_code == 0 else f'failed ({each.exit_code})'} "
        f"| {each.seconds / 60:.0f} min |\n"
        for each in results
    ]
    parts = [f"\n## make {each.name}\n\n{_fenced(each.last_lines)}" for each in results]
    table = "| part | result | time |\n|---|---|---|\n" + "".join(rows)
    return f"# Nightly run of {began}, commit {commit}\n\n{head}\n\n{table}{''.join(parts)}"


def _fenced(lines: Sequence[str]) -> str:
    """Return the lines as a code block, whatever they contain."""
    text = "\n".join(lines)
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}text\n{text}\n{fence}\n"


if __name__ == "__main__":
    main()
