"""The route chooses a provider for each message, fails over, and defers."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from mailwright.domain.clock import MINUTE, SECOND, ManualClock
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.ids import uuid7
from mailwright.domain.message import Claimed
from mailwright.domain.permits import Deferral
from mailwright.providers.circuit_breaker import CircuitBreaker
from mailwright.providers.route import Route, RouteMember, parse_route
from tests.builders import FAULT, MISCONFIGURED, SENT, THROTTLE
from tests.standins.provider import ScriptedProvider

DOWN = replace(FAULT, code="NETWORK_ERROR", message="connection refused", blames_provider=True)
KNOWN = ("mailbox", "smtp", "ses", "sendgrid", "smtpbz")


def a_route(clock: ManualClock, **weights: int | None) -> Route:
    members = [
        RouteMember(ScriptedProvider(name=name), CircuitBreaker(clock), weight) for name, weight in weights.items()
    ]
    return Route(members, clock)


def a_claim(**changes: Any) -> Claimed:
    defaults: dict[str, Any] = dict.fromkeys(Claimed._fields)
    return Claimed(**{**defaults, "outbox_id": uuid7(1_800_000_000_000), **changes})


def chosen(route: Route, *busy: str, **changes: Any) -> str | Deferral:
    found = route.choose(a_claim(**changes), busy)
    return found if isinstance(found, Deferral) else found.name


@pytest.fixture
def ordered(clock: ManualClock) -> Route:
    return a_route(clock, ses=None, smtp=None)


@pytest.fixture
def weighted(clock: ManualClock) -> Route:
    return a_route(clock, ses=3, smtp=1)


# Choice.


def test_ordered_route_uses_the_first_provider(ordered: Route) -> None:
    assert {chosen(ordered) for _ in range(50)} == {"ses"}


def test_ordered_route_uses_the_next_during_a_pause(ordered: Route) -> None:
    ordered.record(replace(MISCONFIGURED, provider="ses"))
    assert {chosen(ordered) for _ in range(50)} == {"smtp"}
    assert ordered.deferral() is None


def test_weighted_route_shares_by_weight(weighted: Route) -> None:
    shares = Counter(chosen(weighted) for _ in range(4_000))
    assert shares["ses"] == pytest.approx(3_000, rel=0.05)
    assert shares["smtp"] == pytest.approx(1_000, rel=0.15)


def test_weighted_route_is_stable_per_message(weighted: Route) -> None:
    claims = [a_claim() for _ in range(100)]
    first, again = ([weighted.choose(claimed, ()) for claimed in claims] for _ in range(2))
    assert first == again


def test_remaining_providers_share_the_weight_of_a_paused_one(weighted: Route) -> None:
    weighted.record(replace(MISCONFIGURED, provider="ses"))
    assert {chosen(weighted) for _ in range(50)} == {"smtp"}


@pytest.mark.promise("route-fail-over")
@pytest.mark.parametrize("route", ["ordered", "weighted"])
def test_failed_provider_is_avoided_while_another_is_available(route: str, request: pytest.FixtureRequest) -> None:
    both: Route = request.getfixturevalue(route)
    assert {chosen(both, failed_provider="ses") for _ in range(50)} == {"smtp"}
    both.record(replace(MISCONFIGURED, provider="smtp"))
    assert {chosen(both, failed_provider="ses") for _ in range(50)} == {"ses"}


# Failover.


@pytest.mark.promise("route-fail-over")
def test_message_fails_over_once_to_an_available_provider(ordered: Route) -> None:
    assert ordered.fails_over(a_claim(), "ses")
    assert not ordered.fails_over(a_claim(failed_provider="smtp"), "ses")
    ordered.record(replace(MISCONFIGURED, provider="smtp"))
    assert not ordered.fails_over(a_claim(), "ses")


@pytest.mark.promise("route-fail-over")
def test_possibly_accepted_message_stays_with_its_provider(ordered: Route, clock: ManualClock) -> None:
    assert chosen(ordered, only_provider="smtp") == "smtp"
    assert not ordered.fails_over(a_claim(only_provider="smtp"), "smtp")
    ordered.record(replace(MISCONFIGURED, provider="smtp"))
    end = clock.now() + 10 * SECOND
    assert chosen(ordered, only_provider="smtp") == Deferral(end, "provider_unavailable")
    assert ordered.deferred_until(a_claim(only_provider="smtp"), "smtp") == end
    assert ordered.deferred_until(a_claim(), "smtp") == clock.now()


@pytest.mark.promise("route-fail-over")
def test_message_of_a_removed_provider_is_deferred(ordered: Route, clock: ManualClock) -> None:
    assert chosen(ordered, only_provider="sendgrid") == Deferral(clock.now() + 5 * MINUTE, "provider_missing")


# Deferrals.


def test_deferral_ends_when_the_first_provider_returns(ordered: Route, clock: ManualClock) -> None:
    ordered.record(replace(MISCONFIGURED, provider="smtp"))
    clock.advance(4 * SECOND)
    ordered.record(replace(MISCONFIGURED, provider="ses"))
    wait = Deferral(clock.now() + 6 * SECOND, "provider_unavailable")
    assert ordered.deferral() == wait
    assert chosen(ordered) == wait


def test_probed_provider_gets_one_message_at_a_time(ordered: Route, clock: ManualClock) -> None:
    ordered.record(replace(MISCONFIGURED, provider="ses"))
    clock.advance(10 * SECOND)
    assert not ordered.is_probing  # Another provider sends the rest.
    assert chosen(ordered) == "ses"
    assert chosen(ordered, "ses") == "smtp"
    ordered.record(replace(SENT, provider="ses"))
    assert chosen(ordered, "ses") == "ses"


def test_other_messages_wait_while_all_providers_are_probed(ordered: Route, clock: ManualClock) -> None:
    for name in ("ses", "smtp"):
        ordered.record(replace(MISCONFIGURED, provider=name))
    clock.advance(10 * SECOND)
    assert ordered.is_probing
    assert ordered.deferral() is None
    assert chosen(ordered, "ses", "smtp") == Deferral(clock.now() + SECOND, "provider_unavailable")


def test_throttled_provider_is_skipped(ordered: Route, clock: ManualClock) -> None:
    ordered.record(replace(THROTTLE, provider="ses", retry_after=3 * SECOND))
    assert chosen(ordered) == "smtp"
    clock.advance(3 * SECOND)
    assert chosen(ordered) == "ses"


@pytest.mark.promise("outage-recovery")
def test_failures_are_counted_per_provider(ordered: Route) -> None:
    for _ in range(4):
        ordered.record(replace(DOWN, provider="ses"))
        ordered.record(replace(DOWN, provider="smtp"))
    assert chosen(ordered) == "ses"
    ordered.record(replace(DOWN, provider="ses"))
    assert chosen(ordered) == "smtp"


# Parsing.


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ses", {"ses": None}),
        ("ses, smtp", {"ses": None, "smtp": None}),
        (" smtp ,ses,mailbox ", {"smtp": None, "ses": None, "mailbox": None}),
        ("ses=3, smtp=1", {"ses": 3, "smtp": 1}),
        ("ses = 3,smtp= 1", {"ses": 3, "smtp": 1}),
    ],
)
def test_route_is_parsed_with_or_without_weights(text: str, found: dict[str, int | None]) -> None:
    parsed = parse_route(text, KNOWN)
    assert parsed == found
    assert list(parsed) == list(found)


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("ses, carrier-pigeon", ["'carrier-pigeon' does not begin with one of mailbox, smtp, ses, sendgrid, smtpbz"]),
        ("ses,,smtp", ["'' does not begin with one of mailbox, smtp, ses, sendgrid, smtpbz"]),
        ("ses, ses", ["'ses' is listed twice"]),
        ("ses=0, smtp=1", ["'ses=0' needs a weight that is a whole number, at least 1"]),
        ("ses=, smtp=-1", ["'ses=' needs a weight", "'smtp=-1' needs a weight"]),
        ("ses=3, smtp", ["give a weight to every provider (ses=3, smtp=1) or to none"]),
    ],
)
def test_invalid_route_names_the_problem(text: str, problems: list[str]) -> None:
    with pytest.raises(ConfigurationInvalid) as raised:
        parse_route(text, KNOWN)
    assert len(raised.value.problems) == len(problems)
    for told, expected in zip(raised.value.problems, problems, strict=True):
        assert told.startswith(f"MAILWRIGHT_ROUTE: {expected}")
