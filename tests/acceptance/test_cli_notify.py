"""`mailwright notify` with a queue that another program wrote."""

import subprocess
import sys
from pathlib import Path

import pytest

from mailwright.app.notification_queue import notification_service_opener
from mailwright.domain.clock import ManualClock
from tests.acceptance.commands import Commands
from tests.api import an_api, on_a_socket
from tests.builders import REFUSAL
from tests.notifications import a_queue_setup, make_tables
from tests.standins.provider import ScriptedProvider

PRODUCER = Path(__file__).parents[2] / "examples" / "notifications" / "producer.py"
QUEUE = "sqlite:///queue.db"


@pytest.fixture
def commands(tmp_path: Path) -> Commands:
    subprocess.run([sys.executable, PRODUCER, "queue.db"], cwd=tmp_path, check=True)
    return Commands(tmp_path, {"MAILWRIGHT_NOTIFY_DATABASE_URL": QUEUE})


async def test_foreign_queue_is_served_shown_and_requeued(commands: Commands) -> None:
    await commands.ok("notify", "run", "--drain")
    found = (await commands.ok("notify", "list", "--json")).json
    by_reader = {each["to"]: each for each in found}
    sent = [each["to"] for each in found if each["status"] == "sent"]
    assert sorted(sent) == ["ada@example.com", "clarice@example.com", "sofia@example.com"]
    assert by_reader["alan@example.com"]["wait"]["reason"] == "snoozed"
    skipped = by_reader["+15550100"]
    assert (skipped["status"], skipped["error"]["code"]) == ("skipped", "NON_EMAIL_CONTACT")
    assert len(list((commands.folder / "var" / "mailbox" / "new").iterdir())) == 3
    shown = await commands.ok("notify", "show", str(by_reader["alan@example.com"]["notificationId"]))
    assert "until 2099-01-01" in shown.out
    await commands.ok("notify", "requeue", str(skipped["notificationId"]))
    refused = await commands.run("notify", "requeue", str(by_reader["ada@example.com"]["notificationId"]))
    assert (refused.code, "sent" in refused.err) == (1, True)
    await commands.ok("notify", "run", "--drain")  # nothing is sent again
    assert len(list((commands.folder / "var" / "mailbox" / "new").iterdir())) == 3
    assert (await commands.ok("audit", "--json")).json["sent"] == 3


async def test_file_without_queue_tables_is_rejected(commands: Commands) -> None:
    await commands.ok("db", "upgrade")
    refused = await commands.run("notify", "run", "--drain", "--database", "sqlite:///mailwright.db")
    assert (refused.code, "open_event_notifications" in refused.err) == (2, True)
    missing = await commands.run("notify", "run", "--drain", "--database", "sqlite:///nowhere.db")
    assert (missing.code, "no file" in missing.err) == (2, True)
    assert not (commands.folder / "nowhere.db").exists()


async def test_options_of_a_command_replace_the_settings_of_the_queue(commands: Commands) -> None:
    await commands.ok("notify", "init", "--database", "sqlite:///other.db")
    subject = ("--term", "92026", "--campus", "NB", "--index", "10001", "--before", "Closed", "--after", "Open")
    other = ("--database", "sqlite:///other.db")
    payload = '{"courseTitle": "Algebra"}'
    published = await commands.ok("notify", "emit", *subject, "--payload", payload, *other)
    assert published.out == "Published event 1. Notifications created: 0.\n"
    again = await commands.ok("notify", "emit", *subject, "--payload", payload, *other, "--json")
    assert again.json == {"openEventId": 1, "notifications": 0, "isRepeat": True}
    assert (await commands.ok("notify", "list", *other)).out == "No notifications.\n"
    assert len((await commands.ok("notify", "list", "--json")).json) == 5
    unclear = await commands.run("notify", "emit", *subject, "--at", "2027-01-15T08:00:00")
    assert (unclear.code, unclear.err) == (2, "--at: needs a time zone, for example 2027-01-15T08:00:00Z\n")
    both = await commands.run("notify", "requeue", "1", "--status", "failed")
    assert (both.code, both.err.startswith("--status")) == (2, True)


async def test_remote_commands_use_the_queue_of_the_server(
    tmp_path: Path, empty_sqlite: bytes, clock: ManualClock
) -> None:
    (tmp_path / "mailwright.db").write_bytes(empty_sqlite)
    url, theirs = f"sqlite:///{tmp_path}/mailwright.db", f"sqlite:///{tmp_path}/queue.db"
    await make_tables(theirs)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    async with a_queue_setup(url, theirs, None, clock) as setup:
        opener = notification_service_opener(setup.bench.engine.settings, setup.bench.database, clock)
        await setup.owner.subscriber(1)
        async with (
            an_api(setup.bench.database, clock, open_notifications=opener) as api,
            on_a_socket(api.app) as address,
        ):
            payload = '{"courseTitle": "Algebra", "sectionNumber": "02"}'
            far = Commands(elsewhere, {"MAILWRIGHT_SERVER": address, "MAILWRIGHT_API_KEY": api.key})
            subject = ("--term", "92026", "--campus", "NB", "--index", "10001", "--before", "Closed", "--after", "Open")
            published = await far.ok("notify", "emit", *subject, "--payload", payload)
            assert published.out == "Published event 1. Notifications created: 1.\n"
            assert "reader1@example.com" in (await far.ok("notify", "list")).out
            await setup.round(ScriptedProvider(REFUSAL))
            assert "✗ failed  to reader1@example.com\n  REFUSED" in (await far.ok("notify", "show", "1")).out
            assert (await far.ok("notify", "requeue", "--status", "failed")).out == "1 requeued.\n"
            assert (await far.ok("notify", "show", "1", "--json")).json["status"] == "pending"
            refused = await far.run("notify", "list", "--database", "sqlite:///queue.db")
            assert (refused.code, refused.err.startswith("--database: has no effect with --server")) == (2, True)
            local = await far.run("notify", "run")
            assert (local.code, "only on the machine" in local.err) == (2, True)
    assert list(elsewhere.iterdir()) == []
