"""Find out what an update would change: the schema, the settings, and whether there is a backup. Changes nothing."""

from collections.abc import Mapping
from dataclasses import dataclass

from mailwright.domain.clock import DAY, Clock, Instant
from mailwright.domain.errors import MailwrightError
from mailwright.ops.unknown_settings import UnknownSetting, find_unknown_settings
from mailwright.outbox.recorded_facts import RecordedBackup, find_backup
from mailwright.storage.database import Database
from mailwright.storage.migrate import require_upgradable
from mailwright.storage.pending_migrations import SchemaState, load_schema_state

# The maximum age of the last backup. Restoring an older one would lose too much data.
FRESH_BACKUP: Instant = DAY


@dataclass(frozen=True, slots=True)
class UpgradeCheck:
    """The changes that `mailwright db upgrade` of this version would make."""

    dialect: str
    schema: SchemaState
    problem: str | None  # why this version cannot upgrade the database
    settings: tuple[UnknownSetting, ...]  # settings that were renamed or removed, or never existed
    backup: RecordedBackup | None
    has_fresh_backup: bool

    @property
    def is_safe_during_traffic(self) -> bool:
        """Whether workers and servers can keep running. On SQLite, a migration blocks all writes until it ends."""
        return all(each.is_safe for each in self.schema.pending) and (
            self.dialect == "postgresql" or not self.schema.pending
        )

    @property
    def needs_attention(self) -> bool:
        return bool(self.schema.pending or self.settings or self.problem)


async def check_upgrade(database: Database, clock: Clock, environment: Mapping[str, str]) -> UpgradeCheck:
    schema = await load_schema_state(database)
    backup = await _backup(database, schema)
    is_fresh = backup is not None and clock.now() - backup.at < FRESH_BACKUP
    problem = await _problem(database)
    return UpgradeCheck(database.dialect, schema, problem, tuple(find_unknown_settings(environment)), backup, is_fresh)


async def _problem(database: Database) -> str | None:
    try:
        await require_upgradable(database)
    except MailwrightError as error:
        return str(error)
    return None


async def _backup(database: Database, schema: SchemaState) -> RecordedBackup | None:
    if schema.found.revision is None:
        return None
    try:
        return await find_backup(database)
    except MailwrightError:
        return None
