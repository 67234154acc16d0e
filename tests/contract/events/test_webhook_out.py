"""Outgoing webhooks over real sockets: each event is delivered at least once and signed."""

import asyncio
import hmac
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import func, insert, select

from mailwright.app.link_checks import public_only
from mailwright.app.outbound_webhooks import PRIVATE_ADDRESS
from mailwright.app.serving import work
from mailwright.app.shutdown import Shutdown
from mailwright.app.wiring import PublicPages
from mailwright.audience import contacts, lists
from mailwright.audience.erasure import erase
from mailwright.domain.clock import DAY, MINUTE, SECOND, ManualClock
from mailwright.domain.errors import InvalidInput, NotPossibleNow
from mailwright.domain.states import EventType
from mailwright.domain.unsubscribe_tokens import UnsubscribeTokens
from mailwright.events.outbound.deliveries import (
    DELIVERED,
    FAILED,
    LEASE,
    PENDING,
    SCHEDULE,
    NoReceiverResponse,
    WebhookDeliveries,
    WebhookDelivery,
)
from mailwright.events.outbound.derive import BATCH_SIZE, derive_deliveries
from mailwright.events.outbound.dispatcher import WebhookDispatcher
from mailwright.events.outbound.endpoints import (
    MAX_ENDPOINTS,
    SECRET_OVERLAP,
    TooManyWebhooks,
    WebhookEndpoint,
    WebhookEndpointInput,
    WebhookEndpoints,
)
from mailwright.outbox.audit_log import list_entries
from mailwright.providers.http import HttpClient, addresses_of
from mailwright.storage.database import Database
from mailwright.storage.tables import events, messages
from tests.api import an_api, proof_of_work
from tests.builders import DEFAULT_TENANT, Bench, a_bench, a_message, a_tenant, an_acceptor
from tests.conftest import DatabaseAddress
from tests.engines import on_sqlite
from tests.standins.http import Answer, HttpStandIn, Request, Step
from tests.standins.provider import ScriptedProvider


@dataclass
class WebhookSetup:
    """A database, a webhook receiver and one dispatcher."""

    database: Database
    clock: ManualClock
    receiver: HttpStandIn
    endpoints: WebhookEndpoints
    deliveries: WebhookDeliveries
    dispatcher: WebhookDispatcher

    async def add(
        self, path: str = "/hook", *types: str, tenant_id: int = DEFAULT_TENANT
    ) -> tuple[WebhookEndpoint, str]:
        wanted = WebhookEndpointInput(f"{self.receiver.url}{path}", types)
        return await self.endpoints.create(tenant_id, wanted, actor="test")

    async def add_events(self, *types: EventType, tenant_id: int = DEFAULT_TENANT) -> str:
        """Write these events of a new message in one transaction."""
        message = a_message(tenant_id=tenant_id)
        await an_acceptor(self.database, self.clock).accept([message])
        async with self.database.write() as tx:
            mine = messages.c.outbox_id == message.outbox_id
            key = (await tx.execute(select(messages.c.id).where(mine)))[0].id
            await tx.execute(insert(events), [self.an_event(key, each, tenant_id) for each in types])
        return message.outbox_id

    def an_event(self, key: int, type_: EventType, tenant_id: int = DEFAULT_TENANT) -> dict[str, Any]:
        at = {"message_key": key, "tenant_id": tenant_id, "created_at": self.clock.now()}
        return {**at, "type": type_.value, "metadata": '{"provider":"ses"}'}

    async def dispatch(self) -> None:
        await self.dispatcher.dispatch_all()

    async def log(self, endpoint: WebhookEndpoint) -> list[WebhookDelivery]:
        """Return the deliveries, oldest first."""
        return (await self.deliveries.list_deliveries(endpoint, limit=1_000))[::-1]

    async def reload(self, endpoint: WebhookEndpoint) -> WebhookEndpoint:
        return await self.endpoints.find(endpoint.webhook_id, tenant_id=None)

    def delivered(self, path: str = "/hook") -> list[dict[str, Any]]:
        return [each.json() for each in self.receiver.requests if each.path == path]


def another_process(setup: WebhookSetup) -> WebhookDispatcher:
    return WebhookDispatcher(setup.database, setup.clock, HttpClient(resolve=addresses_of), timeout_seconds=1.0)


