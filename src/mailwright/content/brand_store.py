"""Load and save the brand kits of tenants."""

from pydantic import ValidationError
from sqlalchemy import select

from mailwright.content.brand import DEFAULT_BRAND, Brand
from mailwright.domain.clock import Clock
from mailwright.ops.logs import logger
from mailwright.outbox import audit_log
from mailwright.outbox.tenants import store_brand
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import tenants

log = logger(__name__)


class Brands:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def load(self, tenant_id: int) -> Brand:
        """Return the tenant's brand kit, or the default."""
        async with self._database.read() as tx:
            return await load_brand(tx, tenant_id)

    async def save(self, tenant_id: int, brand: Brand, *, actor: str) -> None:
        """Save the brand kit, and record in the audit log which fields changed."""
        async with self._database.write() as tx:
            await tx.execute(select(tenants.c.id).where(tenants.c.id == tenant_id).with_for_update())
            before = await load_brand(tx, tenant_id)
            changed = [name for name in Brand.model_fields if getattr(brand, name) != getattr(before, name)]
            name = await store_brand(tx, tenant_id, brand.model_dump_json(by_alias=True))
            if changed:
                entry = {"actor": actor, "action": "brand.change", "subject": name}
                await audit_log.record(tx, self._clock.now(), **entry, tenant_id=tenant_id, detail={"changed": changed})


async def load_brand(tx: Transaction, tenant_id: int) -> Brand:
    """Return the tenant's brand kit, or the default."""
    rows = await tx.execute(select(tenants.c.brand).where(tenants.c.id == tenant_id))
    return (parse_brand(rows[0].brand) if rows else None) or DEFAULT_BRAND


def parse_brand(text: str | None) -> Brand | None:
    """Return a stored brand kit.

    Return None if there is none, or if another version stored it and it cannot be read.
    """
    if text is None:
        return None
    try:
        return Brand.model_validate_json(text)
    except ValidationError as error:
        log.warning("brand_unreadable", errors=error.error_count())
        return None
