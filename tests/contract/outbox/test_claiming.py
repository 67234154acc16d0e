"""Claims are exclusive, fair and fenced, and lose no message, on both engines."""

import asyncio
from collections import Counter

import pytest

from mailwright.domain.clock import HOUR, MINUTE, SECOND, ManualClock
from mailwright.domain.lanes import lane_number, sequence_lane
from mailwright.domain.states import Priority
from mailwright.outbox.defer import defer_lane
from mailwright.storage.database import Database
from tests.builders import (
    DEFAULT_TENANT,
    FAULT,
    LOCK_TTL,
    SENT,
    a_message,
    a_message_with,
    a_newsletter,
    a_result,
    a_settler,
    a_tenant,
    an_acceptor,
    claims_of,
    deliveries_of,
    record_of,
    status_of,
    steps,
    suppress,
)
from tests.conftest import DatabaseAddress


@pytest.mark.promise("never-doubled")
async def test_two_workers_never_claim_the_same_message(database: Database, clock: ManualClock) -> None:
    await an_acceptor(database, clock).accept([a_message() for _ in range(100)])
    workers = [claims_of(database, clock, f"worker-{n}") for n in range(4)]
    batches = await asyncio.gather(*(worker.claim(60) for worker in workers))
    held = Counter(claimed.outbox_id for batch in batches for claimed in batch)
    assert len(held) == 100
    assert set(held.values()) == {1}


@pytest.mark.promise("never-doubled")
async def test_workers_of_other_processes_never_claim_the_same_message(
    engine: DatabaseAddress, database: Database, clock: ManualClock
) -> None:
    await an_acceptor(database, clock).accept([a_message() for _ in range(200)])
    elsewhere = Database(engine.url)
    try:
        workers = [claims_of((database, elsewhere)[n % 2], clock, f"worker-{n}") for n in range(6)]
        batches = await asyncio.gather(*(worker.claim(20) for _ in range(3) for worker in workers))
    finally:
        await elsewhere.close()
    held = Counter(claimed.outbox_id for batch in batches for claimed in batch)
    assert len(held) == 200
    assert set(held.values()) == {1}


async def test_claimed_payload_equals_the_accepted_one(database: Database, clock: ManualClock) -> None:
    odd = {
        "text": 'a "quoted" \\ line\n\t\x7f€😀',
        "variables": {"n": 2**53, "x": 1.5e-7, "list": [[], {}, None, True, ""]},
    }
    accepted = [a_message_with(**odd), a_message_with(html="<p>Hello</p>\r\n" * 2_000)]
    await an_acceptor(database, clock).accept(accepted)
    claimed = await claims_of(database, clock).claim(10)
    assert {each.outbox_id: each.payload for each in claimed} == {each.outbox_id: each.payload for each in accepted}


@pytest.mark.promise("never-lost")
async def test_expired_lease_frees_its_messages(database: Database, clock: ManualClock) -> None:
    await an_acceptor(database, clock).accept([a_message()])
    assert len(await claims_of(database, clock, "dead").claim(10)) == 1
    heir = claims_of(database, clock, "heir")
    assert await heir.claim_suspects(10) == []
    clock.advance(LOCK_TTL)
    assert [claimed.claims for claimed in await heir.claim_suspects(10)] == [2]


@pytest.mark.promise("never-doubled")
async def test_worker_without_its_lease_cannot_begin_an_attempt(database: Database, clock: ManualClock) -> None:
    await an_acceptor(database, clock).accept([a_message()])
    stale = await claims_of(database, clock, "slow").claim(10)
    clock.advance(LOCK_TTL)
    fresh = await claims_of(database, clock, "heir").claim_suspects(10)
    settling = a_settler(database, clock)
    assert (await settling.exchange([], stale)).message_keys == frozenset()
    assert (await settling.exchange([], fresh)).message_keys == {fresh[0].message_key}


@pytest.mark.promise("never-doubled")
async def test_worker_without_its_lease_cannot_settle_release_or_renew(database: Database, clock: ManualClock) -> None:
    message = a_message()
    await an_acceptor(database, clock).accept([message])
    slow = claims_of(database, clock, "slow")
    (stale,) = await slow.claim(10)
    clock.advance(LOCK_TTL)
    await claims_of(database, clock, "heir").claim_suspects(10)
    before = await deliveries_of(database)

    await a_settler(database, clock).exchange([a_result(stale, SENT, clock.now())], [])
    await slow.release([stale])
    clock.advance(1)
    await slow.renew([stale])
    assert await deliveries_of(database) == before


@pytest.mark.promise("never-doubled")
async def test_lost_claim_does_not_affect_other_results(database: Database, clock: ManualClock) -> None:
    await an_acceptor(database, clock).accept([a_message() for _ in range(4)])
    lost, held, refused, following = await claims_of(database, clock).claim(4)
    settling = a_settler(database, clock)
    await settling.exchange([], [lost, held])
    await settling.exchange([a_result(lost, SENT, clock.now())], [])
    await suppress(database, refused.to_email)

    results = [a_result(claimed, SENT, clock.now()) for claimed in (lost, held)]
    begun = await settling.exchange(results, [refused, following])

    assert begun.message_keys == {following.message_key}
    for claimed in (lost, held):
        assert steps(await record_of(database, claimed.outbox_id)).count("SENT") == 1
    assert [row.status for row in await deliveries_of(database)] == ["SENT", "SENT", "PENDING", "SENT_ATTEMPT"]


