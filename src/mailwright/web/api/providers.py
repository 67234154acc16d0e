"""Providers over HTTP: whether each takes mail now, and what it told of its limits. They are the installation's own."""

from http import HTTPStatus
from typing import Any, Literal

from fastapi import APIRouter
from starlette.responses import Response

from mailwright.domain.clock import isoformat
from mailwright.outbox import quotas
from mailwright.outbox.quotas import ProviderQuota
from mailwright.outbox.workers import WorkerPresence, presence_by_provider
from mailwright.schemas.answers import ResponseModel, Time
from mailwright.web.api.administrator import ADMINISTRATORS_ONLY, AdministratorDep
from mailwright.web.api.openapi import describe_responses
from mailwright.web.bodies import json_response
from mailwright.web.parts import Parts

router = APIRouter(prefix="/v1/providers", tags=["providers"])


class QuotaResponse(ResponseModel):
    """What a provider said, and how much of it was used since. A rate that it did not confirm for long is not kept."""

    remaining: int | None
    sent_since: int
    limit_per_day: int | None
    rate_per_second: int | None
    is_rate_kept: bool
    missed: int
    detail: str
    synced_at: Time
    failed_at: Time | None
    failure: str | None


class ProviderResponse(ResponseModel):
    """`left_alone`: no worker hands it anything until then. `unused`: no worker has it in its route."""

    provider: str
    status: Literal["ok", "left_alone", "unused"]
    workers: int
    unavailable_until: Time | None
    unavailable_reason: str | None
    quota: QuotaResponse | None


class ProviderListResponse(ResponseModel):
    providers: list[ProviderResponse]


@router.get("", openapi_extra=ADMINISTRATORS_ONLY, responses=describe_responses({HTTPStatus.OK: ProviderListResponse}))
async def list_providers(parts: Parts, _administrator: AdministratorDep) -> Response:
    """In the order of the route."""
    seen = await presence_by_provider(parts.database, parts.clock.now(), parts.defaults.providers)
    known = {each.provider: each for each in await quotas.load_quotas(parts.database)}
    found = [_provider(name, by_workers, known.get(name)) for name, by_workers in seen.items()]
    return json_response({"providers": found})


def _provider(name: str, seen: list[WorkerPresence], known: ProviderQuota | None) -> dict[str, Any]:
    shut = [presence for presence in seen if presence.unavailable_until is not None]
    first = shut[0] if shut and len(shut) == len(seen) else None
    return {
        "provider": name,
        "status": "unused" if not seen else "left_alone" if first else "ok",
        "workers": len(seen),
        "unavailableUntil": isoformat(first.unavailable_until) if first else None,
        "unavailableReason": first.unavailable_reason if first else None,
        "quota": _quota(known) if known else None,
    }


def _quota(known: ProviderQuota) -> dict[str, Any]:
    return {
        "remaining": known.remaining,
        "sentSince": known.sent_since,
        "limitPerDay": known.limit_per_day,
        "ratePerSecond": known.rate_per_second,
        "isRateKept": known.is_rate_kept,
        "missed": known.failed_syncs,
        "detail": known.detail,
        "syncedAt": isoformat(known.synced_at),
        "failedAt": isoformat(known.failed_at),
        "failure": known.failure,
    }
