"""Check the providers of tenants: their settings, workers, availability and quota, and the connection to them."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

from mailwright.app.named_providers import NamedProvider, NamedProviders
from mailwright.app.provider_test import advice_for, check_providers
from mailwright.domain.clock import SECOND, Clock, Instant, utc_text
from mailwright.domain.findings import Finding, Verdict, ok, problem, warning
from mailwright.domain.translation import lazy_gettext
from mailwright.outbox.quotas import STALE_AFTER, ProviderQuota
from mailwright.outbox.workers import WorkerPresence

# Workers use a changed provider within two seconds and report every five seconds.
PROVIDER_GRACE: Instant = 15 * SECOND


def find_provider_problems(
    named: NamedProviders, workers: Sequence[WorkerPresence], quotas: Mapping[str, ProviderQuota], now: Instant
) -> Iterator[Finding]:
    """Report each provider that a route names, with the state that the database has."""
    running = [each for each in workers if not each.is_silent(now)]
    for each in named.used:
        seen = [presence for presence in running if presence.provider == each.name]
        is_new = now - named.changed_at < PROVIDER_GRACE
        # If no worker runs at all, another finding says so.
        if not seen and each.problem is None and (is_new or not running):
            continue
        yield (
            _state(each, seen)
            or _quota(each, quotas.get(each.name))
            or ok(_name(each), lazy_gettext("{kind}, in use", kind=each.kind))
        )


def _state(each: NamedProvider, seen: Sequence[WorkerPresence]) -> Finding | None:
    if each.problem is not None:
        advice = lazy_gettext(
            "correct it with `mailwright provider edit {name}`, or route its tenants to another provider",
            name=each.name,
        )
        return problem(
            _name(each),
            lazy_gettext("cannot be used, so the messages of its tenants wait: {problem}", problem=each.problem),
            advice,
        )
    if not seen:
        advice = lazy_gettext(
            "restart the workers that still use earlier settings, or start one with `mailwright worker`"
        )
        return problem(
            _name(each), lazy_gettext("no running worker uses it, so the messages of its tenants wait"), advice
        )
    if not all(presence.is_unavailable for presence in seen):
        return None
    first = min(seen, key=lambda presence: presence.unavailable_until or 0)
    advice = lazy_gettext(
        "run `mailwright provider test {name}`; correct its settings, or wait until it recovers", name=each.name
    )
    why = (first.unavailable_reason or "no response").rstrip(".")
    return problem(
        _name(each),
        lazy_gettext("is not used until {utc_text}: {why}", utc_text=utc_text(first.unavailable_until or 0), why=why),
        advice,
    )


def _quota(each: NamedProvider, quota: ProviderQuota | None) -> Finding | None:
    if quota is None:
        return None
    if quota.failed_syncs >= STALE_AFTER:
        advice = lazy_gettext(
            "run `mailwright provider test {name}` and check the permissions of its credentials", name=each.name
        )
        return warning(
            _name(each),
            lazy_gettext(
                "its quota is unknown since {synced_at}: {failure}",
                synced_at=utc_text(quota.synced_at),
                failure=quota.failure,
            ),
            advice,
        )
    if quota.remaining is not None and quota.remaining <= quota.sent_since:
        advice = lazy_gettext("get more quota from the provider, or wait until it is renewed")
        return warning(
            _name(each),
            lazy_gettext("its quota is used up: {value}", value=quota.detail or lazy_gettext("no message is left")),
            advice,
        )
    return None


async def check_connections(named: NamedProviders, clock: Clock) -> AsyncIterator[Finding]:
    """Connect and sign in to every named provider at the same time. One that nobody uses is only a warning."""
    usable = [each for each in named.by_name.values() if each.problem is None]
    checks = await asyncio.gather(*(check_providers(each.settings, clock) for each in usable))
    for each, (check, *_) in zip(usable, checks, strict=True):
        if check.is_ok:
            yield ok(_name(each), check.summary)
            continue
        is_used = each.name in named.routes.providers
        verdict = Verdict.PROBLEM if is_used else Verdict.WARNING
        after = (
            lazy_gettext("the messages of its tenants wait until this is fixed")
            if is_used
            else lazy_gettext("no route names it yet")
        )
        yield Finding(
            _name(each), verdict, check.summary, lazy_gettext("{advice} {after}", advice=advice_for(check), after=after)
        )


def _name(each: NamedProvider) -> str:
    return f"provider {each.name}"
