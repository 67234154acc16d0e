"""Triggers that come before the person consents: the run waits for the consent and is not used up."""

from typing import Any, Final

import pytest
from sqlalchemy import update

from mailwright.audience.status import ContactStatusService
from mailwright.domain.clock import DAY, HOUR, MINUTE
from mailwright.sources.sequences.enrol import People
from mailwright.sources.sequences.expected_emails import count_expected
from mailwright.storage.tables import subscriptions
from mailwright.texts.sequences import left_out_texts, run_text
from tests.builders import DEFAULT_TENANT, a_contact
from tests.sequences import SequenceBench, a_wait, an_email, happen, lists

ANN: Final = "ann@example.com"
ORDER: Final[dict[str, Any]] = {"event": "order.placed"}


async def order(sequences: SequenceBench, number: int = 0, email: str = ANN) -> None:
    await happen(sequences, "order.placed", email, number=number)
    await work(sequences)


async def work(sequences: SequenceBench) -> None:
    """Do what a worker does within a minute."""
    sequences.clock.advance(MINUTE)
    await sequences.watch()
    await sequences.run()


def statuses(sequences: SequenceBench) -> ContactStatusService:
    return ContactStatusService(sequences.database, sequences.clock)


async def consent(sequences: SequenceBench, list_key: str = "news") -> None:
    await statuses(sequences).subscribe(DEFAULT_TENANT, ANN, list_key, source="test")


async def sentence(sequences: SequenceBench, key: str) -> str:
    [run, *_] = await sequences.engine.sequences.explanations.of_sequence(DEFAULT_TENANT, key, ANN)
    return run_text(run, sequences.clock.now())


@pytest.mark.parametrize("list_key", ["news", None])
async def test_consent_after_the_trigger_sends_the_email(sequences: SequenceBench, list_key: str | None) -> None:
    await lists(sequences, "news")
    await a_contact(sequences.database, ANN)
    key = await sequences.start(trigger=ORDER, list=list_key)
    await order(sequences)
    assert await sequences.recipients() == []
    waiting = await sequences.enrolment(key)
    assert (waiting.node, waiting.awaits_consent, waiting.ended_at) == ("first", True, None)
    assert "They wait at first for their consent. They may not receive the next email yet" in await sentence(
        sequences, key
    )
    sequences.clock.advance(6 * DAY)
    await work(sequences)
    assert await sequences.recipients() == []
    await consent(sequences)
    await work(sequences)
    assert await sequences.recipients() == [ANN]
    assert (await sequences.enrolment(key)).end_reason == "finished"


async def test_confirmation_after_the_trigger_sends_the_email(sequences: SequenceBench) -> None:
    await lists(sequences, "news")
    await a_contact(sequences.database, ANN)
    await consent(sequences)
    await set_pending(sequences, is_pending=True)
    key = await sequences.start(trigger=ORDER, list="news")
    await order(sequences)
    assert "they have not confirmed their subscription" in await sentence(sequences, key)
    await set_pending(sequences, is_pending=False)
    await work(sequences)
    assert await sequences.recipients() == [ANN]


async def set_pending(sequences: SequenceBench, *, is_pending: bool) -> None:
    async with sequences.database.write() as tx:
        await tx.execute(update(subscriptions).values(is_pending=is_pending))


async def test_run_that_ended_without_consent_is_not_counted(sequences: SequenceBench) -> None:
    await lists(sequences, "news")
    await a_contact(sequences.database, ANN)
    key = await sequences.start(trigger=ORDER, list="news", consentDays=0)
    await order(sequences)
    assert (await sequences.enrolment(key)).end_reason == "not_eligible"
    await consent(sequences)
    assert "re-entry" not in await sentence(sequences, key)
    await order(sequences, 1)
    assert await sequences.recipients() == [ANN]
    assert [each.end_reason for each in await sequences.enrolments(key)] == ["finished", "not_eligible"]
    await order(sequences, 2)
    assert await sequences.recipients() == [ANN]  # The run with an email counts.


