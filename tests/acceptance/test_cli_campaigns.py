"""Campaigns on the command line: from a file of contacts to a report, and a stream that ends with the server."""

import asyncio
import csv
import io
import json
import re
import shutil
import signal
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mailwright.outbox.audit_log import describe_actor
from mailwright.texts.sending_readiness import LOCAL_MAILBOX
from tests.acceptance.commands import Commands
from tests.api import socket_client

PEOPLE = "email,name,plan\nada@example.com,Ada,gold\nalan@example.com,Alan,basic\ngrace@example.com,Grace,gold\n"
MARKDOWN = """# Hello {{ name }}

You are on {{ plan }}, and it is {{ season }}. [Leave]({{ unsubscribe_url }}) {{ postal_address }}
"""
SEQUENCE = {"name": "Welcome", "trigger": {"manual": True}, "steps": [{"id": "first", "send": {"template": "welcome"}}]}
CREATE = ("campaign", "create", "--name", "News", "--subject", "For {{ name }}", "--markdown", "news.md")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("prepared")


@pytest.fixture
async def here(prepared: Path, tmp_path: Path) -> Commands:
    """A folder with a list of three people, which the first test of the module prepares for all."""
    if not (prepared / "news.md").exists():
        commands = Commands(prepared)
        (prepared / "people.csv").write_text(PEOPLE)
        await commands.ok("db", "upgrade")
        imported = await commands.ok("contact", "import", "people.csv", "--list", "news")
        assert "Created the list news: single opt-in, shown on public pages." in imported.err
        (prepared / "news.md").write_text(MARKDOWN)
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True)
    return Commands(tmp_path, {"MAILWRIGHT_POSTAL_ADDRESS": "Street 1, 1000 Town"})


async def test_refused_import_creates_no_list(here: Commands) -> None:
    (here.folder / "photo.csv").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    refused = await here.run("contact", "import", "photo.csv", "--list", "monthly")
    assert refused.code != 0
    assert "Created the list" not in refused.err
    assert "monthly" not in (await here.ok("list", "list")).out


async def test_restored_campaign_is_listed_by_name_and_released(here: Commands) -> None:
    await here.ok("backup", "before.mwbackup")
    campaign_id = (await here.ok(*CREATE, "--list", "news", "--var", "season=spring", "--daily-limit", "2")).out.strip()
    await here.ok("campaign", "start", campaign_id)
    await here.ok("worker", "--drain")
    await here.ok("backup", "now.mwbackup")
    restored = await here.ok("restore", "now.mwbackup", "--yes")
    assert restored.err == ""
    assert re.search(r"Restored the backup of \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\.", restored.out)
    explained = (await here.ok("campaign", "explain", campaign_id, COLUMNS="300")).out
    assert "mailwright quarantine list" in explained
    listed = (await here.ok("quarantine", "list", COLUMNS="80")).out
    assert (campaign_id in listed, "News" in listed, "mailwright quarantine release" in listed) == (True,) * 3
    released = (await here.ok("quarantine", "release", "--yes")).out
    assert "Messages that will be sent: 1." in released
    assert f"  mailwright campaign resume {campaign_id}\n" in released
    await here.ok("restore", "before.mwbackup", "--yes")
    assert "Resume sending with `mailwright quarantine release`." in (await here.ok("quarantine", "list")).out


async def test_commands_say_that_nobody_receives_the_campaign(here: Commands) -> None:
    wide = {"COLUMNS": "300"}
    campaign_id = (await here.ok(*CREATE, "--list", "news", "--var", "season=spring")).out.strip()
    for command in ("check", "start", "show"):
        assert str(LOCAL_MAILBOX) in (await here.ok("campaign", command, campaign_id, **wide)).out, command
    shown = await here.run("sending", "show", **wide)
    assert (shown.code, str(LOCAL_MAILBOX) in shown.out) == (1, True)
    await here.ok("worker", "--drain")
    sent = (await here.ok("campaign", "show", campaign_id, **wide)).out
    assert "stored in the local mailbox; nobody receives them" in sent
    assert json.loads((await here.ok("campaign", "show", campaign_id, "--json")).out)["sentTo"] == "local_mailbox"