@pytest.fixture
async def setup(database: Database, clock: ManualClock) -> AsyncIterator[WebhookSetup]:
    async with HttpStandIn() as receiver:
        endpoints = WebhookEndpoints(database, clock, allows_private=True)
        dispatcher = WebhookDispatcher(database, clock, HttpClient(resolve=addresses_of), timeout_seconds=1.0)
        yield WebhookSetup(database, clock, receiver, endpoints, WebhookDeliveries(database, clock), dispatcher)
        await dispatcher.close()
        assert not receiver.violations


def is_signed(request: Request, secret: str) -> bool:
    """Verify a signature as docs/webhooks.md describes."""
    parts = [each.partition("=") for each in request.headers["Mailwright-Signature"].split(",")]
    [at] = [value for name, _, value in parts if name == "t"]
    expected = hmac.digest(secret.encode(), at.encode() + b"." + request.body, "sha256").hex()
    return any(hmac.compare_digest(value, expected) for name, _, value in parts if name == "v1")


# Delivered events.


async def test_event_is_delivered_with_its_message(setup: WebhookSetup) -> None:
    endpoint, _ = await setup.add()
    outbox_id = await setup.add_events(EventType.SENT, EventType.BOUNCED)
    await setup.dispatch()
    delivered, bounced = sorted(setup.delivered(), key=itemgetter("type"))  # they are sent concurrently
    assert (delivered["type"], bounced["type"]) == ("SENT", "bounce")
    [first] = [each for each in await setup.log(endpoint) if each.delivery_id == delivered["id"]]
    assert delivered["message"]["outboxId"] == outbox_id
    assert delivered["message"]["to"].endswith("@example.com")
    assert delivered["metadata"] == {"provider": "ses"}
    assert delivered["createdAt"] == "2027-01-15T08:00:00.000Z"
    assert delivered["id"] in [each.headers["Mailwright-Delivery"] for each in setup.receiver.requests]
    assert (first.status, first.attempts, first.log[0]["status"]) == (DELIVERED, 1, 200)


async def test_sent_message_is_delivered_to_webhook(bench: Bench) -> None:
    async with HttpStandIn() as receiver:
        endpoints = WebhookEndpoints(bench.database, bench.clock, allows_private=True)
        await endpoints.create(DEFAULT_TENANT, WebhookEndpointInput(f"{receiver.url}/hook"), actor="test")
        await bench.accept(a_message())
        await bench.drain(ScriptedProvider())
        dispatcher = WebhookDispatcher(bench.database, bench.clock, HttpClient(resolve=addresses_of))
        await dispatcher.dispatch_all()
        await dispatcher.close()
        assert [each.json()["type"] for each in receiver.requests] == ["SENT"]


async def test_drained_worker_dispatches_before_exit(
    engine: DatabaseAddress, clock: ManualClock, tmp_path: Path
) -> None:
    settings = {"mailbox": tmp_path / "mailbox", "webhook_private": True}
    async with HttpStandIn() as receiver, a_bench(engine.url, clock, **settings) as bench:
        receiver.answer(Answer(503), path="/broken")
        endpoints = WebhookEndpoints(bench.database, clock, allows_private=True)
        for path in ("/hook", "/broken"):
            await endpoints.create(DEFAULT_TENANT, WebhookEndpointInput(f"{receiver.url}{path}"), actor="test")
        await bench.accept(a_message())
        async with asyncio.timeout(60):
            await work(bench.engine, Shutdown(), drain=True)
        assert sorted((each.path, each.json()["type"]) for each in receiver.requests) == [
            ("/broken", "SENT"),
            ("/hook", "SENT"),
        ]


async def test_only_subscribed_event_types_are_delivered(setup: WebhookSetup) -> None:
    await setup.add("/bounces", EventType.BOUNCED)
    await setup.add("/all")
    await setup.add_events(EventType.RECEIVED, EventType.VALIDATED, EventType.SENT, EventType.BOUNCED)
    await setup.dispatch()
    assert [each["type"] for each in setup.delivered("/bounces")] == ["bounce"]
    assert sorted(each["type"] for each in setup.delivered("/all")) == ["SENT", "bounce"]


