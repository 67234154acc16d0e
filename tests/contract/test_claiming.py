"""Claiming, on both engines: exclusive, fair, fenced, and never lost."""

import asyncio
from collections import Counter

import pytest

from mailwright.domain.clock import ManualClock
from mailwright.storage.database import Database
from tests.builders import LOCK_TTL, a_message, an_intake, claims_of, settling_of


@pytest.mark.promise("claim-exclusive")
async def test_two_workers_never_claim_the_same_message(database: Database, clock: ManualClock) -> None:
    await an_intake(database, clock).accept([a_message() for _ in range(100)])
    workers = [claims_of(database, clock, f"worker-{n}") for n in range(4)]
    batches = await asyncio.gather(*(worker.claim(60) for worker in workers))
    held = Counter(claimed.outbox_id for batch in batches for claimed in batch)
    assert len(held) == 100
    assert set(held.values()) == {1}


@pytest.mark.promise("claim-take-over")
async def test_a_lock_that_ends_frees_its_messages(database: Database, clock: ManualClock) -> None:
    await an_intake(database, clock).accept([a_message()])
    assert len(await claims_of(database, clock, "dead").claim(10)) == 1
    heir = claims_of(database, clock, "heir")
    assert await heir.claim_suspects(10) == []
    clock.advance(LOCK_TTL)
    assert [claimed.claims for claimed in await heir.claim_suspects(10)] == [2]


@pytest.mark.promise("claim-fenced")
async def test_a_worker_that_lost_its_claim_cannot_begin_to_send(database: Database, clock: ManualClock) -> None:
    await an_intake(database, clock).accept([a_message()])
    stale = await claims_of(database, clock, "slow").claim(10)
    clock.advance(LOCK_TTL)
    fresh = await claims_of(database, clock, "heir").claim_suspects(10)
    settling = settling_of(database, clock)
    assert (await settling.exchange([], stale)).message_keys == frozenset()
    assert (await settling.exchange([], fresh)).message_keys == {fresh[0].message_key}
