"""Variables in subjects are shown as names."""

import pytest

from mailwright.content.blocks.inline import variable_code
from mailwright.web.dashboard.variable_chips import with_chips


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Hello", "Hello"),
        (None, ""),
        ("Hello {{ first_name }}!", 'Hello <span class="chip">first name</span>!'),
        (variable_code("name", 'a "b"') + ",", '<span class="chip">name or “a &#34;b&#34;”</span>,'),
        (variable_code("item.title", "News"), '<span class="chip">item.title or “News”</span>'),
        ("{{ name|upper }} & co", "<code>{{ name|upper }}</code> &amp; co"),
        ("<b>{{ name", "&lt;b&gt;{{ name"),
    ],
)
def test_variables_are_shown_by_their_names(text: str | None, shown: str) -> None:
    assert with_chips(text) == shown
