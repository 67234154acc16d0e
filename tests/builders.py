"""Builders that fill in what a test does not care about."""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from sqlalchemy import insert, select, update

from mailwright.access.account_notices import AccountNotices
from mailwright.access.failed_sign_ins import FailedSignIns
from mailwright.access.users import Users
from mailwright.app.system_emails import render_branded
from mailwright.app.wiring import Engine, make_worker, open_engine
from mailwright.audience import suppressions as suppressed
from mailwright.audience.status import ContactStatusService
from mailwright.domain.clock import Instant, ManualClock
from mailwright.domain.ids import uuid7
from mailwright.domain.message import Admitted, Claimed, Event, NewMessage, Outcome, Settlement, Source
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.results import ErrorCategory, ResultKind, SendResult, sent
from mailwright.domain.states import EventType, OnDoubt, Priority
from mailwright.domain.unsubscribe_tokens import GENERAL
from mailwright.ops.settings import Settings, load
from mailwright.outbox.accept import Acceptor
from mailwright.outbox.claim import MAX_LEASE, Claims
from mailwright.outbox.in_doubt import InDoubtHandler
from mailwright.outbox.message_records import MessageRecord, find
from mailwright.outbox.settle import BegunAttempts, Settler
from mailwright.pipeline.conclude import ReadyMessage, conclude
from mailwright.providers.protocol import Provider
from mailwright.providers.route import Route
from mailwright.storage.database import Database
from mailwright.storage.tables import contacts, deliveries, suppressions, tenants
from mailwright.worker.worker import Worker

_numbers = count(1)
LOCK_TTL: Instant = MAX_LEASE
DEFAULT_TENANT = 1


def a_message(**changes: Any) -> NewMessage:
    number = next(_numbers)
    email = changes.pop("to", f"reader{number}@example.com")
    defaults: dict[str, Any] = {
        "outbox_id": uuid7(1_800_000_000_000),
        "tenant_id": DEFAULT_TENANT,
        "source": Source.API,
        "request_id": f"request-{number}",
        "to_email": email,
        "subject": "Hello",
        "payload": {"to": email, "subject": "Hello", "html": "<p>Hello</p>"},
    }
    return NewMessage(**{**defaults, **changes})


def a_newsletter(**changes: Any) -> NewMessage:
    bulk = {"source": Source.CAMPAIGN, "priority": Priority.BULK, "is_bulk": True, "on_doubt": OnDoubt.HOLD}
    return a_message(**{**bulk, **changes})


def a_message_with(**content: Any) -> NewMessage:
    """Build a message with these fields in its payload. None removes a field."""
    plain = a_message()
    payload = {name: value for name, value in {**plain.payload, **content}.items() if value is not None}
    return replace(plain, payload=payload)


async def ignore_wake() -> None:
    """Wake no worker."""


def an_acceptor(database: Database, clock: ManualClock) -> Acceptor:
    return Acceptor(database, clock, ignore_wake)


def claims_of(database: Database, clock: ManualClock, worker: str = "worker-1") -> Claims:
    return Claims(database, clock, worker, LOCK_TTL)


@dataclass(slots=True)
class Attempt:
    """An attempt that a worker wants to begin, without limits unless the test sets them."""

    claimed: Claimed
    provider: str | None = None
    copies: tuple[str, ...] = ()

    @property
    def admitted(self) -> Admitted:
        return Admitted(self.claimed, self.claimed.tenant_limit)


class ClaimSettling(Settler):
    """Begin attempts for claimed messages directly, without a gate and a builder."""

    async def exchange(self, outcomes: Sequence[Outcome], next_up: Sequence[Claimed | Attempt]) -> BegunAttempts:
        attempts = [Attempt(entry) if isinstance(entry, Claimed) else entry for entry in next_up]
        return await super().exchange(outcomes, attempts)


def a_settler(database: Database, clock: ManualClock) -> ClaimSettling:
    return ClaimSettling(database, clock)


def an_in_doubt_handler(database: Database, clock: ManualClock, grace: Instant = 0) -> InDoubtHandler:
    return InDoubtHandler(database, clock, grace)


