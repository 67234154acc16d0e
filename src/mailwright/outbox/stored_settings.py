"""Settings that administrators change while the installation runs. Secret values are encrypted."""

import hashlib
from collections.abc import Container, Iterable, Mapping
from dataclasses import field

from sqlalchemy import delete, select

from mailwright.domain.clock import Clock, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.outbox.audit_log import record
from mailwright.storage.database import Database
from mailwright.storage.statements import statement
from mailwright.storage.tables import stored_settings

STORE_SETTING = statement(__package__, "store_setting")


@dataclass(frozen=True, slots=True)
class StoredSetting:
    name: str
    value: str = field(repr=False)  # Encrypted if it is a secret.
    updated_at: Instant
    updated_by: str


async def load_stored(database: Database) -> list[StoredSetting]:
    async with database.read() as tx:
        rows = await tx.execute(select(stored_settings).order_by(stored_settings.c.name))
    return [StoredSetting(row.name, row.value, row.updated_at, row.updated_by) for row in rows]


def version_of(stored: Iterable[StoredSetting]) -> str:
    """Return a fingerprint of the settings. Processes report it, to show which settings they use."""
    digest = hashlib.sha256()
    for each in stored:
        digest.update(f"{each.name}\0{each.value}\0".encode())
    return digest.hexdigest()[:16]


async def save_stored(
    database: Database, clock: Clock, changes: Mapping[str, str | None], *, secrets: Container[str], actor: str
) -> None:
    """Store the values; None deletes a value. The audit log records every change, but no secret."""
    now = clock.now()
    async with database.write() as tx:
        for name, value in changes.items():
            if value is None:
                gone = delete(stored_settings).where(stored_settings.c.name == name).returning(stored_settings.c.name)
                if await tx.execute(gone):
                    await record(tx, now, actor=actor, action="setting_unset", subject=name, tenant_id=None)
                continue
            is_secret = name in secrets
            text = await database.secret_box.encrypt(tx, value) if is_secret else value
            await tx.run(STORE_SETTING, name=name, value=text, now=now, actor=actor)
            detail = {"to": "(secret)" if is_secret else value}
            await record(tx, now, actor=actor, action="setting_set", subject=name, tenant_id=None, detail=detail)
