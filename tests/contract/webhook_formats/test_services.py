"""The formats of services, with emails that django-anymail sends and events that django-anymail reads."""

import hmac
import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import svix
from anymail.message import AnymailMessage
from anymail.webhooks.mailgun import MailgunTrackingWebhookView
from anymail.webhooks.postmark import PostmarkTrackingWebhookView
from anymail.webhooks.resend import ResendTrackingWebhookView
from django.core.mail import get_connection
from django.test import override_settings

from mailwright.domain.clock import DAY
from mailwright.domain.errors import InvalidInput
from mailwright.domain.states import EventType
from mailwright.events.outbound.deliveries import DELIVERED
from tests.builders import suppress
from tests.standins.http import Answer, Request
from tests.webhook_formats import BROWSER, REPORTED, Application, anymail_events, in_thread


@dataclass(frozen=True)
class Service:
    """A service as django-anymail knows it."""

    name: str
    api: str
    key_setting: str
    view: Any
    view_setting: str
    # The events that the service has, as django-anymail names them, and that of an email which was not sent.
    events: tuple[str, ...]
    dropped: str
    others: Mapping[str, Any] = field(default_factory=dict)

    async def send(self, application: Application, *to: str, cc: tuple[str, ...] = ()) -> str:
        """Send with the backend of django-anymail, and return the ID that the application got."""
        email = AnymailMessage("Order", "It is on its way.", "Shop <shop@example.com>", to, cc=cc)
        email.tags, email.metadata = ["orders"], {"order": "7"}
        backend = f"anymail.backends.{self.name}.EmailBackend"
        settings = {self.key_setting: application.drop_in.key, "api_url": application.drop_in.url + self.api}
        email.connection = get_connection(backend, **settings, **self.others)
        await in_thread(email.send)
        status = email.anymail_status
        identity = status.message_id
        return min(identity) if isinstance(identity, set) else str(identity)

    @contextmanager
    def reading(self, application: Application, secret: str) -> Iterator[list[Any]]:
        """Let django-anymail verify and read the events, and collect what it reports to the application."""
        # A user and a password are a setting of all views.
        is_password = self.view_setting == "webhook_secret"
        own = {} if is_password else {self.view_setting: secret}
        with (
            warnings.catch_warnings(),
            override_settings(ANYMAIL_WEBHOOK_SECRET=secret if is_password else []),
            anymail_events() as read,
        ):
            warnings.simplefilter("ignore")
            application.receiver.view = self.view.as_view(**own)
            yield read


USUAL = ("deferred", "delivered", "opened", "clicked", "bounced", "complained", "unsubscribed")
SERVICES = {
    each.name: each
    for each in (
        Service(
            "mailgun",
            "/v3/",
            "api_key",
            MailgunTrackingWebhookView,
            "webhook_signing_key",
            ("queued", *USUAL),
            "bounced",
            {"sender_domain": "example.com"},
        ),
        Service("postmark", "/", "server_token", PostmarkTrackingWebhookView, "webhook_secret", USUAL, "rejected"),
        Service(
            "resend",
            "/",
            "api_key",
            ResendTrackingWebhookView,
            "signing_secret",
            ("sent", *USUAL[:-1]),
            "unknown",
        ),
    )
}
pytestmark = pytest.mark.filterwarnings("ignore:django-anymail has dropped official support")


@pytest.fixture(params=SERVICES)
def service(request: pytest.FixtureRequest) -> Service:
    return SERVICES[request.param]


async def test_application_recognises_its_email_in_every_event(application: Application, service: Service) -> None:
    endpoint, secret = await application.listen(service.name)
    identity = await service.send(application, "ada@example.com")
    await application.deliver()
    await application.report(*REPORTED)
    with service.reading(application, secret) as read:
        requests = await application.dispatch()
    found = await application.deliveries.list_deliveries(endpoint, limit=20)
    assert [each.log for each in found if each.status != DELIVERED] == []
    assert len(requests) == len(read) == len(service.events)
    by_type = {each.event_type: each for each in read}
    assert set(by_type) == set(service.events)
    assert {each.message_id for each in read} == {identity}
    assert {(each.recipient, each.metadata["order"], *each.tags) for each in read} == {
        ("ada@example.com", "7", "orders")
    }
    clicked = by_type["clicked"]
    assert (clicked.click_url, clicked.user_agent) == ("https://shop.example/order", BROWSER)
    assert by_type["bounced"].reject_reason == "bounced"


