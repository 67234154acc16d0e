"""Commands that run on another server, over HTTP, without a database."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import update

from mailwright.access.roles import PLATFORM_SCOPES, Role, Scope
from mailwright.domain.clock import ManualClock
from mailwright.outbox import tenants
from mailwright.storage.database import Database
from mailwright.storage.tables import sender_domains
from tests.acceptance.commands import Commands
from tests.api import Api, a_request, an_api, on_a_socket, socket_client
from tests.pictures import a_png

FILTER = '{"tag": "vip"}'


@pytest.fixture
async def api(database: Database, clock: ManualClock) -> AsyncIterator[Api]:
    async with an_api(database, clock) as api:
        yield api


@pytest.fixture
async def far(api: Api, tmp_path: Path) -> AsyncIterator[Commands]:
    """Commands in an empty folder that no database can be opened from."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    async with on_a_socket(api.app) as address:
        yield Commands(
            folder,
            {
                "MAILWRIGHT_SERVER": address,
                "MAILWRIGHT_API_KEY": api.key,
                "MAILWRIGHT_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none",
            },
        )


async def test_remote_commands_do_the_same_as_local_ones(far: Commands) -> None:
    assert (await far.ok("list", "create", "news", "--name", "Product news")).out == "Created the list news.\n"
    await far.ok("list", "edit", "news", "--private", "--description", "Now and then")
    subscribed = await far.ok("list", "subscribe", "news", "ada@example.com", "--confirmed")
    assert subscribed.out == "ada@example.com is subscribed to news.\n"
    [listed] = (await far.ok("list", "list", "--json")).json
    assert (listed["isPublic"], listed["subscribers"], listed["description"]) == (False, 1, "Now and then")
    assert "Product news" in (await far.ok("list", "list")).out
    assert "Contacts now: 0." in (await far.ok("segment", "create", "vip", FILTER)).out
    assert (await far.ok("segment", "show", "vip", "--json")).json["contacts"] == []
    made = await far.ok("webhook", "create", "https://example.com/hook", "--type", "SENT")
    assert "Secret (shown once): whsec_" in made.err
    assert "active" in (await far.ok("webhook", "show", made.out.strip())).out
    await far.ok("webhook", "delete", made.out.strip())
    await far.ok("list", "delete", "news", "--yes")
    assert list(far.folder.iterdir()) == []


async def test_remote_contacts_are_changed_shown_and_exported(far: Commands, api: Api) -> None:
    ann = "ann@example.com"
    await api.client.put(f"/v1/contacts/{ann}", json={"name": "Ann", "attributes": {"plan": "pro"}})
    assert (await far.ok("contact", "snooze", ann, "30")).out == f"{ann} receives no bulk email for 30 days.\n"
    assert (await far.ok("contact", "snooze", ann, "off")).out == f"{ann} receives bulk email again.\n"
    both = await far.run("contact", "snooze", ann, "30", "--until", "2027-06-01T00:00:00Z")
    assert (both.code, "needs either a number of days or a time" in both.err) == (2, True)
    until = await far.ok("contact", "snooze", ann, "--until", "2027-06-01T00:00:00Z")
    assert "no bulk email until 2027-06-01" in until.out
    given = await far.ok("contact", "tracking-consent", ann, "--given", "--wording", "You may.")
    assert given.out == f"Opens and clicks of {ann} may be recorded.\n"
    assert "legal basis contract" in (await far.ok("contact", "legal-basis", ann, "contract", "--source", "#7")).out
    missing = await far.run("contact", "legal-basis", "bob@example.com", "contract")
    assert (missing.code, missing.err) == (1, "There is no such contact.\n")
    shown = (await far.ok("contact", "show", ann, COLUMNS="200")).out
    for part in ("Ann", "plan", "consent to “You may.”", "contract, recorded by api on", "Not suppressed."):
        assert part in shown, part
    assert "No history." not in (await far.ok("contact", "history", ann)).out
    await far.ok("contact", "export", "-o", "people.csv")
    assert (far.folder / "people.csv").read_text().splitlines()[1].startswith("ann@example.com,Ann,")
    assert json.loads((await far.ok("contact", "export", "--jsonl")).out)["email"] == ann


