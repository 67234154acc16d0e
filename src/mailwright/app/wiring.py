"""Build the engine: all services of one process, shared by its commands and requests."""

import os
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import SecretStr

from mailwright.access.api_keys import ApiKeys
from mailwright.access.failed_sign_ins import FailedSignIns
from mailwright.access.initial_setup import InitialSetup
from mailwright.access.sessions import Sessions
from mailwright.access.users import Users
from mailwright.app.addresses import located
from mailwright.app.databases import open_database
from mailwright.app.inbound import make_reports, make_webhooks, verify_inbound
from mailwright.app.limits import defaults_of, domain_limits, guard_rails
from mailwright.app.mailouts import MailoutService
from mailwright.app.providers import make_route, providers_of, verify_providers
from mailwright.app.restore_checks import require_known_file
from mailwright.app.schema import prepare
from mailwright.audience.double_opt_in import ConfirmationLinks, DoubleOptIn
from mailwright.audience.importing.imports import Imports
from mailwright.audience.importing.uploads import ImportUploads
from mailwright.audience.status import SoftBounces
from mailwright.content.dkim import DkimSigner
from mailwright.content.headers import Mailbox
from mailwright.content.images import ImageStore
from mailwright.content.template_store import TemplateStore
from mailwright.domain import address
from mailwright.domain.clock import MINUTE, SECOND, Clock, SystemClock
from mailwright.domain.errors import ConfigurationInvalid, InvalidInput
from mailwright.domain.frequency import parse_frequency_cap
from mailwright.domain.lifetimes import Lifetimes, parse_lifetimes
from mailwright.domain.permits import SendRate
from mailwright.domain.sender_domains import AcceptWarning, SenderDomains
from mailwright.domain.tracking import TrackingMode
from mailwright.domain.tracking_tokens import TrackingTokens
from mailwright.domain.unsubscribe_tokens import UnsubscribeTokens
from mailwright.domain.web_view_tokens import WebViewTokens
from mailwright.events.inbound_webhooks import InboundWebhooks
from mailwright.events.outbound.endpoints import WebhookEndpoints
from mailwright.events.rejections import SmtpRejections
from mailwright.events.reports import Reports
from mailwright.events.retractions import Retractions
from mailwright.events.tracking.redirects import Redirects
from mailwright.ops.settings import Settings
from mailwright.outbox.accept import Acceptor
from mailwright.outbox.claim import MAX_LEASE, Claims
from mailwright.outbox.in_doubt import InDoubtHandler
from mailwright.outbox.installation import UNSUBSCRIBE_SECRET, get_or_create_secret
from mailwright.outbox.ledger import DatabaseLedger, Ledger
from mailwright.outbox.limits import DefaultLimits
from mailwright.outbox.operations import Operations
from mailwright.outbox.queue_gauges import QueueGauges
from mailwright.outbox.sending_hold import HoldWatch
from mailwright.outbox.workers import WorkerRegistry
from mailwright.outbox.write_probe import WriteProbe
from mailwright.pipeline.compose import Composer, SenderIdentity, parse_mailbox
from mailwright.pipeline.tracking import TrackingSettings
from mailwright.policies.pacing import throttled_rate
from mailwright.providers.protocol import Provider
from mailwright.providers.route import Route
from mailwright.sources.api.emails import ApiEmails
from mailwright.sources.api.messages import ApiMessages
from mailwright.sources.api.raw import CHANGED_BY_PROVIDER, RawMessages
from mailwright.sources.articles.enqueue import ArticleScheduler
from mailwright.sources.articles.preview import ArticlePreviews
from mailwright.sources.articles.runs import ArticleRuns
from mailwright.sources.articles.slices import SliceStore
from mailwright.sources.campaigns.campaigns import Campaigns
from mailwright.sources.campaigns.failures import CampaignFailures
from mailwright.sources.campaigns.guard_actions import CampaignGuardActions
from mailwright.sources.campaigns.scheduler import CampaignScheduler
from mailwright.sources.mailouts.runs import MailoutRuns
from mailwright.sources.mailouts.verify import verify_mailouts
from mailwright.sources.notifications.service import NotificationService
from mailwright.sources.notifications.settle import NotificationSettling
from mailwright.storage.database import Database, parse_url
from mailwright.worker.destinations import Destinations
from mailwright.worker.gate import Gate
from mailwright.worker.maintenance import Maintenance, MaintenanceServices
from mailwright.worker.pacing import Pacing
from mailwright.worker.parts import WorkerParts, WorkerSettings
from mailwright.worker.source_duties import SourceDuties
from mailwright.worker.wake import Wake
from mailwright.worker.worker import Worker

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from mailwright.content.dkim_key import DkimKey

