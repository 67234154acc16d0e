"""Models of what an update would change."""

from math import ceil

from mailwright.checks.upgrade import UpgradeCheck
from mailwright.schemas.base import ResponseModel, Time
from mailwright.storage.pending_migrations import PendingMigration


class SchemaChangeResponse(ResponseModel):
    table: str
    effect: str
    is_safe: bool


class MigrationResponse(ResponseModel):
    revision: str
    title: str
    is_safe: bool
    estimated_seconds: int
    changes: list[SchemaChangeResponse]


class UnknownSettingResponse(ResponseModel):
    name: str
    problem: str


class ChangedDefaultResponse(ResponseModel):
    name: str
    before: str | None
    after: str | None


class UpgradeResponse(ResponseModel):
    """What an upgrade to this version would change.

    `settings`: those without effect. `changed_defaults`: since `compared_release`, of settings that are not set.
    """

    version: str
    database: str
    current: str | None
    newest: str
    is_newer: bool
    problem: str | None
    is_safe_during_traffic: bool
    pending: list[MigrationResponse]
    settings: list[UnknownSettingResponse]
    compared_release: str | None
    changed_defaults: list[ChangedDefaultResponse]
    last_backup: Time | None
    has_fresh_backup: bool
    needs_attention: bool


def upgrade_response(found: UpgradeCheck, version: str) -> UpgradeResponse:
    return UpgradeResponse(
        version=version,
        database=found.dialect,
        current=found.schema.found.revision,
        newest=found.schema.newest,
        is_newer=found.schema.is_newer,
        problem=found.problem,
        is_safe_during_traffic=found.is_safe_during_traffic,
        pending=[_migration(each) for each in found.schema.pending],
        settings=[UnknownSettingResponse.model_validate(each) for each in found.settings],
        compared_release=found.compared_release,
        changed_defaults=[ChangedDefaultResponse.model_validate(each) for each in found.changed_defaults],
        last_backup=None if found.backup is None else found.backup.at,
        has_fresh_backup=found.has_fresh_backup,
        needs_attention=found.needs_attention,
    )


def _migration(pending: PendingMigration) -> MigrationResponse:
    return MigrationResponse(
        revision=pending.revision,
        title=pending.title,
        is_safe=pending.is_safe,
        estimated_seconds=ceil(pending.seconds),
        changes=[SchemaChangeResponse.model_validate(each) for each in pending.changes],
    )