async def test_exported_sequence_is_taken_back_unchanged(tmp_path: Path) -> None:
    here = Commands(tmp_path)
    await here.ok("db", "upgrade")
    (tmp_path / "welcome.json").write_text(json.dumps(SEQUENCE))
    created = (await here.ok("sequence", "create", "welcome.json")).out
    assert "It cannot be published yet: steps[0].send.template: there is no template welcome" in " ".join(
        created.split()
    )
    await here.ok("sequence", "export", "Welcome", "--output", "exported.json")
    exported = (tmp_path / "exported.json").read_text()
    assert (await here.ok("sequence", "export", "Welcome")).out == exported
    assert json.loads(exported) == SEQUENCE
    (tmp_path / "welcome.html").write_text("<p>Welcome</p>")
    await here.ok("template", "create", "welcome", "--subject", "Welcome", "--html", "welcome.html")
    assert "cannot be published" not in (await here.ok("sequence", "edit", "Welcome", "exported.json")).out
    await here.ok("sequence", "export", "Welcome", "--with-templates", "--output", "whole.json")
    await here.ok("tenant", "create", "other")
    other = ("sequence", "create", "whole.json", "--tenant", "other")
    assert "Stored the templates welcome." in (await here.ok(*other)).err
    await here.ok("template", "create", "welcome", "--subject", "Theirs", "--html", "welcome.html", "--tenant", "other")
    assert "differ from the file: welcome" in (await here.run(*other)).err
    assert "Stored the templates welcome." in (await here.ok(*other, "--replace")).err
    rehearsed = (await here.ok("sequence", "rehearse", "Welcome", "zz@example.com")).out
    assert "1 address would not enter: not among the contacts." in rehearsed
    assert "The sequence is a draft, not running." in (await here.run("sequence", "pause", "Welcome")).err


async def test_approval_is_requested_shown_and_withdrawn(here: Commands) -> None:
    await here.ok("tenant", "edit", "default", "--approval-over", "2")
    campaign_id = (await here.ok(*CREATE, "--list", "news", "--var", "season=spring")).out.strip()
    refused = await here.run("campaign", "start", campaign_id)
    assert (refused.code != 0, "Request approval" in refused.err) == (True, True)
    assert "more than 2" in (await here.ok("campaign", "plan", campaign_id, COLUMNS="300")).out
    waiting = (await here.ok("campaign", "request-approval", campaign_id, "--json")).json
    assert (waiting["approval"]["status"], waiting["approval"]["requestedBy"]) == ("waiting", "console")
    [listed] = (await here.ok("campaign", "list", "--approval", "waiting", "--json")).json
    assert (listed["campaignId"], listed["approval"]["digest"]) == (campaign_id, waiting["approval"]["digest"])
    assert describe_actor("console") in (await here.ok("campaign", "list", "--approval", "waiting")).out
    rejected = ("campaign", "list", "--approval", "rejected")
    assert "No campaign of the tenant default is rejected" in (await here.ok(*rejected)).out
    assert "waits for the approval" in (await here.run("campaign", "start", campaign_id)).err
    await here.ok("campaign", "withdraw-approval", campaign_id)
    assert (await here.ok("campaign", "plan", campaign_id, "--json")).json["approval"]["status"] == "withdrawn"
    assert "Nothing of the tenant default waits" in (await here.ok("approval", "list")).out
    with closing(sqlite3.connect(here.folder / "mailwright.db")) as database, database:  # Only the dashboard rejects.
        database.execute("UPDATE campaign_approvals SET status = 'rejected', decided_by = 'ada', comment = 'Too dear.'")
    assert "ada: Too dear." in (await here.ok(*rejected)).out
    [listed] = (await here.ok(*rejected, "--json")).json
    assert (listed["campaignId"], listed["approval"]["comment"]) == (campaign_id, "Too dear.")
    await here.ok("template", "create", "welcome", "--subject", "Welcome", "--markdown", "news.md")
    (here.folder / "welcome.json").write_text(json.dumps({**SEQUENCE, "list": "news"}))
    created = (await here.ok("sequence", "create", "welcome.json", "--json")).json
    refused = await here.run("sequence", "publish", created["sequenceId"])
    assert (refused.code != 0, "The approval is requested now" in refused.err) == (True, True)
    [listed] = (await here.ok("approval", "list", "--json")).json
    assert (listed["kind"], listed["recipients"], listed["requestedBy"]) == ("sequence", 3, "console")
    assert "Sequence Welcome, 3 recipients: waiting" in (await here.ok("approval", "show", str(listed["id"]))).out
    assert "recipients: withdrawn" in (await here.ok("approval", "withdraw", str(listed["id"]))).out
    assert "Nothing of the tenant default is rejected" in (await here.ok("approval", "list", "--rejected")).out


