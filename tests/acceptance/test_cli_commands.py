"""Commands that end without a signal: their output, their effect, and the exit codes that scripts rely on."""

import re
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import delete, update
from sqlalchemy import text as sql

from mailwright.cli.exit_codes import report_error
from mailwright.domain.clock import DAY, SystemClock
from mailwright.domain.errors import DatabaseDamaged, NotFound
from mailwright.domain.ids import uuid7
from mailwright.domain.message import Settlement
from mailwright.domain.report import ContactVerdict, Report
from mailwright.domain.results import ErrorCategory
from mailwright.domain.states import EventType, Status
from mailwright.events.reports import Reports
from mailwright.storage.database import Database
from mailwright.storage.tables import deliveries
from tests.acceptance.commands import STARTED, Commands
from tests.api import an_api
from tests.builders import a_message, a_settler, an_acceptor, claims_of
from tests.conftest import DatabaseAddress
from tests.engines import on_sqlite

CLOCK = SystemClock()
AUDIT = [
    "accepted",
    "sent",
    "failed",
    "in_doubt",
    "closed_unknown",
    "suppressed",
    "cancelled",
    "open",
    "resent_in_doubt",
    "deleted",
    "ok",
]


@pytest.fixture
def commands(engine: DatabaseAddress, tmp_path: Path) -> Commands:
    return Commands(tmp_path, {"MAILWRIGHT_DATABASE_URL": engine.url})


@pytest.fixture
def here(tmp_path: Path, empty_sqlite: bytes) -> Commands:
    """Run on SQLite only, because the test does not depend on the engine."""
    (tmp_path / "mailwright.db").write_bytes(empty_sqlite)
    return Commands(tmp_path)


@pytest.fixture
async def its_database(here: Commands) -> AsyncIterator[Database]:
    database = Database(f"sqlite:///{here.folder}/mailwright.db")
    yield database
    await database.close()


@pytest.fixture
def nowhere(tmp_path: Path) -> Commands:
    """An empty folder: no database, no settings."""
    return Commands(tmp_path)


async def accepted(database: Database, **changes: object) -> str:
    message = a_message(outbox_id=uuid7(CLOCK.now()), **changes)
    [answer] = await an_acceptor(database, CLOCK).accept([message])  # type: ignore[arg-type]
    return answer.outbox_id


async def a_dead_letter(database: Database) -> str:
    outbox_id = await accepted(database)
    [claimed] = await claims_of(database, CLOCK).claim(1)  # type: ignore[arg-type]
    dead = Settlement(
        claimed,
        Status.FAILED,
        (),
        completes_attempt=True,
        error_code="MAX_ATTEMPTS_EXCEEDED",
        error_category=ErrorCategory.TRANSIENT,
        error_reason="Nobody answered.",
        is_dead_letter=True,
    )
    await a_settler(database, CLOCK).exchange([dead], [])  # type: ignore[arg-type]
    return outbox_id


# Keys and tenants.


@on_sqlite
async def test_key_create_prints_only_the_key(commands: Commands) -> None:
    made = await commands.ok("key", "create", "--tenant", "default")
    key = made.out.removesuffix("\n")
    assert key.startswith("mw_")
    assert key.split() == [key]
    assert made.err == ""
    [listed] = (await commands.ok("key", "list", "--json")).json
    assert key.endswith(listed["hint"])
    assert key not in str(listed)
    await commands.ok("key", "revoke", str(listed["id"]))
    [revoked] = (await commands.ok("key", "list", "--json")).json
    assert revoked["revokedAt"] is not None


@on_sqlite
async def test_key_create_limits_a_key_to_senders(commands: Commands) -> None:
    await commands.ok("key", "create", "--sender", "News@Example.com", "--sender", "@münchen.example")
    [listed] = (await commands.ok("key", "list", "--json")).json
    assert listed["senders"] == ["@xn--mnchen-3ya.example", "news@example.com"]
    for text in ("", "example.com"):
        assert (await commands.run("key", "create", "--sender", text)).code != 0
    assert len((await commands.ok("key", "list", "--json")).json) == 1


async def test_first_writing_command_creates_the_sqlite_file(nowhere: Commands) -> None:
    made = await nowhere.ok("key", "create", "--tenant", "default")
    assert made.out.startswith("mw_")
    assert (nowhere.folder / "mailwright.db").exists()


