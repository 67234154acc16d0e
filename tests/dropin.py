"""Tests of the APIs of other services: a real server for their SDKs, and what the outbox then contains."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

import uvicorn
from sqlalchemy import select

from mailwright.access.roles import Scope
from mailwright.app.listening import address_of, listen
from mailwright.app.wiring import Engine
from mailwright.domain.clock import Clock, ManualClock
from mailwright.storage.database import Database
from mailwright.storage.tables import contacts, messages, raw_contents
from mailwright.web.app import create_app
from tests.api import an_engine
from tests.builders import Bench
from tests.standins.provider import ScriptedProvider

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(64))


@dataclass(frozen=True)
class Stored:
    """A message of the outbox."""

    outbox_id: str
    to: str
    subject: str
    payload: Mapping[str, Any]
    scheduled_at: int | None
    list_key: str | None
    content: bytes | None

    @property
    def email(self) -> EmailMessage:
        """Return the content of a message that belongs to an email to several recipients."""
        parsed = message_from_bytes(self.content or b"", policy=policy.default)
        assert isinstance(parsed, EmailMessage)
        return parsed


@dataclass(frozen=True)
class DropIn:
    engine: Engine
    url: str
    key: str

    async def key_with(self, *scopes: Scope) -> str:
        return await self.engine.keys.create(1, scopes=frozenset(scopes))

    async def stored(self) -> list[Stored]:
        m = messages.c
        columns = (m.outbox_id, m.to_email, m.subject, m.payload, m.scheduled_at, m.list_key, raw_contents.c.content)
        joined = messages.outerjoin(raw_contents, m.content_digest == raw_contents.c.digest)
        async with self.engine.database.read() as tx:
            rows = await tx.execute(select(*columns).select_from(joined).order_by(m.id))
        return [Stored(*row[:3], row[3] if isinstance(row[3], dict) else json.loads(row[3]), *row[4:]) for row in rows]

    async def deliver(self, clock: ManualClock) -> list[EmailMessage]:
        """Deliver all due messages, and return the emails that left, in the order of their recipients."""
        provider = ScriptedProvider()
        await Bench(self.engine, clock).drain(provider)
        sent = sorted(provider.messages, key=lambda message: message.recipients)
        return [message_from_bytes(each.content, EmailMessage, policy=policy.default) for each in sent]

    async def is_empty(self) -> bool:
        """Return whether nothing that a request could have created exists."""
        async with self.engine.database.read() as tx:
            return not any(
                [await tx.execute(select(table.c.id).limit(1)) for table in (messages, raw_contents, contacts)]
            )


@asynccontextmanager
async def a_drop_in(database: Database, clock: Clock, **changes: Any) -> AsyncIterator[DropIn]:
    engine = an_engine(database, clock, **changes)
    listener = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(create_app(engine), log_config=None, lifespan="off", ws="none"))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield DropIn(engine, address_of(listener), await engine.keys.create(1))
    finally:
        server.should_exit = True
        await serving
        await engine.close()
