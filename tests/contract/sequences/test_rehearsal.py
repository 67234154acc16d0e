"""The rehearsal on a virtual clock runs the same steps at the same times as a worker."""

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, select, update

from mailwright.audience.contacts import ContactChange
from mailwright.audience.contacts import put as put_contact
from mailwright.audience.lists import create as create_list
from mailwright.audience.snooze import snooze
from mailwright.audience.status import ContactStatusService
from mailwright.domain.clock import DAY, HOUR, Instant
from mailwright.domain.states import CLAIMABLE, Status
from mailwright.sources.sequences.enrol import People
from mailwright.sources.sequences.program import Node
from mailwright.sources.sequences.rehearsal import DeferredEmails
from mailwright.sources.sequences.simulation import Simulated
from mailwright.storage.tables import (
    bulk_sends,
    contact_tags,
    contacts,
    counters,
    deliveries,
    lane_deferrals,
    messages,
    sequence_enrolments,
    sequence_steps,
    sequence_versions,
    sequences,
    subscriptions,
    suppressions,
)
from mailwright.texts.sequences import left_out_texts
from tests.builders import DEFAULT_TENANT, a_contact, change_tenant
from tests.examples import examples
from tests.sequences import ACTOR, SequenceBench, a_document, a_wait, an_email, lists

NEWS = "news"
NOTIFY = {"id": "tell", "notify": {"to": "team@example.com", "subject": "Look", "text": "Here"}}
JOIN_OTHER = {"id": "join", "change": {"subscribe": ["other"]}}
DAYS = 12
PEOPLE = {
    "ann@example.com": ("Asia/Tokyo", '{"plan": "pro", "age": 40}'),
    "bob@example.com": (None, '{"plan": "free"}'),
    "cid@example.com": ("America/Lima", "{}"),
}

conditions = st.sampled_from(
    [
        {"tag": "vip"},
        {"attribute": "plan", "is": "pro"},
        {"attribute": "age", "atLeast": 18},
        {"attribute": "plan", "exists": False},
        {"list": "other"},
        {"not": {"tag": "vip"}},
        {"any": [{"tag": "vip"}, {"all": [{"attribute": "plan", "isNot": "free"}, {"list": NEWS}]}]},
    ]
)
changes = st.sampled_from(
    [
        {"addTags": ["vip"]},
        {"removeTags": ["vip"]},
        {"attributes": {"plan": "pro"}},
        {"attributes": {"plan": None, "age": 5}},
        {"subscribe": ["other"]},
        {"unsubscribe": ["other"]},
        {"unsubscribe": [NEWS]},
    ]
)
waits = st.builds(lambda days, hours: {"wait": {"days": days, "hours": hours}}, st.integers(0, 3), st.integers(1, 23))
times = st.builds(
    lambda days, hour: {"waitUntil": {"weekdays": days, "time": f"{hour:02}:30"}},
    st.lists(st.sampled_from(["mon", "wed", "sat"]), min_size=1, max_size=2, unique=True),
    st.integers(0, 23),
)
simple = st.one_of(
    st.just({"send": {"template": "welcome"}}),
    waits,
    times,
    changes.map(lambda change: {"change": change}),
    st.sampled_from(["Here", "{{ plan }}"]).map(
        lambda text: {"notify": {"to": "team@example.com", "subject": "Look", "text": text}}
    ),
)