async def test_list_trigger_counts_no_run_that_ended_without_consent(sequences: SequenceBench) -> None:
    await lists(sequences, "news", "offers")
    await a_contact(sequences.database, ANN)
    key = await sequences.start(trigger={"joinsList": "news"}, list="offers", consentDays=0)
    await consent(sequences, "news")
    await work(sequences)
    assert (await sequences.enrolment(key)).end_reason == "not_eligible"
    await statuses(sequences).unsubscribe(DEFAULT_TENANT, ANN, "news", source="test")
    await consent(sequences, "offers")
    await statuses(sequences).resubscribe_by_link(DEFAULT_TENANT, ANN, "news", source="test")
    await work(sequences)
    assert await sequences.recipients() == [ANN]


async def test_window_ends_the_run(sequences: SequenceBench) -> None:
    await lists(sequences, "news")
    await a_contact(sequences.database, ANN)
    key = await sequences.start(trigger=ORDER, list="news", consentDays=2)
    await order(sequences)
    sequences.clock.advance(2 * DAY)
    await work(sequences)
    assert (await sequences.enrolment(key)).end_reason == "not_eligible"
    await consent(sequences)
    await work(sequences)
    assert await sequences.recipients() == []


async def test_unsubscribed_person_is_not_waited_for(sequences: SequenceBench) -> None:
    await lists(sequences, "news")
    await sequences.people(ANN, list_key="news")
    await statuses(sequences).unsubscribe(DEFAULT_TENANT, ANN, "news", source="test")
    key = await sequences.start(trigger=ORDER, list="news")
    await order(sequences)
    assert (await sequences.enrolment(key)).end_reason == "not_eligible"


async def test_unsubscribe_while_waiting_uses_up_no_run(sequences: SequenceBench) -> None:
    await lists(sequences, "news")
    await a_contact(sequences.database, ANN)
    key = await sequences.start(trigger=ORDER, list="news")
    await order(sequences)
    await statuses(sequences).unsubscribe_by_link(DEFAULT_TENANT, ANN, source="test")
    assert (await sequences.enrolment(key)).end_reason == "unsubscribed"
    await statuses(sequences).resubscribe_by_link(DEFAULT_TENANT, ANN, source="test")
    await consent(sequences)
    await order(sequences, 1)
    assert await sequences.recipients() == [ANN]


async def test_run_with_an_email_counts_after_the_consent_is_lost(sequences: SequenceBench) -> None:
    await lists(sequences, "news")
    await sequences.people(ANN, list_key="news")
    key = await sequences.start(an_email("one"), a_wait(), an_email("two"), trigger=ORDER, list="news")
    await order(sequences)
    await sequences.send()
    await statuses(sequences).unsubscribe(DEFAULT_TENANT, ANN, "news", source="test")
    await statuses(sequences).resubscribe_by_link(DEFAULT_TENANT, ANN, "news", source="test")
    await order(sequences, 1)
    assert await sequences.recipients() == [ANN]
    assert [each.end_reason for each in await sequences.enrolments(key)] == ["unsubscribed"]


async def test_goal_ends_the_wait_for_consent(sequences: SequenceBench) -> None:
    await a_contact(sequences.database, ANN)
    key = await sequences.start(trigger=ORDER, goal={"event": "account.paid"})
    await order(sequences)
    await happen(sequences, "account.paid", ANN)
    await work(sequences)
    assert (await sequences.enrolment(key)).end_reason == "goal"


async def test_steps_before_the_email_happen_once(sequences: SequenceBench) -> None:
    await lists(sequences, "news")
    await a_contact(sequences.database, ANN)
    tagged = {"id": "tag", "change": {"addTags": ["buyer"]}}
    await sequences.start(tagged, an_email("one"), an_email("two"), trigger=ORDER, list="news")
    await order(sequences)
    await consent(sequences)
    await work(sequences)
    assert [each[1:3] for each in await sequences.history()] == [("tag", "changed"), ("one", "sent"), ("two", "sent")]


