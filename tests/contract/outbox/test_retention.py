"""Retention deletes only what a rule names and what nothing needs any more, on both engines."""

import asyncio
import gzip
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from arro3.io import read_parquet
from sqlalchemy import Table, func, insert, select, text

from mailwright.app.retention import RetentionDuty, RetentionSweep, make_retention
from mailwright.audience.erasure import erase
from mailwright.domain.clock import DAY
from mailwright.domain.errors import InvalidInput, NotPossibleNow
from mailwright.domain.ids import uuid7
from mailwright.domain.message import Event, RawContent
from mailwright.domain.report import ContactVerdict, Report
from mailwright.domain.retention import MIN_DAYS, RetentionCount, RetentionKind, RetentionRule
from mailwright.domain.states import EventType, Status
from mailwright.domain.tracking import TrackingMode
from mailwright.events.outbound.endpoints import WebhookEndpointInput, WebhookEndpoints
from mailwright.events.reports import RECIPIENTS_KEPT_FOR, ReportCounts, SoftBounces, forget
from mailwright.outbox.audit import audit
from mailwright.outbox.retention_export import append_member
from mailwright.outbox.retention_rules import list_rules, remove_rule, set_rule
from mailwright.outbox.settle import append_events, event_row
from mailwright.sources.campaigns.report_figures import load_figures
from mailwright.sources.campaigns.statistics import campaign_statistics
from mailwright.storage.partitions import ensure_event_partitions
from mailwright.storage.tables import (
    audit_log,
    deleted_messages,
    deliveries,
    events,
    imports,
    messages,
    raw_contents,
    reports,
    retention_exports,
    retention_tombstones,
    suppressions,
)
from tests.builders import DEFAULT_TENANT, REFUSAL, Bench, a_message, a_message_with, a_tenant, suppress
from tests.campaigns import OPERATOR, CampaignHarness, join
from tests.contract.campaigns.test_guard_rails import report, sent_ids
from tests.standins.provider import ScriptedProvider

pytestmark = pytest.mark.promise("retention-safe")

AGE = 40 * DAY
LATE = "late@example.com"


async def rule(bench: Bench, kind: RetentionKind, days: int = 30, **changes: Any) -> RetentionRule:
    values = {"exports": False, "actor": "ada", **changes}
    return await set_rule(bench.database, bench.clock, DEFAULT_TENANT, kind, days=days, **values)


async def sweep(bench: Bench, settings: dict[str, Any] | None = None) -> int:
    """Apply all rules, and return the number of deleted rows."""
    chosen = bench.engine.settings.model_copy(update=settings or {})
    runner = RetentionSweep(chosen, bench.database, bench.clock)
    return sum([count.rows async for _, count in runner.run(await list_rules(bench.database))])


async def count_rows(bench: Bench, table: Any, *conditions: Any) -> int:
    async with bench.database.read() as tx:
        return int((await tx.execute(select(func.count()).select_from(table).where(*conditions)))[0][0])


async def a_history(bench: Bench, count: int = 3) -> list[str]:
    """Send messages, and let them become old."""
    sent = await bench.accept(*(a_message() for _ in range(count)))
    await bench.drain(ScriptedProvider())
    bench.clock.advance(AGE)
    return sent


async def a_deleted_message(bench: Bench) -> list[str]:
    """Send a message, and let retention delete it."""
    sent = await bench.accept(a_message(to=LATE))
    await bench.drain(ScriptedProvider())
    bench.clock.advance(AGE)
    await rule(bench, RetentionKind.MESSAGES)
    assert await sweep(bench) == 1
    return sent


def a_late_report(bench: Bench, outbox_id: str | None, verdict: ContactVerdict = ContactVerdict.COMPLAINT) -> Report:
    types = {
        ContactVerdict.COMPLAINT: EventType.COMPLAINED,
        ContactVerdict.HARD_BOUNCE: EventType.BOUNCED,
        ContactVerdict.UNSUBSCRIBE: EventType.UNSUBSCRIBED,
    }
    return Report("k1", "scripted", types[verdict], bench.clock.now(), LATE, outbox_id, verdict=verdict)


