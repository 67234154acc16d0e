"""The registry of provider kinds: a folder of `mailwright.providers` with a `kind.py` is one."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Final

from mailwright.ops.provider_kind import ProviderKind

_FOLDER: Final = Path(__file__).parent.parent / "providers"


def _own_kinds() -> list[ProviderKind]:
    names = sorted(file.parent.name for file in _FOLDER.glob("*/kind.py"))
    return [import_module(f"mailwright.providers.{name}.kind").KIND for name in names]


KINDS: Final[Mapping[str, ProviderKind]] = {
    kind.name: kind for kind in sorted(_own_kinds(), key=lambda kind: (kind.order, kind.name))
}