async def test_remote_campaign_is_rescheduled_duplicated_and_archived(far: Commands, api: Api) -> None:
    await far.ok("list", "create", "news")
    content = {"subject": "News", "body": "<p>{{ unsubscribe_url }}</p>"}
    draft = {"name": "News", "lists": ["news"], "content": content}
    campaign_id = (await api.client.post("/v1/campaigns", json=draft)).json()["campaignId"]
    moved = await far.ok("campaign", "reschedule", campaign_id, "2099-01-16T09:30")
    assert moved.out == "News: scheduled for 2099-01-16 09:30:00 UTC.\n"
    assert (await far.ok("campaign", "reschedule", campaign_id, "now", "--json")).json["scheduledAt"] is None
    copy = (await far.ok("campaign", "duplicate", campaign_id, "--name", "Again")).out.strip()
    assert (await far.ok("campaign", "archive", copy)).out == "Archived Again.\n"
    refused = await far.run("campaign", "pause", campaign_id)
    assert (refused.code, "The campaign is DRAFT" in refused.err) == (1, True)
    assert "No messages in doubt." in (await far.ok("campaign", "in-doubt", "list", campaign_id)).out


async def test_remote_exclusions_are_listed_and_written_as_csv(far: Commands, api: Api) -> None:
    for name in ("ada", "bob"):
        await api.client.put(f"/v1/contacts/{name}@example.com", json={})
    await api.client.post("/v1/suppressions", json={"email": "bob@example.com"})
    draft = {"name": "News", "filter": {"domain": "example.com"}, "content": {"subject": "Hi", "body": "<p>Hi</p>"}}
    campaign_id = (await api.client.post("/v1/campaigns", json=draft)).json()["campaignId"]
    excluded = ("campaign", "excluded", campaign_id)
    assert "suppressed for all email since" in (await far.ok(*excluded, "--reason", "suppressed")).out
    on_stdout = (await far.ok(*excluded, "--csv")).out
    titles, ada, bob = on_stdout.splitlines()
    assert (titles, ada.partition(",")[0], bob.split(",")[:2]) == (
        "email,reason,explanation",
        "ada@example.com",
        ["bob@example.com", "suppressed"],
    )
    await far.ok(*excluded, "bob.csv", "--csv", "--reason", "suppressed")
    assert (far.folder / "bob.csv").read_text().splitlines() == [titles, bob]
    unclear = await far.run(*excluded, "bob.csv")
    assert (unclear.code, "needs --csv" in unclear.err) == (2, True)


async def test_remote_approvals_are_requested_and_listed(far: Commands, api: Api) -> None:
    await far.ok("list", "create", "news")
    await far.ok("list", "subscribe", "news", "ada@example.com", "--confirmed")
    content = {"subject": "Spring", "body": "<p>{{ unsubscribe_url }}</p>", "text": "{{ unsubscribe_url }}"}
    draft = {"name": "News", "lists": ["news"], "content": content}
    campaign_id = (await api.client.post("/v1/campaigns", json=draft)).json()["campaignId"]
    shown = (await far.ok("campaign", "plan", campaign_id, COLUMNS="200")).out
    assert ("when it is started" in shown, "Spring" in shown, "not required" in shown) == (True, True, True)
    await tenants.change(api.engine.database, tenants.DEFAULT, approval_over=0)
    await api.engine.users.create("grace", "correct horse battery", Role.EDITOR, actor="test")
    owned = {"MAILWRIGHT_API_KEY": await api.engine.keys.create(1, "robot", owner="grace")}
    requested = await far.ok("campaign", "request-approval", campaign_id, "--json", **owned)
    assert requested.json["approval"]["requestedBy"] == "api:robot"
    refused = await far.run("campaign", "withdraw-approval", campaign_id)
    assert (refused.code, "Only a signed-in user can do this." in refused.err) == (1, True)
    assert "Nothing of the tenant default waits" in (await far.ok("approval", "list")).out
    missing = await far.run("approval", "show", "1")
    assert (missing.code, missing.err) == (1, "There is no such approval.\n")


