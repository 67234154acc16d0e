"""Build the engine: all services of one process, shared by its commands and requests."""

import asyncio
import os
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mailwright.access.account_links import AccountLinks
from mailwright.access.api_keys import ApiKeys
from mailwright.access.failed_sign_ins import FailedSignIns
from mailwright.access.identities import Identities
from mailwright.access.initial_setup import InitialSetup
from mailwright.access.oidc_settings import oidc_settings
from mailwright.access.passkeys import Passkeys
from mailwright.access.second_factors import SecondFactors
from mailwright.access.sessions import Sessions
from mailwright.access.users import Users
from mailwright.app.databases import make_wake, open_database, valkey_client
from mailwright.app.default_sender import make_signer, sender_of
from mailwright.app.dmarc import make_dmarc_recorder
from mailwright.app.feeds import fetch_feed
from mailwright.app.images import make_images
from mailwright.app.inbound import make_reports, make_webhooks
from mailwright.app.limits import defaults_of, domain_limits, guard_rails, lifetimes
from mailwright.app.mailouts import MailoutService
from mailwright.app.named_providers import NO_PROVIDERS, NamedProvider, NamedProviders, ProviderService
from mailwright.app.named_webhooks import NamedWebhook, make_named_webhooks
from mailwright.app.notification_queue import notification_service_opener
from mailwright.app.oidc import OidcClient
from mailwright.app.profiles import make_profiles
from mailwright.app.providers import make_route, reports_events
from mailwright.app.restore_checks import mark_new_database, require_known_file
from mailwright.app.schema import prepare
from mailwright.app.sender_directory import make_directory, sender_domains
from mailwright.app.sender_domains import SenderDomainService
from mailwright.app.sender_rules import make_sender_rules
from mailwright.app.sequences import make_sequences
from mailwright.app.stored_settings import EffectiveSettings, load_effective
from mailwright.app.system_emails import make_account_notices, make_double_opt_in, render_branded
from mailwright.app.template_removal import make_template_removal
from mailwright.app.verify import verify
from mailwright.audience.contact_events import ContactEvents
from mailwright.audience.double_opt_in import DoubleOptIn
from mailwright.audience.erasure import PendingErasures
from mailwright.audience.erasure_record import ErasureRecord
from mailwright.audience.forms import Forms
from mailwright.audience.importing.imports import Imports
from mailwright.audience.importing.upload_files import StoredUploads
from mailwright.audience.importing.uploads import ImportUploads
from mailwright.audience.list_removal import ListRemoval
from mailwright.audience.status import SoftBounces
from mailwright.audience.switching.moving import SwitchOvers
from mailwright.audience.switching.uploads import SwitchUploads
from mailwright.content.brand_store import Brands
from mailwright.content.images import ImageStore
from mailwright.content.template_drafts import TemplateDrafts
from mailwright.content.template_removal import TemplateRemoval
from mailwright.content.template_store import TemplateStore
from mailwright.domain.clock import MINUTE, SECOND, Clock, Instant, SystemClock
from mailwright.domain.errors import ConfigurationInvalid, NotPossibleNow
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import NewMessage, Source
from mailwright.domain.permits import SendRate
from mailwright.domain.provider_routes import ClaimScope
from mailwright.domain.sender_domains import AcceptWarning, FindWarnings
from mailwright.domain.tracking import TrackingMode
from mailwright.domain.tracking_tokens import TrackingTokens
from mailwright.domain.unsubscribe_confirmation import UnsubscribeConfirmation
from mailwright.domain.unsubscribe_tokens import UnsubscribeTokens
from mailwright.domain.web_view_tokens import WebViewTokens
from mailwright.events.dmarc.recorder import DmarcRecorder
from mailwright.events.inbound_webhooks import InboundWebhooks
from mailwright.events.outbound.endpoints import WebhookEndpoints
from mailwright.events.rejections import SmtpRejections
from mailwright.events.report_sources import ReportSources
from mailwright.events.reports import Reports
from mailwright.events.retractions import Retractions
from mailwright.events.tracking.redirects import Redirects
from mailwright.ops.provider_kinds import KINDS
from mailwright.ops.settings import Settings, secret_text
from mailwright.outbox.absence import WorkerAbsence
from mailwright.outbox.accept import Acceptor
from mailwright.outbox.attempt_recorder import AttemptRecorder
from mailwright.outbox.claim import MAX_LEASE, Claims
from mailwright.outbox.in_doubt import InDoubtHandler
from mailwright.outbox.installation import UNSUBSCRIBE_SECRET, get_or_create_secret
from mailwright.outbox.ledger import DatabaseLedger, Ledger
from mailwright.outbox.limits import DefaultLimits
from mailwright.outbox.operations import Operations
from mailwright.outbox.queue_gauges import QueueGauges
from mailwright.outbox.sender_domains import SenderDirectory
from mailwright.outbox.sending_hold import HoldWatch
from mailwright.outbox.settle import ProviderAccount
from mailwright.outbox.workers import WorkerRegistry
from mailwright.outbox.write_probe import WriteProbe
from mailwright.pipeline.compose import Composer, SenderIdentity
from mailwright.pipeline.senders import MessageSenders
from mailwright.pipeline.tracking import TrackingSettings
from mailwright.policies.pacing import throttled_rate
from mailwright.providers.protocol import Provider
from mailwright.providers.route import Route, providers_of
from mailwright.sources.api.contact_events import ApiEvents
from mailwright.sources.api.emails import ApiEmails
from mailwright.sources.api.messages import ApiMessages, FindRefusal, RequestContext
from mailwright.sources.api.raw import RawMessages, changed_by_provider
from mailwright.sources.articles.enqueue import ArticleScheduler
from mailwright.sources.articles.preview import ArticlePreviews
from mailwright.sources.articles.profiles.table import ProfileSource
from mailwright.sources.articles.runs import ArticleRuns
from mailwright.sources.articles.slices import SliceStore
from mailwright.sources.campaigns.approval_notices import ApprovalNotices
from mailwright.sources.campaigns.approvals import CampaignApprovals
from mailwright.sources.campaigns.campaigns import Campaigns
from mailwright.sources.campaigns.failures import CampaignFailures
from mailwright.sources.campaigns.guard_actions import CampaignGuardActions
from mailwright.sources.campaigns.plan import CampaignPlans
from mailwright.sources.campaigns.removal import CampaignRemoval
from mailwright.sources.campaigns.repeat_worker import RepeatWorker
from mailwright.sources.campaigns.repeats import CampaignRepeats
from mailwright.sources.campaigns.scheduler import CampaignScheduler
from mailwright.sources.mailouts.runs import MailoutRuns
from mailwright.sources.message_approvals import MessageApprovals
from mailwright.sources.notifications.service import NotificationService
from mailwright.sources.notifications.settle import NotificationSettling
from mailwright.sources.send_approvals import SendApprovals
from mailwright.sources.sequences.duties import SequenceDuties
from mailwright.sources.sequences.sequences import Sequences
from mailwright.storage.database import Database, is_missing, parse_url
from mailwright.worker.destinations import Destinations
from mailwright.worker.gate import Gate
from mailwright.worker.maintenance import Maintenance, MaintenanceServices
from mailwright.worker.pacing import Pacing
from mailwright.worker.parts import WorkerParts, WorkerSettings
from mailwright.worker.source_duties import SourceDuties
from mailwright.worker.wake import Wake
from mailwright.worker.worker import Worker, WorkerGroup

