"""The classic failures of automation tools, each with its name, and that they do not happen."""

import pytest

from mailwright.app.segment_removal import SegmentInUse, delete_segment
from mailwright.app.sending import release_sending
from mailwright.app.template_removal import make_template_removal
from mailwright.audience import contacts, segments
from mailwright.audience.list_removal import ListInUse, ListRemoval
from mailwright.content.template_removal import TemplateInUse
from mailwright.domain.clock import DAY, HOUR, isoformat
from mailwright.domain.retention import RetentionKind, RetentionRule
from mailwright.outbox.retention import Retention, RetentionServices
from mailwright.outbox.retention_rules import set_rule
from mailwright.outbox.sending_hold import DueMessages, HoldReason, SendingHold, hold_sending
from mailwright.sources.sequences.enrol import People
from mailwright.sources.sequences.figures import load_step_report
from mailwright.sources.sequences.overdue import Overdue, OverdueChoice, OverdueUndecided
from mailwright.sources.sequences.publish import Received
from mailwright.sources.sequences.records import SequenceStatus
from mailwright.texts.sequences import run_text
from tests.builders import DEFAULT_TENANT, change_tenant
from tests.sequences import ACTOR, WELCOME, SequenceBench, a_wait, an_email, lists

ANN = "ann@example.com"
BOB = "bob@example.com"
OTHER = "tips"
PEOPLE = tuple(f"person{number}@example.com" for number in range(20))


@pytest.mark.promise("sequence-versions")
async def test_edit_sends_no_flood_of_emails(sequences: SequenceBench) -> None:
    await sequences.people(*PEOPLE)
    key = await sequences.start(an_email("one"), a_wait(days=10), an_email("two"))
    await sequences.enrol(key, *PEOPLE)
    await sequences.run_for(5 * DAY, DAY)
    shorter = (an_email("one"), an_email("new"), a_wait(days=2), an_email("two"))
    with pytest.raises(OverdueUndecided):
        await sequences.publish(key, *shorter)
    await sequences.run()
    assert len(await sequences.recipients()) == len(PEOPLE)  # Nothing was published.
    await sequences.publish(key, *shorter, overdue=OverdueChoice(Overdue.SPREAD, hours=20))
    await sequences.run()
    assert len(await sequences.recipients()) < len(PEOPLE) + 5
    await sequences.run_for(20 * HOUR, HOUR)
    sent = [node for _, node, outcome, _ in await sequences.history() if outcome == "sent"]
    # The step that was added before their place is not sent to them.
    assert sorted(sent) == ["one"] * len(PEOPLE) + ["two"] * len(PEOPLE)


@pytest.mark.promise("sequence-versions")
async def test_pause_keeps_everyone(sequences: SequenceBench) -> None:
    await sequences.people(*PEOPLE)
    key = await sequences.start(an_email("one"), a_wait(days=1), an_email("two"))
    await sequences.enrol(key, *PEOPLE[:10])
    await sequences.run()
    await sequences.engine.sequences.pause(DEFAULT_TENANT, key, actor=ACTOR)
    await sequences.enrol(key, *PEOPLE[10:])
    await sequences.run_for(3 * DAY, DAY)
    assert len(await sequences.recipients()) == 10
    choice = OverdueChoice(Overdue.SEND)
    await sequences.engine.sequences.resume(DEFAULT_TENANT, key, overdue=choice, actor=ACTOR)
    await sequences.run_for(2 * DAY, DAY)
    assert sorted(await sequences.recipients()) == sorted(PEOPLE * 2)


async def test_reentry_doubles_no_email(sequences: SequenceBench) -> None:
    await sequences.people(*PEOPLE)
    key = await sequences.start(an_email("one"), a_wait(days=1), an_email("two"), reentry="each")
    for _ in range(3):
        await sequences.enrol(key, *PEOPLE)
        await sequences.run()
    await sequences.run_for(2 * DAY, DAY)
    assert sorted(await sequences.recipients()) == sorted(PEOPLE * 2)