async def test_remote_campaign_reports_are_shown_and_written(far: Commands, api: Api) -> None:
    draft = {"name": "News", "content": {"subject": "News", "body": "<p>Hello</p>"}}
    campaign_id = (await api.client.post("/v1/campaigns", json=draft)).json()["campaignId"]
    assert "has not started" in (await far.ok("campaign", "figures", campaign_id)).out
    assert (await far.ok("campaign", "figures", campaign_id, "--json")).json["name"] == "News"
    await far.ok("campaign", "figures", campaign_id, "figures.csv", "--csv")
    assert "campaign,,name,News\n" in (far.folder / "figures.csv").read_text()
    assert (await far.ok("campaign", "history")).out == "No campaign has started yet.\n"
    assert (await far.ok("campaign", "history", "--csv")).out.startswith("started_at,")
    await far.ok("campaign", "report", campaign_id, "people.csv")
    assert (far.folder / "people.csv").read_text().startswith("email,status,")
    assert "has not started" in (await far.ok("campaign", "report", campaign_id)).out
    await far.ok("campaign", "report", campaign_id, "people.jsonl", "--format", "jsonl")
    assert (far.folder / "people.jsonl").read_text() == ""
    wrong = await far.run("campaign", "report", campaign_id, "--show", "nobody")
    assert (wrong.code, wrong.err.startswith("--show")) == (2, True)
    again = await far.run("campaign", "resend", campaign_id, "--subject", "Again")
    assert (again.code, "The campaign is DRAFT" in again.err) == (1, True)
    early = await far.run("campaign", "segment", campaign_id, "--of", "opened", "--after-minutes", "-1")
    assert (early.code, early.err.startswith("--after-minutes")) == (2, True)


async def test_remote_mailouts_are_listed_shown_and_reported(far: Commands, api: Api) -> None:
    assert "No mailouts yet." in (await far.ok("mailout", "list")).out
    run = await api.engine.mailout_runs.accept(1, "0" * 32, actor="test")
    listed = (await far.ok("mailout", "list", COLUMNS="200")).out
    assert (run.mailout_id in listed, "○ accepted" in listed, "No worker is running" in listed) == (True, True, True)
    assert (await far.ok("mailout", "show", run.mailout_id, "--json")).json["errors"] == []
    assert "○ accepted  00000000" in (await far.ok("mailout", "show", run.mailout_id)).out
    await far.ok("mailout", "report", run.mailout_id, "people.csv")
    written = (far.folder / "people.csv").read_text().splitlines()
    assert written == (await far.ok("mailout", "report", run.mailout_id)).out.splitlines()
    local = await far.run("mailout", "send", "0" * 32)
    assert (local.code, "only on the machine" in local.err) == (2, True)


async def test_remote_articles_are_listed_explained_and_exported(far: Commands, api: Api) -> None:
    assert (await far.ok("article", "list")).out == "No articles.\n"
    for index, scope in enumerate((None, "ocd-division/country:us")):
        piece = {"article_key": "spring-vote", "body_md": "Vote.\nSoon.", "scope_ocd_id": scope, "sort_index": index}
        await api.client.put("/v1/slices", json={**piece, "tags": ["may"], "publish_status": "published"})
    assert (await far.ok("article", "list", "--json")).json[0]["slices"] == 2
    why = (await far.ok("article", "explain", "spring-vote", "--ocd-id", "ocd-division/country:fr")).out
    assert [mark in why for mark in ("✓", "1.0 Vote.", "–", "1.1 Vote.")] == [True] * 4
    assert "Vote. Soon." in (await far.ok("article", "preview", "spring-vote")).out
    covered = (await far.ok("article", "coverage", "spring-vote", "--filter", "country=us")).out
    assert "Nobody would receive it." in covered
    assert "No recipient gets: 1.1 Vote." in covered
    await far.ok("article", "export", "spring-vote", "slices.csv")
    exported = await api.client.get("/v1/articles/spring-vote/slices.csv")
    assert (far.folder / "slices.csv").read_text() == exported.text
    await far.ok("article", "export", "spring-vote", "slices")
    assert len(list((far.folder / "slices").rglob("*.md"))) == 2
    assert (await far.ok("article", "runs")).out == "No runs.\n"
    unknown = await far.run("article", "coverage", "autumn")
    assert (unknown.code, unknown.err) == (1, "There is no article autumn.\n")
    stranger = await far.run("article", "explain", "spring-vote", "--as", "nobody@example.com")
    assert (stranger.code, stranger.err.startswith("--as: ")) == (2, True)