# How long a message in doubt waits for a report from a provider that reports events.
REPORT_GRACE = 10 * MINUTE


@dataclass(frozen=True, slots=True)
class PublicPages:
    """Settings of the pages that recipients open: unsubscribe, preferences, sign-up and archive."""

    # The secret that signs links. If it is None, the secret that this installation generated and stored is used.
    secret: str | None = field(default=None, repr=False)
    retired: tuple[str, ...] = field(default=(), repr=False, kw_only=True)  # former secrets whose links still work
    asks_first: bool = False  # An unsubscribe link opens a confirmation page instead of unsubscribing at once.
    sender: str | None = None  # the name that the pages of the first tenant show
    unsubscribe_url: str | None = None  # replaces the address of our own unsubscribe page

    @property
    def configured_secrets(self) -> tuple[str, ...]:
        """The secrets from the settings, with which another program may have signed links."""
        return (*filter(None, (self.secret,)), *self.retired)


@dataclass(frozen=True, slots=True)
class Engine:
    """Every service of one process, built once by `build_engine` and shared by commands, the web and the worker."""

    settings: Settings
    clock: Clock
    database: Database
    valkey: "Redis | None"
    wake: Wake
    ledger: Ledger
    database_ledger: DatabaseLedger
    threads: ThreadPoolExecutor
    # Limits from the settings, for tenants and campaigns without limits of their own.
    defaults: DefaultLimits
    # The sender and links of previews.
    identity: SenderIdentity
    public_pages: PublicPages
    # Messages and reports.
    acceptor: Acceptor
    api_messages: ApiMessages
    raw_messages: RawMessages
    api_emails: ApiEmails
    operations: Operations
    gauges: QueueGauges
    write_probe: WriteProbe
    hold_watch: HoldWatch
    reports: Reports
    inbound_webhooks: InboundWebhooks
    redirects: Redirects
    webhook_endpoints: WebhookEndpoints
    # Content and audience.
    images: ImageStore
    templates: TemplateStore
    import_uploads: ImportUploads
    # Sources.
    campaigns: Campaigns
    campaign_failures: CampaignFailures
    campaign_guard: CampaignGuardActions
    slices: SliceStore
    article_previews: ArticlePreviews
    article_runs: ArticleRuns
    mailouts: MailoutService
    mailout_runs: MailoutRuns
    # Opens the notification queue; None if no queue is configured.
    open_notifications: Callable[[], AbstractAsyncContextManager[NotificationService]] | None
    # Access.
    failed_sign_ins: FailedSignIns
    keys: ApiKeys
    users: Users
    sessions: Sessions
    initial_setup: InitialSetup
    # Returns whether the worker of this process runs; None if workers run in other processes.
    is_worker_alive: Callable[[], bool] | None = None

    @property
    def public_url(self) -> str:
        return self.settings.public_url

    @property
    def postal_address(self) -> str | None:
        return self.settings.postal_address

    @property
    def imports_folder(self) -> Path:
        return self.settings.imports

    @property
    def mailbox_folder(self) -> Path | None:
        """The folder of the local mailbox, or None if `mailbox` is not a provider."""
        return self.settings.mailbox if "mailbox" in providers_of(self.settings) else None

    @property
    def admin_password(self) -> str | None:
        """The password of administrative scripts; None if they cannot sign in."""
        return secret_text(self.settings.admin_password)

    @property
    def mailout_token(self) -> str | None:
        """The token of `/send-mailout`; None if only administrators can use it."""
        return secret_text(self.settings.mailout_token)

    async def double_opt_in(self) -> DoubleOptIn:
        """Return the double opt-in service. It signs links with the same secret as the other recipient links."""
        secret = self.public_pages.secret or await get_or_create_secret(self.database, UNSUBSCRIBE_SECRET)
        return DoubleOptIn(self.database, self.clock, ConfirmationLinks(self.public_url, UnsubscribeTokens(secret)))

    async def close(self) -> None:
        """Close everything but the database, which the caller opened."""
        await self.acceptor.close()
        await self.inbound_webhooks.close()
        await self.mailouts.close()
        await self.reports.close()
        self.redirects.close()
        await self.wake.close()
        if self.valkey is not None:
            await self.valkey.aclose()
        self.threads.shutdown(wait=False, cancel_futures=True)


