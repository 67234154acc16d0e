"""Steps of sequences: each happens once for each person, at its time."""

import asyncio
from email import message_from_bytes
from typing import Any

import orjson
import pytest
from sqlalchemy import select, update

from mailwright.audience import segments
from mailwright.domain.clock import DAY, HOUR
from mailwright.domain.errors import InvalidInput
from mailwright.sources.sequences.enrol import People
from mailwright.sources.sequences.overdue import Overdue, OverdueChoice
from mailwright.storage.tables import contact_tags, contacts, messages, subscriptions
from tests.builders import DEFAULT_TENANT, a_contact, change_tenant
from tests.sequences import ACTOR, WELCOME, SequenceBench, a_wait, an_email, happen, lists
from tests.standins.provider import ScriptedProvider

ANN = "ann@example.com"
BOB = "bob@example.com"


@pytest.mark.promise("sequence-steps-once")
async def test_second_email_follows_after_the_wait(sequences: SequenceBench) -> None:
    await sequences.people(ANN)
    key = await sequences.start(an_email("first"), a_wait(days=1), an_email("second"))
    await sequences.enrol(key, ANN)
    start = sequences.clock.now()
    await sequences.run()
    assert (await sequences.enrolment(key)).due_at == start + DAY
    await sequences.send()
    sequences.clock.advance(DAY - 1)
    await sequences.run()
    assert await sequences.recipients() == [ANN]
    sequences.clock.advance(1)
    await sequences.run()
    assert await sequences.history() == [(ANN, "first", "sent", start), (ANN, "second", "sent", start + DAY)]
    ended = await sequences.enrolment(key)
    assert (ended.ended_at, ended.end_reason) == (start + DAY, "finished")


@pytest.mark.promise("sequence-steps-once")
async def test_two_runners_send_each_email_once(sequences: SequenceBench) -> None:
    emails = [f"reader{number}@example.com" for number in range(40)]
    await sequences.people(*emails)
    key = await sequences.start(an_email("first"), an_email("second"))
    await sequences.enrol(key, *emails)
    runners = [sequences.another_runner() for _ in range(4)]
    for _ in range(3):
        await asyncio.gather(*(runner.tick() for runner in runners))
    assert sorted(await sequences.recipients()) == sorted([*emails, *emails])
    assert len(await sequences.history()) == 80


async def test_wait_until_uses_the_contacts_zone(sequences: SequenceBench) -> None:
    await change_tenant(sequences.database, timezone="Europe/Lisbon")
    await sequences.people(ANN, timezone="Asia/Tokyo")
    await sequences.people(BOB)
    key = await sequences.start({"id": "morning", "waitUntil": {"time": "09:00", "weekdays": ["mon"]}}, an_email())
    await sequences.enrol(key, ANN, BOB)
    await sequences.run()
    due = {each.email: each.due_at for each in await sequences.enrolments(key)}
    # 2027-01-18 is the first Monday after the start, 2027-01-15 08:00 UTC.
    assert due == {ANN: 1_800_230_400_000, BOB: 1_800_262_800_000}


async def test_branch_and_split_decide_for_each_person(sequences: SequenceBench) -> None:
    emails = [f"reader{number}@example.com" for number in range(60)]
    for number, email in enumerate(emails):
        await sequences.people(email, attributes='{"plan": "pro"}' if number % 3 == 0 else "{}")
    halves = [{"percent": 50, "steps": [an_email("a")]}, {"percent": 50, "steps": [an_email("b")]}]
    key = await sequences.start(
        {
            "id": "plan",
            "branch": [
                {"if": {"attribute": "plan", "is": "pro"}, "steps": [an_email("pro"), {"id": "x", "end": True}]}
            ],
            "else": [],
        },
        {"id": "halves", "split": halves},
    )
    await sequences.enrol(key, *emails)
    await sequences.run()
    sent = [(email, node) for email, node, outcome, _ in await sequences.history() if outcome == "sent"]
    assert sorted(email for email, node in sent if node == "pro") == sorted(emails[::3])
    shares = [node for _, node in sent if node != "pro"]
    assert len(shares) == 40
    assert 8 < shares.count("a") < 32


async def test_change_is_a_fact_for_the_next_step(sequences: SequenceBench) -> None:
    await lists(sequences, "news", "old", "main")
    await sequences.people(ANN, list_key="main", attributes='{"plan": "free", "age": 5}')
    change = {"addTags": ["vip"], "attributes": {"plan": "pro", "age": None}, "subscribe": ["news"]}
    both = {"all": [{"tag": "vip"}, {"attribute": "plan", "is": "pro"}, {"list": "news"}]}
    key = await sequences.start(
        {"id": "change", "change": {**change, "unsubscribe": ["old"]}},
        {"id": "is-vip", "branch": [{"if": both, "steps": [an_email("vip")]}]},
        list="main",
    )
    await sequences.enrol(key, ANN)
    await sequences.run()
    assert [node for _, node, _, _ in await sequences.history()] == ["change", "is-vip", "vip"]
    async with sequences.database.read() as tx:
        attributes = (await tx.execute(select(contacts.c.attributes)))[0].attributes
        tags = [row.tag for row in await tx.execute(select(contact_tags.c.tag))]
        left = await tx.execute(select(subscriptions.c.list_key).where(subscriptions.c.unsubscribed_at.is_not(None)))
    assert (attributes, tags, [row.list_key for row in left]) == ('{"plan":"pro"}', ["vip"], ["old"])


