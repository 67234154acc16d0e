"""Outgoing webhooks, on both engines and over real sockets: each event is told at least once, and signed."""

import asyncio
import hmac
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import insert, select

from mailwright.app.link_checks import public_only
from mailwright.app.outbound_webhooks import PRIVATE_ADDRESS
from mailwright.app.serving import Shutdown, work
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
from tests.api import an_api
from tests.builders import DEFAULT_TENANT, Bench, a_bench, a_message, a_tenant, an_acceptor
from tests.conftest import DatabaseAddress
from tests.standins.http import Answer, HttpStandIn, Request, Step
from tests.standins.provider import ScriptedProvider


@dataclass
class Desk:
    """An installation, a receiver, and one process that tells."""

    database: Database
    clock: ManualClock
    receiver: HttpStandIn
    endpoints: WebhookEndpoints
    deliveries: WebhookDeliveries
    posting: WebhookDispatcher

    async def add(
        self, path: str = "/hook", *types: str, tenant_id: int = DEFAULT_TENANT
    ) -> tuple[WebhookEndpoint, str]:
        wanted = WebhookEndpointInput(f"{self.receiver.url}{path}", types)
        return await self.endpoints.create(tenant_id, wanted, actor="test")

    async def happens(self, *types: EventType, tenant_id: int = DEFAULT_TENANT) -> str:
        """These events of one new message, in one transaction."""
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

    async def dispatch_one(self) -> None:
        await self.posting.dispatch_all()

    async def log(self, endpoint: WebhookEndpoint) -> list[WebhookDelivery]:
        """The oldest first."""
        return (await self.deliveries.list_deliveries(endpoint, limit=1_000))[::-1]

    async def now(self, endpoint: WebhookEndpoint) -> WebhookEndpoint:
        return await self.endpoints.find(endpoint.webhook_id, tenant_id=None)

    def told(self, path: str = "/hook") -> list[dict[str, Any]]:
        return [each.json() for each in self.receiver.requests if each.path == path]


def another_process(desk: Desk) -> WebhookDispatcher:
    return WebhookDispatcher(desk.database, desk.clock, HttpClient(resolve=addresses_of), timeout_seconds=1.0)


@pytest.fixture
async def desk(database: Database, clock: ManualClock) -> AsyncIterator[Desk]:
    async with HttpStandIn() as receiver:
        endpoints = WebhookEndpoints(database, clock, allows_private=True)
        posting = WebhookDispatcher(database, clock, HttpClient(resolve=addresses_of), timeout_seconds=1.0)
        yield Desk(database, clock, receiver, endpoints, WebhookDeliveries(database, clock), posting)
        await posting.close()
        assert not receiver.violations


def is_signed(request: Request, secret: str) -> bool:
    """As docs/webhooks.md tells receivers to look."""
    parts = [each.partition("=") for each in request.headers["Mailwright-Signature"].split(",")]
    [at] = [value for name, _, value in parts if name == "t"]
    expected = hmac.digest(secret.encode(), at.encode() + b"." + request.body, "sha256").hex()
    return any(hmac.compare_digest(value, expected) for name, _, value in parts if name == "v1")


# What is told.


async def test_event_is_delivered_with_its_message(desk: Desk) -> None:
    endpoint, _ = await desk.add()
    outbox_id = await desk.happens(EventType.SENT, EventType.BOUNCED)
    await desk.dispatch_one()
    told, bounced = sorted(desk.told(), key=itemgetter("type"))  # they are posted at once
    assert (told["type"], bounced["type"]) == ("SENT", "bounce")
    [first] = [each for each in await desk.log(endpoint) if each.delivery_id == told["id"]]
    assert told["message"]["outboxId"] == outbox_id
    assert told["message"]["to"].endswith("@example.com")
    assert told["metadata"] == {"provider": "ses"}
    assert told["createdAt"] == "2027-01-15T08:00:00.000Z"
    assert told["id"] in [each.headers["Mailwright-Delivery"] for each in desk.receiver.requests]
    assert (first.status, first.attempts, first.log[0]["status"]) == (DELIVERED, 1, 200)


