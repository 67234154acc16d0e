"""One engine per process: what every command and every request works with."""

import os
import secrets
import socket
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mailwright.app.addresses import located
from mailwright.app.inbound import make_reports, make_webhooks, verify_inbound
from mailwright.app.mailouts import MailoutDesk, verify_mailouts
from mailwright.app.providers import make_route, providers_of, verify_providers
from mailwright.app.schema import prepare
from mailwright.app.templates import make_templates
from mailwright.audience.status import SoftBounces
from mailwright.content.dkim import DkimSigner
from mailwright.content.headers import Mailbox
from mailwright.content.template_store import TemplateStore
from mailwright.domain import address
from mailwright.domain.clock import MINUTE, SECOND, Clock, SystemClock
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.permits import Limits
from mailwright.domain.unsubscribe_tokens import UnsubscribeTokens
from mailwright.domain.web_view_tokens import WebViewTokens
from mailwright.events.inbound_webhooks import InboundWebhooks
from mailwright.events.rejections import SmtpRejections
from mailwright.events.reports import Reports
from mailwright.ops.settings import Settings
from mailwright.outbox.accept import Acceptor
from mailwright.outbox.claim import Claims
from mailwright.outbox.in_doubt import InDoubtHandler
from mailwright.outbox.installation import UNSUBSCRIBE_SECRET, get_or_create_secret
from mailwright.outbox.ledger import DatabaseLedger, Ledger
from mailwright.outbox.limits import DefaultLimits
from mailwright.outbox.workers import WorkerRegistry
from mailwright.pipeline.compose import Composer, SenderIdentity, parse_mailbox
from mailwright.policies.domains import DomainLimits, parse_domain_limits
from mailwright.policies.rates import TARIFFS
from mailwright.providers.protocol import Provider
from mailwright.providers.route import Route
from mailwright.sources.articles.enqueue import ArticleScheduler
from mailwright.sources.campaigns.scheduler import CampaignScheduler
from mailwright.sources.notifications.settle import NotificationSettling
from mailwright.storage.database import Database, parse_url
from mailwright.worker.destinations import Destinations
from mailwright.worker.gate import Gate
from mailwright.worker.loop import Worker, WorkerParts, WorkerSettings
from mailwright.worker.maintenance import Maintenance, MaintenanceServices
from mailwright.worker.pacing import Pacing
from mailwright.worker.source_duties import SourceDuties
from mailwright.worker.wake import Wake

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from mailwright.content.dkim_key import DkimKey

# How long a provider that reports events may take to tell of a mail in doubt.
REPORT_GRACE = 10 * MINUTE


@dataclass(frozen=True, slots=True)
class Engine:
    """The parts that commands, the API and workers share."""

    settings: Settings
    clock: Clock
    database: Database
    valkey: "Redis | None"
    wake: Wake
    acceptor: Acceptor
    templates: TemplateStore
    ledger: Ledger
    ground: DatabaseLedger
    threads: ThreadPoolExecutor
    reports: Reports
    webhooks: InboundWebhooks
    mailouts: MailoutDesk


@asynccontextmanager
async def open_engine(settings: Settings, clock: Clock | None = None) -> AsyncIterator[Engine]:
    verify(settings)
    database = Database(settings.database_url)
    try:
        await prepare(database)
        async with _engine(await located(settings, database), clock or SystemClock(), database) as engine:
            yield engine
    finally:
        await database.close()


@asynccontextmanager
async def _engine(settings: Settings, clock: Clock, database: Database) -> AsyncIterator[Engine]:
    valkey = valkey_client(settings.redis_url)
    wake = Wake(valkey)
    ground = DatabaseLedger(database, clock)
    reports = make_reports(settings, database, clock)
    templates = make_templates(settings, database, clock)
    engine = Engine(
        settings=settings,
        clock=clock,
        database=database,
        valkey=valkey,
        wake=wake,
        acceptor=Acceptor(database, clock, wake.announce),
        templates=templates,
        ledger=_ledger(valkey, ground, clock),
        ground=ground,
        threads=ThreadPoolExecutor(max_workers=os.cpu_count() or 1, thread_name_prefix="sign"),
        reports=reports,
        webhooks=make_webhooks(settings, reports, clock),
        mailouts=MailoutDesk(settings, database, clock, templates),
    )
    try:
        yield engine
    finally:
        await engine.acceptor.close()
        await engine.webhooks.close()
        await engine.mailouts.close()
        await reports.close()
        await wake.close()
        if valkey is not None:
            await valkey.aclose()
        engine.threads.shutdown(wait=False, cancel_futures=True)


