"""A table of recipients in Supabase."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from mailwright.providers.http import HttpClient
from mailwright.sources.articles.profiles.columns import COLUMNS, KEY, TABLE, URL, ProfileColumns, TableName
from mailwright.sources.articles.profiles.errors import (
    ProfileRowRefused,
    ProfilesError,
    ProfilesRefused,
    ProfilesUnavailable,
)
from mailwright.sources.articles.profiles.table import ProfileRows
from mailwright.sources.recipient_statuses import StatusWrite, SubscriberStatus
from mailwright.sources.supabase import (
    SettingNames,
    Sleep,
    SupabaseError,
    SupabaseRefused,
    SupabaseRest,
    SupabaseTable,
)


class SupabaseProfiles:
    def __init__(
        self, http: HttpClient, url: str, key: str, name: TableName, columns: ProfileColumns, *, sleep: Sleep
    ) -> None:
        self.columns = columns
        self.description = f"{name} in Supabase ({urlsplit(url).hostname})"
        self._http = http
        self._rest = SupabaseRest(http, url, key, settings=SettingNames(URL, KEY), schema=name.schema, sleep=sleep)
        self._table = SupabaseTable(self._rest, name.name, columns.email)
        self._selected = ",".join(sorted(set(columns.by_field.values())))

    async def probe(self) -> None:
        with _explained():
            self._rest.check_key()
            rows = await self._table.select(f"select={self._selected}&limit=1")
        if not rows:
            raise ProfilesRefused(
                "{table}: no row can be read. The table is empty, or row level security hides it. Set {setting} to the "
                "service_role key or a secret key.",
                table=self.description,
                setting=KEY,
            )

    async def probe_update(self) -> None:
        written = [column for column in (self.columns.status, self.columns.lists) if column is not None]
        if written:
            with _explained():
                await self._table.probe_update(dict.fromkeys(written))

    async def page(self, after: str | None) -> ProfileRows:
        with _explained():
            return [self._by_field(row) for row in await self._table.page(self._selected, after=after)]

    async def rows_of(self, email: str) -> ProfileRows:
        with _explained():
            return [self._by_field(row) for row in await self._table.rows_of(email, self._selected)]

    async def write_status(self, change: SubscriberStatus) -> StatusWrite:
        column = self.columns.status
        if column is None:
            return StatusWrite.UNCHANGED
        with _explained():
            changes = {column: change.status}
            return await self._table.write_status(change, changes, column=column, null_is_active=True)

    async def replace_lists(self, email: str, before: Any, after: Any, *, rows: int) -> int:
        column = self.columns.lists
        assert column is not None
        with _explained():
            return await self._table.replace_array(email, column, before, after, expected=rows)

    async def close(self) -> None:
        await self._http.close()

    def _by_field(self, row: Mapping[str, Any]) -> dict[str, Any]:
        return {name: row.get(column) for name, column in self.columns.by_field.items()}


@contextmanager
def _explained() -> Iterator[None]:
    """Turn errors of Supabase into errors that name the setting to correct."""
    try:
        yield
    except SupabaseRefused as error:
        raise _refused(error) from error
    except SupabaseError as error:
        raise ProfilesUnavailable("{setting}: {error}", setting=URL, error=error) from error


def _refused(error: SupabaseRefused) -> ProfilesError:
    match error.code:
        case "SUPABASE_NO_TABLE":
            return ProfilesRefused("{setting}: {error}", setting=TABLE, error=error)
        case "SUPABASE_NO_COLUMN":
            return ProfilesRefused(
                "{setting}: {error}. Add the column, or name another one in this setting.", setting=COLUMNS, error=error
            )
        case "SUPABASE_UNAUTHORIZED" | "SUPABASE_KEY_SEES_NOTHING" | "SUPABASE_REDIRECTED":
            return ProfilesRefused("{error}", error=error)
        case _:
            return ProfileRowRefused("{error}", error=error)
