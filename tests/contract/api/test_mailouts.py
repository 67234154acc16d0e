"""Mailouts over HTTP, on both engines: the trigger answers at once, and says what speaks against a page."""

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


async def test_a_page_is_accepted_with_the_id_of_its_run_and_its_progress_is_a_campaigns(served: Served) -> None:
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


async def test_what_speaks_against_a_page_is_answered_at_once_by_its_code(served: Served) -> None:
    status, answer = await served.send(served.bench.page(Status="Send"))
    assert (status, answer["code"]) == (409, "mailout_already_sent")
    status, answer = await served.send(served.bench.page(Subject=""))
    assert (status, answer["code"]) == (422, "subject_required")
    hidden = served.bench.page()
    served.bench.notion.hide(hidden)
    status, answer = await served.send(hidden)
    assert (status, answer["code"]) == (422, "NOTION_NOT_SHARED")


async def test_only_the_administrator_sends_and_nothing_is_stored_of_what_is_no_page(served: Served) -> None:
    page = served.bench.page()
    assert (await served.send(page, {}))[0] == 401
    assert (await served.send(page, {"Authorization": "Bearer wrong"}))[0] == 401
    assert (await served.send(page, {"Authorization": f"Bearer {served.api.key}"}))[0] == 401
    status, answer = await served.send("no page")
    assert (status, answer["code"]) == (422, "INVALID_REQUEST")
    assert (await served.api.client.get("/v1/mailouts")).json() == {"mailouts": [], "nextCursor": None}


async def test_the_report_is_a_csv_that_no_spreadsheet_takes_for_formulas(served: Served) -> None:
    served.bench.subscribe("=cmd@example.com", "ada@example.com")
    run = await served.bench.send(served.bench.page())
    await served.bench.finish(run)
    report = (await served.api.client.get(f"/v1/mailouts/{run.mailout_id}/report.csv")).text.splitlines()
    assert report[0] == "email,status,error_message,message_id,sent_at"
    assert report[1].startswith("'=cmd@example.com,SENT,")
    assert report[2].startswith("ada@example.com,SENT,")


async def test_what_a_run_waits_for_is_shown_until_it_is_over(served: Served) -> None:
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


async def test_each_fault_of_a_page_is_answered_by_its_code(served: Served) -> None:
    status, answer = await served.send(served.bench.page(Subject="", Status="Send", blocks=[]))
    assert (status, answer["code"]) == (422, "subject_required")
    codes = [each["code"] for each in answer["errors"]]
    assert codes == ["subject_required", "mailout_already_sent", "empty_body"]
    assert answer["detail"] == " ".join(each["message"] for each in answer["errors"])


async def test_a_run_that_nobody_sends_says_so_in_a_field_until_somebody_works(served: Served) -> None:
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


async def test_a_page_that_is_gone_is_an_error_of_a_run_that_is_sent(served: Served) -> None:
    served.bench.subscribe("ada@example.com")
    page = served.bench.page()
    run = await served.bench.send(page)
    await served.bench.work()
    served.bench.notion.trash(page)
    await served.bench.finish(run)
    shown = (await served.api.client.get(f"/v1/mailouts/{run.mailout_id}")).json()
    assert (shown["status"], shown["counts"]["sent"], shown["errorCode"]) == ("sent", 1, "NOTION_IN_TRASH")
    assert shown["errorMessage"].startswith("The page, or the table that it stands in, is in Notion's trash.")
    assert (shown["delay"], shown["reportedAt"]) == (None, None)


async def test_without_notion_the_trigger_says_what_to_set(served: Served) -> None:
    settings = served.bench.bench.engine.settings.model_copy(update={"notion_token": None})
    engine = replace(served.api.engine, mailouts=served.bench.another_service(settings))
    async with client_of(create_app(engine)) as client:
        answer = await client.post("/send-mailout", json={"notionPageId": "a" * 32}, headers=ADMINISTRATOR)
    assert (answer.status_code, answer.json()["code"]) == (409, "mailouts_not_configured")