async def test_remote_rules_reports_and_logs_are_those_of_the_key(far: Commands) -> None:
    assert (await far.ok("retention", "set", "events", "30", "--yes")).out.endswith("is on for default: 30 days.\n")
    [events] = [each for each in (await far.ok("retention", "show", "--json")).json if each["days"]]
    assert (events["kind"], events["tenant"], events["minDays"]) == ("events", "default", 30)
    await far.ok("retention", "set", "events", "off")
    assert "No findings." in (await far.ok("shadow", "report", "--days", "3")).out
    actions = [each["action"] for each in (await far.ok("audit-log", "--json", "--limit", "2")).json]
    assert actions == ["retention.remove", "retention.set"]
    assert (await far.ok("segments", "list")).err == "! `segments` is now `segment`.\n"
    assert "The archive of news is empty." in (await far.ok("archive", "list", "news")).out


async def test_remote_files_are_uploaded(far: Commands) -> None:
    logo = far.folder / "logo.png"
    logo.write_bytes(a_png())
    assert "/images/" in (await far.ok("image", "upload", str(logo), "--alt", "Logo")).out
    [listed] = (await far.ok("image", "list", "--json")).json
    assert (listed["name"], listed["alt"]) == ("logo.png", "Logo")
    await far.ok("image", "delete", "logo.png")
    assert (await far.ok("image", "restore", "logo.png")).out == "Restored logo.png.\n"
    refused = await far.run("dmarc", "import", str(logo))
    assert (refused.code, refused.out.startswith("refused: logo.png")) == (1, True)


async def test_remote_message_is_found_explained_and_cancelled(far: Commands, api: Api) -> None:
    waiting = (await api.client.post("/v1/email/send", json=a_request(subject="Hello {{ name }}"))).json()["outboxId"]
    listed = (await far.ok("message", "list", "--status", "pending", "--since", "2027-01-15T00:00:00Z")).out
    assert waiting in listed
    assert "○ PENDING" in listed
    assert (await far.ok("message", "list", "--status", "sent", "--json")).json == []
    shown = (await far.ok("message", "show", waiting)).out
    assert "Due, but no worker is running." in shown
    assert "  mailwright worker\n" in shown
    explained = await far.ok("message", "explain", waiting, "--json")
    assert explained.json["commands"] == ["mailwright worker", f"mailwright message cancel {waiting}"]
    assert (await far.ok("message", "cancel", waiting)).out == f"{waiting} is now – CANCELLED\n"
    refused = await far.run("message", "retry", waiting)
    assert (refused.code, "Only a failed message can be retried." in refused.err) == (1, True)


async def test_remote_errors_name_options_and_exit_codes(far: Commands, api: Api) -> None:
    await far.ok("list", "create", "news")
    again = await far.run("list", "create", "news")
    assert (again.code, again.err) == (1, "The list news already exists.\n")
    wrong = await far.run("list", "edit", "news", "--name", "")
    assert (wrong.code, wrong.err.startswith("--name: ")) == (2, True)
    tenant = await far.run("list", "list", "--tenant", "other")
    assert (tenant.code, "--tenant" in tenant.err) == (2, True)
    missing = await far.run("webhook", "show", "nothing")
    assert missing.code == 1
    read_only = await api.engine.keys.create(1, "reads", frozenset({Scope.READ}))
    forbidden = await far.run("list", "create", "more", MAILWRIGHT_API_KEY=read_only)
    assert (forbidden.code, "`manage` scope" in forbidden.err) == (1, True)


