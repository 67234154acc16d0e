"""HTTP routes of health checks and metrics."""

from http import HTTPStatus
from typing import Final, Literal

from fastapi import APIRouter, Request
from prometheus_client.exposition import choose_encoder
from starlette.responses import Response

from mailwright import __version__
from mailwright.app.wiring import Engine
from mailwright.checks.valkey import ping
from mailwright.domain.errors import DatabaseDamaged, NotDurable
from mailwright.ops import metrics
from mailwright.ops.logs import logger
from mailwright.outbox.sending_hold import find_hold
from mailwright.outbox.workers import list_present
from mailwright.schemas.health import LivenessResponse, ReadinessResponse
from mailwright.storage.database import PROMPT_SECONDS, is_missing
from mailwright.storage.schema_state import SchemaStatus, load_schema
from mailwright.storage.standbys import StandbyMissing
from mailwright.web.api.openapi import describe_success
from mailwright.web.bodies import json_response
from mailwright.web.state import EngineDep, health_watch_of

_TEXT = {"schema": {"type": "string"}}
_METRICS_TYPES = ("text/plain", "application/openmetrics-text")

router = APIRouter(tags=["health"])

log = logger(__name__)

_SCHEMA_PROBLEMS: Final = {
    SchemaStatus.EMPTY: "missing",
    SchemaStatus.OLDER: "behind",
    SchemaStatus.UNFINISHED: "behind",
    SchemaStatus.UNRECORDED: "behind",
    SchemaStatus.NEWER: "ahead",
    SchemaStatus.EARLIER_BUILD: "different",
    SchemaStatus.OTHER_PROGRAM: "different",
    SchemaStatus.DIFFERENT: "different",
}


@router.get("/healthz", responses=describe_success({HTTPStatus.OK: LivenessResponse}))
async def healthz() -> Response:
    """Report that the process is alive. Nothing else is checked, so a database outage does not restart processes."""
    return json_response(LivenessResponse(status="ok"))


@router.get("/health", include_in_schema=False)
async def health(engine: EngineDep) -> Response:
    """Report that the process is alive, in the format that monitors of AmazonSender expect."""
    return json_response({"ok": True, "dry_run": engine.settings.dry_run})


@router.get(
    "/readyz",
    responses=describe_success({HTTPStatus.OK: ReadinessResponse, HTTPStatus.SERVICE_UNAVAILABLE: ReadinessResponse}),
)
async def readyz(engine: EngineDep) -> Response:
    """Report whether messages can be accepted: the database is reachable, migrated and writable.

    Also reports whether the worker of this process runs, if any, and why all sending is on hold, if it is; messages are
    still accepted then. Providers do not affect readiness: while one is unavailable, messages are accepted, and wait or
    go through another provider. Nor does Valkey: while it is unreachable, the database does its work.
    """
    parts = await _database_parts(engine)
    providers = await _providers(engine) if set(parts.values()) == {"ok"} else {}
    hold = await find_hold(engine.database) if set(parts.values()) == {"ok"} else None
    if engine.is_worker_alive is not None:
        parts["worker"] = "ok" if engine.is_worker_alive() else "stopped"
    is_ready = set(parts.values()) == {"ok"}
    if engine.valkey is not None:  # Without it, messages are accepted and sent through the database.
        parts["valkey"] = "ok" if await ping(engine.valkey) is None else "unreachable"
    return json_response(
        ReadinessResponse(
            status="ready" if is_ready else "not_ready",
            version=__version__,
            parts=parts,
            providers=providers,
            sending_held=hold.reason if hold is not None else None,
        ),
        HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE,
    )


@router.get("/metrics", responses={200: {"description": "OK", "content": dict.fromkeys(_METRICS_TYPES, _TEXT)}})
async def prometheus(request: Request, engine: EngineDep) -> Response:
    """Export metrics as Prometheus text, or as OpenMetrics if the client accepts it; only OpenMetrics has exemplars."""
    try:
        await engine.gauges.refresh()
        await health_watch_of(request).findings()
    except NotDurable as error:
        # Export the counters in memory anyway, because they matter most while the database is unreachable.
        log.warning("gauges_not_refreshed", reason=str(error))
    encode, media_type = choose_encoder(request.headers.get("accept", ""))
    return Response(encode(metrics.exported_registry()), media_type=media_type)


async def _providers(engine: Engine) -> dict[str, Literal["ok", "left_alone"]]:
    """Return the status of each provider. A provider is ok if any live worker can use it."""
    providers: dict[str, Literal["ok", "left_alone"]] = {}
    for presence in await list_present(engine.database, engine.clock.now()):
        if not presence.is_unavailable or presence.provider not in providers:
            providers[presence.provider] = "left_alone" if presence.is_unavailable else "ok"
    return providers


async def _database_parts(engine: Engine) -> dict[str, str]:
    if is_missing(engine.database):
        return {"database": "unreachable"}
    try:
        schema = await load_schema(engine.database, within=PROMPT_SECONDS)
    except DatabaseDamaged:
        return {"database": "damaged"}
    except NotDurable:
        return {"database": "unreachable"}
    if not schema.is_usable:
        return {"database": "ok", "schema": _SCHEMA_PROBLEMS[schema.status]}
    failure = await engine.write_probe.find_failure()
    if isinstance(failure, StandbyMissing):
        return {"database": "waits_for_standby", "schema": "ok"}
    return {"database": "ok" if failure is None else "not_writable", "schema": "ok"}
