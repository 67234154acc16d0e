"""The Python client against a real server on a socket."""

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mailwright.domain.clock import ManualClock
from mailwright.storage.database import Database
from mailwright.web.app import create_app
from mailwright_client import AsyncClient, Client, Invalid, NotFound, Unauthorized, models
from tests.api import an_engine, on_a_socket

MESSAGE = models.SendRequest(to="ada@example.com", subject="Hello", html="<p>Hello</p>")
HTML = '<p>Hello {{ name }}</p><a href="{{ unsubscribe_url }}">Leave</a>'


@dataclass
class Served:
    url: str
    key: str


@pytest.fixture
async def served(database: Database, clock: ManualClock) -> AsyncIterator[Served]:
    engine = an_engine(database, clock)
    async with on_a_socket(create_app(engine)) as url:
        yield Served(url, await engine.keys.create(1))


@pytest.fixture
async def client(served: Served) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(served.url, served.key) as client:
        yield client


async def test_message_is_sent_found_and_listed(client: AsyncClient) -> None:
    first = await client.email.send(MESSAGE)
    batch = await client.email.send_batch(models.BatchRequest(messages=[MESSAGE, MESSAGE]))
    assert [each.status for each in batch.results if isinstance(each, models.AcceptedItemResponse)] == ["PENDING"] * 2
    found = await client.email.get(first.outbox_id)
    assert (found.to, found.status, found.created_at.tzinfo is not None) == ("ada@example.com", "PENDING", True)
    page = await client.email.list(limit=2, to="ada@example.com")
    assert (len(page.messages), page.next_cursor is not None) == (2, True)
    assert len([each async for each in client.email.list_all(limit=2)]) == 3
    [action] = (await client.email.explain(first.outbox_id)).actions
    assert (action.do, action.path, action.body) == ("cancel", f"/v1/email/{first.outbox_id}/cancel", None)
    assert (await client.email.cancel(first.outbox_id)).status == "CANCELLED"


async def test_same_idempotency_key_is_one_message(client: AsyncClient) -> None:
    first = await client.email.send(MESSAGE, idempotency_key="order-7")
    again = await client.email.send(MESSAGE, idempotency_key="order-7")
    assert first.outbox_id == again.outbox_id


async def test_audience_and_campaign_round_trip(client: AsyncClient) -> None:
    await client.lists.create(models.ListRequest(list_key="news", name="News"))
    await client.contacts.put("ada@example.com", models.ContactRequest(name="Ada"))
    joined = await client.lists.subscribe("news", models.SubscribeRequest(email="ada@example.com"))
    assert joined.email == "ada@example.com"
    await client.segments.create(models.SegmentRequest(segment_key="vips", filter={"tag": "vip"}))
    assert [each.segment_key for each in (await client.segments.list()).segments] == ["vips"]
    await client.templates.write("welcome", models.TemplateRequest(subject="Hi", html=HTML))
    assert (await client.templates.get("welcome")).version == 1
    content = models.CampaignContent(subject="News", body=HTML)
    made = await client.campaigns.create(models.CampaignRequest(name="News", content=content, lists=["news"]))
    assert (await client.campaigns.preflight(made.campaign_id)).planned == 1
    assert (await client.campaigns.start(made.campaign_id)).status == "READY"
    assert [each.campaign_id for each in (await client.campaigns.list()).campaigns] == [made.campaign_id]
    await client.forecast.get(days=1)
    assert (await client.campaigns.report_csv(made.campaign_id)).startswith(b"email,")


async def test_contacts_are_imported_suppressed_and_erased(client: AsyncClient) -> None:
    begun = await client.imports.begin(b"email\nada@example.com\n", tag=["vip"])
    while (await client.imports.get(begun.import_id)).finished_at is None:
        await asyncio.sleep(0.01)
    assert [each.email async for each in client.contacts.list_all()] == ["ada@example.com"]
    await client.suppressions.add(models.SuppressionRequest(email="ada@example.com"))
    assert len((await client.suppressions.list()).suppressions) == 1
    await client.suppressions.remove("ada@example.com")
    await client.contacts.erase("ada@example.com")


async def test_webhooks_are_created_and_removed(client: AsyncClient) -> None:
    made = await client.webhooks.create(models.WebhookRequest(url="https://example.com/hook", types=["bounce"]))
    assert made.secret.startswith("whsec_")
    delivery = await client.webhooks.test(made.webhook_id)
    assert [each.delivery_id async for each in client.webhooks.list_deliveries_all(made.webhook_id)] == [
        delivery.delivery_id
    ]
    await client.webhooks.remove(made.webhook_id)
    assert (await client.webhooks.list()).webhooks == []


async def test_errors_are_classes_with_codes_and_fields(client: AsyncClient, served: Served) -> None:
    with pytest.raises(NotFound):
        await client.email.get("01a3185c-5000-7821-bce9-2b6f56f5eb18")
    with pytest.raises(Invalid) as invalid:
        await client.email.send(models.SendRequest(to="nobody", subject="Hello", html="<p>Hello</p>"))
    assert invalid.value.errors[0].field == "to"
    async with AsyncClient(served.url, "mw_wrong") as stranger:
        with pytest.raises(Unauthorized) as refused:
            await stranger.email.list()
    assert refused.value.code == "UNAUTHORIZED"


def test_unknown_field_is_refused_before_sending() -> None:
    with pytest.raises(TypeError, match="colour"):
        models.SendRequest(to="ada@example.com", subject="Hello", text="Hello", colour="red")  # type: ignore[call-arg]


async def test_synchronous_client_has_the_same_methods(served: Served) -> None:
    def work() -> tuple[str, int]:
        with Client(served.url, served.key) as client:
            accepted = client.email.send(MESSAGE)
            return client.email.get(accepted.outbox_id).status, len(list(client.email.list_all(limit=1)))

    assert await asyncio.to_thread(work) == ("PENDING", 1)


async def test_examples_in_the_guide_run(
    served: Served, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "client.md").read_text(encoding="utf-8")
    waits, does_not, *_settings = re.findall(r"^```python\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    monkeypatch.setenv("KEY", served.key)
    names: dict[str, Any] = {}
    here = waits.replace("http://127.0.0.1:8025", served.url)
    await asyncio.to_thread(exec, compile(here, "docs/client.md", "exec"), names)
    assert capsys.readouterr().out.startswith("PENDING []")
    exec(compile(does_not, "docs/client.md", "exec"), names)
    assert len(await names["welcome"]("grace@example.com")) == 36