# Responses of a provider.

SENT = sent("scripted", "<id-of-the-provider>")
FAULT = SendResult(
    ResultKind.RETRYABLE,
    "scripted",
    code="TEMPORARY",
    category=ErrorCategory.TRANSIENT,
    message="later",
    original_code="451",
    definitely_not_sent=True,
)
REFUSAL = SendResult(
    ResultKind.FAILED,
    "scripted",
    code="REFUSED",
    category=ErrorCategory.PERMANENT,
    message="never",
    original_code="550",
    definitely_not_sent=True,
)
THROTTLE = SendResult(
    ResultKind.RETRYABLE,
    "scripted",
    code="THROTTLED",
    category=ErrorCategory.QUOTA,
    message="slower",
    original_code="454",
    definitely_not_sent=True,
)
MISCONFIGURED = SendResult(
    ResultKind.FAILED,
    "scripted",
    code="AUTH_FAILED",
    category=ErrorCategory.CONFIGURATION,
    message="wrong password",
    original_code="535",
    blames_provider=True,
    definitely_not_sent=True,
)
UNKNOWN = SendResult(
    ResultKind.IN_DOUBT,
    "scripted",
    code="NO_ANSWER",
    category=ErrorCategory.TIMEOUT,
    message="cut",
    blames_provider=True,
)


def ready(claimed: Claimed, attempted_at: Instant) -> ReadyMessage:
    outgoing = OutgoingMessage(claimed.outbox_id, "sender@example.com", (claimed.to_email,), b"")
    admitted = Admitted(claimed, claimed.tenant_limit)
    return ReadyMessage(claimed, admitted, outgoing, claimed.received_at, attempted_at=attempted_at)


def a_result(claimed: Claimed, result: SendResult, now: Instant, doubt_grace: Instant = 0) -> Settlement:
    """Build what a worker settles after this response of the provider."""
    return conclude(ready(claimed, now), result, now, deferred_until=now + 10_000, doubt_until=now + doubt_grace)


# Rows of the database.


async def a_tenant(database: Database, name: str, **fields: Any) -> int:
    async with database.write() as tx:
        values = {"name": name, "created_at": 0, **fields}
        return int((await tx.execute(insert(tenants).values(**values).returning(tenants.c.id)))[0].id)


async def change_tenant(database: Database, tenant_id: int = DEFAULT_TENANT, **fields: Any) -> None:
    async with database.write() as tx:
        await tx.execute(update(tenants).where(tenants.c.id == tenant_id).values(**fields))


async def a_contact(database: Database, email: str, **fields: Any) -> str:
    contact_id = uuid7(1_800_000_000_000)
    values = {"contact_id": contact_id, "tenant_id": DEFAULT_TENANT, "email": email, "created_at": 0, **fields}
    async with database.write() as tx:
        await tx.execute(insert(contacts).values(**values))
    return contact_id


async def a_subscriber(database: Database, email: str, list_key: str = GENERAL, **fields: Any) -> None:
    """Create a contact with a subscription; to `general`, it is a subscription to all bulk email."""
    await a_contact(database, email, **fields)
    tenant_id = fields.get("tenant_id", DEFAULT_TENANT)
    statuses_ = ContactStatusService(database, ManualClock(1))
    await statuses_.subscribe(tenant_id, email, list_key, source="test")


async def suppress(
    database: Database, email: str, tenant_id: int = DEFAULT_TENANT, list_key: str = suppressed.ALL_MESSAGES
) -> None:
    who = {"tenant_id": tenant_id, "email": email, "list_key": list_key}
    values = {**who, "reason": "unsubscribed", "source": "test", "created_at": 0}
    async with database.write() as tx:
        await tx.execute(insert(suppressions).values(**values))


async def record_of(database: Database, outbox_id: str) -> MessageRecord:
    return await find(database, outbox_id, tenant_id=None)


async def status_of(database: Database, outbox_id: str) -> str:
    return (await record_of(database, outbox_id)).summary.status


