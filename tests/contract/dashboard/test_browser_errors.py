"""Browsers get pages instead of problems: for the addresses of forms, and for forms that are too large."""

from collections.abc import AsyncIterator

import pytest

from mailwright.domain.clock import ManualClock
from tests.api import Api, an_api
from tests.builders import Bench

BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.fixture
async def api(bench: Bench, clock: ManualClock) -> AsyncIterator[Api]:
    async with an_api(bench.database, clock) as api:
        yield api


@pytest.mark.parametrize(
    ("path", "to"),
    [
        ("/campaigns/1/pause", "/campaigns/1"),
        ("/campaigns/1/start", "/campaigns/1"),
        ("/overview/release", "/"),
        ("/lists/news/delete", "/lists/news"),
    ],
)
async def test_address_of_a_form_opens_the_page_above(api: Api, path: str, to: str) -> None:
    answer = await api.anonymous.get(path, headers=BROWSER)
    assert (answer.status_code, answer.headers.get("location")) == (303, to)
    program = await api.anonymous.get(path)
    assert (program.status_code, program.json()["code"]) == (405, "METHOD_NOT_ALLOWED")


async def test_api_routes_answer_browsers_with_405(api: Api) -> None:
    answer = await api.client.get("/v1/email/send", headers=BROWSER)
    assert (answer.status_code, answer.json()["code"]) == (405, "METHOD_NOT_ALLOWED")