async def test_tenant_receives_only_its_events(setup: WebhookSetup) -> None:
    other = await a_tenant(setup.database, "other")
    await setup.add("/ours")
    await setup.add("/theirs", tenant_id=other)
    ours, theirs = await setup.add_events(EventType.SENT), await setup.add_events(EventType.SENT, tenant_id=other)
    await setup.dispatch()
    assert [each["message"]["outboxId"] for each in setup.delivered("/ours")] == [ours]
    assert [each["message"]["outboxId"] for each in setup.delivered("/theirs")] == [theirs]


async def test_earlier_events_are_not_delivered(setup: WebhookSetup) -> None:
    await setup.add_events(EventType.SENT)
    await setup.add("/first")
    after_first = await setup.add_events(EventType.SENT)
    await setup.dispatch()
    await setup.add("/second")
    after_both = await setup.add_events(EventType.SENT)
    await setup.dispatch()
    assert [each["message"]["outboxId"] for each in setup.delivered("/first")] == [after_first, after_both]
    assert [each["message"]["outboxId"] for each in setup.delivered("/second")] == [after_both]


# Subscribe and unsubscribe events.

SECRET = "s" * 32
TOKENS = UnsubscribeTokens(SECRET)
pytestmark = pytest.mark.usefixtures("quick_proof")

ADA = "ada@example.com"


@pytest.fixture
async def public_page(setup: WebhookSetup) -> AsyncIterator[httpx.AsyncClient]:
    await lists.create(setup.database, setup.clock, DEFAULT_TENANT, "weekly")
    await lists.create(setup.database, setup.clock, DEFAULT_TENANT, "careful", requires_confirmation=True)
    async with an_api(setup.database, setup.clock, public_pages=PublicPages(SECRET, sender="Northwind")) as api:
        yield api.anonymous


async def new_deliveries(setup: WebhookSetup) -> list[tuple[str, str, str]]:
    """Dispatch and return type, list and source of the new deliveries."""
    setup.receiver.requests.clear()
    await setup.dispatch()
    return [(each["type"], each["metadata"]["listKey"], each["metadata"]["source"]) for each in setup.delivered()]


async def test_unsubscribe_and_resubscribe_are_delivered_once_each(
    setup: WebhookSetup, public_page: httpx.AsyncClient
) -> None:
    await setup.add()
    leaves, returns = TOKENS.make(ADA, "weekly"), TOKENS.for_resubscribe().make(ADA, "weekly")
    for _ in range(2):
        await public_page.post(f"/unsubscribe?token={leaves}", data={"List-Unsubscribe": "One-Click"})
    assert await new_deliveries(setup) == [("left", "weekly", "reader")]
    [delivered] = setup.delivered()
    person = await contacts.find_by_email(setup.database, DEFAULT_TENANT, ADA)
    assert (delivered["message"], delivered["contact"]) == (None, {"contactId": person.contact_id, "email": ADA})
    assert "contactKey" not in delivered["metadata"]
    for _ in range(2):
        await public_page.post(f"/resubscribe?token={returns}")
    assert await new_deliveries(setup) == [("joined", "weekly", "reader")]


async def test_preference_changes_are_delivered_per_list(setup: WebhookSetup, public_page: httpx.AsyncClient) -> None:
    await setup.add()
    page = f"/preferences?token={TOKENS.make(ADA, 'weekly')}"
    shown = {"shown": ["weekly", "careful"]}
    await public_page.post(page, data={**shown, "list": ["weekly"]})
    assert await new_deliveries(setup) == [("joined", "weekly", "reader")]
    await public_page.post(page, data={**shown, "list": ["weekly"]})
    assert await new_deliveries(setup) == []
    await public_page.post(page, data={"everything": "on"})
    assert await new_deliveries(setup) == [("left", "general", "reader")]


async def sign_up_data(client: httpx.AsyncClient, list_key: str) -> dict[str, str]:
    return {"email": ADA, **await proof_of_work(client, f"/subscribe/{list_key}")}


async def test_sign_up_is_delivered_after_confirmation(setup: WebhookSetup, public_page: httpx.AsyncClient) -> None:
    await setup.add("/hook", EventType.JOINED, EventType.LEFT)
    await public_page.post("/subscribe/weekly", data=await sign_up_data(public_page, "weekly"))
    assert await new_deliveries(setup) == [("joined", "weekly", "sign-up")]
    await public_page.post("/subscribe/careful", data=await sign_up_data(public_page, "careful"))
    assert await new_deliveries(setup) == []
    await public_page.post(f"/confirm?token={TOKENS.for_confirmation().make(ADA, 'careful')}")
    assert await new_deliveries(setup) == [("joined", "careful", "opt-in")]


