"""The settings and defaults of each release, by the names of their variables.

`python -m tools.released_settings` writes the file of a release.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parent / "releases"


def find_release(version: str) -> str | None:
    """Return the newest release up to this version whose settings are known."""
    releases = [each for each in _releases() if _order(each) <= _order(version)]
    return max(releases, key=_order, default=None)


def find_last_release_with(name: str) -> str | None:
    """Return the last release that had this setting."""
    return max((each for each in _releases() if name in load_defaults(each)), key=_order, default=None)


def load_defaults(release: str) -> Mapping[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{release}.json").read_text(encoding="utf-8"))
    return found


def _releases() -> list[str]:
    return [file.stem for file in FOLDER.glob("*.json")]


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])