async def test_failed_request_is_repeated_until_it_is_accepted(application: Application, service: Service) -> None:
    endpoint, secret = await application.listen(service.name, EventType.DELIVERED)
    await service.send(application, "ada@example.com")
    await application.deliver()
    await application.report(EventType.DELIVERED)
    application.receiver.answer(Answer(500), times=1)
    await application.dispatch()
    application.clock.advance(10_000)
    with service.reading(application, secret) as read:
        [_] = await application.dispatch()
    assert [each.event_type for each in read] == ["delivered"]
    [delivery] = await application.deliveries.list_deliveries(endpoint, limit=9)
    assert (delivery.status, delivery.attempts) == (DELIVERED, 2)


async def test_all_recipients_of_an_email_have_one_id(application: Application, service: Service) -> None:
    _, secret = await application.listen(service.name, EventType.DELIVERED)
    identity = await service.send(application, "ada@example.com", cc=("bob@example.com",))
    await application.deliver()
    for name in ("ada", "bob"):
        await application.report(EventType.DELIVERED, to=f"{name}@example.com")
    with service.reading(application, secret) as read:
        await application.dispatch()
    assert {(each.recipient, each.message_id, each.metadata["order"]) for each in read} == {
        (f"{name}@example.com", identity, "7") for name in ("ada", "bob")
    }


async def test_suppressed_recipient_is_reported(application: Application, service: Service) -> None:
    _, secret = await application.listen(service.name, EventType.FAILED)
    await suppress(application.drop_in.engine.database, "ada@example.com")
    identity = await service.send(application, "ada@example.com")
    await application.deliver()
    with service.reading(application, secret) as read:
        await application.dispatch()
    assert [(each.event_type, each.message_id) for each in read] == [(service.dropped, identity)]


async def test_test_event_is_one_of_the_service(application: Application, service: Service) -> None:
    endpoint, secret = await application.listen(service.name)
    await application.deliveries.create_test(endpoint, actor="test")
    with service.reading(application, secret) as read:
        await application.dispatch()
    assert [(each.event_type, each.recipient) for each in read] == [("delivered", "test@example.com")]


async def test_foreign_event_type_is_refused(application: Application, service: Service) -> None:
    with pytest.raises(InvalidInput, match=f"'joined' is not an event type of webhooks in the format {service.name}"):
        await application.listen(service.name, "joined")
    assert await application.endpoints.list_all(1) == []


def _mailgun_accepts(request: Request, key: str) -> bool:
    signed = json.loads(request.body)["signature"]
    expected = hmac.new(key.encode(), f"{signed['timestamp']}{signed['token']}".encode(), "sha256").hexdigest()
    return hmac.compare_digest(signed["signature"], expected)


def _svix_accepts(request: Request, key: str) -> bool:
    try:
        svix.Webhook(key).verify(request.body, dict(request.headers))
    except svix.WebhookVerificationError:
        return False
    return True


VERIFIERS: Mapping[str, Callable[[Request, str], bool]] = {"mailgun": _mailgun_accepts, "resend": _svix_accepts}


@pytest.mark.parametrize(("name", "accepts_old"), [("mailgun", False), ("resend", True)])
async def test_replaced_secret_ends_unless_requests_have_several(
    application: Application, name: str, accepts_old: bool
) -> None:
    endpoint, old = await application.listen(name)
    endpoint, new = await application.endpoints.rotate(endpoint.webhook_id, tenant_id=None, actor="test")
    await application.deliveries.create_test(endpoint, actor="test")
    [request] = await application.dispatch()
    assert [VERIFIERS[name](request, key) for key in (old, new)] == [accepts_old, True]
    application.clock.advance(DAY)
    after = await application.endpoints.find(endpoint.webhook_id, tenant_id=None)
    assert len(after.keys(application.clock.now())) == 1


async def test_token_of_mailgun_is_new_and_id_is_the_same(application: Application) -> None:
    endpoint, _ = await application.listen("mailgun")
    await application.deliveries.create_test(endpoint, actor="test")
    application.receiver.answer(Answer(500), times=1)
    [first] = await application.dispatch()
    application.clock.advance(DAY)
    [second] = await application.dispatch()
    bodies = [json.loads(each.body) for each in (first, second)]
    assert len({each["signature"]["token"] for each in bodies}) == 2
    assert len({each["event-data"]["id"] for each in bodies}) == 1
