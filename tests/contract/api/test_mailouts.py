"""HTTP API of mailouts: a page is accepted at once, or rejected with its problems."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from mailwright.domain.clock import SECOND
from mailwright.outbox.workers import WorkerPresence, WorkerRegistry
from mailwright.web.app import create_app
from tests.api import Api, an_api, client_of
from tests.conftest import DatabaseAddress
from tests.mailouts import MailoutBench, a_mailout_bench
from tests.notion_pages import said
from tests.standins.notion import busy

PASSWORD = "a-password-for-tests"
ADMINISTRATOR = {"Authorization": f"Bearer {PASSWORD}"}


@dataclass(frozen=True)
class Served:
    api: Api
    bench: MailoutBench

    async def send(self, page: str, headers: dict[str, str] = ADMINISTRATOR) -> tuple[int, dict[str, Any]]:
        answer = await self.api.anonymous.post("/send-mailout", json={"notionPageId": page}, headers=headers)
        return answer.status_code, answer.json()


@pytest.fixture
async def served(engine: DatabaseAddress) -> AsyncIterator[Served]:
    async with (
        a_mailout_bench(engine.url) as bench,
        an_api(bench.database, bench.clock, mailouts=bench.service, admin_password=PASSWORD) as api,
    ):
        yield Served(api, bench)


async def test_accepted_page_returns_run_id_and_campaign_progress(served: Served) -> None:
    served.bench.subscribe("ada@example.com", "bob@example.com")
    status, answer = await served.send(served.bench.page())
    assert (status, answer["status"]) == (202, "accepted")
    run = await served.bench.find_by_id(answer["runId"])
    await served.bench.finish(run)
    shown = (await served.api.client.get(f"/v1/mailouts/{answer['runId']}")).json()
    assert (shown["status"], shown["counts"]["sent"], shown["counts"]["planned"]) == ("sent", 2, 2)
    campaign = (await served.api.client.get(f"/v1/campaigns/{answer['runId']}")).json()
    assert campaign["status"] == "SENT"
    listed = (await served.api.client.get("/v1/mailouts")).json()["mailouts"]
    assert [each["runId"] for each in listed] == [answer["runId"]]


async def test_page_problems_are_returned_with_their_codes(served: Served) -> None:
    status, answer = await served.send(served.bench.page(Status="Send"))
    assert (status, answer["code"]) == (409, "mailout_already_sent")
    status, answer = await served.send(served.bench.page(Subject=""))
    assert (status, answer["code"]) == (422, "subject_required")
    hidden = served.bench.page()
    served.bench.notion.hide(hidden)
    status, answer = await served.send(hidden)
    assert (status, answer["code"]) == (422, "NOTION_NOT_SHARED")


async def test_only_administrator_sends_and_invalid_page_stores_nothing(served: Served) -> None:
    page = served.bench.page()
    assert (await served.send(page, {}))[0] == 401
    assert (await served.send(page, {"Authorization": "Bearer wrong"}))[0] == 401
    assert (await served.send(page, {"Authorization": f"Bearer {served.api.key}"}))[0] == 401
    status, answer = await served.send("no page")
    assert (status, answer["code"]) == (422, "INVALID_REQUEST")
    assert (await served.api.client.get("/v1/mailouts")).json() == {"mailouts": [], "nextCursor": None}


async def test_report_csv_contains_no_formulas(served: Served) -> None:
    served.bench.subscribe("=cmd@example.com", "ada@example.com")
    run = await served.bench.send(served.bench.page())
    await served.bench.finish(run)
    report = (await served.api.client.get(f"/v1/mailouts/{run.mailout_id}/report.csv")).text.splitlines()
    assert report[0].startswith("email,status,error_message,message_id,sent_at,provider_message_id,")
    assert report[1].startswith("'=cmd@example.com,SENT,")
    assert report[2].startswith("ada@example.com,SENT,")


async def test_run_shows_its_delay_until_it_ends(served: Served) -> None:
    served.bench.subscribe("ada@example.com")
    served.bench.notion.answer(busy(429, seconds=600), times=1)
    _, answer = await served.send(served.bench.page())
    shown = (await served.api.client.get(f"/v1/mailouts/{answer['runId']}")).json()
    assert (shown["delay"]["code"], shown["delay"]["failures"]) == ("NOTION_RATE_LIMITED", 1)
    assert shown["delay"]["message"]
    assert shown["delay"]["nextTryAt"] > shown["createdAt"]
    served.bench.clock.advance(600 * SECOND)
    await served.bench.work()
    assert (await served.api.client.get(f"/v1/mailouts/{answer['runId']}")).json()["delay"] is None


@pytest.mark.parametrize("blocks", [[], [said("toggle", "", said("paragraph", ""))]], ids=["none", "inside"])
@pytest.mark.both_engines
async def test_empty_page_is_refused_at_once(served: Served, blocks: list[Any]) -> None:
    status, answer = await served.send(served.bench.page(blocks=blocks))
    assert (status, answer["code"]) == (422, "empty_body")
    assert [each["code"] for each in answer["errors"]] == ["empty_body"]


async def test_each_page_problem_has_its_code(served: Served) -> None:
    status, answer = await served.send(served.bench.page(Subject="", Status="Send", blocks=[]))
    assert (status, answer["code"]) == (422, "subject_required")
    codes = [each["code"] for each in answer["errors"]]
    assert codes == ["subject_required", "mailout_already_sent", "empty_body"]
    assert answer["detail"] == " ".join(each["message"] for each in answer["errors"])


async def test_run_shows_missing_worker_until_one_runs(served: Served) -> None:
    served.bench.subscribe("ada@example.com")
    _, answer = await served.send(served.bench.page())
    listed = (await served.api.client.get("/v1/mailouts")).json()["mailouts"]
    shown = (await served.api.client.get(f"/v1/mailouts/{answer['runId']}")).json()
    for wait in (answer["wait"], shown["wait"], listed[0]["wait"]):
        assert (wait["state"], wait["reason"]) == ("no_worker", "no_worker")
        assert wait["whatWouldChange"] == "Start a worker."
    registry = WorkerRegistry(served.bench.database, served.bench.clock, "w1")
    await registry.report(WorkerPresence("scripted"))
    assert (await served.api.client.get(f"/v1/mailouts/{answer['runId']}")).json()["wait"] is None
    await registry.deregister()
    await served.bench.finish(await served.bench.find_by_id(answer["runId"]))
    assert (await served.api.client.get(f"/v1/mailouts/{answer['runId']}")).json()["wait"] is None


async def test_run_names_its_errors_and_what_notion_was_told(served: Served) -> None:
    served.bench.subscribe("ada@example.com", "éva@example.com")
    run = await served.bench.finish(await served.bench.send(served.bench.page()))
    shown = (await served.api.client.get(f"/v1/mailouts/{run.mailout_id}")).json()
    assert [(each["stage"], each["email"]) for each in shown["errors"]] == [("send", "éva@example.com")]
    assert (shown["reported"]["Failed Count"], shown["counts"]["failed"]) == (1, 1)


async def test_paused_run_is_shown_as_paused(served: Served) -> None:
    served.bench.subscribe("ada@example.com")
    run = await served.bench.send(served.bench.page())
    await served.bench.work()
    await served.api.client.post(f"/v1/campaigns/{run.mailout_id}/pause")
    [listed] = (await served.api.client.get("/v1/mailouts")).json()["mailouts"]
    assert (listed["status"], listed["shownStatus"]) == ("sending", "paused")


async def test_deleted_page_is_an_error_of_the_sent_run(served: Served) -> None:
    served.bench.subscribe("ada@example.com")
    page = served.bench.page()
    run = await served.bench.send(page)
    await served.bench.work()
    served.bench.notion.trash(page)
    await served.bench.finish(run)
    shown = (await served.api.client.get(f"/v1/mailouts/{run.mailout_id}")).json()
    assert (shown["status"], shown["counts"]["sent"], shown["errorCode"]) == ("sent", 1, "NOTION_IN_TRASH")
    assert shown["errorMessage"].startswith("The page or its table is in Notion's trash.")
    assert (shown["delay"], shown["reportedAt"]) == (None, None)


async def test_missing_notion_token_is_explained(served: Served) -> None:
    settings = served.bench.bench.engine.settings.model_copy(update={"notion_token": None})
    engine = replace(served.api.engine, mailouts=served.bench.another_service(settings))
    async with client_of(create_app(engine)) as client:
        answer = await client.post("/send-mailout", json={"notionPageId": "a" * 32}, headers=ADMINISTRATOR)
    assert (answer.status_code, answer.json()["code"]) == (409, "mailouts_not_configured")