@pytest.mark.parametrize(
    ("settings", "code", "words"),
    [
        ({"MAILWRIGHT_API_KEY": "mw_made-up"}, 2, "not a valid API key"),
        ({"MAILWRIGHT_API_KEY": ""}, 2, "MAILWRIGHT_API_KEY: is not set"),
        ({"MAILWRIGHT_SERVER": "http://127.0.0.1:1"}, 3, "cannot be reached"),
        ({"MAILWRIGHT_SERVER": "mail.example.com"}, 2, "must be the address of a server"),
    ],
)
async def test_remote_command_names_what_is_wrong(
    far: Commands, settings: dict[str, str], code: int, words: str
) -> None:
    ended = await far.run("list", "list", **settings)
    assert (ended.code, words in ended.err) == (code, True), ended


@pytest.mark.parametrize("command", [("audit",), ("worker",), ("webhook", "test", "x"), ("db", "upgrade"), ("serve",)])
async def test_local_command_refuses_a_server(far: Commands, command: tuple[str, ...]) -> None:
    ended = await far.run(*command)
    assert (ended.code, "only on the machine of the installation" in ended.err) == (2, True), ended


async def test_remote_forms_are_read_from_files(far: Commands) -> None:
    await far.ok("list", "create", "weekly")
    file = far.folder / "form.json"
    file.write_text(json.dumps({"title": "Join us", "fields": [{"attribute": "city", "label": "City"}]}))
    made = (await far.ok("form", "create", "--name", "Shop", "--list", "weekly", "--file", str(file), "--json")).json
    assert (made["name"], made["title"], made["fields"][0]["label"]) == ("Shop", "Join us", "City")
    edited = (await far.ok("form", "edit", made["formId"], "--name", "Store", "--json")).json
    assert (edited["name"], edited["title"], edited["version"]) == ("Store", "Join us", 1)
    file.write_text(json.dumps({**edited, "title": "Stay in touch"}))
    changed = await far.ok("form", "edit", made["formId"], "--file", str(file))
    assert changed.out.startswith(f"{made['formId']}  Store (list weekly, version 2)\n")
    assert (await far.ok("form", "list", "--json")).json[0]["title"] == "Stay in touch"
    nameless = await far.run("form", "create", "--list", "weekly")
    assert (nameless.code, nameless.err) == (2, "--name: is required\n")
    file.write_text('{"titel": "x"}')
    assert (await far.run("form", "edit", made["formId"], "--file", str(file))).code == 2
    file.write_text("[]")
    no_object = await far.run("form", "edit", made["formId"], "--file", str(file))
    assert (no_object.code, no_object.err.startswith("--file: must be a JSON object")) == (2, True)
    await far.ok("form", "delete", made["formId"], "--yes")


async def test_remote_domain_check_is_negative_until_verified(far: Commands) -> None:
    added = await far.ok("domain", "add", "acme.example", "--sender", "Acme <news@acme.example>")
    assert "○ pending acme.example · default sender Acme <news@acme.example>" in added.err
    assert "TXT" in added.out
    checked = await far.run("domain", "check", "acme.example", "--json")
    assert (checked.code, checked.json["state"]) == (1, "pending")
    listed = await far.ok("domain", "list")
    assert "○ pending" in listed.out
    assert (await far.run("domain", "rotate", "acme.example")).code == 1


async def test_remote_contacts_are_listed_exported_and_erased(far: Commands, api: Api) -> None:
    for name in ("ada", "bob/sales"):
        await api.client.put(f"/v1/contacts/{name}@example.com", json={"attributes": {"city": "Lisbon"}})
    await api.client.post("/v1/events", json={"event": "order.placed", "email": "ada@example.com"})
    assert [each["email"] for each in (await far.ok("contact", "list", "--limit", "1", "--json")).json] == [
        "bob/sales@example.com"
    ]
    assert "Lisbon" in (await far.ok("contact", "data", "bob/sales@example.com")).out
    await far.ok("suppression", "create", "ada@example.com")
    assert (await far.ok("contact", "activate", "ada@example.com")).out == "ada@example.com is active again.\n"
    assert "order.placed" in (await far.ok("event", "list", "--email", "ada@example.com")).out
    unasked = await far.run("contact", "erase", "ada@example.com")
    assert (unasked.code, "--yes" in unasked.err) == (2, True)
    erased = await far.ok("contact", "erase", "ada@example.com", "--yes")
    assert erased.out.startswith("Contact erased. Messages whose content was erased: 0.")