async def test_nothing_is_deleted_without_a_rule(bench: Bench) -> None:
    await a_history(bench)
    before = await count_rows(bench, events)
    assert await sweep(bench) == 0
    assert (await count_rows(bench, messages), await count_rows(bench, events)) == (3, before)


async def test_body_is_deleted_and_message_stays(bench: Bench) -> None:
    [old, *_] = await a_history(bench)
    [young] = await bench.accept(a_message())
    await rule(bench, RetentionKind.BODIES)
    assert await sweep(bench) == 3
    assert (await bench.record(old)).payload == {}
    assert (await bench.record(old)).summary.status == Status.SENT
    assert "html" in (await bench.record(young)).payload
    assert await sweep(bench) == 0


async def test_raw_content_is_deleted_with_its_last_message(bench: Bench) -> None:
    raw = RawContent.of(b"Subject: Hello\r\n\r\nHello\r\n", bench.clock.now())
    await bench.accept(a_message(raw=raw))
    await bench.drain(ScriptedProvider())
    bench.clock.advance(AGE)
    [waiting] = await bench.accept(a_message(raw=raw, scheduled_at=bench.clock.now() + DAY))
    await rule(bench, RetentionKind.BODIES)
    await sweep(bench)
    assert await count_rows(bench, raw_contents) == 1  # The second message still needs it.
    bench.clock.advance(DAY)
    await bench.drain(provider := ScriptedProvider())
    assert provider.outbox_ids == [waiting]
    bench.clock.advance(AGE)
    await sweep(bench)
    assert await count_rows(bench, raw_contents) == 0


async def test_message_without_body_cannot_be_retried(bench: Bench) -> None:
    [failed] = await bench.accept(a_message())
    await bench.drain(ScriptedProvider(REFUSAL))
    bench.clock.advance(AGE)
    await rule(bench, RetentionKind.BODIES)
    await sweep(bench)
    with pytest.raises(NotPossibleNow, match="content of the message was deleted"):
        await bench.engine.operations.requeue(failed, tenant_id=None)
    assert (await bench.record(failed)).summary.status == Status.FAILED


async def test_unfinished_messages_keep_everything(bench: Bench) -> None:
    await bench.accept(a_message(scheduled_at=bench.clock.now() + 100 * DAY))
    bench.clock.advance(AGE)
    for kind in RetentionKind:
        await rule(bench, kind)
    rows = [await count_rows(bench, table) for table in (messages, events)]
    assert await sweep(bench) == 0
    assert [await count_rows(bench, table) for table in (messages, events)] == rows
    assert await count_rows(bench, messages, messages.c.payload == "{}") == 0


async def test_audit_stays_true_after_messages_are_deleted(bench: Bench) -> None:
    await bench.accept(a_message())
    await bench.drain(ScriptedProvider(REFUSAL))
    await suppress(bench.database, "gone@example.com")
    await bench.accept(a_message(to="gone@example.com"))
    await a_history(bench)
    before = await audit(bench.database)
    assert (before.sent, before.failed, before.suppressed, before.deleted) == (3, 1, 1, 0)
    await rule(bench, RetentionKind.MESSAGES)
    assert await sweep(bench) == 5
    assert await audit(bench.database) == replace(before, deleted=5)
    assert [await count_rows(bench, table) for table in (messages, deliveries, events)] == [0, 0, 0]
    assert await count_rows(bench, suppressions) == 1


@pytest.mark.parametrize("names_the_message", [True, False])
@pytest.mark.parametrize("verdict", [ContactVerdict.COMPLAINT, ContactVerdict.HARD_BOUNCE, ContactVerdict.UNSUBSCRIBE])
async def test_late_verdict_about_deleted_message_suppresses_recipient(
    bench: Bench, verdict: ContactVerdict, names_the_message: bool
) -> None:
    [outbox_id] = await a_deleted_message(bench)
    report = a_late_report(bench, outbox_id if names_the_message else None, verdict)
    assert await bench.engine.reports.receive([report], by_address=True) == ReportCounts(new=1)
    assert await bench.engine.reports.receive([report], by_address=True) == ReportCounts(repeated=1)
    assert await count_rows(bench, suppressions, suppressions.c.email == LATE) == 1
    assert await count_rows(bench, events) == 0


