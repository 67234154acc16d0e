"""Articles end to end: the HTTP trigger, a real worker, and a SendGrid stand-in over sockets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import uvicorn

from mailwright.domain.clock import SECOND, ManualClock
from mailwright.domain.retry import ARTICLES
from mailwright.domain.states import EventType
from mailwright.outbox.audit import audit
from mailwright.web.app import create_app
from tests.api import socket_client
from tests.articles import ADA, BATCH, CLEO, KEY, TAG, rows_of, two_recipients, write_slices
from tests.builders import Bench, a_bench, deliveries_of
from tests.conftest import DatabaseAddress
from tests.standins.sendgrid import KEY as SENDGRID_KEY
from tests.standins.sendgrid import SEND as SENDGRID_SEND
from tests.standins.sendgrid import SendGridStandIn, refusal

PASSWORD = "correct horse battery staple"
SEND = "/v1/articles/send"
A_LONG_TIME = 60 * SECOND


@pytest.fixture
async def sendgrid() -> AsyncIterator[SendGridStandIn]:
    async with SendGridStandIn() as sendgrid:
        yield sendgrid


@pytest.fixture
async def bench(engine: DatabaseAddress, clock: ManualClock, sendgrid: SendGridStandIn) -> AsyncIterator[Bench]:
    settings: dict[str, Any] = {
        "provider": "sendgrid",
        "sendgrid_api_key": SENDGRID_KEY,
        "sendgrid_url": sendgrid.url,
        "sendgrid_webhook_public_key": sendgrid.public_key,
        "admin_password": PASSWORD,
        "base_url": "https://mail.example.com",
    }
    async with a_bench(engine.url, clock, **settings) as bench:
        await write_slices(bench)
        await two_recipients(bench)
        yield bench
        assert (await audit(bench.database)).ok


@pytest.fixture
async def web(bench: Bench) -> AsyncIterator[httpx.AsyncClient]:
    async with served(bench) as address, socket_client(address) as client:
        yield client


@asynccontextmanager
async def served(bench: Bench) -> AsyncIterator[str]:
    """Serve the whole application on its own socket."""
    app = create_app(bench.engine)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, lifespan="off"))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving


async def trigger(web: httpx.AsyncClient, password: str = PASSWORD, **changes: Any) -> httpx.Response:
    body = {"campaign_tag": TAG, "article_key": KEY, "send_batch_id": BATCH, **changes}
    return await web.post(SEND, json=body, headers={"Authorization": f"Bearer {password}"})


def mail_to(sendgrid: SendGridStandIn, email: str) -> dict[str, Any]:
    [found] = [message for message in sendgrid.messages if message["personalizations"][0]["to"][0]["email"] == email]
    return found


def text_of(message: dict[str, Any], kind: str = "text/plain") -> str:
    [found] = [part["value"] for part in message["content"] if part["type"] == kind]
    return str(found)


@pytest.mark.promise("article-once")
async def test_repeated_batch_leaves_the_history_unchanged(
    bench: Bench, web: httpx.AsyncClient, sendgrid: SendGridStandIn
) -> None:
    assert (await trigger(web)).status_code == 202
    await bench.drain()
    history = await rows_of(bench.database, "delivery_history")
    assert {row["email"] for row in history} == {ADA, CLEO}
    assert {row["provider_message_id"] for row in history} == set(sendgrid.message_ids)
    again = await trigger(web)
    assert (again.status_code, again.json()["is_replay"]) == (200, True)
    await bench.drain()
    assert await rows_of(bench.database, "delivery_history") == history
    assert len(sendgrid.messages) == 2


async def test_recipient_in_upper_arlington_gets_all_four_levels(
    bench: Bench, web: httpx.AsyncClient, sendgrid: SendGridStandIn
) -> None:
    await trigger(web)
    await bench.drain()
    message = mail_to(sendgrid, ADA)
    assert message["subject"] == "Vote in May"
    written = text_of(message)
    parts = ["Vote in May", "What is on your ballot", "Dear Ada,", "The nation votes.", "Ohio votes."]
    parts += ["Franklin County votes.", "Upper Arlington votes.", "https://mail.example.com/unsubscribe?token="]
    places = [written.index(part) for part in parts]
    assert places == sorted(places)
    assert text_of(message, "text/html").count("<html") == 1


async def test_recipient_in_cleveland_gets_nation_and_state_only(
    bench: Bench, web: httpx.AsyncClient, sendgrid: SendGridStandIn
) -> None:
    await trigger(web)
    await bench.drain()
    written = text_of(mail_to(sendgrid, CLEO))
    assert "The nation votes." in written
    assert "Ohio votes." in written
    assert "Franklin" not in written
    assert "Upper Arlington" not in written


async def test_wrong_password_returns_401_and_sends_nothing(
    bench: Bench, web: httpx.AsyncClient, sendgrid: SendGridStandIn
) -> None:
    for password in ("wrong", PASSWORD[:-1], f"{PASSWORD}!"):
        answer = await trigger(web, password)
        assert (answer.status_code, answer.json()["code"]) == (401, "UNAUTHORIZED")
    assert (await web.post(SEND, json={})).status_code == 401
    await bench.drain()
    assert sendgrid.messages == []
    assert await rows_of(bench.database, "campaign_runs") == []


@pytest.mark.parametrize("status", [500, 503])
async def test_failing_sendgrid_is_retried_then_dead_lettered(
    bench: Bench, web: httpx.AsyncClient, sendgrid: SendGridStandIn, clock: ManualClock, status: int
) -> None:
    sendgrid.answer(refusal(status, "internal error"))
    await trigger(web, audience_filter={"place": "cleveland"})
    await bench.drain()
    waits = []
    for _ in ARTICLES.delays:
        [row] = await deliveries_of(bench.database)
        waits.append(row.next_attempt_at - clock.now())
        clock.advance(row.next_attempt_at - clock.now())
        await bench.drain()
    assert ARTICLES.delays == (SECOND, 4 * SECOND, 10 * SECOND)
    assert all(0.75 * base <= wait <= 1.25 * base for wait, base in zip(waits, ARTICLES.delays, strict=True))
    assert len([request for request in sendgrid.requests if request.path == SENDGRID_SEND]) == 4
    [dead_letter] = await rows_of(bench.database, "dead_letters")
    assert (dead_letter["topic"], dead_letter["email"], dead_letter["send_batch_id"]) == ("send", CLEO, BATCH)
    assert dead_letter["error"].startswith("MAX_ATTEMPTS_EXCEEDED: All 4 attempts failed")
    assert len(await rows_of(bench.database, "dead_letters")) == 1
    clock.advance(A_LONG_TIME)
    await bench.drain()
    assert await rows_of(bench.database, "delivery_history") == []


async def test_permanently_refused_message_is_dead_lettered_at_once(
    bench: Bench, web: httpx.AsyncClient, sendgrid: SendGridStandIn
) -> None:
    sendgrid.answer(refusal(400, "does not contain a valid address", "to"), nth=1)
    await trigger(web)
    await bench.drain()
    assert len(await rows_of(bench.database, "delivery_history")) == 1
    [dead_letter] = await rows_of(bench.database, "dead_letters")
    assert dead_letter["error"].startswith("SENDGRID_BAD_REQUEST: does not contain a valid address")


async def test_sendgrid_events_are_recorded_once_in_any_order(
    bench: Bench, web: httpx.AsyncClient, sendgrid: SendGridStandIn, clock: ManualClock
) -> None:
    await trigger(web)
    await bench.drain()
    names = ("spamreport", "click", "open", "delivered")
    told = sendgrid.events_of(0, *names, timestamp=clock.now() // 1000)
    for events in (told, told[::-1], told[:2]):
        headers, body = sendgrid.signed_events(events, timestamp=clock.now() // 1000)
        assert (await web.post("/sendgrid-events", content=body, headers=headers)).is_success
    forged = {**headers, "X-Twilio-Email-Event-Webhook-Timestamp": "1"}
    assert not (await web.post("/sendgrid-events", content=body, headers=forged)).is_success
    found = await rows_of(bench.database, "delivery_events")
    assert sorted(row["event_type"] for row in found) == sorted(names)
    assert {row["provider_message_id"] for row in found} == {sendgrid.message_ids[0]}


async def test_unsubscribe_link_stops_further_articles(
    bench: Bench, web: httpx.AsyncClient, sendgrid: SendGridStandIn
) -> None:
    await trigger(web)
    await bench.drain()
    link = mail_to(sendgrid, ADA)["headers"]["List-Unsubscribe"].strip("<>").partition("mail.example.com")[2]
    for _ in range(2):
        answer = await web.post(link, data={"List-Unsubscribe": "One-Click"}, headers={"Accept": "application/json"})
        assert (answer.status_code, answer.json()["ok"]) == (200, True)
    await trigger(web, send_batch_id=BATCH.replace("7", "8"))
    await bench.drain()
    assert [message["personalizations"][0]["to"][0]["email"] for message in sendgrid.messages[2:]] == [CLEO]


async def test_retry_after_failure_reaches_recipient_once(
    bench: Bench, web: httpx.AsyncClient, sendgrid: SendGridStandIn, clock: ManualClock
) -> None:
    sendgrid.answer(refusal(503, "unavailable"), nth=1)
    await trigger(web, audience_filter={"place": "cleveland"})
    await bench.drain()
    clock.advance(2 * SECOND)
    await bench.drain()
    assert len(sendgrid.messages) == 1
    [row] = await deliveries_of(bench.database)
    record = await bench.record((await rows_of(bench.database, "delivery_history"))[0]["id"])
    assert row.attempts == 2
    assert [event.type for event in record.events].count(EventType.SENT_ATTEMPT) == 2
