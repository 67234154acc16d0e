"""Run the sources of plugins that are switched on. A source that fails is retried; everything else goes on."""

import asyncio
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, cast

from mailwright.access.api_keys import Caller
from mailwright.access.roles import Scope
from mailwright.app.wiring import Engine
from mailwright.domain.errors import ConfigurationInvalid, NotDurable, NotFound, NotPossibleNow
from mailwright.domain.ids import uuid7
from mailwright.ops.periodic import exponential, run_periodically
from mailwright.ops.source_kind import PolledSource, SourceKind, Submit
from mailwright.ops.source_kinds import SOURCE_KINDS
from mailwright.outbox import tenants
from mailwright.sources.api.messages import RequestContext

_EXPECTED = (NotDurable, ConfigurationInvalid, NotFound, NotPossibleNow)


async def run_plugin_sources(engine: Engine) -> None:
    """Poll all sources that are switched on until cancelled; return at once if there are none."""
    async with asyncio.TaskGroup() as polling:
        for name in engine.settings.sources:
            if (kind := SOURCE_KINDS.get(name)) is not None:  # `check` reports the others.
                polling.create_task(_run(engine, kind))


async def make_source(engine: Engine, kind: SourceKind) -> PolledSource:
    tenant = await tenants.find(engine.database, engine.settings.sources_tenant)
    caller = Caller(tenant.id, tenant.name, frozenset({Scope.SEND}), key_name=kind.name)
    made = kind.load_source().make_source(engine.settings, engine.clock, _submit(engine, kind, caller))
    return cast("PolledSource", made)


def _submit(engine: Engine, kind: SourceKind, caller: Caller) -> Submit:
    async def submit(email: Mapping[str, Any], *, key: str) -> str:
        identity = f"source:{kind.name}:{sha256(key.encode()).hexdigest()[:40]}"
        context = RequestContext(caller, uuid7(engine.clock.now()), idempotency_key=identity)
        return (await engine.api_messages.send(context, email)).outbox_id

    return submit


async def _run(engine: Engine, kind: SourceKind) -> None:
    source: PolledSource | None = None

    async def poll() -> float:
        nonlocal source
        if source is None:
            source = await make_source(engine, kind)
        return 0.0 if await source.poll() else kind.poll_seconds

    pauses = exponential(kind.retry_seconds, kind.max_retry_seconds)
    await run_periodically(
        f"source:{kind.name}", poll, seconds=kind.poll_seconds, expected=_EXPECTED, retry_seconds=pauses
    )
