"""The registry of provider kinds: a folder of `mailwright.providers` with a `kind.py` is one, and plugins add others.

A stored provider can be of a kind that is not here, because a plugin was removed or cannot be used. Looking it up
returns a kind without settings whose `problem` says so; messages of such a provider wait.
"""

from importlib import import_module
from pathlib import Path
from typing import Final

from mailwright.domain.translation import lazy_gettext
from mailwright.ops.plugins import PROVIDERS, load_plugins
from mailwright.ops.provider_kind import ProviderKind

_FOLDER: Final = Path(__file__).parent.parent / "providers"


def _own_kinds() -> list[ProviderKind]:
    names = sorted(file.parent.name for file in _FOLDER.glob("*/kind.py"))
    return [import_module(f"mailwright.providers.{name}.kind").KIND for name in names]


class ProviderKinds(dict[str, ProviderKind]):
    """The usable kinds by name, in the order in which users choose one."""

    def __missing__(self, name: str) -> ProviderKind:
        problem = KIND_PROBLEMS.get(name) or lazy_gettext(
            "no installed package adds the provider {name}; install its plugin again", name=name
        )
        return ProviderKind(name=name, package="", label=name, summary="", problem=problem)


_own: Final = _own_kinds()
_plugins: Final = load_plugins(PROVIDERS, ProviderKind, frozenset(kind.name for kind in _own))
# Why a plugin cannot be used, by its name, which can also be that of a built-in kind.
PLUGIN_PROBLEMS: Final = _plugins.problems
KINDS: Final = ProviderKinds(
    {kind.name: kind for kind in sorted((*_own, *_plugins.kinds.values()), key=lambda kind: (kind.order, kind.name))}
)
# The kinds that a plugin should add, but cannot.
KIND_PROBLEMS: Final = {name: problem for name, problem in PLUGIN_PROBLEMS.items() if name not in KINDS}