if TYPE_CHECKING:
    from redis.asyncio import Redis


# How long a message in doubt waits for a report from a provider that reports events.
REPORT_GRACE = 10 * MINUTE


@dataclass(frozen=True, slots=True)
class PublicPages:
    """Settings of the pages that recipients open: unsubscribe, preferences, sign-up and archive."""

    # The secret that signs links. If it is None, the installation uses the secret that it generated and stored.
    secret: str | None = field(default=None, repr=False)
    retired: tuple[str, ...] = field(default=(), repr=False, kw_only=True)  # former secrets whose links still work
    confirmation: UnsubscribeConfirmation = UnsubscribeConfirmation.UNCONFIRMED_PEOPLE  # who gets a button first
    sender: str | None = None  # the name that the pages of the first tenant show
    unsubscribe_url: str | None = None  # replaces the address of our own unsubscribe page

    @property
    def configured_secrets(self) -> tuple[str, ...]:
        """The secrets from the settings, with which another program may have signed links."""
        return (*filter(None, (self.secret,)), *self.retired)


class EngineSettings:
    """The settings of an engine that other packages read."""

    settings: Settings

    @property
    def public_url(self) -> str:
        return self.settings.public_url

    @property
    def postal_address(self) -> str | None:
        return self.settings.sender_postal_address

    @property
    def imports_folder(self) -> Path:
        return self.settings.imports

    @property
    def erasure_record(self) -> ErasureRecord:
        return ErasureRecord(self.settings.state, parse_url(self.settings.database_url))

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


