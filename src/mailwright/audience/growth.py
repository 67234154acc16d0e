"""How the subscriptions of a tenant change over time."""

from sqlalchemy import and_, case, func, select

from mailwright.audience.eligibility import is_current
from mailwright.domain.clock import Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.storage.database import Readable
from mailwright.storage.tables import subscriptions


@dataclass(frozen=True, slots=True)
class AudienceGrowth:
    """Subscriptions to lists: the current ones, and those that began and ended in a period."""

    current: int
    joined: int
    left: int


async def load_growth(database: Readable, tenant_id: int, *, since: Instant) -> AudienceGrowth:
    """Count the subscriptions. Somebody who never joined did not leave: they said no in an imported file, or did
    not confirm."""
    s = subscriptions.c
    current = is_current(subscriptions)
    left = and_(s.unsubscribed_at >= since, s.subscribed_at.is_not(None), s.is_pending.is_(False))
    counts = (
        func.count(case((condition, 1))) for condition in (current, and_(current, s.subscribed_at >= since), left)
    )
    async with database.read() as tx:
        [row] = await tx.execute(select(*counts).where(s.tenant_id == tenant_id))
    return AudienceGrowth(*map(int, row))
