"""Find plugins: installed distributions with entry points in `mailwright.providers` or `mailwright.sources`.

Most installations have none, but every command asks. So a search in the files of the distributions comes first, because
it takes a fraction of the time; only if a file names a group, the library reads the entry points.
A plugin that cannot be used never stops Mailwright: it becomes a sentence, which the checks show.
"""

import os
import re
import sys
from collections.abc import Collection
from dataclasses import field
from functools import cache
from typing import Any, Final, get_type_hints

from mailwright.domain.lazy_dataclass import dataclass

PROVIDERS: Final = "mailwright.providers"
SOURCES: Final = "mailwright.sources"
# A declaration names the version of the plugin interface that it was written for. It changes if a field of a kind, or a
# function that plugins have or call, changes its meaning.
PLUGIN_API: Final = 1
_NAME: Final = re.compile(r"[a-z][a-z0-9]{1,29}")


@dataclass(slots=True)
class Plugins:
    """The usable kinds of one group, and for each other plugin the reason, by its name."""

    kinds: dict[str, Any] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)


def load_plugins(group: str, expected: type, taken: Collection[str]) -> Plugins:
    """Load the declarations of a group, which must be of the class `expected`. `taken` are the built-in names."""
    found = Plugins()
    if group not in _declared_groups():
        return found
    from importlib.metadata import entry_points  # noqa: PLC0415 - see above

    for point in sorted(entry_points(group=group), key=lambda each: (each.name, each.value)):
        owner = f"{point.dist.name} {point.dist.version}" if point.dist is not None else point.value
        problem: str | None
        try:
            kind = point.load()
            problem = _find_problem(kind, point.name, expected, taken)
        except (Exception, SystemExit) as error:
            problem = f"it cannot be imported ({type(error).__name__}: {' '.join(str(error).split())[:200]})"
        if problem is None and point.name in {*found.kinds, *found.problems}:
            problem = "another plugin has the same name"
            found.kinds.pop(point.name, None)
        if problem is None:
            found.kinds[point.name] = kind
        else:
            found.problems[point.name] = f"the plugin {point.name} of {owner} cannot be used: {problem}"
    return found


def _find_problem(kind: Any, name: str, expected: type, taken: Collection[str]) -> str | None:
    if name in taken:
        return f"{name} is built in"
    if not _NAME.fullmatch(name):
        return "its name must consist of lowercase ASCII characters and digits"
    if not isinstance(kind, expected):
        return f"its entry point is not a {expected.__name__}"
    if kind.plugin_api != PLUGIN_API:  # type: ignore[attr-defined]
        return f"it was written for version {kind.plugin_api} of the plugin interface, not {PLUGIN_API}"  # type: ignore[attr-defined]
    if kind.name != name:  # type: ignore[attr-defined]
        return f"its entry point is called {name}, but its kind {kind.name}"  # type: ignore[attr-defined]
    return _setting_problem(kind)


def _setting_problem(kind: Any) -> str | None:
    """Require settings whose names begin with the name of the plugin, so that it cannot take those of Mailwright."""
    if kind.fields is None:
        return None
    prefix = f"{kind.name}_"
    for field_name, hint in get_type_hints(kind.fields, include_extras=True).items():
        aliases = [each.alias for each in getattr(hint, "__metadata__", ()) if hasattr(each, "alias")]
        names = [field_name, *(str(alias) for alias in aliases)]
        if len(names) < 2 or not all(each.lower().startswith(prefix) for each in names):
            return f"the name and the alias of its setting {field_name} must begin with {prefix}"
    return None


@cache
def _declared_groups() -> frozenset[str]:
    """Return the groups that a file with entry points names."""
    found: set[str] = set()
    for folder in dict.fromkeys(sys.path):
        try:
            names = os.listdir(folder or ".")  # noqa: PTH208 - see below
        except OSError:
            continue
        for name in names:
            if name.endswith((".dist-info", ".egg-info")):
                try:
                    with open(f"{folder or '.'}/{name}/entry_points.txt", "rb") as file:  # noqa: PTH123 - twice as fast
                        text = file.read()
                except OSError:
                    continue
                found.update(group for group in (PROVIDERS, SOURCES) if group.encode() in text)
    return frozenset(found)
