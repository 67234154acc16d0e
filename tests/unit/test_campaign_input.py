"""Options of `campaign create`."""

import pytest

from mailwright.cli.campaign_input import utm
from mailwright.domain.errors import InvalidInput


def test_utm_values_stay_text() -> None:
    assert utm(["source=2027", "utm_medium= email ", "content=a=b"]) == {
        "source": "2027",
        "medium": "email",
        "content": "a=b",
    }


@pytest.mark.parametrize("wrong", [["newsletter"], ["sauce=x"], ["source="], ["=x"], ["source=a", "utm_source=b"]])
def test_bad_utm_option_names_the_fix(wrong: list[str]) -> None:
    with pytest.raises(InvalidInput) as refused:
        utm(wrong)
    assert refused.value.field == "--utm"