@dataclass(frozen=True, slots=True)
class Engine(EngineSettings):
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
    api_events: ApiEvents
    operations: Operations
    gauges: QueueGauges
    write_probe: WriteProbe
    hold_watch: HoldWatch
    reports: Reports
    inbound_webhooks: InboundWebhooks
    named_webhooks: Mapping[str, NamedWebhook]
    redirects: Redirects
    webhook_endpoints: WebhookEndpoints
    # Content and audience.
    directory: SenderDirectory
    dmarc: DmarcRecorder
    images: ImageStore
    templates: TemplateStore
    import_uploads: ImportUploads
    switch_uploads: SwitchUploads
    # Sources.
    campaigns: Campaigns
    campaign_guard: CampaignGuardActions
    slices: SliceStore
    profiles: ProfileSource | None
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
    oidc: OidcClient | None = None  # None if no identity provider is configured
    # Returns whether the worker of this process runs; None if workers run in other processes.
    is_worker_alive: Callable[[], bool] | None = None
    # The stored settings that this engine uses, and why it must not send with them.
    settings_version: str = ""
    settings_problems: tuple[str, ...] = ()
    # The named providers, and which tenants use them.
    named: NamedProviders = NO_PROVIDERS
    # Set after this process has changed the stored settings, so that it uses them at once.
    settings_saved: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def brands(self) -> Brands:
        return Brands(self.database, self.clock)

    @property
    def forms(self) -> Forms:
        return Forms(self.database, self.clock)

    @property
    def providers(self) -> ProviderService:
        return ProviderService(self.settings, self.database, self.clock)

    @property
    def report_sources(self) -> ReportSources:
        return ReportSources(self.database, self.clock)

    @property
    def sequences(self) -> Sequences:
        return make_sequences(self.settings, self.database, self.clock)

    @property
    def account_links(self) -> AccountLinks:
        return AccountLinks(self.database, self.clock, self.users, self.users.notices)

    @property
    def second_factors(self) -> SecondFactors:
        return SecondFactors(self.database, self.clock, self.failed_sign_ins, self.users.notices)

    @property
    def passkeys(self) -> Passkeys:
        return Passkeys(self.database, self.clock, self.public_url, self.users.notices)

    @property
    def identities(self) -> Identities | None:
        """The accounts of the identity provider; None if none is configured."""
        if self.oidc is None:
            return None
        return Identities(self.database, self.clock, self.oidc.settings, self.users.notices)

    @property
    def initial_setup(self) -> InitialSetup:
        return InitialSetup(self.database, self.users)

    @property
    def sender_domains(self) -> SenderDomainService:
        return SenderDomainService(self.settings, self.database, self.clock, self.directory)

    @property
    def campaign_failures(self) -> CampaignFailures:
        return CampaignFailures(self.database, self.clock)

    @property
    def campaign_removal(self) -> CampaignRemoval:
        return CampaignRemoval(self.database, self.clock)

    @property
    def campaign_approvals(self) -> CampaignApprovals:
        rules = self.campaigns.rules
        plans = CampaignPlans(self.database, self.clock, self.templates, rules, self.defaults)
        return CampaignApprovals(self.database, self.clock, plans)

    @property
    def send_approvals(self) -> SendApprovals:
        return SendApprovals(self.database, self.clock)

    @property
    def list_removal(self) -> ListRemoval:
        return ListRemoval(self.database, self.clock)

    @property
    def template_drafts(self) -> TemplateDrafts:
        return TemplateDrafts(self.database, self.clock)

    @property
    def template_removal(self) -> TemplateRemoval:
        return make_template_removal(self.settings, self.database, self.clock)

    async def double_opt_in(self) -> DoubleOptIn:
        return await make_double_opt_in(self.settings, self.database, self.clock)

    async def close(self) -> None:
        """Close everything but the database, which the caller opened."""
        await self.acceptor.close()
        await self.api_events.close()
        await self.inbound_webhooks.close()
        for each in self.named_webhooks.values():
            await each.webhooks.close()
        await self.mailouts.close()
        if self.profiles is not None:
            await self.profiles.table.close()
        await self.reports.close()
        await self.images.close()
        if self.oidc is not None:
            await self.oidc.close()
        self.redirects.close()
        await self.wake.close()
        if self.valkey is not None:
            await self.valkey.aclose()
        self.threads.shutdown(wait=False, cancel_futures=True)


