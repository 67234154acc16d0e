"""What the sources of recipients have in common: pages by address, and updates of two columns."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Protocol

from mailwright.outbox import tenants
from mailwright.sources.articles.profiles.columns import ProfileColumns
from mailwright.sources.articles.profiles.errors import ProfilesUnavailable
from mailwright.sources.recipient_statuses import StatusWrite, SubscriberStatus
from mailwright.storage.database import Database

# Rows by field, as `ProfileColumns` names them.
ProfileRows = Sequence[Mapping[str, Any]]


class ProfileTable(Protocol):
    """A table of recipients. Every method raises `ProfilesRefused` or `ProfilesUnavailable`."""

    @property
    def description(self) -> str:
        """The table and the server, without secrets."""
        ...

    @property
    def columns(self) -> ProfileColumns: ...

    async def probe(self) -> None:
        """Raise if the table or a column is missing, or no row can be read."""
        ...

    async def probe_update(self) -> None:
        """Raise if the columns of the status and of the lists cannot be written."""
        ...

    async def page(self, after: str | None) -> ProfileRows:
        """Return the rows after an address, by address. A short page is not the last one; an empty page is."""
        ...

    async def rows_of(self, email: str) -> ProfileRows:
        """Return the rows of an address in any spelling."""
        ...

    async def write_status(self, change: SubscriberStatus) -> StatusWrite:
        """Write only the column of the status, in every row of the address."""
        ...

    async def replace_lists(self, email: str, before: Any, after: Any, *, rows: int) -> int:
        """Replace the lists of the rows that have exactly these ones, and return how many changed.

        `email` is the address as it is stored, and `rows` the number of rows that were read.
        """
        ...

    async def close(self) -> None: ...


class ProfileSource:
    """The table of one tenant. Other tenants send articles to their contacts."""

    def __init__(self, database: Database, table: ProfileTable, tenant: str) -> None:
        self.table = table
        self._database = database
        self._tenant = tenant
        self._tenant_id: int | None = None

    async def tenant_id(self) -> int:
        if self._tenant_id is None:
            self._tenant_id = (await tenants.find(self._database, self._tenant)).id
        return self._tenant_id

    async def table_of(self, tenant_id: int) -> ProfileTable | None:
        return self.table if tenant_id == await self.tenant_id() else None


async def table_of(source: ProfileSource | None, tenant_id: int) -> ProfileTable | None:
    return None if source is None else await source.table_of(tenant_id)


def whole_groups(rows: ProfileRows, after: str | None) -> ProfileRows:
    """Return the rows of a page without those of its last address, which may continue on the next page.

    If all rows have the same address, return all of them. The next page begins after the last row that is returned.
    """
    emails = [_folded(row) for row in rows]
    if after is not None and after in [row.get("email") for row in rows]:
        raise ProfilesUnavailable("The table returned the same page of recipients twice.")
    complete = [row for row, email in zip(rows, emails, strict=True) if email != emails[-1]]
    return complete or rows


async def all_rows(table: ProfileTable) -> AsyncIterator[ProfileRows]:
    """Yield all rows in pages. The table must pass its check before, and again after the last row."""
    await table.probe()
    after: str | None = None
    while rows := await table.page(after):
        page = whole_groups(rows, after)
        after = cursor_of(page)
        yield page
    await table.probe()


def cursor_of(rows: ProfileRows) -> str:
    return str(rows[-1].get("email") or "")


def _folded(row: Mapping[str, Any]) -> str:
    # Some columns ignore case, so that these rows are equal for the database.
    return str(row.get("email") or "").casefold()
