"""Mailouts for tests: stand-ins for Notion and Supabase, an engine, and a clock that can be advanced."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import select

from mailwright.app.mailouts import MailoutService, drain_mailouts
from mailwright.audience.status import ContactStatusService
from mailwright.domain.clock import Instant, SystemClock
from mailwright.domain.report import ContactVerdict, Report
from mailwright.domain.states import CLAIMABLE, EventType
from mailwright.ops.settings import Settings
from mailwright.providers.protocol import Provider
from mailwright.sources.mailouts.runs import MailoutRun
from mailwright.sources.mailouts.sender import MailoutSender
from mailwright.storage.tables import messages
from tests.builders import DEFAULT_TENANT, Bench, a_bench
from tests.notion_pages import ERROR_COLUMNS, MAILOUT_COLUMNS, Described, said
from tests.standins.notion import TOKEN, NotionStandIn
from tests.standins.provider import ScriptedProvider
from tests.standins.supabase import SECRET_KEY, SupabaseStandIn

ACTOR = "tester"
SETTINGS: dict[str, Any] = {
    "org_name": "Example Org",
    "org_address": "1 Example Street",
    "unsubscribe_base_url": "https://news.example.com/unsubscribe",
    "from_email": "news@example.com",
    "from_name": "Example News",
    "test_emails": "tester@example.com, second@example.com",
    # Fast, except in tests that measure the interval.
    "send_rate_per_sec": 1000,
    "notion_token": TOKEN,
    # The messages go to a scripted provider; the settings only say that it is not the local mailbox.
    "provider": "smtp",
    "smtp_url": "smtp://relay.example.com",
}


class ShiftedClock:
    """Real time plus the duration of all simulated waits."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self._shift: Instant = 0

    def now(self) -> Instant:
        return self._clock.now() + self._shift

    def advance(self, duration: Instant) -> None:
        self._shift += duration

    async def sleep(self, seconds: float) -> None:
        self.advance(round(seconds * 1_000) + 1)


class MailoutBench:
    def __init__(
        self, bench: Bench, clock: ShiftedClock, notion: NotionStandIn, supabase: SupabaseStandIn, databases: list[str]
    ) -> None:
        self.bench = bench
        self.database = bench.database
        self.clock = clock
        self.notion = notion
        self.supabase = supabase
        self.mailouts_database, self.errors_database = databases
        self.provider = ScriptedProvider()
        self.service = self.another_service()

    def another_service(self, settings: Settings | None = None) -> MailoutService:
        """Return a service as another process would have it."""
        engine = self.bench.engine
        chosen = settings or engine.settings
        sleep, steady = self.clock.sleep, self.clock
        return MailoutService(chosen, engine.database, self.clock, engine.templates, sleep=sleep, steady=steady)

    def page(self, *, blocks: Sequence[Described] | None = None, **cells: Any) -> str:
        """Add a page to the mailouts table. Underscores in column names stand for spaces."""
        named = {name.replace("_", " "): value for name, value in {"Subject": "News of March", **cells}.items()}
        written = [said("paragraph", "Hello, readers.")] if blocks is None else blocks
        return self.notion.add_page(self.mailouts_database, named, blocks=written)

    def subscribe(self, *emails: str, **fields: Any) -> None:
        for email in emails:
            self.supabase.add("subscribers", email=email, **fields)

    async def mailouts(self) -> MailoutSender:
        return await self.service.open()

    async def send(self, page: str) -> MailoutRun:
        return await (await self.mailouts()).send(page, actor=ACTOR)

    async def work(self) -> None:
        """Do all due work on runs, without sending messages."""
        await drain_mailouts(self.service)

    async def deliver(self, provider: Provider | None = None) -> None:
        await self.bench.drain(provider or self.provider)

    async def finish(self, run: MailoutRun, provider: Provider | None = None) -> MailoutRun:
        """Prepare, send and write back the results."""
        await self.work()
        await self.deliver(provider)
        self.clock.advance(10_000)
        if not (await self.bench.statuses()).keys().isdisjoint(CLAIMABLE):  # A lane may have been deferred.
            await self.deliver(provider)
        await self.work()
        return await self.find(run)

    async def find(self, run: MailoutRun) -> MailoutRun:
        return await self.service.runs.find(run.mailout_id, tenant_id=None)

    async def find_by_id(self, run_id: str) -> MailoutRun:
        return await self.service.runs.find(run_id, tenant_id=None)

    async def report(self, what: str, *emails: str) -> None:
        """Report an event of the latest message to each address, as a provider's webhook would."""
        async with self.database.read() as tx:
            newest = select(messages.c.to_email, messages.c.outbox_id).where(messages.c.to_email.in_(emails))
            rows = await tx.execute(newest.order_by(messages.c.id))
        all_emails = {row.to_email: row.outbox_id for row in rows}
        verdict = {
            "bounce": ContactVerdict.HARD_BOUNCE,
            "soft bounce": ContactVerdict.SOFT_BOUNCE,
            "complaint": ContactVerdict.COMPLAINT,
        }.get(what, ContactVerdict.NOTHING)
        told = [
            Report(
                key=f"{what}:{all_emails[email]}",
                source="ses",
                type=EventType(what.removeprefix("soft ")),
                at=self.clock.now(),
                recipient=email,
                outbox_id=all_emails[email],
                verdict=verdict,
                bounce_type="Permanent" if what == "bounce" else None,
                bounce_subtype="General" if what == "bounce" else None,
            )
            for email in emails
        ]
        await self.bench.engine.reports.receive(told)

    async def leave(self, email: str, message_id: str | None = None) -> None:
        status = ContactStatusService(self.database, self.clock)
        await status.unsubscribe_by_link(DEFAULT_TENANT, email, source="link", message_id=message_id)

    async def come_back(self, email: str) -> None:
        await ContactStatusService(self.database, self.clock).resubscribe_by_link(DEFAULT_TENANT, email, source="link")

    @property
    def reached(self) -> list[str]:
        """The recipients that were handed to the provider, in order."""
        return [message.recipients[0] for message in self.provider.messages]

    def errors(self) -> list[dict[str, Any]]:
        """The rows of the errors table in Notion."""
        return self.notion.rows(self.errors_database)

    def cells(self, page: str) -> dict[str, Any]:
        return self.notion.cells(page)


@asynccontextmanager
async def a_mailout_bench(
    url: str, *, with_supabase: bool = True, columns: Mapping[str, Any] = MAILOUT_COLUMNS, **settings: Any
) -> AsyncIterator[MailoutBench]:
    clock = ShiftedClock()
    async with NotionStandIn(clock=clock) as notion, SupabaseStandIn() as supabase:
        databases = [notion.add_database("Mailouts", columns), notion.add_database("Errors", ERROR_COLUMNS)]
        there = {"supabase_url": supabase.url, "supabase_service_role_key": SECRET_KEY} if with_supabase else {}
        named = {"notion_url": notion.url, "notion_db_mailouts": databases[0], "notion_db_errors": databases[1]}
        options = {**SETTINGS, **there, **named, **settings}
        async with a_bench(url, clock, **options) as bench:  # type: ignore[arg-type]
            made = MailoutBench(bench, clock, notion, supabase, databases)
            try:
                yield made
            finally:
                await made.service.close()
        assert not notion.violations
        assert not supabase.violations