def nested(steps: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    paths = st.lists(steps, max_size=3)
    return st.one_of(
        st.builds(lambda c, a, b: {"branch": [{"if": c, "steps": a}], "else": b}, conditions, paths, paths),
        st.builds(
            lambda n, a, b: {"split": [{"percent": n, "steps": a}, {"percent": 100 - n, "steps": b}]},
            st.integers(1, 99),
            paths,
            paths,
        ),
        st.builds(
            lambda wanted, a, b: {"waitFor": {**wanted, "timeout": {"hours": 30}}, "then": a, "else": b},
            conditions.map(lambda condition: {"filter": condition})
            | st.just({"event": "never", "where": {"total": 5}}),
            paths,
            paths,
        ),
    )


def numbered(steps: list[Any], numbers: list[int]) -> list[Any]:
    """Give each step an ID, in the order of the document."""
    found = []
    for step in steps:
        numbers.append(len(numbers))
        made = {"id": f"s{numbers[-1]}", **step}
        for name in ("branch", "split"):
            if name in made:
                made[name] = [{**path, "steps": numbered(path["steps"], numbers)} for path in made[name]]
        for name in ("then", "else"):
            if name in made:
                made[name] = numbered(made[name], numbers)
        found.append(made)
    return found


steps_of = st.recursive(simple, nested, max_leaves=6)
emails = st.lists(st.just({"send": {"template": "welcome"}}) | waits, min_size=2, max_size=5)
documents = st.builds(
    lambda first, steps, again, exits, goal: a_document(
        *numbered(
            [
                {"send": {"template": "welcome"}},
                *first,
                *steps,
                *([{"wait": {"hours": 50}}, {"goTo": "s0"}] if again else []),
            ],
            [],
        ),
        list=NEWS,
        exits=exits,
        **({} if goal is None else {"goal": goal}),
    ),
    emails,
    st.lists(steps_of, min_size=1, max_size=5),
    st.booleans(),
    st.lists(conditions | st.just({"event": "never"}), max_size=1),
    st.none() | conditions,
)


limits = st.fixed_dictionaries(
    {
        "working_hours": st.sampled_from([None, "09:00-17:00", "Mon 10:00-12:00, Fri 20:00-24:00"]),
        "timezone": st.sampled_from([None, "America/New_York"]),
        "frequency_cap": st.sampled_from([None, "1 per day", "1 per 4 days", "2 per 3 days"]),
        "rate_per_hour": st.sampled_from([None, 1, 2]),
        "daily_limit": st.sampled_from([None, 1, 2, 4]),
    }
)

NO_LIMITS: dict[str, Any] = dict.fromkeys(
    ("working_hours", "timezone", "frequency_cap", "rate_per_hour", "daily_limit")
)
# For how many hours each person has paused bulk email.
pauses = st.lists(st.sampled_from([0, 20, 60, 100]), min_size=3, max_size=3)
NO_PAUSES = [0, 0, 0]
History = list[tuple[int, str, str, Instant]]
# The emails by day and step, and how many were never sent or still wait.
Emails = tuple[dict[tuple[date, str], int], int, int]


async def rehearse(at: SequenceBench, sequence_id: str) -> tuple[History, Emails]:
    found: History = []

    def on_step(person: Simulated, node: Node, outcome: str, at: Instant) -> None:
        found.append((person.contact_key, node.id, outcome, at))

    result = await at.engine.sequences.rehearsals.rehearse(
        DEFAULT_TENANT, sequence_id, people=People(emails=tuple(PEOPLE)), days=DAYS, on_step=on_step
    )
    sent = {(day.day, step): number for day in result.days for step, number in day.by_step.items()}
    # The sort keeps the order of each person's steps.
    return sorted(found, key=lambda step: step[0]), (sent, result.failed + result.cancelled, result.waiting)


async def run_worker(at: SequenceBench, sequence_id: str, zone: ZoneInfo) -> tuple[History, Emails]:
    """Run steps and send emails whenever something is due, moving the clock from one time to the next."""
    await at.enrol(sequence_id, *PEOPLE)
    await at.run_and_send(sequence_id, DAYS * DAY)
    e, s = sequence_enrolments.c, sequence_steps.c
    joined = select(e.contact_key, s.node, s.outcome, s.at, deliveries.c.status, deliveries.c.sent_at).join_from(
        sequence_steps, sequence_enrolments, e.id == s.enrolment_key
    )
    joined = joined.outerjoin(messages, messages.c.outbox_id == s.outbox_id).outerjoin(
        deliveries, (deliveries.c.message_key == messages.c.id) & (s.kind == "send")
    )
    async with at.database.read() as tx:
        rows = await tx.execute(joined.order_by(e.contact_key, s.visit))
    sent: Counter[tuple[date, str]] = Counter()
    for row in rows:
        if row.status == Status.SENT:
            sent[datetime.fromtimestamp(row.sent_at / 1000, UTC).astimezone(zone).date(), row.node] += 1
    states = Counter(row.status for row in rows if row.status is not None)
    waiting = sum(states.pop(status, 0) for status in CLAIMABLE)
    return [tuple(row)[:4] for row in rows], (dict(sent), states.total() - states[Status.SENT], waiting)


async def reset(at: SequenceBench) -> None:
    """Bring everyone back to where they were, and let another worker begin: SQLite uses the deleted keys again."""
    at.runner = at.another_runner()
    tables = (sequences, sequence_versions, sequence_enrolments, sequence_steps, subscriptions, suppressions)
    sending = (bulk_sends, counters, lane_deferrals, deliveries, messages)
    async with at.database.write() as tx:
        for table in (*tables, *sending, contact_tags, contacts):
            await tx.execute(delete(table))
    for email, (zone, attributes) in PEOPLE.items():
        await at.people(email, list_key=NEWS, timezone=zone, attributes=attributes)


@pytest.fixture
async def prepared(sequences: SequenceBench) -> SequenceBench:
    await lists(sequences, NEWS, "other")
    return sequences


@pytest.mark.promise("sequence-rehearsal")
@settings(
    max_examples=examples(5),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(document=documents, limits=limits, pauses=pauses)
# A change that decides about an exit and a branch within the same minute.
@example(
    document=a_document(
        {"id": "join", "change": {"subscribe": ["other"], "addTags": ["vip"]}},
        {"id": "is-on", "branch": [{"if": {"list": "other"}, "steps": [an_email("yes")]}], "else": [an_email("no")]},
        list=NEWS,
        exits=[{"all": [{"tag": "vip"}, {"attribute": "plan", "is": "pro"}]}],
    ),
    limits=NO_LIMITS,
    pauses=NO_PAUSES,
)
# The emails of a person leave hours after their steps, and the waits follow them.
@example(
    document=a_document(
        an_email("one"), an_email("two"), a_wait(hours=3), an_email("three"), a_wait("rest", hours=20), list=NEWS
    ),
    limits={**NO_LIMITS, "working_hours": "09:00-12:00", "rate_per_hour": 1},
    pauses=NO_PAUSES,
)
# After a limit, emails leave in the order in which they were accepted, not in that in which a cap released them.
@example(
    document=a_document(an_email("one"), an_email("two"), an_email("three"), a_wait("rest"), list=NEWS),
    limits={**NO_LIMITS, "working_hours": "Mon 10:00-12:00, Fri 20:00-24:00", "frequency_cap": "1 per day"}
    | {"rate_per_hour": 1},
    pauses=NO_PAUSES,
)
# Emails to the team use the limits, too, and come first.
@example(
    document=a_document(an_email("one"), NOTIFY, a_wait(hours=30), an_email("two"), a_wait("rest"), list=NEWS),
    limits={**NO_LIMITS, "working_hours": "09:00-17:00", "daily_limit": 2},
    pauses=NO_PAUSES,
)
# The lifetime of an email to somebody who paused counts from its step, not from the next working hours.
@example(
    document=a_document(an_email("one"), a_wait(hours=20), an_email("two"), a_wait("rest"), list=NEWS),
    limits={**NO_LIMITS, "working_hours": "Mon 10:00-12:00"},
    pauses=[90, 20, 90],
)
async def test_rehearsal_equals_the_work_of_a_worker(
    prepared: SequenceBench, document: dict[str, Any], limits: dict[str, Any], pauses: list[int]
) -> None:
    """A worker runs the same steps and sends the same emails on the same days, under all limits together."""
    await reset(prepared)
    await change_tenant(prepared.database, **limits)
    for email, hours in zip(PEOPLE, pauses, strict=True):
        if hours:
            until = prepared.clock.now() + hours * HOUR
            await snooze(prepared.database, prepared.clock, DEFAULT_TENANT, email, until, actor=ACTOR)
    key = await prepared.start(**document)
    expected = await rehearse(prepared, key)
    assert await run_worker(prepared, key, ZoneInfo(limits["timezone"] or "UTC")) == expected


async def test_rehearsal_counts_the_emails_of_each_day(prepared: SequenceBench) -> None:
    await reset(prepared)
    await change_tenant(prepared.database, daily_limit=2)
    key = await prepared.start(an_email("one"), a_wait(days=2), an_email("two"), list=NEWS)
    result = await prepared.engine.sequences.rehearsals.rehearse(
        DEFAULT_TENANT, key, people=People(list_key=NEWS), days=4
    )
    assert (result.people, result.emails, result.still_in, result.ended) == (3, 6, 0, {"finished": 3})
    assert [(day.emails, day.by_step, day.is_over_limit) for day in result.days] == [
        (2, {"one": 2}, True),
        (1, {"one": 1}, False),
        (2, {"two": 2}, False),  # The third person's wait counts from their first email.
        (1, {"two": 1}, False),
        (0, {}, False),
    ]
    assert result.days[0].deferred == (DeferredEmails("one", "daily_limit", 1, 0),)


async def test_rehearsal_names_the_limits_that_hold_emails(prepared: SequenceBench) -> None:
    await reset(prepared)
    await change_tenant(prepared.database, working_hours="20:00-21:00", frequency_cap="1 per 7 days", rate_per_hour=1)
    until = prepared.clock.now() + 30 * DAY
    await snooze(prepared.database, prepared.clock, DEFAULT_TENANT, "cid@example.com", until, actor=ACTOR)
    key = await prepared.start(an_email("one"), a_wait(days=1), an_email("two"), list=NEWS)
    result = await prepared.engine.sequences.rehearsals.rehearse(
        DEFAULT_TENANT, key, people=People(list_key=NEWS), days=5
    )
    found = {(each.step, each.reason, each.emails, each.failed) for day in result.days for each in day.deferred}
    assert found == {
        ("one", "outside_hours", 2, 0),  # A pause is looked at first.
        ("one", "rate_per_hour", 1, 0),
        ("one", "snoozed", 1, 1),
        ("two", "outside_hours", 2, 0),
        ("two", "rate_per_hour", 1, 0),
        ("two", "frequency_cap", 1, 1),
        ("two", "snoozed", 1, 1),
    }
    assert (result.emails, result.failed, result.waiting) == (2, 4, 0)


async def test_rehearsal_follows_people_who_are_in_it(prepared: SequenceBench) -> None:
    await reset(prepared)
    key = await prepared.start(an_email("one"), a_wait(days=2), an_email("two"), list=NEWS)
    await prepared.enrol(key, "ann@example.com")
    await prepared.run()
    prepared.clock.advance(HOUR)
    result = await prepared.engine.sequences.rehearsals.rehearse(DEFAULT_TENANT, key, days=3)
    # The first email is still in the outbox, and the wait counts from when it is sent.
    assert [day.by_step for day in result.days] == [{"one": 1}, {}, {"two": 1}, {}]


async def test_rehearsal_leaves_out_people_who_may_not_reenter(prepared: SequenceBench) -> None:
    await reset(prepared)
    key = await prepared.start(an_email(), list=NEWS)
    await prepared.enrol(key, "ann@example.com")
    await prepared.run()
    rehearse, people = prepared.engine.sequences.rehearsals.rehearse, People(emails=["ann@example.com"])
    result = await rehearse(DEFAULT_TENANT, key, people=people)
    assert (result.people, result.already_in, result.re_entry) == (0, 0, 1)
    await a_contact(prepared.database, "stranger@example.com")
    strangers = await rehearse(DEFAULT_TENANT, key, people=People(emails=["stranger@example.com"]))
    assert (strangers.people, strangers.not_eligible) == (0, 1)
    assert left_out_texts(strangers) == [
        "1 person would not enter: they are not subscribed to its list, or to any list if it has none."
    ]
    await prepared.publish(key, an_email(), list=NEWS, reentry={"afterDays": 7})
    prepared.clock.advance(6 * DAY)
    assert (await rehearse(DEFAULT_TENANT, key, people=people)).people == 0
    prepared.clock.advance(2 * DAY)
    assert (await rehearse(DEFAULT_TENANT, key, people=people)).people == 1


async def test_shortened_wait_is_rehearsed_with_its_new_time(sequences: SequenceBench) -> None:
    await sequences.people("ann@example.com")
    key = await sequences.start(an_email("hello"), a_wait(days=20), an_email("tips"))
    await sequences.enrol(key, "ann@example.com")
    await sequences.run_for(DAY, DAY)
    draft = a_document(an_email("hello"), a_wait(days=3), an_email("tips"))
    await sequences.engine.sequences.edit(DEFAULT_TENANT, key, draft, revision=None, actor=ACTOR)
    result = await sequences.engine.sequences.rehearsals.rehearse(DEFAULT_TENANT, key)
    await sequences.engine.sequences.publish(DEFAULT_TENANT, key, actor=ACTOR)
    await sequences.run_for(5 * DAY, HOUR)
    *_, (_, node, _, at) = await sequences.history()
    assert {day.day: day.by_step for day in result.days if day.emails} == {
        datetime.fromtimestamp(at / 1000, UTC).date(): {node: 1}
    }


# How often the workers of `entries` compare triggers, which are all due at 09:00.
EVERY: Instant = 3 * HOUR


async def entries(at: SequenceBench, sequence_id: str, days: int) -> tuple[History, History]:
    """Return the emails of a rehearsal, and those of workers that compare triggers every three hours."""
    planned: History = []

    def on_step(person: Simulated, node: Node, outcome: str, at: Instant) -> None:
        planned.append((person.contact_key, node.id, outcome, at))

    await at.engine.sequences.rehearsals.rehearse(DEFAULT_TENANT, sequence_id, days=days, on_step=on_step)
    for _ in range(days * DAY // EVERY):
        await at.watch()
        await at.run()
        await at.send()
        at.clock.advance(EVERY)
    e, s = sequence_enrolments.c, sequence_steps.c
    query = select(e.contact_key, s.node, s.outcome, s.at).join_from(
        sequence_steps, sequence_enrolments, e.id == s.enrolment_key
    )
    async with at.database.read() as tx:
        rows = await tx.execute(query.order_by(e.contact_key, s.at, s.visit))
    return sorted(planned, key=lambda step: (step[0], step[3])), [tuple(row) for row in rows]


async def test_schedule_enters_people_in_a_rehearsal(prepared: SequenceBench) -> None:
    await reset(prepared)
    prepared.clock.advance(EVERY - prepared.clock.now() % EVERY)
    # The second wait is still running when the trigger is due for the second time.
    steps = (an_email("one"), a_wait(days=3), an_email("two"), a_wait("more", days=2))
    trigger = {"schedule": {"weekdays": ["mon", "thu"], "time": "09:00"}, "list": NEWS}
    key = await prepared.start(*steps, list=NEWS, trigger=trigger, reentry={"afterDays": 6})
    planned, happened = await entries(prepared, key, 15)
    assert planned == happened
    assert len(planned) >= 3 * 4


async def test_schedule_does_not_rehearse_people_with_failed_steps(prepared: SequenceBench) -> None:
    await reset(prepared)
    html = "<p>{{ plan }}</p>"
    await prepared.engine.templates.put(DEFAULT_TENANT, "plan", subject="Your plan", html=html, text=None)
    trigger = {"schedule": {"time": "09:00"}, "list": NEWS}
    email = {"id": "plan", "send": {"template": "plan"}}
    key = await prepared.start(email, list=NEWS, trigger=trigger, reentry="each")
    prepared.clock.advance(DAY)
    await prepared.watch()
    await prepared.run()
    assert [each.failure is None for each in await prepared.enrolments(key)].count(False) == 1
    result = await prepared.engine.sequences.rehearsals.rehearse(DEFAULT_TENANT, key, days=2)
    assert (result.people, result.emails, result.failed_steps) == (2, 4, ())


async def test_dates_enter_people_in_a_rehearsal(prepared: SequenceBench) -> None:
    await reset(prepared)
    prepared.clock.advance(EVERY - prepared.clock.now() % EVERY)
    today = datetime.fromtimestamp(prepared.clock.now() / 1000, UTC).date()
    birthdays = [f"{1980 + number}-{today + timedelta(days=number):%m-%d}" for number in (0, 3, 40)]
    for email, born in zip(PEOPLE, birthdays, strict=True):
        attributes = ContactChange(attributes={"birthday": born})
        await put_contact(prepared.database, prepared.clock, DEFAULT_TENANT, email, attributes)
    trigger = {"dateAttribute": "birthday", "daysBefore": 1, "at": "09:00", "yearly": True}
    key = await prepared.start(an_email("wish"), list=NEWS, trigger=trigger, reentry="each")
    planned, happened = await entries(prepared, key, 10)
    assert planned == happened
    assert len(planned) == 1


async def test_rehearsal_counts_people_without_required_variables(prepared: SequenceBench) -> None:
    await reset(prepared)
    await prepared.engine.templates.put(
        DEFAULT_TENANT, "plan", subject="Your plan", html="<p>{{ plan }}</p>", text=None
    )
    forget = {"id": "forget", "change": {"attributes": {"plan": None}}}
    again = {"id": "again", "send": {"template": "plan"}}
    key = await prepared.start({"id": "plan", "send": {"template": "plan"}}, forget, again, list=NEWS)
    people = People(list_key=NEWS)
    result = await prepared.engine.sequences.rehearsals.rehearse(DEFAULT_TENANT, key, people=people)
    await prepared.engine.sequences.enrolments.enrol(DEFAULT_TENANT, key, people, actor=ACTOR)
    await prepared.run()
    found = Counter((each.node, each.failure) for each in await prepared.enrolments(key))
    assert {(each.step, each.reason): each.people for each in result.failed_steps} == found
    assert (result.emails, result.still_in, len(found)) == (2, 3, 2)


async def test_rehearsal_subscribes_only_whom_a_worker_would(prepared: SequenceBench) -> None:
    await reset(prepared)
    await create_list(prepared.database, prepared.clock, DEFAULT_TENANT, "strict", requires_confirmation=True)
    status = ContactStatusService(prepared.database, prepared.clock)
    await status.unsubscribe(DEFAULT_TENANT, "ann@example.com", "other", source="link")
    steps = [
        {"id": "join", "change": {"subscribe": ["other", "strict"]}},
        {"id": "other", "branch": [{"if": {"list": "other"}, "steps": [an_email("yes")]}], "else": [an_email("no")]},
        {"id": "strict", "branch": [{"if": {"list": "strict"}, "steps": [an_email("sure")]}]},
        {"id": "leave", "change": {"unsubscribe": ["other"]}},
        {"id": "rejoin", "change": {"subscribe": ["other"]}},
        {"id": "back", "branch": [{"if": {"list": "other"}, "steps": [an_email("in")]}], "else": [an_email("out")]},
    ]
    key = await prepared.start(*steps, list=NEWS)
    planned, _ = await rehearse(prepared, key)
    happened, _ = await run_worker(prepared, key, ZoneInfo("UTC"))
    emails = Counter(node for _, node, outcome, _ in planned if outcome == "sent")
    assert emails == {"yes": 2, "no": 1, "out": 3}
    assert [step[:2] for step in planned] == [step[:2] for step in happened]
    assert "other: unsubscribed; strict: confirmation_required" in happened[0][2]


async def test_rehearsal_without_list_follows_unsubscribes(prepared: SequenceBench) -> None:
    await reset(prepared)
    # Ann is on another list, too; Bob has another legal basis; Cid joins another list later.
    status = ContactStatusService(prepared.database, prepared.clock)
    await status.subscribe(DEFAULT_TENANT, "ann@example.com", "other", source="test")
    async with prepared.database.write() as tx:
        await tx.execute(update(contacts).where(contacts.c.email == "bob@example.com").values(legal_basis="contract"))
    steps = [
        {"id": "leave", "change": {"unsubscribe": [NEWS]}},
        {"id": "is-cid", "branch": [{"if": {"attribute": "plan", "exists": False}, "steps": [JOIN_OTHER]}]},
        an_email("second"),
        {"id": "leave-all", "change": {"unsubscribe": ["other"]}},
        an_email("third"),
    ]
    key = await prepared.start(an_email("first"), *steps, list=None)
    planned = await rehearse(prepared, key)
    assert Counter(node for _, node, outcome, _ in planned[0] if outcome == "sent") == {"first": 3, "second": 2}
    assert await run_worker(prepared, key, ZoneInfo("UTC")) == planned
