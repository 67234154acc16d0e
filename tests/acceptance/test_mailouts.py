"""Mailouts end to end: real processes, stand-ins for Notion, Supabase and SES, and failures."""

import asyncio
import csv
import io
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from email import message_from_bytes, policy
from email.message import EmailMessage
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from sqlalchemy import select, update

from mailwright.domain.clock import SystemClock
from mailwright.domain.states import EventType, Status
from mailwright.storage.database import Database
from mailwright.storage.tables import deliveries, events, mailouts
from tests.acceptance.commands import PATIENCE_SECONDS, SECONDS, Commands, Service, until
from tests.api import socket_client
from tests.conftest import DatabaseAddress
from tests.notion_pages import ERROR_COLUMNS, MAILOUT_COLUMNS, said
from tests.standins import ses as ses_names
from tests.standins.http import Answer, Step
from tests.standins.notion import TOKEN, NotionStandIn
from tests.standins.ses import SEND, SesMail, SesStandIn
from tests.standins.sns import TOPIC, Signer, ses_event
from tests.standins.supabase import SECRET_KEY, SupabaseStandIn
from tests.tracking import BROWSER

RATE = 50
PASSWORD = "a-password-for-tests"
ADMINISTRATOR = {"Authorization": f"Bearer {PASSWORD}"}
TIMEOUT = httpx.Timeout(30)


@dataclass(frozen=True)
class Stage:
    database_url: str
    commands: Commands
    notion: NotionStandIn
    supabase: SupabaseStandIn
    ses: SesStandIn
    signer: Signer
    mailouts: str
    errors: str

    def page(self, **cells: Any) -> str:
        named = {name.replace("_", " "): value for name, value in {"Subject": "News of March", **cells}.items()}
        return self.notion.add_page(self.mailouts, named, blocks=[said("paragraph", "Hello, readers.")])

    @property
    def reached(self) -> list[str]:
        return [message.recipients[0] for message in self.ses.messages]

    @asynccontextmanager
    async def served(self, **settings: str) -> AsyncIterator[tuple[Service, httpx.AsyncClient]]:
        async with self.commands.service("serve", "--port", "0", **settings) as service:
            address = (await service.logged("api_started"))["address"]
            reading = asyncio.create_task(service.read_log())
            try:
                async with socket_client(address, timeout=TIMEOUT) as client:
                    yield service, client
            finally:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)

    async def written_back(self, is_so: Callable[[], bool], what: str) -> None:
        """Wait for results in Notion, without the pauses between updates and between attempts."""
        database, clock = Database(self.database_url), SystemClock()
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not is_so():
                    # A run that is due keeps its place before those that become due now, or it might never have a turn.
                    now = clock.now()
                    async with database.write() as tx:
                        await tx.execute(update(mailouts).where(mailouts.c.due_at > now).values(due_at=now))
                    await asyncio.sleep(0.5)
        except TimeoutError as error:
            raise AssertionError(f"it never happened: {what}") from error
        finally:
            await database.close()


