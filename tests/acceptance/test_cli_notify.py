"""`mailwright notify` with a queue that another program wrote."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.commands import Commands

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
