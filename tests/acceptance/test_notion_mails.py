"""Emails from Notion pages as recipients see them: on desktop and phone, in light and dark mode."""

from collections.abc import AsyncIterator
from typing import Literal

import pytest
from playwright.async_api import Browser, ViewportSize, async_playwright

from tests import notion_golden
from tests.dashboard import CHROMIUM, LAUNCH

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here"),
]
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


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(**LAUNCH)
        yield browser
        await browser.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_email_fits_the_screen_and_is_readable(browser: Browser, scheme: Literal["light", "dark"]) -> None:
    for size in (DESK, PHONE):
        context = await browser.new_context(viewport=size, color_scheme=scheme)
        page = await context.new_page()
        for name in notion_golden.PAGES:
            await page.goto((notion_golden.FOLDER / f"{name}.html").as_uri())
            measured = await page.evaluate(MEASURE)
            assert measured["beyond"] == [], (name, size["width"])
            assert measured["pale"] == [], (name, scheme)
            assert all(measured["images"]), name
            assert measured["night"] == ("rgb(25, 25, 25)" if scheme == "dark" else "rgb(255, 255, 255)")
        await context.close()


async def test_columns_are_stacked_on_phones(browser: Browser) -> None:
    tops = {}
    for size in (DESK, PHONE):
        page = await browser.new_page(viewport=size)
        await page.goto((notion_golden.FOLDER / "newsletter.html").as_uri())
        boxes = await page.eval_on_selector_all(
            ".mw-column", "columns => columns.map(each => each.getBoundingClientRect().top)"
        )
        tops[size["width"]] = len(set(boxes))
        await page.close()
    assert tops == {1440: 1, 375: 2}
