"""Health findings state what is wrong, how bad it is, since when and what to do, on both engines."""

import datetime
import secrets
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from pydantic import SecretStr
from sqlalchemy import insert, update

from mailwright.app.backups import back_up
from mailwright.checks.health import check_health
from mailwright.checks.health_watch import FRESH, HealthWatch
from mailwright.domain.buckets import SUPPRESSED_CODES
from mailwright.domain.clock import DAY, HOUR, MINUTE, SECOND, ManualClock, utc_text
from mailwright.domain.findings import Finding, Verdict
from mailwright.domain.message import Event
from mailwright.domain.report import Report
from mailwright.domain.retention import RetentionKind
from mailwright.domain.states import EventType
from mailwright.events.inbound_webhooks import ProviderReports
from mailwright.ops.metrics import REGISTRY
from mailwright.outbox.recorded_facts import record_size
from mailwright.outbox.retention_rules import save_progress, set_rule
from mailwright.outbox.sending_hold import DueMessages, HoldReason, SendingHold, hold_sending, release_hold
from mailwright.outbox.settle import append_events, event_row
from mailwright.outbox.tallies import EventTallier
from mailwright.outbox.workers import WorkerPresence, WorkerRegistry
from mailwright.storage.server_state import database_bytes
from mailwright.storage.tables import tallies, workers
from tests.builders import DEFAULT_TENANT, REFUSAL, Bench, a_bench, a_message, a_message_with, suppress
from tests.campaigns import CampaignHarness
from tests.engines import sqlite_template
from tests.faults.disks import can_mount, small_disk
from tests.standins.provider import ScriptedProvider

pytestmark = pytest.mark.promise("health-true")


DISK_USAGE = shutil.disk_usage


class Usage(NamedTuple):
    total: int
    used: int
    free: int


@pytest.fixture(autouse=True)
def large_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Usage(2 * 1024**4, 1024**4, 1024**4))


async def findings(bench: Bench, **settings: Any) -> dict[str, Finding]:
    chosen = bench.engine.settings.model_copy(update=settings)
    return {each.name: each for each in await check_health(chosen, bench.database, bench.clock)}


async def a_worker(bench: Bench, name: str = "w1") -> None:
    await WorkerRegistry(bench.database, bench.clock, name).report(WorkerPresence("ses"))


async def tally(bench: Bench, hours_ago: int, **counts: int) -> None:
    now = bench.clock.now() - hours_ago * HOUR
    minute = {"tenant_id": DEFAULT_TENANT, "minute": now - now % MINUTE}
    async with bench.database.write() as tx:
        await tx.execute(insert(tallies), [{**minute, "type": kind, "events": each} for kind, each in counts.items()])


async def test_quiet_installation_has_no_problem(bench: Bench, tmp_path: Path) -> None:
    await back_up(bench.engine.settings, bench.database, bench.clock, tmp_path)
    await a_worker(bench)
    found = await findings(bench)
    if bench.database.dialect == "postgresql":  # The test's clock is not the server's.
        assert found.pop("clock").verdict is Verdict.PROBLEM
    assert found.pop("delivery").verdict is Verdict.WARNING  # The tests' messages go to the local mailbox.
    assert {each.verdict for each in found.values()} == {Verdict.OK}


async def test_killed_worker_is_not_counted_as_running(bench: Bench) -> None:
    await a_worker(bench)
    seen = bench.clock.now()
    bench.clock.advance(13 * SECOND)
    found = (await findings(bench))["workers"]
    assert (found.verdict, found.since) == (Verdict.PROBLEM, seen)
    await a_worker(bench, "w2")
    found_now = await check_health(bench.engine.settings, bench.database, bench.clock)
    silent = [each for each in found_now if each.since == seen]
    assert [(each.verdict, each.summary) for each in silent] == [(Verdict.WARNING, "w1 does not report any more")]


async def test_missing_worker_is_a_problem_once_messages_are_queued(bench: Bench) -> None:
    assert (await findings(bench))["workers"].verdict is Verdict.WARNING
    await bench.accept(a_message(scheduled_at=bench.clock.now() + DAY))
    assert (await findings(bench))["workers"].verdict is Verdict.PROBLEM


async def test_missing_worker_is_a_problem_once_a_campaign_starts(bench: Bench) -> None:
    await CampaignHarness(bench).start(recipients=1)
    assert (await findings(bench))["workers"].verdict is Verdict.PROBLEM


