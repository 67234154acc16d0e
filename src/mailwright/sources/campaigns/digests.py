"""Digests of each part of a campaign, to find out whether and where it was changed."""

from collections.abc import Mapping
from typing import Any, Final

from mailwright.domain.translation import lazy_gettext
from mailwright.sources.campaigns.definition import CampaignDefinition
from mailwright.sources.value_digest import hash_value

# The parts of a campaign, with their names in error messages. Fields that are not listed in another part belong to the
# content.
_PARTS: Final[Mapping[str, frozenset[str]]] = {
    lazy_gettext("content"): frozenset(),
    lazy_gettext("audience"): frozenset(
        {"lists", "segment", "exclude_lists", "exclude_segments", "filter", "resend_of"}
    ),
    lazy_gettext("sender"): frozenset({"sender", "reply_to"}),
    lazy_gettext("send time"): frozenset({"scheduled_at"}),
    lazy_gettext("limits"): frozenset({"limits", "waves"}),
}
# The parts that nobody can change after the start.
_FROZEN: Final = frozenset({"content", "sender"})
_NAMED: Final = frozenset().union(*_PARTS.values())
_SEPARATOR: Final = "."


def digest(definition: CampaignDefinition, referred: Mapping[str, Any]) -> str:
    """Return the digests of a definition and of the objects that it refers to, by the names of the parts."""
    fields = definition.model_dump(mode="json")
    return _SEPARATOR.join(
        hash_value([{name: value for name, value in fields.items() if _is_of(part, name)}, referred.get(part)])
        for part in _PARTS
    )


def digest_started(definition: CampaignDefinition, filter_: Mapping[str, Any] | None, at_start: str) -> str:
    """Return the digests of a started campaign. Its content and sender were fixed at the start."""
    present = digest(definition, {"audience": filter_}).split(_SEPARATOR)
    frozen = dict(zip(_PARTS, at_start.split(_SEPARATOR), strict=True))
    return _SEPARATOR.join(
        frozen[part] if part in _FROZEN else found for part, found in zip(_PARTS, present, strict=True)
    )


def changed_parts(before: str, after: str) -> list[str]:
    """Return the names of the parts whose digests differ."""
    old, new = before.split(_SEPARATOR), after.split(_SEPARATOR)
    if len(old) != len(new):
        return list(_PARTS)
    return [part for part, was, present in zip(_PARTS, old, new, strict=True) if was != present]


def _is_of(part: str, field: str) -> bool:
    return field in _PARTS[part] if field in _NAMED else part == "content"
