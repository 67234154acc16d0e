"""The limits of each tenant: its own where it has one, the settings' elsewhere."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select

from mailwright.domain.permits import Limits
from mailwright.storage.database import Database
from mailwright.storage.tables import tenants

LIMITED = ("rate_per_second", "rate_per_hour", "daily_limit", "working_hours", "timezone")


async def limits_of_tenants(database: Database, default: Limits) -> Mapping[int, Limits]:
    """Only the tenants that have a limit of their own: everyone else has the default."""
    columns = [tenants.c[name] for name in LIMITED]
    async with database.read() as tx:
        rows = await tx.execute(select(tenants.c.id, *columns))
    return {
        row.id: Limits(**{name: _own_or(getattr(row, name), getattr(default, name)) for name in LIMITED})
        for row in rows
        if any(getattr(row, name) is not None for name in LIMITED)
    }


def _own_or(own: Any, default: Any) -> Any:
    return default if own is None else own
