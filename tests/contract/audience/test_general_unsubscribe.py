"""An unsubscribe from all bulk email is also recorded in the subscription to `general`."""

import pytest
from sqlalchemy import select

from mailwright.audience.status import ContactStatusService, activate, subscribe
from mailwright.storage.tables import contacts, subscriptions
from tests.builders import DEFAULT_TENANT, Bench


async def times_of(bench: Bench, email: str) -> dict[str, tuple[int | None, int | None]]:
    """Return when the contact subscribed to and unsubscribed from each list."""
    query = select(subscriptions.c.list_key, subscriptions.c.subscribed_at, subscriptions.c.unsubscribed_at)
    query = query.join(contacts, contacts.c.id == subscriptions.c.contact_key)
    async with bench.database.read() as tx:
        rows = await tx.execute(query.where(contacts.c.email == email))
    return {row.list_key: (row.subscribed_at, row.unsubscribed_at) for row in rows}


@pytest.mark.parametrize("was_subscribed", [True, False])
async def test_unsubscribe_from_everything_is_in_the_subscription(bench: Bench, was_subscribed: bool) -> None:
    service, email = ContactStatusService(bench.database, bench.clock), "jane@example.com"
    joined_at = bench.clock.now() if was_subscribed else None
    if was_subscribed:
        async with bench.database.write() as tx:
            await subscribe(tx, DEFAULT_TENANT, [email], "general", source="form", now=bench.clock.now())
    bench.clock.advance(1_000)
    left_at = bench.clock.now()
    for _ in range(2):  # A repeat changes nothing.
        await service.unsubscribe_by_link(DEFAULT_TENANT, email, "general", source="link")
        assert await times_of(bench, email) == {"general": (joined_at, left_at)}
        bench.clock.advance(1_000)
    await service.resubscribe_by_link(DEFAULT_TENANT, email, "general", source="undo")
    assert await times_of(bench, email) == ({"general": (joined_at, None)} if was_subscribed else {})
    await service.unsubscribe_by_link(DEFAULT_TENANT, email, "general", source="link")
    async with bench.database.write() as tx:
        await activate(tx, DEFAULT_TENANT, email, source="operator", now=bench.clock.now())
    assert await times_of(bench, email) == ({"general": (joined_at, None)} if was_subscribed else {})
