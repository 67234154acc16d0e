"""The rehearsal on a virtual clock runs the same steps at the same times as a worker."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, select

from mailwright.domain.clock import DAY, HOUR, Instant
from mailwright.sources.sequences.enrol import People
from mailwright.sources.sequences.program import Node
from mailwright.sources.sequences.rehearsal import Rehearsals
from mailwright.sources.sequences.simulation import Simulated
from mailwright.storage.tables import (
    contact_tags,
    contacts,
    sequence_enrolments,
    sequence_steps,
    sequence_versions,
    sequences,
    subscriptions,
    suppressions,
)
from tests.builders import DEFAULT_TENANT, change_tenant
from tests.examples import examples
from tests.sequences import SequenceBench, a_document, a_wait, an_email, lists

NEWS = "news"
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
    st.just({"notify": {"to": "team@example.com", "subject": "Look", "text": "Here"}}),
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
documents = st.builds(
    lambda steps, again, exits, goal: a_document(
        *numbered([*steps, *([{"wait": {"hours": 50}}, {"goTo": "s0"}] if again else [])], []),
        list=NEWS,
        exits=exits,
        **({} if goal is None else {"goal": goal}),
    ),
    st.lists(steps_of, min_size=1, max_size=5),
    st.booleans(),
    st.lists(conditions | st.just({"event": "never"}), max_size=1),
    st.none() | conditions,
)


History = list[tuple[int, str, str, Instant]]


async def rehearse(at: SequenceBench, sequence_id: str) -> History:
    found: History = []

    def on_step(person: Simulated, node: Node, outcome: str, at: Instant) -> None:
        found.append((person.contact_key, node.id, outcome, at))

    people = People(emails=tuple(PEOPLE))
    rehearsals = Rehearsals(at.database, at.clock)
    await rehearsals.rehearse(DEFAULT_TENANT, sequence_id, people=people, days=DAYS, on_step=on_step)
    return sorted(found, key=lambda step: step[0])  # The sort keeps the order of each person's steps.


async def run_worker(at: SequenceBench, sequence_id: str) -> History:
    """Run everything that is due, moving the clock from one due time to the next."""
    await at.enrol(sequence_id, *PEOPLE)
    end = at.clock.now() + DAYS * DAY
    while True:
        await at.watch()
        await at.run()
        due = [each.due_at for each in await at.enrolments(sequence_id) if each.due_at is not None]
        if not due or min(due) > end:
            break
        at.clock.advance(min(due) - at.clock.now())
    e, s = sequence_enrolments.c, sequence_steps.c
    joined = select(e.contact_key, s.node, s.outcome, s.at).join_from(
        sequence_steps, sequence_enrolments, e.id == s.enrolment_key
    )
    async with at.database.read() as tx:
        rows = await tx.execute(joined.order_by(e.contact_key, s.visit))
    return [tuple(row) for row in rows]


async def reset(at: SequenceBench) -> None:
    """Bring everyone back to where they were, and let another worker begin: SQLite uses the deleted keys again."""
    at.runner = at.another_runner()
    tables = (sequences, sequence_versions, sequence_enrolments, sequence_steps, subscriptions, suppressions)
    async with at.database.write() as tx:
        for table in (*tables, contact_tags, contacts):
            await tx.execute(delete(table))
    for email, (zone, attributes) in PEOPLE.items():
        await at.people(email, list_key=NEWS, timezone=zone, attributes=attributes)


@pytest.fixture
async def prepared(sequences: SequenceBench) -> SequenceBench:
    await lists(sequences, NEWS, "other")
    return sequences


@pytest.mark.promise("sequence-rehearsal")
@settings(
    max_examples=examples(15),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(document=documents)
async def test_rehearsal_equals_what_a_worker_does(prepared: SequenceBench, document: dict[str, Any]) -> None:
    await reset(prepared)
    key = await prepared.start(**document)
    expected = await rehearse(prepared, key)
    assert await run_worker(prepared, key) == expected


async def test_rehearsal_counts_the_emails_of_each_day(prepared: SequenceBench) -> None:
    await reset(prepared)
    await change_tenant(prepared.database, daily_limit=2)
    key = await prepared.start(an_email("one"), a_wait(days=2), an_email("two"), list=NEWS)
    result = await Rehearsals(prepared.database, prepared.clock).rehearse(
        DEFAULT_TENANT, key, people=People(list_key=NEWS), days=3
    )
    assert (result.people, result.emails, result.still_in, result.ended) == (3, 6, 0, {"finished": 3})
    assert [(day.emails, day.by_step, day.is_over_limit) for day in result.days] == [
        (3, {"one": 3}, True),
        (0, {}, False),
        (3, {"two": 3}, True),
        (0, {}, False),
    ]


async def test_rehearsal_follows_people_who_are_in_it(prepared: SequenceBench) -> None:
    await reset(prepared)
    key = await prepared.start(an_email("one"), a_wait(days=2), an_email("two"), list=NEWS)
    await prepared.enrol(key, "ann@example.com")
    await prepared.run()
    prepared.clock.advance(HOUR)
    result = await Rehearsals(prepared.database, prepared.clock).rehearse(DEFAULT_TENANT, key, days=3)
    assert [day.by_step for day in result.days] == [{}, {}, {"two": 1}, {}]
