"""Double opt-in, on both engines: nobody receives email of such a list before they have confirmed."""

import re
from typing import Any

import orjson
import pytest
from sqlalchemy import select

from mailwright.app.system_emails import render_branded
from mailwright.app.wiring import PublicPages
from mailwright.audience import contacts, lists, personal_data, suppression_selection, suppressions
from mailwright.audience.double_opt_in import RESEND_INTERVAL, ConfirmationLinks, DoubleOptIn
from mailwright.audience.segments import audience
from mailwright.audience.status import ContactStatusService
from mailwright.domain.clock import ManualClock
from mailwright.domain.unsubscribe_tokens import UnsubscribeTokens
from mailwright.outbox.audit_log import list_entries
from mailwright.storage.database import Database
from mailwright.storage.tables import contacts as contacts_table
from mailwright.storage.tables import deliveries, messages
from tests.api import an_api

ADA = "ada@example.com"
SECRET = "a secret of sixteen letters or more"
TOKENS = UnsubscribeTokens(SECRET)


@pytest.fixture
async def double_opt_in(database: Database, clock: ManualClock) -> DoubleOptIn:
    await lists.create(database, clock, 1, "news", name="News & <more>", requires_confirmation=True)
    await lists.create(database, clock, 1, "open")
    return DoubleOptIn(database, clock, ConfirmationLinks("http://mail.example", TOKENS), render_branded)


async def subscribers(database: Database, clock: ManualClock, list_key: str = "news") -> list[str]:
    query = select(contacts_table.c.email).where(audience(1, [list_key], None, clock.now()))
    async with database.read() as tx:
        return [row.email for row in await tx.execute(query)]


async def history_of_ada(database: Database) -> list[str]:
    return [each.what for each in await personal_data.load_history(database, 1, ADA)]


async def confirmation_emails(database: Database) -> list[Any]:
    async with database.read() as tx:
        rows = await tx.execute(select(messages).order_by(messages.c.id))
    return list(rows)


@pytest.mark.promise("opt-in")
async def test_confirmation_completes_the_subscription(
    database: Database, clock: ManualClock, double_opt_in: DoubleOptIn
) -> None:
    assert await double_opt_in.subscribe(1, "Ada@Example.com", "news", source="form")
    assert await subscribers(database, clock) == []
    assert "was asked to confirm" in await history_of_ada(database)
    [message] = await confirmation_emails(database)
    payload = orjson.loads(message.payload)
    assert (message.to_email, message.list_key, message.is_bulk) == (ADA, None, False)
    assert "News & <more>" in message.subject
    assert "News &amp; &lt;more&gt;" in payload["html"]
    token = re.search(r"http://mail\.example/confirm\?token=([\w.-]+)", payload["text"])
    assert token is not None
    assert TOKENS.for_confirmation().parse(token[1]) == (ADA, "news")
    clock.advance(5)
    assert await double_opt_in.confirm(1, ADA, "news")
    assert (await history_of_ada(database))[:2] == ["subscribed to a list", "confirmed"]
    assert await subscribers(database, clock) == [ADA]
    # A subscriber is not asked again, and an old link does not undo a later unsubscribe.
    assert not await double_opt_in.subscribe(1, ADA, "news", source="form")
    assert len(await confirmation_emails(database)) == 1
    await ContactStatusService(database, clock).unsubscribe_by_link(1, ADA, "news", source="link")
    assert not await double_opt_in.confirm(1, ADA, "news")
    assert await subscribers(database, clock) == []


@pytest.mark.promise("opt-in")
async def test_confirmation_undoes_unsubscribe_but_request_does_not(
    database: Database, clock: ManualClock, double_opt_in: DoubleOptIn
) -> None:
    statuses = ContactStatusService(database, clock)
    await statuses.subscribe(1, ADA, "news", source="form")
    await statuses.unsubscribe_by_link(1, ADA, "news", source="link")
    assert await double_opt_in.subscribe(1, ADA, "news", source="form")
    assert await suppressions.is_suppressed(database, 1, ADA, "news")
    assert await double_opt_in.confirm(1, ADA, "news")
    assert not await suppressions.is_suppressed(database, 1, ADA, "news")
    assert await subscribers(database, clock) == [ADA]


