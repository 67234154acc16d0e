"""Webhooks of sequences: steps that send requests, and events about people, over real sockets."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import select

from mailwright.audience.erasure import erase
from mailwright.domain.clock import MINUTE
from mailwright.events.outbound.deliveries import WebhookDeliveries
from mailwright.events.outbound.dispatcher import WebhookDispatcher
from mailwright.events.outbound.endpoints import WebhookEndpoint, WebhookEndpointInput, WebhookEndpoints
from mailwright.providers.http import HttpClient, addresses_of
from mailwright.sources.sequences.definition import InvalidSequence
from mailwright.storage.database import Transaction
from mailwright.storage.tables import messages
from tests.builders import DEFAULT_TENANT
from tests.sequences import ACTOR, SequenceBench, a_wait, an_email, happen
from tests.standins.http import Answer, HttpStandIn

ANN = "ann@example.com"
BOB = "bob@example.com"
STEPS_ONLY = ("sequence.webhook",)


@dataclass
class Receiver:
    """A server that gets requests, and the dispatcher that makes them."""

    server: HttpStandIn
    endpoints: WebhookEndpoints
    deliveries: WebhookDeliveries
    dispatcher: WebhookDispatcher

    async def add(self, *types: str) -> WebhookEndpoint:
        wanted = WebhookEndpointInput(f"{self.server.url}/hook", types)
        return (await self.endpoints.create(DEFAULT_TENANT, wanted, actor=ACTOR))[0]

    async def turn(self, endpoint: WebhookEndpoint, *, on: bool) -> None:
        wanted = WebhookEndpointInput(endpoint.url, STEPS_ONLY, is_active=on)
        await self.endpoints.edit(endpoint.webhook_id, wanted, tenant_id=DEFAULT_TENANT, actor=ACTOR)

    async def bodies(self) -> list[dict[str, Any]]:
        await self.dispatcher.dispatch_all()
        return [each.json() for each in self.server.requests]


@pytest.fixture
async def receiver(sequences: SequenceBench) -> AsyncIterator[Receiver]:
    database, clock = sequences.database, sequences.clock
    async with HttpStandIn() as server:
        dispatcher = WebhookDispatcher(database, clock, HttpClient(resolve=addresses_of), timeout_seconds=1.0)
        endpoints = WebhookEndpoints(database, clock, allows_private=True)
        yield Receiver(server, endpoints, WebhookDeliveries(database, clock), dispatcher)
        await dispatcher.close()


def a_request(endpoint: WebhookEndpoint, **data: Any) -> dict[str, Any]:
    return {"id": "crm", "webhook": {"to": endpoint.webhook_id, "data": data}}


async def test_step_sends_signed_data_once(sequences: SequenceBench, receiver: Receiver) -> None:
    await sequences.people(ANN)
    endpoint = await receiver.add(*STEPS_ONLY)
    key = await sequences.start(a_request(endpoint, stage="trial"), a_wait())
    await sequences.enrol(key, ANN)
    await sequences.run()
    [body] = await receiver.bodies()
    assert (body["type"], body["contact"]["email"]) == ("sequence.webhook", ANN)
    assert body["metadata"] == {
        "sequenceId": key,
        "sequence": "Welcome",
        "run": 1,
        "step": "crm",
        "data": {"stage": "trial"},
    }
    assert receiver.server.requests[0].headers["Mailwright-Signature"].startswith("t=")
    [run] = await sequences.engine.sequences.explanations.of_person(DEFAULT_TENANT, ANN)
    assert [(step.outcome, step.message_status) for step in run.steps] == [("posted", "DELIVERED")]


async def test_failed_request_of_a_step_is_retried_and_visible(sequences: SequenceBench, receiver: Receiver) -> None:
    await sequences.people(ANN)
    endpoint = await receiver.add(*STEPS_ONLY)
    receiver.server.answer(Answer(500), times=1)
    key = await sequences.start(a_request(endpoint), a_wait())
    await sequences.enrol(key, ANN)
    await sequences.run()
    assert len(await receiver.bodies()) == 1
    [run] = await sequences.engine.sequences.explanations.of_person(DEFAULT_TENANT, ANN)
    assert run.steps[0].message_status == "PENDING"
    sequences.clock.advance(MINUTE)
    first, second = await receiver.bodies()
    assert first == second


@pytest.mark.parametrize("is_meanwhile", [False, True])
async def test_erasure_reaches_requests_and_notifications_of_steps(
    sequences: SequenceBench, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, *, is_meanwhile: bool
) -> None:
    """Also of steps that run after the erasure has searched everything and before it writes."""
    await sequences.people(ANN, BOB, name="Somebody")
    endpoint = await receiver.add(*STEPS_ONLY)
    notify = {"to": "team@example.com", "subject": "Call {{ email }}", "text": "A new order."}
    steps = (a_request(endpoint), {"id": "team", "notify": notify}, a_wait())
    await sequences.start(*steps, trigger={"event": "order.placed"})
    for email in (ANN, BOB):
        await happen(sequences, "order.placed", email, properties=f'{{"street": "{email}"}}')
    await sequences.watch()
    if is_meanwhile:
        write = sequences.database.write

        @asynccontextmanager
        async def write_after_steps() -> AsyncIterator[Transaction]:
            monkeypatch.undo()
            await sequences.run()
            async with write() as tx:
                yield tx

        monkeypatch.setattr(sequences.database, "write", write_after_steps)
    else:
        await sequences.run()
    await erase(sequences.database, sequences.clock, DEFAULT_TENANT, ANN, actor=ACTOR)
    bodies = await receiver.bodies()
    assert ANN not in str(bodies)
    assert [body["metadata"]["event"] for body in bodies if body["contact"]] == [{"street": BOB}]
    await sequences.send()
    assert len(sequences.provider.messages) == 1  # The notification about the erased contact is cancelled.
    async with sequences.database.read() as tx:
        rows = await tx.execute(select(messages.c.payload, messages.c.subject))
    assert [ANN in f"{row.payload} {row.subject}" for row in rows] == [False, False]


async def test_step_whose_webhook_is_off_fails_and_can_be_retried(sequences: SequenceBench, receiver: Receiver) -> None:
    await sequences.people(ANN, BOB)
    endpoint = await receiver.add(*STEPS_ONLY)
    await receiver.add("sequence.failed")
    key = await sequences.start(a_request(endpoint), an_email())
    await receiver.turn(endpoint, on=False)
    await sequences.enrol(key, ANN, BOB)
    await sequences.run()
    assert {each.failure for each in await sequences.enrolments(key)} == {
        "The webhook of the step is turned off. Turn it on, then retry the step."
    }
    enrolments = sequences.engine.sequences.enrolments
    await enrolments.retry(DEFAULT_TENANT, key, email=BOB, actor=ACTOR, skips=True)
    await receiver.turn(endpoint, on=True)
    await enrolments.retry(DEFAULT_TENANT, key, email=ANN, actor=ACTOR, skips=False)
    await sequences.run()
    found = sorted((body["type"], body["contact"]["email"]) for body in await receiver.bodies())
    assert found == [("sequence.failed", ANN), ("sequence.failed", BOB), ("sequence.webhook", ANN)]
    assert sorted(await sequences.recipients()) == [ANN, BOB]


async def test_webhook_of_another_tenant_is_unknown(sequences: SequenceBench, receiver: Receiver) -> None:
    endpoint = await receiver.add(*STEPS_ONLY)
    await receiver.endpoints.remove(endpoint.webhook_id, tenant_id=DEFAULT_TENANT, actor=ACTOR)
    with pytest.raises(InvalidSequence, match="there is no webhook"):
        await sequences.start(a_request(endpoint))


async def test_webhooks_get_events_of_people_in_sequences(sequences: SequenceBench, receiver: Receiver) -> None:
    await sequences.people(ANN, BOB)
    key = await sequences.start(an_email(), entry={"tag": "vip"})
    await receiver.add()
    await sequences.enrol(key, BOB)  # Does not match the entry filter.
    await sequences.run()
    published = await sequences.publish(key, an_email(), a_wait(), an_email("last"))
    assert published.enrolled == 0
    await sequences.enrol(key, ANN)
    await sequences.run()
    await sequences.engine.sequences.enrolments.remove(DEFAULT_TENANT, key, ANN, actor=ACTOR)
    found = [body for body in await receiver.bodies() if body["type"].startswith("sequence.")]
    facts = {body["type"]: (body["contact"]["email"], body["metadata"].get("step")) for body in found}
    assert len(found) == len(facts)
    assert facts == {
        "sequence.entered": (ANN, None),
        "sequence.step": (ANN, "first"),
        "sequence.ended": (ANN, "pause"),
    }
    assert [body["metadata"].get("reason") for body in found if body["type"] == "sequence.ended"] == ["removed"]
