"""Moving from AmazonSender: its `.env`, Notion table and subscribers, with a test, a real mailout and an old link."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from email import message_from_bytes, policy
from pathlib import Path

import httpx
import pytest

from mailwright.domain.clock import SystemClock
from tests.acceptance.commands import Commands, Service, until
from tests.amazonsender import COLUMNS, SHARED_SECRET, old_environment, old_link
from tests.api import socket_client
from tests.conftest import DatabaseAddress
from tests.engines import on_sqlite
from tests.notion_pages import ERROR_COLUMNS, said
from tests.standins import ses as ses_names
from tests.standins.notion import TOKEN, NotionStandIn
from tests.standins.ses import SesStandIn
from tests.standins.supabase import SECRET_KEY, SUBSCRIBERS, SupabaseStandIn

BROWSER = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"


@dataclass(frozen=True)
class Stage:
    commands: Commands
    notion: NotionStandIn
    supabase: SupabaseStandIn
    ses: SesStandIn
    mailouts: str

    @property
    def reached(self) -> list[str]:
        return [message.recipients[0] for message in self.ses.messages]


@pytest.fixture
async def stage(engine: DatabaseAddress, tmp_path: Path) -> AsyncIterator[Stage]:
    async with AsyncExitStack() as stack:
        notion = await stack.enter_async_context(NotionStandIn(clock=SystemClock()))
        supabase = await stack.enter_async_context(SupabaseStandIn(has_send_logs=False, postgrest=(12, 0)))
        supabase.columns["subscribers"] = {"id": None, **SUBSCRIBERS, "created_at": None}
        ses = await stack.enter_async_context(SesStandIn())
        mailouts = notion.add_database("Mailouts", COLUMNS)
        file = tmp_path / ".env"
        file.write_text(
            old_environment(
                notion_token=TOKEN,
                mailouts=mailouts,
                errors=notion.add_database("Errors", ERROR_COLUMNS),
                supabase_url=supabase.url,
                supabase_key=SECRET_KEY,
            )
            + f"AWS_REGION={ses_names.REGION}\nAWS_ACCESS_KEY_ID={ses_names.ACCESS_KEY}\n"
            + f"AWS_SECRET_ACCESS_KEY={ses_names.SECRET_KEY}\n"
        )
        # The settings that the guide adds, and the addresses of the stand-ins.
        settings = {
            "MAILWRIGHT_ENV_FILE": str(file),
            "MAILWRIGHT_PROVIDER": "ses",
            "MAILWRIGHT_DATABASE_URL": engine.url,
            "MAILWRIGHT_SES_URL": ses.url,
            "MAILWRIGHT_NOTION_URL": notion.url,
        }
        yield Stage(Commands(tmp_path, settings), notion, supabase, ses, mailouts)
        assert not [*notion.violations, *supabase.violations, *ses.violations]


@asynccontextmanager
async def served_at(service: Service) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client of the service. Its log is read meanwhile, because a full pipe would block it."""
    address = (await service.logged("api_started"))["address"]
    reading = asyncio.create_task(service.read_log())
    try:
        async with socket_client(address) as client:
            yield client
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


