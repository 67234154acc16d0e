"""`mailwright setup` and the commands of settings: in a terminal, in scripts, and what they never show."""

from pathlib import Path

import pytest

from mailwright.domain.clock import SystemClock
from mailwright.domain.ids import uuid7
from mailwright.storage.database import Database
from tests.acceptance.commands import Commands
from tests.builders import SECRET_KEY, a_message, an_acceptor
from tests.conftest import DatabaseAddress
from tests.standins.smtp_sink import SmtpSink

PASSWORD = "correct horse battery"
SECRET = "staple-of-the-provider"


@pytest.fixture
def here(engine: DatabaseAddress, tmp_path: Path) -> Commands:
    return Commands(tmp_path, {"MAILWRIGHT_DATABASE_URL": engine.url, "MAILWRIGHT_SECRET_KEY": SECRET_KEY})


async def test_terminal_asks_for_every_step(here: Commands) -> None:
    async with SmtpSink(users={"ada": SECRET}) as sink:
        url = f"smtp://ada:{SECRET}@127.0.0.1:{sink.port}?tls=none"
        answers = [
            ("first administrator", ""),
            ("Password of admin", ""),
            ("Repeat for confirmation", ""),
            ("Password of admin", "short"),
            ("Repeat for confirmation", "short"),
            ("Password of admin", PASSWORD),
            ("Repeat for confirmation", PASSWORD),
            ("Sender name and address", "Shop <shop@example.com>"),
            ("Postal address", "1 Main Street, Lisbon"),
            ("Provider", "pigeon"),
            ("Provider", "smtp"),
            ("URL of the SMTP server", ""),
            ("URL of the SMTP server", url),
            ("API key", "shop"),
            ("test email", "ada@example.com"),
            ("colleague", "grace@example.com"),
            ("Role", "boss"),
            ("Role", "viewer"),
        ]
        ended = await here.converse("setup", answers=answers)
        assert ended.code == 0, ended.out
        assert [message.recipients for message in sink.messages] == [("ada@example.com",)]
    for words in ("✓ Connected", "API key, shown only once: mw_", "Test email to ada@example.com sent through smtp"):
        assert words in ended.out
    assert ended.out.count("A password needs") == 2
    assert SECRET not in ended.out
    assert PASSWORD not in ended.out
    users = {each["login"]: each["role"] for each in (await here.ok("user", "list", "--json")).json}
    assert users == {"admin": "admin"}
    assert "Invitation for grace@example.com" in ended.out
    assert "/sign-in/invitation?token=" in ended.out
    [key] = (await here.ok("key", "list", "--json")).json
    assert key["name"] == "shop"


async def test_second_set_up_keeps_values_confirmed_with_enter(here: Commands) -> None:
    async with SmtpSink() as sink:
        first = ("setup", "--from", "Shop <shop@example.com>", "--provider", "smtp", "--admin", "ada")
        changes = {"MAILWRIGHT_SMTP_URL": f"{sink.url}?tls=none"}
        answers = [("Password of ada", PASSWORD), ("Repeat for confirmation", PASSWORD)]
        assert (await here.converse(*first, answers=answers, **changes)).code == 0
        before = (await here.ok("setting", "list", "--json", **changes)).json
        questions = ("Sender name", "Postal address", "Provider (", "API key", "test email", "colleague")
        ended = await here.converse("setup", answers=[(question, "") for question in questions], **changes)
    assert ended.code == 0, ended.out
    assert "MAILWRIGHT_SMTP_URL is set outside of the database" in ended.out
    assert (await here.ok("setting", "list", "--json", **changes)).json == before
    assert (await here.ok("key", "list", "--json")).json == []


async def test_failed_connection_sends_no_test_email(here: Commands) -> None:
    async with SmtpSink() as sink:
        nowhere = f"{sink.url}?tls=none"
    options = ("--from", "shop@example.com", "--provider", "smtp", "--test-to", "ada@example.com", "--json")
    ended = await here.run("setup", *options, MAILWRIGHT_SMTP_URL=nowhere)
    assert ended.code == 1
    assert (ended.json["ready"], ended.json["testEmail"]) == (False, None)
    assert (await here.ok("audit", "--json")).json["accepted"] == 0


async def test_script_creates_everything_without_questions(here: Commands) -> None:
    async with SmtpSink() as sink:
        options = ("--from", "shop@example.com", "--provider", "smtp", "--key", "shop", "--test-to", "a@example.com")
        colleague = ("--colleague", "grace@example.com", "--role", "editor", "--json")
        ended = await here.ok("setup", *options, *colleague, MAILWRIGHT_SMTP_URL=f"{sink.url}?tls=none")
        assert len(sink.messages) == 1
    made = ended.json
    assert (made["ready"], made["testEmail"]["status"], made["colleague"]["email"]) == (
        True,
        "SENT",
        "grace@example.com",
    )
    assert made["key"].startswith("mw_")


async def test_set_up_without_terminal_names_the_options(here: Commands) -> None:
    ended = await here.run("setup")
    assert (ended.code, "--secret-stdin" in ended.err) == (2, True)


async def test_test_email_waits_behind_other_messages(here: Commands, database: Database) -> None:
    """The set-up must not send what waits for a worker."""
    clock = SystemClock()
    await an_acceptor(database, clock).accept([a_message(outbox_id=uuid7(clock.now()))])
    async with SmtpSink() as sink:
        options = ("--from", "shop@example.com", "--provider", "smtp", "--test-to", "ada@example.com")
        ended = await here.ok("setup", *options, MAILWRIGHT_SMTP_URL=f"{sink.url}?tls=none")
        assert sink.messages == []
    assert "mailwright message explain" in ended.out


@pytest.mark.promise("secrets-encrypted")
async def test_stored_secret_appears_in_no_output_or_backup(here: Commands) -> None:
    async with SmtpSink(users={"ada": SECRET}) as sink:
        url = f"smtp://ada:{SECRET}@127.0.0.1:{sink.port}?tls=none"
        answers = [("MAILWRIGHT_SMTP_URL", url)]
        typed = await here.converse("setting", "set", "smtp_url", answers=answers)
        assert (typed.code, SECRET in typed.out) == (0, False), typed.out
        await here.ok("setting", "set", "provider", "smtp")
        outputs = [
            await here.ok("setting", "list", "--json"),
            await here.ok("setting", "list"),
            await here.ok("setting", "show", "smtp_url", "--json"),
            await here.ok("audit-log", "--json"),
            await here.run("check", "--json"),
            await here.run("health", "--json"),
            await here.run("setup", "--from", "shop@example.com", "--json"),
            await here.ok("backup", "copy.mwbackup"),
        ]
    for ended in outputs:
        assert SECRET not in ended.out + ended.err
    [shown] = [each for each in outputs[0].json if each["field"] == "smtp_url"]
    assert (shown["value"], shown["isSecret"]) == ("set", True)
    [entry] = [each for each in outputs[3].json if each["detail"].get("to") == "(secret)"]
    assert "smtp_url" in entry["sentence"]
    restored = {"MAILWRIGHT_DATABASE_URL": f"sqlite:///{here.folder / 'other.db'}"}
    await here.ok("restore", "copy.mwbackup", "--yes", **restored)
    content = b"".join(file.read_bytes() for file in here.folder.glob("other.db*"))
    assert b"smtp_url" in content
    assert SECRET.encode() not in content