@pytest.mark.parametrize(
    ("percent", "sentence"),
    [
        ("10", "Hourly limit: 90 of 100 for bulk, 10 kept for transactional email."),
        ("0", "Hourly limit: 100, all of it for bulk."),
    ],
)
async def test_start_and_forecast_name_the_reserve(here: Commands, percent: str, sentence: str) -> None:
    limits = {"MAILWRIGHT_RATE_PER_HOUR": "100", "MAILWRIGHT_RESERVE_PERCENT": percent, "COLUMNS": "300"}
    campaign_id = (await here.ok(*CREATE, "--list", "news", "--var", "season=spring")).out.strip()
    started = await here.ok("campaign", "start", campaign_id, **limits)
    assert started.out.splitlines()[-1] == sentence
    assert sentence in (await here.ok("forecast", **limits)).out


async def test_campaign_runs_from_file_to_report(here: Commands) -> None:
    made = await here.ok(*CREATE, "--list", "news", "--var", "season=spring", "--daily-limit", "2")
    campaign_id = made.out.strip()
    assert made.out == f"{campaign_id}\n"
    assert "Ready to start (3 recipients)." in (await here.ok("campaign", "check", campaign_id)).out
    tried = await here.ok("campaign", "test", campaign_id, "me@example.com", "--as", "ada@example.com")

    started = await here.ok("campaign", "start", campaign_id)
    recipients, mailbox = started.out.splitlines()
    assert recipients == "News: 3 recipients; no worker is running, start one with `mailwright worker`."
    assert mailbox.startswith("No email leaves this machine: messages go to the local mailbox")
    await here.ok("worker", "--drain")
    held = (await here.ok("campaign", "show", campaign_id, "--json")).json
    assert (held["status"], held["queueStatus"], held["deferReason"]) == ("SENDING", "PENDING", "daily_limit")
    [listed] = (await here.ok("campaign", "list", "--json")).json
    assert (listed["queueStatus"], listed["deferReason"]) == ("PENDING", "daily_limit")
    assert (held["counts"]["sent"], held["percent"]) == (2, 66.7)
    assert "Daily limit reached until" in (await here.ok("campaign", "show", campaign_id)).out
    explained = (await here.ok("campaign", "explain", campaign_id, COLUMNS="300")).out.splitlines()
    assert explained[0].startswith("Daily limit of the campaign reached (")
    advice = next(number for number, line in enumerate(explained) if line.startswith("What you can do"))
    assert explained[advice + 1] == f"  mailwright campaign limits {campaign_id} --daily-limit N"

    assert (await here.ok("campaign", "limits", campaign_id, "--daily-limit", "none")).out.startswith(
        "The campaign has no limits."
    )
    await here.ok("worker", "--drain")
    watched = await here.ok("campaign", "show", campaign_id, "--watch")
    assert ("✓ SENT" in watched.out, "3 of 3 sent" in watched.out) == (True, True)
    on_stdout = (await here.ok("campaign", "report", "--csv", campaign_id)).out
    await here.ok("campaign", "report", campaign_id, "--csv", "report.csv")
    assert (here.folder / "report.csv").read_bytes().decode() == on_stdout
    rows = list(csv.DictReader(io.StringIO(on_stdout)))
    assert [(row["email"], row["status"]) for row in rows] == [
        ("ada@example.com", "SENT"),
        ("alan@example.com", "SENT"),
        ("grace@example.com", "SENT"),
    ]
    lines = (await here.ok("campaign", "report", campaign_id, "--format", "jsonl")).out.splitlines()
    assert [json.loads(line)["message_id"] for line in lines] == [row["message_id"] for row in rows]
    figures = await here.ok("campaign", "report", campaign_id)
    assert figures.out == (await here.ok("campaign", "figures", campaign_id)).out
    assert "add --format csv" in figures.err  # Scripts that expect the recipients find the reason.
    assert (await here.ok("campaign", "report", campaign_id, "--json")).json["counts"]["sent"] == 3
    emails = {path.name for path in (here.folder / "var/mailbox/new").iterdir()}
    assert emails == {f"{each}.mailwright" for each in (tried.out.strip(), *(row["message_id"] for row in rows))}
    done = (await here.ok("audit-log", "--subject", campaign_id, "--json")).json
    assert [entry["action"] for entry in reversed(done)] == [
        "campaign.create",
        "campaign.test",
        "campaign.start",
        "campaign.edit_limits",
    ]
    assert {entry["actor"] for entry in done} == {"console"}


