"""Models of providers and their quotas."""

from collections.abc import Sequence
from typing import Literal

from mailwright.outbox.quotas import ProviderQuota
from mailwright.outbox.workers import WorkerPresence, learned_rate_of
from mailwright.schemas.base import ResponseModel, Time


class QuotaResponse(ResponseModel):
    """The quota that the provider last reported, and how much has been used since.

    `isRateKept`: false if the provider has not confirmed its send rate for too long, so that it no longer applies.
    """

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
    """`left_alone`: no worker uses the provider until `unavailableUntil`. `unused`: no worker has it in its route.

    `learnedRate`: messages per second that all workers together send, while the provider throttles them.
    """

    provider: str
    status: Literal["ok", "left_alone", "unused"]
    workers: int
    unavailable_until: Time | None
    unavailable_reason: str | None
    learned_rate: float | None
    quota: QuotaResponse | None


class ProviderListResponse(ResponseModel):
    providers: list[ProviderResponse]


def provider_response(name: str, seen: Sequence[WorkerPresence], quota: ProviderQuota | None) -> ProviderResponse:
    """Build the response. The status is `left_alone` only if no worker uses the provider at present."""
    unavailable = [presence for presence in seen if presence.unavailable_until is not None]
    first = unavailable[0] if unavailable and len(unavailable) == len(seen) else None
    return ProviderResponse(
        provider=name,
        status="unused" if not seen else "left_alone" if first else "ok",
        workers=len(seen),
        unavailable_until=first.unavailable_until if first else None,
        unavailable_reason=first.unavailable_reason if first else None,
        learned_rate=None if (rate := learned_rate_of(seen)) is None else round(rate, 1),
        quota=_quota(quota) if quota else None,
    )


def _quota(quota: ProviderQuota) -> QuotaResponse:
    return QuotaResponse(
        remaining=quota.remaining,
        sent_since=quota.sent_since,
        limit_per_day=quota.limit_per_day,
        rate_per_second=quota.rate_per_second,
        is_rate_kept=quota.is_rate_kept,
        missed=quota.failed_syncs,
        detail=quota.detail,
        synced_at=quota.synced_at,
        failed_at=quota.failed_at,
        failure=quota.failure,
    )
