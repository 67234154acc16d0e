"""Outside of steps: triggers by segment and date, exits during a wait, and filters that people wait for."""

from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from mailwright.audience import contacts, segments
from mailwright.audience.contact_events import ContactEvents, NewContactEvent
from mailwright.domain.clock import DAY, HOUR, MINUTE
from mailwright.outbox import audit_log
from mailwright.sources.sequences.duties import SequenceDuties
from mailwright.sources.sequences.figures import load_step_report
from mailwright.sources.sequences.segment_edits import edit_segment, preview_edit
from mailwright.storage.database import Database
from tests.builders import DEFAULT_TENANT, change_tenant, statuses
from tests.sequences import SequenceBench, a_wait, an_email, happen, lists

ANN = "ann@example.com"
BOB = "bob@example.com"
PRO = {"attribute": "plan", "is": "pro"}


async def set_attributes(at: SequenceBench, email: str, **attributes: Any) -> None:
    change = contacts.ContactChange(attributes=attributes)
    await contacts.put(at.database, at.clock, DEFAULT_TENANT, email, change)


async def a_segment(at: SequenceBench) -> None:
    await segments.create(at.database, at.clock, DEFAULT_TENANT, "pros", filter_=PRO)


@pytest.mark.parametrize("trigger", ["entersSegment", "leavesSegment"])
@pytest.mark.parametrize("enrols", [False, True])
async def test_edited_segment_enrols_only_on_request(sequences: SequenceBench, trigger: str, enrols: bool) -> None:
    await sequences.people(*(f"{number}@example.com" for number in range(4)), attributes='{"plan": "pro"}')
    await sequences.people(ANN, BOB, attributes='{"plan": "free"}')
    await a_segment(sequences)
    key = await sequences.start(trigger={trigger: "pros"})
    free = {"attribute": "plan", "is": "free"}
    # Who began or ceased to match before the edit enters as always.
    await set_attributes(sequences, ANN, plan="pro")
    await set_attributes(sequences, "0@example.com", plan="gone")
    where = (sequences.database, sequences.clock, DEFAULT_TENANT, "pros")
    expected = [("Welcome", 1 if trigger == "entersSegment" else 4)]
    assert [(each.name, each.people) for each in await preview_edit(*where, free)] == expected
    _, started = await edit_segment(*where, filter_=free, enrols=enrols, actor="console")
    assert [(each.name, each.people) for each in started] == expected
    sequences.clock.advance(MINUTE)
    await sequences.watch()
    assert len(await sequences.enrolments(key)) == 1 + enrols * expected[0][1]
    # Later changes start it as always.
    await set_attributes(sequences, "3@example.com", plan="free")
    await set_attributes(sequences, BOB, plan="gone")
    sequences.clock.advance(MINUTE)
    await sequences.watch()
    [entry, *_] = await audit_log.list_entries(sequences.database, tenant_id=None, limit=1, subject="pros")
    assert entry.detail == {"enrols": enrols, "sequences": {key: expected[0][1]}}
    entered = [each.email for each in await sequences.enrolments(key)]
    assert ("3@example.com" if trigger == "entersSegment" else BOB) in entered


@pytest.mark.parametrize("trigger", ["entersSegment", "leavesSegment"])
async def test_segment_starts_the_sequence_for_changes_only(sequences: SequenceBench, trigger: str) -> None:
    await sequences.people(ANN, attributes='{"plan": "pro"}')
    await sequences.people(BOB)
    await a_segment(sequences)
    key = await sequences.start(trigger={trigger: "pros"}, reentry="each")
    await sequences.watch()
    assert await sequences.enrolments(key) == []
    await set_attributes(sequences, ANN, plan="free")
    await set_attributes(sequences, BOB, plan="pro")
    for _ in range(2):
        sequences.clock.advance(MINUTE)
        await sequences.watch()
        await sequences.run()
    assert await sequences.recipients() == [BOB if trigger == "entersSegment" else ANN]


DATES: list[tuple[str, dict[str, Any], str, list[str]]] = [
    ("birthday", {"daysBefore": 3, "yearly": True}, "1990-01-20", ["2027-01-17"]),
    ("leap_day", {"daysAfter": 0, "yearly": True}, "1992-02-29", ["2027-02-28"]),
    ("renewal", {"daysAfter": 10}, "2027-01-10", ["2027-01-20"]),
    ("joined", {"daysAfter": 10}, "1990-01-10", []),
    ("unknown", {}, "soon", []),
]