async def test_concurrent_identical_requests_are_delivered_once(
    setup: WebhookSetup, public_page: httpx.AsyncClient
) -> None:
    """For example an email client that requests twice, also for an unknown contact."""
    await setup.add()
    leaves, returns = TOKENS.make(ADA, "weekly"), TOKENS.for_resubscribe().make(ADA, "weekly")
    page, choice = f"/preferences?token={leaves}", {"shown": ["weekly", "careful"], "list": ["careful"]}

    async def at_once(path: str, *data: dict[str, Any]) -> list[tuple[str, str, str]]:
        each = data * 6 if len(data) == 1 else data or ({},) * 6
        answers = await asyncio.gather(*[public_page.post(path, data=given) for given in each])
        assert {answer.status_code for answer in answers} == {200}
        return await new_deliveries(setup)

    sign_ups = [await sign_up_data(public_page, "weekly") for _ in range(6)]
    assert await at_once("/subscribe/weekly", *sign_ups) == [("joined", "weekly", "sign-up")]
    assert await at_once(f"/unsubscribe?token={leaves}", {"List-Unsubscribe": "One-Click"}) == [
        ("left", "weekly", "reader")
    ]
    assert await at_once(f"/resubscribe?token={returns}") == [("joined", "weekly", "reader")]
    assert await at_once(page, choice) == [("left", "weekly", "reader"), ("joined", "careful", "reader")]
    unknown = f"/unsubscribe?token={TOKENS.make('eve@example.com', 'weekly')}"
    assert await at_once(unknown, {"List-Unsubscribe": "One-Click"}) == [("left", "weekly", "reader")]


async def test_erased_contact_is_not_in_delivery(setup: WebhookSetup, public_page: httpx.AsyncClient) -> None:
    await setup.add()
    link = f"/unsubscribe?token={TOKENS.make(ADA, 'weekly')}"
    await public_page.post(link, data={"List-Unsubscribe": "One-Click"})
    await erase(setup.database, setup.clock, DEFAULT_TENANT, ADA, actor="test")
    await setup.dispatch()
    found = {each["type"]: each["contact"] for each in setup.delivered()}
    assert found == {"left": None, "contact.erased": None}
    assert ADA not in repr(setup.receiver.requests)


# No event is missed.


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
async def test_event_committed_out_of_order_is_delivered(database: Database, setup: WebhookSetup) -> None:
    """Keys are assigned before commit; only PostgreSQL can commit them out of order, since SQLite has one writer."""
    await setup.add()
    async with database.write() as slow:
        await slow.execute(insert(events), [setup.an_event(1, EventType.DELIVERED)])
        await setup.add_events(EventType.SENT)
        await setup.dispatch()
        assert setup.delivered() == []  # the later event is visible but not processed yet
    await setup.dispatch()
    await setup.dispatch()
    assert sorted(each["type"] for each in setup.delivered()) == ["SENT", "delivered"]


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
async def test_event_of_younger_open_transaction_is_delivered(database: Database, setup: WebhookSetup) -> None:
    """The transaction with the smaller key began later and is still open when the other one has ended."""
    await setup.add()
    async with AsyncExitStack() as open_transactions:
        async with database.write() as older:
            await older.execute(select(func.pg_current_xact_id()))
            younger = await open_transactions.enter_async_context(database.write())
            await younger.execute(insert(events), [setup.an_event(1, EventType.DELIVERED)])
            await older.execute(insert(events), [setup.an_event(2, EventType.SENT)])
        await setup.dispatch()
    await setup.dispatch()
    await setup.dispatch()
    assert sorted(each["type"] for each in setup.delivered()) == ["SENT", "delivered"]


async def test_events_of_several_batches_are_delivered_once(setup: WebhookSetup) -> None:
    endpoint, _ = await setup.add()
    async with setup.database.write() as tx:
        await tx.execute(insert(events), [setup.an_event(each, EventType.SENT) for each in range(BATCH_SIZE + 7)])
    while await derive_deliveries(setup.database, setup.clock):
        pass
    await derive_deliveries(setup.database, setup.clock)
    assert len(await setup.deliveries.list_deliveries(endpoint, limit=10_000)) == BATCH_SIZE + 7