async def test_tenant_is_created_and_its_limits_edited(here: Commands) -> None:
    await here.ok("tenant", "create", "acme", "--rate-per-hour", "500", "--weight", "3")
    await here.ok("tenant", "edit", "acme", "--max-in-flight", "8", "--rate-per-hour", "none")
    acme = (await here.ok("tenant", "show", "acme", "--json")).json
    assert (acme["weight"], acme["maxInFlight"], acme["ratePerHour"]) == (3, 8, None)
    shown = (await here.ok("tenant", "show", "acme")).out
    assert re.search(r"messages in flight\W+8\b", shown)
    assert re.search(r"working hours\W+00:00-24:00 \(settings\)", shown)
    assert re.search(r"per day\W+none \(settings\)", shown)
    assert [one["name"] for one in (await here.ok("tenant", "list", "--json")).json] == ["acme", "default"]
    again = await here.run("tenant", "create", "acme")
    assert (again.code, again.err) == (1, "The tenant acme already exists.\n")


# Messages.


async def test_message_show_json_has_the_api_fields(commands: Commands, database: Database) -> None:
    outbox_id = await accepted(database)
    await commands.ok("worker", "--drain")
    shown = (await commands.ok("message", "show", outbox_id, "--no-explain", "--json")).json
    async with an_api(database, CLOCK) as api:  # type: ignore[arg-type]
        assert shown == (await api.client.get(f"/v1/email/{outbox_id}")).json()
    assert shown["status"] == "SENT"
    assert [event["type"] for event in shown["events"]] == ["RECEIVED", "VALIDATED", "SENT_ATTEMPT", "SENT"]


async def test_message_show_prints_state_reason_and_timeline(here: Commands, its_database: Database) -> None:
    payload = {"to": "ada@example.com", "subject": "Hello", "html": "<script>x</script>"}
    outbox_id = await accepted(its_database, to="ada@example.com", payload=payload)
    await here.ok("worker", "--drain")
    shown = (await here.ok("message", "show", outbox_id)).out
    for words in ("✗ FAILED", "ada@example.com", "INVALID_TEMPLATE", "Failed at", "VALIDATION_FAILED", "After"):
        assert words in shown


async def test_message_show_prints_a_bounce(here: Commands, its_database: Database) -> None:
    outbox_id = await accepted(its_database, to="ada@example.com")
    await here.ok("worker", "--drain")
    words = {
        "status": "5.1.1",
        "diagnosticCode": "550 no such user",
        "feedbackType": "abuse",
        "link": "https://a.example",
    }
    report = Report("1", "ses", EventType.BOUNCED, CLOCK.now(), "ada@example.com", outbox_id, metadata=words)
    bounce = replace(report, verdict=ContactVerdict.HARD_BOUNCE, bounce_type="Permanent", bounce_subtype="NoEmail")
    await Reports(its_database, CLOCK).receive([bounce])
    shown = " ".join((await here.ok("message", "show", outbox_id)).out.split())
    assert "It bounced permanently. No more email is sent to ada@example.com." in shown
    for text in ("reported by ses", "Permanent", "NoEmail", "by mailbox", *words.values()):
        assert text in shown


@on_sqlite
async def test_message_explain_prints_text_and_json(commands: Commands, database: Database) -> None:
    outbox_id = await accepted(database)
    spoken = await commands.ok("message", "explain", outbox_id)
    assert "Due, but no worker is running." in spoken.out
    assert "  mailwright worker\n" in spoken.out
    told = (await commands.ok("message", "explain", outbox_id, "--json")).json
    assert (told["state"], told["outboxId"]) == ("no_worker", outbox_id)


