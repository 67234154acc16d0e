"""The registry of source kinds, which plugins add."""

from collections.abc import Mapping
from typing import Final

from mailwright.ops.plugins import SOURCES, load_plugins
from mailwright.ops.source_kind import SourceKind

# Names that messages have as their source already.
_BUILT_IN: Final = frozenset(
    {"api", "article", "campaign", "feed", "mailout", "notification", "outbox", "sequence", "smtp"}
)
_plugins: Final = load_plugins(SOURCES, SourceKind, _BUILT_IN)
SOURCE_KINDS: Final[Mapping[str, SourceKind]] = _plugins.kinds
# Why a plugin cannot be used, by its name.
SOURCE_PROBLEMS: Final[Mapping[str, str]] = _plugins.problems