async def test_subjects_are_shown_rendered(here: Commands) -> None:
    campaign_id = (await here.ok(*CREATE, "--list", "news", "--var", "season=spring")).out.strip()
    await here.ok("campaign", "start", campaign_id)
    await here.ok("worker", "--drain")
    [grace] = (await here.ok("message", "list", "--to", "grace@example.com", "--json")).json
    for command in (
        ("message", "list", "--to", "grace@example.com"),
        ("message", "show", grace["outboxId"]),
        ("contact", "show", "grace@example.com"),
        ("contact", "history", "grace@example.com"),
    ):
        shown = (await here.ok(*command, COLUMNS="200")).out
        assert ("For Grace" in shown, "{{" in shown) == (True, False), command


async def test_refused_start_lists_every_reason_and_exits_1(here: Commands) -> None:
    missing = await here.run(*CREATE, "--list", "nobody")
    assert (missing.code, missing.err.startswith("--list: There is no list nobody")) == (2, True)
    await here.ok("list", "create", "nobody")
    lists = ("--list", "nobody", "--list", "news")
    campaign_id = (await here.ok(*CREATE, *lists, "--schedule", "2099-01-15T08:00")).out.strip()
    in_use = await here.run("list", "delete", "nobody", "--yes")
    assert (in_use.code, "the draft News uses it" in in_use.err) == (1, True)
    # A restored draft may name a list that no longer exists.
    for command in (("campaign", "delete", campaign_id, "--yes"), ("list", "delete", "nobody", "--yes")):
        assert "restore" in (await here.ok(*command)).out
    assert (await here.run("campaign", "start", campaign_id)).code != 0
    await here.ok("campaign", "restore", campaign_id)
    draft = (await here.ok("campaign", "show", campaign_id, "--json")).json
    for command in (("check", campaign_id), ("start", campaign_id), ("start", campaign_id, "--now")):
        refused = await here.run("campaign", *command)
        assert refused.code == 1
        assert ("UNKNOWN_LIST" in refused.err, "MISSING_VARIABLE" in refused.err) == (True, True)
    assert (await here.ok("campaign", "show", campaign_id, "--json")).json == draft
    for command in ("pause", "resume", "retry-failed", "accept-failures", "extend"):
        impossible = await here.run("campaign", command, campaign_id)
        assert (impossible.code, impossible.out) == (1, "")
        assert "The campaign is DRAFT" in impossible.err
    assert "No messages in doubt." in (await here.ok("campaign", "in-doubt", "list", campaign_id)).out
    unresolved = await here.run("campaign", "in-doubt", "resolve", campaign_id, "--as", "sent")
    assert (unresolved.code, "The campaign is DRAFT" in unresolved.err) == (1, True)
    unknown = await here.run("campaign", "create", "--name", "x", "--template", "nope", "--list", "news")
    assert (unknown.code, unknown.err.startswith("--template: There is no template nope")) == (2, True)
    unknown = await here.run("campaign", "start", "none")
    assert (unknown.code, unknown.err) == (1, "There is no campaign with this id.\n")
    hours = ("--working-hours", "9 to 5", "--daily-limit", "-5")
    wrong = await here.run(*CREATE, "--list", "No", "--timezone", "Mars", "--rate-per-hour", "many", *hours)
    assert wrong.code == 2
    assert "--working-hours: working hours are invalid: use opening and closing times such as 09:00-18:00" in wrong.err
    assert "--daily-limit: must be more than 0" in wrong.err
    for option in ("--list", "--timezone", "--rate-per-hour"):
        assert f"{option}: " in wrong.err
    assert (await here.run("campaign", "create", "--name", "x")).code == 2
    assert len((await here.ok("campaign", "list", "--json")).json) == 1