async def test_remote_templates_are_shown_compared_and_archived(far: Commands, api: Api) -> None:
    for word in ("Hello", "Welcome"):
        await api.client.put("/v1/templates/greeting", json={"subject": word, "html": f"<p>{word} {{{{ plan }}}}</p>"})
    shown = await far.ok("template", "show", "greeting", "--version", "1")
    assert shown.out.startswith("greeting, version 1, created ")
    assert "Subject: Hello\nVariables: plan\n\n<p>Hello {{ plan }}</p>" in shown.out
    assert [each["version"] for each in (await far.ok("template", "versions", "greeting", "--json")).json] == [2, 1]
    assert "+<p>Welcome {{ plan }}</p>" in (await far.ok("template", "diff", "greeting")).out
    assert (await far.ok("template", "diff", "greeting", "2", "2")).out == "No differences.\n"
    assert (await far.ok("template", "archive", "greeting")).out == "Archived the template greeting.\n"
    assert (await far.run("template", "list")).code == 2
    await far.ok("domain", "add", "acme.example")
    assert "acme.example: 0 messages in 0 reports" in (await far.ok("dmarc", "show", "acme.example")).out


async def test_remote_sequences_are_created_published_and_explained(far: Commands) -> None:
    await far.ok("list", "create", "news")
    await far.ok("list", "subscribe", "news", "ada@example.com", "--confirmed")
    file = far.folder / "welcome.json"
    steps = [{"id": "hello", "send": {"template": "hello"}}, {"id": "later", "wait": {"days": 1}}]
    template = {"templateId": "hello", "subject": "Hello", "html": "<p>Hello</p>"}
    document = {"name": "Welcome", "trigger": {"manual": True}, "steps": steps}
    file.write_text(json.dumps({**document, "templates": [template]}))
    made = await far.ok("sequence", "create", str(file))
    assert ("Stored the templates hello." in made.err, "Created the draft Welcome" in made.out) == (True, True)
    assert "No emails." not in (await far.ok("sequence", "rehearse", "Welcome", "ada@example.com")).out
    assert "Published version 1." in (await far.ok("sequence", "publish", "Welcome")).out
    assert "Enrolled: 1." in (await far.ok("sequence", "enrol", "Welcome", "ada@example.com")).out
    assert "ada@example.com" in (await far.ok("sequence", "show", "Welcome")).out
    assert "Entered at" in (await far.ok("sequence", "explain", "Welcome", "ada@example.com")).out
    assert (await far.ok("sequence", "pause", "Welcome")).out == "Paused Welcome.\n"
    assert (await far.ok("sequence", "export", "Welcome")).json == document
    assert "revision 2" in (await far.ok("sequence", "edit", "Welcome", str(file))).out
    await far.ok("sequence", "delete", "Welcome", "--yes")