async def test_sent_message_is_delivered_to_webhook(bench: Bench) -> None:
    async with HttpStandIn() as receiver:
        endpoints = WebhookEndpoints(bench.database, bench.clock, allows_private=True)
        await endpoints.create(DEFAULT_TENANT, WebhookEndpointInput(f"{receiver.url}/hook"), actor="test")
        await bench.accept(a_message())
        await bench.drain(ScriptedProvider())
        posting = WebhookDispatcher(bench.database, bench.clock, HttpClient(resolve=addresses_of))
        await posting.dispatch_all()
        await posting.close()
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
        async with asyncio.timeout(20):
            await work(bench.engine, Shutdown(), drain=True)
        assert sorted((each.path, each.json()["type"]) for each in receiver.requests) == [
            ("/broken", "SENT"),
            ("/hook", "SENT"),
        ]


async def test_only_subscribed_event_types_are_delivered(desk: Desk) -> None:
    await desk.add("/bounces", EventType.BOUNCED)
    await desk.add("/all")
    await desk.happens(EventType.RECEIVED, EventType.VALIDATED, EventType.SENT, EventType.BOUNCED)
    await desk.dispatch_one()
    assert [each["type"] for each in desk.told("/bounces")] == ["bounce"]
    assert sorted(each["type"] for each in desk.told("/all")) == ["SENT", "bounce"]


async def test_tenant_receives_only_its_events(desk: Desk) -> None:
    other = await a_tenant(desk.database, "other")
    await desk.add("/ours")
    await desk.add("/theirs", tenant_id=other)
    ours, theirs = await desk.happens(EventType.SENT), await desk.happens(EventType.SENT, tenant_id=other)
    await desk.dispatch_one()
    assert [each["message"]["outboxId"] for each in desk.told("/ours")] == [ours]
    assert [each["message"]["outboxId"] for each in desk.told("/theirs")] == [theirs]


async def test_earlier_events_are_not_delivered(desk: Desk) -> None:
    await desk.happens(EventType.SENT)
    await desk.add("/first")
    after_first = await desk.happens(EventType.SENT)
    await desk.dispatch_one()
    await desk.add("/second")
    after_both = await desk.happens(EventType.SENT)
    await desk.dispatch_one()
    assert [each["message"]["outboxId"] for each in desk.told("/first")] == [after_first, after_both]
    assert [each["message"]["outboxId"] for each in desk.told("/second")] == [after_both]


# Who joins and leaves.

SECRET = "s" * 32
TOKENS = UnsubscribeTokens(SECRET)
ADA = "ada@example.com"


@pytest.fixture
async def reader(desk: Desk) -> AsyncIterator[httpx.AsyncClient]:
    await lists.create(desk.database, desk.clock, DEFAULT_TENANT, "weekly")
    await lists.create(desk.database, desk.clock, DEFAULT_TENANT, "careful", requires_confirmation=True)
    async with an_api(desk.database, desk.clock, public_pages=PublicPages(SECRET, sender="Northwind")) as api:
        yield api.anonymous


async def moves(desk: Desk) -> list[tuple[str, str, str]]:
    """What was told since the last look, and of which list, by which page."""
    desk.receiver.requests.clear()
    await desk.dispatch_one()
    return [(each["type"], each["metadata"]["listKey"], each["metadata"]["source"]) for each in desk.told()]


