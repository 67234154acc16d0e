"""`mailwright export` and `apply`: the installation as a file."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mailwright.access.roles import PLATFORM_SCOPES
from mailwright.domain.clock import ManualClock
from mailwright.storage.database import Database
from tests.acceptance.commands import Commands
from tests.api import Api, an_api, on_a_socket
from tests.conftest import DatabaseAddress

FILLED = """
brand: {name: Acme, primary: "#112233"}
lists:
  news: {name: Product news, requiresConfirmation: true, tracking: off}
segments:
  vip: {filter: {tag: vip}}
templates:
  receipt:
    subject: Hello
    html: |
      <p>Hello {{ name }}</p>
      <p>Bye</p>
  receipt/pt: {subject: Olá, markdown: "Olá {{ name }}"}
  design: {subject: Hi, blocks: {version: 1, blocks: [{id: a, type: text, html: <p>Hi</p>}]}}
forms:
  Shop: {listKey: news, title: Join, consents: [{key: terms, wording: "I  agree"}]}
sequences:
  Welcome:
    trigger: {joinsList: news}
    steps:
      - {id: hello, send: {template: receipt}}
      - {id: pause, wait: {days: 1}}
webhooks:
  https://example.com/hook: {types: [bounce, SENT]}
domains:
  acme.example: {sender: news@acme.example}
"""
PLATFORM = """
settings: {MAILWRIGHT_DAILY_LIMIT: 5000, SENDGRID_API_KEY: "${SMTP_WORD}"}
tenants:
  default: {frequencyCap: 3 per 7 days, workingHours: "Mon-Fri 09:00-18:00", warmupSince: 2027-01-15}
  acme: {weight: 2}
"""
NOTHING = "Nothing to change.\n"


@pytest.fixture
async def here(engine: DatabaseAddress, tmp_path: Path) -> Commands:
    return Commands(tmp_path, {"MAILWRIGHT_DATABASE_URL": engine.url, "MAILWRIGHT_SECRET_KEY": "s" * 43})


async def apply(commands: Commands, text: str, *options: str) -> str:
    (commands.folder / "file.yaml").write_text(text)
    return (await commands.ok("apply", "file.yaml", *options, SMTP_WORD="hidden word")).out


async def refused(commands: Commands, text: str, *options: str) -> tuple[int, str]:
    (commands.folder / "file.yaml").write_text(text)
    ended = await commands.run("apply", "file.yaml", *options)
    return ended.code, ended.err


async def test_exported_installation_applies_without_change(here: Commands) -> None:
    for text, options in ((FILLED, ()), (PLATFORM, ("--platform",))):
        assert "Applied changes: " in await apply(here, text)
        assert await apply(here, text) == NOTHING
        exported = (await here.ok("export", *options)).out
        assert "hidden" not in exported
        assert "whsec_" not in exported
        assert await apply(here, exported, "--prune") == NOTHING
    await here.ok("tenant", "show", "acme")
    exported = (await here.ok("export")).out
    assert "<p>Hello {{ name }}</p>\n" in exported
    await apply(
        here,
        exported.replace("domains:\n  acme.example:", "domains:\n  acme2.example:").replace(
            "news@acme.example", "news@acme2.example"
        ),
        "--tenant",
        "acme",
    )
    assert (await here.ok("export", "--tenant", "acme")).out.replace("acme2.", "acme.") == exported


async def test_plan_is_applied_only_as_it_was_seen(here: Commands) -> None:
    await apply(here, "lists: {news: {name: News}, old: {}}")
    changed = "lists: {news: {name: Product news}}"
    assert "name: News → Product news" in await apply(here, changed, "--diff", "--prune")
    shown = await apply(here, changed, "--plan", "--prune")
    assert shown.startswith("~ lists news\n- lists old\n")
    digest = shown.rpartition(" ")[2].strip()
    await here.ok("list", "edit", "news", "--name", "Other")
    assert (await refused(here, changed, "--prune", "--digest", digest))[0] == 2
    await here.ok("list", "edit", "news", "--name", "News")
    assert len((await here.ok("list", "list", "--json")).json) == 2
    await apply(here, changed, "--prune", "--digest", digest)
    assert [each["name"] for each in (await here.ok("list", "list", "--json")).json] == ["Product news"]


async def test_sequence_is_edited_and_deleted_as_a_draft(here: Commands) -> None:
    steps = "steps: [{id: pause, wait: {days: 1}}]"
    await apply(
        here,
        f"sequences: {{Welcome: {{trigger: {{manual: true}}, {steps}}}, Old: {{trigger: {{manual: true}}, {steps}}}}}",
    )
    longer = f"sequences: {{Welcome: {{{steps.replace('1', '2')}}}}}"
    assert await apply(here, longer, "--plan", "--prune") != NOTHING
    assert (await apply(here, longer, "--prune")).startswith("~ sequences Welcome\n- sequences Old\n")
    assert await apply(here, longer, "--prune") == NOTHING
    [left] = (await here.ok("sequence", "list", "--json")).json
    assert (left["name"], left["status"], left["revision"]) == ("Welcome", "draft", 2)
    code, err = await refused(
        here, f"lists: {{news: {{}}}}\nsequences: {{Welcome: {{{steps.replace('pause', 'x y')}}}}}"
    )
    assert (code, "line 2: sequences.Welcome" in err) == (2, True), err
    assert (await here.ok("list", "list", "--json")).json == []


async def test_one_bad_entry_changes_nothing(here: Commands) -> None:
    code, err = await refused(here, "lists:\n  news:\n    nmae: x\nforms:\n  Shop: {}\nlist: {}\n")
    assert code == 2
    for place in ("line 3: lists.news.nmae", "line 5: forms.Shop.listKey", "line 6: list:"):
        assert place in err
    code, err = await refused(here, "lists: {news: {}}\nforms: {Shop: {listKey: missing}}")
    assert (code, err.startswith("Forms Shop: There is no list"), "Nothing was changed." in err) == (1, True, True)
    assert (await here.ok("list", "list", "--json")).json == []
    assert "news is written twice" in (await refused(here, "lists:\n  news: {}\n  news: {}\n"))[1]
    assert "is a secret" in (await refused(here, "settings: {SENDGRID_API_KEY: word}"))[1]
    assert "SMTP_WORD is not set" in (await refused(here, PLATFORM))[1]


@pytest.fixture
async def api(database: Database, clock: ManualClock) -> AsyncIterator[Api]:
    async with an_api(database, clock) as api:
        yield api


async def test_file_is_applied_to_another_server(api: Api, tmp_path: Path) -> None:
    async with on_a_socket(api.app) as address:
        far = Commands(tmp_path, {"MAILWRIGHT_SERVER": address, "MAILWRIGHT_API_KEY": api.key})
        await apply(far, FILLED)
        assert await apply(far, (await far.ok("export")).out, "--prune") == NOTHING
        code, err = await refused(
            far, "lists: {a: {}}\nforms: {b: {listKey: missing}}\nwebhooks: {https://c.example: {}}"
        )
        assert code == 1
        assert [line.partition(": ")[0] for line in err.splitlines()] == ["Applied", "Not applied", "Failed"]
        key = await api.engine.keys.create(None, "ops", PLATFORM_SCOPES)
        ops = Commands(tmp_path, {**far.settings, "MAILWRIGHT_API_KEY": key})
        assert "+ tenants acme" in await apply(ops, "tenants: {acme: {weight: 2}}")
        assert await apply(ops, (await ops.ok("export", "--platform")).out) == NOTHING