async def test_date_starts_the_sequence_on_its_day(sequences: SequenceBench) -> None:
    await change_tenant(sequences.database, timezone="Europe/Lisbon")
    await sequences.people(ANN, attributes=orjson.dumps({name: date for name, _, date, _ in DATES}).decode())
    await sequences.people(BOB)
    keys = {
        name: await sequences.start(name=name, trigger={"dateAttribute": name, **trigger}, reentry="each")
        for name, trigger, _, _ in DATES
    }
    for _ in range(50 * 2):
        sequences.clock.advance(12 * HOUR)
        await sequences.watch()
    for name, _, _, expected in DATES:
        found = await sequences.enrolments(keys[name])
        days = [f"{datetime.fromtimestamp(each.entered_at / 1000, UTC):%Y-%m-%d}" for each in found]
        assert days == expected, name


async def test_dates_missed_for_days_still_start_the_sequence(sequences: SequenceBench) -> None:
    await sequences.people(ANN, attributes='{"renewal": "2027-01-16"}')
    await sequences.people(BOB, attributes='{"renewal": "2027-01-20"}')
    key = await sequences.start(trigger={"dateAttribute": "renewal", "at": "07:00"})
    sequences.clock.advance(7 * DAY)  # No worker ran until 2027-01-22.
    await sequences.watch()
    assert [each.email for each in await sequences.enrolments(key)] == [BOB]


@pytest.mark.promise("sequence-exits")
@pytest.mark.parametrize("name", ["exits", "goal"])
async def test_exit_during_a_wait_cancels_the_unsent_email(sequences: SequenceBench, name: str) -> None:
    await sequences.people(ANN, BOB)
    condition = [PRO] if name == "exits" else PRO
    key = await sequences.start(an_email(), a_wait(), an_email("second"), **{name: condition})
    await sequences.enrol(key, ANN, BOB)
    await sequences.run()
    await set_attributes(sequences, ANN, plan="pro")
    sequences.clock.advance(MINUTE)
    await sequences.watch()
    reasons = {each.email: each.end_reason for each in await sequences.enrolments(key)}
    assert reasons == {ANN: name.removesuffix("s"), BOB: None}
    assert await statuses(sequences.database) == {"CANCELLED": 1, "PENDING": 1}


@pytest.mark.parametrize(("happens", "path"), [(True, "yes"), (False, "no")])
async def test_wait_for_a_filter_ends_early_or_by_timeout(sequences: SequenceBench, happens: bool, path: str) -> None:
    await sequences.people(ANN)
    wait = {
        "id": "until-pro",
        "waitFor": {"filter": PRO, "timeout": {"days": 2}},
        "then": [an_email("yes")],
        "else": [an_email("no")],
    }
    key = await sequences.start(wait)
    await sequences.enrol(key, ANN)
    await sequences.run()
    start = sequences.clock.now()
    if happens:
        await set_attributes(sequences, ANN, plan="pro")
        sequences.clock.advance(MINUTE)
        await sequences.watch()
        await sequences.run()
    else:
        await sequences.run_for(2 * DAY, DAY)
    sent = [(node, at - start) for _, node, outcome, at in await sequences.history() if outcome == "sent"]
    assert sent == [(path, MINUTE if happens else 2 * DAY)]


async def test_event_starts_the_sequence_once_each(sequences: SequenceBench) -> None:
    await sequences.people(ANN, BOB, "cid@example.com")
    await happen(sequences, "order.placed", ANN)  # Before it is published.
    key = await sequences.start(trigger={"event": "order.placed"}, reentry="each")
    await happen(sequences, "order.placed", BOB, "stranger@example.com")
    await happen(sequences, "order.shipped", ANN)
    await happen(sequences, "order.placed", "cid@example.com", ago=3 * DAY)  # Late: reported as history.
    for _ in range(2):
        await sequences.watch()
        await sequences.run()
    assert [(each.email, each.entered_because) for each in await sequences.enrolments(key)] == [
        (BOB, "event order.placed")
    ]
    await happen(sequences, "order.placed", BOB, number=2)
    await sequences.watch()
    await sequences.run()
    assert await sequences.recipients() == [BOB, BOB]