async def test_unsubscribe_and_resubscribe_are_delivered_once_each(desk: Desk, reader: httpx.AsyncClient) -> None:
    await desk.add()
    leaves, returns = TOKENS.make(ADA, "weekly"), TOKENS.for_resubscribe().make(ADA, "weekly")
    for _ in range(2):
        await reader.post(f"/unsubscribe?token={leaves}")
    assert await moves(desk) == [("left", "weekly", "reader")]
    [told] = desk.told()
    person = await contacts.find_by_email(desk.database, DEFAULT_TENANT, ADA)
    assert (told["message"], told["contact"]) == (None, {"contactId": person.contact_id, "email": ADA})
    assert "contactKey" not in told["metadata"]
    for _ in range(2):
        await reader.post(f"/resubscribe?token={returns}")
    assert await moves(desk) == [("joined", "weekly", "reader")]


async def test_preference_changes_are_delivered_per_list(desk: Desk, reader: httpx.AsyncClient) -> None:
    await desk.add()
    page = f"/preferences?token={TOKENS.make(ADA, 'weekly')}"
    shown = {"shown": ["weekly", "careful"]}
    await reader.post(page, data={**shown, "list": ["weekly"]})
    assert await moves(desk) == [("joined", "weekly", "reader")]
    await reader.post(page, data={**shown, "list": ["weekly"]})
    assert await moves(desk) == []
    await reader.post(page, data={"everything": "on"})
    assert await moves(desk) == [("left", "general", "reader")]


async def test_sign_up_is_delivered_after_confirmation(desk: Desk, reader: httpx.AsyncClient) -> None:
    await desk.add("/hook", EventType.JOINED, EventType.LEFT)
    await reader.post("/subscribe/weekly", data={"email": ADA})
    assert await moves(desk) == [("joined", "weekly", "sign-up")]
    await reader.post("/subscribe/careful", data={"email": ADA})
    assert await moves(desk) == []
    await reader.post(f"/confirm?token={TOKENS.for_confirmation().make(ADA, 'careful')}")
    assert await moves(desk) == [("joined", "careful", "opt-in")]


async def test_concurrent_identical_requests_are_delivered_once(desk: Desk, reader: httpx.AsyncClient) -> None:
    """A mail program that asks twice, a button that is pressed twice: also of somebody who was not known before."""
    await desk.add()
    leaves, returns = TOKENS.make(ADA, "weekly"), TOKENS.for_resubscribe().make(ADA, "weekly")
    page, choice = f"/preferences?token={leaves}", {"shown": ["weekly", "careful"], "list": ["careful"]}

    async def at_once(path: str, data: dict[str, Any] | None = None) -> list[tuple[str, str, str]]:
        answers = await asyncio.gather(*[reader.post(path, data=data) for _ in range(6)])
        assert {answer.status_code for answer in answers} == {200}
        return await moves(desk)

    assert await at_once("/subscribe/weekly", {"email": ADA}) == [("joined", "weekly", "sign-up")]
    assert await at_once(f"/unsubscribe?token={leaves}") == [("left", "weekly", "reader")]
    assert await at_once(f"/resubscribe?token={returns}") == [("joined", "weekly", "reader")]
    assert await at_once(page, choice) == [("left", "weekly", "reader"), ("joined", "careful", "reader")]
    assert await at_once(f"/unsubscribe?token={TOKENS.make('eve@example.com', 'weekly')}") == [
        ("left", "weekly", "reader")
    ]


async def test_erased_contact_is_not_in_delivery(desk: Desk, reader: httpx.AsyncClient) -> None:
    await desk.add()
    await reader.post(f"/unsubscribe?token={TOKENS.make(ADA, 'weekly')}")
    await erase(desk.database, desk.clock, DEFAULT_TENANT, ADA, actor="test")
    await desk.dispatch_one()
    assert [(each["type"], each["contact"]) for each in desk.told()] == [("left", None)]
    assert ADA not in repr(desk.receiver.requests)


