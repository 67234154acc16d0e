"""Emails from Notion pages as recipients see them: on desktop and phone, in light and dark mode."""

from itertools import product
from typing import Final, Literal

import pytest
from playwright.sync_api import Browser, Page, ViewportSize

from tests import notion_golden
from tests.dashboard import CHROMIUM

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here"),
]
SCHEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")
PHONE: ViewportSize = {"width": 375, "height": 720}
DESK: ViewportSize = {"width": 1440, "height": 900}
# The elements beyond the edge of the screen, and the lowest contrast between a text and its background.
MEASURE = """() => {
    const width = document.documentElement.clientWidth;
    const beyond = [...document.querySelectorAll('body *')]
        .filter(each => !each.closest('[style*="overflow-x"]') && each.getBoundingClientRect().right > width + 1)
        .map(each => each.outerHTML.slice(0, 120));
    const parts = colour => colour.match(/[\\d.]+/g).map(Number);
    const light = colour => parts(colour).slice(0, 3).map(part => part / 255)
        .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
        .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
    const paper = element => {
        const own = getComputedStyle(element).backgroundColor;
        const is_clear = parts(own).length === 4 && parts(own)[3] === 0;
        return is_clear && element.parentElement ? paper(element.parentElement) : own;
    };
    const pale = [...document.querySelectorAll('body *')]
        .filter(each => [...each.childNodes].some(node => node.nodeType === 3 && node.textContent.trim()))
        .map(each => {
            const pair = [light(getComputedStyle(each).color), light(paper(each))].sort((a, b) => b - a);
            return [(pair[0] + 0.05) / (pair[1] + 0.05), each.outerHTML.slice(0, 120)];
        })
        .filter(([contrast]) => contrast < 4.5);
    const images = [...document.images].filter(each => each.src.endsWith('crane.png'));
    const night = getComputedStyle(document.body).backgroundColor;
    return {beyond, pale, night, images: images.map(each => each.naturalWidth > 0)};
}"""


def show(page: Page, name: str, size: ViewportSize) -> None:
    page.goto((notion_golden.FOLDER / f"{name}.html").as_uri())
    resize(page, size)


def resize(page: Page, size: ViewportSize) -> None:
    page.set_viewport_size(size)
    page.wait_for_function("width => innerWidth === width", arg=size["width"])


def test_email_fits_the_screen_and_is_readable(browser: Browser) -> None:
    page = browser.new_page()
    for name in notion_golden.PAGES:
        show(page, name, DESK)
        for size, scheme in product((DESK, PHONE), SCHEMES):
            resize(page, size)
            page.emulate_media(color_scheme=scheme)
            measured = page.evaluate(MEASURE)
            assert measured["beyond"] == [], (name, size["width"])
            assert measured["pale"] == [], (name, scheme)
            assert all(measured["images"]), name
            assert measured["night"] == ("rgb(25, 25, 25)" if scheme == "dark" else "rgb(255, 255, 255)")
    page.close()


def test_columns_are_stacked_on_phones(browser: Browser) -> None:
    page, tops = browser.new_page(), {}
    for size in (DESK, PHONE):
        show(page, "newsletter", size)
        boxes = page.eval_on_selector_all(
            ".mw-column", "columns => columns.map(each => each.getBoundingClientRect().top)"
        )
        tops[size["width"]] = len(set(boxes))
    page.close()
    assert tops == {1440: 1, 375: 2}
