"""Erasures while a message has no result, on both engines: everything ends at once, and the data is deleted later."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from mailwright.access.roles import Role
from mailwright.app.wiring import PublicPages
from mailwright.audience import contacts, erasure, lists, suppressions
from mailwright.audience.contact_events import list_latest
from mailwright.audience.contacts import ContactChange
from mailwright.audience.erasure import PendingErasures
from mailwright.audience.erasure_state import ErasureState, find_erasure
from mailwright.audience.importing.imports import ImportOptions, Imports
from mailwright.audience.preferences import PreferenceChoice, update_preferences
from mailwright.audience.sign_up import SignUpRequest, SignUpResult, SignUpService
from mailwright.audience.status import ContactStatusService
from mailwright.domain.clock import DAY, HOUR, MINUTE, ManualClock
from mailwright.domain.errors import NotFound
from mailwright.domain.message import Claimed
from mailwright.domain.states import OnDoubt, Status
from mailwright.domain.unsubscribe_tokens import UnsubscribeTokens
from mailwright.outbox import audit_log
from mailwright.outbox.audit import audit
from mailwright.outbox.pending_erasures import ErasurePending
from mailwright.storage.database import Database
from mailwright.storage.tables import erasures, messages, subscriptions
from mailwright.web.app import create_app
from tests.api import an_api, an_engine
from tests.builders import (
    DEFAULT_TENANT,
    FAULT,
    SENT,
    UNKNOWN,
    Bench,
    a_message,
    a_result,
    a_settler,
    a_subscriber,
    an_acceptor,
    an_in_doubt_handler,
    claims_of,
    status_of,
)
from tests.pages import HOME, PASSWORD, a_visit

ADA = "ada@example.com"


async def begun(database: Database, clock: ManualClock, **changes: Any) -> Claimed:
    """Begin to send a message to Ada."""
    await an_acceptor(database, clock).accept([a_message(to=ADA, **changes)])
    [claimed] = await claims_of(database, clock).claim(1)
    await a_settler(database, clock).exchange([], [claimed])
    return claimed


async def in_doubt(database: Database, clock: ManualClock, **changes: Any) -> Claimed:
    claimed = await begun(database, clock, **changes)
    await a_settler(database, clock).exchange([a_result(claimed, UNKNOWN, clock.now(), HOUR)], [])
    return claimed


async def erase(database: Database, clock: ManualClock) -> erasure.Erasure:
    return await erasure.erase(database, clock, DEFAULT_TENANT, ADA, actor="ada")


async def is_gone(database: Database) -> bool:
    async with database.read() as tx:
        rows = await tx.execute(select(messages.c.to_email))
        pending = await tx.execute(select(erasures.c.id))
    return not pending and ADA not in [row.to_email for row in rows]


@pytest.mark.promise("erasure-at-once")
async def test_message_in_doubt_delays_only_the_deletion(database: Database, clock: ManualClock) -> None:
    await lists.create(database, clock, DEFAULT_TENANT, "news")
    await a_subscriber(database, ADA, "news")
    claimed = await in_doubt(database, clock)
    waiting = [a_message(to=ADA), a_message(to=ADA, scheduled_at=clock.now() + DAY), a_message(to="b@example.com")]
    await an_acceptor(database, clock).accept(waiting)
    result = await erase(database, clock)
    assert (result.state, result.waits_for, result.expected_at) == ("erasing", claimed.outbox_id, clock.now() + DAY)
    found = [await status_of(database, each.outbox_id) for each in waiting]
    assert found == [Status.CANCELLED, Status.CANCELLED, Status.PENDING]
    assert await suppressions.is_suppressed(database, DEFAULT_TENANT, ADA)
    assert (await contacts.find_by_email(database, DEFAULT_TENANT, ADA)).is_deleted
    async with database.read() as tx:
        assert all(row.unsubscribed_at for row in await tx.execute(select(subscriptions.c.unsubscribed_at)))
    assert not await PendingErasures(database, clock).tick()
    assert not await is_gone(database)
    await a_settler(database, clock).exchange([a_result(claimed, SENT, clock.now())], [])
    await PendingErasures(database, clock).tick()
    assert await is_gone(database)
    [entry] = [await find_erasure(database, DEFAULT_TENANT, ADA)]
    assert entry.state is ErasureState.ERASED
    async with database.read() as tx:
        left = await suppressions.list_for_address(tx, DEFAULT_TENANT, ADA)
    assert [(each.list_key, each.source) for each in left] == [("general", "erasure")]
    entries = await audit_log.list_entries(database, tenant_id=DEFAULT_TENANT, limit=10)
    assert [(each.action, each.actor) for each in reversed(entries)] == [
        ("contact.erasing", "ada"),
        ("contact.erase", "ada"),
    ]
    assert ADA not in str(entries)
    assert (await audit(database)).ok


@pytest.mark.promise("erasure-at-once")
@pytest.mark.parametrize("is_held", [False, True])
async def test_message_in_doubt_for_a_day_is_closed_and_erased(
    database: Database, clock: ManualClock, *, is_held: bool
) -> None:
    """A worker closes the message. While sending is on hold, it does not, and the erasure does it."""
    claimed = await in_doubt(database, clock, on_doubt=OnDoubt.RESEND)
    doubts = an_in_doubt_handler(database, clock)
    await erase(database, clock)
    clock.advance(HOUR)
    if not is_held:
        await doubts.decide_due()
        assert await status_of(database, claimed.outbox_id) == Status.IN_DOUBT  # It is not sent again.
    clock.advance(DAY - HOUR - 1)
    await PendingErasures(database, clock).tick()
    assert not await is_gone(database)
    clock.advance(1)
    if not is_held:
        await doubts.decide_due()
    await PendingErasures(database, clock).tick()
    assert await is_gone(database)
    assert await status_of(database, claimed.outbox_id) == Status.CLOSED_UNKNOWN
    assert (await audit(database)).ok


@pytest.mark.promise("erasure-at-once")
async def test_killed_worker_delays_the_deletion_by_a_day(database: Database, clock: ManualClock) -> None:
    await begun(database, clock, on_doubt=OnDoubt.RESEND)
    first = await erase(database, clock)
    clock.advance(10 * MINUTE)
    doubts = an_in_doubt_handler(database, clock)
    assert await doubts.mark_lost_attempts() == 1
    await doubts.decide_due()
    assert await claims_of(database, clock).claim(10) == []
    clock.advance(DAY)
    await doubts.decide_due()
    await PendingErasures(database, clock).tick()
    assert await is_gone(database)
    assert first.expected_at is not None
    assert clock.now() <= first.expected_at + 10 * MINUTE


@pytest.mark.promise("erasure-at-once")
async def test_message_being_sent_is_not_retried(database: Database, clock: ManualClock) -> None:
    claimed = await begun(database, clock)
    await erase(database, clock)
    await a_settler(database, clock).exchange([a_result(claimed, FAULT, clock.now())], [])
    [pending] = [await find_erasure(database, DEFAULT_TENANT, ADA)]
    assert pending.state is ErasureState.ERASING
    clock.advance(HOUR)
    [again] = await claims_of(database, clock).claim(10)
    assert again.suppressed_because == "erasure"
    await claims_of(database, clock).release([again])
    await erase(database, clock)
    assert await is_gone(database)


@pytest.mark.promise("erasure-at-once")
async def test_asking_twice_is_one_request(database: Database, clock: ManualClock) -> None:
    claimed = await in_doubt(database, clock)
    first = await erase(database, clock)
    clock.advance(MINUTE)
    assert await erase(database, clock) == first
    entries = await audit_log.list_entries(database, tenant_id=DEFAULT_TENANT, limit=10)
    assert [each.action for each in entries] == ["contact.erasing"]
    await a_settler(database, clock).exchange([a_result(claimed, SENT, clock.now())], [])
    assert (await erase(database, clock)).is_finished
    with pytest.raises(NotFound):
        await erase(database, clock)


async def test_bounce_during_an_erasure_stays_suppressed(database: Database, clock: ManualClock) -> None:
    claimed = await in_doubt(database, clock)
    await erase(database, clock)
    clock.advance(MINUTE)
    await ContactStatusService(database, clock).bounce(DEFAULT_TENANT, ADA, source="ses")
    await a_settler(database, clock).exchange([a_result(claimed, SENT, clock.now())], [])
    await PendingErasures(database, clock).tick()
    async with database.read() as tx:
        left = await suppressions.list_for_address(tx, DEFAULT_TENANT, ADA)
    assert [(each.list_key, each.reason) for each in left] == [("*", "bounce"), ("general", "unsubscribed")]


def _status(bench: Bench) -> ContactStatusService:
    return ContactStatusService(bench.database, bench.clock)


CHANGES: dict[str, Callable[[Bench], Awaitable[Any]]] = {
    "put": lambda at: contacts.put(at.database, at.clock, DEFAULT_TENANT, ADA, ContactChange(name="Ada")),
    "subscribe": lambda at: _status(at).subscribe(DEFAULT_TENANT, ADA, "news", source="api"),
    "resubscribe": lambda at: _status(at).resubscribe_by_link(DEFAULT_TENANT, ADA, source="reader"),
    "activate": lambda at: _status(at).activate(DEFAULT_TENANT, ADA, source="api"),
    "suppression": lambda at: suppressions.remove(at.database, DEFAULT_TENANT, ADA),
    "preferences": lambda at: update_preferences(
        at.database, at.clock, DEFAULT_TENANT, ADA, PreferenceChoice(frozenset(), frozenset(), "pt"), source="reader"
    ),
}


@pytest.mark.promise("erasure-at-once")
@pytest.mark.parametrize("change", CHANGES)
async def test_changes_during_an_erasure_are_refused(bench: Bench, change: str) -> None:
    await lists.create(bench.database, bench.clock, DEFAULT_TENANT, "news")
    await in_doubt(bench.database, bench.clock)
    await erase(bench.database, bench.clock)
    with pytest.raises(ErasurePending, match="is being erased"):
        await CHANGES[change](bench)
    assert await suppressions.is_suppressed(bench.database, DEFAULT_TENANT, ADA)


@pytest.mark.promise("erasure-at-once")
async def test_import_and_sign_up_during_an_erasure_store_nothing(bench: Bench, tmp_path: Path) -> None:
    database, clock = bench.database, bench.clock
    await lists.create(database, clock, DEFAULT_TENANT, "news")
    claimed = await in_doubt(database, clock)
    await erase(database, clock)
    file = tmp_path / "people.csv"
    file.write_text(f"email,name\n{ADA},Ada\n")
    imports = Imports(database, clock)
    options = ImportOptions(list_key="news")
    begun_ = await imports.begin(DEFAULT_TENANT, file, options)
    async for progress in imports.run(begun_, file):
        done = progress
    assert (done.added, done.refused) == (0, 1)
    sign_ups = SignUpService(database, clock, await bench.engine.double_opt_in(), "secret")
    assert await sign_ups.submit(DEFAULT_TENANT, "news", SignUpRequest(ADA, "192.0.2.1")) is SignUpResult.ACCEPTED
    assert await bench.statuses() == {Status.IN_DOUBT: 1}
    await a_settler(database, clock).exchange([a_result(claimed, SENT, clock.now())], [])
    await PendingErasures(database, clock).tick()
    assert await is_gone(database)
    with pytest.raises(NotFound):
        await contacts.find_by_email(database, DEFAULT_TENANT, ADA)


@pytest.mark.promise("erasure-at-once")
async def test_requests_during_an_erasure_name_it(database: Database, clock: ManualClock) -> None:
    async with an_api(database, clock) as api:
        claimed = await in_doubt(database, clock)
        erased = await api.client.delete(f"/v1/contacts/{ADA}")
        assert erased.status_code == 202
        assert erased.json()["state"] == "erasing"
        assert claimed.outbox_id in erased.json()["reason"]
        assert erased.json()["expectedAt"] is not None
        assert (await api.client.get(f"/v1/contacts/{ADA}")).json()["erasure"] == erased.json()
        email = {"from": "shop@example.com", "to": ADA, "subject": "Hi", "text": "Hi"}
        for path, body, status in (
            ("/v1/email/send", email, 409),
            ("/emails", {**email, "to": [ADA]}, 422),  # Clients of Resend read 409 as a reused idempotency key.
        ):
            refused = await api.client.post(path, json=body)
            assert (refused.status_code, "being erased" in refused.text) == (status, True), refused.text
        raw = f"From: shop@example.com\r\nTo: {ADA}\r\nSubject: Hi\r\n\r\nHi\r\n"
        refused = await api.client.post("/v1/email/raw", content=raw, headers={"Content-Type": "message/rfc822"})
        assert (refused.status_code, refused.json()["code"]) == (409, "ERASURE_PENDING")
        batch = await api.client.post("/v1/email/batch", json={"messages": [email, {**email, "to": "b@example.com"}]})
        first, second = batch.json()["results"]
        assert (first["error"]["code"], second["status"]) == ("ERASURE_PENDING", "PENDING")
        event = {"email": ADA, "event": "order.placed"}
        assert (await api.client.post("/v1/events", json=event)).status_code < 300
        assert await list_latest(database, DEFAULT_TENANT, limit=1) == []
        shared = f"From: shop@example.com\r\nTo: {ADA}, b@example.com\r\nSubject: Hi\r\n\r\nHi\r\n"
        taken = await api.client.post("/v1/email/raw", content=shared, headers={"Content-Type": "message/rfc822"})
        assert [each["to"] for each in taken.json()["messages"]] == ["b@example.com"]
        await a_settler(database, clock).exchange([a_result(claimed, SENT, clock.now())], [])
        assert (await api.client.get(f"/v1/contacts/{ADA}/erasure")).json()["state"] == "erasing"
        await PendingErasures(database, clock).tick()
        assert (await api.client.get(f"/v1/contacts/{ADA}/erasure")).json()["state"] == "erased"
        assert (await api.client.get("/v1/contacts/nobody@example.com/erasure")).status_code == 404
        assert (await api.stranger.get(f"/v1/contacts/{ADA}/erasure")).status_code == 404
        assert await is_gone(database)


async def test_preference_page_says_that_the_data_is_being_erased(database: Database, clock: ManualClock) -> None:
    pages = PublicPages("s" * 32)
    tokens = UnsubscribeTokens("s" * 32)
    async with an_api(database, clock, public_pages=pages) as api:
        await in_doubt(database, clock)
        await erase(database, clock)
        for path in ("preferences", "resubscribe"):
            token = (tokens if path == "preferences" else tokens.for_resubscribe()).make(ADA, "general")
            for method in ("GET", "POST"):
                answer = await api.anonymous.request(method, f"/{path}?token={token}")
                assert (answer.status_code, "Your data is being erased" in answer.text) == (409, True), answer.text
        one_click = {"List-Unsubscribe": "One-Click"}
        left = await api.anonymous.post(f"/unsubscribe?token={tokens.make(ADA, 'general')}", data=one_click)
        assert left.status_code == 200


async def test_contact_page_shows_the_state_of_an_erasure(bench: Bench, clock: ManualClock) -> None:
    engine = an_engine(bench.database, clock, base_url=HOME)
    await engine.users.create("grace", PASSWORD, Role.EDITOR, actor="test")
    async with a_visit(create_app(engine), "grace") as visit:
        claimed = await in_doubt(bench.database, clock)
        await visit.open(f"/contacts/{ADA}")
        await visit.press("Erase contact", address=ADA)
        assert "Nothing is sent to this contact any more" in visit.flash
        assert "Erasing" in visit.words()
        assert f"/messages/{claimed.outbox_id}" in visit.text
        assert "Erase contact" not in visit.buttons()
        await a_settler(bench.database, clock).exchange([a_result(claimed, SENT, clock.now())], [])
        await PendingErasures(bench.database, clock).tick()
        await visit.open(f"/contacts/{ADA}", 404)
        assert "was erased on" in visit.words()