# Nothing is passed over.


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
async def test_event_committed_out_of_order_is_delivered(database: Database, desk: Desk) -> None:
    """Keys are given out before the commit, and SQLite has one writer: only PostgreSQL can show them out of order."""
    await desk.add()
    async with database.write() as slow:
        await slow.execute(insert(events), [desk.an_event(1, EventType.DELIVERED)])
        await desk.happens(EventType.SENT)
        await desk.dispatch_one()
        assert desk.told() == []  # the later one is seen, and not passed yet
    await desk.dispatch_one()
    await desk.dispatch_one()
    assert sorted(each["type"] for each in desk.told()) == ["SENT", "delivered"]


async def test_events_of_several_batches_are_delivered_once(desk: Desk) -> None:
    endpoint, _ = await desk.add()
    async with desk.database.write() as tx:
        await tx.execute(insert(events), [desk.an_event(each, EventType.SENT) for each in range(BATCH_SIZE + 7)])
    while await derive_deliveries(desk.database, desk.clock):
        pass
    await derive_deliveries(desk.database, desk.clock)
    assert len(await desk.deliveries.list_deliveries(endpoint, limit=10_000)) == BATCH_SIZE + 7


@pytest.mark.promise("webhook-once-each")
async def test_concurrent_processes_create_each_delivery_once(desk: Desk) -> None:
    endpoint, _ = await desk.add()
    for _ in range(5):
        await desk.happens(EventType.SENT, EventType.DELIVERED)
    others = [another_process(desk) for _ in range(3)]
    await asyncio.gather(*(each.dispatch_all() for each in (desk.posting, *others)))
    await desk.dispatch_one()
    for each in others:
        await each.close()
    ids = [each["id"] for each in desk.told()]
    assert len(ids) == len(set(ids)) == 10
    assert {each.status for each in await desk.log(endpoint)} == {DELIVERED}


# Signed.


@pytest.mark.promise("webhook-signed")
async def test_request_is_signed_with_the_shown_secret(desk: Desk) -> None:
    endpoint, secret = await desk.add()
    await desk.deliveries.create_test(endpoint, actor="test")
    await desk.dispatch_one()
    [request] = desk.receiver.requests
    assert is_signed(request, secret)
    assert not is_signed(request, secret + "x")
    assert f"t={desk.clock.now() // SECOND}," in request.headers["Mailwright-Signature"]


async def test_replaced_secret_signs_for_one_more_day(desk: Desk) -> None:
    endpoint, before = await desk.add()
    _, after = await desk.endpoints.rotate(endpoint.webhook_id, tenant_id=DEFAULT_TENANT, actor="test")
    await desk.deliveries.create_test(endpoint, actor="test")
    await desk.dispatch_one()
    desk.clock.advance(SECRET_OVERLAP)
    await desk.deliveries.create_test(endpoint, actor="test")
    await desk.dispatch_one()
    during, later = desk.receiver.requests
    assert [is_signed(during, before), is_signed(during, after)] == [True, True]
    assert [is_signed(later, before), is_signed(later, after)] == [False, True]


async def test_secret_is_not_in_audit_log(desk: Desk) -> None:
    endpoint, secret = await desk.add("/hook?key=hidden")
    noted = repr(await list_entries(desk.database, tenant_id=None, limit=10))
    assert endpoint.webhook_id in noted
    assert secret not in noted
    assert "hidden" not in noted


async def test_test_and_redelivery_are_in_audit_log(desk: Desk) -> None:
    endpoint, _ = await desk.add()
    made = await desk.deliveries.create_test(endpoint, actor="ada")
    await desk.dispatch_one()
    await desk.deliveries.redeliver(made.delivery_id, tenant_id=DEFAULT_TENANT, actor="ben")
    again, first, _ = await list_entries(desk.database, tenant_id=DEFAULT_TENANT, limit=10, subject=endpoint.webhook_id)
    assert [(each.actor, each.action) for each in (first, again)] == [
        ("ada", "webhook.test"),
        ("ben", "webhook.redeliver"),
    ]
    assert first.detail == again.detail == {"deliveryId": made.delivery_id}