@pytest.mark.promise("webhook-once-each")
async def test_concurrent_processes_create_each_delivery_once(setup: WebhookSetup) -> None:
    endpoint, _ = await setup.add()
    for _ in range(5):
        await setup.add_events(EventType.SENT, EventType.DELIVERED)
    others = [another_process(setup) for _ in range(3)]
    await asyncio.gather(*(each.dispatch_all() for each in (setup.dispatcher, *others)))
    await setup.dispatch()
    for each in others:
        await each.close()
    ids = [each["id"] for each in setup.delivered()]
    assert len(ids) == len(set(ids)) == 10
    assert {each.status for each in await setup.log(endpoint)} == {DELIVERED}


# Signatures.


@pytest.mark.promise("webhook-once-each")
async def test_request_is_signed_with_the_shown_secret(setup: WebhookSetup) -> None:
    endpoint, secret = await setup.add()
    await setup.deliveries.create_test(endpoint, actor="test")
    await setup.dispatch()
    [request] = setup.receiver.requests
    assert is_signed(request, secret)
    assert not is_signed(request, secret + "x")
    assert f"t={setup.clock.now() // SECOND}," in request.headers["Mailwright-Signature"]


async def test_replaced_secret_signs_for_one_more_day(setup: WebhookSetup) -> None:
    endpoint, before = await setup.add()
    _, after = await setup.endpoints.rotate(endpoint.webhook_id, tenant_id=DEFAULT_TENANT, actor="test")
    await setup.deliveries.create_test(endpoint, actor="test")
    await setup.dispatch()
    setup.clock.advance(SECRET_OVERLAP)
    await setup.deliveries.create_test(endpoint, actor="test")
    await setup.dispatch()
    during, later = setup.receiver.requests
    assert [is_signed(during, before), is_signed(during, after)] == [True, True]
    assert [is_signed(later, before), is_signed(later, after)] == [False, True]


async def test_secret_is_not_in_audit_log(setup: WebhookSetup) -> None:
    endpoint, secret = await setup.add("/hook?key=hidden")
    noted = repr(await list_entries(setup.database, tenant_id=None, limit=10))
    assert endpoint.webhook_id in noted
    assert secret not in noted
    assert "hidden" not in noted


async def test_test_and_redelivery_are_in_audit_log(setup: WebhookSetup) -> None:
    endpoint, _ = await setup.add()
    made = await setup.deliveries.create_test(endpoint, actor="ada")
    await setup.dispatch()
    await setup.deliveries.redeliver(made.delivery_id, tenant_id=DEFAULT_TENANT, actor="ben")
    again, first, _ = await list_entries(
        setup.database, tenant_id=DEFAULT_TENANT, limit=10, subject=endpoint.webhook_id
    )
    assert [(each.actor, each.action) for each in (first, again)] == [
        ("ada", "webhook.test"),
        ("ben", "webhook.redeliver"),
    ]
    assert first.detail == again.detail == {"deliveryId": made.delivery_id}


# Failures.


@pytest.mark.promise("webhook-once-each")
@pytest.mark.parametrize(
    "answer", [Answer(500, b"broken"), Answer(302, headers={"Location": "/elsewhere"}), Answer(404)]
)
async def test_failed_delivery_is_retried_with_same_id(setup: WebhookSetup, answer: Answer) -> None:
    endpoint, _ = await setup.add()
    await setup.add_events(EventType.SENT)
    setup.receiver.answer(answer, times=1)
    await setup.dispatch()
    [waiting] = await setup.log(endpoint)
    assert (waiting.status, waiting.log[0]["status"]) == (PENDING, answer.status)
    assert waiting.due_at > setup.clock.now()
    assert (await setup.reload(endpoint)).state == "failing"
    await setup.dispatch()
    assert len(setup.delivered()) == 1  # not before it is due, and redirects are not followed
    setup.clock.advance(10 * SECOND)
    await setup.dispatch()
    [taken] = await setup.log(endpoint)
    assert (taken.status, taken.attempts, (await setup.reload(endpoint)).state) == (DELIVERED, 2, "active")
    assert len({each["id"] for each in setup.delivered()}) == 1


