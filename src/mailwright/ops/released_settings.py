"""Compare the defaults of this version with those of an earlier release, so that an upgrade can name what changed."""

import json
from collections.abc import Collection
from typing import Any

from pydantic import SecretStr

from mailwright.domain.lazy_dataclass import dataclass
from mailwright.ops.provider_kinds import KINDS
from mailwright.ops.release_files import load_defaults
from mailwright.ops.settings import Settings


@dataclass(frozen=True, slots=True)
class ChangedDefault:
    """A setting that this installation does not set, and whose default differs from that of an earlier release."""

    name: str
    before: str | None
    after: str | None


def find_changed_defaults(release: str, given: Collection[str], kinds: Collection[str]) -> list[ChangedDefault]:
    """Compare the defaults with those of a release, for the fields that are not given and that something uses.

    `kinds`: the kinds of providers in use. A setting that only other kinds have does not matter.
    """
    before = load_defaults(release)
    unused = _fields_of(set(KINDS) - set(kinds)) - _fields_of(kinds)
    after = {
        variable: default
        for name, variable, default in _defaults()
        if variable in before and name not in given and name not in unused
    }
    return [
        ChangedDefault(variable, _text(before[variable]), _text(default))
        for variable, default in sorted(after.items())
        if before[variable] != default
    ]


def current_defaults() -> dict[str, Any]:
    """Return the default of each setting of this version, by the name of its variable."""
    return {variable: default for _, variable, default in _defaults()}


def _defaults() -> list[tuple[str, str, Any]]:
    return [
        (name, field.alias or name, _plain(field.get_default(call_default_factory=True)))
        for name, field in Settings.model_fields.items()
    ]


def _fields_of(kinds: Collection[str]) -> set[str]:
    return {name for kind in kinds if kind in KINDS for name in getattr(KINDS[kind].fields, "__annotations__", ())}


def _plain(value: Any) -> Any:
    """Return the value as JSON has it."""
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(each) for each in value]
    return value if value is None or isinstance(value, bool | int | float) else str(value)


def _text(value: Any) -> str | None:
    """Return the value as the environment has it, or None if the setting is empty."""
    if isinstance(value, list):
        return ",".join(map(str, value)) or None
    if isinstance(value, dict):
        return json.dumps(value) if value else None
    if isinstance(value, bool):
        return str(value).lower()
    return None if value in (None, "") else str(value)