async def test_unsubscribe_step_ends_its_own_sequence(sequences: SequenceBench) -> None:
    await lists(sequences, "news")
    await sequences.people(ANN, list_key="news")
    key = await sequences.start({"id": "leave", "change": {"unsubscribe": ["news"]}}, an_email(), list="news")
    await sequences.enrol(key, ANN)
    await sequences.run()
    assert await sequences.recipients() == []
    assert (await sequences.enrolment(key)).end_reason == "unsubscribed"


async def test_notification_names_the_person_and_uses_variables(sequences: SequenceBench) -> None:
    await sequences.people(ANN, name="Ann", attributes='{"plan": "<b>pro</b>\\nplan"}')
    body = {"to": "team@example.com", "subject": "{{ email }} has {{ plan }}", "text": "{{ event.total }}: {{ plan }}"}
    await sequences.start({"id": "tell", "notify": body}, trigger={"event": "order.placed"})
    await happen(sequences, "order.placed", ANN, properties='{"total": 90}')
    await sequences.watch()
    await sequences.run()
    async with sequences.database.read() as tx:
        [row] = await tx.execute(
            select(messages.c.to_email, messages.c.subject, messages.c.payload, messages.c.is_bulk)
        )
    assert (row.to_email, row.is_bulk) == ("team@example.com", False)
    assert row.subject == "ann@example.com has <b>pro</b> plan"
    payload = orjson.loads(row.payload)
    who = "Ann <ann@example.com> reached the step tell of the sequence Welcome."
    assert payload["text"] == f"90: <b>pro</b>\nplan\n\n{who}"
    assert payload["html"].startswith("<p>90: &lt;b&gt;pro&lt;/b&gt;\nplan</p>")


async def test_overdue_skip_leaves_out_only_the_email(sequences: SequenceBench) -> None:
    await sequences.people(ANN)
    notify = {"id": "tell", "notify": {"to": "team@example.com", "subject": "Look", "text": "Here"}}
    key = await sequences.start(a_wait(), notify, an_email())
    await sequences.enrol(key, ANN)
    await sequences.run()
    service = sequences.engine.sequences
    await service.pause(DEFAULT_TENANT, key, actor=ACTOR)
    sequences.clock.advance(2 * DAY)
    await service.resume(DEFAULT_TENANT, key, overdue=OverdueChoice(Overdue.SKIP), actor=ACTOR)
    await sequences.run()
    outcomes = [(node, outcome) for _, node, outcome, _ in await sequences.history()]
    assert outcomes == [("tell", "notified"), ("first", "skipped")]


async def test_notification_without_its_value_fails_and_is_skipped(sequences: SequenceBench) -> None:
    await sequences.people(ANN)
    body = {"to": "team@example.com", "subject": "Look", "text": "They have {{ plan }}"}
    key = await sequences.start({"id": "tell", "notify": body}, an_email())
    await sequences.enrol(key, ANN)
    await sequences.run()
    assert (await sequences.enrolment(key)).failure == (
        "The email of the step tell needs plan, which the contact does not have. "
        "Add the value to the contact or a default to the step, then retry."
    )
    await sequences.engine.sequences.enrolments.retry(DEFAULT_TENANT, key, email=ANN, skips=True, actor=ACTOR)
    await sequences.run()
    assert [(node, outcome) for _, node, outcome, _ in await sequences.history()] == [
        ("tell", "skipped"),
        ("first", "sent"),
    ]


async def test_loop_repeats_once_for_each_wait(sequences: SequenceBench) -> None:
    await sequences.people(ANN)
    key = await sequences.start(an_email("again"), a_wait("hour", hours=1), {"id": "back", "goTo": "again"})
    await sequences.enrol(key, ANN)
    await sequences.run_for(3 * HOUR, HOUR)
    assert await sequences.recipients() == [ANN] * 4


async def test_subject_of_a_step_is_rendered_for_each_person(sequences: SequenceBench) -> None:
    await sequences.people(ANN, name="Ann", attributes='{"plan": "pro", "vip": true}')
    await sequences.people(BOB, name="Bob", attributes='{"plan": "free"}')
    await sequences.people("cid@example.com")
    database, clock = sequences.database, sequences.clock
    await segments.create(database, clock, DEFAULT_TENANT, "vips", filter_={"attribute": "vip", "is": True})
    subject = '{{ name }}, your {{ plan }} plan{% if in_segments["vips"] %}!{% endif %}'
    key = await sequences.start(an_email(subject=subject), an_email("plain"))
    await sequences.enrol(key, ANN, BOB, "cid@example.com")
    await sequences.run()
    [failed] = [each for each in await sequences.enrolments(key) if each.failure]
    assert (failed.email, "needs plan" in failed.failure) == ("cid@example.com", True)
    provider = ScriptedProvider()
    await sequences.bench.drain(provider)
    sent = [message_from_bytes(each.content)["subject"] for each in provider.messages]
    assert sorted(sent) == ["Ann, your pro plan!", "Bob, your free plan", "Welcome", "Welcome"]


