"""The id of a template from the name that someone chose."""

import pytest

from mailwright.domain.errors import InvalidInput
from mailwright.web.dashboard.templates_new import template_id_for


@pytest.mark.parametrize(
    ("name", "template_id"),
    [
        ("Spring news, 2027!", "spring-news-2027"),
        ("Início", "inicio"),
        ("a" * 200, "a" * 90),
        ("--x--", "x"),
        ("Märzbrief", "maerzbrief"),
        ("Новости", "novosti"),
        ("新聞", "email"),
    ],
)
def test_name_becomes_an_id(name: str, template_id: str) -> None:
    assert template_id_for(name) == template_id


def test_empty_name_is_refused() -> None:
    with pytest.raises(InvalidInput, match="Enter a name"):
        template_id_for("")
