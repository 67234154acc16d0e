"""Reports about subscribers who exist in Supabase only: they reach Supabase, and the address is suppressed."""

from collections.abc import AsyncIterator

import pytest
from sqlalchemy import func, select

from mailwright.audience.suppressions import ALL_MESSAGES
from mailwright.domain.ids import uuid7
from mailwright.domain.report import ContactVerdict, Report
from mailwright.domain.states import EventType
from mailwright.storage.tables import contacts, subscriber_reports, suppressions
from tests.conftest import DatabaseAddress
from tests.mailouts import MailoutBench, a_mailout_bench
from tests.standins.http import Answer

BOUNCE, COMPLAINT, LEAVES = ContactVerdict.HARD_BOUNCE, ContactVerdict.COMPLAINT, ContactVerdict.UNSUBSCRIBE


@pytest.fixture
async def bench(engine: DatabaseAddress) -> AsyncIterator[MailoutBench]:
    async with a_mailout_bench(engine.url) as made:
        yield made


def a_report(email: str, verdict: ContactVerdict = BOUNCE, *, outbox_id: str | None = None) -> Report:
    """A report about a message that another program sent."""
    kind = {BOUNCE: EventType.BOUNCED, COMPLAINT: EventType.COMPLAINED, LEAVES: EventType.UNSUBSCRIBED}[verdict]
    return Report(
        key=f"{verdict}:{email}",
        source="ses",
        type=kind,
        at=1_800_000_000_000,
        recipient=email,
        outbox_id=outbox_id,
        provider_message_id="sent-by-another-program",
        verdict=verdict,
        bounce_type="Permanent" if verdict is BOUNCE else None,
        bounce_subtype="General" if verdict is BOUNCE else None,
    )


async def receive(bench: MailoutBench, *reports: Report, by_address: bool = True) -> None:
    await bench.bench.engine.reports.receive(reports, by_address=by_address)


async def suppressed(bench: MailoutBench) -> list[tuple[str, str]]:
    async with bench.database.read() as tx:
        rows = await tx.execute(select(suppressions.c.email, suppressions.c.list_key).order_by(suppressions.c.email))
    return [(row.email, row.list_key) for row in rows]


async def kept(bench: MailoutBench) -> int:
    async with bench.database.read() as tx:
        return int((await tx.execute(select(func.count()).select_from(subscriber_reports)))[0][0])


@pytest.mark.promise("mailout-results-written")
@pytest.mark.parametrize(
    ("verdict", "status", "scope"),
    [(BOUNCE, "bounced", ALL_MESSAGES), (COMPLAINT, "unsubscribed", ALL_MESSAGES), (LEAVES, "unsubscribed", "general")],
)
async def test_report_about_unknown_subscriber_reaches_supabase(
    bench: MailoutBench, verdict: ContactVerdict, status: str, scope: str
) -> None:
    bench.subscribe(" Ada@B\u00fccher.example", "bob@example.com")
    await receive(bench, a_report("ada@b\u00fccher.example", verdict))
    await bench.work()
    row = bench.supabase.subscriber(" Ada@B\u00fccher.example")
    assert (row["status"], row["bounce_type"]) == (status, "Permanent" if verdict is BOUNCE else None)
    assert bench.supabase.subscriber("bob@example.com")["status"] == "active"
    assert await suppressed(bench) == [("ada@xn--bcher-kva.example", scope)]
    run = await bench.finish(await bench.send(bench.page()))
    assert (run.status, bench.reached) == ("sent", ["bob@example.com"])


async def test_report_about_a_stranger_changes_nothing(bench: MailoutBench) -> None:
    bench.subscribe("bob@example.com")
    await receive(bench, a_report("stranger@example.com"))
    assert await kept(bench) == 1
    await bench.work()
    async with bench.database.read() as tx:
        assert not await tx.execute(select(contacts.c.email))
    assert (await suppressed(bench), await kept(bench)) == ([], 0)


async def test_untrusted_and_foreign_reports_are_not_kept(bench: MailoutBench) -> None:
    bench.subscribe("ada@example.com")
    await receive(bench, a_report("ada@example.com"), by_address=False)
    await receive(bench, a_report("ada@example.com", outbox_id=uuid7(1_800_000_000_000)))
    await receive(bench, a_report("not an address"))
    assert await kept(bench) == 0


async def test_unknown_subscriber_waits_for_supabase(bench: MailoutBench) -> None:
    bench.subscribe("ada@example.com", "bob@example.com")
    report = a_report("ada@example.com")
    await receive(bench, report, report)
    bench.supabase.answer(Answer(503))
    await bench.work()
    assert (await suppressed(bench), await kept(bench)) == ([], 1)
    bench.supabase.forget_rules()
    await receive(bench, report)
    await bench.work()
    assert bench.supabase.subscriber("ada@example.com")["status"] == "bounced"
    assert (await suppressed(bench), await kept(bench)) == ([("ada@example.com", ALL_MESSAGES)], 0)


async def test_refused_unknown_subscriber_does_not_block_others(bench: MailoutBench) -> None:
    bench.subscribe("ada@example.com", "bob@example.com")
    bench.supabase.frozen.add("ada@example.com")
    await receive(bench, a_report("ada@example.com"), a_report("bob@example.com"))
    await bench.work()
    assert bench.supabase.subscriber("bob@example.com")["status"] == "bounced"
    assert await kept(bench) == 1


async def test_nothing_is_kept_without_supabase(engine: DatabaseAddress) -> None:
    async with a_mailout_bench(engine.url, with_supabase=False) as bench:
        await receive(bench, a_report("ada@example.com"))
        assert await kept(bench) == 0
