"""Models of providers and their quotas."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from mailwright.app.named_providers import fields_of, is_secret
from mailwright.domain.provider_routes import ALL_SOURCES, INSTALLATION
from mailwright.ops.provider_kinds import KINDS
from mailwright.ops.stored import variable_of
from mailwright.outbox.provider_configurations import ProviderConfiguration, StoredProviders, StoredRoute
from mailwright.outbox.quotas import ProviderQuota
from mailwright.outbox.workers import WorkerPresence, learned_rate_of
from mailwright.schemas.base import ResponseModel, Time, extend
from mailwright.sources.api.fields import RequestModel

_Name = Annotated[str, Field(min_length=1, max_length=80)]
_Text = Annotated[str, Field(max_length=20_000)]


class ProviderRequest(RequestModel):
    """A named provider with its own credentials.

    `settings`: the settings of its kind, by the names of their variables.
    """

    name: Annotated[_Name, Field(description="acme-postmark")]
    kind: Annotated[_Name, Field(description="postmark")]
    settings: Annotated[dict[_Name, _Text], Field(max_length=40, default_factory=dict)]


class ProviderChangeRequest(RequestModel):
    """The settings to change; null removes a setting. The others stay."""

    settings: Annotated[dict[_Name, _Text | None], Field(max_length=40)]


class ProviderRouteRequest(RequestModel):
    """The provider that sends the messages of a tenant's source. `installation`: the provider of the installation."""

    tenant: _Name
    source: Annotated[_Name, Field(description="all")] = "all"
    provider: Annotated[_Name, Field(description="acme-postmark")]


class ProviderCheckResponse(ResponseModel):
    """The result of a connection test. `advice` is the next step, if it is known."""

    is_ok: bool
    summary: str
    advice: str


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


class ProviderQuotaResponse(QuotaResponse):
    """The quota of a provider. `failedSyncs`: consecutive failures, the same as `missed`."""

    provider: str
    failed_syncs: int


class ProviderResponse(ResponseModel):
    """`left_alone`: no worker uses the provider until `unavailableUntil`. `unused`: no worker has it in its route.

    `learnedRate`: the total rate of all workers in messages per second while the provider throttles them.
    """

    provider: str
    status: Literal["ok", "left_alone", "unused"]
    workers: int
    unavailable_until: Time | None
    unavailable_reason: str | None
    learned_rate: float | None
    quota: QuotaResponse | None


class ProviderRouteResponse(ResponseModel):
    """`source`: `all` for every source of the tenant without its own route.

    `provider`: `installation` for the provider of the installation.
    """

    tenant: str
    source: str
    provider: str
    updated_at: Time
    updated_by: str


class ProviderSettingResponse(ResponseModel):
    """A setting of a provider. A secret has no `value`."""

    name: str
    value: str | None
    is_secret: bool


class NamedProviderResponse(ResponseModel):
    """`problem`: why the provider cannot be used. Its messages wait until that is corrected.

    `webhookUrl`: where the provider reports events, if it can.
    """

    name: str
    kind: str
    settings: list[ProviderSettingResponse]
    problem: str | None
    webhook_url: str | None
    routes: list[ProviderRouteResponse]
    created_at: Time
    updated_at: Time
    updated_by: str


class ProviderRouteListResponse(ResponseModel):
    routes: list[ProviderRouteResponse]


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


def provider_quota_response(quota: ProviderQuota) -> ProviderQuotaResponse:
    more = {"provider": quota.provider, "failed_syncs": quota.failed_syncs}
    return extend(ProviderQuotaResponse, _quota(quota), **more)


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


def named_provider_response(
    found: ProviderConfiguration, everything: StoredProviders, *, problem: str | None, public_url: str
) -> NamedProviderResponse:
    return NamedProviderResponse(
        name=found.name,
        kind=found.kind,
        settings=[
            ProviderSettingResponse(
                name=variable_of(name),
                value=None if is_secret(name) else found.settings[name],
                is_secret=is_secret(name),
            )
            for name in fields_of(found.kind)
            if name in found.settings
        ],
        problem=problem,
        webhook_url=f"{public_url}/provider-events/{found.name}" if KINDS[found.kind].webhook else None,
        routes=[provider_route_response(route) for route in everything.routes if route.provider == found.name],
        created_at=found.created_at,
        updated_at=found.updated_at,
        updated_by=found.updated_by,
    )


def provider_route_response(route: StoredRoute) -> ProviderRouteResponse:
    return ProviderRouteResponse(
        tenant=route.tenant,
        source=route.source or ALL_SOURCES,
        provider=route.provider or INSTALLATION,
        updated_at=route.updated_at,
        updated_by=route.updated_by,
    )