@pytest.mark.promise("never-doubled")
async def test_attempt_begins_once(database: Database, clock: ManualClock) -> None:
    await an_acceptor(database, clock).accept([a_message()])
    (claimed,) = await claims_of(database, clock).claim(1)
    settling = a_settler(database, clock)
    assert (await settling.exchange([], [claimed])).message_keys == {claimed.message_key}
    assert (await settling.exchange([], [claimed])).message_keys == frozenset()


async def test_message_is_not_claimed_before_it_is_due(database: Database, clock: ManualClock) -> None:
    later = clock.now() + HOUR
    await an_acceptor(database, clock).accept(
        [a_message(scheduled_at=later), a_message(scheduled_at=clock.now() - HOUR)]
    )
    claims = claims_of(database, clock)
    assert len(await claims.claim(10)) == 1
    clock.advance(HOUR - 1)
    assert await claims.claim(10) == []
    clock.advance(1)
    assert len(await claims.claim(10)) == 1


async def test_retry_is_claimed_only_after_its_delay(database: Database, clock: ManualClock) -> None:
    await an_acceptor(database, clock).accept([a_message()])
    claims, settling = claims_of(database, clock), a_settler(database, clock)
    (claimed,) = await claims.claim(1)
    await settling.exchange([], [claimed])
    result = a_result(claimed, FAULT, clock.now())
    await settling.exchange([result], [])
    clock.advance(result.due_at - clock.now() - 1)
    assert await claims.claim(1) == []
    clock.advance(1)
    assert [again.attempt for again in await claims.claim(1)] == [2]


# Fairness.


@pytest.mark.promise("transactional-first")
async def test_transactional_messages_are_claimed_before_bulk_messages(database: Database, clock: ManualClock) -> None:
    acceptor = an_acceptor(database, clock)
    other = await a_tenant(database, "other")
    await acceptor.accept([a_newsletter() for _ in range(100)])
    await acceptor.accept([a_message(), a_message(tenant_id=other)])
    claimed = await claims_of(database, clock).claim(10)
    assert [found.is_bulk for found in claimed] == [False] * 2 + [True] * 8


@pytest.mark.promise("claim-fair")
async def test_each_busy_tenant_gets_its_share_of_a_batch(database: Database, clock: ManualClock) -> None:
    acceptor = an_acceptor(database, clock)
    await acceptor.accept([a_newsletter() for _ in range(400)])
    weights = {await a_tenant(database, "light"): 1, await a_tenant(database, "heavy", weight=2): 2}
    for tenant_id in weights:
        await acceptor.accept([a_newsletter(tenant_id=tenant_id) for _ in range(100)])
    shares = Counter(claimed.tenant_id for claimed in await claims_of(database, clock).claim(40))
    assert shares == {tenant_id: 10 * weight for tenant_id, weight in {DEFAULT_TENANT: 1, **weights}.items()}


@pytest.mark.promise("claim-fair")
async def test_unused_share_of_a_tenant_goes_to_others(database: Database, clock: ManualClock) -> None:
    acceptor = an_acceptor(database, clock)
    other = await a_tenant(database, "other")
    await acceptor.accept([a_newsletter(tenant_id=other)])
    await acceptor.accept([a_newsletter() for _ in range(100)])
    assert len(await claims_of(database, clock).claim(60)) == 60


@pytest.mark.promise("claim-fair")
async def test_tenants_take_turns_if_a_batch_is_too_small(database: Database, clock: ManualClock) -> None:
    acceptor = an_acceptor(database, clock)
    ids = [await a_tenant(database, f"tenant-{n}") for n in range(7)]
    for tenant_id in ids:
        await acceptor.accept([a_newsletter(tenant_id=tenant_id) for _ in range(10)])
    claims = claims_of(database, clock)
    taken: Counter[int] = Counter()
    for _ in range(7):
        taken.update(claimed.tenant_id for claimed in await claims.claim(3))
    assert taken == dict.fromkeys(ids, 3)


@pytest.mark.promise("claim-fair")
async def test_sequences_of_a_tenant_are_served_by_age(database: Database, clock: ManualClock) -> None:
    acceptor, lanes = an_acceptor(database, clock), [sequence_lane(DEFAULT_TENANT, key) for key in (9, 3)]
    for lane in [lanes[0], None, lanes[1], lanes[0]]:
        await acceptor.accept([a_message(priority=Priority.BULK, lane=lane)])
        clock.advance(MINUTE)
    claims = claims_of(database, clock)
    claimed = [each.lane for _ in range(4) for each in await claims.claim(1)]
    assert claimed == [lanes[0], lane_number(Priority.BULK, DEFAULT_TENANT), lanes[1], lanes[0]]