@pytest.mark.promise("webhook-once-each")
@pytest.mark.parametrize("step", [Step.CONNECTED, Step.HEAD, Step.BODY, Step.ANSWER, Step.MIDDLE])
async def test_cut_connection_loses_no_delivery(setup: WebhookSetup, step: Step) -> None:
    endpoint, _ = await setup.add()
    await setup.add_events(EventType.SENT)
    setup.receiver.cut(step, times=1)
    await setup.dispatch()
    [waiting] = await setup.log(endpoint)
    assert (waiting.status, waiting.log[0]["status"]) == (PENDING, None)
    assert waiting.log[0]["error"]
    setup.clock.advance(10 * SECOND)
    await setup.dispatch()
    assert [each.status for each in await setup.log(endpoint)] == [DELIVERED]


async def test_hanging_receiver_does_not_delay_others(setup: WebhookSetup) -> None:
    slow, _ = await setup.add("/slow")
    quick, _ = await setup.add("/quick")
    hold = setup.receiver.hold(Step.ANSWER, path="/slow")
    await setup.add_events(EventType.SENT)
    await setup.dispatcher.dispatch_due()
    await hold.reached.wait()
    while [each.status for each in await setup.log(quick)] != [DELIVERED]:
        await asyncio.sleep(0.01)
    await setup.dispatcher.wait_until_idle()
    hold.release()
    [late] = await setup.log(slow)
    assert (late.status, late.log[0]["error"]) == (PENDING, "no response in time")


async def test_failed_delivery_can_be_redelivered(setup: WebhookSetup) -> None:
    endpoint, _ = await setup.add()
    outbox_id = await setup.add_events(EventType.SENT)
    setup.receiver.answer(Answer(503), path="/hook")
    for _ in range(SCHEDULE.max_attempts):
        await setup.dispatch()
        await setup.endpoints.edit(
            endpoint.webhook_id, WebhookEndpointInput(endpoint.url), tenant_id=None, actor="test"
        )
        setup.clock.advance(2 * DAY)
    [failed] = await setup.log(endpoint)
    assert (failed.status, failed.attempts, len(setup.delivered())) == (
        FAILED,
        SCHEDULE.max_attempts,
        SCHEDULE.max_attempts,
    )
    setup.receiver.forget_rules()
    await setup.deliveries.redeliver(failed.delivery_id, tenant_id=DEFAULT_TENANT, actor="test")
    await setup.dispatch()
    [taken] = await setup.log(endpoint)
    assert (taken.status, taken.delivery_id) == (DELIVERED, failed.delivery_id)
    assert {each["message"]["outboxId"] for each in setup.delivered()} == {outbox_id}


async def test_pending_delivery_cannot_be_redelivered(setup: WebhookSetup) -> None:
    endpoint, _ = await setup.add()
    waiting = await setup.deliveries.create_test(endpoint, actor="test")
    with pytest.raises(NotPossibleNow):
        await setup.deliveries.redeliver(waiting.delivery_id, tenant_id=DEFAULT_TENANT, actor="test")


async def test_endpoint_failing_three_days_is_paused_with_reason(setup: WebhookSetup) -> None:
    endpoint, _ = await setup.add()
    setup.receiver.answer(Answer(500), path="/hook")
    await setup.add_events(EventType.SENT)
    await setup.dispatch()
    setup.clock.advance(3 * DAY)
    await setup.dispatch()
    paused = await setup.reload(endpoint)
    assert paused.state == "paused"
    assert "500" in (paused.pause_reason or "")
    asked = len(setup.delivered())
    setup.clock.advance(DAY)
    await setup.add_events(EventType.SENT)
    await setup.dispatch()
    assert len(setup.delivered()) == asked
    setup.receiver.forget_rules()
    await setup.endpoints.edit(endpoint.webhook_id, WebhookEndpointInput(endpoint.url), tenant_id=None, actor="test")
    await setup.add_events(EventType.DELIVERED)
    await setup.dispatch()
    assert [each.status for each in await setup.log(endpoint)] == [DELIVERED, DELIVERED]


