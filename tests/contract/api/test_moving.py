"""Requests that AmazonSender answered: old unsubscribe links, `x-auth-token` and `/health`, on both engines."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from mailwright.app.wiring import PublicPages
from mailwright.audience.status import ContactStatusService
from mailwright.domain.unsubscribe_confirmation import UnsubscribeConfirmation
from tests.amazonsender import SECRET, SHARED_SECRET, old_link
from tests.api import Api, an_api
from tests.builders import DEFAULT_TENANT
from tests.conftest import DatabaseAddress
from tests.mailouts import MailoutBench, a_mailout_bench

ADA = "ada@example.com"
TOKEN = {"x-auth-token": SHARED_SECRET}


@dataclass(frozen=True)
class Moved:
    api: Api
    bench: MailoutBench

    @property
    def client(self) -> httpx.AsyncClient:
        return self.api.anonymous

    async def status(self, email: str = ADA) -> tuple[str, str]:
        """Return the status of a contact in Mailwright and in Supabase."""
        await self.bench.work()
        here = await ContactStatusService(self.bench.database, self.bench.clock).load_preferences(DEFAULT_TENANT, email)
        return here.status, self.bench.supabase.subscriber(email)["status"]


@pytest.fixture
async def moved(engine: DatabaseAddress) -> AsyncIterator[Moved]:
    pages = PublicPages(SECRET, retired=("an-earlier-secret",), confirmation=UnsubscribeConfirmation.EVERYONE)
    async with (
        a_mailout_bench(engine.url) as bench,
        an_api(
            bench.database, bench.clock, mailouts=bench.service, public_pages=pages, mailout_token=SHARED_SECRET
        ) as api,
    ):
        bench.subscribe(ADA)
        yield Moved(api, bench)


@pytest.mark.promise("moving-amazonsender")
async def test_old_link_asks_and_then_unsubscribes(moved: Moved) -> None:
    page = await moved.client.get(old_link("Ada@Example.com"))
    assert (page.status_code, await moved.status()) == (200, ("active", "active"))
    done = await moved.client.post(old_link(ADA), data={"confirm": "unsubscribe"})
    assert (done.status_code, await moved.status()) == (200, ("unsubscribed", "unsubscribed"))


@pytest.mark.parametrize("secret", [SECRET, "an-earlier-secret"])
async def test_old_link_unsubscribes_with_one_click(moved: Moved, secret: str) -> None:
    done = await moved.client.post(old_link(ADA, secret), data={"List-Unsubscribe": "One-Click"})
    assert (done.status_code, await moved.status()) == (200, ("unsubscribed", "unsubscribed"))


async def test_forged_or_misused_old_link_changes_nothing(moved: Moved) -> None:
    one_click: dict[str, Any] = {"data": {"List-Unsubscribe": "One-Click"}}
    forged = [old_link(ADA, "a-guessed-secret"), f"{old_link(ADA)}x", f"{old_link(ADA)}&tenant=other"]
    token = old_link(ADA).partition("?")[2]
    for path in (*forged, f"/resubscribe?{token}", f"/confirm?{token}"):
        assert (await moved.client.post(path, **one_click)).status_code == 400, path
    assert await moved.status() == ("active", "active")


async def test_generated_secret_signs_no_old_links(engine: DatabaseAddress) -> None:
    async with a_mailout_bench(engine.url) as bench, an_api(bench.database, bench.clock) as api:
        assert (await api.anonymous.get(old_link(ADA))).status_code == 400


async def test_link_of_another_tenant_leads_to_the_mailout_tenant(engine: DatabaseAddress) -> None:
    pages = PublicPages(SECRET)
    async with (
        a_mailout_bench(engine.url) as bench,
        an_api(bench.database, bench.clock, public_pages=pages, mailout_tenant="other") as api,
    ):
        page = await api.anonymous.get(old_link(ADA))
        assert (page.status_code, "tenant=other" in page.text) == (200, True)
        status = ContactStatusService(bench.database, bench.clock)
        assert (await status.load_preferences(DEFAULT_TENANT, ADA)).status == "active"


@pytest.mark.parametrize("name", ["mailout_id", "page_id", "notionPageId"])
async def test_token_sends_a_mailout(moved: Moved, name: str) -> None:
    answer = await moved.client.post("/send-mailout", json={name: moved.bench.page()}, headers=TOKEN)
    assert answer.status_code == 202, answer.text


async def test_automation_of_notion_sends_its_page(moved: Moved) -> None:
    body = {"source": {"type": "automation"}, "data": {"object": "page", "id": moved.bench.page(), "properties": {}}}
    assert (await moved.client.post("/send-mailout", json=body, headers=TOKEN)).status_code == 202


async def test_wrong_token_is_refused_and_guesses_are_limited(moved: Moved) -> None:
    body = {"mailout_id": moved.bench.page()}
    refused = [
        (await moved.client.post("/send-mailout", json=body, headers={"x-auth-token": "guess"})).status_code
        for _ in range(15)
    ]
    assert (refused[0], refused[-1]) == (401, 429)


async def test_token_opens_no_other_route(moved: Moved) -> None:
    for path in ("/v1/mailouts", "/v1/tenants", "/v1/contacts"):
        assert (await moved.client.get(path, headers=TOKEN)).status_code in (401, 404)


async def test_token_is_ignored_unless_configured(engine: DatabaseAddress) -> None:
    async with a_mailout_bench(engine.url) as bench, an_api(bench.database, bench.clock, mailouts=bench.service) as api:
        for token in ("", "None", SHARED_SECRET):
            headers = {"x-auth-token": token}
            answer = await api.anonymous.post("/send-mailout", json={"mailout_id": bench.page()}, headers=headers)
            assert answer.status_code == 401


async def test_health_answers_without_a_key(moved: Moved) -> None:
    answer = await moved.client.get("/health")
    assert (answer.status_code, answer.json()) == (200, {"ok": True, "dry_run": False})