@asynccontextmanager
async def open_engine(settings: Settings, clock: Clock | None = None) -> AsyncIterator[Engine]:
    verify(settings)
    database = open_database(settings)
    try:
        require_known_file(settings, database)
        await prepare(database)
        engine = build_engine(await located(settings, database), clock or SystemClock(), database)
        try:
            yield engine
        finally:
            await engine.close()
    finally:
        await database.close()


def build_engine(settings: Settings, clock: Clock, database: Database) -> Engine:
    # Imported here to avoid an import cycle.
    from mailwright.app.notifications import notification_service_opener  # noqa: PLC0415
    from mailwright.app.sender_rules import make_sender_rules  # noqa: PLC0415

    valkey = valkey_client(settings.redis_url)
    wake = Wake(valkey)
    database_ledger = DatabaseLedger(database, clock)
    acceptor = Acceptor(database, clock, wake.announce)
    api_messages = ApiMessages(database, clock, acceptor, settings.timezone, sender_domains(settings))
    reports = make_reports(settings, database, clock)
    images = ImageStore(database, clock, settings.images)
    templates = TemplateStore(database, clock, images, settings.public_url, settings.postal_address)
    imports = Imports(database, clock, largest=settings.import_bytes)
    failed_sign_ins = FailedSignIns(database, clock)
    users = Users(database, clock, failed_sign_ins, secret_text(settings.admin_password))
    rules = make_sender_rules(settings)
    return Engine(
        settings=settings,
        clock=clock,
        database=database,
        valkey=valkey,
        wake=wake,
        ledger=_ledger(valkey, database_ledger, clock),
        database_ledger=database_ledger,
        threads=ThreadPoolExecutor(max_workers=os.cpu_count() or 1, thread_name_prefix="sign"),
        defaults=defaults_of(settings, providers_of(settings)),
        identity=preview_identity(settings),
        public_pages=public_pages(settings),
        acceptor=acceptor,
        raw_messages=_raw_messages(settings, database, clock, acceptor),
        api_messages=api_messages,
        api_emails=ApiEmails(api_messages, acceptor, clock, raw_warnings(settings)),
        operations=Operations(database, clock),
        gauges=QueueGauges(database, clock),
        write_probe=WriteProbe(database, clock),
        hold_watch=HoldWatch(database, clock),
        reports=reports,
        inbound_webhooks=make_webhooks(settings, reports, clock),
        redirects=_redirects(settings, clock, database),
        webhook_endpoints=WebhookEndpoints(database, clock, allows_private=settings.webhook_private),
        images=images,
        templates=templates,
        import_uploads=ImportUploads(imports, clock, settings.imports, largest=settings.import_bytes),
        campaigns=Campaigns(database, clock, templates, rules, guard_rails(settings)),
        campaign_failures=CampaignFailures(database, clock),
        campaign_guard=CampaignGuardActions(database, clock, guard_rails(settings)),
        slices=SliceStore(database, clock, templates),
        article_previews=ArticlePreviews(database, clock, templates),
        article_runs=ArticleRuns(database, clock, templates, rules),
        mailouts=MailoutService(settings, database, clock, templates, rules),
        mailout_runs=MailoutRuns(database, clock),
        open_notifications=notification_service_opener(settings, database, clock),
        failed_sign_ins=failed_sign_ins,
        keys=ApiKeys(database, clock),
        users=users,
        sessions=Sessions(database, clock),
        initial_setup=InitialSetup(database, users),
    )


def _link_secrets(settings: Settings) -> tuple[str | None, tuple[str, ...]]:
    """Return the configured secret of the recipients' links, and the retired secrets."""
    retired = tuple(secret.get_secret_value() for secret in settings.unsubscribe_retired_secrets)
    return secret_text(settings.unsubscribe_secret), retired


def _redirects(settings: Settings, clock: Clock, database: Database) -> Redirects:
    secret, retired = _link_secrets(settings)
    folder = settings.tracking_spool
    return Redirects(database, clock, folder, settings.tracking, secret=secret, retired=retired)


