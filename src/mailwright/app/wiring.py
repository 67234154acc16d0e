"""One engine per process: what every command and every request works with."""

import os
import secrets
import socket
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from redis.asyncio import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from mailwright.content.dkim import DkimKey, DkimSigner
from mailwright.content.headers import Mailbox
from mailwright.content.store import TemplateStore
from mailwright.domain import address
from mailwright.domain.clock import MINUTE, SECOND, Clock, SystemClock
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.permits import Limits
from mailwright.domain.unsubscribe import UnsubscribeTokens
from mailwright.ops.settings import Settings
from mailwright.outbox.claim import Claims
from mailwright.outbox.doubt import Doubts
from mailwright.outbox.installation import UNSUBSCRIBE_SECRET, kept_secret
from mailwright.outbox.intake import Intake
from mailwright.outbox.ledger import DatabaseLedger, Ledger, ValkeyLedger
from mailwright.outbox.settle import Settling
from mailwright.outbox.workers import Roster
from mailwright.pipeline.road import Identity, Road, mailbox_of
from mailwright.providers.circuit import Circuit
from mailwright.providers.mailbox import MailboxProvider
from mailwright.providers.protocol import Provider
from mailwright.providers.smtp import Smtp, SmtpSettings, parse_smtp_url
from mailwright.storage.database import Database, parse_url
from mailwright.worker.gate import Gate
from mailwright.worker.keeper import Duties, Keeper
from mailwright.worker.loop import Pace, Parts, Worker
from mailwright.worker.wake import Wake

# Valkey helps; waiting for it must never cost more than asking the database.
VALKEY_TIMEOUT_SECONDS = 0.5
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
    intake: Intake
    templates: TemplateStore
    ledger: Ledger
    ground: DatabaseLedger
    threads: ThreadPoolExecutor


@asynccontextmanager
async def open_engine(settings: Settings, clock: Clock | None = None) -> AsyncIterator[Engine]:
    clock = clock or SystemClock()
    verify(settings)
    database = Database(settings.database_url)
    valkey = valkey_client(settings.redis_url)
    wake = Wake(valkey)
    ground = DatabaseLedger(database, clock)
    engine = Engine(
        settings=settings,
        clock=clock,
        database=database,
        valkey=valkey,
        wake=wake,
        intake=Intake(database, clock, wake.announce),
        templates=TemplateStore(database, clock),
        ledger=ground if valkey is None else ValkeyLedger(valkey, ground, clock),
        ground=ground,
        threads=ThreadPoolExecutor(max_workers=os.cpu_count() or 1, thread_name_prefix="sign"),
    )
    try:
        yield engine
    finally:
        await engine.intake.close()
        await wake.close()
        if valkey is not None:
            await valkey.aclose()
        engine.threads.shutdown(wait=False, cancel_futures=True)
        await database.close()


def verify(settings: Settings) -> None:
    """What only the parts themselves can tell of a setting, all of it at once, before anything is opened."""
    problems: list[str] = []
    for part in (_database_address, _valkey_address, make_signer, sender_of, _provider_address):
        try:
            part(settings)
        except ConfigurationInvalid as error:
            problems += error.problems
    if problems:
        raise ConfigurationInvalid(*problems)


async def make_worker(engine: Engine, provider: Provider | None = None, worker_id: str | None = None) -> Worker:
    settings, clock, database = engine.settings, engine.clock, engine.database
    provider = provider or make_provider(settings, clock)
    lock_ttl = settings.lock_ttl_seconds * SECOND
    doubt_grace = REPORT_GRACE if provider.reports_events else 0
    name = worker_id or f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
    claims = Claims(database, clock, name, lock_ttl)
    duties = Duties(
        database, claims, Doubts(database, clock, doubt_grace), engine.ground, Roster(database, clock, name)
    )
    parts = Parts(
        clock=clock,
        claims=claims,
        settling=Settling(database, clock),
        road=Road(
            database,
            engine.templates,
            await make_identity(engine),
            signer=make_signer(settings),
            threads=engine.threads,
        ),
        gate=Gate(database, clock, engine.ledger, default_limits(settings)),
        provider=provider,
        circuit=Circuit(clock),
        keeper=Keeper(clock, duties, lock_ttl),
        wake=engine.wake,
    )
    pace = Pace(
        window=settings.concurrency,
        claim_batch=settings.claim_batch,
        # Often enough that a lock of any length is renewed well before it ends.
        keep_seconds=min(1.0, settings.lock_ttl_seconds / 6),
        shutdown_grace=settings.shutdown_grace_seconds * SECOND,
        doubt_grace=doubt_grace,
    )
    return Worker(parts, pace)


