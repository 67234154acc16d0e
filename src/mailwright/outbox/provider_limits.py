"""The limits of named providers, which apply to all tenants that use them together."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from typing import Any, Final

import orjson
from sqlalchemy import select

from mailwright.domain.permits import PROVIDER_LIMIT, LimitLevel, Limits
from mailwright.domain.working_hours import ALWAYS
from mailwright.outbox.defer import end_deferrals
from mailwright.storage.database import Readable, Transaction
from mailwright.storage.secret_box import SecretKeyInvalid
from mailwright.storage.tables import lane_deferrals, provider_configurations

# The settings of a named provider that limit it, with the type of their values.
LIMIT_SETTINGS: Final[Mapping[str, Any]] = {
    "rate_per_second": int,
    "rate_per_hour": int,
    "daily_limit": int,
    "warmup_since": date.fromisoformat,
    "warmup_start": int,
    "warmup_factor": float,
}
OWNER_PREFIX: Final = "provider-"


async def load_provider_limits(database: Readable, name: str, default: Limits) -> LimitLevel | None:
    """Return the limits of a named provider; None if it has none. Days, hours and reserve are as in the settings."""
    query = select(provider_configurations.c.settings).where(provider_configurations.c.name == name)
    async with database.read() as tx:
        rows = await tx.execute(query)
    try:
        texts: dict[str, str] = orjson.loads(database.secret_box.decrypt(rows[0].settings)) if rows else {}
    except SecretKeyInvalid:
        return None  # Its worker sends nothing.
    own = {each: parse(texts[each]) for each, parse in LIMIT_SETTINGS.items() if each in texts}
    if not own:
        return None
    nothing = dict.fromkeys(("rate_per_second", "rate_per_hour", "daily_limit", "warmup_since", "interval_ms"))
    rest = {"working_hours": ALWAYS, "frequency_cap": None, "one_at_a_time": False, "is_of_provider": True}
    return LimitLevel(f"{OWNER_PREFIX}{name}", replace(default, **{**nothing, **rest, **own}))


async def end_provider_limit_deferrals(tx: Transaction) -> None:
    """Let workers decide again about lanes that the limit of a provider defers, because it may have changed."""
    await end_deferrals(tx, lane_deferrals.c.defer_reason.startswith(f"{PROVIDER_LIMIT}:"))
