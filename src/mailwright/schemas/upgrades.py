"""Models of what an update would change."""

from mailwright.checks.upgrade import UpgradeCheck
from mailwright.schemas.base import ResponseModel, Time


class SchemaChangeResponse(ResponseModel):
    table: str
    effect: str
    is_safe: bool


class MigrationResponse(ResponseModel):
    revision: str
    title: str
    is_safe: bool
    changes: list[SchemaChangeResponse]


class UnknownSettingResponse(ResponseModel):
    name: str
    problem: str


class UpgradeResponse(ResponseModel):
    """What an upgrade to this version would change. `settings`: those without effect."""

    version: str
    database: str
    current: str | None
    newest: str
    is_newer: bool
    problem: str | None
    is_safe_during_traffic: bool
    pending: list[MigrationResponse]
    settings: list[UnknownSettingResponse]
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
        pending=[MigrationResponse.model_validate(each) for each in found.schema.pending],
        settings=[UnknownSettingResponse.model_validate(each) for each in found.settings],
        last_backup=None if found.backup is None else found.backup.at,
        has_fresh_backup=found.has_fresh_backup,
        needs_attention=found.needs_attention,
    )