@asynccontextmanager
async def open_engine(settings: Settings, clock: Clock | None = None) -> AsyncIterator[Engine]:
    """Open the installation with the settings of this process and those in its database."""
    database = _open_verified(settings)
    try:
        require_known_file(settings, database)
        is_new = is_missing(database)
        await prepare(database)
        if is_new:
            await mark_new_database(settings, database, clock or SystemClock())
        effective = await load_effective(settings, database)
        if not effective.problems:
            verify(effective.settings)
        engine = engine_with(effective, clock or SystemClock(), database)
        try:
            yield engine
        finally:
            await engine.close()
    finally:
        await database.close()


def _open_verified(settings: Settings) -> Database:
    """Open the database. Before it exists, nothing can be stored in it, so the settings must already be complete."""
    try:
        database = open_database(settings)
    except ConfigurationInvalid:
        verify(settings)  # It reports this problem together with all others.
        raise
    if is_missing(database):
        verify(settings)
    return database


def engine_with(
    effective: EffectiveSettings, clock: Clock, database: Database, saved: asyncio.Event | None = None
) -> Engine:
    return replace(
        build_engine(effective.settings, clock, database, effective.named),
        settings_version=effective.version,
        settings_problems=effective.problems,
        settings_saved=saved or asyncio.Event(),
    )


def build_engine(settings: Settings, clock: Clock, database: Database, named: NamedProviders = NO_PROVIDERS) -> Engine:
    valkey = valkey_client(settings.redis_url)
    wake = make_wake(settings, database, valkey)
    database_ledger = DatabaseLedger(database, clock)
    acceptor = Acceptor(database, clock, wake.announce)
    directory = make_directory(settings, database, clock)
    api_messages = _api_messages(settings, database, clock, acceptor, directory)
    reports = make_reports(settings, database, clock)
    images = make_images(settings, database, clock)
    templates = TemplateStore(database, clock, images, settings.public_url, settings.sender_postal_address)
    failed_sign_ins = FailedSignIns(database, clock)
    rules = make_sender_rules(settings, database, directory)
    profiles = make_profiles(settings, database)
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
        raw_messages=_raw_messages(settings, database, clock, acceptor, directory, named=named),
        api_messages=api_messages,
        api_emails=_api_emails(settings, database, clock, acceptor, api_messages, named=named),
        api_events=ApiEvents(clock, ContactEvents(database, clock)),
        operations=Operations(database, clock),
        gauges=QueueGauges(database, clock),
        write_probe=WriteProbe(database, clock),
        hold_watch=HoldWatch(database, clock),
        reports=reports,
        inbound_webhooks=make_webhooks(settings, reports, clock),
        named_webhooks=make_named_webhooks(named, reports, clock),
        redirects=_redirects(settings, clock, database),
        webhook_endpoints=WebhookEndpoints(database, clock, allows_private=settings.webhook_private),
        directory=directory,
        dmarc=make_dmarc_recorder(settings, database, clock, directory),
        images=images,
        templates=templates,
        import_uploads=_import_uploads(settings, clock, database),
        switch_uploads=_switch_uploads(settings, clock, database),
        campaigns=Campaigns(database, clock, templates, rules, guard_rails(settings)),
        campaign_guard=CampaignGuardActions(database, clock, guard_rails(settings)),
        slices=SliceStore(database, clock, templates),
        profiles=profiles,
        article_previews=ArticlePreviews(database, clock, templates, profiles),
        article_runs=ArticleRuns(database, clock, templates, rules, profiles),
        mailouts=MailoutService(settings, database, clock, templates, rules),
        mailout_runs=MailoutRuns(database, clock),
        open_notifications=notification_service_opener(settings, database, clock),
        failed_sign_ins=failed_sign_ins,
        keys=ApiKeys(database, clock),
        users=_make_users(settings, database, clock, failed_sign_ins),
        sessions=Sessions(database, clock),
        oidc=_make_oidc(settings, clock),
        named=named,
    )


