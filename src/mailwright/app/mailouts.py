"""Wire mailouts from the settings, and run their background work."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter
from typing import Final, TypeVar
from urllib.parse import urlsplit

from aiohappyeyeballs import AddrInfoType

from mailwright.app.images import make_images
from mailwright.app.link_checks import public_only
from mailwright.app.turns import has_turn
from mailwright.content.headers import parse_mailbox
from mailwright.content.images import ImageStore
from mailwright.content.template_store import TemplateStore
from mailwright.domain.clock import SECOND, Clock, SteadyClock
from mailwright.domain.errors import NotDurable
from mailwright.ops.logs import logger
from mailwright.ops.periodic import exponential, run_periodically
from mailwright.ops.settings import Settings
from mailwright.outbox import tenants
from mailwright.outbox.ledger import DatabaseLedger
from mailwright.providers.http import HttpClient, Resolve, addresses_of
from mailwright.providers.route import providers_of
from mailwright.sources.mailouts.audience import ContactAudience, MailoutAudience, SupabaseAudience
from mailwright.sources.mailouts.notion import ErrorColumns, MailoutColumns, Notion, NotionError, SharedRateLimit
from mailwright.sources.mailouts.page_body import PageReader
from mailwright.sources.mailouts.prepare import MailoutPreparation
from mailwright.sources.mailouts.refusals import NOT_CONFIGURED, MailoutRefused
from mailwright.sources.mailouts.rendering import ImageCopier
from mailwright.sources.mailouts.runs import MailoutRuns
from mailwright.sources.mailouts.sender import MailoutSender
from mailwright.sources.mailouts.setup import FooterDetails, MailoutSetup, NotionStatuses
from mailwright.sources.mailouts.status_sync import StatusSync
from mailwright.sources.mailouts.supabase import Supabase, SupabaseError
from mailwright.sources.mailouts.verify import parse_names
from mailwright.sources.mailouts.write_back import WriteBack
from mailwright.sources.sender_rules import NO_SENDER_RULES, SenderRules
from mailwright.storage.database import Database

# The pause while there is nothing to do is this many times as long as the previous check, so checks usually take less
# than 5 % of the time. It is short even if one check took long, because the next one may find a new mailout.
PAUSE_FACTOR: Final = 20
IDLE_SECONDS: Final = 1.0
MAX_IDLE_SECONDS: Final = 5.0
STATUS_SYNC_INTERVAL: Final = 2 * SECOND
MAX_RETRY_SECONDS: Final = 300.0

Names = TypeVar("Names", MailoutColumns, ErrorColumns, NotionStatuses)

log = logger(__name__)


class MailoutService:
    """The mailout services of this process. They open connections on first use."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        clock: Clock,
        templates: TemplateStore,
        rules: SenderRules = NO_SENDER_RULES,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        steady: Clock | None = None,
    ) -> None:
        """Create the services. `sleep` must use the same clock as `steady`."""
        self.runs = MailoutRuns(database, clock, settings.lock_ttl_seconds * SECOND)
        self.settings = settings
        self._database = database
        self._clock = clock
        self._templates = templates
        self._rules = rules
        self._sleep = sleep
        self._steady = steady or SteadyClock()
        self._http: HttpClient | None = None
        self._image_http: HttpClient | None = None
        self._images: ImageStore | None = None
        self._mailouts: MailoutSender | None = None
        self._page_reader: PageReader | None = None
        self._status_sync: StatusSync | None = None

    @property
    def is_configured(self) -> bool:
        return self.settings.notion_token is not None

    @property
    def has_supabase(self) -> bool:
        return self.settings.has_supabase

    async def open(self) -> MailoutSender:
        if self._mailouts is None:
            self._mailouts = await self._build()
        return self._mailouts

    async def read_page(self, tenant_id: int, page: str) -> str:
        """Return the content of a Notion page as HTML, for the tenant whose integration can read it."""
        if tenant_id != await self._tenant_id():
            raise MailoutRefused("Notion is not connected to this tenant.", code=NOT_CONFIGURED)
        await self.open()
        if self._page_reader is None:
            raise MailoutRefused("Notion is not connected.", code=NOT_CONFIGURED)
        return await self._page_reader.read_html(page)

    async def status_sync(self) -> StatusSync | None:
        """Return the service that syncs contact statuses, or None if Supabase is not configured."""
        supabase = self._supabase()
        if supabase is None:
            return None
        if self._status_sync is None:
            tenant_id = await self._tenant_id()
            self._status_sync = StatusSync(self._database, self._clock, tenant_id, supabase)
        return self._status_sync

    async def close(self) -> None:
        for service in (self._http, self._image_http, self._images):
            if service is not None:
                await service.close()

    async def _build(self) -> MailoutSender:
        token = self.settings.notion_token
        if token is None:
            raise MailoutRefused("Set NOTION_TOKEN to the secret of your integration in Notion.", code=NOT_CONFIGURED)
        setup = mailout_setup(self.settings, await self._tenant_id())
        http, supabase = self._shared_http(), self._supabase()
        notion = Notion(
            http,
            token.get_secret_value(),
            self._steady,
            url=self.settings.notion_url,
            version=self.settings.notion_version,
            shared=SharedRateLimit(DatabaseLedger(self._database, self._clock), self._clock),
            sleep=self._sleep,
        )
        self._image_http = self._image_http or HttpClient(
            connections=4, resolve=_public_or_notion(self.settings.notion_url)
        )
        store = self._images = self._images or make_images(self.settings, self._database, self._clock)
        images = ImageCopier(self._image_http, store, public_url_of(self.settings) or self.settings.public_url)
        self._page_reader = PageReader(notion, images, setup.tenant_id)
        preparation = MailoutPreparation(
            self._database,
            self._clock,
            setup,
            notion=notion,
            images=images,
            templates=self._templates,
            audience=self._audience(supabase),
            rules=self._rules,
        )
        write_back = WriteBack(self._database, self._clock, setup, notion=notion, supabase=supabase)
        return MailoutSender(setup, self.runs, notion=notion, preparation=preparation, write_back=write_back)

    def _audience(self, supabase: Supabase | None) -> MailoutAudience:
        if supabase is not None:
            return SupabaseAudience(supabase)
        return ContactAudience(self._database, self._clock, self.settings.mailout_list)

    async def _tenant_id(self) -> int:
        return (await tenants.find(self._database, self.settings.mailout_tenant)).id

    def _supabase(self) -> Supabase | None:
        url, key = self.settings.supabase_url, self.settings.supabase_service_role_key
        if url is None or key is None:
            return None
        return Supabase(self._shared_http(), url, key.get_secret_value(), sleep=self._sleep)

    def _shared_http(self) -> HttpClient:
        self._http = self._http or HttpClient(connections=8)
        return self._http


