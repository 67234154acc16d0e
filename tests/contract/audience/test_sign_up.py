"""Public sign-up forms, on both engines: people can subscribe, and nobody learns who is subscribed."""

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import select

from mailwright.audience import lists, suppressions
from mailwright.audience.double_opt_in import RESEND_INTERVAL
from mailwright.audience.sign_up import PER_HOUR, SignUpRequest, SignUpResult, SignUpService
from mailwright.audience.status import ContactStatusService
from mailwright.domain.clock import HOUR, SECOND, ManualClock
from mailwright.storage.database import Database
from mailwright.storage.tables import contacts, counters, messages, subscriptions
from tests.api import Api, an_api, proof_of_work

pytestmark = pytest.mark.usefixtures("quick_proof")

ADA = "ada@example.com"


@pytest.fixture
async def api(database: Database, clock: ManualClock) -> AsyncIterator[Api]:
    await lists.create(database, clock, 1, "open", name="Open & <free>", description="What is new.")
    await lists.create(database, clock, 1, "asks", requires_confirmation=True)
    await lists.create(database, clock, 1, "secret", is_public=False)
    async with an_api(database, clock) as api:
        yield api


async def sign_up(api: Api, list_key: str, email: str = ADA, **fields: str) -> Any:
    proof = await proof_of_work(api.anonymous, f"/subscribe/{list_key}")
    return await api.anonymous.post(f"/subscribe/{list_key}", data={"email": email, **proof, **fields})


async def subscribers(api: Api, list_key: str) -> list[str]:
    on = (subscriptions.c.list_key == list_key, subscriptions.c.is_pending.is_(False))
    query = select(contacts.c.email).join(subscriptions, subscriptions.c.contact_key == contacts.c.id)
    async with api.engine.database.read() as tx:
        rows = await tx.execute(query.where(*on, subscriptions.c.unsubscribed_at.is_(None)))
    return [row.email for row in rows]


async def sent_emails(api: Api) -> list[str]:
    async with api.engine.database.read() as tx:
        return [row.to_email for row in await tx.execute(select(messages.c.to_email).order_by(messages.c.id))]


async def test_list_without_double_opt_in_is_subscribed_at_once(api: Api) -> None:
    form = await api.anonymous.get("/subscribe/open")
    assert form.status_code == 200
    assert "Open &amp; &lt;free&gt;" in form.text
    response = await sign_up(api, "open", " Ada@Example.com ")
    assert (response.status_code, await subscribers(api, "open"), await sent_emails(api)) == (200, [ADA], [])