async def test_message_is_sent_with_the_rules_of_the_api(commands: Commands) -> None:
    await commands.ok("db", "upgrade")
    (commands.folder / "hello.txt").write_text("It works.")
    (commands.folder / "hello.md").write_text("Hello {{ name }}, order {{ order }}")
    (commands.folder / "data.json").write_text('{"name": "Ada", "order": 1}')
    email = ("message", "send", "--to", "ada@example.com", "--subject", "Hello", "--text", "hello.txt")
    first = (await commands.ok(*email, "--idempotency-key", "one", "--json")).json
    assert first.keys() == {"outboxId", "jobId", "requestId", "status"}
    again = await commands.ok(*email, "--idempotency-key", "one")
    assert (again.out.strip(), "not sent again" in again.err) == (first["outboxId"], True)
    other = await commands.run(*email, "--from", "bob@example.com", "--idempotency-key", "one")
    assert (other.code, "idempotency key" in other.err.lower()) == (1, True)
    await commands.ok("template", "create", "order", "--subject", "Order {{ order }}", "--markdown", "hello.md")
    template = ("message", "send", "--to", "ada@example.com", "--template", "order", "--data", "data.json")
    written = (await commands.ok(*template, "--var", "order=2")).out.strip()
    await commands.ok("worker", "--drain")
    assert "Subject: Order 2" in (commands.folder / f"var/mailbox/new/{written}.mailwright").read_text()
    refused = await commands.run("message", "send", "--to", "nobody", "--idempotency-key", "ä")
    assert (refused.code, "--idempotency-key: must have" in refused.err) == (2, True)
    refused = await commands.run("message", "send", "--to", "nobody", "--from", "also nobody")
    assert (refused.code, "--to: " in refused.err, "--from: " in refused.err) == (2, True, True)
    assert len((await commands.ok("message", "list", "--json")).json) == 2


async def test_messages_are_listed_cancelled_and_retried(here: Commands, its_database: Database) -> None:
    waiting = await accepted(its_database, to="ada@example.com", scheduled_at=CLOCK.now() + DAY)
    other = await accepted(its_database, to="grace@example.com")
    found = (await here.ok("message", "list", "--to", "Ada@Example.com", "--json")).json
    assert [one["outboxId"] for one in found] == [waiting]
    assert "CANCELLED" in (await here.ok("message", "cancel", waiting)).out
    [cancelled] = (await here.ok("message", "list", "--status", "cancelled", "--json")).json
    assert cancelled["outboxId"] == waiting
    listed = (await here.ok("message", "list")).out
    assert waiting in listed
    assert other in listed
    async with its_database.write() as tx:
        held = {"claimable_at": CLOCK.now() + DAY, "defer_reason": "hourly_limit"}
        await tx.execute(update(deliveries).where(deliveries.c.status == Status.PENDING).values(**held))
    assert "Hourly limit" in (await here.ok("message", "list", "--status", "queued")).out
    async with its_database.write() as tx:
        await tx.execute(update(deliveries).values(claimable_at=CLOCK.now(), defer_reason=None))
    refused = await here.run("message", "retry", other)
    assert refused.code == 1
    assert "Only a failed message can be retried" in refused.err


async def test_unknown_id_exits_1_with_a_message(here: Commands) -> None:
    for arguments in (
        ("message", "show", "nonsense"),
        ("message", "explain", uuid7(CLOCK.now())),
        ("tenant", "show", "nobody"),
        ("template", "show", "nothing"),
        ("key", "create", "--tenant", "nobody"),
    ):
        ended = await here.run(*arguments)
        assert ended.code == 1, ended
        assert ended.out == ""
        assert ended.err.startswith("There is no ")
        assert ended.err.count("\n") == 1


async def test_dead_letters_are_listed_and_retried(here: Commands, its_database: Database) -> None:
    ids = [await a_dead_letter(its_database) for _ in range(3)]
    dead_letters = (await here.ok("dead-letter", "list", "--json")).json
    assert {dead_letter["outboxId"] for dead_letter in dead_letters} == set(ids)
    assert "1 message " in (await here.ok("dead-letter", "retry", ids[0])).out
    assert "2 messages " in (await here.ok("dead-letter", "retry", "--all")).out
    assert (await here.ok("dead-letter", "list", "--json")).json == []
    await here.ok("worker", "--drain")
    assert (await here.ok("audit", "--json")).json["sent"] == 3


async def test_suppressed_address_is_refused_until_deleted(here: Commands, its_database: Database) -> None:
    await here.ok("suppression", "create", "Ada@Example.com", "--reason", "asked us to")
    [entry] = (await here.ok("suppression", "list", "--json")).json
    assert (entry["email"], entry["reason"], entry["source"]) == ("ada@example.com", "asked us to", "cli")
    outbox_id = await accepted(its_database, to="ada@example.com")
    await here.ok("worker", "--drain")
    assert (await here.ok("audit", "--json")).json["suppressed"] == 1
    await here.ok("suppression", "delete", "ada@example.com")
    await here.ok("message", "retry", outbox_id)
    await here.ok("worker", "--drain")
    assert (await here.ok("audit", "--json")).json["sent"] == 1