def make_provider(settings: Settings, clock: Clock) -> Provider:
    """The entry for a new provider: its name in the settings, its class here."""
    match settings.provider:
        case "mailbox":
            return MailboxProvider(settings.mailbox, clock)
        case "smtp":
            return Smtp(smtp_settings(settings), clock=clock)


def smtp_settings(settings: Settings) -> SmtpSettings:
    if settings.smtp_url is None:
        raise ConfigurationInvalid("MAILWRIGHT_SMTP_URL: is needed when MAILWRIGHT_PROVIDER is smtp")
    try:
        parsed = parse_smtp_url(settings.smtp_url.get_secret_value())
    except ConfigurationInvalid as error:
        raise ConfigurationInvalid(*(f"MAILWRIGHT_SMTP_URL: {problem}" for problem in error.problems)) from error
    return parsed if settings.smtp_connections is None else replace(parsed, connections=settings.smtp_connections)


def make_signer(settings: Settings) -> DkimSigner | None:
    key = dkim_key(settings)
    return None if key is None else DkimSigner([key])


def dkim_key(settings: Settings) -> DkimKey | None:
    if settings.dkim_key_file is None or settings.dkim_selector is None:
        return None
    domain = settings.dkim_domain or address.domain_of(mailbox_of(settings.sender).address)
    try:
        pem = settings.dkim_key_file.read_text(encoding="utf-8")
        return DkimKey.load(pem, domain, settings.dkim_selector)
    except OSError as error:
        raise ConfigurationInvalid(f"MAILWRIGHT_DKIM_KEY_FILE: {error.strerror or error}") from error
    except ConfigurationInvalid as error:
        raise ConfigurationInvalid(*(f"MAILWRIGHT_DKIM_KEY_FILE: {problem}" for problem in error.problems)) from error


def sender_of(settings: Settings) -> Mailbox:
    sender = mailbox_of(settings.sender)
    for name, text in (("MAILWRIGHT_FROM", sender.address), ("MAILWRIGHT_BOUNCE_ADDRESS", settings.bounce_address)):
        try:
            if text is not None:
                address.parse(text)
        except address.InvalidAddress as error:
            raise ConfigurationInvalid(f"{name}: {error}") from error
    return sender


async def make_identity(engine: Engine) -> Identity:
    settings = engine.settings
    secret = (
        settings.unsubscribe_secret.get_secret_value()
        if settings.unsubscribe_secret is not None
        else await kept_secret(engine.database, UNSUBSCRIBE_SECRET)
    )
    return Identity(sender_of(settings), settings.bounce_address, settings.unsubscribe_url, UnsubscribeTokens(secret))


def default_limits(settings: Settings) -> Limits:
    return Limits(
        rate_per_second=settings.rate_per_second,
        rate_per_hour=settings.rate_per_hour,
        daily_limit=settings.daily_limit,
        working_hours=settings.working_hours,
        timezone=settings.timezone,
    )


def _database_address(settings: Settings) -> None:
    parse_url(settings.database_url)


def _valkey_address(settings: Settings) -> None:
    valkey_client(settings.redis_url)


def _provider_address(settings: Settings) -> None:
    if settings.provider == "smtp":
        smtp_settings(settings)


def valkey_client(url: str | None) -> "Redis | None":
    if url is None:
        return None
    try:
        return Redis.from_url(
            url,
            socket_timeout=VALKEY_TIMEOUT_SECONDS,
            socket_connect_timeout=VALKEY_TIMEOUT_SECONDS,
            # The database answers where Valkey does not: trying again would only make a mail wait.
            retry=Retry(NoBackoff(), 0),
        )
    except (ValueError, RedisError) as error:
        raise ConfigurationInvalid(f"MAILWRIGHT_REDIS_URL: {error}") from error