async def test_failures_before_edit_do_not_pause_endpoint(setup: WebhookSetup) -> None:
    endpoint, _ = await setup.add("/old")
    await setup.add_events(EventType.SENT)
    await derive_deliveries(setup.database, setup.clock)
    for _ in range(2):
        failing = await setup.reload(endpoint)
        claimed = await setup.deliveries.claim(failing)
        if failing.failures:  # its last request is still in progress
            await setup.endpoints.edit(
                endpoint.webhook_id, WebhookEndpointInput(f"{setup.receiver.url}/new"), tenant_id=None, actor="test"
            )
        await setup.deliveries.settle(failing, [(each, NoReceiverResponse("timeout", 1)) for each in claimed])
        setup.clock.advance(3 * DAY)
    assert (await setup.reload(endpoint)).state == "active"
    await setup.dispatch()
    assert [each["type"] for each in setup.delivered("/new")] == ["SENT"]


async def test_gone_endpoint_is_paused_at_once(setup: WebhookSetup) -> None:
    endpoint, _ = await setup.add()
    setup.receiver.answer(Answer(410))
    await setup.deliveries.create_test(endpoint, actor="test")
    await setup.dispatch()
    assert (await setup.reload(endpoint)).state == "paused"


async def test_failing_receiver_gets_one_request_at_a_time(setup: WebhookSetup) -> None:
    await setup.add()
    for _ in range(30):
        await setup.add_events(EventType.SENT)
    setup.receiver.answer(Answer(500), path="/hook")
    await setup.dispatch()
    first = len(setup.delivered())
    assert first <= 20
    setup.clock.advance(5 * MINUTE)
    await setup.dispatch()
    assert len(setup.delivered()) == first + 1
    setup.receiver.forget_rules()
    setup.clock.advance(5 * MINUTE)
    for _ in range(3):
        await setup.dispatch()
    assert len({each["id"] for each in setup.delivered()}) == 30


# Crashes.


async def test_crashed_process_loses_no_delivery(setup: WebhookSetup) -> None:
    endpoint, _ = await setup.add()
    await setup.add_events(EventType.SENT)
    hold = setup.receiver.hold(Step.ANSWER)
    dying = another_process(setup)
    await dying.dispatch_due()
    await hold.reached.wait()
    await dying.close()
    await setup.dispatch()
    assert [each.status for each in await setup.log(endpoint)] == [PENDING]  # its lease has not expired
    assert len(setup.delivered()) == 1
    setup.clock.advance(LEASE)
    await setup.dispatch()
    assert [each.status for each in await setup.log(endpoint)] == [DELIVERED]
    assert len({each["id"] for each in setup.delivered()}) == 1


async def test_expired_claim_sends_and_changes_nothing(setup: WebhookSetup) -> None:
    endpoint, _ = await setup.add()
    await setup.deliveries.create_test(endpoint, actor="test")
    claimed = await setup.deliveries.claim(endpoint)
    setup.clock.advance(LEASE)
    assert await setup.dispatcher.send_claimed(endpoint, claimed) == 0
    assert setup.delivered() == []
    await setup.dispatch()
    assert [each.attempts for each in await setup.log(endpoint)] == [1]


# URL validation.


@pytest.mark.promise("webhook-guarded")
async def test_private_address_receives_no_request(setup: WebhookSetup) -> None:
    endpoint, _ = await setup.add()
    guarded = WebhookDispatcher(setup.database, setup.clock, HttpClient(resolve=public_only(otherwise=PRIVATE_ADDRESS)))
    await setup.deliveries.create_test(endpoint, actor="test")
    await guarded.dispatch_all()
    await guarded.close()
    [kept_back] = await setup.log(endpoint)
    assert (kept_back.status, setup.receiver.connections) == (PENDING, 0)
    assert kept_back.log[0]["error"] == PRIVATE_ADDRESS


@pytest.mark.promise("webhook-guarded")
async def test_host_that_becomes_private_is_not_connected(setup: WebhookSetup) -> None:
    """Every connection checks the address that it connects to."""
    port = setup.receiver.port
    wanted = WebhookEndpointInput(f"http://hooks.example:{port}/hook")
    endpoint, _ = await setup.endpoints.create(DEFAULT_TENANT, wanted, actor="test")

    async def turned(_host: str, port: int) -> Any:
        return await addresses_of("127.0.0.1", port)

    guarded = WebhookDispatcher(setup.database, setup.clock, HttpClient(resolve=public_only(turned)))
    await setup.deliveries.create_test(endpoint, actor="test")
    await guarded.dispatch_all()
    await guarded.close()
    assert setup.receiver.connections == 0