# What goes wrong.


@pytest.mark.promise("webhook-retried")
@pytest.mark.parametrize(
    "answer", [Answer(500, b"broken"), Answer(302, headers={"Location": "/elsewhere"}), Answer(404)]
)
async def test_failed_delivery_is_retried_with_same_id(desk: Desk, answer: Answer) -> None:
    endpoint, _ = await desk.add()
    await desk.happens(EventType.SENT)
    desk.receiver.answer(answer, times=1)
    await desk.dispatch_one()
    [waiting] = await desk.log(endpoint)
    assert (waiting.status, waiting.log[0]["status"]) == (PENDING, answer.status)
    assert waiting.due_at > desk.clock.now()
    assert (await desk.now(endpoint)).state == "failing"
    await desk.dispatch_one()
    assert len(desk.told()) == 1  # not before its time, and a redirect leads nowhere
    desk.clock.advance(10 * SECOND)
    await desk.dispatch_one()
    [taken] = await desk.log(endpoint)
    assert (taken.status, taken.attempts, (await desk.now(endpoint)).state) == (DELIVERED, 2, "active")
    assert len({each["id"] for each in desk.told()}) == 1


@pytest.mark.promise("webhook-retried")
@pytest.mark.parametrize("step", [Step.CONNECTED, Step.HEAD, Step.BODY, Step.ANSWER, Step.MIDDLE])
async def test_cut_connection_loses_no_delivery(desk: Desk, step: Step) -> None:
    endpoint, _ = await desk.add()
    await desk.happens(EventType.SENT)
    desk.receiver.cut(step, times=1)
    await desk.dispatch_one()
    [waiting] = await desk.log(endpoint)
    assert (waiting.status, waiting.log[0]["status"]) == (PENDING, None)
    assert waiting.log[0]["error"]
    desk.clock.advance(10 * SECOND)
    await desk.dispatch_one()
    assert [each.status for each in await desk.log(endpoint)] == [DELIVERED]


async def test_hanging_receiver_does_not_delay_others(desk: Desk) -> None:
    slow, _ = await desk.add("/slow")
    quick, _ = await desk.add("/quick")
    hold = desk.receiver.hold(Step.ANSWER, path="/slow")
    await desk.happens(EventType.SENT)
    await desk.posting.dispatch_due()
    await hold.reached.wait()
    while [each.status for each in await desk.log(quick)] != [DELIVERED]:
        await asyncio.sleep(0.01)
    await desk.posting.wait_until_idle()
    hold.release()
    [late] = await desk.log(slow)
    assert (late.status, late.log[0]["error"]) == (PENDING, "no response in time")


async def test_failed_delivery_can_be_redelivered(desk: Desk) -> None:
    endpoint, _ = await desk.add()
    outbox_id = await desk.happens(EventType.SENT)
    desk.receiver.answer(Answer(503), path="/hook")
    for _ in range(SCHEDULE.max_attempts):
        await desk.dispatch_one()
        await desk.endpoints.edit(endpoint.webhook_id, WebhookEndpointInput(endpoint.url), tenant_id=None, actor="test")
        desk.clock.advance(2 * DAY)
    [failed] = await desk.log(endpoint)
    assert (failed.status, failed.attempts, len(desk.told())) == (FAILED, SCHEDULE.max_attempts, SCHEDULE.max_attempts)
    desk.receiver.forget_rules()
    await desk.deliveries.redeliver(failed.delivery_id, tenant_id=DEFAULT_TENANT, actor="test")
    await desk.dispatch_one()
    [taken] = await desk.log(endpoint)
    assert (taken.status, taken.delivery_id) == (DELIVERED, failed.delivery_id)
    assert {each["message"]["outboxId"] for each in desk.told()} == {outbox_id}