async def test_scheduled_campaign_is_paused_duplicated_and_cancelled(here: Commands) -> None:
    create = (*CREATE, "--list", "news", "--var", "season=spring", "--schedule", "2099-01-15T08:00+01:00")
    versions = ("--variant", "plain", "--variant", "bold=News! News!", "--test-percent", "100")
    campaign_id = (await here.ok(*create, *versions)).out.strip()
    started = await here.ok("campaign", "start", campaign_id)
    assert "3 recipients; Scheduled for 07:00 UTC on 15 Jan 2099" in started.out
    await here.ok("tenant", "edit", "default", "--timezone", "Asia/Tokyo")
    moved = await here.ok("campaign", "reschedule", campaign_id, "2099-01-16T09:30")
    assert moved.out == "News: scheduled for 2099-01-16 09:30:00 Asia/Tokyo.\n"
    assert "Scheduled for 09:30 Asia/Tokyo on 16 Jan 2099" in (await here.ok("campaign", "explain", campaign_id)).out
    assert "(Asia/Tokyo)" in (await here.ok("campaign", "list")).out
    assert (await here.ok("campaign", "pause", campaign_id)).out == "News is now = PAUSED\n"
    assert "Paused" in (await here.ok("campaign", "list")).out
    assert (await here.ok("campaign", "resume", campaign_id)).out == "News is now ○ READY\n"
    asked = await here.run("campaign", "cancel", campaign_id)
    assert asked.code == 1
    assert "Cancel News? 3 recipients have not received it yet. This cannot be undone." in asked.out + asked.err
    assert (await here.ok("campaign", "cancel", campaign_id, "--yes")).out == "News is now – CANCELLED\n"
    copy = (await here.ok("campaign", "duplicate", campaign_id, "--name", "Again")).out.strip()
    definition = (await here.ok("campaign", "show", copy, "--json")).json["definition"]
    assert (definition["name"], definition["experiment"]["testPercent"]) == ("Again", 100)
    assert definition["experiment"]["variants"] == [{"name": "plain"}, {"name": "bold", "subject": "News! News!"}]


async def test_variables_of_a_draft_are_edited(here: Commands) -> None:
    made = await here.ok(*CREATE, "--list", "news", "--var", "tone=warm", "--schedule", "2020-01-15T08:00")
    assert "The send time is in the past." in made.err
    campaign_id = made.out.strip()
    assert (
        "3 of 3 recipients have no such attribute, for example ada@example.com"
        in (await here.run("campaign", "check", campaign_id, COLUMNS="300")).err
    )
    edited = await here.ok("campaign", "edit", campaign_id, "--var", "season=spring")
    assert ("Updated News." in edited.out, "The send time is in the past." in edited.err) == (True, True)
    definition = (await here.ok("campaign", "show", campaign_id, "--json")).json["definition"]
    assert definition["variables"] == {"tone": "warm", "season": "spring"}
    await here.ok("campaign", "start", campaign_id, "--now", "--no-wait")
    assert "For {{ name }}" in (await here.ok("campaign", "show", campaign_id)).out


async def test_draft_is_edited_started_and_archived(here: Commands) -> None:
    campaign_id = (await here.ok(*CREATE, "--list", "news")).out.strip()
    definition = (await here.ok("campaign", "show", campaign_id, "--json")).json["definition"]
    plain = {
        **definition,
        "name": "Plain",
        "content": {"subject": "For all", "body": "<p>Hello</p>{{ unsubscribe_url }}"},
    }
    (here.folder / "plain.json").write_text(json.dumps(plain))
    assert (await here.ok("campaign", "edit", campaign_id, "plain.json")).out.startswith("Updated Plain.")
    (here.folder / "wrong.json").write_text(json.dumps({**plain, "lists": ["No"], "nome": "x"}))
    wrong = await here.run("campaign", "edit", campaign_id, "wrong.json")
    assert (wrong.code, "lists[0]: " in wrong.err, "nome: " in wrong.err) == (2, True, True)
    early = await here.run("archive", "publish", campaign_id)
    assert (early.code, early.out) == (1, "")
    await here.ok("campaign", "start", campaign_id)
    late = await here.run("campaign", "edit", campaign_id, "plain.json")
    assert (late.code, "possible only while it is DRAFT" in late.err) == (1, True)
    assert (await here.ok("campaign", "show", campaign_id, "--json")).json["name"] == "Plain"

    [url] = (await here.ok("archive", "publish", campaign_id)).out.splitlines()
    [issue] = (await here.ok("archive", "list", "news", "--json")).json
    assert (issue["campaignId"], issue["urls"]) == (campaign_id, [url])
    assert (await here.ok("archive", "withdraw", campaign_id)).out == "Plain is no longer in the archive.\n"
    assert "is empty" in (await here.ok("archive", "list", "news")).out


