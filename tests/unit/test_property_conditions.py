"""Conditions on the properties of an event, as lines of a form."""

from typing import Any

import pytest

from mailwright.domain.errors import InvalidInput
from mailwright.web.dashboard.property_conditions import conditions_of, conditions_text


@pytest.mark.parametrize(
    ("line", "condition"),
    [
        ("total >= 100", {"total": {"atLeast": 100}}),
        ("total < 9.5", {"total": {"lessThan": 9.5}}),
        ("currency = EUR", {"currency": {"is": "EUR"}}),
        ('zip = "10115"', {"zip": {"is": "10115"}}),
        ("isNew != true", {"isNew": {"isNot": True}}),
        ("note contains a = b", {"note": {"contains": "a = b"}}),
        ("plan in basic, pro", {"plan": {"in": ["basic", "pro"]}}),
        ('name in "Doe, Jane","x"', {"name": {"in": ["Doe, Jane", "x"]}}),
        ("coupon exists", {"coupon": {"exists": True}}),
        ("coupon missing", {"coupon": {"exists": False}}),
    ],
)
def test_condition_is_read_and_written_unchanged(line: str, condition: dict[str, Any]) -> None:
    assert conditions_of(line) == condition
    assert conditions_text(condition) == line
    assert conditions_of(f"{line}\n\n other = 1") == {**condition, "other": {"is": 1}}


def test_short_form_of_the_api_is_written() -> None:
    assert conditions_text({"currency": "EUR"}) == "currency = EUR"
    assert conditions_text(None) == ""


@pytest.mark.parametrize("text", ["total", "= 4", "total = 1\ntotal = 2"])
def test_line_without_condition_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        conditions_of(text)
