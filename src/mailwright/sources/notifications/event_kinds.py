"""Event kinds, declared in a TOML file: a new kind of notification needs a template and no code."""

import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from mailwright.domain import locales
from mailwright.domain.clock import HOUR, SECOND, Instant
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.retry import NOTIFICATIONS

# The default kind, for events that do not specify one.
OPEN_SEAT = "open-seat"
LINKS = ("manageUrl", "unsubscribeUrl")

_NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,49}$"
_VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]{0,99}$"


class EventKind(BaseModel):
    """One declared kind of event."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(pattern=_NAME)]
    template: Annotated[str, Field(pattern=_NAME)]
    template_version: Annotated[str, Field(pattern=_NAME)] = "v1"
    templates: Path | None = None  # a folder with `<template>/<version>/<locale>.html`; None to use stored templates
    fallback_locale: str | None = "en"
    variables: tuple[Annotated[str, Field(pattern=_VARIABLE)], ...] = ()  # required in addition to the links
    before: tuple[str, ...] = ()  # allowed previous statuses; empty means any
    after: tuple[str, ...] = ()  # allowed new statuses; empty means any
    dedupe_window_seconds: Annotated[int, Field(ge=0)] = 180
    useful_for_seconds: Annotated[int, Field(gt=0)] = 24 * HOUR // SECOND
    max_attempts: Annotated[int, Field(ge=1, le=100)] = NOTIFICATIONS.max_attempts
    lock_ttl_seconds: Annotated[int | None, Field(ge=30)] = None  # None: MAILWRIGHT_LOCK_TTL_SECONDS
    retry_schedule_ms: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)] = NOTIFICATIONS.delays
    manage_url: str = "{base}/subscriptions/{id}"
    unsubscribe_url: str = "{base}/subscriptions/{id}/unsubscribe?token={token}"

    @field_validator("fallback_locale")
    @classmethod
    def _normalize_locale(cls, value: str | None) -> str | None:
        if not value:
            return None
        if (locale := locales.normal(value)) is None:
            raise ValueError("must be a locale such as pt or pt-BR, or empty for no fallback")
        return locale

    @field_validator("manage_url", "unsubscribe_url")
    @classmethod
    def _check_placeholders(cls, value: str) -> str:
        try:
            value.format(base="", id="", token="")
        except (KeyError, IndexError, ValueError) as error:
            raise ValueError("may contain only the placeholders {base}, {id} and {token}") from error
        return value

    @property
    def template_id(self) -> str:
        """The id of the stored template. Each template version in the queue is stored as a separate template."""
        return f"{self.template}.{self.template_version}"

    @property
    def dedupe_window(self) -> Instant:
        return self.dedupe_window_seconds * SECOND

    @property
    def useful_for(self) -> Instant:
        return self.useful_for_seconds * SECOND

    def matches(self, before: str | None, after: str) -> bool:
        """Return whether a change from one status to another belongs to this kind, ignoring case."""
        return _is_listed(before, self.before) and _is_listed(after, self.after)

    def matches_row(self, before: str | None, after: str | None) -> bool:
        """Return the same for a row, which may lack the previous status: some programs do not record it."""
        return (not before or _is_listed(before, self.before)) and _is_listed(after, self.after)

    def retry_delay(self, attempts: int, lock_ttl: Instant) -> Instant:
        """Return the delay after this many completed attempts, at most the lifetime of a lock."""
        return min(self.retry_schedule_ms[min(attempts, len(self.retry_schedule_ms)) - 1], lock_ttl)


def _is_listed(status: str | None, listed: tuple[str, ...]) -> bool:
    return not listed or (status or "").strip().lower() in {each.strip().lower() for each in listed}


@dataclass(frozen=True, slots=True)
class EventKinds:
    by_name: Mapping[str, EventKind]
    lock_ttl: Instant

    def find(self, name: Any) -> EventKind | None:
        """Find a kind by its name, without regard to case and spaces around it."""
        if not isinstance(name, str):
            return None
        wanted = name.strip().lower()
        similar = (kind for key, kind in self.by_name.items() if key.lower() == wanted)
        return self.by_name.get(name.strip()) or next(similar, None)

    def lock_ttl_of(self, kind: EventKind | None) -> Instant:
        if kind is None or kind.lock_ttl_seconds is None:
            return self.lock_ttl
        return kind.lock_ttl_seconds * SECOND

    @property
    def shortest_lock_ttl(self) -> Instant:
        return min(self.lock_ttl_of(kind) for kind in self.by_name.values())


def load_event_kinds(file: Path | None, lock_ttl: Instant) -> EventKinds:
    """Load the built-in kind and those of a file, which may redefine it. Reports all errors at once."""
    built_in = _parse(resources.files(__package__).joinpath("open_seat/kinds.toml").read_text(encoding="utf-8"), None)
    return EventKinds({**built_in, **(_read_file(file) if file is not None else {})}, lock_ttl)


def _read_file(file: Path) -> dict[str, EventKind]:
    try:
        return _parse(file.read_text(encoding="utf-8"), file)
    except OSError as error:
        raise ConfigurationInvalid(f"MAILWRIGHT_NOTIFY_KINDS: {file}: {error.strerror or error}") from error


def _parse(text: str, file: Path | None) -> dict[str, EventKind]:
    try:
        declared = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationInvalid(f"MAILWRIGHT_NOTIFY_KINDS: {file}: {error}") from error
    kinds, problems = {}, []
    for name, fields in declared.items():
        if not isinstance(fields, dict):
            problems.append(f"MAILWRIGHT_NOTIFY_KINDS: {file}: {name}: must be a table, for example [{name}]")
            continue
        try:
            kind = EventKind(**{"name": name, "template": name, **fields})
        except ValidationError as error:
            problems += [_problem(file, name, each) for each in error.errors()]
            continue
        if file is not None and kind.templates is not None:  # relative to the file that declares it
            kind = kind.model_copy(update={"templates": file.parent / kind.templates})
        kinds[name] = kind
    if problems:
        raise ConfigurationInvalid(*problems)
    return kinds


def _problem(file: Path | None, name: str, error: Any) -> str:
    where = ".".join(str(step) for step in (name, *error["loc"]))
    return f"MAILWRIGHT_NOTIFY_KINDS: {file}: {where}: {error['msg']}"