async def test_contact_show_includes_lists_and_suppressions(here: Commands, its_database: Database) -> None:
    await here.ok("list", "create", "news", "--name", "Product news")
    assert (await here.run("list", "create", "news")).code == 1
    assert [entry["listKey"] for entry in (await here.ok("list", "list", "--json")).json] == ["news"]
    await here.ok("list", "subscribe", "news", "Ada@Example.com")
    listed = (await here.ok("list", "list")).out
    assert ("Sign-up" in listed, re.search(r"single opt-in +1 ", listed) is not None) == (True, True)
    outbox_id = await accepted(its_database, to="ada@example.com")
    await here.ok("list", "unsubscribe", "news", "ada@example.com")
    refused = await here.run("list", "subscribe", "other", "ada@example.com")
    assert (refused.code, "mailwright list create other" in refused.err) == (1, True)
    person = (await here.ok("contact", "show", "ADA@example.com", "--json")).json
    assert (person["status"], [entry["listKey"] for entry in person["suppressions"]]) == ("active", ["news"])
    assert [each["unsubscribedAt"] is not None for each in person["lists"]] == [True]
    assert [message["outboxId"] for message in person["messages"]] == [outbox_id]
    await here.ok("list", "unsubscribe", "general", "ada@example.com")
    assert "unsubscribed" in (await here.ok("contact", "show", "ada@example.com")).out
    [left] = (await here.ok("contact", "list", "--status", "unsubscribed", "--json")).json
    assert left["email"] == "ada@example.com"
    await here.ok("contact", "activate", "ada@example.com")
    assert (await here.ok("contact", "show", "ada@example.com", "--json")).json["status"] == "active"
    assert (await here.run("contact", "show", "nobody@example.com")).code == 1


async def test_list_edit_changes_only_given_options(here: Commands) -> None:
    await here.ok("list", "create", "news", "--name", "Product news", "--description", "Now and then")
    await here.ok("list", "edit", "news", "--private", "--confirm")
    [changed] = (await here.ok("list", "list", "--json")).json
    assert (changed["name"], changed["description"]) == ("Product news", "Now and then")
    assert (changed["isPublic"], changed["requiresConfirmation"]) == (False, True)
    await here.ok("list", "edit", "news", "--name", "News", "--description", "", "--public", "--no-confirm")
    [changed] = (await here.ok("list", "list", "--json")).json
    assert (changed["name"], changed["description"]) == ("News", None)
    assert (changed["isPublic"], changed["requiresConfirmation"]) == (True, False)
    assert (await here.run("list", "edit", "other", "--private")).code == 1
    for wrong in ((), ("--name", "")):
        assert (await here.run("list", "edit", "news", *wrong)).code == 2


async def test_suppression_of_a_single_list(here: Commands) -> None:
    await here.ok("list", "create", "news")
    await here.ok("suppression", "create", "ada@example.com", "--list", "news")
    await here.ok("suppression", "create", "ada@example.com", "--list", "general")
    assert (await here.run("suppression", "create", "ada@example.com", "--list", "other")).code == 2
    await here.ok("suppression", "delete", "ada@example.com", "--list", "general")
    [entry] = (await here.ok("suppression", "list", "--json")).json
    assert entry["listKey"] == "news"


async def test_template_create_stores_versions_and_refuses_invalid_ones(here: Commands) -> None:
    (here.folder / "hello.html").write_text("<p>Hello {{ name }}</p>")
    (here.folder / "bad.html").write_text("<p>Hello {{ name </p>")
    put = ("template", "create", "hello", "--subject", "Hello", "--html")
    await here.ok(*put, "hello.html")
    await here.ok(*put, "hello.html")
    refused = await here.run(*put, "bad.html")
    assert (refused.code, "Line 1" in refused.err) == (1, True)
    assert (await here.ok("template", "show", "hello", "--json")).json["version"] == 2
    assert [one["templateId"] for one in (await here.ok("template", "list", "--json")).json] == ["hello"]


# Proofs and checks.


async def test_audit_prints_the_identity_and_exits_1_on_failure(commands: Commands, database: Database) -> None:
    await accepted(database)
    first = (await commands.ok("audit", "--json")).json
    assert list(first) == AUDIT
    assert (first["accepted"], first["open"], first["ok"]) == (1, 1, True)
    assert "1 accepted = 1 open" in (await commands.ok("audit")).out
    async with database.write() as tx:
        await tx.execute(delete(deliveries))
    lost = await commands.run("audit", "--json")
    assert (lost.code, lost.json["ok"]) == (1, False)


