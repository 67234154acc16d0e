"""Act as a later version of Mailwright: the revisions of this one, and those that a test adds."""

import shutil
from pathlib import Path

import pytest

from mailwright.storage import revision

HEAD = '''"""{title}"""

from mailwright.storage.revision import batches, index, sql

OLDEST_COMPATIBLE = "{oldest}"
STEPS = (
    {steps},
)
'''
MOTTO = "sql(\"ALTER TABLE tenants ADD COLUMN motto TEXT DEFAULT 'none' NOT NULL\")"


def next_name(later: int = 1) -> str:
    """Return the name of a revision that this version does not know."""
    return f"{int(revision.newest_revision()) + later:04}"


def add_revisions(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *steps: str, title: str = "Add mottos.", oldest: str = "0001"
) -> list[str]:
    """Add a revision for each of the given steps, in Python. Return their names."""
    target = folder / "versions"
    if not target.exists():
        shutil.copytree(revision.VERSIONS, target, ignore=shutil.ignore_patterns("__pycache__"))
    names = []
    for number, each in enumerate(steps, 1):
        names.append(next_name(number))
        (target / f"{names[-1]}_next.py").write_text(HEAD.format(title=title, oldest=oldest, steps=each))
    monkeypatch.setattr(revision, "VERSIONS", target)
    return names