async def test_explanation_says_why_each_person_got_nothing(sequences: SequenceBench) -> None:
    await lists(sequences, "news")
    await sequences.people("in@example.com", "exit@example.com", list_key="news")
    await sequences.people("other@example.com")
    key = await sequences.start(a_wait(), an_email(), list="news", exits=[{"attribute": "plan", "is": "pro"}])
    await sequences.engine.sequences.enrolments.enrol(DEFAULT_TENANT, key, People(list_key="news"), actor=ACTOR)
    change = contacts.ContactChange(attributes={"plan": "pro"})
    await contacts.put(sequences.database, sequences.clock, DEFAULT_TENANT, "exit@example.com", change)
    await sequences.run()
    answers = {}
    for email in ("in@example.com", "exit@example.com", "other@example.com"):
        [run] = await sequences.engine.sequences.explanations.of_sequence(DEFAULT_TENANT, key, email)
        answers[email] = run_text(run, sequences.clock.now())
    assert "They wait at pause until" in answers["in@example.com"]
    assert "they matched an exit condition" in answers["exit@example.com"]
    assert "they are not subscribed to its list" in answers["other@example.com"]


WAITS = {
    "wait": (a_wait(days=2), "2027-01-20T09:00"),
    "timeout": ({"id": "pause", "waitFor": {"event": "never", "timeout": {"days": 2}}}, "2027-01-20T09:00"),
    # Held until Monday again, but of the next week.
    "weekday": ({"id": "pause", "waitUntil": {"weekdays": ["sun"], "time": "12:00"}}, "2027-01-25T09:00"),
    # The working hours open at the time of the wait.
    "opening": ({"id": "pause", "waitUntil": {"weekdays": ["mon"], "time": "09:00"}}, "2027-01-25T09:00"),
}


@pytest.mark.promise("sequence-steps-once")
@pytest.mark.parametrize("kind", WAITS)
async def test_two_emails_do_not_leave_together_after_closed_weekend(sequences: SequenceBench, kind: str) -> None:
    wait, expected = WAITS[kind]
    await change_tenant(sequences.database, working_hours="Mon-Fri 09:00-17:00")
    sequences.clock.advance(10 * HOUR)  # Friday, 18:00.
    await sequences.people(ANN)
    key = await sequences.start(an_email("one"), wait, an_email("two"))
    await sequences.enrol(key, ANN)
    rehearsal = await sequences.engine.sequences.rehearsals.rehearse(DEFAULT_TENANT, key, days=14)
    await sequences.run_and_send(key, 2 * DAY + HOUR)
    [run] = await sequences.engine.sequences.explanations.of_sequence(DEFAULT_TENANT, key, ANN)
    assert run.unsent_step == "one"
    assert "counts from when the email one is sent" in run_text(run, sequences.clock.now())
    figures = await load_step_report(sequences.database, await sequences.engine.sequences.find(DEFAULT_TENANT, key))
    assert (figures.steps["pause"].waiting, figures.steps["pause"].unsent) == (1, 1)
    await sequences.run_and_send(key, 14 * DAY)
    sent = [(step, isoformat(at)[:16]) for step, at in await sequences.sent()]
    assert sent == [("one", "2027-01-18T09:00"), ("two", expected)]
    assert {str(day.day): day.by_step for day in rehearsal.days if day.emails} == {
        at[:10]: {step: 1} for step, at in sent
    }


async def test_restored_backup_sends_nothing_silently(sequences: SequenceBench) -> None:
    await sequences.people(ANN)
    key = await sequences.start(a_wait(), an_email())
    await sequences.enrol(key, ANN)
    await sequences.run()
    hold = SendingHold(HoldReason.RESTORED, sequences.clock.now(), "an older state")
    assert await hold_sending(sequences.database, hold)
    await sequences.run_for(2 * DAY, DAY)
    assert await sequences.recipients() == []
    _, paused = await release_sending(sequences.database, sequences.clock, actor=ACTOR, due=DueMessages.IN_DOUBT)
    assert paused.sequences == (("default", key),)
    found = await sequences.engine.sequences.find(DEFAULT_TENANT, key)
    assert found.status is SequenceStatus.PAUSED
    await sequences.run()
    assert await sequences.recipients() == []
    with pytest.raises(OverdueUndecided):
        await sequences.engine.sequences.resume(DEFAULT_TENANT, key, actor=ACTOR)


