"""Find environment variables that look like misspelt settings, because they would silently have no effect."""

import difflib
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from mailwright.domain.lazy_dataclass import dataclass
from mailwright.ops.amazonsender import ALIASES, WITHOUT_EFFECT
from mailwright.ops.child_process import CHILD_VARIABLE
from mailwright.ops.provider_kinds import KINDS
from mailwright.ops.release_files import find_last_release_with
from mailwright.ops.secret_files import file_variables
from mailwright.ops.settings import CONFIG_VARIABLE, ENV_FILE_VARIABLE, Settings

# Variables that are valid although they are not settings, because other modules read them.
_OTHERS: Final = (
    CONFIG_VARIABLE,
    ENV_FILE_VARIABLE,
    "MAILWRIGHT_DEBUG",
    "MAILWRIGHT_SERVER",
    "MAILWRIGHT_API_KEY",
    CHILD_VARIABLE,
)
# Prefixes of other programs' variables, which are never reported.
_FOREIGN_PREFIXES: Final = ("AWS_",)
# Prefixes of variables that are meant for Mailwright or its predecessor.
_PREFIXES: Final = (
    "MAILWRIGHT_",
    "NOTION_",
    "SUPABASE_",
    "ADMIN_PASS",
    "ORG_ADDR",
    "ORG_NAME",
    "SEND_RATE",
    "TEST_EMAIL",
    "UNSUB",
    "EXECUTOR_",
)
# Settings of other programs that have the same name in Mailwright after this prefix.
_PREFIXED: Final = ("LOCK_TTL_SECONDS", "MAX_ATTEMPTS")
# Minimum similarity to a known name, for variables with one of `_PREFIXES` and for all others.
_SIMILAR: Final = 0.75
_NEARLY_EQUAL: Final = 0.85


@dataclass(frozen=True, slots=True)
class UnknownSetting:
    name: str
    problem: str  # the problem and the next step


def find_unknown_settings(environment: Mapping[str, str]) -> Iterator[UnknownSetting]:
    """Yield the variables that have no effect although they look like settings, with the nearest known name."""
    fields = Settings.model_fields
    files = file_variables(fields).values()
    known = {field.alias or name for name, field in fields.items()} | {*files, *ALIASES, *_OTHERS}
    for name in sorted(name for name in environment if name.upper() not in known):
        if reason := WITHOUT_EFFECT.get(name):
            yield UnknownSetting(name, f"has no effect in Mailwright: {reason}")
            continue
        if name in _PREFIXED and (full := f"MAILWRIGHT_{name}") in known:
            yield UnknownSetting(name, f"is not a setting; did you mean {full}?")
            continue
        is_ours = name.startswith((*_PREFIXES, *_provider_prefixes()))
        if name.startswith(_FOREIGN_PREFIXES):
            continue
        nearest = _nearest(name, known, _SIMILAR if is_ours else _NEARLY_EQUAL)
        if release := find_last_release_with(name):
            advice = "remove it" if nearest is None else f"did you mean {nearest}?"
            yield UnknownSetting(name, f"was a setting until {release} and has no effect any more; {advice}")
        elif nearest is not None:
            yield UnknownSetting(name, f"is not a setting; did you mean {nearest}?")
        elif is_ours:
            yield UnknownSetting(name, "is not a setting; remove it or check the spelling")


def _provider_prefixes() -> set[str]:
    """Return the beginnings of the variables of providers, for example `SES_`."""
    names = {name for kind in KINDS.values() for name in getattr(kind.fields, "__annotations__", ())}
    return {str(Settings.model_fields[name].alias).partition("_")[0] + "_" for name in names} - {*_FOREIGN_PREFIXES}


def _nearest(name: str, known: Collection[str], cutoff: float) -> str | None:
    """Return the known name that was probably meant. Prefer a name that begins with the given one."""
    longer = [each for each in known if each.startswith(f"{name}_")]
    return min(longer, default=None) or next(iter(difflib.get_close_matches(name, known, n=1, cutoff=cutoff)), None)
