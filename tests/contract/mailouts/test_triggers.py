"""Separate statuses for tests, mailouts and resets, as in AmazonSender."""

from collections.abc import AsyncIterator
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any

import pytest

from mailwright.sources.mailouts.runs import MailoutRun
from tests.conftest import DatabaseAddress
from tests.mailouts import ACTOR, MailoutBench, a_mailout_bench
from tests.notion_pages import MAILOUT_COLUMNS, said, text

OPTIONS = ("Not started", "Send", "Send real", "Reset", "In progress", "Done", "Failed")
STATUSES = {
    "test": "Send",
    "ready": "Send real",
    "reset": "Reset",
    "send": "Done",
    "in_progress": "In progress",
    "not_started": "Not started",
}


@pytest.fixture
async def bench(engine: DatabaseAddress) -> AsyncIterator[MailoutBench]:
    columns = {**MAILOUT_COLUMNS, "Status": ("status", OPTIONS)}
    async with a_mailout_bench(engine.url, columns=columns, notion_statuses=STATUSES) as made:
        made.subscribe("ada@example.com")
        yield made


async def watch(bench: MailoutBench) -> list[MailoutRun]:
    return await (await bench.mailouts()).send_ready_pages(actor=ACTOR)


async def test_test_trigger_sends_tests_only(bench: MailoutBench) -> None:
    test, real = bench.page(Status="Send", Test=True), bench.page(Status="Send", Test=False)
    begun = {run.page_id: run for run in await watch(bench)}
    assert (begun[real].status, begun[real].error_code) == ("refused", "real_trigger_required")
    assert bench.cells(test)["Status"] == "In progress"
    await bench.finish(begun[test])
    assert sorted(bench.reached) == ["second@example.com", "tester@example.com"]
    assert (bench.cells(test)["Status"], bench.cells(test)["Sent At"]) == ("Not started", None)
    assert (bench.cells(real)["Status"], bench.cells(test)["Sent Count"]) == ("Not started", 2)
    assert [row["Error Code"] for row in bench.errors()] == ["real_trigger_required"]


async def test_real_trigger_sends_to_everyone_once(bench: MailoutBench) -> None:
    page = bench.page(Status="Send real", Test=False)
    [run] = await watch(bench)
    assert (await watch(bench), bench.cells(page)["Status"]) == ([], "In progress")
    await bench.finish(run)
    assert (bench.reached, bench.cells(page)["Status"]) == (["ada@example.com"], "Done")
    bench.notion.set_cell(page, "Status", "Send real")
    [again] = await watch(bench)
    assert (again.error_code, bench.reached) == ("mailout_already_sent", ["ada@example.com"])


async def test_ticked_test_wins_over_the_real_trigger(bench: MailoutBench) -> None:
    bench.page(Status="Send real", Test=True)
    [run] = await watch(bench)
    await bench.finish(run)
    assert "ada@example.com" not in bench.reached


async def test_each_click_sends_another_test(bench: MailoutBench) -> None:
    page = bench.page(Status="Send", Test=True)
    for _ in range(2):
        [run] = await watch(bench)
        await bench.finish(run)
        bench.notion.set_cell(page, "Status", "Send")  # In the same minute.
    assert len(bench.reached) == 4


async def test_page_refused_after_its_start_is_reopened(bench: MailoutBench) -> None:
    page = bench.page(Status="Send real", Test=False)
    bench.supabase.rows("subscribers").clear()
    await watch(bench)
    assert bench.cells(page)["Status"] == "In progress"
    await bench.work()
    assert bench.cells(page)["Status"] == "Not started"


async def test_status_that_somebody_changed_is_kept(bench: MailoutBench) -> None:
    page = bench.page(Status="Send", Test=True)
    [run] = await watch(bench)
    bench.notion.set_cell(page, "Status", "Failed")
    await bench.finish(run)
    assert bench.cells(page)["Status"] == "Failed"


async def test_reset_clears_the_results_and_ticks_test(bench: MailoutBench) -> None:
    results: dict[str, Any] = {"Sent_At": "2027-01-01", "Sent_Count": 5, "Bounce_Rate": 0.5}
    page = bench.page(Status="Reset", Test=False, **results)
    assert await watch(bench) == []
    cells = bench.cells(page)
    assert (cells["Status"], cells["Test"]) == ("Not started", True)
    assert [cells[name] for name in ("Sent At", "Sent Count", "Bounce Rate")] == [None, None, None]


async def test_placeholders_are_filled_for_each_recipient(bench: MailoutBench) -> None:
    bench.subscribe("grace.hopper@example.com", from_name="Grace <H>")
    words = [
        text("Dear {{Name}}, you are {{ email }} and {{else}}. "),
        text("Go", link="https://x.example/?e={{email}}"),
    ]
    run = await bench.send(bench.page(Subject="For {{name}}", Status="Not started", blocks=[said("paragraph", words)]))
    await bench.finish(run)
    received = {
        each.recipients[0]: message_from_bytes(each.content, policy=default) for each in bench.provider.messages
    }
    first, second = received["ada@example.com"], received["grace.hopper@example.com"]
    assert (first["Subject"], second["Subject"]) == ("For ada", "For Grace <H>")
    assert "Dear ada, you are ada@example.com and {{else}}." in part_of(first, "plain")
    assert "Dear Grace &lt;H&gt;, you are grace.hopper@example.com" in part_of(second, "html")
    assert "https://x.example/?e=ada@example.com" in part_of(first, "html")


def part_of(message: EmailMessage, kind: str) -> str:
    body = message.get_body((kind,))
    assert body is not None
    return str(body.get_content())
