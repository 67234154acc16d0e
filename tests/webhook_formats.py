"""Events that travel from an email of an application to its webhook, and the programs that read them there."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from anymail.signals import tracking
from django.http import HttpRequest
from django.test import RequestFactory

from mailwright.domain.clock import ManualClock
from mailwright.domain.report import ContactVerdict, Report
from mailwright.domain.states import EventType
from mailwright.events.outbound.deliveries import WebhookDeliveries
from mailwright.events.outbound.dispatcher import WebhookDispatcher
from mailwright.events.outbound.endpoints import WebhookEndpoint, WebhookEndpointInput, WebhookEndpoints
from mailwright.providers.http import HttpClient, addresses_of
from tests.anymail_messages import configure_django
from tests.builders import DEFAULT_TENANT, Bench
from tests.dropin import DropIn
from tests.standins.http import Answer, HttpStandIn, Request
from tests.standins.provider import ScriptedProvider

configure_django()

BROWSER = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
# What a provider reports about an email, in this order.
REPORTED: Mapping[EventType, Mapping[str, Any]] = {
    EventType.DEFERRED: {"metadata": {"response": "451 4.7.1 Try again later"}},
    EventType.DELIVERED: {"metadata": {"response": "250 2.0.0 OK"}},
    EventType.OPENED: {"metadata": {"userAgent": BROWSER}},
    EventType.CLICKED: {"metadata": {"userAgent": BROWSER, "url": "https://shop.example/order"}},
    EventType.BOUNCED: {
        "verdict": ContactVerdict.HARD_BOUNCE,
        "bounce_type": "Permanent",
        "metadata": {"status": "5.1.1", "reason": "550 5.1.1 No such user"},
    },
    EventType.COMPLAINED: {"verdict": ContactVerdict.COMPLAINT, "metadata": {"feedbackType": "abuse"}},
    EventType.UNSUBSCRIBED: {"verdict": ContactVerdict.UNSUBSCRIBE},
}


class Receiver(HttpStandIn):
    """The server of the application. It answers with what its view, for example one of django-anymail, answers."""

    view: Any = None

    def usual(self, request: Request) -> Answer:
        if self.view is None:
            return Answer()
        headers = {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in request.headers.items()}
        kind = request.headers["Content-Type"]
        given: HttpRequest = RequestFactory().post(request.path, request.body, kind, headers=None, **headers)
        response = self.view(given)
        return Answer(response.status_code, response.content)


@dataclass
class Application:
    """An application that sends through an API of another service and gets the events in the format of it."""

    drop_in: DropIn
    clock: ManualClock
    receiver: Receiver
    dispatcher: WebhookDispatcher
    endpoints: WebhookEndpoints = field(init=False)
    deliveries: WebhookDeliveries = field(init=False)

    def __post_init__(self) -> None:
        database = self.drop_in.engine.database
        self.endpoints = WebhookEndpoints(database, self.clock, allows_private=True)
        self.deliveries = WebhookDeliveries(database, self.clock)

    async def listen(self, format_name: str, *types: str) -> tuple[WebhookEndpoint, str]:
        wanted = WebhookEndpointInput(f"{self.receiver.url}/hook", types, format=format_name)
        return await self.endpoints.create(DEFAULT_TENANT, wanted, actor="test")

    async def send_raw(self, headers: str = "", **options: str) -> None:
        """Send a raw email with these lines of headers. The options are headers of the request."""
        content = f"From: Shop <shop@example.com>\r\nTo: ada@example.com\r\nSubject: Order\r\n{headers}\r\nSent.\r\n"
        await self.post("/v1/email/raw", content=content, headers={"Content-Type": "message/rfc822", **options})

    async def post(self, path: str, **given: Any) -> None:
        """Send a request to the API of Mailwright, which must accept it."""
        async with httpx.AsyncClient(base_url=self.drop_in.url) as client:
            client.headers["Authorization"] = f"Bearer {self.drop_in.key}"
            reply = await client.post(path, **given)
        assert reply.is_success, reply.text

    async def deliver(self) -> None:
        """Send all due emails."""
        await Bench(self.drop_in.engine, self.clock).drain(ScriptedProvider())

    async def report(self, *types: EventType, to: str = "ada@example.com") -> None:
        """Let the provider report about the email to this address."""
        [stored] = [each for each in await self.drop_in.stored() if each.to == to]
        for type_ in types:
            self.clock.advance(2_000)
            report = Report(
                f"{type_}:{to}", "scripted", type_, self.clock.now(), to, stored.outbox_id, **REPORTED.get(type_, {})
            )
            await self.drop_in.engine.reports.receive([report])

    async def dispatch(self) -> list[Request]:
        """Deliver all due events, and return the new requests."""
        before = len(self.receiver.requests)
        await self.dispatcher.dispatch_all()
        return self.receiver.requests[before:]


@contextmanager
def anymail_events() -> Iterator[list[Any]]:
    """Collect the events that the views of django-anymail report to the application."""
    found: list[Any] = []

    def collect(event: Any, **_: Any) -> None:
        found.append(event)

    tracking.connect(collect)
    try:
        yield found
    finally:
        tracking.disconnect(collect)


def a_dispatcher(drop_in: DropIn, clock: ManualClock) -> WebhookDispatcher:
    http = HttpClient(resolve=addresses_of)
    return WebhookDispatcher(
        drop_in.engine.database,
        clock,
        http,
        directory=drop_in.engine.directory,
        base_url=drop_in.url,
        timeout_seconds=5.0,
    )


async def in_thread(call: Any, *arguments: Any) -> Any:
    return await asyncio.to_thread(call, *arguments)