def mailout_setup(settings: Settings, tenant_id: int) -> MailoutSetup:
    sender = parse_mailbox(settings.sender)
    org_address = settings.org_address or settings.postal_address
    needed: dict[str, object] = {
        "ORG_NAME": settings.org_name,
        "ORG_ADDRESS": org_address,
        "UNSUBSCRIBE_BASE_URL": settings.unsubscribe_base_url or settings.base_url,
        "UNSUBSCRIBE_SECRET": settings.unsubscribe_secret,
    }
    missing = tuple(name for name, value in needed.items() if not value)
    return MailoutSetup(
        tenant_id=tenant_id,
        from_email=settings.from_email or sender.address,
        from_name=settings.from_name or (sender.name if settings.from_email is None else None),
        has_public_url=public_url_of(settings) is not None,
        reply_to=settings.reply_to_email,
        footer=FooterDetails(
            settings.org_name or "",
            org_address or "",
            missing,
            html=f"{settings.footer_html}\n" if settings.footer_html else "",
            text=f"{settings.footer_text}\n" if settings.footer_text else "",
        ),
        unsubscribe_url=settings.unsubscribe_url,
        test_emails=settings.test_emails,
        is_local="mailbox" in providers_of(settings),
        allows_local=settings.mailbox_mailouts,
        rate_per_second=settings.send_rate_per_sec,
        one_at_a_time=settings.mailout_one_at_a_time,
        batch_size=settings.batch_size,
        mailouts_database=settings.notion_db_mailouts,
        errors_database=settings.notion_db_errors,
        columns=parse_names(MailoutColumns, settings.notion_mailout_properties),
        error_columns=parse_names(ErrorColumns, settings.notion_error_properties),
        statuses=parse_names(NotionStatuses, settings.notion_statuses),
    )