async def test_many_events_of_one_person_start_one_run(sequences: SequenceBench) -> None:
    await sequences.people(ANN)
    key = await sequences.start(an_email(), a_wait(), trigger={"event": "page.viewed"}, reentry="each")
    now = sequences.clock.now()
    events = [NewContactEvent(DEFAULT_TENANT, f"e{number}", ANN, "page.viewed", "{}", now) for number in range(2_500)]
    service = ContactEvents(sequences.database, sequences.clock)
    await service.accept(events)
    await service.close()
    await sequences.watch()
    await sequences.run()
    assert len(await sequences.enrolments(key)) == 1
    assert await sequences.recipients() == [ANN]


@pytest.mark.promise("sequence-exits")
async def test_event_can_be_an_exit(sequences: SequenceBench) -> None:
    await sequences.people(ANN, BOB)
    key = await sequences.start(an_email(), a_wait(), an_email("second"), exits=[{"event": {"name": "order.placed"}}])
    await sequences.enrol(key, ANN, BOB)
    await sequences.run()
    await happen(sequences, "order.placed", ANN)
    await sequences.run_for(DAY, DAY)
    assert {each.email: each.end_reason for each in await sequences.enrolments(key)} == {ANN: "exit", BOB: "finished"}


async def test_wait_for_an_event_ignores_earlier_ones(sequences: SequenceBench) -> None:
    await sequences.people(ANN, BOB)
    wait = {"waitFor": {"event": "order.placed", "timeout": {"days": 2}}}
    key = await sequences.start({"id": "buys", **wait, "then": [an_email("yes")], "else": [an_email("no")]})
    await happen(sequences, "order.placed", ANN, BOB)
    sequences.clock.advance(1)
    await sequences.enrol(key, ANN, BOB)
    await sequences.run()
    sequences.clock.advance(HOUR)
    await happen(sequences, "order.placed", ANN, number=2)
    await sequences.watch()
    await sequences.run()
    assert await sequences.recipients() == [ANN]
    await sequences.run_for(2 * DAY, HOUR)
    sent = {email: node for email, node, outcome, _ in await sequences.history() if outcome == "sent"}
    assert sent == {ANN: "yes", BOB: "no"}


LARGE = {"total": {"atLeast": 100}}


async def test_only_events_with_wanted_properties_count(sequences: SequenceBench) -> None:
    await sequences.people(ANN, BOB)
    wait = {"waitFor": {"event": "order.paid", "where": LARGE, "timeout": {"days": 2}}}
    steps = ({"id": "pays", **wait, "then": [an_email("yes")], "else": [an_email("no")]},)
    key = await sequences.start(*steps, trigger={"event": "order.placed", "where": LARGE})
    await happen(sequences, "order.placed", ANN, properties='{"total": 99}')
    await happen(sequences, "order.placed", BOB, properties='{"total": 100}')
    await sequences.watch()
    await sequences.run()
    assert [each.email for each in await sequences.enrolments(key)] == [BOB]
    for number, total in enumerate((5, 500)):
        sequences.clock.advance(HOUR)
        await happen(sequences, "order.paid", BOB, number=number, properties=f'{{"total": {total}}}')
        await sequences.watch()
        await sequences.run()
        assert await sequences.recipients() == [BOB] * number


@pytest.mark.promise("sequence-exits")
@pytest.mark.parametrize("name", ["exits", "goal"])
async def test_event_since_the_entry_ends_a_run_at_once(sequences: SequenceBench, name: str) -> None:
    await sequences.people(ANN, BOB)
    stop = {"event": "order.placed", "where": LARGE}
    steps = (an_email(), a_wait(), an_email("second"))
    key = await sequences.start(
        *steps, trigger={"event": "order.placed"}, **{name: [stop] if name == "exits" else stop}
    )
    await happen(sequences, "order.placed", ANN, BOB, properties='{"total": 200}')  # Starts the run, does not end it.
    await sequences.watch()
    await sequences.run()
    await happen(sequences, "order.placed", ANN, number=2, properties='{"total": 100}')
    await sequences.watch()
    reasons = {each.email: each.end_reason for each in await sequences.enrolments(key)}
    assert reasons == {ANN: name.removesuffix("s"), BOB: None}
    # A step sees an event that the reader has not read yet.
    sequences.clock.advance(DAY)
    await happen(sequences, "order.placed", BOB, number=2, properties='{"total": 100}')
    await sequences.run()
    assert sorted(await sequences.recipients()) == [ANN, BOB]