@pytest.fixture
async def stage(engine: DatabaseAddress, tmp_path: Path) -> AsyncIterator[Stage]:
    async with AsyncExitStack() as stack:
        notion = await stack.enter_async_context(NotionStandIn(clock=SystemClock()))
        supabase = await stack.enter_async_context(SupabaseStandIn())
        ses = await stack.enter_async_context(SesStandIn())
        # No limit for tests.
        ses.account.max_send_rate, ses.account.max_24_hour_send = 5_000.0, 1_000_000.0
        signer = Signer(time.time_ns() // 1_000_000)
        mailouts = notion.add_database("Mailouts", MAILOUT_COLUMNS)
        errors = notion.add_database("Errors", ERROR_COLUMNS)
        settings = {
            "MAILWRIGHT_DATABASE_URL": engine.url,
            "MAILWRIGHT_PROVIDER": "ses",
            "MAILWRIGHT_SES_URL": ses.url,
            "MAILWRIGHT_SNS_CERTS": str(signer.keep(tmp_path / "certificates")),
            "SNS_TOPIC_ARNS": TOPIC,
            "AWS_REGION": ses_names.REGION,
            "AWS_ACCESS_KEY_ID": ses_names.ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": ses_names.SECRET_KEY,
            "MAILWRIGHT_LOCK_TTL_SECONDS": "3",
            "MAILWRIGHT_NOTION_URL": notion.url,
            "NOTION_API_TOKEN": TOKEN,
            "NOTION_DB_MAILOUTS_ID": mailouts,
            "NOTION_DB_ERRORS_ID": errors,
            "SUPABASE_URL": supabase.url,
            "SUPABASE_SERVICE_ROLE_KEY": SECRET_KEY,
            "SES_FROM_EMAIL": "news@example.com",
            "FROM_NAME": "Example News",
            "ORG_NAME": "Example Org",
            "ORG_ADDRESS": "1 Example Street",
            "UNSUBSCRIBE_BASE_URL": "https://news.example.com/unsubscribe",
            "UNSUBSCRIBE_SECRET": "s" * 32,
            "TEST_EMAILS": "tester@example.com; Tester@Example.com second@example.com",
            "RATE_LIMIT_PER_SEC": str(RATE),
            "ADMIN_PASSWORD": PASSWORD,
        }
        yield Stage(engine.url, Commands(tmp_path, settings), notion, supabase, ses, signer, mailouts, errors)
        assert not [*notion.violations, *supabase.violations, *ses.violations]
        assert notion.too_fast == 0


@pytest.mark.timeout(600)
async def test_everyone_gets_one_message_despite_crash_and_outage(stage: Stage) -> None:
    """203 subscribers in three pages, five of them duplicated in another case; SES refuses three addresses; the
    process is killed early; Notion is down when the results are written."""
    stage.supabase.max_rows = 80
    everyone = [f"reader{number:04}@example.com" for number in range(198)]
    for email in (*everyone, *(f"Reader{number:04}@Example.com" for number in range(5))):
        stage.supabase.add("subscribers", email=email)
    refused = {everyone[140], everyone[165], everyone[190]}
    stage.ses.account.suppressed = refused
    key = (await stage.commands.ok("key", "create")).out.strip()
    page = stage.page()

    async with stage.served() as (service, client):
        answer = await client.post("/send-mailout", json={"notionPageId": page}, headers=ADMINISTRATOR)
        assert answer.status_code == 202, answer.text
        run_id = answer.json()["runId"]
        again = await client.post("/send-mailout", json={"notionPageId": page}, headers=ADMINISTRATOR)
        assert (again.status_code, again.json()["code"]) == (409, "mailout_already_sent")
        killed = asyncio.Event()
        stage.ses.call(Step.ANSWERED, lambda: (service.signal(9), killed.set()), nth=50, path=SEND)  # type: ignore[arg-type]
        await killed.wait()
        await service.process.wait()
    taken = list(stage.ses.messages)
    # A request that was under way when the process was killed may still arrive.
    assert len(taken) in range(50, 60)

    stage.notion.answer(Answer(503))
    before = len(stage.notion.requests)
    async with stage.served() as (_, client):
        await until(lambda: len(stage.reached) >= 90, "messages after the kill")
        # What a worker began to send just before the kill may never have left. It stays in doubt until a decision.
        reached = list(stage.reached)
        lost = [email for email in everyone[: len(reached)] if email not in reached]
        assert len(lost) < 10
        assert reached == [email for email in everyone if email not in lost][: len(reached)]
        assert min(await _gaps(stage)) >= 1_000 / RATE
        # At its configured rate the rest would take minutes. The recipients are the same at any rate.
        await _lift_pace(client, key, run_id)
        await until(lambda: len(stage.reached) == len(everyone) - len(refused) - len(lost), "all other messages")
        for email in lost:
            await _send_again(stage, email)
        await until(lambda: len(stage.reached) == len(everyone) - len(refused), "all messages")
        # Messages in flight when the process was killed are in doubt until SES reports: a few, or many if it was slow.
        for message in taken[-20:]:
            await _tell(stage.signer, client, message)
        await until(lambda: any(page in each.path for each in stage.notion.requests[before:]), "the first try")
        assert stage.notion.cells(page)["Status"] is None
        stage.notion.forget_rules()
        await stage.written_back(lambda: stage.notion.cells(page)["Sent Count"] == 195, "the report")
        await stage.written_back(lambda: len(stage.notion.rows(stage.errors)) == 4, "the errors")
        await stage.written_back(lambda: stage.notion.cells(page)["Delivered Count"] == 20, "the deliveries")
        await stage.written_back(lambda: len(stage.supabase.rows("send_logs")) >= len(everyone), "the logs")

    counted = Counter(stage.reached)
    assert counted == Counter(set(everyone) - refused)
    cells = stage.notion.cells(page)
    assert (cells["Status"], cells["Sent Count"], cells["Failed Count"]) == ("Failed", 195, 3)
    rows = stage.notion.rows(stage.errors)
    assert Counter(row["Error Code"] for row in rows) == {"mailout_already_sent": 1, "SES_MESSAGE_REJECTED": 3}
    assert {row["Email"] for row in rows if row["Email"]} == refused
    report = (await stage.commands.ok("mailout", "report", run_id)).out
    lines = list(csv.DictReader(io.StringIO(report)))
    assert [line["email"] for line in lines] == everyone
    assert {line["email"] for line in lines if line["status"] == "FAILED"} == refused
    assert all(line["sent_at"] for line in lines if line["status"] == "SENT")
    logs = Counter((row["email"], row["status"]) for row in stage.supabase.rows("send_logs"))
    assert logs == Counter((email, "failed" if email in refused else "sent") for email in everyone)


async def _send_again(stage: Stage, email: str) -> None:
    found: list[dict[str, str]] = []
    while not found:
        listed = await stage.commands.ok("message", "list", "--to", email, "--status", "in_doubt", "--json")
        found = json.loads(listed.out)
    await stage.commands.ok("message", "resolve", found[0]["outboxId"], "--as", "resend")


@pytest.mark.promise("mailout-page-once")
@pytest.mark.timeout(300)
async def test_kill_while_reading_recipients_loses_nobody(stage: Stage) -> None:
    """Killed at the first request to Supabase, and then at a later page of subscribers."""
    stage.supabase.max_rows = 40
    everyone = [f"reader{number:03}@example.com" for number in range(100)]
    for email in everyone:
        stage.supabase.add("subscribers", email=email)
    page = stage.page()
    for pages, command in ((1, ("mailout", "send", page)), (3, ("worker",))):
        held = stage.supabase.hold(Step.ANSWER, nth=pages, path="/rest/v1/subscribers")
        async with stage.commands.service(*command, RATE_LIMIT_PER_SEC="1000") as service:
            await held.reached.wait()
            await service.kill()
        held.release()
        assert stage.reached == []
    async with stage.commands.service("worker", RATE_LIMIT_PER_SEC="1000"):
        await stage.written_back(lambda: stage.notion.cells(page)["Status"] == "Send", "the report")
    assert stage.reached == everyone


async def test_bounce_from_sns_reaches_supabase_and_notion(stage: Stage) -> None:
    for email in ("Ada@example.com", "bob@example.com"):
        stage.supabase.add("subscribers", email=email)
    page = stage.page()
    async with stage.served() as (_, client):
        await client.post("/send-mailout", json={"notionPageId": page}, headers=ADMINISTRATOR)
        await until(lambda: stage.notion.cells(page)["Status"] == "Send", "the report")
        ada, bob = sorted(stage.ses.messages, key=lambda message: message.recipients)
        await _tell(stage.signer, client, ada, "Bounce")
        await _tell(stage.signer, client, bob)
        await until(lambda: stage.supabase.subscriber("Ada@example.com")["status"] == "bounced", "the bounce")
        link = _way_out(bob)
        token = parse_qs(urlsplit(link).query)["token"][0]
        left = await client.get("/unsubscribe", params={"token": token}, headers={"User-Agent": BROWSER})
        assert left.status_code == 200
        bad = await client.get("/unsubscribe", params={"token": "nonsense"})
        assert bad.status_code == 400
        await until(lambda: stage.supabase.subscriber("bob@example.com")["status"] == "unsubscribed", "the leaving")
        await stage.written_back(lambda: stage.notion.cells(page)["Bounce Rate"] == 0.5, "the figures")
    assert stage.supabase.subscriber("Ada@example.com")["bounce_type"] == "Permanent"


async def _gaps(stage: Stage) -> list[int]:
    """Return the milliseconds between starts of sends across processes. Sends that a kill interrupted have no start
    time."""
    database = Database(stage.database_url)
    begun = (events.c.type == EventType.SENT_ATTEMPT) & (deliveries.c.status == Status.SENT)
    try:
        async with database.read() as tx:
            there = events.join(deliveries, deliveries.c.message_key == events.c.message_key)
            rows = await tx.execute(select(events.c.created_at).select_from(there).where(begun))
    finally:
        await database.close()
    moments = sorted(row.created_at for row in rows)
    assert len(moments) > 50
    return [after - before for before, after in pairwise(moments)]


async def _lift_pace(client: httpx.AsyncClient, key: str, campaign_id: str) -> None:
    headers = {"Authorization": f"Bearer {key}"}
    async with asyncio.timeout(SECONDS):
        while (
            await client.put(f"/v1/campaigns/{campaign_id}/limits", json={}, headers=headers)
        ).status_code == httpx.codes.NOT_FOUND:
            await asyncio.sleep(0.1)


async def _tell(signer: Signer, client: httpx.AsyncClient, message: SesMail, kind: str = "Delivery") -> None:
    outbox_id = message.tags["mailwright-message"]
    event = ses_event(kind, message.recipients[0], message_id=message.message_id, outbox_id=outbox_id)
    body = signer.notification(json.dumps(event))
    answer = await client.post("/ses-events", content=body)
    assert answer.status_code == 200, answer.text


def _way_out(message: SesMail) -> str:
    parsed = message_from_bytes(message.content, policy=policy.default)
    assert isinstance(parsed, EmailMessage)
    text = parsed.get_body(("plain",))
    assert text is not None
    return text.get_content().partition("Unsubscribe: ")[2].split()[0]