async def statuses(database: Database) -> dict[str, int]:
    """Count the messages by status."""
    found: dict[str, int] = {}
    for row in await deliveries_of(database):
        found[row.status] = found.get(row.status, 0) + 1
    return found


async def deliveries_of(database: Database) -> list[Any]:
    async with database.read() as tx:
        return list(await tx.execute(select(deliveries).order_by(deliveries.c.message_key)))


def steps(record: MessageRecord) -> list[str]:
    return [str(event.type) for event in record.events]


def the_event(record: MessageRecord, event_type: EventType) -> Event:
    """Return the only event of its type."""
    (found,) = [event for event in record.events if event.type is event_type]
    return found


def attempt_steps(end: EventType) -> list[str]:
    """Return the event types of an attempt that reached the provider."""
    return [EventType.RECEIVED, EventType.VALIDATED, EventType.SENT_ATTEMPT, end]


# A whole engine.


SECRET_KEY = "k" * 32


def account_notices(database: Database, clock: ManualClock) -> AccountNotices:
    return AccountNotices(database, clock, public_url="http://mail.example", render=render_branded)


def user_store(database: Database, clock: ManualClock) -> Users:
    return Users(database, clock, FailedSignIns(database, clock), account_notices(database, clock))


def settings_for(url: str, **changes: Any) -> Settings:
    """Return settings for tests.

    Nothing is reserved for transactional email, so that counts are easy to read. Tenants need no sender domains.
    """
    defaults = {
        "sender": "Shop <shop@example.com>",
        "unsubscribe_secret": "s" * 32,
        "reserve_percent": 0,
        "require_sender_domains": False,
    }
    values = {"database_url": url, "secret_key": SECRET_KEY, **defaults, **changes}
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    given = _given_outside(frozenset(environment.items()), Path.cwd())
    settings = Settings.__new__(Settings)
    try:
        Settings.__pydantic_validator__.validate_python({**given, **values}, self_instance=settings)
    except ValidationError:
        return load(**values)  # Its error names the variables.
    return load(**values) if settings.dry_run else settings


@cache
def _given_outside(_environment: object, _folder: Path) -> dict[str, Any]:
    """Return the settings of the environment and of the file. Reading them takes longer than opening a database."""
    loaded = load(database_url="sqlite:///unused.db")
    return {name: getattr(loaded, name) for name in loaded.model_fields_set}


class Bench:
    """An engine with a clock that the test moves, and workers that run until nothing is due."""

    def __init__(self, engine: Engine, clock: ManualClock) -> None:
        self.engine = engine
        self.clock = clock
        self.database = engine.database

    async def accept(self, *messages: NewMessage) -> list[str]:
        return [accepted.outbox_id for accepted in await self.engine.acceptor.accept(messages)]

    async def worker(self, provider: Provider | Route | None = None, name: str | None = None, **pace: Any) -> Worker:
        """Create a worker that delays no test: its maintenance runs four times a second, and it does not wait for
        deferrals that end only when the test advances the clock."""
        worker = await make_worker(self.engine, provider, name)
        drain_wait = 0 if isinstance(self.clock, ManualClock) else worker.settings.drain_wait
        quick = {"maintenance_seconds": 0.25, "drain_wait": drain_wait}
        return Worker(worker.parts, replace(worker.settings, **quick | pace))

    async def drain(self, provider: Provider | Route | None = None, **pace: Any) -> None:
        """Run a worker until nothing is due. The source duties run only whenever it is idle, so the order is fixed."""
        await (await self.worker(provider, **{"runs_source_duties": False, **pace})).run(drain=True)

    async def record(self, outbox_id: str) -> MessageRecord:
        return await record_of(self.database, outbox_id)

    async def statuses(self) -> dict[str, int]:
        return await statuses(self.database)


@asynccontextmanager
async def a_bench(url: str, clock: ManualClock, **settings: Any) -> AsyncIterator[Bench]:
    async with open_engine(settings_for(url, **settings), clock) as engine:
        yield Bench(engine, clock)