async def test_platform_key_manages_a_server_without_its_database(far: Commands, api: Api) -> None:
    ops = {"MAILWRIGHT_API_KEY": await api.engine.keys.create(None, "ops", PLATFORM_SCOPES)}
    await far.ok("tenant", "create", "acme", "--rate-per-hour", "500", **ops)
    await far.ok("tenant", "edit", "acme", "--rate-per-hour", "none", "--one-at-a-time", "yes", **ops)
    acme = (await far.ok("tenant", "show", "acme", "--json", **ops)).json
    assert (acme["ratePerHour"], acme["oneAtATime"]) == (None, True)
    key = (await far.ok("key", "create", "--tenant", "acme", "--scope", "send", **ops)).out.strip()
    [listed] = (await far.ok("key", "list", "--tenant", "acme", "--json", **ops)).json
    assert (key[-4:], listed["scopes"]) == (listed["hint"], ["send"])
    await far.ok("key", "revoke", str(listed["id"]), **ops)
    await far.ok("setting", "set", "MAILWRIGHT_DAILY_LIMIT", "5000", **ops)
    assert "5000" in (await far.ok("setting", "show", "MAILWRIGHT_DAILY_LIMIT", **ops)).out
    await far.ok("setting", "unset", "MAILWRIGHT_DAILY_LIMIT", **ops)
    assert "token=" in (await far.ok("user", "invite", "g@example.com", "--all-tenants", "--link", **ops)).out
    await far.ok("provider", "create", "spare", "--kind", "mailbox", **ops)
    await far.ok("provider", "edit", "spare", "--set", "MAILWRIGHT_RATE_PER_HOUR=100", **ops)
    await far.ok("provider", "route", "spare", "--tenant", "acme", **ops)
    assert "acme" in (await far.ok("provider", "list", **ops)).out
    await far.ok("provider", "unroute", "--tenant", "acme", **ops)
    await far.ok("provider", "delete", "spare", "--yes", **ops)
    made = await far.ok("report-source", "create", "postfix-1", "--tenant", "acme", **ops)
    assert (made.out.startswith("rpsec_"), "/v1/reports/postfix-1" in made.err) == (True, True)
    refused = await far.run("tenant", "list")
    assert (refused.code, "mailwright key create --platform" in refused.err) == (1, True)
    wrong = await far.run("list", "list", **ops)
    assert (wrong.code, "mailwright key create --tenant NAME" in wrong.err) == (1, True)
    assert (await far.run("user", "link", "ada", **ops)).code == 2
    assert list(far.folder.iterdir()) == []


async def test_remote_import_uploads_the_file_and_fetches_the_report(
    database: Database, clock: ManualClock, tmp_path: Path
) -> None:
    people = b"E-Mail,Name,Newsletter\nada@example.com,Ada,yes\nbob@example.com,Bob,perhaps\nnobody,,yes\n"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "people.csv").write_bytes(people)
    async with an_api(database, clock, imports=tmp_path / "imports") as api, on_a_socket(api.app) as address:
        far = Commands(elsewhere, {"MAILWRIGHT_SERVER": address, "MAILWRIGHT_API_KEY": api.key})
        seen = await far.ok("contact", "import", "people.csv", "--list", "news", "--dry-run")
        assert ("The list news would be created" in seen.err, "1 of 3 rows will be refused" in seen.out) == (True, True)
        assert "line 3: bob@example.com" in seen.out
        wrong = await far.run("contact", "import", "people.csv", "--map", "E-Mail")
        assert (wrong.code, wrong.err.startswith("--map: ")) == (2, True)
        done = await far.ok("contact", "import", "people.csv", "--list", "news", "--tag", "spring", COLUMNS="200")
        assert done.out.startswith("2 added, 0 changed, 0 unchanged, 1 refused. Subscribed: 1.")
        assert "Created the list news" in done.err
        report = (elsewhere / "people.report.csv").read_text().splitlines()
        assert (len(report), report[0]) == (4, "line,email,outcome,why")
        again = await far.ok("contact", "import", "people.csv", "--list", "news", "--json", "--report", "again.csv")
        assert (again.json["unchanged"], again.json["fileName"], again.json["report"]) == (2, "people.csv", "again.csv")
        assert (elsewhere / "again.csv").read_text().count("\n") == 4
        assert (await api.client.get("/v1/contacts/ada@example.com")).json()["tags"] == ["spring"]
        missing = await far.run("contact", "import", "people.csv", "--tenant", "other")
        assert (missing.code, missing.err.startswith("--tenant: has no effect")) == (2, True)


