"""Tenants, on both engines."""

import pytest

from mailwright.domain.clock import ManualClock
from mailwright.domain.errors import InvalidInput, NotFound
from mailwright.outbox import tenants
from mailwright.storage.database import Database


async def test_default_tenant_exists(database: Database) -> None:
    [tenant] = await tenants.list_all(database)
    assert (tenant.name, tenant.weight, tenant.max_in_flight) == (tenants.DEFAULT, 1, None)


async def test_tenant_is_created_found_and_changed(database: Database, clock: ManualClock) -> None:
    made = await tenants.create(database, clock, "acme-shop", weight=3)
    assert await tenants.find(database, "acme-shop") == made
    assert (made.weight, made.created_at) == (3, clock.now())
    changed = await tenants.change(
        database,
        "acme-shop",
        max_in_flight=10,
        daily_limit=1_000,
        working_hours="09:00-18:00",
        timezone="Europe/Lisbon",
    )
    assert (changed.weight, changed.max_in_flight, changed.daily_limit) == (3, 10, 1_000)
    lifted = await tenants.change(database, "acme-shop", max_in_flight=None)
    assert (lifted.max_in_flight, lifted.working_hours, lifted.timezone) == (None, "09:00-18:00", "Europe/Lisbon")
    assert await tenants.change(database, "acme-shop") == lifted
    assert [tenant.name for tenant in await tenants.list_all(database)] == ["acme-shop", "default"]


async def test_login_is_unique(database: Database, clock: ManualClock) -> None:
    with pytest.raises(tenants.TenantExists, match="default"):
        await tenants.create(database, clock, "default")


@pytest.mark.parametrize("name", ["", "Acme", "acme shop", "-acme", "acme-", "a" * 64, "ac/me", "акме"])
async def test_tenant_name_needs_no_quoting(database: Database, clock: ManualClock, name: str) -> None:
    with pytest.raises(InvalidInput):
        await tenants.create(database, clock, name)


@pytest.mark.parametrize(
    "changes",
    [
        {"weight": 0},
        {"weight": 1_001},
        {"max_in_flight": 0},
        {"rate_per_second": -1},
        {"daily_limit": 2**31},
        {"working_hours": "09:00-09:00"},
        {"working_hours": "9-18"},
        {"timezone": "Mars/Base"},
        {"timezone": "../etc/passwd"},
    ],
)
async def test_invalid_limit_is_rejected(database: Database, changes: dict[str, object]) -> None:
    with pytest.raises(InvalidInput) as refused:
        await tenants.change(database, "default", **changes)  # type: ignore[arg-type]
    assert refused.value.field == next(iter(changes))


async def test_unknown_tenant_is_not_found(database: Database) -> None:
    with pytest.raises(NotFound):
        await tenants.find(database, "nobody")
    with pytest.raises(NotFound):
        await tenants.change(database, "nobody", weight=2)
