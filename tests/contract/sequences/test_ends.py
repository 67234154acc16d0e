"""What starts and ends enrolments: subscriptions, unsubscribes, bounces, erasure, pauses and new versions."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from sqlalchemy import delete as delete_rows
from sqlalchemy import select

from mailwright.app.system_emails import render_branded
from mailwright.audience import contacts, erasure, suppressions
from mailwright.audience.double_opt_in import ConfirmationLinks, DoubleOptIn
from mailwright.audience.importing.imports import Imports
from mailwright.audience.importing.plan import ImportOptions
from mailwright.audience.lists import edit as edit_list
from mailwright.audience.personal_data import export_personal_data
from mailwright.audience.status import ContactStatusService
from mailwright.domain.clock import DAY, HOUR
from mailwright.domain.unsubscribe_tokens import UnsubscribeTokens
from mailwright.sources.sequences.definition import InvalidSequence
from mailwright.sources.sequences.overdue import Overdue, OverdueChoice, OverdueUndecided
from mailwright.sources.sequences.sequences import SequenceChanged
from mailwright.storage.tables import contacts as contact_table
from mailwright.storage.tables import messages, subscriptions
from mailwright.texts.sequences import step_text
from tests.builders import DEFAULT_TENANT, a_contact, statuses
from tests.sequences import ACTOR, SequenceBench, a_document, a_wait, an_email, happen, lists

ANN = "ann@example.com"
NEWS = "news"


async def subscribe(at: SequenceBench) -> None:
    await ContactStatusService(at.database, at.clock).subscribe(DEFAULT_TENANT, ANN, NEWS, source="api")


async def resubscribe(at: SequenceBench) -> None:
    status = ContactStatusService(at.database, at.clock)
    await subscribe(at)
    await status.unsubscribe(DEFAULT_TENANT, ANN, NEWS, source="link")
    await status.resubscribe_by_link(DEFAULT_TENANT, ANN, NEWS, source="link")


async def confirm(at: SequenceBench) -> None:
    links = ConfirmationLinks("http://mail.example", UnsubscribeTokens("a secret of sixteen letters or more"))
    await edit_list(at.database, at.clock, DEFAULT_TENANT, NEWS, requires_confirmation=True, actor=ACTOR)
    double_opt_in = DoubleOptIn(at.database, at.clock, links, render_branded)
    assert await double_opt_in.subscribe(DEFAULT_TENANT, ANN, NEWS, source="form")
    assert not await at.engine.sequences.enrolments.list_page(DEFAULT_TENANT, await the_sequence(at), limit=1)
    await double_opt_in.confirm(DEFAULT_TENANT, ANN, NEWS)
    async with at.database.write() as tx:
        await tx.execute(delete_rows(messages))  # The confirmation email.


async def run_import(at: SequenceBench, *, starts_sequences: bool = True) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "people.csv"
        path.write_text(f"email\n{ANN}\n")
        imports = Imports(at.database, at.clock)
        options = ImportOptions(list_key=NEWS, starts_sequences=starts_sequences)
        started = await imports.begin(DEFAULT_TENANT, path, options)
        assert [done async for done in imports.run(started, path)][-1].added == 1


async def the_sequence(at: SequenceBench) -> str:
    [found] = await at.engine.sequences.list_all(DEFAULT_TENANT)
    return found.sequence_id


JOINS: dict[str, tuple[Callable[[SequenceBench], Awaitable[None]], int]] = {
    "subscribe": (subscribe, 1),
    "resubscribe": (resubscribe, 2),
    "confirm": (confirm, 1),
    "import": (run_import, 1),
}


@pytest.mark.parametrize("way", JOINS)
async def test_joining_the_list_starts_the_sequence(sequences: SequenceBench, way: str) -> None:
    join, runs = JOINS[way]
    await lists(sequences, NEWS)
    key = await sequences.start(trigger={"joinsList": NEWS}, list=NEWS, reentry="each")
    await join(sequences)
    await subscribe(sequences)  # Already subscribed: not another start.
    found = await sequences.enrolments(key)
    assert [(each.email, each.entered_because) for each in found] == [(ANN, "list news")] * runs
    await sequences.run()
    assert await sequences.recipients() == [ANN]


async def test_import_starts_no_sequence_by_default(sequences: SequenceBench) -> None:
    await lists(sequences, NEWS)
    key = await sequences.start(trigger={"joinsList": NEWS}, list=NEWS)
    await run_import(sequences, starts_sequences=False)
    assert await sequences.enrolments(key) == []


async def unsubscribe(at: SequenceBench) -> None:
    await ContactStatusService(at.database, at.clock).unsubscribe(DEFAULT_TENANT, ANN, NEWS, source="link")


async def unsubscribe_from_all(at: SequenceBench) -> None:
    await ContactStatusService(at.database, at.clock).unsubscribe_by_link(DEFAULT_TENANT, ANN, source="link")


async def bounce(at: SequenceBench) -> None:
    await ContactStatusService(at.database, at.clock).bounce(DEFAULT_TENANT, ANN, source="smtp")


async def complain(at: SequenceBench) -> None:
    await ContactStatusService(at.database, at.clock).complain(DEFAULT_TENANT, ANN, source="smtp")


async def suppress_by_hand(at: SequenceBench) -> None:
    await suppressions.add(at.database, at.clock, DEFAULT_TENANT, ANN, reason="manual", source="test")


async def erase(at: SequenceBench) -> None:
    await erasure.erase(at.database, at.clock, DEFAULT_TENANT, ANN, actor=ACTOR)


async def delete(at: SequenceBench) -> None:
    found = await contacts.find_by_email(at.database, DEFAULT_TENANT, ANN)
    await contacts.delete(at.database, at.clock, DEFAULT_TENANT, found.contact_id)


async def remove(at: SequenceBench) -> None:
    await at.engine.sequences.enrolments.remove(DEFAULT_TENANT, await the_sequence(at), ANN, actor=ACTOR)


ENDS = {
    "unsubscribed": [unsubscribe, unsubscribe_from_all],
    "bounced": [bounce],
    "complaint": [complain],
    "suppressed": [suppress_by_hand],
    "erased": [erase],
    "removed": [delete, remove],
}


@pytest.mark.promise("sequence-exits")
@pytest.mark.parametrize(("reason", "end"), [(reason, end) for reason, ends in ENDS.items() for end in ends])
async def test_end_cancels_the_unsent_email(
    sequences: SequenceBench, reason: str, end: Callable[[SequenceBench], Awaitable[None]]
) -> None:
    await lists(sequences, NEWS)
    await sequences.people(ANN, list_key=NEWS)
    key = await sequences.start(an_email(), a_wait(), an_email("second"), list=NEWS)
    await sequences.enrol(key, ANN)
    await sequences.run()
    await end(sequences)
    ended = await sequences.enrolment(key)
    assert (ended.end_reason, ended.ended_at, ended.due_at) == (reason, sequences.clock.now(), None)
    assert await statuses(sequences.database) == {"CANCELLED": 1}
    await sequences.run_for(2 * DAY, DAY)
    assert await statuses(sequences.database) == {"CANCELLED": 1}


async def test_unsubscribe_of_another_list_changes_nothing(sequences: SequenceBench) -> None:
    await lists(sequences, NEWS, "other")
    await sequences.people(ANN, list_key=NEWS)
    key = await sequences.start(list=NEWS)
    await sequences.enrol(key, ANN)
    await ContactStatusService(sequences.database, sequences.clock).unsubscribe(
        DEFAULT_TENANT, ANN, "other", source="link"
    )
    await sequences.run()
    assert await sequences.recipients() == [ANN]


async def test_change_never_subscribes_against_a_decision(sequences: SequenceBench) -> None:
    left, left_all, complained, suppressed, joins = (f"{name}@example.com" for name in ("a", "b", "c", "d", "e"))
    await lists(sequences, NEWS)
    people = left, left_all, complained, suppressed, joins
    await sequences.people(*people)
    status = ContactStatusService(sequences.database, sequences.clock)
    await status.unsubscribe_by_link(DEFAULT_TENANT, left, NEWS, source="link")
    await status.unsubscribe_by_link(DEFAULT_TENANT, left_all, source="link")
    await status.complain(DEFAULT_TENANT, complained, source="report")
    reason = {"reason": "manual", "source": "console", "list_key": NEWS, "actor": ACTOR}
    await suppressions.add(sequences.database, sequences.clock, DEFAULT_TENANT, suppressed, **reason)
    change = {"id": "join", "change": {"subscribe": [NEWS]}}
    key = await sequences.start(change, trigger={"event": "order.placed"})
    await happen(sequences, "order.placed", *people)
    await sequences.watch()
    await sequences.run()
    s, c = subscriptions.c, contact_table.c
    joined = select(c.email).join_from(contact_table, subscriptions, s.contact_key == c.id)
    async with sequences.database.read() as tx:
        rows = await tx.execute(joined.where(s.list_key == NEWS, s.unsubscribed_at.is_(None)))
    assert [row.email for row in rows] == [joins]
    explain = sequences.engine.sequences.explanations.of_sequence
    texts = [step_text((await explain(DEFAULT_TENANT, key, email))[0].steps[0]) for email in people]
    unsubscribed = "contact changed, not subscribed to news: they unsubscribed"
    is_suppressed = "contact changed, not subscribed to news: their address is suppressed"
    assert texts == [unsubscribed, unsubscribed, unsubscribed, is_suppressed, "contact changed"]


@pytest.mark.promise("sequence-exits")
async def test_exit_stops_the_next_email(sequences: SequenceBench) -> None:
    await sequences.people(ANN)
    key = await sequences.start(an_email(), a_wait(), an_email("second"), exits=[{"attribute": "bought", "is": True}])
    await sequences.enrol(key, ANN)
    await sequences.run()
    change = contacts.ContactChange(attributes={"bought": True})
    await contacts.put(sequences.database, sequences.clock, DEFAULT_TENANT, ANN, change)
    sequences.clock.advance(DAY)
    await sequences.run()
    assert (await sequences.enrolment(key)).end_reason == "exit"
    assert await statuses(sequences.database) == {"CANCELLED": 1}


@pytest.mark.promise("sequence-versions")
@pytest.mark.parametrize("choice", Overdue)
async def test_resume_asks_about_overdue_people(sequences: SequenceBench, choice: Overdue) -> None:
    await lists(sequences, NEWS)
    await sequences.people(ANN, list_key=NEWS)
    key = await sequences.start(an_email(), a_wait(), an_email("second"), a_wait("two"), an_email("third"), list=NEWS)
    await sequences.enrol(key, ANN)
    await sequences.run()
    await sequences.send()
    service = sequences.engine.sequences
    await service.pause(DEFAULT_TENANT, key, actor=ACTOR)
    await sequences.run_for(3 * DAY, DAY)
    assert await sequences.recipients() == [ANN]
    with pytest.raises(OverdueUndecided, match="The next step or an unsent email of 1 people is overdue"):
        await service.resume(DEFAULT_TENANT, key, actor=ACTOR)
    resumed = sequences.clock.now()
    await service.resume(DEFAULT_TENANT, key, overdue=OverdueChoice(choice, 5), actor=ACTOR)
    await sequences.run_for(6 * HOUR, HOUR)
    sent = {node: at for _, node, outcome, at in await sequences.history() if outcome == "sent"}
    if choice is Overdue.SKIP:
        assert set(sent) == {"first"}
    else:
        assert sent["second"] - resumed <= (5 * HOUR if choice is Overdue.SPREAD else 0)
    await sequences.run_for(DAY, HOUR)
    assert ("third" in {node for _, node, _, _ in await sequences.history()}) is True


async def test_paused_sequence_still_takes_people_in(sequences: SequenceBench) -> None:
    await lists(sequences, NEWS)
    await a_contact(sequences.database, ANN)
    key = await sequences.start(trigger={"joinsList": NEWS}, list=NEWS)
    await sequences.engine.sequences.pause(DEFAULT_TENANT, key, actor=ACTOR)
    await subscribe(sequences)
    await sequences.run()
    assert await sequences.recipients() == []
    choice = OverdueChoice(Overdue.SEND)
    await sequences.engine.sequences.resume(DEFAULT_TENANT, key, overdue=choice, actor=ACTOR)
    await sequences.run()
    assert await sequences.recipients() == [ANN]


@pytest.mark.promise("sequence-versions")
async def test_new_version_moves_people_from_removed_steps(sequences: SequenceBench) -> None:
    await sequences.people(ANN, "bob@example.com")
    key = await sequences.start(an_email("one"), a_wait("a"), an_email("two"), a_wait("b"), an_email("three"))
    await sequences.enrol(key, ANN)
    await sequences.run_for(DAY, DAY)  # Ann waits at b.
    await sequences.enrol(key, "bob@example.com")
    await sequences.run()  # Bob waits at a.
    due = {each.email: each.due_at for each in await sequences.enrolments(key)}
    plan = await sequences.publish(key, an_email("one"), an_email("two"), a_wait("b"), an_email("three"))
    assert (plan.stays, plan.moves, plan.ends, plan.overdue) == (1, 1, 0, 0)
    assert [(each.email, each.node, each.to) for each in plan.affected] == [("bob@example.com", "a", "two")]
    moved = {each.email: (each.node, each.due_at) for each in await sequences.enrolments(key)}
    assert moved == {ANN: ("b", due[ANN]), "bob@example.com": ("two", due["bob@example.com"])}
    plan = await sequences.publish(key, an_email("one"))
    assert (plan.stays, plan.moves, plan.ends) == (0, 0, 2)
    assert {each.end_reason for each in await sequences.enrolments(key)} == {"removed"}


async def test_overdue_email_is_skipped_after_another_wait(sequences: SequenceBench) -> None:
    await sequences.people(ANN)
    morning = {"id": "morning", "waitUntil": {"weekdays": ["sun"], "time": "09:00"}}
    key = await sequences.start(a_wait("a", days=5), morning, an_email("two"), a_wait("b"), an_email("three"))
    await sequences.enrol(key, ANN)
    await sequences.run_for(3 * DAY, DAY)
    shorter = (a_wait("a", days=2), morning, an_email("two"), a_wait("b"), an_email("three"))
    await sequences.publish(key, *shorter, overdue=OverdueChoice(Overdue.SKIP))
    await sequences.run_for(12 * DAY, DAY)
    assert [(node, outcome) for _, node, outcome, _ in await sequences.history()] == [
        ("two", "skipped"),
        ("three", "sent"),
    ]


async def test_skip_keeps_the_first_email_of_newcomers(sequences: SequenceBench) -> None:
    await sequences.people(ANN)
    key = await sequences.start(an_email("one"), a_wait("a"))
    await sequences.engine.sequences.pause(DEFAULT_TENANT, key, actor=ACTOR)
    await sequences.enrol(key, ANN)
    choice = OverdueChoice(Overdue.SKIP)
    await sequences.engine.sequences.resume(DEFAULT_TENANT, key, overdue=choice, actor=ACTOR)
    await sequences.run()
    assert [outcome for _, _, outcome, _ in await sequences.history()] == ["sent"]


@pytest.mark.promise("sequence-versions")
async def test_shorter_wait_asks_about_the_overdue(sequences: SequenceBench) -> None:
    await sequences.people(ANN)
    key = await sequences.start(an_email("one"), a_wait("a", days=5), an_email("two"), a_wait("b"))
    await sequences.enrol(key, ANN)
    start = sequences.clock.now()
    await sequences.run_for(3 * DAY, DAY)
    shorter = (an_email("one"), a_wait("a", days=2), an_email("two"), a_wait("b"))
    with pytest.raises(OverdueUndecided):
        await sequences.publish(key, *shorter)
    assert (await sequences.enrolment(key)).due_at == start + 5 * DAY
    await sequences.publish(key, *shorter, overdue=OverdueChoice(Overdue.SKIP))
    await sequences.run()
    assert [outcome for _, _, outcome, _ in await sequences.history()] == ["sent", "skipped"]


async def test_second_editor_does_not_overwrite_the_first(sequences: SequenceBench) -> None:
    key = await sequences.start()
    service = sequences.engine.sequences
    await service.edit(DEFAULT_TENANT, key, a_document(name="First"), revision=1, actor=ACTOR)
    with pytest.raises(SequenceChanged):
        await service.edit(DEFAULT_TENANT, key, a_document(name="Second"), revision=1, actor=ACTOR)
    assert (await service.find(DEFAULT_TENANT, key)).name == "First"


async def test_publishing_names_missing_objects(sequences: SequenceBench) -> None:
    service = sequences.engine.sequences
    change = {"id": "c", "change": {"subscribe": ["gone"]}}
    document = a_document(an_email(template="gone"), change, list="gone", trigger={"joinsList": "lost"})
    created = await service.create(DEFAULT_TENANT, document, actor=ACTOR)
    with pytest.raises(InvalidSequence) as caught:
        await service.publish(DEFAULT_TENANT, created.sequence_id, actor=ACTOR)
    assert [(each.field, each.message) for each in caught.value.errors] == [
        ("steps[0].send.template", "there is no template gone"),
        ("list", "there is no list gone"),
        ("trigger.joinsList", "there is no list lost"),
        ("steps[1].change.subscribe[0]", "there is no list gone"),
    ]


async def test_export_of_personal_data_contains_the_steps(sequences: SequenceBench) -> None:
    await sequences.people(ANN)
    key = await sequences.start(an_email(), a_wait())
    await sequences.enrol(key, ANN)
    await sequences.run()
    [run] = (await export_personal_data(sequences.database, DEFAULT_TENANT, ANN))["sequences"]
    assert (run["name"], run["enteredBecause"], run["step"]) == ("Welcome", "manual", "pause")
    assert [(step["step"], step["outcome"]) for step in run["steps"]] == [("first", "sent")]