async def test_late_report_with_another_address_counts_by_its_id(bench: Bench) -> None:
    [outbox_id] = await a_deleted_message(bench)
    report = replace(a_late_report(bench, outbox_id), recipient="other@example.com")
    await bench.engine.reports.receive([report], by_address=True)
    async with bench.database.read() as tx:
        assert [row.email for row in await tx.execute(select(suppressions.c.email))] == [LATE]


@pytest.mark.parametrize("names_the_message", [True, False])
@pytest.mark.parametrize("kind", ["cc", "bcc"])
@pytest.mark.parametrize("rules", [["bodies"], ["messages"], ["bodies", "messages"]], ids="-".join)
async def test_late_complaint_of_a_copy_suppresses_its_address(
    bench: Bench, kind: str, rules: list[str], names_the_message: bool
) -> None:
    [outbox_id] = await bench.accept(a_message_with(**{kind: ["Other <Other@example.com>", LATE]}))
    await bench.drain(ScriptedProvider())
    bench.clock.advance(AGE)
    for each in rules:
        await rule(bench, RetentionKind(each))
        assert await sweep(bench) >= 1
    unnamed = replace(a_late_report(bench, outbox_id), key="k0", recipient=None)
    report = a_late_report(bench, outbox_id if names_the_message else None)
    await bench.engine.reports.receive([unnamed, report], by_address=True)
    async with bench.database.read() as tx:
        assert [row.email for row in await tx.execute(select(suppressions.c.email))] == [LATE]


async def test_erased_recipient_does_not_suppress_its_copies(bench: Bench) -> None:
    [outbox_id] = await bench.accept(a_message_with(cc=[LATE]))
    await bench.drain(ScriptedProvider())
    bench.clock.advance(AGE)
    await rule(bench, RetentionKind.MESSAGES)
    await sweep(bench)
    async with bench.database.read() as tx:
        found = await tx.execute(select(deleted_messages.c.to_email).where(deleted_messages.c.is_copy == 0))
    await erase(bench.database, bench.clock, DEFAULT_TENANT, found[0].to_email, actor="ada")
    before = await count_rows(bench, suppressions)
    await bench.engine.reports.receive([replace(a_late_report(bench, outbox_id), recipient=None)], by_address=True)
    assert await count_rows(bench, suppressions) == before


async def test_recipients_of_deleted_messages_are_deleted_later(bench: Bench) -> None:
    await a_deleted_message(bench)
    bench.clock.advance(RECIPIENTS_KEPT_FOR)
    await forget(bench.database, SoftBounces(), bench.clock.now())
    assert await count_rows(bench, deleted_messages) == 1
    bench.clock.advance(1)
    await forget(bench.database, SoftBounces(), bench.clock.now())
    assert await count_rows(bench, deleted_messages) == 0


async def test_erasure_reaches_recipients_of_deleted_messages(bench: Bench) -> None:
    await a_deleted_message(bench)
    await erase(bench.database, bench.clock, DEFAULT_TENANT, LATE, actor="ada")
    assert await count_rows(bench, deleted_messages) == 0


@pytest.mark.parametrize("table", [messages, events], ids=lambda table: table.name)
async def test_keys_of_deleted_rows_are_not_reused(bench: Bench, table: Table) -> None:
    """Otherwise positions and counts that refer to an old key would apply to a new row."""
    await a_history(bench)
    newest = select(func.max(table.c.id))
    async with bench.database.read() as tx:
        before = (await tx.execute(newest))[0][0]
    await rule(bench, RetentionKind.MESSAGES)
    assert await sweep(bench) == 3
    await bench.accept(a_message())
    await bench.drain(ScriptedProvider())
    async with bench.database.read() as tx:
        first = (await tx.execute(select(func.min(table.c.id)).where(table.c.tenant_id == DEFAULT_TENANT)))[0][0]
    assert first > before


async def test_other_tenants_keep_their_messages(bench: Bench) -> None:
    other = await a_tenant(bench.database, "other")
    await bench.accept(a_message(tenant_id=other))
    await a_history(bench)
    await rule(bench, RetentionKind.MESSAGES)
    assert await sweep(bench) == 3
    assert await count_rows(bench, messages, messages.c.tenant_id == other) == 1