@on_sqlite
@pytest.mark.parametrize(
    "url",
    [
        "",
        "hooks.example.com",
        "ftp://example.com/",
        "https://",
        "https://user:pw@example.com/",
        "https://example.com/#x",
        "https://example.com/a b",
        "https://exämple.com/",
        "https://example.com:99999/",
        "http://example.com/",
        "https://example.com/" + "x" * 2_000,
    ],
)
async def test_invalid_url_is_rejected_with_reason(database: Database, clock: ManualClock, url: str) -> None:
    endpoints = WebhookEndpoints(database, clock)
    with pytest.raises(InvalidInput) as refused:
        await endpoints.create(DEFAULT_TENANT, WebhookEndpointInput(url), actor="test")
    assert refused.value.field == "url"
    assert await endpoints.list_all(DEFAULT_TENANT) == []


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1:8341/x",
        "https://10.0.0.1/",
        "https://[::1]/",
        "https://[::ffff:192.168.0.1]/",
        "https://127.1/",
        "https://0x7f000001/",
        "https://localhost/",
        "https://LOCALHOST./",
        "https://hooks.localhost/",
    ],
)
async def test_private_url_is_rejected_on_create(database: Database, clock: ManualClock, url: str) -> None:
    endpoints = WebhookEndpoints(database, clock)
    endpoint, _ = await endpoints.create(DEFAULT_TENANT, WebhookEndpointInput("https://8.8.8.8/hook"), actor="test")
    for refused in (
        endpoints.create(DEFAULT_TENANT, WebhookEndpointInput(url), actor="test"),
        endpoints.edit(endpoint.webhook_id, WebhookEndpointInput(url), tenant_id=DEFAULT_TENANT, actor="test"),
    ):
        with pytest.raises(InvalidInput, match="MAILWRIGHT_WEBHOOK_PRIVATE"):
            await refused
    assert [each.url for each in await endpoints.list_all(DEFAULT_TENANT)] == ["https://8.8.8.8/hook"]
    allowing = WebhookEndpoints(database, clock, allows_private=True)
    await allowing.create(DEFAULT_TENANT, WebhookEndpointInput(url), actor="test")


async def test_unknown_event_type_is_rejected_with_choices(setup: WebhookSetup) -> None:
    with pytest.raises(InvalidInput, match="bounce"):
        await setup.add("/hook", "bounced")


async def test_number_of_endpoints_is_limited(setup: WebhookSetup) -> None:
    for _ in range(MAX_ENDPOINTS):
        await setup.add()
    with pytest.raises(TooManyWebhooks):
        await setup.add()


# Retention.


async def test_old_deliveries_are_deleted_except_pending(setup: WebhookSetup) -> None:
    endpoint, _ = await setup.add()
    await setup.deliveries.create_test(endpoint, actor="test")
    await setup.dispatch()
    setup.clock.advance(31 * DAY)
    await setup.deliveries.create_test(endpoint, actor="test")
    assert await setup.deliveries.delete_old() == 1
    assert [each.status for each in await setup.log(endpoint)] == [PENDING]


async def test_response_excerpt_is_short_and_masked(setup: WebhookSetup) -> None:
    endpoint, _ = await setup.add()
    setup.receiver.answer(Answer(200, b"thanks, jane@example.org " + b"x" * 5_000))
    await setup.deliveries.create_test(endpoint, actor="test")
    await setup.dispatch()
    [delivered] = await setup.log(endpoint)
    assert "jane@example.org" not in delivered.log[0]["answer"]
    assert re.match(r"thanks, .*x+$", delivered.log[0]["answer"])
    assert len(delivered.log[0]["answer"]) <= 500


async def test_removed_webhook_deletes_its_deliveries(setup: WebhookSetup) -> None:
    endpoint, _ = await setup.add()
    await setup.add_events(EventType.SENT)
    await derive_deliveries(setup.database, setup.clock)
    await setup.endpoints.remove(endpoint.webhook_id, tenant_id=DEFAULT_TENANT, actor="test")
    await setup.dispatch()
    assert setup.delivered() == []
    assert await setup.log(endpoint) == []