def verify(settings: Settings) -> None:
    """What only the parts themselves can tell of a setting, all of it at once, before anything is opened."""
    problems: list[str] = []
    parts = (
        _database_address,
        _valkey_address,
        make_signer,
        sender_of,
        verify_providers,
        domain_limits,
        verify_inbound,
        verify_mailouts,
    )
    for part in parts:
        try:
            part(settings)
        except ConfigurationInvalid as error:
            problems += error.problems
    if problems:
        raise ConfigurationInvalid(*problems)


async def make_worker(engine: Engine, provider: Provider | Route | None = None, worker_id: str | None = None) -> Worker:
    settings, clock, database = engine.settings, engine.clock, engine.database
    route = _route(provider, settings, clock)
    lock_ttl = settings.lock_ttl_seconds * SECOND
    silent = [member.name for member in route.members if not member.provider.reports_events]
    doubt_grace = REPORT_GRACE if len(silent) < len(route.members) else 0
    name = worker_id or f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
    claims = Claims(database, clock, name, lock_ttl)
    soft = SoftBounces(settings.soft_bounce_limit, settings.soft_bounce_days)
    doubts = InDoubtHandler(database, clock, doubt_grace, silent)
    duties = MaintenanceServices(database, claims, doubts, engine.ground, WorkerRegistry(database, clock, name), soft)
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
            Destinations(clock, engine.ledger, domains) if (domains := domain_limits(settings)) else None,
        ),
        route=route,
        maintenance=Maintenance(clock, duties, lock_ttl),
        source_duties=SourceDuties(
            CampaignScheduler(database, clock), ArticleScheduler(database, clock, engine.templates)
        ),
        wake=engine.wake,
        pacing=Pacing(clock, engine.ledger),
    )
    pace = WorkerSettings(
        window=settings.concurrency,
        claim_batch=settings.claim_batch,
        # Often enough that a lock of any length is renewed well before it ends.
        keep_seconds=min(1.0, settings.lock_ttl_seconds / 6),
        shutdown_grace=settings.shutdown_grace_seconds * SECOND,
        doubt_grace=doubt_grace,
    )
    return Worker(parts, pace)


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
    from mailwright.content.dkim_key import DkimKey  # noqa: PLC0415 - only for those who sign: see there

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
    )


def looked_at_identity(settings: Settings) -> SenderIdentity:
    """For mails that are only looked at: nobody leaves a list by following a link in one."""
    tokens = UnsubscribeTokens("only looked at")
    postal = settings.postal_address or ""
    return SenderIdentity(sender_of(settings), None, settings.unsubscribe_url, tokens, postal, settings.public_url)


def defaults_of(settings: Settings, providers: Mapping[str, int | None]) -> DefaultLimits:
    return DefaultLimits(default_limits(settings), providers, settings.quota_sync_seconds * SECOND)


def default_limits(settings: Settings) -> Limits:
    return Limits(
        rate_per_second=settings.rate_per_second,
        rate_per_hour=settings.rate_per_hour or _tariff(settings),
        daily_limit=settings.daily_limit,
        working_hours=settings.working_hours,
        timezone=settings.timezone,
        sliding_hour=settings.sliding_hour,
        warmup_since=settings.warmup_since,
        warmup_start=settings.warmup_start,
        warmup_factor=settings.warmup_factor,
        interval_ms=settings.interval_ms,
    )


def _tariff(settings: Settings) -> int | None:
    """A provider's usual limit per hour, where it carries all the mail."""
    match list(providers_of(settings)):
        case [only]:
            return TARIFFS.get(only)
        case _:
            return None


def domain_limits(settings: Settings) -> DomainLimits | None:
    return None if settings.domain_limits is None else parse_domain_limits(settings.domain_limits)


def _database_address(settings: Settings) -> None:
    parse_url(settings.database_url)


def _valkey_address(settings: Settings) -> None:
    valkey_client(settings.redis_url)


def valkey_client(url: str | None) -> "Redis | None":
    if url is None:
        return None
    from mailwright.outbox import valkey  # noqa: PLC0415 - only for those who have one: see there

    return valkey.valkey_client(url)


def _ledger(client: "Redis | None", ground: DatabaseLedger, clock: Clock) -> Ledger:
    if client is None:
        return ground
    from mailwright.outbox import valkey  # noqa: PLC0415 - as above

    return valkey.ValkeyLedger(client, ground, clock)
