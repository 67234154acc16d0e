"""The limits of the settings. Commands use this module instead of the engine, which takes half a second to import."""

from collections.abc import Mapping

from mailwright.domain.clock import SECOND
from mailwright.domain.guard_rails import GuardRails
from mailwright.domain.lifetimes import Lifetimes, parse_lifetimes
from mailwright.domain.permits import DomainLimits, Limits
from mailwright.ops.provider_kinds import KINDS
from mailwright.ops.settings import Settings
from mailwright.outbox.limits import DefaultLimits
from mailwright.policies.domains import parse_domain_limits
from mailwright.providers.route import providers_of


def defaults_of(settings: Settings, providers: Mapping[str, int | None], named: str | None = None) -> DefaultLimits:
    """Return the limits of the settings. With `named`, return those for messages that this provider sends."""
    domains = domain_limits(settings) or DomainLimits()
    return DefaultLimits(
        default_limits(settings),
        providers,
        settings.quota_sync_seconds * SECOND,
        domains,
        named,
        max_attempts=settings.max_attempts,
    )


def default_limits(settings: Settings) -> Limits:
    return Limits(
        rate_per_second=settings.rate_per_second,
        rate_per_hour=settings.rate_per_hour or _default_hourly_limit(settings),
        is_usual_plan=settings.rate_per_hour is None,
        daily_limit=settings.daily_limit,
        working_hours=settings.working_hours,
        timezone=settings.timezone,
        sliding_hour=settings.sliding_hour,
        warmup_since=settings.warmup_since,
        warmup_start=settings.warmup_start,
        warmup_factor=settings.warmup_factor,
        interval_ms=settings.interval_ms,
        reserve_percent=settings.reserve_percent,
        frequency_cap=settings.frequency_cap,
    )


def guard_rails(settings: Settings) -> GuardRails:
    return GuardRails(
        complaint_warn_percent=settings.guard_complaint_warn,
        complaint_stop_percent=settings.guard_complaint_stop,
        hard_bounce_warn_percent=settings.guard_bounce_warn,
        hard_bounce_stop_percent=settings.guard_bounce_stop,
        min_messages=settings.guard_min_messages,
        at_warning=settings.guard_at_warning,
        slow_per_hour=settings.guard_slow_per_hour,
    )


def _default_hourly_limit(settings: Settings) -> int | None:
    """Return the provider's default hourly limit if the route has only one provider."""
    match list(providers_of(settings)):
        case [only]:
            return KINDS[only].usual_hourly_limit if only in KINDS else None
        case _:
            return None


def domain_limits(settings: Settings) -> DomainLimits | None:
    return None if settings.domain_limits is None else parse_domain_limits(settings.domain_limits)


def lifetimes(settings: Settings) -> Lifetimes:
    return Lifetimes() if settings.lifetimes is None else parse_lifetimes(settings.lifetimes)
