"""A worker that dies at any statement of a batch, or just after its commit, repeats and loses no step."""

from itertools import count
from typing import cast

import pytest

from mailwright.domain.clock import DAY
from mailwright.sources.sequences.runner import SequenceRunner
from mailwright.storage.database import Database
from tests.mortal import Killed, MortalDatabase
from tests.sequences import SequenceBench, a_wait, an_email

EMAILS = ("ann@example.com", "bob@example.com", "cid@example.com")


async def live(at: SequenceBench, statements: int) -> bool:
    """Run a worker until nothing is due. Return False if it died before."""
    mortal = cast("Database", MortalDatabase(at.database, statements))
    runner = SequenceRunner(mortal, at.clock, at.engine.templates)
    try:
        while await runner.tick():
            pass
    except Killed:
        return False
    return True


async def die_at_every_statement(at: SequenceBench) -> int:
    """Let workers die one statement later each time, until one survives. Return the number of deaths."""
    for deaths in count():
        if await live(at, deaths):
            return deaths
    raise AssertionError("A worker with enough statements survives.")


@pytest.mark.promise("sequence-steps-once")
async def test_no_crash_repeats_or_loses_a_step(sequences: SequenceBench) -> None:
    await sequences.people(*EMAILS)
    key = await sequences.start(
        an_email("one"),
        {"id": "tag", "change": {"addTags": ["vip"], "attributes": {"plan": "pro"}}},
        {"id": "vip", "branch": [{"if": {"tag": "vip"}, "steps": [an_email("two")]}]},
        {"id": "tell", "notify": {"to": "team@example.com", "subject": "Look", "text": "Here"}},
        a_wait("day"),
        an_email("three"),
    )
    await sequences.enrol(key, *EMAILS)
    for _ in range(2):
        assert await die_at_every_statement(sequences) > 5
        await sequences.send()
        sequences.clock.advance(DAY)
    steps = ["one", "tag", "vip", "two", "tell", "three"]
    assert [(email, node) for email, node, _, _ in await sequences.history()] == [
        (email, node) for email in EMAILS for node in steps
    ]
    assert sorted(await sequences.recipients()) == sorted([*EMAILS * 3, *["team@example.com"] * 3])
