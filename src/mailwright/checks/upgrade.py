"""Find out what an update would change: the schema, the settings, and whether there is a backup. Changes nothing."""

from collections.abc import Collection, Coroutine, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from mailwright.app.restore_checks import require_known_file
from mailwright.domain.clock import DAY, Clock, Instant
from mailwright.domain.errors import MailwrightError
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.ops.provider_kinds import KINDS
from mailwright.ops.release_files import find_release
from mailwright.ops.released_settings import ChangedDefault, find_changed_defaults
from mailwright.ops.settings import Settings
from mailwright.ops.unknown_settings import UnknownSetting, find_unknown_settings
from mailwright.outbox.provider_configurations import StoredProviders, load_providers
from mailwright.outbox.recorded_facts import RecordedBackup, find_backup
from mailwright.outbox.stored_settings import StoredSetting, load_stored
from mailwright.storage.database import Database, is_missing
from mailwright.storage.migrate import require_upgradable
from mailwright.storage.pending_migrations import SchemaState, load_schema_state
from mailwright.storage.schema_state import SchemaStatus

# The maximum age of the last backup. Restoring an older one would lose too much data.
FRESH_BACKUP: Instant = DAY

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class UpgradeCheck:
    """The changes that `mailwright db upgrade` of this version would make."""

    dialect: str
    is_missing: bool  # There is no SQLite file yet.
    schema: SchemaState
    problem: str | None  # why this version cannot upgrade the database
    settings: tuple[UnknownSetting, ...]  # settings that were renamed or removed, or never existed
    compared_release: str | None  # whose defaults are compared with those of this version; None if it is unknown
    changed_defaults: tuple[ChangedDefault, ...]
    backup: RecordedBackup | None
    has_fresh_backup: bool

    @property
    def is_empty(self) -> bool:
        return self.schema.found.status is SchemaStatus.EMPTY

    @property
    def is_safe_during_traffic(self) -> bool:
        """Whether workers and servers can keep running."""
        return all(each.is_safe for each in self.schema.pending)

    @property
    def needs_attention(self) -> bool:
        return bool(self.schema.pending or self.settings or self.changed_defaults or self.problem)


async def check_upgrade(
    settings: Settings, database: Database, clock: Clock, environment: Mapping[str, str]
) -> UpgradeCheck:
    schema = await load_schema_state(database)
    backup = await _read(schema, find_backup(database))
    stored = await _read(schema, load_stored(database)) or []
    providers = await _read(schema, load_providers(database)) or StoredProviders()
    release = None if schema.found.version is None else find_release(schema.found.version)
    return UpgradeCheck(
        dialect=database.dialect,
        is_missing=is_missing(database),
        schema=schema,
        problem=await _problem(settings, database),
        settings=(*find_unknown_settings(environment), *_without_effect(stored)),
        compared_release=release,
        changed_defaults=() if release is None else _changed_defaults(release, settings, stored, providers),
        backup=backup,
        has_fresh_backup=backup is not None and clock.now() - backup.at < FRESH_BACKUP,
    )


def _changed_defaults(
    release: str, settings: Settings, stored: Sequence[StoredSetting], providers: StoredProviders
) -> tuple[ChangedDefault, ...]:
    given = settings.base.model_fields_set | {each.name for each in stored}
    chosen = {settings.provider, *(each.value for each in stored if each.name == "provider")}
    named = {each.kind for each in providers.configurations}
    return tuple(find_changed_defaults(release, given, chosen | named | _configured_kinds(given)))


def _configured_kinds(given: Collection[str]) -> set[str]:
    """Return the kinds of which a setting is given, for example the second provider of a route."""
    return {name for name, kind in KINDS.items() if {*getattr(kind.fields, "__annotations__", ())} & {*given}}


def _without_effect(stored: Sequence[StoredSetting]) -> Iterator[UnknownSetting]:
    for each in stored:
        if each.name not in Settings.model_fields:
            yield UnknownSetting(each.name, "is stored in the database and has no effect in this version")


async def _problem(settings: Settings, database: Database) -> str | None:
    try:
        require_known_file(settings, database)
        await require_upgradable(database)
    except MailwrightError as error:
        return str(error)
    return None


async def _read(schema: SchemaState, reading: Coroutine[Any, Any, Result]) -> Result | None:
    """Read what this version may be unable to read, because the tables are those of another one."""
    if schema.found.revision is None:
        reading.close()
        return None
    try:
        return await reading
    except MailwrightError:
        return None
