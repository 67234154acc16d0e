"""Mailouts when the audience, the test mode or the provider is unclear: nothing is sent, and the reason is reported."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest

from mailwright.sources.campaigns.campaigns import Campaigns
from mailwright.sources.campaigns.records import Actor
from mailwright.sources.mailouts.progress import progress_of, shown_status
from mailwright.sources.mailouts.runs import MailoutRun, MailoutRunStatus
from tests.builders import UNKNOWN
from tests.conftest import DatabaseAddress
from tests.mailouts import MailoutBench, a_mailout_bench
from tests.notion_pages import said
from tests.standins.provider import ScriptedProvider

Open = Callable[..., AbstractAsyncContextManager[MailoutBench]]


@pytest.fixture
def opened(engine: DatabaseAddress) -> Open:
    return lambda **settings: a_mailout_bench(engine.url, **settings)


# The test checkbox.


@pytest.mark.promise("mailout-fail-closed")
async def test_page_without_test_property_is_refused(opened: Open) -> None:
    async with opened() as bench:
        bench.subscribe("ada@example.com")
        page = bench.page(Test=True)
        bench.notion.remove_column(bench.mailouts_database, "Test")
        run = await bench.finish(await bench.send(page))
        assert (run.status, run.error_code, run.is_test, bench.reached) == (
            MailoutRunStatus.REFUSED,
            "test_property_missing",
            None,
            [],
        )
        assert [row["Error Code"] for row in bench.errors()] == ["test_property_missing"]


async def test_ready_page_with_renamed_test_property_is_refused(opened: Open) -> None:
    async with opened(notion_mailout_properties={"test": "Probe"}) as bench:
        bench.subscribe("ada@example.com")
        bench.page(Status="Ready", Test=True)
        [run] = await (await bench.mailouts()).send_ready_pages("watch")
        assert run.error_code == "test_property_missing"
        assert "'Probe'" in (run.error_message or "")


# The local mailbox.


@pytest.mark.promise("mailout-fail-closed")
async def test_real_mailout_to_local_mailbox_is_refused(opened: Open) -> None:
    async with opened(provider="mailbox") as bench:
        bench.subscribe("ada@example.com")
        page = bench.page()
        run = await bench.finish(await bench.send(page))
        assert (run.error_code, bench.reached, bench.cells(page)["Status"]) == ("local_mailbox", [], None)


async def test_rehearsal_into_local_mailbox_leaves_page_unsent(opened: Open) -> None:
    async with opened(provider="mailbox", mailbox_mailouts=True) as bench:
        bench.subscribe("ada@example.com")
        page = bench.page()
        run = await bench.finish(await bench.send(page))
        assert (run.status, run.is_local, bench.reached) == ("sent", True, ["ada@example.com"])
        assert (bench.cells(page)["Status"], bench.cells(page)["Sent At"]) == (None, None)
        again = await bench.finish(await bench.send(page))
        assert again.status == "sent"  # The page can still be sent.


async def test_test_mailout_may_go_to_local_mailbox(opened: Open) -> None:
    async with opened(provider="mailbox") as bench:
        run = await bench.finish(await bench.send(bench.page(Test=True)))
        assert (run.status, run.is_local, len(bench.reached)) == ("sent", True, 2)


# Repeated tests.


async def test_ready_test_page_is_tested_again_after_an_edit(opened: Open) -> None:
    async with opened() as bench:
        page = bench.page(Status="Ready", Test=True)
        mailouts = await bench.mailouts()
        [first] = await mailouts.send_ready_pages("watch")
        assert await mailouts.send_ready_pages("watch") == []  # The first test is not finished.
        await bench.finish(first)
        assert await mailouts.send_ready_pages("watch") == []  # Only the results were written.
        bench.notion.add_blocks(page, [said("paragraph", "A better ending.")])
        [second] = await mailouts.send_ready_pages("watch")
        await bench.finish(second)
        assert await mailouts.send_ready_pages("watch") == []
        assert len(bench.reached) == 4


async def test_later_results_do_not_repeat_the_test(opened: Open) -> None:
    async with opened() as bench:
        bench.page(Status="Ready", Test=True)
        mailouts = await bench.mailouts()
        [run] = await mailouts.send_ready_pages("watch")
        await bench.finish(run)
        await bench.report("delivered", "tester@example.com")
        bench.clock.advance(60_000)
        await bench.work()
        assert await mailouts.send_ready_pages("watch") == []


async def test_page_that_is_ready_again_is_tested_again(opened: Open) -> None:
    async with opened() as bench:
        page = bench.page(Status="Ready", Test=True)
        mailouts = await bench.mailouts()
        [first] = await mailouts.send_ready_pages("watch")
        await bench.finish(first)
        bench.notion.set_cell(page, "Status", "Draft")
        assert await mailouts.send_ready_pages("watch") == []
        bench.notion.set_cell(page, "Status", "Ready")
        assert len(await mailouts.send_ready_pages("watch")) == 1


# How a run is shown.


async def test_message_in_doubt_is_reported_in_notion(opened: Open) -> None:
    async with opened() as bench:
        bench.subscribe("ada@example.com", "bob@example.com")
        page = bench.page()
        run = await bench.finish(await bench.send(page), ScriptedProvider(UNKNOWN))
        assert [(row["Email"], row["Error Code"]) for row in bench.errors()] == [("ada@example.com", "IN_DOUBT")]
        assert (bench.cells(page)["Status"], run.status) == ("Failed", "sent")


async def test_paused_run_is_shown_as_paused(opened: Open) -> None:
    async with opened() as bench:
        bench.subscribe("ada@example.com")
        run = await bench.send(bench.page())
        await bench.work()
        await _campaigns(bench).pause(Actor("tester", None), run.mailout_id)
        assert await _shown(bench, run) == "paused"


async def test_cancelled_run_is_shown_as_cancelled(opened: Open) -> None:
    async with opened() as bench:
        bench.subscribe("ada@example.com")
        run = await bench.send(bench.page())
        await bench.work()
        await _campaigns(bench).cancel(Actor("tester", None), run.mailout_id)
        assert await _shown(bench, await bench.finish(run)) == "cancelled"


async def _shown(bench: MailoutBench, run: MailoutRun) -> str:
    run = await bench.find(run)
    return shown_status(run, (await progress_of(bench.database, bench.clock, [run])).get(run.key))


def _campaigns(bench: MailoutBench) -> Campaigns:
    return Campaigns(bench.database, bench.clock, bench.bench.engine.templates)