async def test_repeated_requests_send_one_confirmation_email(
    database: Database, clock: ManualClock, double_opt_in: DoubleOptIn
) -> None:
    for _ in range(20):
        await double_opt_in.subscribe(1, ADA, "news", source="form")
        clock.advance(RESEND_INTERVAL // 20)
    assert len(await confirmation_emails(database)) == 1
    await double_opt_in.subscribe(1, ADA, "news", source="form")
    assert len(await confirmation_emails(database)) == 2


@pytest.mark.parametrize("list_key", ["news", "open"])
async def test_subscription_changes_by_users_are_in_audit_log(
    database: Database, clock: ManualClock, double_opt_in: DoubleOptIn, list_key: str
) -> None:
    await double_opt_in.subscribe(1, "Ada@Example.com", list_key, source="admin", actor="admin")
    async with an_api(database, clock, public_pages=PublicPages(secret=SECRET)) as api:
        await api.client.post(f"/v1/lists/{list_key}/subscribe", json={"email": ADA})
        await api.client.post(f"/v1/lists/{list_key}/subscribe", json={"email": ADA, "confirmed": True})
        await api.client.post(f"/v1/lists/{list_key}/unsubscribe", json={"email": ADA})
    noted = await list_entries(database, tenant_id=1, limit=10, subject=ADA)
    assert [(entry.actor, entry.action, entry.detail) for entry in reversed(noted)] == [
        ("admin", "contact.subscribe", {"listKey": list_key}),
        ("api", "contact.subscribe", {"listKey": list_key}),
        ("api", "contact.subscribe", {"listKey": list_key}),
        ("api", "contact.unsubscribe", {"listKey": list_key}),
    ]


async def test_list_without_double_opt_in_is_subscribed_at_once(
    database: Database, clock: ManualClock, double_opt_in: DoubleOptIn
) -> None:
    assert not await double_opt_in.subscribe(1, ADA, "open", source="form")
    assert await subscribers(database, clock, "open") == [ADA]
    assert await confirmation_emails(database) == []


@pytest.mark.parametrize(("locale", "word"), [("ru", "Подтвердите"), ("pt-BR", "Confirme"), ("de", "Confirm")])
async def test_confirmation_email_uses_the_contacts_language(
    database: Database, clock: ManualClock, double_opt_in: DoubleOptIn, locale: str, word: str
) -> None:
    await contacts.put(database, clock, 1, ADA, contacts.ContactChange(locale=locale))
    await double_opt_in.subscribe(1, ADA, "news", source="form")
    assert word in (await confirmation_emails(database))[0].subject


async def test_only_the_button_confirms(database: Database, clock: ManualClock, double_opt_in: DoubleOptIn) -> None:
    async with an_api(database, clock, public_pages=PublicPages(secret=SECRET)) as api:
        response = await api.client.post("/v1/lists/news/subscribe", json={"email": ADA})
        assert response.json()["lists"][0]["isPending"] is True
        link = f"/confirm?token={TOKENS.for_confirmation().make(ADA, 'news')}"
        for method in ("HEAD", "GET"):
            assert (await api.anonymous.request(method, link)).status_code == 200
        assert await subscribers(database, clock) == []
        for other in (TOKENS.make(ADA, "news"), TOKENS.for_resubscribe().make(ADA, "news"), "made.up"):
            assert (await api.anonymous.post(f"/confirm?token={other}")).status_code == 400
        assert (await api.anonymous.get(f"/unsubscribe?{link.partition('?')[2]}")).status_code == 400
        page = await api.anonymous.post(link, headers={"Accept-Language": "pt"})
        assert (page.status_code, "Inscrição confirmada" in page.text) == (200, True)
        assert ADA not in page.text
        assert await subscribers(database, clock) == [ADA]
        for language, words in (("en", "already receives"), ("ru", "уже приходят"), ("pt", "já recebe")):
            again = await api.anonymous.get(link, headers={"Accept-Language": language})
            assert (words in again.text, "<button" in again.text) == (True, False)
        await ContactStatusService(database, clock).bounce(1, ADA, source="ses")
        expected = await api.anonymous.post(link, headers={"Accept": "application/json"})
        assert expected.status_code == 409
        direct = await api.client.post("/v1/lists/news/subscribe", json={"email": "b@example.com", "confirmed": True})
        assert direct.json()["lists"][0]["isPending"] is False


@pytest.mark.parametrize(
    ("reason", "scope", "is_ended"),
    [
        ("unsubscribed", "*", True),
        ("unsubscribed", "news", True),
        ("unsubscribed", "open", False),
        ("complaint", "*", True),
        ("bounce", "*", False),
    ],
)
async def test_suppression_by_a_program_ends_the_request(
    database: Database, clock: ManualClock, double_opt_in: DoubleOptIn, reason: str, scope: str, is_ended: bool
) -> None:
    await double_opt_in.subscribe(1, ADA, "news", source="form")
    await suppression_selection.add_each(database, clock, 1, [ADA], reason=reason, actor="api", scope=scope)
    async with database.read() as tx:
        [delivery] = await tx.execute(select(deliveries.c.status))
    assert delivery.status == ("CANCELLED" if is_ended else "PENDING")
    await suppressions.remove(database, 1, ADA)
    assert await double_opt_in.confirm(1, ADA, "news") != is_ended
