"""Lists: what bulk mail is sent under, and what its readers join and leave. One, `general`, always exists."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import ColumnElement, insert, select, update
from sqlalchemy.exc import IntegrityError

from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import InvalidInput, NotFound, NotPossibleNow
from mailwright.domain.unsubscribe_tokens import GENERAL
from mailwright.outbox import audit_log
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import lists

__all__ = [
    "GENERAL",
    "KEY_PATTERN",
    "List",
    "ListExists",
    "UnknownList",
    "create",
    "edit",
    "existing_keys",
    "find",
    "list_all",
    "require",
    "unknown",
]

# A key stands in links, headers and commands: it must not need quoting anywhere.
KEY_PATTERN: Final = r"[a-z0-9][a-z0-9_-]{0,62}"

_KEY = re.compile(KEY_PATTERN)


class ListExists(NotPossibleNow):
    """A list of this key exists already."""

    code = "LIST_EXISTS"


class UnknownList(InvalidInput):
    """There is no list of this key."""

    code = "LIST_NOT_FOUND"

    def __init__(self, list_key: str) -> None:
        super().__init__(unknown(list_key), field="listKey")


@dataclass(frozen=True, slots=True)
class List:
    list_key: str
    name: str
    description: str | None
    is_public: bool  # shown to every reader who looks at their preferences
    created_at: Instant
    requires_confirmation: bool = False  # whoever is put on it is asked first


async def create(
    database: Database,
    clock: Clock,
    tenant_id: int,
    list_key: str,
    *,
    name: str | None = None,
    description: str | None = None,
    is_public: bool = True,
    requires_confirmation: bool = False,
    actor: str | None = None,
) -> List:
    """Whoever acts under a name of their own, as `actor`, is noted in the journal."""
    if not _KEY.fullmatch(list_key):
        raise InvalidInput("a list's key has 1 to 63 of a-z, 0-9, - and _, as in product-news", field="listKey")
    if list_key == GENERAL:
        raise ListExists("the list general is there from the start: it stands for all bulk mail", field="listKey")
    made = List(list_key, name or list_key, description, is_public, clock.now(), requires_confirmation)
    values = {field: getattr(made, field) for field in List.__slots__}
    try:
        async with database.write() as tx:
            await tx.execute(insert(lists).values(tenant_id=tenant_id, **values))
            if actor is not None:
                await audit_log.record(
                    tx, made.created_at, actor=actor, action="list.create", subject=list_key, tenant_id=tenant_id
                )
    except IntegrityError as error:
        raise ListExists(f"the list {list_key} exists already", field="listKey") from error
    return made


async def edit(
    database: Database,
    clock: Clock,
    tenant_id: int,
    list_key: str,
    *,
    name: str | None = None,
    description: str | None = None,
    is_public: bool | None = None,
    requires_confirmation: bool | None = None,
    actor: str,
) -> List:
    """What is None stays as it is; an empty description takes it away. Whoever is on the list stays on it: another way
    of joining holds for those who come from now on."""
    given = {
        "name": name,
        "description": description,
        "is_public": is_public,
        "requires_confirmation": requires_confirmation,
    }
    wanted = {field: value if value != "" else None for field, value in given.items() if value is not None}
    mine = (lists.c.tenant_id == tenant_id, lists.c.list_key == list_key)
    async with database.write() as tx:
        rows: Any = await tx.execute(select(*_columns()).where(*mine).with_for_update())
        if not rows:
            raise NotFound
        existing_keys = List(**rows[0]._mapping)
        changes: dict[str, Any] = {
            field: value for field, value in wanted.items() if getattr(existing_keys, field) != value
        }
        if changes:
            await tx.execute(update(lists).where(*mine).values(**changes))
            await audit_log.record(
                tx,
                clock.now(),
                actor=actor,
                action="list.edit",
                subject=list_key,
                tenant_id=tenant_id,
                detail=changes,
            )
    return replace(existing_keys, **changes)


async def list_all(database: Database, tenant_id: int) -> list[List]:
    query = select(*_columns()).where(lists.c.tenant_id == tenant_id)
    async with database.read() as tx:
        rows: Any = await tx.execute(query.order_by(lists.c.name, lists.c.list_key))
    return [List(**row._mapping) for row in rows]


async def find(database: Database, tenant_id: int, list_key: str) -> None:
    """For whoever names a list by its address: another tenant's is not found, like one that never was."""
    async with database.read() as tx:
        if list_key not in await existing_keys(tx, tenant_id, [list_key]):
            raise NotFound


async def existing_keys(tx: Transaction, tenant_id: int, list_keys: Iterable[str]) -> set[str]:
    """Which of these exist."""
    wanted = {key for key in list_keys if _KEY.fullmatch(key)}
    named = wanted - {GENERAL}
    if not named:
        return wanted
    mine = (lists.c.tenant_id == tenant_id, lists.c.list_key.in_(sorted(named)))
    rows = await tx.execute(select(lists.c.list_key).where(*mine))
    return {row.list_key for row in rows} | (wanted & {GENERAL})


async def require(tx: Transaction, tenant_id: int, list_key: str) -> None:
    """For whoever names a list in a field."""
    if list_key not in await existing_keys(tx, tenant_id, [list_key]):
        raise UnknownList(list_key)


def unknown(list_key: str) -> str:
    return (
        f"there is no list {list_key[:63]!r}; `mailwright list create {list_key[:63]}` or POST /v1/lists makes one"
        if _KEY.fullmatch(list_key)
        else "there is no such list; a list's key has 1 to 63 of a-z, 0-9, - and _"
    )


def _columns() -> list[ColumnElement[Any]]:
    return [lists.c[name] for name in List.__slots__]