async def test_progress_stream_ends_when_the_server_stops(here: Commands) -> None:
    key = (await here.ok("key", "create", "--tenant", "default")).out.strip()
    campaign_id = (await here.ok(*CREATE, "--list", "news", "--var", "season=spring")).out.strip()
    headers = {"Authorization": f"Bearer {key}", "Last-Event-ID": "anything"}
    async with here.service("serve", "--port", "0", "--no-worker") as service, asyncio.timeout(60):
        address = (await service.logged("api_started"))["address"]
        async with socket_client(address, headers=headers) as client:
            assert (await client.get("/v1/progress/stream", headers={"Authorization": ""})).status_code == 401
            async with client.stream("GET", "/v1/progress/stream") as answer:
                assert answer.headers["content-type"].startswith("text/event-stream")
                lines = answer.aiter_lines()
                heard = await _next_event(lines)
                assert heard["active_campaign"] is None
                assert (await client.post(f"/v1/campaigns/{campaign_id}/start")).status_code == 200
                assert (await _next_event(lines))["active_campaign"]["id"] == campaign_id
                service.signal(signal.SIGTERM)
                async for _ in lines:
                    pass  # ends by itself
        assert await service.ended(within=60) == 0


async def _next_event(lines: AsyncIterator[str]) -> Any:
    async for line in lines:
        if line.startswith("data: "):
            return json.loads(line.removeprefix("data: "))
    raise AssertionError("the stream ended")


async def test_attachments_are_given_shown_and_removed(here: Commands) -> None:
    (here.folder / "offer.pdf").write_bytes(b"%PDF-1.7" + b"x" * 2_000)
    (here.folder / "plan.txt").write_text("plan")
    (here.folder / "empty.txt").write_text("")
    campaign_id = (
        await here.ok(*CREATE, "--list", "news", "--var", "season=spring", "--attach", "offer.pdf")
    ).out.strip()
    assert "offer.pdf (2 KB)" in (await here.ok("campaign", "show", campaign_id)).out
    await here.ok("campaign", "edit", campaign_id, "--attach", "plan.txt", "--detach", "offer.pdf")
    shown = (await here.ok("campaign", "show", campaign_id, "--json")).json["attachments"]
    assert [(each["filename"], each["contentType"], each["sizeBytes"]) for each in shown] == [
        ("plan.txt", "text/plain", 4)
    ]
    for arguments, words in (
        (("--detach", "offer.pdf"), "The campaign has no attachment offer.pdf."),
        (("--attach", "empty.txt"), "The file empty.txt is empty."),
        ((), "give a FILE, --var, --attach or --detach"),
    ):
        refused = await here.run("campaign", "edit", campaign_id, *arguments)
        assert (refused.code, words in refused.err) == (2, True), refused.err

    await here.ok("campaign", "start", campaign_id)
    await here.ok("worker", "--drain")
    emails = [path.read_text() for path in (here.folder / "var/mailbox/new").iterdir()]
    assert [text.count('filename="plan.txt"') for text in emails] == [1, 1, 1]


async def test_report_is_read_and_used_at_the_command_line(here: Commands) -> None:
    campaign_id = (await here.ok(*CREATE, "--list", "news", "--var", "season=spring")).out.strip()
    assert (await here.ok("campaign", "figures", campaign_id, "--json")).json["counts"] is None
    await here.ok("campaign", "start", campaign_id)
    await here.ok("worker", "--drain")
    figures = (await here.ok("campaign", "figures", campaign_id, "--json")).json
    assert (figures["counts"]["sent"], figures["domains"][0]["name"]) == (3, "example.com")
    shown = (await here.ok("campaign", "figures", campaign_id)).out
    assert "3 sent, 0 of them tracked individually" in shown
    rows = list(csv.reader(io.StringIO((await here.ok("campaign", "figures", campaign_id, "--csv")).out)))
    assert ["domains", "example.com", "sent", "3"] in rows
    [result] = (await here.ok("campaign", "history", "--json")).json
    assert (result["campaignId"], result["sent"]) == (campaign_id, 3)
    assert (await here.ok("campaign", "history", "--csv")).out.splitlines()[0].startswith("started_at,campaign_id,name")
    key = (await here.ok("campaign", "segment", campaign_id, "--of", "sent", "--domain", "example.com")).out.strip()
    assert (await here.ok("segment", "show", key, "--json")).json["count"] == 3
    assert (await here.ok("campaign", "report", campaign_id, "--show", "opened")).out.count("\n") == 1
    refused = await here.run("campaign", "resend", campaign_id, "--subject", "Again")
    assert refused.code != 0
    assert "not recorded individually" in refused.err
    assert (await here.ok("campaign", "winner", campaign_id)).out == "The campaign has no A/B test.\n"