async def test_hold_and_quarantine_are_reported(bench: Bench) -> None:
    await bench.accept(a_message())
    await hold_sending(bench.database, SendingHold(HoldReason.RESTORED, bench.clock.now(), "Restored."))
    held = (await findings(bench))["sending"]
    assert (held.verdict, held.since) == (Verdict.PROBLEM, bench.clock.now())
    assert "quarantine list" in str(held.advice)
    await release_hold(bench.database, bench.clock, actor="ada", due=DueMessages.IN_DOUBT)
    assert (await findings(bench))["quarantine"].summary.startswith("1 message may have been sent")


@pytest.mark.parametrize(
    ("free", "total", "verdict"),
    [
        (100 * 1024**2, 50 * 1024**3, Verdict.PROBLEM),
        (1024**3, 500 * 1024**3, Verdict.PROBLEM),
        (1024**3, 4 * 1024**3, Verdict.WARNING),
        (30 * 1024**3, 4000 * 1024**3, Verdict.OK),
    ],
)
async def test_low_disk_space_is_reported(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, free: int, total: int, verdict: Verdict
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Usage(total, total - free, free))
    assert (await findings(bench))["disk"].verdict is verdict


async def test_small_real_disk_is_a_problem(
    bench: Bench, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not can_mount(tmp_path):
        pytest.skip("mounting a small disk needs root")
    monkeypatch.setattr(shutil, "disk_usage", DISK_USAGE)
    with small_disk(tmp_path) as disk:
        if bench.database.dialect == "postgresql":
            found = await findings(bench, state=disk)
        else:
            (disk / "mailwright.db").write_bytes(sqlite_template())
            async with a_bench(f"sqlite:///{disk / 'mailwright.db'}", clock) as small:
                found = await findings(small)
    assert found["disk"].verdict is Verdict.PROBLEM
    assert "of 6 MB free" in found["disk"].summary


async def test_growth_of_the_real_database_is_measured(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    await record_size(bench.database, bench.clock.now(), await database_bytes(bench.database))
    await bench.accept(*(a_message_with(html=secrets.token_hex(50_000)) for _ in range(20)))
    bench.clock.advance(DAY)
    await record_size(bench.database, bench.clock.now(), await database_bytes(bench.database))
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Usage(1024**4, 0, 1024**2))
    found = (await findings(bench))["database size"]
    assert (found.verdict, "at this rate the disk is full on" in found.summary) == (Verdict.PROBLEM, True)


async def test_growth_names_the_day_when_the_disk_is_full(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Usage(1024**4, 0, 100 * 1024**3))
    for day in range(3):
        await record_size(bench.database, bench.clock.now() + day * DAY, day * 10 * 1024**3)
        await record_size(bench.database, bench.clock.now() + day * DAY + HOUR, 0)  # Once a day only.
    found = (await findings(bench))["database size"]
    assert found.verdict is Verdict.WARNING
    assert "+10 GB per day; at this rate the disk is full on 2027-01-25" in found.summary


@pytest.mark.parametrize(("skew", "verdict"), [(3 * SECOND, Verdict.WARNING), (-60 * SECOND, Verdict.PROBLEM)])
async def test_clock_skew_names_the_worker(bench: Bench, skew: int, verdict: Verdict) -> None:
    await a_worker(bench)
    async with bench.database.write() as tx:
        await tx.execute(update(workers).values(clock_skew=skew))
    found = (await findings(bench))["clock"]
    assert found.verdict is verdict
    assert "w1" in found.summary


async def test_worker_reports_its_clock_against_the_server(bench: Bench) -> None:
    await a_worker(bench)
    is_reported = "clock" in await findings(bench)
    assert is_reported == (bench.database.dialect == "postgresql")  # The test's clock shows 2027.


def a_certificate(file: Path, ends: datetime.datetime) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mail.example.com")])
    begins = ends - datetime.timedelta(days=90)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(begins).not_valid_after(ends)
    file.write_bytes(made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    return file


@pytest.mark.parametrize(
    ("days", "verdict"),
    [(-1, Verdict.PROBLEM), (2, Verdict.PROBLEM), (20, Verdict.WARNING), (60, Verdict.OK)],
)
async def test_certificate_expiry_is_reported(bench: Bench, tmp_path: Path, days: int, verdict: Verdict) -> None:
    now = datetime.datetime.fromtimestamp(bench.clock.now() / 1000, datetime.UTC)
    file = a_certificate(tmp_path / "server.pem", now + datetime.timedelta(days=days))
    assert (await findings(bench, smtp_certificate_file=file))["certificate"].verdict is verdict


async def test_unreadable_certificate_is_a_problem(bench: Bench, tmp_path: Path) -> None:
    found = await findings(bench, smtp_certificate_file=tmp_path / "missing.pem")
    assert found["certificate"].verdict is Verdict.PROBLEM


async def test_late_messages_are_reported_with_their_time(bench: Bench) -> None:
    due = bench.clock.now()
    await bench.accept(a_message())
    assert "queue" not in await findings(bench)
    bench.clock.advance(20 * MINUTE)
    found = (await findings(bench))["queue"]
    assert (found.verdict, found.since) == (Verdict.WARNING, due)


SENDGRID = {"sendgrid_webhook_public_key": "key", "sendgrid_api_key": "x"}


async def send_through(bench: Bench, provider: str, count: int = 60) -> list[str]:
    """Send messages that this provider accepts, as its worker does."""
    ids = await bench.accept(*(a_message() for _ in range(count)))
    await bench.drain(ScriptedProvider(name=provider))
    return ids


async def report_about(bench: Bench, outbox_id: str, source: str, **changes: Any) -> None:
    now = bench.clock.now()
    report = Report(f"{source}-{outbox_id}", source, EventType.DELIVERED, now, outbox_id=outbox_id, **changes)
    assert (await bench.engine.reports.receive([report])).unknown == 0


async def silent_providers(bench: Bench, **settings: Any) -> dict[str, bool]:
    """Return whether each provider with a finding is reported as silent."""
    chosen = bench.engine.settings.model_copy(update=settings)
    found = await check_health(chosen, bench.database, bench.clock)
    events = [each for each in found if each.name == "events"]
    return {each.summary.split(" of ")[1].split()[0]: each.verdict is Verdict.PROBLEM for each in events}


async def test_one_silent_provider_of_several_is_named(bench: Bench) -> None:
    route = {"route": "sendgrid=1,postmark=1", "postmark_webhook_secret": SecretStr("s"), **SENDGRID}
    [heard, *_] = await send_through(bench, "sendgrid")
    [unheard, *_] = await send_through(bench, "postmark")
    assert await silent_providers(bench, **route) == {}, "events of the last hour may follow"
    bench.clock.advance(3 * HOUR)
    assert await silent_providers(bench) == {}, "no provider of the route is set up to report events"
    assert await silent_providers(bench, **route) == {"sendgrid": True, "postmark": True}
    await report_about(bench, heard, "sendgrid")
    await report_about(bench, unheard, "smtp")  # A bounce email.
    await report_about(bench, unheard, "postmark", is_response=True)  # It retracted its acceptance.
    assert await silent_providers(bench, **route) == {"sendgrid": False, "postmark": True}
    await HealthWatch(bench.engine.settings.model_copy(update=route), bench.database, bench.clock).findings()
    times = [
        REGISTRY.get_sample_value("mailwright_last_report_timestamp_seconds", {"provider": each})
        for each in ("sendgrid", "postmark")
    ]
    assert times == [bench.clock.now() / 1000, 0]
    bench.clock.advance(DAY)
    assert await silent_providers(bench, **route) == {"sendgrid": False}, "nothing was sent in the last day"


async def test_events_of_tenants_providers_are_judged(bench: Bench) -> None:
    values = {"postmark_server_token": "token", "postmark_webhook_secret": "a-long-secret-of-the-webhook"}
    for name in ("acme", "brave"):
        await bench.engine.providers.create(name, "postmark", values, actor="ada")
        sent = await send_through(bench, name)
    bench.clock.advance(3 * HOUR)
    reports = ProviderReports(bench.engine.reports, "brave")
    for minutes in (0, 5):  # The second event is later, so it is stored too.
        bench.clock.advance(minutes * MINUTE)
        now = bench.clock.now()
        opened = Report(f"open-{minutes}", "postmark", EventType.OPENED, now, outbox_id=sent[0])
        assert (await reports.receive([opened])).new == 1
    assert await silent_providers(bench) == {"acme": True, "brave": False}
    assert (await findings(bench))["events"].summary == f"the last one of brave arrived at {utc_text(now)}"


@pytest.mark.parametrize(("failed", "verdict"), [(1, Verdict.OK), (7, Verdict.WARNING), (20, Verdict.PROBLEM)])
async def test_rejections_are_judged_by_share(bench: Bench, failed: int, verdict: Verdict) -> None:
    await tally(bench, 2, SENT=100 - failed, FAILED=failed)
    assert (await findings(bench))["rejections"].verdict is verdict


async def test_messages_that_a_provider_rejects_are_counted(bench: Bench) -> None:
    await bench.accept(*(a_message() for _ in range(60)))
    await bench.drain(ScriptedProvider(*[REFUSAL] * 7))
    await EventTallier(bench.database, bench.clock).add_existing()
    bench.clock.advance(MINUTE)
    found = (await findings(bench))["rejections"]
    assert (found.verdict, found.summary.split(" messages")[0]) == (Verdict.PROBLEM, "7 of 60")


async def test_suppressed_recipients_are_no_rejections(bench: Bench) -> None:
    await tally(bench, 2, SENT=50)
    await suppress(bench.database, "gone@example.com")
    await bench.accept(a_message(to="gone@example.com"))
    await bench.drain(ScriptedProvider())
    codes = (*SUPPRESSED_CODES, "INVALID_TEMPLATE")
    failures = [Event(EventType.FAILED, bench.clock.now(), {"attempt": 1, "errorCode": code}) for code in codes]
    async with bench.database.write() as tx:
        await append_events(tx, [event_row(1, DEFAULT_TENANT, each) for each in failures])
    await EventTallier(bench.database, bench.clock).add_existing()
    bench.clock.advance(HOUR)
    assert (await findings(bench))["rejections"].summary.startswith("1 of 51 messages")


async def test_few_messages_say_nothing_about_rejections(bench: Bench) -> None:
    await tally(bench, 2, SENT=10, FAILED=10)
    assert "rejections" not in await findings(bench)


async def test_backup_age_is_judged(bench: Bench, tmp_path: Path) -> None:
    assert (await findings(bench))["backup"].verdict is Verdict.WARNING
    await back_up(bench.engine.settings, bench.database, bench.clock, tmp_path / "a.mwbackup")
    made = bench.clock.now()
    assert (await findings(bench))["backup"].verdict is Verdict.OK
    bench.clock.advance(8 * DAY)
    found = (await findings(bench))["backup"]
    assert (found.verdict, found.since) == (Verdict.PROBLEM, made)


@pytest.mark.both_engines
async def test_late_retention_is_reported(bench: Bench) -> None:
    rule = await set_rule(
        bench.database, bench.clock, DEFAULT_TENANT, RetentionKind.BODIES, days=30, exports=False, actor="ada"
    )
    finished = bench.clock.now()
    async with bench.database.write() as tx:
        await save_progress(tx, replace(rule, finished_at=finished))
    assert (await findings(bench))["retention"].verdict is Verdict.OK
    bench.clock.advance(3 * DAY)
    found = (await findings(bench))["retention"]
    assert (found.verdict, found.since) == (Verdict.WARNING, finished)


async def test_rule_without_first_pass_becomes_late(bench: Bench) -> None:
    began = bench.clock.now()
    values: dict[str, Any] = {"days": 30, "exports": True, "actor": "ada"}
    await set_rule(bench.database, bench.clock, DEFAULT_TENANT, RetentionKind.BODIES, **values)
    bench.clock.advance(2 * DAY)
    assert (await findings(bench))["retention"].verdict is Verdict.OK
    bench.clock.advance(1)
    found = (await findings(bench))["retention"]
    assert (found.verdict, found.since) == (Verdict.WARNING, began)


async def test_metrics_export_the_findings(bench: Bench) -> None:
    watch = HealthWatch(bench.engine.settings, bench.database, bench.clock)
    first = await watch.findings()
    assert REGISTRY.get_sample_value("mailwright_workers") == 0
    assert REGISTRY.get_sample_value("mailwright_health_findings", {"verdict": "warning"}) == 3
    await a_worker(bench)
    assert await watch.findings() is first
    bench.clock.advance(FRESH)
    assert await watch.findings() is not first


async def test_new_cause_is_shown_within_five_seconds(bench: Bench) -> None:
    """An open page asks every second, so a result may be used for four."""
    watch = HealthWatch(bench.engine.settings, bench.database, bench.clock)
    before = await watch.findings()
    hold = SendingHold(HoldReason.FAILED_OVER, bench.clock.now(), "Another server took over.")
    assert await hold_sending(bench.database, hold)
    bench.clock.advance(4 * SECOND)
    [found] = [each for each in await watch.findings() if each.name == "sending"]
    assert (found.verdict, found.since) == (Verdict.PROBLEM, hold.since)
    assert "sending" not in {each.name for each in before}