@pytest.mark.promise("sequence-steps-once")
async def test_failed_step_waits_for_a_retry_or_a_skip(sequences: SequenceBench) -> None:
    await sequences.people(ANN, BOB)
    await sequences.people("cid@example.com", attributes='{"plan": "pro"}')
    key = await sequences.start(an_email(), a_wait(), an_email("second"))
    await sequences.engine.templates.put(DEFAULT_TENANT, WELCOME, subject="Your {{ plan }}", html="<p>1</p>", text=None)
    await sequences.enrol(key, ANN, BOB, "cid@example.com")
    await sequences.run()
    assert await sequences.recipients() == ["cid@example.com"]
    failures = {each.email: each.failure for each in await sequences.enrolments(key) if each.failure}
    assert list(failures) == [BOB, ANN]
    assert failures[ANN] == (
        "The email of the step first needs plan, which the contact does not have. "
        "Add the value to the contact or to the step, then retry."
    )
    enrolments = sequences.engine.sequences.enrolments
    assert await enrolments.retry(DEFAULT_TENANT, key, email=BOB, skips=True, actor="test") == 1
    async with sequences.database.write() as tx:
        await tx.execute(update(contacts).where(contacts.c.email == ANN).values(attributes='{"plan": "pro"}'))
    assert await enrolments.retry(DEFAULT_TENANT, key, email=None, skips=False, actor="test") == 1
    await sequences.run()
    outcomes = {email: outcome for email, node, outcome, _ in await sequences.history() if node == "first"}
    assert outcomes == {ANN: "sent", BOB: "skipped", "cid@example.com": "sent"}
    assert await sequences.recipients() == ["cid@example.com", ANN]


async def test_ineligible_person_is_not_enrolled(sequences: SequenceBench) -> None:
    await sequences.people(ANN)
    await a_contact(sequences.database, BOB)
    key = await sequences.start()
    result = await sequences.enrol(key, ANN, BOB, "nobody@example.com")
    assert (result.enrolled, result.already_in, result.not_eligible, result.unknown) == (1, 0, 1, 1)
    assert (await sequences.enrol(key, ANN)).already_in == 1
    with pytest.raises(InvalidInput, match="'not an address': This is not an email address") as refused:
        await sequences.enrol(key, ANN, BOB, "not an address")
    assert refused.value.field == "emails[2]"
    unknown = People(list_key="offers")
    with pytest.raises(InvalidInput, match="There is no list 'offers'") as refused:
        await sequences.engine.sequences.enrolments.enrol(DEFAULT_TENANT, key, unknown, actor=ACTOR)
    assert refused.value.field == "list"
    both = People(emails=(BOB,), list_key="news")
    with pytest.raises(InvalidInput, match="only one of them"):  # Otherwise BOB would be left out without a word.
        await sequences.engine.sequences.enrolments.enrol(DEFAULT_TENANT, key, both, actor=ACTOR)


async def test_name_of_an_archived_sequence_can_be_used_again(sequences: SequenceBench) -> None:
    service, first = sequences.engine.sequences, await sequences.start()
    await service.remove(DEFAULT_TENANT, first, actor=ACTOR)
    assert await service.resolve(DEFAULT_TENANT, "Welcome") == first
    second = await sequences.start()
    assert await service.resolve(DEFAULT_TENANT, "Welcome") == second
    await sequences.start()
    with pytest.raises(InvalidInput, match="Several sequences are named Welcome"):
        await service.resolve(DEFAULT_TENANT, "Welcome")


@pytest.mark.parametrize(
    ("reentry", "after", "runs"), [("never", 9, 1), ({"afterDays": 3}, 2, 1), ({"afterDays": 3}, 3, 2), ("each", 0, 2)]
)
async def test_person_enters_again_by_the_rule(sequences: SequenceBench, reentry: Any, after: int, runs: int) -> None:
    await sequences.people(ANN)
    key = await sequences.start(reentry=reentry)
    await sequences.enrol(key, ANN)
    await sequences.run()
    sequences.clock.advance(after * DAY)
    await sequences.enrol(key, ANN)
    await sequences.run()
    assert await sequences.recipients() == [ANN] * runs


async def test_entry_filter_does_not_use_up_the_only_run(sequences: SequenceBench) -> None:
    await sequences.people(ANN)
    key = await sequences.start(entry={"tag": "vip"})
    await sequences.enrol(key, ANN)
    await sequences.run()
    assert (await sequences.enrolment(key)).end_reason == "entry"
    async with sequences.database.write() as tx:
        [row] = await tx.execute(select(contacts.c.id))
        await tx.execute(contact_tags.insert().values(contact_key=row.id, tag="vip", tenant_id=DEFAULT_TENANT))
    await sequences.enrol(key, ANN)
    await sequences.run()
    assert await sequences.recipients() == [ANN]
