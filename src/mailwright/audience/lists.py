"""Lists, which contacts subscribe to and bulk email is sent to. The list `general` always exists."""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import ColumnElement, insert, select, update
from sqlalchemy.exc import IntegrityError

from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import InvalidInput, NotFound, NotPossibleNow
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.tracking import TrackingMode
from mailwright.domain.unsubscribe_tokens import GENERAL
from mailwright.outbox import audit_log
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import lists

__all__ = [
    "GENERAL",
    "KEY_PATTERN",
    "List",
    "ListExists",
    "NoSuchList",
    "UnknownList",
    "columns",
    "create",
    "edit",
    "existing_keys",
    "find",
    "list_all",
    "require",
]

# Keys appear in links, headers and commands, so they need no quoting anywhere.
KEY_PATTERN: Final = r"[a-z0-9][a-z0-9_-]{0,62}"

_KEY = re.compile(KEY_PATTERN)


class ListExists(NotPossibleNow):
    """A list with this key already exists."""

    code = "LIST_EXISTS"


class UnknownList(InvalidInput):
    """There is no list with this key."""

    code = "LIST_NOT_FOUND"

    def __init__(self, list_key: str, field: str = "listKey") -> None:
        super().__init__("There is no list {list_key}. Create it first.", field=field, list_key=repr(list_key[:63]))
        self.list_key = list_key


class NoSuchList(NotFound):
    """There is no such list."""

    def __init__(self, list_key: str) -> None:
        super().__init__("There is no list {list_key}.", list_key=repr(list_key[:63]))
        self.list_key = list_key


@dataclass(frozen=True, slots=True)
class List:
    list_key: str
    name: str
    description: str | None
    is_public: bool  # shown to every contact on the preference page
    created_at: Instant
    requires_confirmation: bool = False  # double opt-in
    tracking: str | None = None  # the most tracking that the list's messages may use
    archived_at: Instant | None = None  # None: in use


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
    tracking: TrackingMode | None = None,
    actor: str | None = None,
) -> List:
    """Create a list. An `actor` is recorded in the audit log."""
    if not _KEY.fullmatch(list_key):
        raise InvalidInput(
            "A list key has 1 to 63 characters: a-z, 0-9, - and _, for example product-news.", field="listKey"
        )
    if list_key == GENERAL:
        raise ListExists("The list general always exists. It stands for all bulk email.", field="listKey")
    new_list = List(list_key, name or list_key, description, is_public, clock.now(), requires_confirmation, tracking)
    values = {field: getattr(new_list, field) for field in List.__slots__}
    try:
        async with database.write() as tx:
            await tx.execute(insert(lists).values(tenant_id=tenant_id, **values))
            if actor is not None:
                await audit_log.record(
                    tx, new_list.created_at, actor=actor, action="list.create", subject=list_key, tenant_id=tenant_id
                )
    except IntegrityError as error:
        raise ListExists("The list {list_key} already exists.", field="listKey", list_key=list_key) from error
    return new_list


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
    tracking: TrackingMode | None = None,
    actor: str,
) -> List:
    """Change a list. None keeps a value. An empty string removes the description.

    Double opt-in applies to new subscriptions only. Existing ones stay confirmed.
    """
    given = {
        "name": name,
        "description": description,
        "is_public": is_public,
        "requires_confirmation": requires_confirmation,
        "tracking": tracking,
    }
    new_values = {field: value if value != "" else None for field, value in given.items() if value is not None}
    matching = (lists.c.tenant_id == tenant_id, lists.c.list_key == list_key)
    async with database.write() as tx:
        rows: Any = await tx.execute(select(*columns()).where(*matching).with_for_update())
        if not rows:
            raise NoSuchList(list_key)
        current = List(**rows[0]._mapping)
        changes: dict[str, Any] = {
            field: value for field, value in new_values.items() if getattr(current, field) != value
        }
        if changes:
            await tx.execute(update(lists).where(*matching).values(**changes))
            await audit_log.record(
                tx,
                clock.now(),
                actor=actor,
                action="list.edit",
                subject=list_key,
                tenant_id=tenant_id,
                detail=changes,
            )
    return replace(current, **changes)


async def list_all(database: Database, tenant_id: int, *, with_archived: bool = False) -> list[List]:
    """Return the lists by name. Archived ones are left out unless they are asked for."""
    query = select(*columns()).where(lists.c.tenant_id == tenant_id)
    if not with_archived:
        query = query.where(lists.c.archived_at.is_(None))
    async with database.read() as tx:
        rows: Any = await tx.execute(query.order_by(lists.c.name, lists.c.list_key))
    return [List(**row._mapping) for row in rows]


async def find(database: Database, tenant_id: int, list_key: str) -> None:
    """Raise NoSuchList unless the tenant has this list."""
    async with database.read() as tx:
        if list_key not in await existing_keys(tx, tenant_id, [list_key]):
            raise NoSuchList(list_key)


async def existing_keys(tx: Transaction, tenant_id: int, list_keys: Iterable[str]) -> set[str]:
    """Return which of these lists exist."""
    valid = {key for key in list_keys if _KEY.fullmatch(key)}
    named = valid - {GENERAL}
    if not named:
        return valid
    matching = (lists.c.tenant_id == tenant_id, lists.c.list_key.in_(sorted(named)))
    rows = await tx.execute(select(lists.c.list_key).where(*matching))
    return {row.list_key for row in rows} | (valid & {GENERAL})


async def require(tx: Transaction, tenant_id: int, list_key: str, *, field: str = "listKey") -> None:
    """Raise UnknownList unless the list exists. `field` is the request field with the list key."""
    if list_key not in await existing_keys(tx, tenant_id, [list_key]):
        raise UnknownList(list_key, field)


def columns() -> list[ColumnElement[Any]]:
    return [lists.c[name] for name in List.__slots__]