async def test_event_right_after_the_trigger_ends_the_run(sequences: SequenceBench) -> None:
    await sequences.people(ANN)
    key = await sequences.start(trigger={"event": "cart.left"}, goal={"event": "order.placed"})
    await happen(sequences, "cart.left", ANN)
    sequences.clock.advance(1_000)
    await happen(sequences, "order.placed", ANN)
    sequences.clock.advance(1_000)
    await sequences.watch()
    await sequences.run()
    assert (await sequences.enrolment(key)).end_reason == "goal"
    assert await sequences.recipients() == []


@pytest.mark.parametrize(("ago", "reason"), [(0, "goal"), (400 * DAY, None)])
async def test_only_history_from_before_the_entry_is_ignored(
    sequences: SequenceBench, ago: int, reason: str | None
) -> None:
    await sequences.people(ANN)
    await happen(sequences, "order.placed", ANN)
    key = await sequences.start(a_wait(days=2), an_email(), goal={"event": "order.placed"})
    await sequences.enrol(key, ANN)
    await sequences.run()
    sequences.clock.advance(-10 * MINUTE)  # The clock of the server was corrected.
    await happen(sequences, "order.placed", ANN, number=2, ago=ago)
    await sequences.watch()
    assert (await sequences.enrolment(key)).end_reason == reason
    await sequences.run_for(3 * DAY, DAY)
    assert (await sequences.enrolment(key)).end_reason == (reason or "finished")


@pytest.mark.parametrize("trigger", [{"entersSegment": "pros"}, {"dateAttribute": "renewal"}])
async def test_clock_that_was_ahead_stops_no_trigger(sequences: SequenceBench, trigger: dict[str, Any]) -> None:
    await sequences.people(ANN)
    await a_segment(sequences)
    key = await sequences.start(trigger=trigger)
    sequences.clock.advance(60 * DAY)
    await sequences.watch()
    sequences.clock.advance(-60 * DAY)
    await sequences.watch()
    await set_attributes(sequences, ANN, plan="pro", renewal="2027-01-17")
    for _ in range(3):
        sequences.clock.advance(DAY)
        await sequences.watch()
    assert [each.email for each in await sequences.enrolments(key)] == [ANN]


async def test_weekly_trigger_with_seven_days_leaves_nobody_out(sequences: SequenceBench) -> None:
    await lists(sequences, "news")
    await sequences.people(ANN, list_key="news")
    weekly = {"schedule": {"weekdays": ["mon"], "time": "09:00"}, "list": "news"}
    key = await sequences.start(trigger=weekly, list="news", reentry={"afterDays": 7})
    sequences.clock.advance(3 * DAY + HOUR + 50_000)  # Monday, 50 seconds after nine.
    for week in range(1, 4):
        await sequences.watch()
        await sequences.run()
        assert len(await sequences.enrolments(key)) == week
        sequences.clock.advance(7 * DAY - 10_000)  # Workers look at different seconds.


async def test_email_uses_the_properties_of_its_event(sequences: SequenceBench) -> None:
    await sequences.people(ANN)
    key = await sequences.start(an_email("cart", subject="Your {{ event.item }}"), trigger={"event": "cart.left"})
    await happen(sequences, "cart.left", ANN, properties='{"item": "lamp"}')
    await sequences.watch()
    await sequences.run()
    assert (await sequences.enrolment(key)).end_reason == "finished"
    assert [each["event"] for each in await sequences.variables()] == [{"item": "lamp"}]


MONDAYS = {"schedule": {"weekdays": ["mon"], "time": "09:00", "timezone": "Europe/Lisbon"}}


async def test_schedule_starts_everyone_of_a_list_each_time(sequences: SequenceBench) -> None:
    await lists(sequences, "news")
    await sequences.people(ANN, list_key="news")
    await sequences.people(BOB)
    key = await sequences.start(trigger={**MONDAYS, "list": "news"}, list="news", reentry="each")
    for _ in range(21 * 4):
        await sequences.watch()
        await sequences.run()
        sequences.clock.advance(6 * HOUR)
    entered = [(each.email, each.entered_because) for each in await sequences.enrolments(key)]
    # The clock starts on Friday, 2027-01-15.
    days = ("2027-02-01", "2027-01-25", "2027-01-18")
    assert entered == [(ANN, f"schedule {day}T09:00:00.000Z") for day in days]