async def test_late_send_starts_the_period(bench: Bench) -> None:
    await bench.accept(a_message(scheduled_at=bench.clock.now() + AGE))
    bench.clock.advance(AGE)
    await bench.drain(ScriptedProvider())
    await rule(bench, RetentionKind.MESSAGES)
    assert await sweep(bench) == 0
    bench.clock.advance(31 * DAY)
    assert await sweep(bench) == 1


async def test_campaign_numbers_survive_their_messages(bench: Bench) -> None:
    harness = CampaignHarness(bench)
    campaign_id = await harness.start(4)
    await bench.drain(ScriptedProvider(REFUSAL))
    campaign = await harness.campaign(campaign_id)
    opened = await _append_opens(bench)
    bench.clock.advance(AGE)
    await sweep(bench)  # Tallies the events.
    before = await harness.counts(campaign_id), await campaign_statistics(bench.database, campaign.key)
    await rule(bench, RetentionKind.EVENTS)
    await rule(bench, RetentionKind.MESSAGES, 60)
    await sweep(bench)
    assert await count_rows(bench, events, events.c.type == "open") == opened
    await _append_opens(bench)  # A repeated open is not a new reader, although other events are gone.
    bench.clock.advance(AGE)
    await sweep(bench)
    later = await harness.counts(campaign_id), await campaign_statistics(bench.database, campaign.key)
    assert later[0] == before[0]
    assert later[1].messages == before[1].messages
    bench.clock.advance(AGE)
    await sweep(bench)
    assert await count_rows(bench, messages) == 0
    assert (await harness.counts(campaign_id)) == before[0]
    assert (before[0].sent, before[0].failed) == (3, 1)


@pytest.mark.promise("campaign-each-once")
async def test_campaign_with_deleted_messages_cannot_be_extended(bench: Bench) -> None:
    harness = CampaignHarness(bench)
    campaign_id = await harness.start(3)
    await bench.drain(ScriptedProvider())
    await rule(bench, RetentionKind.MESSAGES)
    bench.clock.advance(AGE)
    await sweep(bench)
    await join(bench.database, ["new@example.com"])
    with pytest.raises(NotPossibleNow, match="Retention has deleted messages of the campaign"):
        await harness.campaigns.extend(OPERATOR, campaign_id)
    await bench.drain(provider := ScriptedProvider())
    assert (provider.messages, await harness.status(campaign_id)) == ([], "SENT")


async def _append_opens(bench: Bench) -> int:
    async with bench.database.write() as tx:
        keys = [row.message_key for row in await tx.execute(select(deliveries).where(deliveries.c.status == "SENT"))]
        event = Event(EventType.OPENED, bench.clock.now(), {})
        await append_events(tx, [event_row(key, DEFAULT_TENANT, event) for key in keys])
    return len(keys)


async def test_deleting_events_keeps_totals_and_empties_reasons(bench: Bench) -> None:
    harness = CampaignHarness(bench)
    campaign_id = await harness.start(3)
    await bench.drain(ScriptedProvider())
    ids = await sent_ids(harness, campaign_id)
    await report(harness, ids[:1], ContactVerdict.HARD_BOUNCE)
    await report(harness, ids[1:2], ContactVerdict.COMPLAINT)
    await harness.run_scheduler()
    campaign = await harness.campaign(campaign_id)
    await sweep(bench)  # Tallies the events.
    before = (await campaign_statistics(bench.database, campaign.key)).messages
    bench.clock.advance(AGE)
    await rule(bench, RetentionKind.EVENTS)
    assert await sweep(bench) > 0
    assert (await campaign_statistics(bench.database, campaign.key)).messages == before
    figures = await load_figures(bench.database, campaign, bench.clock.now(), TrackingMode.OFF)
    assert not any(domain.complained for domain in figures.breakdown.domains)
    assert figures.reasons.bounces == figures.reasons.complaints == ()


async def test_events_stay_until_webhooks_have_read_them(bench: Bench) -> None:
    endpoints = WebhookEndpoints(bench.database, bench.clock)
    hook, _ = await endpoints.create(DEFAULT_TENANT, WebhookEndpointInput("https://example.com/hook"), actor="ada")
    await a_history(bench)
    await rule(bench, RetentionKind.EVENTS)
    assert await sweep(bench) == 0
    await endpoints.remove(hook.webhook_id, tenant_id=DEFAULT_TENANT, actor="ada")
    assert await sweep(bench) > 0


