"""Models of what an update would change."""

from math import ceil
from typing import Annotated

from mailwright.checks.upgrade import UpgradeCheck
from mailwright.schemas.base import From, ResponseModel, Time, combine


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

    `is_missing`: there is no SQLite file yet, and `mailwright db upgrade` creates it.
    `settings`: those without effect. `changed_defaults`: since `compared_release`, of settings that are not set.
    """

    version: str
    database: Annotated[str, From("dialect")]
    is_missing: bool
    current: Annotated[str | None, From("found.revision")]
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
    return combine(
        UpgradeResponse,
        found,
        found.schema,
        version=version,
        pending=[
            combine(MigrationResponse, each, estimated_seconds=ceil(each.seconds)) for each in found.schema.pending
        ],
        last_backup=None if found.backup is None else found.backup.at,
    )
