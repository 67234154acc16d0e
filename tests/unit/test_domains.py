"""Limits per domain: parsing, and how deferred messages are spread over time."""

import pytest

from mailwright.domain.clock import SECOND
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.permits import DeferReason, DomainLimit, DomainLimits
from mailwright.policies.domains import SendSlots, parse_domain_limits, window

NOW = 1_800_000_000_250


def test_domain_limits_are_parsed() -> None:
    limits = parse_domain_limits("gmail.com=20/s, Yahoo.COM = 10c 5/s ,web.de=7c,*=100/s")
    assert limits == DomainLimits(
        {"gmail.com": DomainLimit(20), "yahoo.com": DomainLimit(5, 10), "web.de": DomainLimit(at_once=7)},
        DomainLimit(100),
    )
    assert limits.of("yahoo.com") == DomainLimit(5, 10)
    assert limits.of("example.com") == DomainLimit(100)
    assert limits.of("mail.gmail.com") == DomainLimit(100)
    assert limits.of("") is None
    assert parse_domain_limits("gmail.com=20/s").of("example.com") is None


def test_international_domain_is_accepted() -> None:
    assert parse_domain_limits("bücher.example=5/s").of("xn--bcher-kva.example") == DomainLimit(5)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("gmail.com", "'gmail.com': must look like gmail.com=20/s"),
        ("gmail.com=", "'gmail.com=': needs a rate (such as 20/s) or a concurrency limit (such as 10c)"),
        ("gmail.com=20", "'gmail.com=20': '20' is neither a rate"),
        ("gmail.com=0/s", "'gmail.com=0/s': '0/s' is neither a rate"),
        ("gmail.com=-1c", "'gmail.com=-1c': '-1c' is neither a rate"),
        ("gmail.com=5/s 6/s", "'gmail.com=5/s 6/s': '6/s' repeats a limit of the same kind"),
        ("gmail.com=5/s,gmail.com=6/s", "'gmail.com=6/s': gmail.com is listed twice"),
        ("gmail=5/s", "'gmail=5/s': the domain needs a dot"),
        ("gmail.com=5/s,,", "'': must look like"),
    ],
)
def test_invalid_domain_limit_names_the_problem(text: str, told: str) -> None:
    with pytest.raises(ConfigurationInvalid) as raised:
        parse_domain_limits(text)
    assert raised.value.problems[0].startswith(f"MAILWRIGHT_DOMAIN_LIMITS: {told}")


def test_all_problems_are_reported_together() -> None:
    with pytest.raises(ConfigurationInvalid) as raised:
        parse_domain_limits("a.example=x, b.example=1/s, c.example")
    assert len(raised.value.problems) == 2


@pytest.mark.promise("limits-never-exceeded")
def test_domain_counter_includes_the_previous_half_second() -> None:
    first, same, second, third = (window("gmail.com", 20, NOW + later) for later in (0, 249, 250, 750))
    assert first == same
    assert len({first.name, second.name, third.name}) == 3
    assert (first.limit, first.ends_at, first.reason) == (20, NOW + 750, DeferReason.DOMAIN_RATE)
    assert [each.related[0].name for each in (second, third)] == [first.name, second.name]
    assert {each.deferred_until for each in (first, second)} == {NOW + 750}  # The start of the next second.
    assert window("web.de", 20, NOW).name != first.name


def test_deferred_message_gets_the_next_free_slot() -> None:
    slots = SendSlots()
    given = [slots.take(1, "gmail.com", per_second=4, earliest=NOW) for _ in range(5)]
    assert given == [NOW, NOW + 250, NOW + 500, NOW + 750, NOW + SECOND]
    assert slots.take(2, "gmail.com", per_second=4, earliest=NOW) == NOW  # Another lane has its own slots.
    assert slots.take(1, "web.de", per_second=4, earliest=NOW) == NOW
    assert slots.take(1, "gmail.com", per_second=4, earliest=NOW + 9 * SECOND) == NOW + 9 * SECOND


def test_passed_slots_are_forgotten() -> None:
    slots = SendSlots()
    for number in range(100):
        slots.take(1, f"{number}.example", per_second=1, earliest=NOW)
    slots.take(1, "busy.example", per_second=0.1, earliest=NOW)
    slots.forget_before(NOW + 5 * SECOND)
    for number in range(100):
        assert slots.take(1, f"{number}.example", per_second=1, earliest=NOW) == NOW
    assert slots.take(1, "busy.example", per_second=0.1, earliest=NOW) == NOW + 10 * SECOND
