"""A table of recipients in a PostgreSQL database of another program. Its tables are never created or altered."""

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

import orjson
from sqlalchemy import (
    ColumnElement,
    Select,
    Text,
    and_,
    cast,
    column,
    false,
    func,
    literal,
    or_,
    select,
    table,
    update,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.types import UserDefinedType

from mailwright.domain.errors import NotDurable
from mailwright.sources.articles.profiles.columns import COLUMNS, TABLE, URL, ProfileColumns, TableName
from mailwright.sources.articles.profiles.errors import (
    ProfileRowRefused,
    ProfilesError,
    ProfilesRefused,
    ProfilesUnavailable,
)
from mailwright.sources.articles.profiles.table import ProfileRows
from mailwright.sources.recipient_statuses import StatusWrite, SubscriberStatus, is_replaced
from mailwright.sources.supabase import array_literal, is_spelling_of, search_pattern
from mailwright.storage.database import Database, Transaction

PAGE_ROWS: Final = 1_000
_NOISE: Final = re.compile(r"<class '[^']*'>: ")


class PostgresqlProfiles:
    def __init__(self, database: Database, name: TableName, columns: ProfileColumns) -> None:
        self.columns = columns
        url = database.url
        self.description = f"{name} in PostgreSQL ({url.host or 'localhost'}/{url.database})"
        self._database = database
        self._names = sorted(set(columns.by_field.values()))
        self._table = table(name.name, *(column(each) for each in self._names), schema=name.schema)
        # As text, so that the order and the comparison agree for a column that ignores case.
        self._email = cast(self._table.c[columns.email], Text)

    async def probe(self) -> None:
        async with _reading(self._database) as tx:
            rows = await tx.execute(self._select().limit(1))
        if not rows:
            raise ProfilesRefused(
                "{table}: no row can be read. The table is empty, or row level security hides it from the user of "
                "{setting}.",
                table=self.description,
                setting=URL,
            )

    async def probe_update(self) -> None:
        written = [column for column in (self.columns.status, self.columns.lists) if column is not None]
        if written:
            async with _writing(self._database) as tx:
                await tx.execute(update(self._table).where(false()).values(dict.fromkeys(written)))

    async def page(self, after: str | None) -> ProfileRows:
        begins = self._email.is_not(None) if after is None else self._email > after
        async with _reading(self._database) as tx:
            return self._rows(await tx.execute(self._select().where(begins).order_by(self._email).limit(PAGE_ROWS)))

    async def rows_of(self, email: str) -> ProfileRows:
        async with _reading(self._database) as tx:
            return await self._find(tx, email)

    async def write_status(self, change: SubscriberStatus) -> StatusWrite:
        """Update every row of the address in one transaction, and verify that the rows changed."""
        name = self.columns.status
        if name is None:
            return StatusWrite.UNCHANGED
        async with _writing(self._database) as tx:
            found = await self._find(tx, change.email)
            outdated = [row["email"] for row in found if is_replaced(row["status"], change.status, null_is_active=True)]
            if not outdated:
                return StatusWrite.UNCHANGED if found else StatusWrite.MISSING
            where = and_(self._email.in_(sorted(set(outdated))), self._is_replaced(name, change.status))
            changed = await tx.execute(
                update(self._table).where(where).values({name: change.status}).returning(self._email)
            )
        if len(changed) < len(outdated):
            raise ProfileRowRefused(
                "{table}: {changed} of {count} rows of a recipient changed. Check the triggers and the row level "
                "security of the table.",
                table=self.description,
                changed=len(changed),
                count=len(outdated),
            )
        return StatusWrite.CHANGED

    async def replace_lists(self, email: str, before: Any, after: Any, *, rows: int) -> int:
        name = self.columns.lists
        assert name is not None
        column_of_lists = self._table.c[name]
        async with _writing(self._database) as tx:
            type_ = await self._type_of(tx, column_of_lists)
            is_unchanged = cast(column_of_lists, Text).is_not_distinct_from(cast(_typed(before, type_), Text))
            where = and_(self._email == email, is_unchanged)
            changed = update(self._table).where(where).values({name: _typed(after, type_)}).returning(self._email)
            return len(await tx.execute(changed))

    async def close(self) -> None:
        await self._database.close()

    async def _type_of(self, tx: Transaction, of: ColumnElement[Any]) -> str:
        """Return the type of a column, such as `text[]` or `jsonb`. The table has a row."""
        [row] = await tx.execute(select(cast(func.pg_typeof(of), Text).label("type")).select_from(self._table).limit(1))
        return str(row.type)

    def _is_replaced(self, name: str, status: str) -> ColumnElement[bool]:
        """Return the rule of `is_replaced` as a condition."""
        current = cast(self._table.c[name], Text)
        match status:
            case "bounced":
                return self._email.is_not(None)
            case "unsubscribed":
                return or_(current.is_(None), current != "bounced")
            case _:
                return current == "unsubscribed"

    async def _find(self, tx: Transaction, email: str) -> ProfileRows:
        # The pattern may match other addresses too.
        pattern = search_pattern(email).replace("*", "%")
        rows = self._rows(await tx.execute(self._select().where(self._email.ilike(pattern))))
        return [row for row in rows if is_spelling_of(str(row["email"]), email)]

    def _select(self) -> Select[Any]:
        return select(*(self._table.c[name] for name in self._names))

    def _rows(self, rows: Any) -> ProfileRows:
        return [
            {name: row._mapping[column_name] for name, column_name in self.columns.by_field.items()} for row in rows
        ]


class _NamedType(UserDefinedType[Any]):
    """A type of the other program's database, by name."""

    cache_ok = True

    def __init__(self, name: str) -> None:
        self.name = name

    def get_col_spec(self, **_options: Any) -> str:
        return self.name


def _typed(lists: Any, type_: str) -> ColumnElement[Any]:
    """Return lists as a value of the column: an array, JSON or text."""
    text = lists
    if isinstance(lists, list | tuple):
        text = array_literal(lists) if type_.endswith("[]") else orjson.dumps(lists).decode()
    return cast(cast(literal(text, Text), Text), _NamedType(type_))


@asynccontextmanager
async def _reading(database: Database) -> AsyncIterator[Transaction]:
    with _explained():
        async with database.read() as tx:
            yield tx


@asynccontextmanager
async def _writing(database: Database) -> AsyncIterator[Transaction]:
    with _explained():
        async with database.write() as tx:
            yield tx


@contextmanager
def _explained() -> Iterator[None]:
    """Turn errors of PostgreSQL into errors that name the setting to correct."""
    try:
        yield
    except (DBAPIError, NotDurable) as error:
        raise _problem(error) from error


# The setting to correct and the remedy, by SQLSTATE or its class.
_REMEDIES: Final = {
    "42P01": (TABLE, "Create the table, or correct the name"),
    "3F000": (TABLE, "Create the schema, or correct the name"),
    "42703": (COLUMNS, "Add the column, or name another one in this setting"),
    "42501": (URL, "Grant its user SELECT on the table, and UPDATE on the columns of the status and of the lists"),
    "28": (URL, "Correct the user or the password"),
    "3D": (URL, "Correct the name of the database"),
    "42": (COLUMNS, "Correct the types of the columns"),
}


# Values, constraints and triggers that refuse a row, by the class of the SQLSTATE.
_ROW_REFUSALS: Final = ("22", "23", "P0")


def _problem(error: Exception) -> ProfilesError:
    state, reason = _state(error), _reason(error)
    if state[:2] in _ROW_REFUSALS:
        return ProfileRowRefused("{setting}: {reason}.", setting=TABLE, reason=reason)
    remedy = _REMEDIES.get(state) or _REMEDIES.get(state[:2])
    if remedy is None:
        return ProfilesUnavailable("{setting}: {reason}.", setting=URL, reason=reason)
    setting, advice = remedy
    return ProfilesRefused("{setting}: {reason}. {advice}.", setting=setting, reason=reason, advice=advice)


def _state(error: BaseException | None) -> str:
    """Return the SQLSTATE of the first cause that has one."""
    while error is not None:
        state = getattr(error, "sqlstate", None) or getattr(getattr(error, "orig", None), "sqlstate", None)
        if isinstance(state, str):
            return state
        error = error.__cause__
    return ""


def _reason(error: Exception) -> str:
    text = str(getattr(error, "orig", None) or error)
    return _NOISE.sub("", text).split("\n")[0].strip().rstrip(".")[:300]