async def test_running_campaign_keeps_its_messages(bench: Bench) -> None:
    harness = CampaignHarness(bench)
    await harness.start(3, limits={"dailyLimit": 2})
    await bench.drain(ScriptedProvider())
    bench.clock.advance(AGE)
    assert await bench.statuses() == {"SENT": 2, "PENDING": 1}
    for kind in (RetentionKind.BODIES, RetentionKind.EVENTS, RetentionKind.MESSAGES):
        await rule(bench, kind)
    assert await sweep(bench) == 0
    await bench.drain(ScriptedProvider())
    assert await bench.statuses() == {"SENT": 3}


async def test_other_kinds_are_deleted_by_age(bench: Bench, tmp_path: Path) -> None:
    now = bench.clock.now()
    entry = {"tenant_id": DEFAULT_TENANT, "actor": "ada", "action": "x", "subject": "y", "detail": "{}"}
    report = {"tenant_id": DEFAULT_TENANT, "type": "delivered", "verdict": "none", "is_proof": False, "at": now}
    counts = dict.fromkeys(("size_bytes", "records", "read_bytes", "report_bytes", "added", "changed"), 0)
    imported = {"tenant_id": DEFAULT_TENANT, "file_name": "a.csv", "fingerprint": "f", "plan": "{}", **counts}
    imported |= {"unchanged": 0, "refused": 0, "created_at": now, "updated_at": now}
    async with bench.database.write() as tx:
        for age in (0, AGE):
            await tx.execute(insert(audit_log).values(**entry, created_at=now + age))
            await tx.execute(insert(reports).values(**report, key=f"r{age}", received_at=now + age))
            await tx.execute(insert(imports).values(**imported, import_id=uuid7(now + age), finished_at=now + age))
        await tx.execute(insert(imports).values(**imported, import_id=uuid7(now), finished_at=None))
    bench.clock.advance(AGE)
    for kind in (RetentionKind.AUDIT_LOG, RetentionKind.REPORTS, RetentionKind.IMPORTS):
        await rule(bench, kind, exports=True)
    folder = tmp_path / "exports"
    assert await sweep(bench, {"retention_export": folder, "retention_export_format": "parquet"}) == 3
    lines = {line["table"]: line for line in rewritten(folder)}
    assert sorted(lines) == ["audit_log", "imports", "reports"]
    assert lines["reports"]["is_proof"] is False
    assert (await count_rows(bench, reports), await count_rows(bench, imports)) == (1, 2)


async def test_dry_run_counts_rows_that_the_run_deletes(bench: Bench) -> None:
    await a_history(bench)
    retention = make_retention(bench.engine.settings, bench.database, bench.clock)
    await sweep(bench)  # Tallies the events; without a rule, nothing is deleted.
    for kind in (RetentionKind.BODIES, RetentionKind.EVENTS, RetentionKind.MESSAGES):
        expected = await retention.preview(DEFAULT_TENANT, kind, 30)
        assert expected.rows >= 3
        assert expected.bytes > 0
        await rule(bench, kind)
        assert await sweep(bench) == expected.rows
        [done] = [each for each in await list_rules(bench.database) if each.kind is kind]
        assert RetentionCount(done.rows, done.bytes) == expected
        await remove_rule(bench.database, bench.clock, DEFAULT_TENANT, kind, actor="ada")
    async with bench.database.read() as tx:
        rows = await tx.execute(select(retention_tombstones.c.kind, retention_tombstones.c.deleted))
    assert {row.kind for row in rows} == {"bodies", "events", "messages"}


