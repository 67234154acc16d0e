"""Messages to a list count towards what a person may send without an approval, wherever they are accepted."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from sqlalchemy import func, select

from mailwright.access.api_keys import Caller
from mailwright.access.roles import Role
from mailwright.audience import lists
from mailwright.domain.clock import DAY, MINUTE, ManualClock
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import CONSOLE
from mailwright.sources.api.messages import RequestContext
from mailwright.sources.campaigns.approval_gate import AwaitsApproval
from mailwright.storage.database import Database
from mailwright.storage.tables import messages, unapproved_sends
from tests.api import Api, a_request, an_api, client_of
from tests.builders import DEFAULT_TENANT
from tests.contract.api.test_retention import signed_in_headers
from tests.submission import a_dialogue, a_submission

pytestmark = pytest.mark.promise("second-person")

LIMIT = 3


@pytest.fixture
async def api(database: Database, clock: ManualClock) -> AsyncIterator[Api]:
    async with an_api(database, clock) as api:
        await tenants.change(database, tenants.DEFAULT, actor="admin", clock=clock, approval_over=LIMIT)
        await lists.create(database, clock, DEFAULT_TENANT, "news", name="News", actor="admin")
        yield api


async def accepted(api: Api) -> int:
    async with api.engine.database.read() as tx:
        return int((await tx.execute(select(func.count()).select_from(messages)))[0][0])


def bulk(number: int = 1) -> dict[str, Any]:
    return a_request(to=f"reader{number}@example.com", listKey="news")


def a_batch(count: int, **changes: Any) -> dict[str, Any]:
    return {"messages": [{**a_request(to=f"reader{number}@example.com"), **changes} for number in range(count)]}


def require_refusal(answer: httpx.Response) -> None:
    assert (answer.status_code, answer.json()["code"]) == (409, "AWAITS_APPROVAL"), answer.text


async def test_session_cannot_send_a_large_batch(api: Api) -> None:
    headers = await signed_in_headers(api, Role.EDITOR)
    async with client_of(api.app) as client:
        for changes in ({}, {"listKey": "news"}):
            answer = await client.post("/v1/email/batch", json=a_batch(LIMIT + 1, **changes), headers=headers)
            require_refusal(answer)
            assert "Send them as a campaign" in answer.json()["detail"]
        assert await accepted(api) == 0
        fits = await client.post("/v1/email/batch", json=a_batch(LIMIT), headers=headers)
        assert fits.status_code == 202
        require_refusal(await client.post("/v1/email/send", json=a_request(), headers=headers))
        raw = "From: shop@example.com\r\nTo: ada@example.com\r\nSubject: Hello\r\n\r\nHello\r\n"
        raw_headers = {**headers, "Content-Type": "message/rfc822"}
        require_refusal(await client.post("/v1/email/raw", content=raw, headers=raw_headers))
    assert await accepted(api) == LIMIT


async def test_keys_send_transactional_messages_without_limit(api: Api) -> None:
    answer = await api.client.post("/v1/email/batch", json=a_batch(LIMIT + 1))
    assert [each["status"] for each in answer.json()["results"]] == ["PENDING"] * (LIMIT + 1), answer.text


async def test_bulk_of_a_key_counts_for_a_day(api: Api, clock: ManualClock) -> None:
    for number in range(LIMIT):
        clock.advance(MINUTE)
        assert (await api.client.post("/v1/email/send", json=bulk(number))).status_code == 202
    require_refusal(await api.client.post("/v1/email/send", json=bulk(9)))
    mixed = {"messages": [bulk(7), a_request()]}
    answer = (await api.client.post("/v1/email/batch", json=mixed)).json()["results"]
    assert [each.get("error", {}).get("code") for each in answer] == ["AWAITS_APPROVAL", None]
    async with api.engine.database.read() as tx:
        assert len(await tx.execute(select(unapproved_sends))) == 1  # One row for an hour.
    clock.advance(DAY)
    assert (await api.client.post("/v1/email/send", json=bulk(9))).status_code == 202


@pytest.mark.both_engines
async def test_replay_is_not_counted_again(api: Api) -> None:
    for number in range(LIMIT):
        key = {"Idempotency-Key": f"key-{number}"}
        assert (await api.client.post("/v1/email/send", json=bulk(number), headers=key)).status_code == 202
    again = await api.client.post("/v1/email/send", json=bulk(1), headers={"Idempotency-Key": "key-1"})
    assert (again.status_code, again.headers["Idempotent-Replay"]) == (200, "true")


async def test_campaigns_and_messages_count_together(api: Api) -> None:
    """The owner of a key and their session are one person."""
    headers = await signed_in_headers(api, Role.EDITOR)
    key = await api.engine.keys.create(DEFAULT_TENANT, "script", owner="editor")
    async with client_of(api.app, key) as client:
        assert (await client.post("/v1/email/batch", json=a_batch(LIMIT, listKey="news"))).status_code == 202
    async with client_of(api.app) as client:
        require_refusal(await client.post("/v1/email/send", json=a_request(), headers=headers))


async def test_raw_email_and_smtp_count(api: Api) -> None:
    recipients = ", ".join(f"reader{number}@example.com" for number in range(LIMIT + 1))
    email = f"From: shop@example.com\r\nTo: {recipients}\r\nSubject: Hi\r\nX-Mailwright-List: news\r\n\r\nHi\r\n"
    raw = await api.client.post("/v1/email/raw", content=email, headers={"Content-Type": "message/rfc822"})
    require_refusal(raw)
    async with a_submission(api.engine) as submission, a_dialogue(submission) as client:
        await client.begin(*(f"reader{number}@example.com" for number in range(LIMIT + 1)))
        reply = await client.ask(f"{email}.\r\n")
        assert reply.startswith("554")
        assert "Without an approval" in reply
    assert await accepted(api) == 0


async def test_command_line_counts_as_the_console(api: Api) -> None:
    caller = Caller(DEFAULT_TENANT, "default", actor=CONSOLE)
    for number in range(LIMIT):
        await api.engine.api_messages.send(RequestContext(caller, f"request-{number}"), bulk(number))
    with pytest.raises(AwaitsApproval, match="has already reached 3"):
        await api.engine.api_messages.send(RequestContext(caller, "request-9"), bulk(9))


async def test_drop_in_api_counts(api: Api) -> None:
    email = {"From": "shop@example.com", "Subject": "Hi", "TextBody": "Hi", "MessageStream": "news"}
    batch = [{**email, "To": f"reader{number}@example.com"} for number in range(LIMIT + 1)]
    headers = {"X-Postmark-Server-Token": api.key}
    answer = await api.anonymous.post("/email/batch", json=batch, headers=headers)
    assert answer.status_code == 200, answer.text
    assert all(each["ErrorCode"] for each in answer.json())
    assert await accepted(api) == 0


async def test_concurrent_requests_do_not_pass_the_limit_together(api: Api) -> None:
    """The count and its check are one transaction, in which other requests of the tenant wait."""
    answers = await asyncio.gather(*[api.client.post("/v1/email/send", json=bulk(number)) for number in range(12)])
    assert sorted(each.status_code for each in answers) == [202] * LIMIT + [409] * (12 - LIMIT)
    assert await accepted(api) == LIMIT