async def test_objects_of_a_sequence_are_not_deleted(sequences: SequenceBench) -> None:
    database, clock = sequences.database, sequences.clock
    await lists(sequences, "news")
    await segments.create(database, clock, DEFAULT_TENANT, "pros", filter_={"attribute": "plan", "is": "pro"})
    key = await sequences.start(trigger={"entersSegment": "pros"}, list="news")
    removal = make_template_removal(sequences.engine.settings, database, clock)
    with pytest.raises(TemplateInUse, match="the sequence Welcome uses it"):
        await removal.delete(DEFAULT_TENANT, WELCOME, actor=ACTOR)
    with pytest.raises(ListInUse, match="the sequence Welcome uses it"):
        await ListRemoval(database, clock).delete(DEFAULT_TENANT, "news", actor=ACTOR)
    with pytest.raises(SegmentInUse, match="the sequence Welcome uses it"):
        await delete_segment(database, clock, DEFAULT_TENANT, "pros", actor=ACTOR)
    await sequences.engine.sequences.remove(DEFAULT_TENANT, key, actor=ACTOR)
    await removal.delete(DEFAULT_TENANT, WELCOME, actor=ACTOR)
    await ListRemoval(database, clock).delete(DEFAULT_TENANT, "news", actor=ACTOR)
    await delete_segment(database, clock, DEFAULT_TENANT, "pros", actor=ACTOR)


@pytest.mark.parametrize(("reentry", "runs"), [("never", 1), ("each", 0)])
async def test_retention_keeps_rows_that_reentry_needs(sequences: SequenceBench, reentry: str, runs: int) -> None:
    await sequences.people(ANN, BOB)
    key = await sequences.start(an_email(), reentry=reentry)
    await sequences.enrol(key, ANN)
    await sequences.run()
    sequences.clock.advance(31 * DAY)
    database, clock, kind = sequences.database, sequences.clock, RetentionKind.SEQUENCES
    retention = Retention(RetentionServices(database, clock, 30))
    await set_rule(database, clock, DEFAULT_TENANT, kind, days=30, exports=False, actor=ACTOR)
    assert (await retention.preview(DEFAULT_TENANT, kind, 30)).rows == 2
    rule = await retention.run_batch(RetentionRule(DEFAULT_TENANT, kind, 30, exports=False), 100)
    assert rule.rows == 2 - runs
    assert await sequences.history() == []
    assert len(await sequences.enrolments(key)) == runs
    assert (await sequences.enrol(key, ANN)).enrolled == 1 - runs
    # A later run does not get the key of a deleted one, whose emails still exist.
    await sequences.enrol(key, BOB)
    await sequences.run()
    assert await sequences.recipients() == [ANN] * (2 - runs) + [BOB]


HELLO_FIRST = (an_email("hello"), a_wait("two-days", days=2), an_email("tips"))
HELLO_LATER = (a_wait("two-days", days=2), an_email("hello"), an_email("tips"))


async def test_moved_email_is_not_sent_twice(sequences: SequenceBench) -> None:
    await sequences.people(ANN, BOB)
    key = await sequences.start(*HELLO_FIRST)
    await sequences.enrol(key, ANN)
    await sequences.run()
    await sequences.send()
    plan = await sequences.publish(key, *HELLO_LATER)
    assert (plan.stays, plan.received) == (1, {"hello": 1})
    assert [(each.email, each.received) for each in plan.affected] == [(ANN, ("hello",))]
    # Another version does not forget it.
    assert (await sequences.publish(key, *HELLO_LATER, a_wait("rest"))).received == {"hello": 1}
    [run] = await sequences.engine.sequences.explanations.of_sequence(DEFAULT_TENANT, key, ANN)
    assert run.next_node == "tips"
    await sequences.enrol(key, BOB)
    rehearsal = await sequences.engine.sequences.rehearsals.rehearse(DEFAULT_TENANT, key)
    await sequences.run_for(4 * DAY, DAY)
    assert [(email, node, outcome) for email, node, outcome, _ in await sequences.history()] == [
        (ANN, "hello", "sent"),
        (ANN, "hello", "already_received"),
        (ANN, "tips", "sent"),
        (BOB, "hello", "sent"),
        (BOB, "tips", "sent"),
    ]
    assert rehearsal.emails == 3


