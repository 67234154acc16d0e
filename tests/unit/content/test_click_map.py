"""The click map: badges at the links of a rendered email."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailwright.content.tracked_links import insert_in_links
from mailwright.sources.campaigns.engagement import CampaignEngagement, EngagementCounts, LinkEngagement
from mailwright.web.dashboard.click_map import click_map_html
from tests.campaigns import a_definition

OWN = ("https://mail.example/unsubscribe",)


@pytest.mark.parametrize(
    "tag",
    [
        '<a href="https://shop.example/">',
        "<a href='https://shop.example/'>",
        "<A HREF=https://shop.example/>",
        '<a class="x > y" href="https://shop.example/" title="a > b">',
        "<a\nhref=\"https://shop.example/\"\ndata-x='1>2'\n>",
        '<area href="https://shop.example/" />',
    ],
)
def test_badge_is_inserted_after_the_whole_tag(tag: str) -> None:
    assert (
        insert_in_links(f"<p>{tag}Shop</a></p>", lambda url: f"[{url}]")
        == f"<p>{tag}[https://shop.example/]Shop</a></p>"
    )


@pytest.mark.parametrize("href", ["mailto:a@example.com", "#top", "tel:+1", "/path", "javascript:alert(1)"])
def test_other_links_get_no_badge(href: str) -> None:
    html = f'<a href="{href}">x</a>'
    assert insert_in_links(html, lambda _url: "[badge]") == html


@given(st.text(alphabet="<>a=\"'href https://x.example/ !-", max_size=200))
def test_badges_change_nothing_else(html: str) -> None:
    assert insert_in_links(html, lambda _url: "\0").replace("\0", "") == html


@pytest.mark.parametrize(
    ("links", "changes", "badge"),
    [
        ([("https://shop.example/?a=1", 3, 4)], {}, ">3 · 100 %<"),
        ([("https://shop.example/?a=1&utm_source=news", 3, 4)], {"utm": {"source": "news"}}, ">3 · 100 %<"),
        ([("https://shop.example/", 2, 2)], {}, ">2 · 100 %<"),  # with values of the recipient: without the query
        ([("https://shop.example/?a=1", 0, 5)], {}, ">5 · 100 %<"),  # anonymous
        ([("https://other.example/", 9, 9)], {}, ">0<"),
    ],
)
def test_badge_has_the_clicks_of_its_link(links: list[tuple[str, int, int]], changes: Any, badge: str) -> None:
    nothing = EngagementCounts(0, 0, 0, 0)
    found = tuple(LinkEngagement(url, people, 0, total, 0) for url, people, total in links)
    html = '<a href="https://shop.example/?a=1">Shop</a> <a href="https://mail.example/unsubscribe?t=1">Leave</a>'
    shown = click_map_html(html, CampaignEngagement(nothing, nothing, found), a_definition(**changes), OWN)
    assert badge in shown
    assert shown.count("<span") == 1
    assert shown.endswith('<a href="https://mail.example/unsubscribe?t=1">Leave</a>')


def test_badge_of_an_untracked_campaign_has_no_number() -> None:
    nothing = EngagementCounts(0, 0, 0, 0)
    html = '<a href="https://shop.example/">Shop</a>'
    shown = click_map_html(html, CampaignEngagement(nothing, nothing, ()), a_definition(), OWN, is_tracked=False)
    assert ">– not tracked<" in shown
    assert ">0<" not in shown
