"""Health: is the process alive, can it do its work, and what do its figures say."""

from functools import cache
from http import HTTPStatus
from typing import Any, Literal

from fastapi import APIRouter, Request
from prometheus_client.exposition import choose_encoder
from sqlalchemy import Select, column, select, table
from sqlalchemy.exc import ProgrammingError
from starlette.responses import Response

from mailwright.domain.errors import NotDurable
from mailwright.ops import metrics
from mailwright.ops.logs import logger
from mailwright.outbox.workers import list_present
from mailwright.schemas.answers import ResponseModel
from mailwright.storage.database import Database
from mailwright.storage.migrate import newest_revision
from mailwright.web.api.openapi import describe_success
from mailwright.web.bodies import json_response
from mailwright.web.parts import ApiParts, Parts

_TEXT = {"schema": {"type": "string"}}
_METRICS_TYPES = ("text/plain", "application/openmetrics-text")

router = APIRouter(tags=["health"])

log = logger(__name__)

_REVISION: Select[Any] = select(column("version_num")).select_from(table("alembic_version"))

_newest_revision = cache(newest_revision)


class LivenessResponse(ResponseModel):
    status: Literal["ok"]


class ReadinessResponse(ResponseModel):
    """`ready`, or which part is not."""

    status: Literal["ready", "not_ready"]
    parts: dict[str, str]
    providers: dict[str, Literal["ok", "left_alone"]]


@router.get("/healthz", responses=describe_success({HTTPStatus.OK: LivenessResponse}))
async def healthz() -> Response:
    """The process is alive. Nothing else is asked, so that a database's outage restarts nobody."""
    return json_response({"status": "ok"})


@router.get(
    "/readyz",
    responses=describe_success({HTTPStatus.OK: ReadinessResponse, HTTPStatus.SERVICE_UNAVAILABLE: ReadinessResponse}),
)
async def readyz(parts: Parts) -> Response:
    """The database answers and has the newest form, and the worker in this process, if there is one, runs.

    Providers are told beside that: while one is left alone, mail is accepted and waits, or goes through another.
    """
    found = await _database_parts(parts.database)
    providers = await _providers(parts) if set(found.values()) == {"ok"} else {}
    if parts.is_worker_alive is not None:
        found["worker"] = "ok" if parts.is_worker_alive() else "stopped"
    is_ready = set(found.values()) == {"ok"}
    return json_response(
        {"status": "ready" if is_ready else "not_ready", "parts": found, "providers": providers},
        HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE,
    )


@router.get("/metrics", responses={200: {"description": "OK", "content": dict.fromkeys(_METRICS_TYPES, _TEXT)}})
async def prometheus(request: Request, parts: Parts) -> Response:
    """Prometheus' text format, or OpenMetrics for whoever asks for it: only that one shows examples of messages."""
    try:
        await parts.gauges.refresh()
    except NotDurable as error:
        # The counters are in memory: they are worth most while the database is out of reach.
        log.warning("gauges_not_refreshed", reason=str(error))
    encode, media_type = choose_encoder(request.headers.get("accept", ""))
    return Response(encode(metrics.REGISTRY), media_type=media_type)


async def _providers(parts: ApiParts) -> dict[str, str]:
    """As the workers that were heard of lately see them: one that any of them can use is fine."""
    now = parts.clock.now()
    found: dict[str, str] = {}
    for presence in await list_present(parts.database, now):
        is_left_alone = presence.unavailable_until is not None and presence.unavailable_until > now
        if not is_left_alone or presence.provider not in found:
            found[presence.provider] = "left_alone" if is_left_alone else "ok"
    return found


async def _database_parts(database: Database) -> dict[str, str]:
    try:
        async with database.read() as tx:
            rows = await tx.execute(_REVISION)
    except NotDurable:
        return {"database": "unreachable"}
    except ProgrammingError:
        return {"database": "ok", "schema": "missing"}
    is_newest = bool(rows) and rows[0].version_num == _newest_revision()
    return {"database": "ok", "schema": "ok" if is_newest else "behind"}