async def test_check_reports_results_and_advice(here: Commands) -> None:
    checked = (await here.ok("check", "--json")).json
    verdicts = {finding["name"]: finding["verdict"] for finding in checked["findings"]}
    assert verdicts == {
        "settings": "ok",
        "links": "warning",
        "database": "ok",
        "database size": "ok",
        "delivery": "warning",
        "workers": "warning",
        "provider": "ok",
        "sender": "warning",
        "backup": "warning",
        "disk": "ok",
        "retention": "ok",
    }
    shown = (await here.ok("check")).out
    assert "✓ ok" in shown
    assert "! warning" in shown
    broken = {"MAILWRIGHT_PROVIDER": "smtp", "MAILWRIGHT_SMTP_URL": "smtp://127.0.0.1:1?tls=none"}
    failed = await here.run("check", MAILWRIGHT_REDIS_URL="redis://127.0.0.1:1", **broken)
    assert failed.code == 1
    assert failed.out.count("✗ problem") == 2


async def test_check_names_settings_that_prevent_a_start(here: Commands) -> None:
    wrong = {"FROM_EMAIL": "News <news@example.com>", "MAILWRIGHT_LIFETIMES": "soon"}
    checked = await here.run("check", "--json", **wrong)
    named = [each["summary"].partition(":")[0] for each in checked.json["findings"] if each["name"] == "settings"]
    assert (checked.code, sorted(named)) == (1, sorted(wrong))


@pytest.mark.parametrize(
    "credential", [{"SENDGRID_API_KEY": "SG.no.secret"}, {"AWS_ACCESS_KEY_ID": "AKIA"}, {"SMTPBZ_SMTP_URL": "smtp://a"}]
)
async def test_check_warns_of_credentials_without_a_provider(here: Commands, credential: dict[str, str]) -> None:
    checked = (await here.run("check", "--json", **credential)).json
    (warned, _) = [each for each in checked["findings"] if each["name"] == "provider"]
    unused = next(iter(credential))
    assert warned["summary"] == f"email goes to the local mailbox only, and these credentials are not used: {unused}"


async def test_check_reports_whether_a_route_has_a_provider(here: Commands) -> None:
    broken = {
        "MAILWRIGHT_SMTP_URL": "smtp://127.0.0.1:1?tls=none",
        "MAILWRIGHT_SENDGRID_URL": "http://127.0.0.1:1",
        "SENDGRID_API_KEY": "SG.no.secret",
    }

    async def advice(route: str) -> list[str | None]:
        checked = (await here.run("check", "--json", MAILWRIGHT_ROUTE=route, **broken)).json
        return [each["advice"] for each in checked["findings"] if each["name"] == "provider"]

    alone = "no provider of the route works; messages wait until one is fixed"
    assert await advice("smtp, sendgrid") == [alone, alone]
    others = "the other providers of the route send until this is fixed"
    assert await advice("smtp, mailbox") == [others, None]


async def test_links_that_recipients_cannot_open_are_named(here: Commands) -> None:
    async def links(**settings: str) -> list[str]:
        findings = (await here.run("check", "--json", **settings)).json["findings"]
        return [each["summary"] for each in findings if each["name"] == "links"]

    [default] = await links()
    assert default.startswith("links in emails lead to http://127.0.0.1:8025, which is not a public https:// address; ")
    [given] = await links(MAILWRIGHT_BASE_URL="http://10.0.0.5")
    assert given == "links in emails lead to http://10.0.0.5, which is not a public https:// address"
    assert await links(MAILWRIGHT_BASE_URL="https://mail.example.com") == []


async def test_db_status_and_upgrade(nowhere: Commands) -> None:
    assert (await nowhere.run("db", "status")).code == 3
    await nowhere.ok("db", "upgrade")
    status = (await nowhere.ok("db", "status", "--json")).json
    assert status["ok"]
    assert status["current"] == status["newest"]
    assert "already" in (await nowhere.ok("db", "upgrade")).out


# How commands end.


async def test_upgrade_checks_without_an_option(here: Commands) -> None:
    plain, named = await here.run("upgrade"), await here.run("upgrade", "--check")
    assert (plain.code, plain.out) == (named.code, named.out)
    assert "No migration is pending." in plain.out


