"""Builders: they fill in what a test does not care about."""

from itertools import count
from typing import Any

from mailwright.domain.clock import Instant, ManualClock
from mailwright.domain.ids import uuid7
from mailwright.domain.message import NewMessage, Source
from mailwright.outbox.claim import Claims
from mailwright.outbox.intake import Intake
from mailwright.outbox.settle import Settling
from mailwright.storage.database import Database

_numbers = count(1)
LOCK_TTL: Instant = 120_000


def a_message(**changes: Any) -> NewMessage:
    number = next(_numbers)
    email = changes.pop("to", f"reader{number}@example.com")
    defaults: dict[str, Any] = {
        "outbox_id": uuid7(1_800_000_000_000),
        "tenant_id": 1,
        "source": Source.API,
        "request_id": f"request-{number}",
        "to_email": email,
        "subject": "Hello",
        "payload": {"to": email, "subject": "Hello", "html": "<p>Hello</p>"},
    }
    return NewMessage(**{**defaults, **changes})


async def nobody_listens() -> None:
    """Nobody waits to be told of new messages."""


def an_intake(database: Database, clock: ManualClock) -> Intake:
    return Intake(database, clock, nobody_listens)


def claims_of(database: Database, clock: ManualClock, worker: str = "worker-1") -> Claims:
    return Claims(database, clock, worker, LOCK_TTL)


def settling_of(database: Database, clock: ManualClock) -> Settling:
    return Settling(database, clock, LOCK_TTL)