async def test_excluded_contacts_are_written_to_a_file(here: Commands) -> None:
    campaign_id = (await here.ok(*CREATE, "--list", "news", "--var", "season=spring")).out.strip()
    await here.ok("suppression", "create", "ada@example.com")
    (here.folder / "people.csv").write_text("email,Newsletter?\neve@example.com,\n")
    imported = (await here.ok("contact", "import", "people.csv", "--list", "news")).out
    assert "1 added, 0 changed, 0 unchanged, 0 refused. Subscribed: 0. Said no: 0. No answer: 1." in imported
    assert (
        "not on its lists, and so not in the audience: 1." in (await here.ok("campaign", "excluded", campaign_id)).err
    )
    [excluded] = (await here.ok("campaign", "excluded", campaign_id, "--json")).json
    assert (excluded["email"], excluded["reason"]) == ("ada@example.com", "suppressed")
    await here.ok("campaign", "excluded", campaign_id, "excluded.csv", "--csv")
    with (here.folder / "excluded.csv").open(newline="") as file:
        assert [row["email"] for row in csv.DictReader(file)] == ["ada@example.com"]
    none = await here.ok("campaign", "excluded", campaign_id, "--csv", "--reason", "bounced")
    assert none.out.splitlines() == ["email,reason,explanation"]


async def test_waves_and_guard_rails_at_the_command_line(here: Commands) -> None:
    rails = '{"complaintStopPercent": 0.2}'
    made = await here.ok(*CREATE, "--list", "news", "--var", "season=spring", "--waves", "10", "--guard-rails", rails)
    campaign_id = made.out.strip()
    waves = "in waves of 10 %, then everyone, 240 minutes apart"
    for command in ("check", "show", "start"):
        assert waves in (await here.ok("campaign", command, campaign_id, COLUMNS="300")).out
    await here.ok("worker", "--drain")
    shown = await here.ok("campaign", "guard-rails", campaign_id)
    assert "wave 1 of 2, the next one opens at" in shown.out
    assert "complaints: warn at 0.1 %, stop at 0.2 %" in shown.out
    report = (await here.ok("campaign", "guard-rails", campaign_id, "--json")).json
    assert (report["wave"]["percent"], report["messages"], report["finding"]) == (10, 1, None)
    explained = (await here.ok("campaign", "explain", campaign_id, COLUMNS="300")).out
    assert f"mailwright campaign open-wave {campaign_id}" in explained
    await here.ok("campaign", "open-wave", campaign_id)
    await here.ok("worker", "--drain")
    assert (await here.ok("campaign", "show", campaign_id, "--json")).json["counts"]["sent"] == 3


async def test_errors_name_the_wrong_guard_rail_and_option(here: Commands) -> None:
    create = (*CREATE, "--list", "news", "--var", "season=spring")
    refused = await here.run(*create, "--guard-rails", '{"complaintHalt": 1}', COLUMNS="300")
    assert "--guard-rails complaintHalt" in refused.err
    both = ("--waves", "10", "--variant", "A", "--variant", "B=Other", "--test-percent", "20")
    refused = await here.run(*create, *both, COLUMNS="300")
    assert "--waves: cannot be combined with an A/B test" in refused.err


async def test_frequency_cap_and_snooze_at_the_command_line(here: Commands) -> None:
    rails = '{"complaintStopPercent": 0.2, "slowPerHour": 50}'
    limits = ("--frequency-cap", "1 per 7 days", "--guard-rails", rails)
    edited = (await here.ok("tenant", "edit", "default", *limits, COLUMNS="200")).out
    assert re.search(r"frequency cap\W+1 per 7 days", edited)
    assert "complaint stop: 0.2 %" in edited
    assert "slow per hour: 50" in edited
    assert (await here.ok("tenant", "show", "default", "--json")).json["frequencyCap"] == "1 per 7 days"
    assert "no bulk email for 30 days" in (await here.ok("contact", "snooze", "ada@example.com", "30")).out
    assert "Snoozed until" in (await here.ok("contact", "show", "ada@example.com")).out
    assert "receives bulk email again" in (await here.ok("contact", "snooze", "ada@example.com", "off")).out