async def test_upgrade_of_an_empty_database_is_one_sentence(nowhere: Commands) -> None:
    (nowhere.folder / "mailwright.db").touch()
    found = await nowhere.run("upgrade", COLUMNS="200")
    sentence = "The database is empty: `mailwright db upgrade` creates the tables of this version.\n"
    assert (found.code, found.out) == (1, sentence)


async def test_all_configuration_errors_are_reported_at_once(nowhere: Commands) -> None:
    wrong = {
        "MAILWRIGHT_PORT": "high",
        "MAILWRIGHT_TIMEZONE": "Atlantis",
        "MAILWRIGHT_WORKING_HOURS": "9-5",
        "MAILWRIGHT_RATE_PER_HOUR": "-1",
    }
    for arguments in (("serve",), ("audit",), ("check",)):
        ended = await nowhere.run(*arguments, **wrong)
        assert ended.code == (1 if arguments == ("check",) else 2)
        assert all(name in ended.out + ended.err for name in wrong)
        assert "Traceback" not in ended.err


async def test_unreachable_database_exits_3(nowhere: Commands) -> None:
    url = "postgresql://user:secret@127.0.0.1:1/mail"
    for arguments in (("audit",), ("message", "list"), ("serve",), ("worker", "--drain")):
        ended = await nowhere.run(*arguments, MAILWRIGHT_DATABASE_URL=url, MAILWRIGHT_PORT="0")
        assert ended.code == 3, ended
        assert "The database cannot be reached (" in ended.err
        assert "MAILWRIGHT_DATABASE_URL" in ended.err
        assert "secret" not in ended.err
        assert "Traceback" not in ended.err


async def test_reading_command_creates_no_database(nowhere: Commands) -> None:
    for arguments in (("audit",), ("message", "list"), ("check",)):
        assert (await nowhere.run(*arguments)).code in (1, 3)
    assert not (nowhere.folder / "mailwright.db").exists()
    (nowhere.folder / "mailwright.db").touch()
    empty = await nowhere.run("audit")
    assert (empty.code, "mailwright db upgrade" in empty.err) == (3, True)


async def test_wrong_usage_exits_2(tmp_path: Path) -> None:
    nowhere = Commands(tmp_path, program=STARTED)
    for arguments in (("nonsense",), ("message", "resolve", "x", "--as", "maybe"), ("dead-letter", "retry")):
        ended = await nowhere.run(*arguments)
        assert ended.code == 2
        assert "Traceback" not in ended.err
    assert "Did you mean" in (await nowhere.run("mesage")).err


async def test_newer_database_has_its_own_exit_code(commands: Commands, database: Database) -> None:
    async with database.write() as tx:
        await tx.execute(sql("INSERT INTO schema_revisions VALUES ('9001', '9.0', '9001', 1, 1, 1, NULL)"))
    try:
        for arguments in (("message", "list"), ("serve", "--port", "0"), ("db", "upgrade")):
            ended = await commands.run(*arguments)
            assert (ended.code, "a newer version upgraded it" in ended.err) == (4, True), ended
    finally:
        async with database.write() as tx:
            await tx.execute(sql("DELETE FROM schema_revisions WHERE revision = '9001'"))


def test_damaged_file_exits_3_with_the_next_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert report_error(DatabaseDamaged("The database is damaged. Restore the latest backup.")) == 3
    assert capsys.readouterr().err == "The database is damaged. Restore the latest backup.\n"


def test_unexpected_error_exits_70_with_a_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert report_error(ZeroDivisionError("by zero")) == 70
    told = capsys.readouterr().err
    assert "ZeroDivisionError: by zero" in told
    assert "MAILWRIGHT_DEBUG=1" in told


def test_error_in_a_task_group_is_unwrapped(capsys: pytest.CaptureFixture[str]) -> None:
    assert report_error(ExceptionGroup("tasks", [ExceptionGroup("more", [NotFound("there is no such thing")])])) == 1
    assert capsys.readouterr().err == "There is no such thing.\n"