HELLO_RENAMED = (a_wait("two-days", days=2), an_email("hello-later"), an_email("tips", template=OTHER))


async def test_email_under_a_new_step_id_is_not_sent_twice(sequences: SequenceBench) -> None:
    """Its template was received in this run, under the ID that the step had before."""
    await another_template(sequences)
    await sequences.people(ANN, BOB)
    key = await sequences.start(an_email("hello"), a_wait("two-days", days=2), an_email("tips", template=OTHER))
    await sequences.enrol(key, ANN)
    await sequences.run()
    await sequences.send()
    plan = await sequences.publish(key, *HELLO_RENAMED)
    assert (plan.stays, plan.received) == (1, {"hello-later": 1})
    # Another version does not forget it.
    assert (await sequences.publish(key, *HELLO_RENAMED, a_wait("rest"))).received == {"hello-later": 1}
    await sequences.enrol(key, BOB)
    rehearsal = await sequences.engine.sequences.rehearsals.rehearse(DEFAULT_TENANT, key)
    await sequences.run_for(4 * DAY, DAY)
    assert [(email, node, outcome) for email, node, outcome, _ in await sequences.history()] == [
        (ANN, "hello", "sent"),
        (ANN, "hello-later", "already_received"),
        (ANN, "tips", "sent"),
        (BOB, "hello-later", "sent"),
        (BOB, "tips", "sent"),
    ]
    assert rehearsal.emails == 3


async def test_template_of_an_earlier_version_counts_as_received(sequences: SequenceBench) -> None:
    """The step has another template now, and a new step has the one that the person received."""
    await another_template(sequences)
    await sequences.people(ANN)
    key = await sequences.start(an_email("hello"), a_wait())
    await sequences.enrol(key, ANN)
    await sequences.run()
    changed = (an_email("hello", template=OTHER), a_wait())
    assert (await sequences.publish(key, *changed, an_email("again", template=OTHER))).received == {}
    assert (await sequences.publish(key, *changed, an_email("last", subject="Reminder"))).received == {"last": 1}
    other = an_email("later", variables={"text": "Another email"})
    assert (await sequences.publish(key, *changed, other)).received == {}
    # The step that is expected gets the template that they received.
    assert (await sequences.publish(key, *changed, an_email("later"))).received == {"later": 1}


async def another_template(sequences: SequenceBench) -> None:
    await sequences.engine.templates.put(DEFAULT_TENANT, OTHER, subject="Tips", html="<p>Tips</p>", text=None)


async def test_moved_email_is_sent_again_on_request(sequences: SequenceBench) -> None:
    await sequences.people(ANN)
    key = await sequences.start(*HELLO_FIRST)
    await sequences.enrol(key, ANN)
    await sequences.run()
    await sequences.publish(key, *HELLO_LATER, received=Received.SEND)
    assert (await sequences.publish(key, *HELLO_LATER, a_wait("rest"))).received == {}  # It was decided.
    await sequences.run_for(4 * DAY, DAY)
    assert [node for _, node, outcome, _ in await sequences.history() if outcome == "sent"] == [
        "hello",
        "hello",
        "tips",
    ]


async def test_email_in_a_cycle_may_repeat(sequences: SequenceBench) -> None:
    await sequences.people(ANN)
    key = await sequences.start(an_email("hello"), a_wait("two-days", days=2))
    await sequences.enrol(key, ANN)
    await sequences.run()
    plan = await sequences.publish(key, an_email("hello"), a_wait("two-days", days=2), {"id": "back", "goTo": "hello"})
    assert plan.received == {}
    await sequences.run_for(4 * DAY, DAY)
    assert len(await sequences.recipients()) == 3
