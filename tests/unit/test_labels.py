"""Numbers, times and plurals of the dashboard have one format each."""

from zoneinfo import ZoneInfo

import pytest

from mailwright.domain.clock import DAY, HOUR
from mailwright.texts.times import count_text
from mailwright.web.dashboard.labels import (
    format_clock,
    format_day,
    format_full,
    format_number,
    format_rate,
    spell_name,
)

NOW = 1_800_000_000_000  # 2027-01-15 08:00 UTC
LISBON = ZoneInfo("Europe/Lisbon")
TOKYO = ZoneInfo("Asia/Tokyo")


def test_times_have_one_format_in_the_tenants_zone() -> None:
    assert format_clock(NOW + HOUR, NOW, LISBON) == "09:00"
    assert format_clock(NOW + DAY, NOW, LISBON) == "16 Jan 2027, 08:00"
    assert format_clock(NOW - 400 * DAY, NOW, TOKYO) == "11 Dec 2025, 17:00"
    assert format_clock(NOW + 8 * HOUR, NOW, TOKYO) == "16 Jan 2027, 01:00"  # tomorrow in Tokyo
    assert format_day(NOW, LISBON) == "15 Jan 2027"
    assert format_full(NOW - HOUR, NOW, LISBON) == "15 Jan 2027, 07:00:00 WET (60 minutes ago)"


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0"), (999, "999"), (1_234_567, "1,234,567"), (12.0, "12"), (1234.56, "1,234.6")]
)
def test_numbers_have_thousands_separators(value: float, shown: str) -> None:
    assert format_number(value) == shown


@pytest.mark.parametrize(("rate", "shown"), [(None, "–"), (0, "0 %"), (0.125, "12.5 %"), (0.8, "80 %"), (1, "100 %")])
def test_rates_have_at_most_one_decimal_place(rate: float | None, shown: str) -> None:
    assert format_rate(rate) == shown


def test_names_of_fields_become_words() -> None:
    names = ("scheduledAt", "scheduled_at", "planned", "legalBasis")
    assert [spell_name(each) for each in names] == ["scheduled at", "scheduled at", "planned", "legal basis"]


def test_plural_follows_the_number() -> None:
    assert [count_text(number, "row") for number in (0, 1, 2, 1_200)] == ["0 rows", "1 row", "2 rows", "1,200 rows"]
    assert count_text(2, "person", "people") == "2 people"
