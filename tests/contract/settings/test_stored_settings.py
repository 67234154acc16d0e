"""Settings in the database: precedence, encryption, and changes while workers send."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from mailwright.app.generations import follow_settings
from mailwright.app.serving import work
from mailwright.app.shutdown import Shutdown
from mailwright.app.stored_settings import change_settings, load_effective, shown_settings
from mailwright.app.wiring import Engine, open_engine
from mailwright.checks.health import check_health
from mailwright.domain.clock import ManualClock, SystemClock
from mailwright.domain.errors import ConfigurationInvalid, InvalidInput
from mailwright.ops.settings import Settings, load
from mailwright.ops.stored import STORABLE, OriginKind
from mailwright.outbox.audit_log import list_entries
from mailwright.outbox.workers import list_present
from mailwright.storage.database import Database
from mailwright.storage.secret_box import SecretBox
from mailwright.storage.tables import audit_log, stored_settings
from tests.builders import SECRET_KEY, a_message, deliveries_of, statuses
from tests.conftest import DatabaseAddress
from tests.standins.smtp_sink import SmtpSink, Step

PASSWORD = "correct-horse-battery"


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for field in Settings.model_fields.values():
        monkeypatch.delenv(field.alias or "", raising=False)
    monkeypatch.chdir(tmp_path)


def settings_of(engine: DatabaseAddress, **given: Any) -> Settings:
    return load(database_url=engine.url, secret_key=SECRET_KEY, **given)


async def change(database: Database, settings: Settings, **changes: str | None) -> None:
    await change_settings(settings, database, SystemClock(), changes, actor="ada")


# Precedence.


@pytest.mark.promise("settings-all-errors")
async def test_environment_and_file_win_over_stored_settings(
    engine: DatabaseAddress, database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    await change(database, settings_of(engine), sender="A <a@example.com>", daily_limit="7", timezone="Europe/Lisbon")
    monkeypatch.setenv("MAILWRIGHT_FROM", "Env <env@example.com>")
    (tmp_path / "mailwright.toml").write_text("daily_limit = 9\n")
    found = await load_effective(settings_of(engine), database)
    used = found.settings
    assert (used.sender, used.daily_limit, used.timezone) == ("Env <env@example.com>", 9, "Europe/Lisbon")
    assert used.rate_per_hour is None
    origins = {name: found.origin(name) for name in ("sender", "daily_limit", "timezone", "rate_per_hour")}
    assert [origin.kind for origin in origins.values()] == list(OriginKind)
    assert origins["sender"].text == "set by MAILWRIGHT_FROM in the environment"
    assert origins["daily_limit"].text == "set in mailwright.toml"


async def test_empty_variable_counts_as_not_set(
    engine: DatabaseAddress, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await change(database, settings_of(engine), postal_address="1 Main Street")
    monkeypatch.setenv("MAILWRIGHT_POSTAL_ADDRESS", "")
    found = await load_effective(settings_of(engine), database)
    assert found.settings.postal_address == "1 Main Street"
    assert found.origin("postal_address").kind is OriginKind.DATABASE


async def test_fixed_setting_cannot_be_changed(
    engine: DatabaseAddress, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAILWRIGHT_DAILY_LIMIT", "5")
    with pytest.raises(InvalidInput, match="set by MAILWRIGHT_DAILY_LIMIT in the environment"):
        await change(database, settings_of(engine), daily_limit="9")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"daily_limit": "many"}, "MAILWRIGHT_DAILY_LIMIT: must be a whole number"),
        ({"timezone": "Mars/Olympus"}, "MAILWRIGHT_TIMEZONE: unknown time zone"),
        ({"sender": "nobody"}, "MAILWRIGHT_FROM"),
        ({"provider": "smtp"}, "MAILWRIGHT_SMTP_URL: is required"),
        ({"provider": "sendgrid"}, "SENDGRID_API_KEY: is required"),
        ({"dkim_selector": "mw"}, "MAILWRIGHT_DKIM_SELECTOR"),
        ({"frequency_cap": "often"}, "MAILWRIGHT_FREQUENCY_CAP"),
        ({"sendgrid_url": "http://169.254.169.254/"}, "MAILWRIGHT_SENDGRID_URL: use https://api.sendgrid.com or"),
        ({"base_url": "javascript:1"}, "MAILWRIGHT_BASE_URL: must begin with http"),
        ({"base_url": "https://user@mail.example.com"}, "MAILWRIGHT_BASE_URL"),
        ({"base_url": "https://mail.example.com/path"}, "MAILWRIGHT_BASE_URL"),
        ({"base_url": "https://[::1"}, "MAILWRIGHT_BASE_URL"),
        ({"reply_address": "nobody"}, "MAILWRIGHT_REPLY_ADDRESS: this is not a valid address"),
        ({"reply_forward_to": "a@b@c"}, "MAILWRIGHT_REPLY_FORWARD_TO"),
        ({"bounce_address": "bounces@"}, "MAILWRIGHT_BOUNCE_ADDRESS"),
        ({"smtp_url": "http://mail.example.com"}, "MAILWRIGHT_SMTP_URL: an SMTP URL must begin with"),
        ({"smtpbz_smtp_url": "smtp://"}, "SMTPBZ_SMTP_URL: the SMTP URL has no host"),
    ],
)
async def test_settings_that_cannot_work_are_not_stored(
    engine: DatabaseAddress, database: Database, changes: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigurationInvalid, match=message):
        await change(database, settings_of(engine), **changes)
    async with database.read() as tx:
        assert await tx.execute(select(stored_settings)) == []


async def test_stored_secret_completes_provider_of_the_environment(engine: DatabaseAddress, database: Database) -> None:
    settings = settings_of(engine)
    await change(database, settings, provider="smtp", smtp_url="smtp://127.0.0.1:2525")
    async with open_engine(settings_of(engine, provider="smtp")) as opened:
        assert opened.settings.smtp_url is not None
    with pytest.raises(ConfigurationInvalid, match="MAILWRIGHT_SMTP_URL: is required"):
        await change(database, settings, smtp_url=None)


# Secrets.


@pytest.mark.promise("secrets-encrypted")
async def test_secret_is_encrypted_and_shown_nowhere(engine: DatabaseAddress, database: Database) -> None:
    settings = settings_of(engine)
    url = f"smtp://user:{PASSWORD}@mail.example.com:587"
    await change(database, settings, provider="smtp", smtp_url=url, sendgrid_api_key="SG.0123456789abcdefghij.wxyz")
    async with database.read() as tx:
        kept = {row.name: row.value for row in await tx.execute(select(stored_settings))}
        log = [row.detail for row in await tx.execute(select(audit_log))]
    assert kept["provider"] == "smtp"
    assert PASSWORD not in str(kept) + str(log)
    found = await load_effective(settings, database)
    assert found.settings.smtp_url is not None
    assert found.settings.smtp_url.get_secret_value() == url
    shown = {each.name: each.value for each in shown_settings(found)}
    assert (shown["smtp_url"], shown["sendgrid_api_key"]) == ("set", "set, ends with …wxyz")
    assert PASSWORD not in repr(found) + repr(shown)


@pytest.mark.both_engines
async def test_changes_are_in_the_audit_log(engine: DatabaseAddress, database: Database) -> None:
    settings = settings_of(engine)
    await change(database, settings, daily_limit="5", sendgrid_api_key="SG.secret-secret-secret")
    await change(database, settings, daily_limit=None, rate_per_hour=None)
    found = [
        (each.actor, each.action, each.subject, each.detail)
        for each in await list_entries(database, tenant_id=None, limit=10)
    ]
    assert found[::-1] == [
        ("ada", "setting_set", "daily_limit", {"to": "5"}),
        ("ada", "setting_set", "sendgrid_api_key", {"to": "(secret)"}),
        ("ada", "setting_unset", "daily_limit", {}),
    ]


@pytest.mark.promise("settings-all-errors")
async def test_worker_with_another_key_sends_nothing(
    engine: DatabaseAddress, database: Database, tmp_path: Path
) -> None:
    async with SmtpSink() as sink:
        await change(database, settings_of(engine), provider="smtp", smtp_url=f"{sink.url}?tls=none")
        other = settings_of(engine, mailbox=tmp_path / "mailbox").model_copy(update={"secret_key": None})
        async with open_engine(other.model_copy(update={"secret_key_file": tmp_path / "other.key"})) as wrong:
            await wrong.acceptor.accept([a_message(to="bob@example.com")])
            assert "encrypted with another key" in wrong.settings_problems[0]
            with pytest.raises(ConfigurationInvalid, match="MAILWRIGHT_SMTP_URL"):
                await work(wrong, Shutdown(), drain=True)
            found = await check_health(wrong.settings, wrong.database, wrong.clock)
            [unusable] = [each for each in found if each.name == "settings"]
            assert unusable.summary.startswith("nothing is sent")
        assert await statuses(database) == {"PENDING": 1}
        assert not (tmp_path / "mailbox").exists()
        async with open_engine(settings_of(engine)) as right:
            await work(right, Shutdown(), drain=True)
        assert [message.recipients for message in sink.messages] == [("bob@example.com",)]


# Changes while processes run.


@asynccontextmanager
async def working(settings: Settings) -> AsyncIterator[Engine]:
    shutdown = Shutdown()
    async with open_engine(settings) as engine, asyncio.timeout(60):
        task = asyncio.create_task(work(engine, shutdown, drain=False))
        try:
            yield engine
        finally:
            shutdown.request()
            await task


async def until_sent(database: Database, count: int) -> None:
    while (await statuses(database)).get("SENT", 0) < count:
        await asyncio.sleep(0.02)


@pytest.mark.promise("settings-all-errors")
async def test_provider_change_loses_and_duplicates_nothing(engine: DatabaseAddress, database: Database) -> None:
    """Change the server while an attempt is on a connection of the old one, and answer only after the change."""
    settings = settings_of(engine, sender="Shop <shop@example.com>")
    async with SmtpSink() as old, SmtpSink() as new:
        await change(database, settings, provider="smtp", smtp_url=f"{old.url}?tls=none&connections=1")
        held = old.hold(Step.DOT, nth=5)
        async with working(settings) as worker:
            await worker.acceptor.accept([a_message() for _ in range(40)])
            await held.reached.wait()
            await change(database, settings, smtp_url=f"{new.url}?tls=none")
            worker.settings_saved.set()
            await new.received(30)
            assert not old.sessions[0].has_ended.is_set()
            held.release()
            await until_sent(database, 40)
        received = Counter(message.recipients[0] for sink in (old, new) for message in sink.messages)
        assert set(received.values()) == {1}
        assert len(received) == 40
        assert old.count >= 5
        by_provider = Counter(row.provider for row in await deliveries_of(database))
        assert by_provider == {"smtp": 40}


@pytest.mark.promise("settings-all-errors")
async def test_other_processes_use_changed_settings_within_seconds(engine: DatabaseAddress, database: Database) -> None:
    settings = settings_of(engine)
    async with SmtpSink() as sink:
        async with working(settings) as worker:
            await change(
                database, settings, provider="smtp", smtp_url=f"{sink.url}?tls=none", sender="B <b@example.com>"
            )
            version = (await load_effective(settings, database)).version
            while [each.settings_version for each in await list_present(database, worker.clock.now())] != [version]:
                await asyncio.sleep(0.02)
            await worker.acceptor.accept([a_message()])
            await sink.received(1)
        assert b"From: B <b@example.com>" in sink.messages[0].content


async def test_undecryptable_change_stops_a_running_worker(
    engine: DatabaseAddress, database: Database, clock: ManualClock
) -> None:
    settings = settings_of(engine)
    foreign = Database(engine.url, secret_box=SecretBox("x" * 32))
    seen: list[tuple[str, ...]] = []
    stopped = asyncio.Event()

    async def run(current: Engine, stopping: Shutdown) -> None:
        seen.append(current.settings_problems)
        if current.settings_problems:
            stopped.set()
        await stopping.wait()

    shutdown = Shutdown()
    async with open_engine(settings, clock) as opened, asyncio.timeout(60):
        task = asyncio.create_task(follow_settings(opened, shutdown, run))
        await change_settings(settings, foreign, clock, {"sendgrid_api_key": "SG.0123456789"}, actor="eve")
        opened.settings_saved.set()
        await stopped.wait()
        shutdown.request()
        await task
    await foreign.close()
    assert seen[0] == ()
    assert "encrypted with another key" in seen[1][0]


async def test_background_duties_end_before_the_engine_closes(
    engine: DatabaseAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A duty that is still in the database when it is cancelled needs the connection until it has rolled back."""
    started, ended = asyncio.Event(), asyncio.Event()

    async def run_slowly(*_: object) -> None:
        try:
            started.set()
            await asyncio.Event().wait()
        finally:
            for _ in range(100):
                await asyncio.sleep(0)
            ended.set()

    monkeypatch.setattr("mailwright.app.serving.run_size_recorder", run_slowly)
    shutdown = Shutdown()
    async with open_engine(settings_of(engine)) as opened, asyncio.timeout(60):
        task = asyncio.create_task(work(opened, shutdown, drain=False))
        await started.wait()
        shutdown.request()
        await task
        assert ended.is_set()


async def test_every_storable_setting_survives_a_round_trip(engine: DatabaseAddress, database: Database) -> None:
    settings = settings_of(engine)
    examples = {
        "sender": "Ada <ada@example.com>",
        "postal_address": "1 Main Street",
        "base_url": "https://mail.example.com",
        "sendgrid_url": "https://api.eu.sendgrid.com",
        "timezone": "Europe/Lisbon",
        "provider": "smtp",
        "smtp_url": "smtp://127.0.0.1:25",
        "tracking": "anonymous",
        "working_hours": "Mon-Fri 09:00-18:00",
        "frequency_cap": "3 per 7 days",
        "warmup_since": "2027-01-15",
        "warmup_factor": "1.5",
        "reply_forward_to": "office@example.com",
    }
    assert set(examples) <= set(STORABLE)
    await change(database, settings, **examples)
    found = await load_effective(settings, database)
    assert found.problems == ()
    shown = {each.name: each.value for each in shown_settings(found) if not each.is_secret}
    assert shown | examples == shown | {"smtp_url": examples["smtp_url"]}