def public_pages(settings: Settings) -> PublicPages:
    secret, retired = _link_secrets(settings)
    return PublicPages(
        secret,
        retired=retired,
        asks_first=settings.unsubscribe_confirm,
        sender=sender_of(settings).name,
        unsubscribe_url=settings.unsubscribe_url,
    )


def secret_text(secret: SecretStr | None) -> str | None:
    return secret.get_secret_value() if secret is not None else None


def verify(settings: Settings) -> None:
    """Validate all settings that services interpret; raise one error with every problem."""
    problems: list[str] = []
    checks = (
        _database_address,
        _valkey_address,
        make_signer,
        sender_of,
        verify_providers,
        domain_limits,
        lifetimes,
        _frequency_cap,
        verify_inbound,
        verify_mailouts,
    )
    for check in checks:
        try:
            check(settings)
        except ConfigurationInvalid as error:
            problems += error.problems
    if problems:
        raise ConfigurationInvalid(*problems)


async def make_worker(engine: Engine, provider: Provider | Route | None = None, worker_id: str | None = None) -> Worker:
    settings, clock, database = engine.settings, engine.clock, engine.database
    route = _route(provider, settings, clock)
    lease = min(settings.lock_ttl_seconds * SECOND, MAX_LEASE)
    silent = [member.name for member in route.members if not member.provider.reports_events]
    doubt_grace = REPORT_GRACE if len(silent) < len(route.members) else 0
    name = worker_id or f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
    claims = Claims(database, clock, name, lease)
    soft = SoftBounces(settings.soft_bounce_limit, settings.soft_bounce_days)
    doubts = InDoubtHandler(database, clock, doubt_grace, silent)
    duties = MaintenanceServices(
        database, claims, doubts, engine.database_ledger, WorkerRegistry(database, clock, name), soft
    )
    parts = WorkerParts(
        clock=clock,
        claims=claims,
        settling=NotificationSettling(database, clock, SmtpRejections(soft)),
        composer=Composer(
            database,
            engine.templates,
            await make_identity(engine),
            signer=make_signer(settings),
            threads=engine.threads,
        ),
        gate=Gate(
            database,
            clock,
            engine.ledger,
            defaults_of(settings, {member.name: member.weight for member in route.members}),
            Destinations(clock, engine.ledger, domains, settings.reserve_percent)
            if (domains := domain_limits(settings))
            else None,
            throttled_rate=partial(_throttled_rate, route, name),
            lifetimes=lifetimes(settings),
        ),
        route=route,
        maintenance=Maintenance(clock, duties, lease),
        source_duties=SourceDuties(
            CampaignScheduler(database, clock, engine.campaigns.rules, engine.campaigns.rails),
            ArticleScheduler(database, clock, engine.templates, engine.campaigns.rules),
        ),
        wake=engine.wake,
        pacing=Pacing(clock, engine.ledger),
        retractions=Retractions(engine.reports, clock),
    )
    worker_settings = WorkerSettings(
        window=settings.concurrency,
        claim_batch=settings.claim_batch,
        # Run often enough to renew a lease of any length well before it ends.
        maintenance_seconds=min(1.0, settings.lock_ttl_seconds / 6),
        shutdown_grace=settings.shutdown_grace_seconds * SECOND,
        lifetimes=lifetimes(settings),
        doubt_grace=doubt_grace,
    )
    return Worker(parts, worker_settings)


def _throttled_rate(route: Route, worker: str) -> SendRate | None:
    provider = route.paced_provider()
    rate = None if provider is None else route.learned_rate(provider)
    return None if provider is None or rate is None else throttled_rate(rate, worker, provider)


def _route(given: Provider | Route | None, settings: Settings, clock: Clock) -> Route:
    match given:
        case None:
            return make_route(settings, clock)
        case Route():
            return given
        case _:
            return Route.of(given, clock)


def make_signer(settings: Settings) -> DkimSigner | None:
    key = dkim_key(settings)
    return None if key is None else DkimSigner([key])