def _api_emails(
    settings: Settings,
    database: Database,
    clock: Clock,
    acceptor: Acceptor,
    api_messages: ApiMessages,
    *,
    named: NamedProviders,
) -> ApiEmails:
    refusal = _find_refusal(database, clock, acceptor)
    return ApiEmails(api_messages, acceptor, clock, raw_warnings(settings, named), refusal)


def _make_users(settings: Settings, database: Database, clock: Clock, counter: FailedSignIns) -> Users:
    notices = make_account_notices(settings, database, clock)
    return Users(database, clock, counter, notices, secret_text(settings.admin_password))


def _make_oidc(settings: Settings, clock: Clock) -> OidcClient | None:
    configured = oidc_settings(settings)
    return None if configured is None else OidcClient(configured, clock)


def _import_uploads(settings: Settings, clock: Clock, database: Database) -> ImportUploads:
    double_opt_in = partial(make_double_opt_in, settings, database, clock)
    imports = Imports(database, clock, largest=settings.import_bytes, double_opt_in=double_opt_in)
    files = None if database.dialect == "sqlite" else StoredUploads(database, clock, settings.imports)
    return ImportUploads(imports, clock, settings.imports, largest=settings.import_bytes, files=files)


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
        confirmation=_unsubscribe_confirmation(settings),
        sender=sender_of(settings).name,
        unsubscribe_url=settings.unsubscribe_url,
    )


def _unsubscribe_confirmation(settings: Settings) -> UnsubscribeConfirmation:
    """Return who gets a button. With the settings of AmazonSender, a GET request acts as it did there."""
    match settings.unsubscribe_confirm:
        case "true":
            return UnsubscribeConfirmation.EVERYONE
        case "false":
            return UnsubscribeConfirmation.NOBODY
        case "auto" if settings.unsubscribe_base_url is not None and settings.unsubscribe_secret is not None:
            return UnsubscribeConfirmation.MACHINES
        case "auto":
            return UnsubscribeConfirmation.UNCONFIRMED_PEOPLE


async def make_workers(engine: Engine, recorder: AttemptRecorder | None = None) -> WorkerGroup:
    """Create a worker for the provider of the installation, and one for each named provider that is in use."""
    name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
    shared: dict[str, Any] = {"worker_id": name, "recorder": recorder}
    first = await make_worker(engine, **shared)
    return WorkerGroup([first, *[await make_worker(engine, **shared, named=each) for each in engine.named.used]])


