"""Lists, which contacts subscribe to and bulk email is sent to. The list `general` always exists."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson
from sqlalchemy import ColumnElement, insert, select, update
from sqlalchemy import delete as delete_rows
from sqlalchemy.exc import IntegrityError

from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import InvalidInput, NotFound, NotPossibleNow
from mailwright.domain.tracking import TrackingMode
from mailwright.domain.unsubscribe_tokens import GENERAL
from mailwright.outbox import audit_log
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import campaign_runs, campaigns, lists, subscriptions

__all__ = [
    "GENERAL",
    "KEY_PATTERN",
    "List",
    "ListExists",
    "ListInUse",
    "UnknownList",
    "create",
    "delete",
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


class ListInUse(NotPossibleNow):
    """A campaign or an article is being sent to this list."""

    code = "LIST_IN_USE"


class UnknownList(InvalidInput):
    """There is no list with this key."""

    code = "LIST_NOT_FOUND"

    def __init__(self, list_key: str) -> None:
        super().__init__(f"There is no list {list_key[:63]!r}. Create it first.", field="listKey")
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
        raise ListExists(f"The list {list_key} already exists.", field="listKey") from error
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
        rows: Any = await tx.execute(select(*_columns()).where(*matching).with_for_update())
        if not rows:
            raise NotFound("There is no such list.")
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


async def delete(database: Database, clock: Clock, tenant_id: int, list_key: str, *, actor: str) -> None:
    """Delete a list and its subscriptions. Raise `ListInUse` if a campaign or an article is being sent to it.

    Unsubscribes from the list stay, so that a new list with the same key does not reach these contacts.
    """
    if list_key == GENERAL:
        raise NotPossibleNow("The list general stands for all bulk email and cannot be deleted.")
    matching = (lists.c.tenant_id == tenant_id, lists.c.list_key == list_key)
    async with database.write() as tx:
        if not await tx.execute(select(lists.c.id).where(*matching).with_for_update()):
            raise NotFound("There is no such list.")
        if user := await _find_user(tx, tenant_id, list_key):
            raise ListInUse(
                f"The list {list_key} cannot be deleted because {user} is being sent to it. "
                "Cancel that, or wait until it is sent."
            )
        current = (subscriptions.c.tenant_id == tenant_id, subscriptions.c.list_key == list_key)
        await tx.execute(delete_rows(subscriptions).where(*current, subscriptions.c.unsubscribed_at.is_(None)))
        await tx.execute(delete_rows(lists).where(*matching))
        await audit_log.record(
            tx, clock.now(), actor=actor, action="list.delete", subject=list_key, tenant_id=tenant_id
        )


async def _find_user(tx: Transaction, tenant_id: int, list_key: str) -> str | None:
    """Return the name of a campaign or an article that is being sent to the list, or None."""
    is_open = campaigns.c.status.in_(["READY", "SENDING", "PAUSED"])
    for row in await tx.execute(
        select(campaigns.c.name, campaigns.c.definition).where(campaigns.c.tenant_id == tenant_id, is_open)
    ):
        if list_key in orjson.loads(row.definition).get("lists", ()):
            return f"the campaign {row.name}"
    run = (campaign_runs.c.tenant_id == tenant_id, campaign_runs.c.list_key == list_key)
    rows = await tx.execute(
        select(campaign_runs.c.article_key).where(*run, campaign_runs.c.enqueue_ended_at.is_(None)).limit(1)
    )
    return f"the article {rows[0].article_key}" if rows else None


async def list_all(database: Database, tenant_id: int) -> list[List]:
    query = select(*_columns()).where(lists.c.tenant_id == tenant_id)
    async with database.read() as tx:
        rows: Any = await tx.execute(query.order_by(lists.c.name, lists.c.list_key))
    return [List(**row._mapping) for row in rows]


async def find(database: Database, tenant_id: int, list_key: str) -> None:
    """Raise NotFound unless the tenant has this list."""
    async with database.read() as tx:
        if list_key not in await existing_keys(tx, tenant_id, [list_key]):
            raise NotFound("There is no such list.")


async def existing_keys(tx: Transaction, tenant_id: int, list_keys: Iterable[str]) -> set[str]:
    """Return which of these lists exist."""
    valid = {key for key in list_keys if _KEY.fullmatch(key)}
    named = valid - {GENERAL}
    if not named:
        return valid
    matching = (lists.c.tenant_id == tenant_id, lists.c.list_key.in_(sorted(named)))
    rows = await tx.execute(select(lists.c.list_key).where(*matching))
    return {row.list_key for row in rows} | (valid & {GENERAL})


async def require(tx: Transaction, tenant_id: int, list_key: str) -> None:
    """Raise UnknownList unless the list exists."""
    if list_key not in await existing_keys(tx, tenant_id, [list_key]):
        raise UnknownList(list_key)


def _columns() -> list[ColumnElement[Any]]:
    return [lists.c[name] for name in List.__slots__]