@pytest.mark.promise("claim-fair")
async def test_deferred_lane_is_skipped_until_its_time(database: Database, clock: ManualClock) -> None:
    other = await a_tenant(database, "other")
    await an_acceptor(database, clock).accept([a_newsletter(), a_newsletter(tenant_id=other), a_message()])
    await defer_lane(database, lane_number(Priority.BULK, DEFAULT_TENANT), "rate_per_hour", clock.now() + HOUR)
    claims = claims_of(database, clock)
    assert [(found.tenant_id, found.is_bulk) for found in await claims.claim(10)] == [
        (DEFAULT_TENANT, False),
        (other, True),
    ]
    clock.advance(HOUR)
    assert [(found.tenant_id, found.is_bulk) for found in await claims.claim(10)] == [(DEFAULT_TENANT, True)]


async def test_tenant_limit_applies_across_workers(
    engine: DatabaseAddress, database: Database, clock: ManualClock
) -> None:
    limited = await a_tenant(database, "limited", max_in_flight=3)
    await an_acceptor(database, clock).accept([a_message(tenant_id=limited) for _ in range(20)])
    elsewhere = Database(engine.url)
    try:
        batches = [await claims_of(where, clock, name).claim(10) for where, name in ((database, "a"), (elsewhere, "b"))]
        begun = await asyncio.gather(
            *(
                a_settler(where, clock).exchange([], batch)
                for where, batch in zip((database, elsewhere), batches, strict=True)
            )
        )
    finally:
        await elsewhere.close()
    assert sum(len(found.message_keys) for found in begun) == 3
    assert all(found.message_keys.isdisjoint(found.over_limit) for found in begun)
    assert [row.status for row in await deliveries_of(database)].count("SENT_ATTEMPT") == 3


async def test_tenant_limit_applies_to_messages_of_a_dead_worker(database: Database, clock: ManualClock) -> None:
    limited = await a_tenant(database, "limited", max_in_flight=2)
    await an_acceptor(database, clock).accept([a_message(tenant_id=limited) for _ in range(6)])
    for worker in ("dead-1", "dead-2", "dead-3"):
        await claims_of(database, clock, worker).claim(10)
    clock.advance(LOCK_TTL)
    suspects = await claims_of(database, clock, "heir").claim_suspects(10)
    assert len(suspects) == 6
    assert len((await a_settler(database, clock).exchange([], suspects)).message_keys) == 2


async def test_settled_message_makes_room_for_the_next(database: Database, clock: ManualClock) -> None:
    limited = await a_tenant(database, "limited", max_in_flight=1)
    await an_acceptor(database, clock).accept([a_message(tenant_id=limited) for _ in range(2)])
    settling = a_settler(database, clock)
    (first,) = await claims_of(database, clock, "a").claim(10)
    (second,) = await claims_of(database, clock, "b").claim(10)
    await settling.exchange([], [first])
    assert (await settling.exchange([], [second])).over_limit == {second.message_key}
    begun = await settling.exchange([a_result(first, SENT, clock.now())], [second])
    assert begun.message_keys == {second.message_key}


# Releasing and renewing claims.


async def test_released_message_is_due_at_once_and_no_suspect(database: Database, clock: ManualClock) -> None:
    await an_acceptor(database, clock).accept([a_message()])
    ours = claims_of(database, clock, "ours")
    for _ in range(10):  # More often than a message may be claimed without a result.
        (claimed,) = await ours.claim(10)
        await ours.release([claimed])
    (row,) = await deliveries_of(database)
    assert (row.status, row.claims, row.claim_token, row.locked_by, row.claimable_at) == (
        "PENDING",
        0,
        None,
        None,
        clock.now(),
    )


async def test_released_retry_is_still_a_retry(database: Database, clock: ManualClock) -> None:
    message = a_message()
    await an_acceptor(database, clock).accept([message])
    claims, settling = claims_of(database, clock), a_settler(database, clock)
    (claimed,) = await claims.claim(1)
    await settling.exchange([], [claimed])
    await settling.exchange([a_result(claimed, FAULT, clock.now())], [])
    clock.advance(2 * SECOND)
    (again,) = await claims.claim(1)
    await claims.release([again])
    assert await status_of(database, message.outbox_id) == "RETRY_SCHEDULED"
    assert [third.attempt for third in await claims.claim(1)] == [2]


async def test_renewed_lease_is_not_claimed_by_others(database: Database, clock: ManualClock) -> None:
    await an_acceptor(database, clock).accept([a_message(), a_message()])
    slow, heir = claims_of(database, clock, "slow"), claims_of(database, clock, "heir")
    held = await slow.claim(10)
    await a_settler(database, clock).exchange([], held[:1])
    clock.advance(LOCK_TTL - 1)
    await slow.renew(held)
    clock.advance(LOCK_TTL - 1)
    assert await heir.claim_suspects(10) == []
    assert [row.claimable_at > clock.now() for row in await deliveries_of(database)] == [True, True]