async def test_person_who_awaits_consent_is_already_in(sequences: SequenceBench) -> None:
    await lists(sequences, "news")
    await a_contact(sequences.database, ANN)
    await a_contact(sequences.database, "bob@example.com")
    key = await sequences.start(trigger=ORDER, list="news")
    await order(sequences)
    people = People(emails=(ANN, "bob@example.com"))
    result = await sequences.engine.sequences.enrolments.enrol(DEFAULT_TENANT, key, people, actor="test")
    assert (result.enrolled, result.already_in, result.re_entry, result.not_eligible) == (0, 1, 0, 1)
    rehearsal = await sequences.engine.sequences.rehearsals.rehearse(DEFAULT_TENANT, key, people=people, days=3)
    assert (rehearsal.already_in, rehearsal.re_entry, sum(rehearsal.excluded.values())) == (1, 0, 1)


async def test_enrol_states_the_true_reason(sequences: SequenceBench) -> None:
    await lists(sequences, "news")
    await a_contact(sequences.database, ANN)
    key = await sequences.start(an_email("one"), a_wait(), trigger=ORDER, list="news", consentDays=0)
    await order(sequences)
    result = await sequences.enrol(key, ANN)
    assert (result.enrolled, result.already_in, result.re_entry, result.not_eligible) == (0, 0, 0, 1)
    await consent(sequences)
    result = await sequences.enrol(key, ANN)
    assert (result.enrolled, result.already_in, result.re_entry, result.not_eligible) == (1, 0, 0, 0)
    await sequences.run()
    result = await sequences.enrol(key, ANN)
    assert (result.enrolled, result.already_in, result.re_entry, result.not_eligible) == (0, 1, 0, 0)
    await sequences.run_for(2 * DAY, HOUR)
    result = await sequences.enrol(key, ANN)
    assert (result.enrolled, result.already_in, result.re_entry, result.not_eligible) == (0, 0, 1, 0)
    rehearsal = await sequences.engine.sequences.rehearsals.rehearse(
        DEFAULT_TENANT, key, people=People(emails=(ANN,)), days=3
    )
    assert left_out_texts(rehearsal) == ["1 person would not enter: left out by the re-entry rule."]


async def test_new_version_keeps_the_wait_for_consent(sequences: SequenceBench) -> None:
    await lists(sequences, "news")
    await a_contact(sequences.database, ANN)
    key = await sequences.start(an_email("first"), an_email("other"), trigger=ORDER, list="news")
    await order(sequences)
    plan = await sequences.publish(key, an_email("other"), trigger=ORDER, list="news")
    assert (plan.moves, plan.overdue) == (1, 0)
    await work(sequences)
    assert (await sequences.enrolment(key)).awaits_consent
    await sequences.publish(key, an_email("other"), a_wait(), an_email("last"), trigger=ORDER, list="news")
    await consent(sequences)
    await work(sequences)
    assert [each[1:3] for each in await sequences.history()] == [("other", "sent")]


async def test_wait_that_becomes_an_email_keeps_its_time(sequences: SequenceBench) -> None:
    await sequences.people(ANN)
    key = await sequences.start(a_wait("one", days=3), an_email("two"), trigger=ORDER)
    await order(sequences)
    await sequences.publish(key, an_email("one"), an_email("two"), trigger=ORDER)
    await work(sequences)
    assert await sequences.recipients() == []
    sequences.clock.advance(3 * DAY)
    await work(sequences)
    assert await sequences.recipients() == [ANN, ANN]


async def test_forecast_and_rehearsal_expect_no_email_without_consent(sequences: SequenceBench) -> None:
    await lists(sequences, "news")
    await a_contact(sequences.database, ANN)
    key = await sequences.start(trigger=ORDER, list="news")
    await order(sequences)
    now = sequences.clock.now()
    async with sequences.database.read() as tx:
        assert await count_expected(tx, now, now + 10 * DAY) == []
    rehearsal = await sequences.engine.sequences.rehearsals.rehearse(DEFAULT_TENANT, key, days=10)
    assert (rehearsal.emails, rehearsal.ended) == (0, {"not_eligible": 1})