@pytest.mark.promise("moving-amazonsender")
@pytest.mark.timeout(300)
async def test_installation_of_amazonsender_moves_with_its_environment(stage: Stage) -> None:
    for number, email in enumerate((" Ada.Lovelace@example.com", "bob@example.com", "left@example.com")):
        status = "unsubscribed" if email.startswith("left") else "active"
        stage.supabase.add("subscribers", id=f"row-{number}", email=email, status=status)
    content = [said("paragraph", "Hello {{name}}, this is for {{email}}.")]
    page = stage.notion.add_page(
        stage.mailouts, {"Name": "News of March", "Status": "Send", "Test": True}, blocks=content
    )

    async with stage.commands.service("serve", "--port", "0") as service, served_at(service) as client:
        assert (await client.get("/health")).json() == {"ok": True, "dry_run": False}

        await until(lambda: stage.notion.cells(page)["Status"] == "Not started", "the test ends")
        assert (stage.reached, stage.notion.cells(page)["Sent Count"]) == (["tester@example.com"], 1)

        stage.notion.set_cell(page, "Test", False)
        stage.notion.set_cell(page, "Status", "Send real")
        await until(lambda: stage.notion.cells(page)["Status"] == "Done", "the mailout ends")
        assert stage.reached[1:] == ["ada.lovelace@example.com", "bob@example.com"]
        html = message_from_bytes(stage.ses.messages[1].content, policy=policy.default).get_body(("html",))
        assert html is not None
        assert "Hello ada lovelace, this is for ada.lovelace@example.com." in html.get_content()
        assert "You wrote to us, ada lovelace." in html.get_content()
        again = {"mailout_id": page, "auth_token": SHARED_SECRET}
        token = {"X-Auth-Token": SHARED_SECRET}
        # While the last figures are being written, the response is the run itself.
        while (answer := await client.post("/send-mailout", json=again, headers=token)).status_code == 202:
            await asyncio.sleep(0.05)
        assert (answer.status_code, answer.json()["code"]) == (409, "mailout_already_sent")

        # The old link acts at once, except for programs: a mail server that checks links must not unsubscribe anyone.
        link = old_link("ada.lovelace@example.com")
        checked = await client.get(link, headers={"Accept": "text/html"})
        assert (checked.status_code, "<button" in checked.text) == (200, True)
        ada = stage.supabase.subscriber(" Ada.Lovelace@example.com")
        assert ada["status"] == "active"
        left = await client.get(link, headers={"Accept": "text/html", "User-Agent": BROWSER})
        assert left.status_code == 200
        await until(lambda: ada["status"] == "unsubscribed", "Supabase knows that Ada left")
        assert stage.supabase.subscriber("bob@example.com")["status"] == "active"


@on_sqlite
@pytest.mark.promise("moving-amazonsender")
async def test_check_names_settings_that_have_no_effect(stage: Stage) -> None:
    stage.supabase.add("subscribers", email="ada@example.com")
    await stage.commands.ok("db", "upgrade")
    checked = await stage.commands.run("check", "--json", NOTION_TRIGER_STATUS_VALUE="Go")
    found = {finding["summary"].partition(" ")[0]: finding["summary"] for finding in checked.json["findings"]}
    assert "did you mean NOTION_TRIGGER_STATUS_VALUE?" in found["NOTION_TRIGER_STATUS_VALUE"]
    assert {"CSV_OUTPUT_DIR", "MACOS_NOTIFICATIONS"} <= found.keys()
    assert "PORT" not in found
    assert any("older than 12.1" in summary for summary in found.values())


@on_sqlite
@pytest.mark.promise("moving-amazonsender")
@pytest.mark.parametrize("command", [("serve", "--port", "0"), ("worker", "--drain"), ("check",)])
async def test_unclear_dry_run_starts_nothing(stage: Stage, command: tuple[str, ...]) -> None:
    ended = await stage.commands.run(*command, DRY_RUN_SEND="treu")
    assert ended.code != 0
    assert "DRY_RUN_SEND" in ended.out + ended.err
    assert "must be true or false" in " ".join((ended.out + ended.err).split())


@on_sqlite
async def test_dry_run_reaches_the_local_mailbox_only(stage: Stage) -> None:
    stage.supabase.add("subscribers", email="ada@example.com")
    page = stage.notion.add_page(
        stage.mailouts, {"Name": "News", "Status": "Send real", "Test": False}, blocks=[said("paragraph", "Hello.")]
    )
    async with stage.commands.service("serve", "--port", "0", DRY_RUN_SEND="true") as service:
        warned = await service.logged("dry_run")
        assert "nobody receives it" in warned["message"]
        async with served_at(service) as client:
            assert (await client.get("/health")).json()["dry_run"] is True
            await until(lambda: stage.notion.cells(page)["Status"] == "Not started", "the rehearsal ends")
    assert (stage.reached, stage.notion.cells(page)["Sent At"]) == ([], None)