def dkim_key(settings: Settings) -> "DkimKey | None":
    if settings.dkim_key_file is None or settings.dkim_selector is None:
        return None
    from mailwright.content.dkim_key import DkimKey  # noqa: PLC0415 - imported only if a key is configured

    domain = settings.dkim_domain or address.domain_of(parse_mailbox(settings.sender).address)
    try:
        pem = settings.dkim_key_file.read_text(encoding="utf-8")
        return DkimKey.load(pem, domain, settings.dkim_selector)
    except OSError as error:
        raise ConfigurationInvalid(f"MAILWRIGHT_DKIM_KEY_FILE: {error.strerror or error}") from error
    except ConfigurationInvalid as error:
        raise ConfigurationInvalid(*(f"MAILWRIGHT_DKIM_KEY_FILE: {problem}" for problem in error.problems)) from error


def sender_of(settings: Settings) -> Mailbox:
    sender = parse_mailbox(settings.sender)
    for name, text in (("MAILWRIGHT_FROM", sender.address), ("MAILWRIGHT_BOUNCE_ADDRESS", settings.bounce_address)):
        try:
            if text is not None:
                address.parse(text)
        except address.InvalidAddress as error:
            raise ConfigurationInvalid(f"{name}: {error}") from error
    return sender


async def make_identity(engine: Engine) -> SenderIdentity:
    settings = engine.settings
    secret = (
        settings.unsubscribe_secret.get_secret_value()
        if settings.unsubscribe_secret is not None
        else await get_or_create_secret(engine.database, UNSUBSCRIBE_SECRET)
    )
    return SenderIdentity(
        sender_of(settings),
        settings.bounce_address,
        settings.unsubscribe_url,
        UnsubscribeTokens(secret),
        settings.postal_address or "",
        settings.public_url,
        WebViewTokens(secret),
        tags_bounces=settings.bounce_tag,
        domains=sender_domains(settings),
        tracking=_tracking(settings, secret),
        reply_address=settings.reply_address,
    )


def _tracking(settings: Settings, secret: str) -> TrackingSettings | None:
    if settings.tracking is TrackingMode.OFF:
        return None
    return TrackingSettings(settings.tracking, TrackingTokens(secret), settings.public_url, settings.unsubscribe_url)


def _raw_messages(settings: Settings, database: Database, clock: Clock, acceptor: Acceptor) -> RawMessages:
    domains, warnings = sender_domains(settings), raw_warnings(settings)
    return RawMessages(database, clock, acceptor, settings.timezone, domains, warnings=warnings)


def raw_warnings(settings: Settings) -> tuple[AcceptWarning, ...]:
    """Return the warnings of every raw email: a provider of the route may take fields, not bytes."""
    return (CHANGED_BY_PROVIDER,) if "sendgrid" in providers_of(settings) else ()


def sender_domains(settings: Settings) -> SenderDomains:
    """Return the domains of the configured senders and of DKIM. The default sender adds no domain."""
    senders = [parse_mailbox(settings.sender).address, settings.from_email or ""]
    domains = [*map(address.domain_of, senders), settings.dkim_domain or "", *settings.sender_domains]
    return SenderDomains(domain for domain in domains if domain and not domain.endswith("localhost"))


def preview_identity(settings: Settings) -> SenderIdentity:
    """Return the sender of previews. Their unsubscribe links have no effect."""
    tokens = UnsubscribeTokens("preview")
    postal = settings.postal_address or ""
    return SenderIdentity(sender_of(settings), None, settings.unsubscribe_url, tokens, postal, settings.public_url)


def lifetimes(settings: Settings) -> Lifetimes:
    return Lifetimes() if settings.lifetimes is None else parse_lifetimes(settings.lifetimes)


def _frequency_cap(settings: Settings) -> None:
    try:
        parse_frequency_cap(settings.frequency_cap)
    except InvalidInput as error:
        raise ConfigurationInvalid(f"MAILWRIGHT_FREQUENCY_CAP: {error}") from error


def _database_address(settings: Settings) -> None:
    parse_url(settings.database_url)


def _valkey_address(settings: Settings) -> None:
    valkey_client(settings.redis_url)


def valkey_client(url: str | None) -> "Redis | None":
    if url is None:
        return None
    from mailwright.outbox import valkey  # noqa: PLC0415 - imported only if Valkey is configured

    return valkey.valkey_client(url)


def _ledger(client: "Redis | None", database_ledger: DatabaseLedger, clock: Clock) -> Ledger:
    if client is None:
        return database_ledger
    from mailwright.outbox import valkey  # noqa: PLC0415 - as above

    return valkey.ValkeyLedger(client, database_ledger, clock)