async def test_missed_schedule_starts_at_most_once(sequences: SequenceBench) -> None:
    await sequences.people(ANN)
    await a_segment(sequences)
    await set_attributes(sequences, ANN, plan="pro")
    key = await sequences.start(trigger={**MONDAYS, "segment": "pros"}, reentry="each")
    sequences.clock.advance(17 * DAY + 3 * HOUR)  # No worker ran until 2027-02-01, two hours after the third time.
    for _ in range(3):
        sequences.clock.advance(MINUTE)
        await sequences.watch()
        await sequences.run()
    assert [each.entered_because for each in await sequences.enrolments(key)] == ["schedule 2027-02-01T09:00:00.000Z"]
    sequences.clock.advance(10 * DAY)  # The time on 2027-02-08 is three days late.
    await sequences.watch()
    assert len(await sequences.enrolments(key)) == 1


async def test_clock_that_goes_back_repeats_no_schedule(sequences: SequenceBench) -> None:
    await sequences.people(ANN)
    await a_segment(sequences)
    await set_attributes(sequences, ANN, plan="pro")
    key = await sequences.start(trigger={**MONDAYS, "segment": "pros"}, reentry="each")
    sequences.clock.advance(3 * DAY + 2 * HOUR)
    await sequences.watch()
    await sequences.run()
    sequences.clock.advance(-2 * HOUR)
    for _ in range(4):
        sequences.clock.advance(HOUR)
        await sequences.watch()
        await sequences.run()
    assert len(await sequences.enrolments(key)) == 1


@pytest.mark.promise("sequence-exits")
@pytest.mark.parametrize("stop", ["exits", "goal"])
@pytest.mark.parametrize("kind", ["event", "filter"])
async def test_no_email_follows_an_exit_of_a_finished_run(sequences: SequenceBench, stop: str, kind: str) -> None:
    """Also the last email of a sequence is not sent after an exit or the goal."""
    condition = {"event": "order.placed"} if kind == "event" else {"attribute": "bought", "is": True}
    await sequences.people(ANN, BOB)
    key = await sequences.start(an_email(), **{stop: [condition] if stop == "exits" else condition})
    await sequences.enrol(key, ANN, BOB)
    await sequences.run()
    await stops(sequences, kind)
    await sequences.watch()
    assert await statuses(sequences.database) == {"CANCELLED": 1, "PENDING": 1}
    ends = {each.email: each.end_reason for each in await sequences.enrolments(key)}
    assert ends == {ANN: "goal" if stop == "goal" else "finished", BOB: "finished"}


@pytest.mark.parametrize("kind", ["event", "filter"])
@pytest.mark.parametrize(("after", "end_reason"), [(6 * DAY, "goal"), (8 * DAY, "finished")])
async def test_goal_counts_for_a_week_after_the_last_step(
    sequences: SequenceBench, kind: str, after: int, end_reason: str
) -> None:
    goal = {"event": "order.placed"} if kind == "event" else {"attribute": "bought", "is": True}
    await sequences.people(ANN)
    key = await sequences.start(an_email(), goal=goal, reentry="each")
    await sequences.enrol(key, ANN)
    await sequences.run()
    sequences.clock.advance(after)
    await stops(sequences, kind)
    await sequences.watch()
    assert (await sequences.enrolment(key)).end_reason == end_reason
    stored = await sequences.engine.sequences.find(DEFAULT_TENANT, key)
    report = await load_step_report(sequences.database, stored)
    assert report.median_to_goal == (after if end_reason == "goal" else None)
    await sequences.enrol(key, ANN)
    assert [each.run for each in await sequences.enrolments(key)] == [2, 1]


async def stops(at: SequenceBench, kind: str) -> None:
    """Let Ann buy something."""
    if kind == "event":
        await happen(at, "order.placed", ANN)
    else:
        await set_attributes(at, ANN, bought=True)


async def test_duties_ask_one_question_without_sequences(
    sequences: SequenceBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def count(name: str) -> None:
        real = getattr(Database, name)

        def counted(*arguments: Any, **options: Any) -> Any:
            opened.append(name)
            return real(*arguments, **options)

        monkeypatch.setattr(Database, name, counted)

    for name in ("read", "write", "transact"):
        count(name)
    duties = SequenceDuties(sequences.database, sequences.clock, sequences.engine.templates, "UTC")
    assert (await duties.tick(), opened) == (False, ["read"])
    await sequences.start(an_email())
    opened.clear()
    await duties.tick()
    assert len(opened) > 1