async def test_pending_delivery_cannot_be_redelivered(desk: Desk) -> None:
    endpoint, _ = await desk.add()
    waiting = await desk.deliveries.create_test(endpoint, actor="test")
    with pytest.raises(NotPossibleNow):
        await desk.deliveries.redeliver(waiting.delivery_id, tenant_id=DEFAULT_TENANT, actor="test")


async def test_endpoint_failing_three_days_is_paused_with_reason(desk: Desk) -> None:
    endpoint, _ = await desk.add()
    desk.receiver.answer(Answer(500), path="/hook")
    await desk.happens(EventType.SENT)
    await desk.dispatch_one()
    desk.clock.advance(3 * DAY)
    await desk.dispatch_one()
    paused = await desk.now(endpoint)
    assert paused.state == "paused"
    assert "500" in (paused.pause_reason or "")
    asked = len(desk.told())
    desk.clock.advance(DAY)
    await desk.happens(EventType.SENT)
    await desk.dispatch_one()
    assert len(desk.told()) == asked
    desk.receiver.forget_rules()
    await desk.endpoints.edit(endpoint.webhook_id, WebhookEndpointInput(endpoint.url), tenant_id=None, actor="test")
    await desk.happens(EventType.DELIVERED)
    await desk.dispatch_one()
    assert [each.status for each in await desk.log(endpoint)] == [DELIVERED, DELIVERED]


async def test_failures_before_edit_do_not_pause_endpoint(desk: Desk) -> None:
    endpoint, _ = await desk.add("/old")
    await desk.happens(EventType.SENT)
    await derive_deliveries(desk.database, desk.clock)
    for _ in range(2):
        failing = await desk.now(endpoint)
        claimed = await desk.deliveries.claim(failing)
        if failing.failures:  # its last request is still under way
            await desk.endpoints.edit(
                endpoint.webhook_id, WebhookEndpointInput(f"{desk.receiver.url}/new"), tenant_id=None, actor="test"
            )
        await desk.deliveries.settle(failing, [(each, NoReceiverResponse("timeout", 1)) for each in claimed])
        desk.clock.advance(3 * DAY)
    assert (await desk.now(endpoint)).state == "active"
    await desk.dispatch_one()
    assert [each["type"] for each in desk.told("/new")] == ["SENT"]


async def test_gone_endpoint_is_paused_at_once(desk: Desk) -> None:
    endpoint, _ = await desk.add()
    desk.receiver.answer(Answer(410))
    await desk.deliveries.create_test(endpoint, actor="test")
    await desk.dispatch_one()
    assert (await desk.now(endpoint)).state == "paused"


async def test_failing_receiver_gets_one_request_at_a_time(desk: Desk) -> None:
    await desk.add()
    for _ in range(30):
        await desk.happens(EventType.SENT)
    desk.receiver.answer(Answer(500), path="/hook")
    await desk.dispatch_one()
    first = len(desk.told())
    assert first <= 20
    desk.clock.advance(5 * MINUTE)
    await desk.dispatch_one()
    assert len(desk.told()) == first + 1
    desk.receiver.forget_rules()
    desk.clock.advance(5 * MINUTE)
    for _ in range(3):
        await desk.dispatch_one()
    assert len({each["id"] for each in desk.told()}) == 30


# Killed in the middle.


async def test_crashed_process_loses_no_delivery(desk: Desk) -> None:
    endpoint, _ = await desk.add()
    await desk.happens(EventType.SENT)
    hold = desk.receiver.hold(Step.ANSWER)
    dying = another_process(desk)
    await dying.dispatch_due()
    await hold.reached.wait()
    await dying.close()
    await desk.dispatch_one()
    assert [each.status for each in await desk.log(endpoint)] == [PENDING]  # its claim has not ended
    assert len(desk.told()) == 1
    desk.clock.advance(LEASE)
    await desk.dispatch_one()
    assert [each.status for each in await desk.log(endpoint)] == [DELIVERED]
    assert len({each["id"] for each in desk.told()}) == 1


