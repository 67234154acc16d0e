"""Emails of a sequence that are queued when it is paused or archived."""

import pytest
from sqlalchemy import select, update

from mailwright.domain.clock import HOUR
from mailwright.domain.explanation import ExplanationState
from mailwright.outbox.explain import explain
from mailwright.outbox.summary import summarize_queue
from mailwright.sources.sequences.overdue import Overdue, OverdueChoice, OverdueUndecided
from mailwright.storage.tables import deliveries, messages
from mailwright.texts.explanations import message_text
from tests.builders import DEFAULT_TENANT, statuses
from tests.sequences import ACTOR, SequenceBench, a_wait, an_email
from tests.standins.provider import ScriptedProvider

ANN = "ann@example.com"


async def explained(at: SequenceBench) -> tuple[ExplanationState, str]:
    """Return the state and the explanation of the first message."""
    async with at.database.read() as tx:
        [row, *_] = await tx.execute(select(messages.c.outbox_id).order_by(messages.c.id))
    found = await explain(at.database, at.clock, row.outbox_id, tenant_id=DEFAULT_TENANT)
    return found.state, message_text(found).sentence


async def a_queued_email(at: SequenceBench) -> str:
    """Return a sequence whose first email is queued."""
    await at.people(ANN)
    key = await at.start(an_email(), a_wait(), an_email("second"))
    await at.enrol(key, ANN)
    await at.run()
    return key


@pytest.mark.promise("sequence-versions")
@pytest.mark.parametrize("choice", Overdue)
async def test_pause_holds_queued_emails_until_resume(sequences: SequenceBench, choice: Overdue) -> None:
    service, provider = sequences.engine.sequences, ScriptedProvider()
    key = await a_queued_email(sequences)
    other = await sequences.start(an_email(), name="Other")
    await sequences.enrol(other, ANN)
    await sequences.run()
    await service.pause(DEFAULT_TENANT, key, actor=ACTOR)
    await sequences.bench.drain(provider)
    assert await statuses(sequences.database) == {"SENT": 1, "PENDING": 1}
    assert await explained(sequences) == (ExplanationState.HELD, "Sequence Welcome is paused.")
    [lane] = (await summarize_queue(sequences.database, sequences.clock.now(), DEFAULT_TENANT)).lanes
    assert (lane.name, lane.sequence_id, lane.reason, lane.is_of_campaign) == ("Welcome", key, "paused", False)
    assert await service.count_overdue(DEFAULT_TENANT, key) == 1
    with pytest.raises(OverdueUndecided):
        await service.resume(DEFAULT_TENANT, key, actor=ACTOR)
    await service.resume(DEFAULT_TENANT, key, overdue=OverdueChoice(choice, 5), actor=ACTOR)
    if choice is Overdue.SPREAD:
        state, text = await explained(sequences)
        assert state is ExplanationState.HELD
        assert "overdue emails of sequence Welcome are spread" in text
        sequences.clock.advance(5 * HOUR)
    await sequences.bench.drain(provider)
    expected = {"SENT": 1, "CANCELLED": 1} if choice is Overdue.SKIP else {"SENT": 2}
    assert await statuses(sequences.database) == expected


@pytest.mark.promise("sequence-exits")
async def test_retry_of_an_email_after_an_exit_is_cancelled(sequences: SequenceBench) -> None:
    """A worker was sending the email when its run ended."""
    key = await a_queued_email(sequences)
    for status in ("SENT_ATTEMPT", "RETRY_SCHEDULED"):
        async with sequences.database.write() as tx:
            await tx.execute(update(deliveries).values(status=status))
        if status == "SENT_ATTEMPT":
            await sequences.engine.sequences.enrolments.remove(DEFAULT_TENANT, key, ANN, actor=ACTOR)
            assert await statuses(sequences.database) == {"SENT_ATTEMPT": 1}
    await sequences.watch()
    assert await statuses(sequences.database) == {"CANCELLED": 1}


@pytest.mark.promise("sequence-exits")
async def test_retry_soon_after_an_exit_is_not_sent(sequences: SequenceBench) -> None:
    """The retry is due before the next comparison of the sequence."""
    key = await a_queued_email(sequences)
    await sequences.watch()
    for status in ("SENT_ATTEMPT", "RETRY_SCHEDULED"):
        async with sequences.database.write() as tx:
            await tx.execute(update(deliveries).values(status=status))
        if status == "SENT_ATTEMPT":
            await sequences.engine.sequences.enrolments.remove(DEFAULT_TENANT, key, ANN, actor=ACTOR)
    await sequences.bench.drain(ScriptedProvider())
    assert await statuses(sequences.database) == {"FAILED": 1}


async def test_archive_cancels_emails_of_finished_runs(sequences: SequenceBench) -> None:
    await sequences.people(ANN)
    key = await sequences.start(an_email())
    await sequences.enrol(key, ANN)
    await sequences.run()
    await sequences.engine.sequences.remove(DEFAULT_TENANT, key, actor=ACTOR)
    assert await statuses(sequences.database) == {"CANCELLED": 1}
    # A worker had begun to send it, and its provider deferred it.
    async with sequences.database.write() as tx:
        await tx.execute(update(deliveries).values(status="RETRY_SCHEDULED"))
    await sequences.bench.drain(ScriptedProvider())
    assert await statuses(sequences.database) == {"CANCELLED": 1}
    await sequences.publish(key, an_email())
    await sequences.people("bob@example.com")
    await sequences.enrol(key, "bob@example.com")
    await sequences.run()
    await sequences.bench.drain(ScriptedProvider())
    assert await statuses(sequences.database) == {"CANCELLED": 1, "SENT": 1}
