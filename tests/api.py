"""The HTTP API in tests: the whole application without a socket, with API keys of two tenants."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI
from sqlalchemy import func, select

from mailwright.app.listening import address_of, listen
from mailwright.app.wiring import Engine, build_engine
from mailwright.audience.form_protection import has_proof
from mailwright.domain.clock import Clock, ManualClock
from mailwright.ops.settings import Settings
from mailwright.outbox import tenants
from mailwright.storage.database import Database
from mailwright.storage.tables import accepted_counts, contacts, deliveries, messages, suppressions
from mailwright.web.app import create_app
from tests.builders import settings_for


@dataclass(frozen=True)
class Api:
    app: FastAPI
    engine: Engine
    key: str
    client: httpx.AsyncClient  # the key of the tenant `default`
    stranger: httpx.AsyncClient  # the key of another tenant
    anonymous: httpx.AsyncClient  # no key

    async def stored(self) -> int:
        """Count the rows that a request could have created."""
        async with self.engine.database.read() as tx:
            counts = [
                (await tx.execute(select(func.count()).select_from(table)))[0][0]
                for table in (messages, deliveries, contacts, accepted_counts, suppressions)
            ]
        return sum(counts)

    async def send(self, **changes: Any) -> str:
        answer = await self.client.post("/v1/email/send", json=a_request(**changes))
        assert answer.status_code == 202, answer.text
        outbox_id: str = answer.json()["outboxId"]
        return outbox_id


@asynccontextmanager
async def an_api(database: Database, clock: ManualClock, **changes: Any) -> AsyncIterator[Api]:
    engine = an_engine(database, clock, **changes)
    app = create_app(engine)
    default = await tenants.find(database, tenants.DEFAULT)
    other = await tenants.create(database, clock, "other")
    keys = [await engine.keys.create(default.id), await engine.keys.create(other.id)]
    async with client_of(app, keys[0]) as client, client_of(app, keys[1]) as stranger, client_of(app) as anonymous:
        yield Api(app, engine, keys[0], client, stranger, anonymous)
    await app.state.finish()
    await engine.close()


@asynccontextmanager
async def on_a_socket(app: FastAPI) -> AsyncIterator[str]:
    """Serve the application on a free port, and return its address."""
    listener = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off", ws="none"))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield address_of(listener)
    finally:
        server.should_exit = True
        await serving


def an_engine(database: Database, clock: Clock, **changes: Any) -> Engine:
    """Return an engine on this database. Each change is a setting, or a service to use instead of the default one."""
    settings = {name: changes.pop(name) for name in list(changes) if name in Settings.model_fields}
    defaults = {"base_url": "http://mail.example", "unsubscribe_secret": None}
    url = database.url.render_as_string(hide_password=False)
    return replace(build_engine(settings_for(url, **{**defaults, **settings}), clock, database), **changes)


def a_request(**changes: Any) -> dict[str, Any]:
    """A valid request. A change to None removes the field."""
    request = {"to": "reader@example.com", "subject": "Hello", "html": "<p>Hello</p>", **changes}
    return {name: value for name, value in request.items() if value is not None}


def client_of(app: FastAPI, key: str | None = None) -> httpx.AsyncClient:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://mail.example", headers=headers)


async def proof_of_work(client: httpx.AsyncClient, form: str) -> dict[str, str]:
    """Solve a challenge of the sign-up form at this path."""
    path, _, query = form.partition("?")
    challenge = (await client.get(f"{path}/challenge?{query}")).json()["challenge"]
    return {"challenge": challenge, "solution": solve(challenge)}


def solve(challenge: str) -> str:
    return next(str(number) for number in count() if has_proof(challenge, str(number)))


def socket_client(address: str, **options: Any) -> httpx.AsyncClient:
    """Return a client of an address without TLS. Loading the certificates for TLS takes longer than most tests."""
    return httpx.AsyncClient(base_url=address, verify=False, **{"timeout": 60, **options})