async def test_remote_move_uploads_every_file(database: Database, clock: ManualClock, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "subscribed.csv").write_text("Email Address,First Name\nada@example.com,Ada\nbob@example.com,Bob\n")
    (elsewhere / "unsubscribed.csv").write_text("Email Address,First Name\nbob@example.com,Bob\n")
    async with an_api(database, clock, imports=tmp_path / "imports") as api, on_a_socket(api.app) as address:
        far = Commands(elsewhere, {"MAILWRIGHT_SERVER": address, "MAILWRIGHT_API_KEY": api.key})
        files = ("--subscribed", "subscribed.csv", "--unsubscribed", "unsubscribed.csv", "--list", "news")
        command = ("contact", "import-from", "mailchimp", *files)
        seen = await far.ok(*command, "--dry-run")
        assert seen.out.endswith("= 3 rows. Nothing was stored.\n")
        done = await far.ok(*command, "--report", "moved.csv")
        assert done.out.startswith("1 subscribed + 1 unsubscribed + 0 bounced + 0 refused + 1 repeated = 3 rows.")
        assert (elsewhere / "moved.csv").read_text().count("\n") == 4
        [listed] = (await far.ok("list", "list", "--json")).json
        assert (listed["listKey"], listed["subscribers"]) == ("news", 1)
        empty = await far.run("contact", "import-from", "mailchimp")
        assert (empty.code, empty.err) == (2, "FILE: give at least one file.\n")


async def test_remote_tenant_sends_again_after_its_last_domain(far: Commands, api: Api) -> None:
    ops = {"MAILWRIGHT_API_KEY": await api.engine.keys.create(None, "ops", PLATFORM_SCOPES)}
    assert (await far.run("domain", "unrestrict", **ops)).code == 1
    await far.ok("domain", "add", "acme.example")
    async with api.engine.database.write() as tx:
        await tx.execute(update(sender_domains).values(verified_at=1))
    deleted = await far.ok("domain", "delete", "acme.example")
    assert (deleted.out, "unrestrict" in deleted.err) == ("Deleted the sender domain acme.example.\n", True)
    async with socket_client(far.settings["MAILWRIGHT_SERVER"]) as client:
        headers = {"Authorization": f"Bearer {ops['MAILWRIGHT_API_KEY']}"}
        [found] = (await client.get("/v1/restricted-tenants", headers=headers)).json()["tenants"]
    assert found["tenant"] == "default"
    refused = await far.run("domain", "unrestrict")
    assert (refused.code, "mailwright key create --platform" in refused.err) == (1, True)
    await far.ok("domain", "unrestrict", **ops)
    assert (await far.run("domain", "unrestrict", **ops)).code == 1


async def test_remote_campaign_goes_from_draft_to_start(far: Commands, api: Api) -> None:
    await far.ok("list", "create", "news")
    await far.ok("list", "subscribe", "news", "ada@example.com", "--confirmed")
    (far.folder / "news.html").write_text("<p>Hello {{ unsubscribe_url }}</p>")
    (far.folder / "a.txt").write_text("A file")
    draft = ("campaign", "create", "--name", "News", "--subject", "News", "--list", "news", "--html", "news.html")
    campaign_id = (await far.ok(*draft, "--attach", "a.txt", "--daily-limit", "500")).out.strip()
    assert "500 per day" in (await far.ok("campaign", "limits", campaign_id)).out
    limited = await far.ok("campaign", "limits", campaign_id, "--daily-limit", "none", "--rate-per-hour", "9", "--json")
    assert (limited.json["dailyLimit"], limited.json["ratePerHour"]) == (None, 9)
    assert "Updated News." in (await far.ok("campaign", "edit", campaign_id, "--var", "n=1", "--detach", "a.txt")).out
    shown = (await far.ok("campaign", "show", campaign_id, "--json")).json
    assert (shown["attachments"], shown["definition"]["variables"]) == ([], {"n": 1})
    assert len((await far.ok("campaign", "test", campaign_id, "ada@example.com")).out.split()) == 1
    assert "News" in (await far.ok("campaign", "list", COLUMNS="200")).out
    assert "Ready to start (1 recipient)." in (await far.ok("campaign", "check", campaign_id)).out
    assert "News is now" in (await far.ok("campaign", "start", campaign_id)).out
    assert "Audience: 1." in (await far.ok("campaign", "show", campaign_id)).out
    (far.folder / "large.bin").write_bytes(b"0" * 30_000_000)
    refused = await far.run(*draft, "--attach", "large.bin")
    assert (refused.code > 0, len((await far.ok("campaign", "list", "--json")).json)) == (True, 1)