async def test_preview_of_many_messages_is_an_estimate(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    await a_history(bench, 60)
    retention = make_retention(bench.engine.settings, bench.database, bench.clock)
    shares: list[float] = []
    exact = await retention.count(DEFAULT_TENANT, RetentionKind.BODIES, 30, shares.append)
    assert await retention.preview(DEFAULT_TENANT, RetentionKind.BODIES, 30) == exact
    assert 0 < shares[-1] <= 1
    for name, value in (("EXACT_MESSAGES", 50), ("SAMPLES", 4), ("SAMPLE_MESSAGES", 5)):
        monkeypatch.setattr(f"mailwright.outbox.retention.{name}", value)
    estimate = await retention.preview(DEFAULT_TENANT, RetentionKind.BODIES, 30)
    assert (estimate.rows, estimate.is_estimate) == (exact.rows, True)
    assert estimate.bytes == pytest.approx(exact.bytes, rel=0.05)
    await rule(bench, RetentionKind.BODIES)
    assert await sweep(bench) == 60
    assert await retention.preview(DEFAULT_TENANT, RetentionKind.BODIES, 30) == RetentionCount(is_estimate=True)


@pytest.mark.parametrize("kind", RetentionKind)
async def test_too_short_period_is_refused(bench: Bench, kind: RetentionKind) -> None:
    with pytest.raises(InvalidInput, match=f"{MIN_DAYS[kind]} to"):
        await rule(bench, kind, MIN_DAYS[kind] - 1)
    assert await list_rules(bench.database) == []


async def test_interrupted_pass_continues_at_its_position(bench: Bench) -> None:
    await a_history(bench, 7)
    await sweep(bench)
    retention = make_retention(bench.engine.settings, bench.database, bench.clock)
    await retention.run_batch(await rule(bench, RetentionKind.MESSAGES), 3)
    [stored] = await list_rules(bench.database)
    assert (stored.rows, stored.finished_at, await count_rows(bench, messages)) == (3, None, 4)
    assert await sweep(bench) == 4
    assert (await audit(bench.database)).ok


async def test_range_without_old_data_is_read_once_per_pass(bench: Bench) -> None:
    await a_history(bench, 15)
    await rule(bench, RetentionKind.BODIES)
    await sweep(bench)
    [first] = await list_rules(bench.database)
    async with bench.database.read() as tx:
        [(before,)] = await tx.execute(select(func.min(messages.c.id) - 1))
    [late] = await a_history(bench, 1)
    retention = make_retention(bench.engine.settings, bench.database, bench.clock)
    for position in (1, 3, 7, 15):  # The range grows, and another process would continue behind it.
        await retention.run_batch(replace((await list_rules(bench.database))[0], finished_at=None), 1)
        [stored] = await list_rules(bench.database)
        assert (stored.position - before, stored.finished_at) == (position, first.finished_at)
    assert await sweep(bench) == 1
    assert (await bench.record(late)).payload == {}


def exported(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.glob("*.jsonl.gz"))
    return [orjson.loads(line) for file in files for line in gzip.decompress(file.read_bytes()).splitlines()]


@pytest.mark.parametrize("file_format", ["jsonl", "parquet"])
async def test_export_contains_each_deleted_row_once(bench: Bench, tmp_path: Path, file_format: str) -> None:
    folder = tmp_path / "exports"
    settings = {"retention_export": folder, "retention_export_format": file_format}
    ids = []
    for _ in range(2):
        ids += await a_history(bench, 5)
        await sweep(bench)
        await rule(bench, RetentionKind.BODIES, exports=True)
        assert await sweep(bench, settings) == 5
    stored = await count_rows(bench, events)
    await rule(bench, RetentionKind.MESSAGES, exports=True)
    assert await sweep(bench, settings) == 10
    lines = exported(folder) if file_format == "jsonl" else rewritten(folder)
    whole = [line for line in lines if line["table"] == "messages" and "tenant_id" in line]
    assert sorted(line["outbox_id"] for line in whole) == sorted(ids)
    bodies = [line for line in lines if line["table"] == "messages" and "tenant_id" not in line]
    assert [orjson.loads(line["payload"])["html"] for line in bodies] == ["<p>Hello</p>"] * 10
    assert [line["locked_by"] for line in lines if line["table"] == "deliveries"] == [None] * 10
    assert len([line for line in lines if line["table"] == "events"]) == stored
    assert (await audit(bench.database)).ok


def rewritten(folder: Path) -> list[dict[str, Any]]:
    """Read all Parquet files, and require that nothing else is left."""
    assert [file.name for file in folder.iterdir() if file.suffix != ".parquet"] == []
    rows = []
    for file in sorted(folder.iterdir()):
        for batch in read_parquet(file):
            columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
            names = {"table": file.suffixes[-2].removeprefix(".")}
            rows += [names | dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return rows


@pytest.mark.parametrize("point", ["before renaming", "before the commit", "before deleting", "continued meanwhile"])
async def test_interrupted_parquet_export_keeps_each_row_once(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    ids = await a_history(bench, 4)
    await sweep(bench)
    settings = {"retention_export": tmp_path / "exports", "retention_export_format": "parquet"}
    retention = make_retention(bench.engine.settings.model_copy(update=settings), bench.database, bench.clock)
    begun = await retention.run_batch(await rule(bench, RetentionKind.MESSAGES, exports=True), 2)
    rename, delete = Path.replace, Path.unlink

    def replace(file: Path, target: Path) -> None:
        if point == "before the commit":
            rename(file, target)
        raise KeyboardInterrupt

    def unlink(file: Path, missing_ok: bool = False) -> None:
        if file.suffix == ".gz":
            raise KeyboardInterrupt
        delete(file, missing_ok=missing_ok)

    async def continue_meanwhile(write: Any, *arguments: Any) -> Any:
        result = write(*arguments)
        await retention.run_batch(begun, 2)
        return result

    with monkeypatch.context() as patched:
        if point == "continued meanwhile":
            patched.setattr(asyncio, "to_thread", continue_meanwhile)
            await retention.finish_exports(begun)
        else:
            patched.setattr(Path, *("unlink", unlink) if point == "before deleting" else ("replace", replace))
            with pytest.raises(KeyboardInterrupt):
                await retention.finish_exports(begun)
    bench.clock.advance(1)  # The name of a new file has the time.
    assert await sweep(bench, settings) == (0 if point == "continued meanwhile" else 2)
    assert sorted(row["outbox_id"] for row in rewritten(tmp_path / "exports") if row["table"] == "messages") == sorted(
        ids
    )


async def test_parquet_without_its_package_deletes_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    await a_history(bench)
    await rule(bench, RetentionKind.MESSAGES, exports=True)
    monkeypatch.setitem(sys.modules, "arro3.io", None)
    settings = {"retention_export": Path("exports"), "retention_export_format": "parquet"}
    runner = RetentionSweep(bench.engine.settings.model_copy(update=settings), bench.database, bench.clock)
    assert [count async for _, count in runner.run(await list_rules(bench.database))] == []
    assert "mailwright[parquet]" in runner.failed[0][1]
    assert await count_rows(bench, messages) == 3


async def test_export_without_folder_is_refused(bench: Bench) -> None:
    with pytest.raises(InvalidInput, match="MAILWRIGHT_RETENTION_EXPORT"):
        make_retention(bench.engine.settings, bench.database, bench.clock).check_export(exports=True)


async def test_failed_export_deletes_nothing(bench: Bench, tmp_path: Path) -> None:
    await a_history(bench)
    await rule(bench, RetentionKind.MESSAGES, exports=True)
    blocked = tmp_path / "file"
    blocked.touch()
    assert await sweep(bench, {"retention_export": blocked}) == 0
    assert await count_rows(bench, messages) == 3


async def test_rule_that_cannot_run_blocks_no_other_rule(bench: Bench) -> None:
    await a_history(bench)
    await rule(bench, RetentionKind.BODIES, exports=True)  # MAILWRIGHT_RETENTION_EXPORT is not set.
    await rule(bench, RetentionKind.MESSAGES)
    runner = RetentionSweep(bench.engine.settings, bench.database, bench.clock)
    assert sum([count.rows async for _, count in runner.run(await list_rules(bench.database))]) == 3
    [(failed, reason)] = runner.failed
    assert failed.kind is RetentionKind.BODIES
    assert "MAILWRIGHT_RETENTION_EXPORT" in reason


async def test_killed_export_neither_loses_nor_repeats_rows(bench: Bench, tmp_path: Path) -> None:
    """Kill the process between the export and the commit; the bytes that it left are overwritten."""
    ids = await a_history(bench, 6)
    await sweep(bench)
    chosen = bench.engine.settings.model_copy(update={"retention_export": tmp_path})
    retention = make_retention(chosen, bench.database, bench.clock)
    after_one = await retention.run_batch(await rule(bench, RetentionKind.MESSAGES, exports=True), 2)
    [file] = tmp_path.glob("*.jsonl.gz")
    if (child := os.fork()) == 0:
        append_member(file, file.stat().st_size, [{"table": "messages", "outbox_id": "uncommitted"}])
        with file.open("ab") as half:
            half.write(b"\x1f\x8b half a member")
        os.kill(os.getpid(), signal.SIGKILL)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    assert (after_one.rows, await count_rows(bench, messages)) == (2, 4)
    assert await sweep(bench, {"retention_export": tmp_path}) == 4
    assert sorted(line["outbox_id"] for line in exported(tmp_path) if line["table"] == "messages") == sorted(ids)
    async with bench.database.read() as tx:
        [recorded] = await tx.execute(select(retention_exports.c.bytes))
    assert recorded.bytes == file.stat().st_size


async def test_sending_goes_on_during_retention(bench: Bench) -> None:
    await a_history(bench, 40)
    for kind in (RetentionKind.BODIES, RetentionKind.EVENTS, RetentionKind.MESSAGES):
        await rule(bench, kind)
    fresh = await bench.accept(*(a_message() for _ in range(60)))
    provider = ScriptedProvider()
    _, deleted = await asyncio.gather(bench.drain(provider), sweep(bench))
    assert sorted(provider.outbox_ids) == sorted(fresh)
    assert deleted >= 40
    found = await audit(bench.database)
    assert (found.ok, found.sent, found.deleted, found.in_doubt) == (True, 100, 40, 0)


async def test_two_processes_delete_each_row_once(bench: Bench) -> None:
    await a_history(bench, 50)
    await rule(bench, RetentionKind.MESSAGES)
    done: Sequence[int] = await asyncio.gather(sweep(bench), sweep(bench))
    assert await count_rows(bench, messages) == 0
    assert sum(done) == 50
    found = await audit(bench.database)
    assert (found.ok, found.deleted) == (True, 50)


async def test_one_process_at_a_time_runs_the_rules_daily(bench: Bench) -> None:
    await a_history(bench)
    await rule(bench, RetentionKind.BODIES)
    here, there = (RetentionDuty(bench.engine.settings, bench.database, bench.clock) for _ in range(2))
    await asyncio.gather(here.tick(), there.tick())
    [done] = await list_rules(bench.database)
    assert (done.rows, done.finished_at) == (3, bench.clock.now())
    await a_history(bench)
    await there.tick()
    [later] = await list_rules(bench.database)
    assert (later.rows, later.finished_at) == (6, bench.clock.now())
    await here.tick()
    assert await list_rules(bench.database) == [later]


async def test_sqlite_file_shrinks(bench: Bench) -> None:
    if bench.database.dialect != "sqlite":
        return
    await bench.accept(*(a_message_with(html="<p>" + "x" * 60_000 + "</p>") for _ in range(50)))
    await bench.drain(ScriptedProvider())
    bench.clock.advance(AGE)
    await rule(bench, RetentionKind.BODIES)
    before = await _pages(bench)
    await sweep(bench)
    assert await _pages(bench) < before / 2


async def test_empty_partitions_of_old_months_are_dropped(bench: Bench) -> None:
    if bench.database.dialect == "sqlite":
        return
    long_ago = bench.clock.now() - 200 * DAY  # In June 2026.
    for time in (long_ago, bench.clock.now()):
        await ensure_event_partitions(bench.database, time)
    async with bench.database.write() as tx:
        values = {"message_key": 1, "tenant_id": 1, "type": "SENT", "created_at": long_ago, "metadata": "{}"}
        await tx.execute(insert(events).values(**values))
    before = await _partitions(bench)
    await rule(bench, RetentionKind.REPORTS)
    await sweep(bench)
    after = await _partitions(bench)
    assert before - after >= {"events_2026_07", "events_2026_08"}
    # Those with an event, of recent months and of no month stay.
    assert after >= {"events_2026_06", "events_2027_01", "events_2027_02", "events_2027_03", "events_default"}


async def _partitions(bench: Bench) -> set[str]:
    found = text("SELECT relname FROM pg_class WHERE relname ~ '^events_(default|[0-9_]+)$'")
    async with bench.database.read() as tx:
        return {row.relname for row in await tx.execute(found)}


async def _pages(bench: Bench) -> int:
    async with bench.database.read() as tx:
        return int((await tx.execute(text("PRAGMA page_count")))[0][0])