async def test_sign_up_without_proof_of_work_subscribes_nobody(api: Api, clock: ManualClock) -> None:
    """A visitor without scripts presses the button of a second page; a program is refused."""
    form = await api.anonymous.get("/subscribe/open")
    assert "data-challenge=" in form.text
    before = await api.stored()
    program = await api.anonymous.post("/subscribe/open", data={"email": ADA}, headers={"Accept": "application/json"})
    assert (program.status_code, program.json()["code"]) == (403, "PROOF_OF_WORK_REQUIRED")
    elsewhere = await proof_of_work(api.anonymous, "/subscribe/asks")
    shown = await api.anonymous.post("/subscribe/open", data={"email": ADA, **elsewhere})
    assert (shown.status_code, shown.text.count("<button"), await api.stored()) == (200, 1, before)
    hidden = dict(re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', shown.text))
    clock.advance(5 * SECOND)
    assert (await api.anonymous.post("/subscribe/open", data=hidden)).status_code == 200
    assert await subscribers(api, "open") == [ADA]
    proof = await proof_of_work(api.anonymous, "/subscribe/open")
    for email, expected in (("b@example.com", [ADA, "b@example.com"]), ("c@example.com", [ADA, "b@example.com"])):
        await api.anonymous.post("/subscribe/open", data={"email": email, **proof})  # It works once.
        assert sorted(await subscribers(api, "open")) == expected


async def test_double_opt_in_list_needs_the_confirmation_link(api: Api) -> None:
    response = await sign_up(api, "asks", lang="ru")
    assert "Проверьте почту" in response.text
    assert (await subscribers(api, "asks"), await sent_emails(api)) == ([], [ADA])
    async with api.engine.database.read() as tx:
        [message] = await tx.execute(select(messages))
        [contact] = await tx.execute(select(contacts))
    assert (contact.locale, "Подтвердите" in message.payload or "одтверд" in message.payload) == ("ru", True)


@pytest.mark.parametrize("list_key", ["open", "asks"])
async def test_response_does_not_reveal_subscribers(api: Api, list_key: str) -> None:
    statuses = ContactStatusService(api.engine.database, api.engine.clock)
    await statuses.subscribe(1, "on@example.com", list_key, source="test")
    await statuses.subscribe(1, "left@example.com", list_key, source="test")
    await statuses.unsubscribe_by_link(1, "left@example.com", list_key, source="test")
    await suppressions.add(
        api.engine.database, api.engine.clock, 1, "bounced@example.com", reason="bounced", source="test"
    )
    contacts_ = ("on@example.com", "left@example.com", "bounced@example.com", "new@example.com", "on@example.com")
    responses = [await sign_up(api, list_key, email) for email in contacts_]
    assert len({(response.status_code, response.text) for response in responses}) == 1
    trapped = await sign_up(api, list_key, "robot@example.com", website="http://spam.example")
    assert trapped.text == responses[0].text


async def test_unsubscribed_contact_always_has_to_confirm(api: Api) -> None:
    statuses = ContactStatusService(api.engine.database, api.engine.clock)
    await statuses.subscribe(1, ADA, "open", source="test")
    await statuses.unsubscribe_by_link(1, ADA, "open", source="test")
    await sign_up(api, "open")
    assert (await subscribers(api, "open"), await sent_emails(api)) == ([], [ADA])
    assert await (await api.engine.double_opt_in()).confirm(1, ADA, "open")
    assert await subscribers(api, "open") == [ADA]


@pytest.mark.parametrize("is_known", [False, True])
async def test_parallel_sign_ups_send_one_email(api: Api, is_known: bool) -> None:
    if is_known:
        await sign_up(api, "open")
    responses = await asyncio.gather(*(sign_up(api, "asks") for _ in range(6)))
    assert [response.status_code for response in responses] == [200] * 6
    assert (await subscribers(api, "asks"), await sent_emails(api)) == ([], [ADA])


async def test_sign_up_during_confirmation_stays_confirmed(api: Api, clock: ManualClock) -> None:
    await sign_up(api, "asks")
    clock.advance(RESEND_INTERVAL)
    double_opt_in = await api.engine.double_opt_in()
    await asyncio.gather(double_opt_in.confirm(1, ADA, "asks"), *(sign_up(api, "asks") for _ in range(6)))
    assert await subscribers(api, "asks") == [ADA]


async def test_filled_honeypot_subscribes_nobody(api: Api) -> None:
    before = await api.stored()
    response = await sign_up(api, "open", website="http://spam.example")
    assert (response.status_code, await api.stored()) == (200, before)


@pytest.mark.parametrize("email", ["", "nobody", "a@b@c", "x" * 300 + "@example.com", "<script>@example.com"])
async def test_invalid_address_is_shown_with_the_reason(api: Api, email: str) -> None:
    before = await api.stored()
    response = await sign_up(api, "open", email)
    assert (response.status_code, await api.stored()) == (422, before)
    assert "Please enter a valid email address." in response.text
    assert "<script>" not in response.text


async def test_sign_ups_are_limited_per_network_and_hour(api: Api, clock: ManualClock) -> None:
    for number in range(PER_HOUR):
        assert (await sign_up(api, "open", f"reader{number}@example.com")).status_code == 200
    response = await sign_up(api, "open")
    assert (response.status_code, response.headers["Retry-After"]) == (429, "3600")
    assert ADA not in await subscribers(api, "open")
    clock.advance(HOUR)
    assert (await sign_up(api, "open")).status_code == 200


async def test_network_addresses_are_not_stored(database: Database, clock: ManualClock, api: Api) -> None:
    desk = SignUpService(database, clock, await api.engine.double_opt_in(), "s" * 32)
    homes = [f"2001:db8::{number:x}" for number in range(1, PER_HOUR + 1)]
    for number, home in enumerate(homes):
        assert await desk.submit(1, "open", SignUpRequest(f"home{number}@example.com", home)) is SignUpResult.ACCEPTED
    assert await desk.submit(1, "open", SignUpRequest(ADA, "2001:db8::ffff")) is SignUpResult.RATE_LIMITED
    assert await desk.submit(1, "open", SignUpRequest(ADA, "2001:db8:0:1::1")) is SignUpResult.ACCEPTED
    async with database.read() as tx:
        assert not any("2001" in row.name for row in await tx.execute(select(counters.c.name)))


@pytest.mark.parametrize("address", ["/subscribe/secret", "/subscribe/never", "/subscribe/open?tenant=nobody"])
async def test_private_list_has_no_sign_up_form(api: Api, address: str) -> None:
    assert (await api.anonymous.get(address)).status_code == 404
    assert (await api.anonymous.post(address, data={"email": ADA})).status_code == 404
    assert await subscribers(api, "secret") == []


async def test_form_can_be_embedded_and_redirects_nowhere(api: Api) -> None:
    form = await api.anonymous.get("/subscribe/open")
    rules = form.headers["Content-Security-Policy"]
    assert "frame-ancestors *" in rules
    assert "default-src 'none'" in rules
    elsewhere = {"Origin": "https://shop.example"}
    response = await api.anonymous.post(
        "/subscribe/open?next=https://evil.example",
        data={"email": ADA, **await proof_of_work(api.anonymous, "/subscribe/open")},
        headers=elsewhere,
    )
    assert (response.status_code, "evil" in response.text, response.cookies) == (200, False, form.cookies)
    assert not form.cookies


async def test_sign_up_returns_json_on_request(api: Api) -> None:
    asking = {"Accept": "application/json"}
    proof = await proof_of_work(api.anonymous, "/subscribe/open")
    response = await api.anonymous.post("/subscribe/open", data={"email": ADA, **proof}, headers=asking)
    assert response.json() == {"ok": True, "listKey": "open"}
    proof = await proof_of_work(api.anonymous, "/subscribe/open")
    refused = await api.anonymous.post("/subscribe/open", data={"email": "nobody", **proof}, headers=asking)
    assert (refused.status_code, refused.json()["code"]) == (422, "INVALID_EMAIL")


async def test_list_of_another_tenant_is_found_by_tenant_name(api: Api) -> None:
    await api.stranger.post("/v1/lists", json={"listKey": "theirs"})
    assert (await api.anonymous.get("/subscribe/theirs")).status_code == 404
    form = await api.anonymous.get("/subscribe/theirs?tenant=other")
    assert 'action="theirs?tenant=other"' in form.text
    path = "/subscribe/theirs?tenant=other"
    await api.anonymous.post(path, data={"email": ADA, **await proof_of_work(api.anonymous, path)})
    assert await subscribers(api, "theirs") == [ADA]
