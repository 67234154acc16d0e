"""`mailwright provider` and `mailwright report-source`, in real processes on SQLite."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.acceptance.commands import Commands, Ended
from tests.standins.smtp_sink import SmtpSink
from tests.warm import warm_command


@pytest.fixture
def commands(tmp_path: Path) -> Commands:
    return Commands(tmp_path)


def with_settings(folder: Path, *words: str, lines: str) -> Ended:
    stored = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "PYTHONPATH") if name in os.environ}
    command = [*warm_command(), "provider", *words, "--stdin"]
    done = subprocess.run(command, cwd=folder, env=stored, input=lines, capture_output=True, text=True, check=False)
    return Ended(done.returncode, done.stdout, done.stderr)


async def test_provider_is_created_tested_routed_and_deleted(commands: Commands, tmp_path: Path) -> None:
    refused = await commands.run(
        "provider", "create", "acme", "--kind", "smtp", "--set", "MAILWRIGHT_SMTP_URL=smtp://x"
    )
    assert refused.code != 0
    assert "is a secret. Pass it with --stdin" in refused.err
    async with SmtpSink() as sink:
        made = with_settings(tmp_path, "create", "acme", "--kind", "smtp", lines=f"MAILWRIGHT_SMTP_URL={sink.url}\n")
        assert made.code == 0, made
        await commands.ok("provider", "edit", "acme", "--set", "MAILWRIGHT_SMTP_CONNECTIONS=2")
        assert (await commands.ok("provider", "test", "acme", "--json")).json["isOk"] is True
        shown = await commands.ok("provider", "show", "acme")
        assert "MAILWRIGHT_SMTP_URL: set" in shown.out
        assert sink.url not in shown.out
        await commands.ok("provider", "route", "acme", "--source", "campaign")
        [route] = (await commands.ok("provider", "routes", "--json")).json
        assert (route["tenant"], route["source"], route["provider"]) == ("default", "campaign", "acme")
        assert "default (campaign)" in (await commands.ok("provider", "list")).out
    assert (await commands.run("provider", "test", "acme")).code == 1, "nothing listens any more"
    named = await commands.run("provider", "delete", "acme", "--yes")
    assert "Change or delete these routes first" in named.err
    await commands.ok("provider", "unroute", "--source", "campaign")
    await commands.ok("provider", "delete", "acme", "--yes")
    assert (await commands.ok("provider", "list", "--json")).json == []


async def test_report_source_is_created_listed_and_deleted(commands: Commands) -> None:
    made = await commands.ok("report-source", "create", "postfix-1", "--tenant", "default")
    secret = made.out.strip()
    assert secret.startswith("rpsec_")
    assert "/v1/reports/postfix-1" in made.err
    again = await commands.run("report-source", "create", "postfix-1")
    assert (again.code != 0, "There is already a report source postfix-1" in again.err) == (True, True)
    listed = await commands.ok("report-source", "list", "--json")
    assert [(each["name"], each["tenant"], each["lastUsedAt"]) for each in listed.json] == [
        ("postfix-1", "default", None)
    ]
    assert secret not in listed.out
    await commands.ok("report-source", "delete", "postfix-1")
    assert (await commands.ok("report-source", "list", "--json")).json == []
