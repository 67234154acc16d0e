"""Settings that the dashboard can change, and where the value of each setting comes from."""

import os
from collections.abc import Container, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from pydantic import SecretStr, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from mailwright.domain.errors import ConfigurationInvalid, NotFound
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import lazy_gettext
from mailwright.ops import amazonsender
from mailwright.ops.provider_kinds import KINDS
from mailwright.ops.secret_files import file_variables, holds_secret
from mailwright.ops.settings import CONFIG_FILE, CONFIG_VARIABLE, Settings, describe_problem

# The fields of `Settings` that can be stored in the database. Everything else needs access to the machine: addresses to
# listen on, folders, databases and keys.
STORABLE: Final = (
    "sender",
    "postal_address",
    "base_url",
    "timezone",
    "language",
    "reply_address",
    "reply_forward_to",
    "bounce_address",
    "provider",
    # Several kinds share some settings.
    *dict.fromkeys(name for kind in KINDS.values() for name in kind.stored_settings),
    "dkim_selector",
    "dkim_key",
    "tracking",
    "rate_per_second",
    "interval_ms",
    "rate_per_hour",
    "daily_limit",
    "working_hours",
    "frequency_cap",
    "warmup_since",
    "warmup_start",
    "warmup_factor",
)
SECRETS: Final = frozenset(name for name in STORABLE if holds_secret(Settings.model_fields[name].annotation))


class OriginKind(StrEnum):
    ENVIRONMENT = "environment"
    FILE = "file"
    DATABASE = "dashboard"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value comes from. `name` is the variable or the file; empty for an option of a command."""

    kind: OriginKind
    name: str = ""

    @property
    def is_fixed(self) -> bool:
        """Whether the value can only be changed outside the dashboard."""
        return self.kind in (OriginKind.ENVIRONMENT, OriginKind.FILE)

    @property
    def text(self) -> str:
        match self.kind:
            case OriginKind.ENVIRONMENT:
                return lazy_gettext("set by {name} in the environment", name=self.name)
            case OriginKind.FILE:
                return (
                    lazy_gettext("set in {name}", name=self.name)
                    if self.name
                    else lazy_gettext("set on the command line")
                )
            case OriginKind.DATABASE:
                return lazy_gettext("set in the dashboard")
            case OriginKind.DEFAULT:
                return lazy_gettext("default")


class _StoredValues(Settings, defer_build=True):  # Most commands find no stored value, and building it takes 15 ms.
    """Validates stored values as settings, without the environment and the file."""

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], *sources: PydanticBaseSettingsSource, **named: PydanticBaseSettingsSource
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (sources[0] if sources else named["init_settings"],)


def parse_stored(texts: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """Return the values of the stored texts by field, and a problem for each text that is not valid."""
    values: dict[str, Any] = {}
    problems: list[str] = []
    for name, text in texts.items():
        given: dict[str, Any] = {name: text}
        try:
            values[name] = getattr(_StoredValues(**given), name)
        except ValidationError as error:
            problems += [describe_problem(detail) for detail in error.errors()]
    return values, problems


def field_of(name: str) -> str:
    """Return the storable field with this name or variable."""
    wanted = name.strip()
    for field in STORABLE:
        if wanted.lower() == field or wanted.upper() == variable_of(field):
            return field
    known = variable_of(next(iter(STORABLE)))
    if any(wanted.lower() == field or wanted.upper() == each.alias for field, each in Settings.model_fields.items()):
        raise ConfigurationInvalid(
            f"{wanted[:80]}: cannot be stored; set it in the environment or in {CONFIG_FILE}, and restart Mailwright"
        )
    raise NotFound(f"There is no setting {wanted[:80]!r}. {known} is one, for example.")


def variable_of(field: str) -> str:
    return str(Settings.model_fields[field].alias)


def text_of(value: Any) -> str:
    """Return a value in the form in which it is stored."""
    return value.get_secret_value() if isinstance(value, SecretStr) else str(value)


def origin_of(settings: Settings, field: str, stored: Container[str]) -> Origin:
    if field not in settings.base.model_fields_set:
        return Origin(OriginKind.DATABASE if field in stored else OriginKind.DEFAULT)
    variable, environment = variable_of(field), {name.upper() for name, value in os.environ.items() if value}
    names = [variable, file_variables(Settings.model_fields).get(variable)]
    names += [name for name, alias in amazonsender.given_names(os.environ).items() if alias.setting == variable]
    for name in names:
        if name in environment:
            return Origin(OriginKind.ENVIRONMENT, name)
    file = os.environ.get(CONFIG_VARIABLE) or CONFIG_FILE
    return Origin(OriginKind.FILE, file if Path(file).exists() else "")
