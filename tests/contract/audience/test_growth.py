"""The growth of the audience, on both engines."""

from mailwright.audience.growth import AudienceGrowth, load_growth
from mailwright.audience.status import ContactStatusService
from mailwright.domain.clock import DAY
from tests.builders import DEFAULT_TENANT, Bench
from tests.campaigns import NEWS, a_list


async def test_growth_counts_who_joined_and_left(bench: Bench) -> None:
    await a_list(bench.database)
    statuses = ContactStatusService(bench.database, bench.clock)
    for name in ("ada", "bob", "cyd"):
        await statuses.subscribe(DEFAULT_TENANT, f"{name}@example.com", NEWS, source="test")
    bench.clock.advance(40 * DAY)
    await statuses.subscribe(DEFAULT_TENANT, "dan@example.com", NEWS, source="test")
    await statuses.unsubscribe(DEFAULT_TENANT, "bob@example.com", NEWS, source="test")
    await statuses.unsubscribe(DEFAULT_TENANT, "eve@example.com", NEWS, source="test")  # never joined
    found = await load_growth(bench.database, DEFAULT_TENANT, since=bench.clock.now() - 30 * DAY)
    assert found == AudienceGrowth(current=3, joined=1, left=1)
