"""The audit log: who did what, recorded in the transaction of the action."""

from collections.abc import Mapping
from typing import Any, Final

import orjson
from sqlalchemy import insert, or_, select

from mailwright.domain.clock import Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import lazy_gettext
from mailwright.storage.database import Readable, Transaction
from mailwright.storage.tables import audit_log

# The actor of commands on the machine itself.
CONSOLE = "console"
# The actor of requests with an API key.
API = "api"
SYSTEM = "system"
# The detail of pauses after a restore.
RESTORED: Final = {"because": "the database was restored"}


@dataclass(frozen=True, slots=True)
class AuditEntry:
    id: int
    tenant_id: int | None
    actor: str
    action: str
    subject: str
    detail: dict[str, Any]
    created_at: Instant


async def record(
    tx: Transaction,
    now: Instant,
    *,
    actor: str,
    action: str,
    subject: str,
    tenant_id: int | None,
    detail: Mapping[str, Any] | None = None,
) -> None:
    await tx.execute(
        insert(audit_log).values(
            tenant_id=tenant_id,
            actor=actor,
            action=action,
            subject=subject,
            detail=orjson.dumps(detail or {}).decode(),
            created_at=now,
        )
    )


def describe_actor(actor: str) -> str:
    """Return who or what acted, for a sentence: the name of a user, `the API (key shop)` or `the command line`."""
    kind, separator, name = actor.partition(":")
    if kind == CONSOLE:
        return lazy_gettext("the command line")
    if kind == API:
        return lazy_gettext("the API (key {name})", name=name) if separator else lazy_gettext("the API")
    return actor


async def list_entries(
    database: Readable,
    *,
    tenant_id: int | None,
    limit: int,
    before: int = 2**63 - 1,
    subject: str | None = None,
    actor: str | None = None,
    action: str | None = None,
) -> list[AuditEntry]:
    """List entries, newest first. If `tenant_id` is None, list the entries of all tenants.

    `actor` is a login, `console`, `api` for all API keys, or `api:` with the name of one. `action` is an action such as
    `campaign.start`, or the beginning before the dot for all of them.
    """
    query = select(audit_log).where(audit_log.c.id < before)
    if tenant_id is not None:
        query = query.where(audit_log.c.tenant_id == tenant_id)
    if subject is not None:
        query = query.where(audit_log.c.subject == subject)
    if actor is not None:
        key = audit_log.c.actor.startswith(f"{actor}:", autoescape=True)
        query = query.where(or_(audit_log.c.actor == actor, key))
    if action is not None:
        beginning = audit_log.c.action.startswith(f"{action}.", autoescape=True)
        query = query.where(or_(audit_log.c.action == action, beginning))
    async with database.read() as tx:
        rows = await tx.execute(query.order_by(audit_log.c.id.desc()).limit(limit))
    return [AuditEntry(**{**row._mapping, "detail": orjson.loads(row.detail)}) for row in rows]
