"""The model of a tenant."""

from mailwright.schemas.base import ResponseModel, Time


class TenantResponse(ResponseModel):
    """A tenant. A limit is null if the one of the settings applies. `guardRails` is JSON."""

    id: int
    name: str
    weight: int
    max_in_flight: int | None
    rate_per_second: int | None
    rate_per_hour: int | None
    daily_limit: int | None
    working_hours: str | None
    timezone: str | None
    created_at: Time
    warmup_since: str | None
    interval_ms: int | None
    one_at_a_time: bool | None
    tracking: str | None
    tracking_host: str | None
    guard_rails: str | None
    frequency_cap: str | None
    reply_forward_to: str | None
    sections: str
    requires_second_factor: bool
    approval_over: int | None
    senders_restricted_since: Time | None