# Modules of services, metrics, migrations, message rendering, the whole engine and the other database engine.
HEAVY = """
argon2 asyncpg botocore cryptography css_inline fastapi jinja2 mailwright.app.wiring mrml opentelemetry
prometheus_client redis rich.live sqlalchemy.dialects.postgresql structlog uvicorn yaml
"""
LIGHT = f"""
import sys
from mailwright.cli import app
heavy = {HEAVY.split()}
for words, too_much in (
    (["--help"], [*heavy, "asyncio", "pydantic", "sqlalchemy"]),
    (["tenant", "list"], [*heavy, "mailwright.outbox.accept"]),
    (["message", "list"], [*heavy, "mailwright.audience.filters", "mailwright.sources.campaigns.forecast"]),
    (["campaign", "list"], heavy),
    (["forecast"], heavy),
):
    try:
        app(words)
    except SystemExit as ended:
        print(ended.code, [name for name in too_much if name in sys.modules])
"""


async def test_help_is_fast_and_lists_exit_codes(here: Commands) -> None:
    """Run in a new process, because other tests have imported everything in this one."""
    ended = subprocess.run(
        [sys.executable, "-c", LIGHT], cwd=here.folder, capture_output=True, text=True, check=True, timeout=60
    )
    helped, tenants, messages, campaigns, forecast, nothing = ended.stdout.split("0 []\n")
    assert "Exit codes" in helped
    assert "default" in tenants
    assert "No messages" in messages
    assert "no campaign" in campaigns
    assert "No campaign" in forecast
    assert nothing == ""


async def test_version_and_shell_completion(nowhere: Commands) -> None:
    assert (await nowhere.ok("--version")).out.startswith("mailwright ")
    offered = await nowhere.run(_MAILWRIGHT_COMPLETE="complete_bash", COMP_WORDS="mailwright me", COMP_CWORD="1")
    assert offered.out.split() == ["message"]


async def test_bench_uses_only_temporary_data(nowhere: Commands) -> None:
    measured = (await nowhere.ok("bench", "--count", "50", "--json")).json
    assert measured["count"] == 50
    assert measured["mails_per_second"] > 0
    assert list(nowhere.folder.iterdir()) == []
    refused = await nowhere.run("bench", "--smtp-url", "smtp://mail.example.com")
    assert refused.code == 2


# The demonstration.


async def test_demo_shows_every_state_and_uses_its_own_folder(nowhere: Commands) -> None:
    mine = {"MAILWRIGHT_DATABASE_URL": "postgresql://127.0.0.1:1/mine", "MAILWRIGHT_PROVIDER": "smtp"}
    shown = await nowhere.ok("demo", "--once", "--port", "0", **mine)
    for words in (
        "✓ SENT",
        "✗ FAILED",
        "– CANCELLED",
        "? IN_DOUBT",
        "RECIPIENT_NOT_FOUND",
        "RECIPIENT_SUPPRESSED",
        "INVALID_TEMPLATE",
        "Scheduled for",
        "5 of 5 sent",
        "Hourly limit reached until",
        "Scheduled for",
        "81 accepted = ",
        "curl http://127.0.0.1:",
    ):
        assert words in shown.out
    assert [path.name for path in nowhere.folder.iterdir()] == ["var"]
    emails = list((nowhere.folder / "var/demo/mailbox/new").iterdir())
    audit = (await nowhere.ok("audit", "--json", MAILWRIGHT_DATABASE_URL="sqlite:///var/demo/mailwright.db")).json
    assert audit["sent"] == len(emails) >= 9
    assert audit["ok"]
    started = Commands(nowhere.folder, {"PATH": "/usr/bin:/bin"}, STARTED)
    kept = await started.ok("demo", "--once", "--keep", "--port", "0")
    assert "81 accepted = " in kept.out
    here = {"MAILWRIGHT_CONFIG": "var/demo/mailwright.toml"}
    assert "messages are written to var/demo/mailbox/new" in (await nowhere.run("check", **here)).out
    listed = (await nowhere.ok("message", "list", "--status", "SUPPRESSED", **here)).out
    assert listed.count("⊘ SUPPRESSED") == audit["suppressed"] == 2
    assert "⊘ SUPPRESSED" in (await nowhere.ok("contact", "show", "charles@example.com", **here)).out
    unknown = await nowhere.run("message", "list", "--status", "bogus", **here)
    assert (unknown.code, "Value error" in unknown.err) == (2, False)
    [forecast] = [line.removeprefix("Forecast") for line in kept.out.splitlines() if line.startswith("Forecast")]
    drawn = (await Commands(nowhere.folder, program=("/bin/sh", "-c")).ok(forecast)).out
    assert "  resumes " in drawn  # the campaign of which 8 emails are sent
    assert "  starts " in drawn  # the scheduled one