async def test_expired_claim_sends_and_changes_nothing(desk: Desk) -> None:
    endpoint, _ = await desk.add()
    await desk.deliveries.create_test(endpoint, actor="test")
    claimed = await desk.deliveries.claim(endpoint)
    desk.clock.advance(LEASE)
    assert await desk.posting.send_claimed(endpoint, claimed) == 0
    assert desk.told() == []
    await desk.dispatch_one()
    assert [each.attempts for each in await desk.log(endpoint)] == [1]


# Whose addresses are taken.


@pytest.mark.promise("webhook-guarded")
async def test_private_address_receives_no_request(desk: Desk) -> None:
    endpoint, _ = await desk.add()
    guarded = WebhookDispatcher(desk.database, desk.clock, HttpClient(resolve=public_only(otherwise=PRIVATE_ADDRESS)))
    await desk.deliveries.create_test(endpoint, actor="test")
    await guarded.dispatch_all()
    await guarded.close()
    [kept_back] = await desk.log(endpoint)
    assert (kept_back.status, desk.receiver.connections) == (PENDING, 0)
    assert kept_back.log[0]["error"] == PRIVATE_ADDRESS


@pytest.mark.promise("webhook-guarded")
async def test_host_that_becomes_private_is_not_connected(desk: Desk) -> None:
    """What a name means is judged at each connection, by the address that is then connected to."""
    port = desk.receiver.port
    wanted = WebhookEndpointInput(f"http://hooks.example:{port}/hook")
    endpoint, _ = await desk.endpoints.create(DEFAULT_TENANT, wanted, actor="test")

    async def turned(_host: str, port: int) -> Any:
        return await addresses_of("127.0.0.1", port)

    guarded = WebhookDispatcher(desk.database, desk.clock, HttpClient(resolve=public_only(turned)))
    await desk.deliveries.create_test(endpoint, actor="test")
    await guarded.dispatch_all()
    await guarded.close()
    assert desk.receiver.connections == 0


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


async def test_unknown_event_type_is_rejected_with_choices(desk: Desk) -> None:
    with pytest.raises(InvalidInput, match="bounce"):
        await desk.add("/hook", "bounced")


async def test_number_of_endpoints_is_limited(desk: Desk) -> None:
    for _ in range(MAX_ENDPOINTS):
        await desk.add()
    with pytest.raises(TooManyWebhooks):
        await desk.add()


# What is kept.


async def test_old_deliveries_are_deleted_except_pending(desk: Desk) -> None:
    endpoint, _ = await desk.add()
    await desk.deliveries.create_test(endpoint, actor="test")
    await desk.dispatch_one()
    desk.clock.advance(31 * DAY)
    await desk.deliveries.create_test(endpoint, actor="test")
    assert await desk.deliveries.delete_old() == 1
    assert [each.status for each in await desk.log(endpoint)] == [PENDING]


async def test_response_excerpt_is_short_and_masked(desk: Desk) -> None:
    endpoint, _ = await desk.add()
    desk.receiver.answer(Answer(200, b"thanks, jane@example.org " + b"x" * 5_000))
    await desk.deliveries.create_test(endpoint, actor="test")
    await desk.dispatch_one()
    [told] = await desk.log(endpoint)
    assert "jane@example.org" not in told.log[0]["answer"]
    assert re.match(r"thanks, .*x+$", told.log[0]["answer"])
    assert len(told.log[0]["answer"]) <= 500


async def test_removed_webhook_deletes_its_deliveries(desk: Desk) -> None:
    endpoint, _ = await desk.add()
    await desk.happens(EventType.SENT)
    await derive_deliveries(desk.database, desk.clock)
    await desk.endpoints.remove(endpoint.webhook_id, tenant_id=DEFAULT_TENANT, actor="test")
    await desk.dispatch_one()
    assert desk.told() == []
    assert await desk.log(endpoint) == []