def public_url_of(settings: Settings) -> str | None:
    """Return the public address of this installation, or None if it is not configured."""
    if settings.base_url is not None:
        return settings.public_url
    page = settings.unsubscribe_base_url or ""
    return page.removesuffix("/unsubscribe") if page.endswith("/unsubscribe") else None


async def run_mailouts(service: MailoutService, database: Database, clock: Clock) -> None:
    """Run until cancelled. Returns at once if neither Notion nor Supabase is configured."""
    ledger = DatabaseLedger(database, clock)
    async with asyncio.TaskGroup() as loops:
        if service.is_configured:
            loops.create_task(_repeat(lambda: work_once(service), "mailouts"))
        if service.is_configured and service.settings.mailout_watch_seconds:
            loops.create_task(_watch(service, ledger, clock))
        if service.has_supabase:
            loops.create_task(_repeat(lambda: _sync_in_turn(service, ledger, clock), "status_sync"))


async def work_once(service: MailoutService) -> bool:
    """Do one step for one run. Return True if there may be more to do."""
    return await (await service.open()).tick()


async def drain_mailouts(service: MailoutService) -> None:
    """Process all runs and subscriber statuses that are due now."""
    if service.is_configured:
        await (await service.open()).check_sending()
        while await work_once(service):
            pass
    status_sync = await service.status_sync()
    try:
        while status_sync is not None and await status_sync.tick():
            pass
    except SupabaseError as error:
        log.warning("status_sync_postponed", code=error.code, reason=str(error))


async def _watch(service: MailoutService, ledger: DatabaseLedger, clock: Clock) -> None:
    """Send the pages whose status in Notion requests it, in one process at a time."""
    seconds = service.settings.mailout_watch_seconds

    async def run_once() -> float:
        if await has_turn("mailout-watch", seconds * SECOND, ledger, clock):
            await (await service.open()).send_ready_pages(actor="watch")
        return float(seconds)

    await run_periodically(
        "mailout_watch",
        run_once,
        seconds=float(seconds),
        expected=(NotDurable, NotionError, SupabaseError, MailoutRefused),
        retry_seconds=exponential(float(seconds), MAX_RETRY_SECONDS),
    )


async def _sync_in_turn(service: MailoutService, ledger: DatabaseLedger, clock: Clock) -> bool:
    """Sync contact statuses in one process at a time. Syncing twice is harmless, but doubles the load on Supabase."""
    status_sync = await service.status_sync()
    if status_sync is None or not await has_turn("contact-status-sync", STATUS_SYNC_INTERVAL, ledger, clock):
        return False
    return bool(await status_sync.tick())


async def _repeat(work: Callable[[], Awaitable[bool]], name: str) -> None:
    """Repeat the work until cancelled. Log and retry failures, because sending does not depend on this work."""

    async def run_once() -> float:
        began = perf_counter()
        return 0.0 if await work() else pause_after(perf_counter() - began)

    await run_periodically(
        name,
        run_once,
        seconds=IDLE_SECONDS,
        expected=(NotDurable, SupabaseError, MailoutRefused),
        retry_seconds=exponential(2 * IDLE_SECONDS, MAX_RETRY_SECONDS),
    )


def pause_after(check_seconds: float) -> float:
    """Return the pause after a check that found nothing: in proportion to its duration, up to a limit."""
    return min(max(IDLE_SECONDS, PAUSE_FACTOR * check_seconds), MAX_IDLE_SECONDS)


def _public_or_notion(notion_url: str) -> Resolve:
    """Resolve only public addresses and the configured Notion host, because page authors choose the fetched URLs."""
    parts = urlsplit(notion_url)
    known = (parts.hostname, parts.port or (80 if parts.scheme == "http" else 443))
    resolve_public = public_only()

    async def resolve(host: str, port: int) -> Sequence[AddrInfoType]:
        return await (addresses_of if (host, port) == known else resolve_public)(host, port)

    return resolve
