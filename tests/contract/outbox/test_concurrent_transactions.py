"""Concurrent transactions on the same rows. Only on PostgreSQL: SQLite has one writer at a time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, insert, select, update

from mailwright.access.initial_setup import InitialSetup
from mailwright.access.roles import Role
from mailwright.access.sessions import Sessions
from mailwright.access.users import User
from mailwright.app.named_providers import ProviderService
from mailwright.audience import contacts, lists
from mailwright.audience.contact_events import NewContactEvent, list_latest, store
from mailwright.audience.erasure import erase
from mailwright.audience.importing.imports import Import, Imports
from mailwright.audience.importing.plan import ImportOptions
from mailwright.audience.status import SoftBounces, apply_facts, unsubscribe_fact
from mailwright.audience.suppressions import add_all, list_for_address
from mailwright.content.image_files import ImageFolder
from mailwright.content.images import ImageStore
from mailwright.content.template_store import TemplateStore
from mailwright.domain.campaign import INDEFINITELY
from mailwright.domain.clock import DAY, ManualClock
from mailwright.domain.errors import NotFound, NotPossibleNow
from mailwright.domain.ids import uuid7
from mailwright.domain.lanes import lane_number
from mailwright.domain.message import Claimed, NewMessage, Settlement
from mailwright.domain.permits import LimitWindow, SendRate
from mailwright.domain.report import ContactVerdict, Report
from mailwright.domain.states import EventType, OnDoubt, Priority, Status
from mailwright.events.outbound.deliveries import NoReceiverResponse, WebhookDeliveries
from mailwright.events.outbound.endpoints import WebhookEndpointInput, WebhookEndpoints
from mailwright.events.reports import Reports, take
from mailwright.outbox.claim import CLAIM_LANE
from mailwright.outbox.ledger import DatabaseLedger
from mailwright.outbox.operations import CANCEL_LANE
from mailwright.outbox.pending_erasures import ErasurePending
from mailwright.outbox.provider_configurations import ProviderConfiguration, ProviderHasMessages
from mailwright.outbox.settle import LOCK_UNSENT, ProviderAccount, Settler, settle_and_begin
from mailwright.sources.articles.slices import SlicePositionTaken, SliceStore
from mailwright.storage.database import Database, Transaction
from mailwright.storage.hot import Runner
from mailwright.storage.statements import Statement
from mailwright.storage.tables import contacts as contacts_table
from mailwright.storage.tables import (
    counters,
    images,
    installation,
    provider_configurations,
    suppressions,
    webhook_deliveries,
    webhook_endpoints,
)
from mailwright.storage.tables import sessions as sessions_table
from mailwright.storage.tables import slices as slices_table
from mailwright.storage.tables import users as users_table
from tests.articles import the_slices
from tests.builders import (
    DEFAULT_TENANT,
    FAULT,
    LOCK_TTL,
    UNKNOWN,
    Attempt,
    Bench,
    a_contact,
    a_message,
    a_result,
    a_settler,
    an_acceptor,
    an_in_doubt_handler,
    claims_of,
    deliveries_of,
    settings_for,
    status_of,
    suppress,
    user_store,
)
from tests.pictures import a_png

pytestmark = pytest.mark.parametrize("engine", ["postgresql"], indirect=True)

LANE = lane_number(Priority.TRANSACTIONAL, DEFAULT_TENANT)
LONGEST_SECONDS = 50
PASSWORD = "correct horse battery"
ADA = "ada@example.com"

AT_ONCE = Statement("at_once", "SET LOCAL deadlock_timeout = '10ms'")
TOUCH = Statement("touch", "UPDATE deliveries SET duration_ms = COALESCE(duration_ms, 0) + 1 WHERE message_key = :key")
WAITING = Statement("waiting", "SELECT count(*) AS n FROM pg_locks WHERE NOT granted")


async def test_renewal_skips_messages_that_are_being_settled(database: Database, clock: ManualClock) -> None:
    await an_acceptor(database, clock).accept([a_message() for _ in range(3)])
    claims = claims_of(database, clock)
    held = await claims.claim(10)
    clock.advance(LOCK_TTL // 3)
    async with asyncio.timeout(LONGEST_SECONDS), database.write() as tx:
        await settle_and_begin(tx, [], [Attempt(held[1])], clock.now())
        renewed = await claims.renew(held)
    assert renewed == dict.fromkeys((held[0].message_key, held[2].message_key), clock.now() + LOCK_TTL)
    assert len(await claims.renew(held)) == 3


@pytest.mark.promise("cancel-wins")
async def test_message_claimed_during_a_cancel_stays_with_its_worker(database: Database, clock: ManualClock) -> None:
    await an_acceptor(database, clock).accept([a_message() for _ in range(2)])
    lock = {"token": 7, "worker": "worker-1", "locked_until": clock.now() + LOCK_TTL}
    async with asyncio.timeout(LONGEST_SECONDS), database.write() as claiming:
        assert await claiming.count(CLAIM_LANE, lane=LANE, limit=1, now=clock.now(), **lock) == 1
        cancelling = asyncio.create_task(_cancel(database))
        await _somebody_waits(claiming)
    assert len(await cancelling) == 1
    rows = sorted((row.status, row.locked_by) for row in await deliveries_of(database))
    assert rows == [("CANCELLED", None), ("PENDING", "worker-1")]


@pytest.mark.promise("route-fail-over")
async def test_server_is_not_replaced_while_an_attempt_begins(database: Database, clock: ManualClock) -> None:
    service, found = await _a_provider(database, clock)
    await an_acceptor(database, clock).accept([a_message()])
    [held] = await claims_of(database, clock).claim(1)
    account = ProviderAccount(found.name, found.account)
    async with asyncio.timeout(LONGEST_SECONDS), database.write() as beginning:
        await settle_and_begin(beginning, [], [Attempt(held, found.name)], clock.now(), account=account)
        editing = asyncio.create_task(service.edit(found.name, {"smtp_url": "smtp://127.0.0.2"}, actor="ada"))
        await _somebody_waits(beginning)
    with pytest.raises(ProviderHasMessages, match="1 being sent"):
        await editing


@pytest.mark.promise("route-fail-over")
async def test_attempt_waits_for_an_edit_and_then_does_not_begin(database: Database, clock: ManualClock) -> None:
    _, found = await _a_provider(database, clock)
    await an_acceptor(database, clock).accept([a_message()])
    [held] = await claims_of(database, clock).claim(1)
    account = ProviderAccount(found.name, found.account)
    async with asyncio.timeout(LONGEST_SECONDS), database.write() as editing:
        await editing.execute(update(provider_configurations).values(account=found.account + 1))
        settler = Settler(database, clock, account=account)
        beginning = asyncio.create_task(settler.exchange([], [Attempt(held, found.name)]))
        await _somebody_waits(editing)
    assert (await beginning).is_account_replaced


async def _a_provider(database: Database, clock: ManualClock) -> tuple[ProviderService, ProviderConfiguration]:
    service = ProviderService(settings_for("sqlite:///unused.db"), database, clock)
    return service, await service.create("acme-smtp", "smtp", {"smtp_url": "smtp://127.0.0.1"}, actor="ada")


async def test_deadlocked_transactions_both_finish(database: Database, clock: ManualClock) -> None:
    await an_acceptor(database, clock).accept([a_message() for _ in range(2)])
    one, other = [row.message_key for row in await deliveries_of(database)]
    begun = asyncio.Barrier(2)
    tries: list[int] = []

    async def touch_both(tx: Runner, first: int, second: int) -> None:
        tries.append(first)
        await tx.run(AT_ONCE)
        await tx.count(TOUCH, key=first)
        if tries.count(first) == 1:
            await begun.wait()
        await tx.count(TOUCH, key=second)

    async with asyncio.timeout(LONGEST_SECONDS):
        await asyncio.gather(
            database.transact(lambda tx: touch_both(tx, one, other)),
            database.transact(lambda tx: touch_both(tx, other, one)),
        )
    assert len(tries) >= 3  # One of the transactions was rolled back and retried.
    assert [row.duration_ms for row in await deliveries_of(database)] == [2, 2]


@pytest.mark.promise("doubt-report-settles")
async def test_report_during_the_second_attempt_settles_the_message(database: Database, clock: ManualClock) -> None:
    """A report proves the first attempt. While it is written another worker marks the second one, which fails."""
    message = a_message(on_doubt=OnDoubt.RESEND)
    await an_acceptor(database, clock).accept([message])
    settling = a_settler(database, clock)
    [first] = await claims_of(database, clock).claim(1)
    await settling.exchange([], [first])
    await settling.exchange([a_result(first, UNKNOWN, clock.now())], [])
    assert await an_in_doubt_handler(database, clock).decide_due() == 1
    [second] = await claims_of(database, clock).claim(1)

    async with asyncio.timeout(LONGEST_SECONDS), asyncio.TaskGroup() as tasks:

        async def exchanges(outcomes: list[Settlement], next_up: list[Claimed]) -> None:
            await _as_far_as_it_can(database, tasks.create_task(settling.exchange(outcomes, next_up)))

        async with database.write() as tx:
            meeting = _Meeting(tx, LOCK_UNSENT, lambda: exchanges([], [second]))
            report = Report("key", "scripted", EventType.DELIVERED, clock.now(), outbox_id=message.outbox_id)
            await take(meeting, [report], SoftBounces(), clock.now())
            await exchanges([a_result(second, FAULT, clock.now())], [])
    assert await status_of(database, message.outbox_id) == Status.SENT
    clock.advance(DAY)
    assert await claims_of(database, clock).claim(1) == []


@pytest.mark.promise("bounce-hard-or-soft")
async def test_concurrent_soft_bounces_are_counted_together(database: Database, clock: ManualClock) -> None:
    emails = [a_message(to=ADA) for _ in range(3)]
    await an_acceptor(database, clock).accept(emails)
    first, second, third = [_a_soft_bounce(clock, message) for message in emails]
    await Reports(database, clock).receive([first])
    async with asyncio.timeout(LONGEST_SECONDS), asyncio.TaskGroup() as tasks, database.write() as tx:
        await take(tx, [second], SoftBounces(), clock.now())
        telling = tasks.create_task(Reports(database, clock).receive([third]))
        await _as_far_as_it_can(database, telling)
    assert (await contacts.find_by_email(database, DEFAULT_TENANT, ADA)).status == "bounced"


@pytest.mark.parametrize("act", ["disable", "make less"])
async def test_two_administrators_cannot_disable_each_other(database: Database, clock: ManualClock, act: str) -> None:
    users = user_store(database, clock)
    ada, grace = [await users.create(name, PASSWORD, Role.ADMIN, actor="test") for name in ("ada", "grace")]

    async def shut_out(user: User, actor: User) -> None:
        if act == "disable":
            await users.disable(user.login, actor=actor.login)
        else:
            await users.change_role(user.login, Role.VIEWER, actor=actor.login)

    async with asyncio.timeout(LONGEST_SECONDS):
        async with database.write() as tx:
            # Both transactions look for another administrator before either of them writes.
            await tx.execute(select(users_table).with_for_update())
            both = [asyncio.create_task(shut_out(grace, ada)), asyncio.create_task(shut_out(ada, grace))]
            await _somebody_waits(tx, number=2)
        ends = await asyncio.gather(*both, return_exceptions=True)
    assert sorted(type(end) for end in ends if end is not None) == [NotPossibleNow]
    unsubscribe_fact = [user for user in await users.list_all() if user.role is Role.ADMIN and user.disabled_at is None]
    assert len(unsubscribe_fact) == 1


@pytest.mark.promise("person-erased")
@pytest.mark.parametrize("list_key", ["general", "news"])
async def test_report_during_an_erasure_is_not_stored(database: Database, clock: ManualClock, list_key: str) -> None:
    await lists.create(database, clock, DEFAULT_TENANT, "news")
    await a_contact(database, ADA)
    await suppress(database, ADA, list_key="general")
    happened_at = clock.now()
    clock.advance(DAY)
    fact = unsubscribe_fact(DEFAULT_TENANT, ADA, list_key, source="ses", at=happened_at)
    async with asyncio.timeout(LONGEST_SECONDS), asyncio.TaskGroup() as tasks, database.write() as tx:
        await tx.execute(select(suppressions).with_for_update())  # The last table that an erasure changes.
        tasks.create_task(erase(database, clock, DEFAULT_TENANT, ADA, actor="test"))
        await _somebody_waits(tx)
        tasks.create_task(database.transact(lambda hot: apply_facts(hot, [fact], clock.now())))
        await _somebody_waits(tx, number=2)
    async with database.read() as tx:
        kept = await tx.execute(select(suppressions.c.email, suppressions.c.list_key, suppressions.c.source))
        people = await tx.execute(select(contacts_table.c.email).where(contacts_table.c.email == ADA))
    assert [tuple(row) for row in kept] == [(ADA, "general", "erasure")]
    assert people == []


@pytest.mark.parametrize("way", ["reserve", "reserve each", "book"])
async def test_counter_survives_deletion_while_it_is_reopened(database: Database, clock: ManualClock, way: str) -> None:
    """The counter is old enough to be deleted, and a worker counts again at the same time."""
    ledger = DatabaseLedger(database, clock)
    window, pace = (
        LimitWindow("mailwright:test", 5, clock.now() + DAY, "test", clock.now() + DAY),
        SendRate("mailwright:test", 1_000, "test"),
    )
    async with database.write() as tx:
        await tx.execute(insert(counters).values(name="mailwright:test", used=0, expires_at=clock.now()))

    async def count() -> Any:
        if way == "reserve":
            return (await ledger.reserve([window], 2)).count
        if way == "reserve each":
            return (await ledger.reserve_each({window: 2}))[window]
        return len((await ledger.book([pace], 2, {})).slots)

    async with asyncio.timeout(LONGEST_SECONDS):
        async with database.write() as tx:
            await tx.execute(select(counters).with_for_update())
            forgetting = asyncio.create_task(ledger.forget_expired())
            await _somebody_waits(tx)
            counting = asyncio.create_task(count())
            await _somebody_waits(tx, number=2)
        assert await counting == 2
        await forgetting


async def test_webhook_can_be_removed_during_a_delivery(database: Database, clock: ManualClock) -> None:
    endpoint, _ = await WebhookEndpoints(database, clock).create(
        DEFAULT_TENANT, WebhookEndpointInput("https://example.com/"), actor="test"
    )
    telling = WebhookDeliveries(database, clock)
    await telling.create_test(endpoint, actor="test")
    claimed = await telling.claim(endpoint)
    outcomes = [(each, NoReceiverResponse("timeout", 1)) for each in claimed]
    async with asyncio.timeout(LONGEST_SECONDS), asyncio.TaskGroup() as tasks, database.write() as removing:
        await removing.run(AT_ONCE)
        await removing.execute(select(webhook_endpoints).with_for_update())
        tasks.create_task(telling.settle(endpoint, outcomes))
        await _somebody_waits(removing)
        await removing.execute(delete(webhook_deliveries))
        await removing.execute(delete(webhook_endpoints))


async def test_user_can_be_disabled_during_a_request(database: Database, clock: ManualClock) -> None:
    users, sessions = user_store(database, clock), Sessions(database, clock)
    ada = await users.create("ada", PASSWORD, Role.VIEWER, actor="test")
    token = await sessions.open(ada, address="192.0.2.1", agent="test")
    clock.advance(DAY // 4)
    async with asyncio.timeout(LONGEST_SECONDS):
        async with database.write() as disabling:
            await disabling.run(AT_ONCE)
            await disabling.execute(update(users_table).values(disabled_at=clock.now()))
            seeing = asyncio.create_task(sessions.find(token))
            await _somebody_waits(disabling)
            await disabling.execute(delete(sessions_table))
        await seeing
    assert await sessions.find(token) is None


async def test_later_of_two_setup_links_works(database: Database, clock: ManualClock) -> None:
    users = user_store(database, clock)
    async with asyncio.timeout(LONGEST_SECONDS):
        async with database.write() as tx:
            await tx.execute(insert(installation).values(name="set_up_digest", value="another server's"))
            inviting = asyncio.create_task(InitialSetup(database, users).create_token())
            await _somebody_waits(tx)
        link = await inviting
    assert link is not None
    assert (await InitialSetup(database, users).create_admin(link, "ada", PASSWORD)).role is Role.ADMIN


@pytest.mark.promise("person-erased")
async def test_contact_can_be_suppressed_during_an_erasure(database: Database, clock: ManualClock) -> None:
    await a_contact(database, ADA)
    async with asyncio.timeout(LONGEST_SECONDS):
        async with database.write() as tx:
            await add_all(tx, DEFAULT_TENANT, [ADA], reason="asked", source="api", now=clock.now(), list_key="general")
            erasing = asyncio.create_task(erase(database, clock, DEFAULT_TENANT, ADA, actor="test"))
            await _somebody_waits(tx)
        await erasing
    async with database.read() as tx:
        [entry] = await list_for_address(tx, DEFAULT_TENANT, ADA)
    assert (entry.list_key, entry.source) == ("general", "erasure")


@pytest.mark.promise("person-erased")
async def test_event_stored_during_an_erasure_is_deleted(database: Database, clock: ManualClock) -> None:
    await a_contact(database, ADA)
    event = NewContactEvent(DEFAULT_TENANT, "1", ADA, "order.placed", "{}", clock.now())
    async with asyncio.timeout(LONGEST_SECONDS):
        async with database.write() as tx:
            await store(tx, [event], clock.now())
            erasing = asyncio.create_task(erase(database, clock, DEFAULT_TENANT, ADA, actor="test"))
            await _somebody_waits(tx)
        await erasing
    assert await list_latest(database, DEFAULT_TENANT, limit=1) == []


@pytest.mark.promise("person-erased")
async def test_contact_changed_during_an_erasure_is_refused(database: Database, clock: ManualClock) -> None:
    await a_contact(database, ADA, name="Ada")
    await suppress(database, ADA, list_key="general")
    change = contacts.ContactChange(locale="pt")
    async with asyncio.timeout(LONGEST_SECONDS):
        async with database.write() as tx:
            await tx.execute(select(suppressions).with_for_update())  # The last table that the begin of one changes.
            erasing = asyncio.create_task(erase(database, clock, DEFAULT_TENANT, ADA, actor="test"))
            await _somebody_waits(tx)
            changing = asyncio.create_task(contacts.put(database, clock, DEFAULT_TENANT, ADA, change))
            await _somebody_waits(tx, number=2)
        assert (await erasing).is_finished
        with pytest.raises(ErasurePending):
            await changing
    with pytest.raises(NotFound):
        await contacts.find_by_email(database, DEFAULT_TENANT, ADA)


@pytest.mark.promise("import-never-revives")
async def test_contact_imported_during_an_erasure_is_not_stored(
    database: Database, clock: ManualClock, tmp_path: Path
) -> None:
    await a_contact(database, ADA)
    await suppress(database, ADA, list_key="general")
    file = tmp_path / "people.csv"
    file.write_text(f"email\n{ADA}\n")
    imports = Imports(database, clock)
    begun = await imports.begin(DEFAULT_TENANT, file, ImportOptions())
    async with asyncio.timeout(LONGEST_SECONDS), asyncio.TaskGroup() as tasks, database.write() as tx:
        await tx.execute(select(suppressions).with_for_update())  # The last table that an erasure changes.
        tasks.create_task(erase(database, clock, DEFAULT_TENANT, ADA, actor="test"))
        await _somebody_waits(tx)
        importing = tasks.create_task(_last(imports.run(begun, file)))
        await _somebody_waits(tx, number=2)
    assert (importing.result().added, importing.result().refused) == (0, 1)


async def test_later_of_two_concurrent_images_gets_the_name(
    database: Database, clock: ManualClock, tmp_path: Path
) -> None:
    other = {"digest": "other", "extension": "png", "size_bytes": 1, "created_at": 1, "width": 1, "height": 1}
    async with asyncio.timeout(LONGEST_SECONDS):
        async with database.write() as tx:
            await tx.execute(insert(images).values(tenant_id=DEFAULT_TENANT, name="logo.png", **other))
            putting = asyncio.create_task(
                ImageStore(database, clock, ImageFolder(tmp_path)).put(DEFAULT_TENANT, "logo.png", a_png())
            )
            await _somebody_waits(tx)
        image = await putting
    assert await ImageStore(database, clock, ImageFolder(tmp_path)).named(DEFAULT_TENANT, ["logo.png"]) == {
        "logo.png": image
    }


async def test_concurrent_slices_for_one_place_leave_one(bench: Bench) -> None:
    written = the_slices()[0]
    slices = SliceStore(bench.database, bench.clock, TemplateStore(bench.database, bench.clock))
    async with asyncio.timeout(LONGEST_SECONDS):
        [mine], _ = await slices.put("ada", DEFAULT_TENANT, [written])
        async with bench.database.write() as tx:
            there = dict((await tx.execute(select(slices_table)))[0]._mapping)
            at_once = {**there, "slice_id": uuid7(bench.clock.now()), "sort_index": 77, "body_md": "Theirs"}
            del at_once["id"]
            await tx.execute(insert(slices_table).values(at_once))
            theirs = replace(written, sort_index=77, body_md="Ours")
            putting = asyncio.create_task(slices.put("ada", DEFAULT_TENANT, [theirs]))
            moving = asyncio.create_task(slices.change("ada", DEFAULT_TENANT, mine.slice_id, theirs))
            await _somebody_waits(tx, number=2)
        [stored], put = await putting
        with pytest.raises(SlicePositionTaken):
            await moving
    assert (stored.slice_id, stored.body_md, put.changed) == (at_once["slice_id"], "Ours", 1)


class _Meeting:
    """A transaction that calls a function of the test right after one of its statements."""

    def __init__(self, tx: Transaction, after: Statement, happens: Callable[[], Awaitable[None]]) -> None:
        self._tx = tx
        self._after = after
        self._happens = happens

    async def run(self, statement: Statement, **parameters: Any) -> Any:
        found = await self._tx.run(statement, **parameters)
        if statement is self._after:
            await self._happens()
        return found

    async def count(self, statement: Statement, **parameters: Any) -> int:
        return await self._tx.count(statement, **parameters)


async def _last(steps: AsyncIterator[Import]) -> Import:
    return [step async for step in steps][-1]


async def _cancel(database: Database) -> Any:
    async with database.write() as tx:
        return await tx.run(CANCEL_LANE, lane=LANE, due_by=INDEFINITELY, limit=10)


def _a_soft_bounce(clock: ManualClock, message: NewMessage) -> Report:
    told = {"outbox_id": message.outbox_id, "recipient": message.to_email, "verdict": ContactVerdict.SOFT_BOUNCE}
    return Report(message.outbox_id, "ses", EventType.BOUNCED, clock.now(), **told)


async def _somebody_waits(tx: Transaction, number: int = 1) -> None:
    while (await tx.run(WAITING))[0].n < number:
        await asyncio.sleep(0.01)


async def _as_far_as_it_can(database: Database, task: asyncio.Task[Any]) -> None:
    """Run the task until it is done or waits for the transaction that has locked its rows."""
    while not task.done():
        async with database.read() as tx:
            if (await tx.run(WAITING))[0].n:
                return
        await asyncio.sleep(0.01)