async def make_worker(
    engine: Engine,
    provider: Provider | Route | None = None,
    worker_id: str | None = None,
    named: NamedProvider | None = None,
    recorder: AttemptRecorder | None = None,
) -> Worker:
    """Create a worker of one provider: the named provider if `named` is given, otherwise the installation's."""
    settings, clock, database = engine.settings, engine.clock, engine.database
    route = _route(provider, settings, clock) if named is None else named.make_route(clock)
    lease = min(settings.lock_ttl_seconds * SECOND, MAX_LEASE)
    reporting = _reporting_providers(engine, route)
    doubt_grace = REPORT_GRACE if any(reporting.values()) else 0
    name = worker_id or f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
    scope = _claim_scope(engine, named)
    claims = Claims(database, clock, name, lease, scope)
    soft = SoftBounces(settings.soft_bounce_limit, settings.soft_bounce_days)
    silent = [each for each, reports in reporting.items() if not reports]
    doubts = InDoubtHandler(database, clock, doubt_grace, silent)
    duties = MaintenanceServices(
        database,
        claims,
        doubts,
        engine.database_ledger,
        WorkerRegistry(database, clock, name, settings_version=engine.settings_version),
        soft,
    )
    parts = WorkerParts(
        clock=clock,
        claims=claims,
        settling=NotificationSettling(
            database, clock, SmtpRejections(soft), None if named is None else ProviderAccount(named.name, named.account)
        ),
        composer=await _make_composer(engine),
        gate=Gate(
            database,
            clock,
            engine.ledger,
            defaults_of(settings, {each.name: each.weight for each in route.members}, named.name if named else None),
            Destinations(clock, engine.ledger, domains, settings.reserve_percent)
            if (domains := domain_limits(settings))
            else None,
            throttled_rate=partial(_throttled_rate, route, name),
            lifetimes=lifetimes(settings),
        ),
        route=route,
        maintenance=Maintenance(clock, duties, lease),
        source_duties=SourceDuties(
            RepeatWorker(database, clock, engine.campaigns, engine.templates, zone=settings.timezone),
            _campaign_scheduler(engine),
            ArticleScheduler(database, clock, engine.templates, engine.campaigns.rules),
            SequenceDuties(database, clock, engine.templates, settings.timezone),
            PendingErasures(database, clock, engine.imports_folder),
        ),
        wake=engine.wake if named is None else engine.wake.branch(),
        pacing=Pacing(clock, engine.ledger),
        retractions=Retractions(engine.reports, clock),
        absence=WorkerAbsence(database, clock),
        recorder=recorder,
    )
    return Worker(parts, _worker_settings(settings, doubt_grace, runs_source_duties=named is None))


def _worker_settings(settings: Settings, doubt_grace: Instant, *, runs_source_duties: bool) -> WorkerSettings:
    return WorkerSettings(
        window=settings.concurrency,
        claim_batch=settings.claim_batch,
        # Run often enough to renew a lease of any length well before it ends.
        maintenance_seconds=min(1.0, settings.lock_ttl_seconds / 6),
        shutdown_grace=settings.shutdown_grace_seconds * SECOND,
        lifetimes=lifetimes(settings),
        max_attempts=settings.max_attempts,
        logs_sent=settings.log_sent,
        doubt_grace=doubt_grace,
        runs_source_duties=runs_source_duties,
    )


def _claim_scope(engine: Engine, named: NamedProvider | None) -> ClaimScope | None:
    routes = engine.named.routes
    return ClaimScope(routes, None if named is None else named.name) if routes.rules else None


def _reporting_providers(engine: Engine, route: Route) -> dict[str, bool]:
    """Return whether each provider reports events.

    Includes providers of other workers, because their messages may be in doubt.
    """
    installed = {name: reports_events(name, engine.settings) for name in providers_of(engine.settings)}
    named = {each.name: reports_events(each.kind, each.settings) for each in engine.named.by_name.values()}
    return installed | named | {member.name: member.provider.reports_events for member in route.members}


def make_campaign_repeats(engine: Engine) -> CampaignRepeats:
    zone = engine.settings.timezone
    return CampaignRepeats(
        engine.database, engine.clock, engine.campaigns, engine.templates, fetch=fetch_feed, zone=zone
    )


def _switch_uploads(settings: Settings, clock: Clock, database: Database) -> SwitchUploads:
    moving = SwitchOvers(database, clock, largest=settings.import_bytes)
    return SwitchUploads(moving, settings.imports, largest=settings.import_bytes)


