"""Outgoing webhooks from the command line: added, tested, dispatched, redelivered and removed."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.acceptance.commands import Commands
from tests.api import socket_client
from tests.standins.http import Answer, HttpStandIn

MAIL = {"to": "ada@example.com", "subject": "Hello", "html": "<p>Hello</p>"}


@pytest.fixture
async def receiver() -> AsyncIterator[HttpStandIn]:
    async with HttpStandIn() as receiver:
        yield receiver


@pytest.fixture
async def here(tmp_path: Path) -> Commands:
    commands = Commands(tmp_path, {"MAILWRIGHT_WEBHOOK_PRIVATE": "true"})
    await commands.ok("db", "upgrade")
    return commands


async def test_webhook_is_tested_listed_redelivered_and_removed(here: Commands, receiver: HttpStandIn) -> None:
    added = await here.ok("webhook", "create", f"{receiver.url}/hook", "--type", "bounce", "--description", "Our shop")
    webhook_id = added.out.strip()
    assert added.out == f"{webhook_id}\n"
    assert "whsec_" in added.err
    assert "✓ DELIVERED" in (await here.ok("webhook", "test", webhook_id)).out
    assert "Our shop" in (await here.ok("webhook", "list")).out
    shown = (await here.ok("webhook", "show", webhook_id, "--json")).json
    assert (shown["types"], shown["state"], "secret" in shown) == (["bounce"], "active", False)
    assert "bounce" in (await here.ok("webhook", "show", webhook_id)).out

    receiver.answer(Answer(500, b"broken"))
    refused = await here.run("webhook", "test", webhook_id, "--json")
    assert (refused.code, refused.json["log"][0]["answer"]) == (1, "broken")
    assert "failing" in (await here.ok("webhook", "list")).out
    receiver.forget_rules()

    [_, delivery] = (await here.ok("webhook", "deliveries", webhook_id, "--json")).json
    await here.ok("webhook", "redeliver", delivery["deliveryId"])
    [waiting] = (
        await here.ok("webhook", "deliveries", webhook_id, "--status", "pending", "--limit", "1", "--json")
    ).json
    assert waiting["status"] == "PENDING"
    assert "500 broken" in (await here.ok("webhook", "deliveries", webhook_id)).out
    assert (await here.ok("webhook", "rotate-secret", webhook_id)).out.startswith("whsec_")
    assert "Resumed" in (await here.ok("webhook", "resume", webhook_id)).out
    await here.ok("webhook", "delete", webhook_id)
    assert (await here.ok("webhook", "list", "--json")).json == []
    assert (await here.run("webhook", "show", webhook_id)).code != 0


async def test_running_service_dispatches_events(here: Commands, receiver: HttpStandIn) -> None:
    await here.ok("webhook", "create", f"{receiver.url}/hook")
    key = (await here.ok("key", "create", "--tenant", "default")).out.strip()
    async with here.service("serve", "--port", "0") as service:
        address = (await service.logged("api_started"))["address"]
        async with socket_client(address, headers={"Authorization": f"Bearer {key}"}) as client:
            accepted = await client.post("/v1/email/send", json=MAIL)
        async with asyncio.timeout(60):
            [request] = await receiver.received(1)
    assert (request.json()["type"], request.json()["message"]["outboxId"]) == ("SENT", accepted.json()["outboxId"])