def _campaign_scheduler(engine: Engine) -> CampaignScheduler:
    notices = ApprovalNotices(
        engine.database,
        engine.clock,
        public_url=engine.public_url,
        render=render_branded,
        language=engine.settings.language,
    )
    rules, rails = engine.campaigns.rules, engine.campaigns.rails
    return CampaignScheduler(engine.database, engine.clock, rules, rails, notices, defaults=engine.defaults)


async def _make_composer(engine: Engine) -> Composer:
    identity = await make_identity(engine)
    senders = MessageSenders(
        identity.sender,
        identity.domains,
        signer=make_signer(engine.settings),
        directory=engine.directory,
        secret_box=engine.database.secret_box,
    )
    return Composer(engine.database, engine.templates, identity, senders=senders, threads=engine.threads)


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
        settings.sender_postal_address or "",
        settings.public_url,
        WebViewTokens(secret),
        tags_bounces=settings.bounce_tag,
        domains=sender_domains(settings),
        tracking=_tracking(settings, secret),
        reply_address=settings.reply_address,
        names_mailout_messages=settings.mailout_message_links,
    )


def _tracking(settings: Settings, secret: str) -> TrackingSettings | None:
    if settings.tracking is TrackingMode.OFF:
        return None
    return TrackingSettings(settings.tracking, TrackingTokens(secret), settings.tracking_invisible_link)


def _api_messages(
    settings: Settings, database: Database, clock: Clock, acceptor: Acceptor, directory: SenderDirectory
) -> ApiMessages:
    domains = sender_domains(settings)
    find_refusal = _find_refusal(database, clock, acceptor)
    return ApiMessages(
        database, clock, acceptor, settings.timezone, domains, directory=directory, find_refusal=find_refusal
    )


def _find_refusal(database: Database, clock: Clock, acceptor: Acceptor) -> FindRefusal:
    """Return the function that refuses messages which need an approval."""
    approvals = MessageApprovals(database, clock, acceptor)

    async def find_refusal(context: RequestContext, messages: Sequence[NewMessage]) -> NotPossibleNow | None:
        return await approvals.find_refusal(messages, actor=context.caller.audit_name, is_person=context.is_person)

    return find_refusal


def _raw_messages(
    settings: Settings,
    database: Database,
    clock: Clock,
    acceptor: Acceptor,
    directory: SenderDirectory,
    *,
    named: NamedProviders,
) -> RawMessages:
    domains, find_warnings = sender_domains(settings), raw_warnings(settings, named)
    return RawMessages(
        database,
        clock,
        acceptor,
        settings.timezone,
        domains,
        find_warnings=find_warnings,
        directory=directory,
        find_refusal=_find_refusal(database, clock, acceptor),
    )


def raw_warnings(settings: Settings, named: NamedProviders) -> FindWarnings:
    """Return the warnings of a tenant's raw emails: some providers accept fields instead of the original bytes."""
    installation = _conversion(providers_of(settings))
    own = {each.name: _conversion([each.kind]) for each in named.used}

    def find(tenant_id: int) -> tuple[AcceptWarning, ...]:
        name = named.routes.provider_of(tenant_id, Source.API)
        return installation if name is None else own[name]

    return find


def _conversion(providers: Iterable[str]) -> tuple[AcceptWarning, ...]:
    """Return the warning about the first provider that converts raw emails."""
    converting = [name for name in providers if name in KINDS and KINDS[name].converts_raw]
    return (changed_by_provider(converting[0]),) if converting else ()


def preview_identity(settings: Settings) -> SenderIdentity:
    """Return the sender of previews. Their unsubscribe links have no effect."""
    tokens = UnsubscribeTokens("preview")
    postal = settings.sender_postal_address or ""
    return SenderIdentity(sender_of(settings), None, settings.unsubscribe_url, tokens, postal, settings.public_url)


def _ledger(client: "Redis | None", database_ledger: DatabaseLedger, clock: Clock) -> Ledger:
    if client is None:
        return database_ledger
    from mailwright.outbox import valkey  # noqa: PLC0415 - as above

    return valkey.ValkeyLedger(client, database_ledger, clock)
