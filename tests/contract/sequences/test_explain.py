"""Explanations: why a person got an email of a sequence or not, what comes next and when."""

from collections.abc import AsyncIterator

import pytest

from mailwright.audience import segments
from mailwright.audience.status import ContactStatusService
from mailwright.domain.clock import DAY, HOUR, ManualClock
from mailwright.sources.sequences.overdue import Overdue, OverdueChoice
from mailwright.storage.database import Database
from mailwright.texts.sequences import run_text, step_text
from tests.api import Api, an_api
from tests.builders import DEFAULT_TENANT, a_contact, a_subscriber, change_tenant
from tests.sequences import ACTOR, WELCOME, SequenceBench, a_document, a_wait, an_email, happen, lists

ANN = "ann@example.com"
BOB = "bob@example.com"
WAIT_FOR = {"id": "pro", "waitFor": {"filter": {"tag": "pro"}, "timeout": {"days": 1}}}


async def sentence(at: SequenceBench, sequence_id: str, email: str = ANN) -> str:
    [run] = await at.engine.sequences.explanations.of_sequence(DEFAULT_TENANT, sequence_id, email)
    return run_text(run, at.clock.now())


ENTERED = "Entered at 08:00 UTC (now) because of: enrolled by hand or through the API."


async def test_every_state_has_its_sentence(sequences: SequenceBench) -> None:
    await sequences.people(ANN)
    await a_contact(sequences.database, BOB)
    key = await sequences.start(an_email(), a_wait(), an_email("second"), WAIT_FOR)
    service = sequences.engine.sequences
    assert await sentence(sequences, key) == (
        "They have not entered this sequence. Only people who are enrolled by hand or through the API enter it."
    )
    assert await sentence(sequences, key, BOB) == (
        "They have not entered this sequence. Only people who are enrolled by hand or through the API enter it. "
        "They could not receive its emails: they are not subscribed to its list, or to any list if it has none."
    )
    await sequences.enrol(key, ANN)
    due = f"{ENTERED} The step (start) is due now and runs within seconds if a worker runs. The email first is next."
    assert await sentence(sequences, key) == due
    await sequences.run()
    waits = (
        "They wait at pause, which counts from when the email first is sent, until 08:00 UTC on 16 Jan 2027 "
        "(in 24 hours) at the earliest. The email second is next."
    )
    unsent = "The email first: Due, but no worker is running."
    assert await sentence(sequences, key) == f"{ENTERED} {waits} {unsent}"
    assert (await sequences.enrolment(key)).unsent_step == "first"
    await sequences.send()
    assert (await sequences.enrolment(key)).unsent_step is None
    waits = "They wait at pause until 08:00 UTC on 16 Jan 2027 (in 24 hours). The email second is next."
    assert await sentence(sequences, key) == f"{ENTERED} {waits}"
    await service.pause(DEFAULT_TENANT, key, actor=ACTOR)
    assert "The sequence is paused; they keep their place at pause, due at" in await sentence(sequences, key)
    await service.resume(DEFAULT_TENANT, key, overdue=OverdueChoice(Overdue.SEND), actor=ACTOR)
    await sequences.engine.templates.put(DEFAULT_TENANT, WELCOME, subject="{{ plan }}", html="<p>1</p>", text=None)
    sequences.clock.advance(DAY)
    await sequences.run()
    assert "The step second failed: The email of the step second needs plan" in await sentence(sequences, key)
    await service.enrolments.retry(DEFAULT_TENANT, key, email=None, skips=True, actor=ACTOR)
    await sequences.run()
    assert "They wait at pro for its filter or event, at the latest until" in await sentence(sequences, key)
    await ContactStatusService(sequences.database, sequences.clock).unsubscribe_by_link(
        DEFAULT_TENANT, ANN, source="link"
    )
    assert (await sentence(sequences, key)).endswith(
        "It ended at 08:00 UTC (now) because they unsubscribed. "
        "Nobody enters this sequence twice; its re-entry rule is never."
    )


async def test_rule_that_keeps_somebody_out_is_named(sequences: SequenceBench) -> None:
    await sequences.people(ANN, BOB)
    where = {"total": {"atLeast": 100}}
    key = await sequences.start(an_email("hello"), trigger={"event": "order.placed", "where": where})
    assert "They do not have the event order.placed" in await sentence(sequences, key)
    await happen(sequences, "order.placed", ANN, ago=2 * DAY, properties='{"total":200}')
    await happen(sequences, "order.placed", BOB, properties='{"total":20}')
    assert "A worker applies the trigger within a minute" in await sentence(sequences, key, BOB)
    await sequences.watch()
    assert await sentence(sequences, key) == (
        "They have not entered this sequence. "
        "Their latest event order.placed is of 08:00 UTC on 13 Jan 2027 (2 days ago). "
        "It arrived 2 days after it happened. Events that arrive more than 24 hours late do not start sequences."
    )
    assert (await sentence(sequences, key, BOB)).endswith(
        "Its total is 20; the sequence starts only if total is at least 100."
    )
    [run] = await sequences.engine.sequences.explanations.of_others(DEFAULT_TENANT, BOB)
    assert run.not_entered is not None
    assert (run.not_entered.rule, run.not_entered.property, run.not_entered.value) == ("other_property", "total", 20)
    await happen(sequences, "order.placed", BOB, number=2, properties='{"total":300}')
    await sequences.watch()
    await sequences.run()
    sequences.clock.advance(DAY)
    await happen(sequences, "order.placed", BOB, number=3, properties='{"total":400}')
    await sequences.watch()
    assert (await sentence(sequences, key, BOB)).endswith(
        "It did not start the sequence. Nobody enters this sequence twice; its re-entry rule is never."
    )


async def test_person_who_can_receive_nothing_more_is_explained(sequences: SequenceBench) -> None:
    await lists(sequences, "news")
    await sequences.people(ANN, list_key="news")
    key = await sequences.start(a_wait(), an_email("tips"), WAIT_FOR)
    await sequences.enrol(key, ANN)
    await sequences.run()
    assert "will not be sent" not in await sentence(sequences, key)
    statuses = ContactStatusService(sequences.database, sequences.clock)
    await statuses.unsubscribe(DEFAULT_TENANT, ANN, "news", source="test")
    assert (await sentence(sequences, key)).endswith(
        "The email tips is next. The next email will not be sent, and the run ends then: they unsubscribed."
    )
    sequences.clock.advance(DAY)
    await sequences.run()
    assert (await sequences.enrolment(key)).end_reason == "not_eligible"


async def test_event_during_a_run_leaves_a_trace(sequences: SequenceBench) -> None:
    await sequences.people(ANN)
    trigger = {"event": "order.placed"}
    key = await sequences.start(a_wait("rest", days=2), an_email("thanks"), trigger=trigger, reentry="each")
    for number in range(3):
        await happen(sequences, "order.placed", ANN, number=number)
        await sequences.watch()
        await sequences.run()
        sequences.clock.advance(DAY // 2)
    [run] = await sequences.engine.sequences.explanations.of_person(DEFAULT_TENANT, ANN)
    assert [each.event_id for each in run.ignored] == [f"order.placed-{ANN}-{number}" for number in (2, 1)]
    trace = "2 more events order.placed came while they were in it, the last at 08:00 UTC (12 hours ago)."
    assert trace in await sentence(sequences, key)


async def test_rules_of_other_triggers_are_named(sequences: SequenceBench) -> None:
    await lists(sequences, "news", "vip")
    await sequences.people(ANN, list_key="vip", attributes='{"birthday":"1990-01-20","plan":"free"}')
    pro = {"attribute": "plan", "is": "pro"}
    await segments.create(sequences.database, sequences.clock, DEFAULT_TENANT, "free", filter_={"not": pro})
    email = an_email()
    expected = {
        "joinsList": ({"joinsList": "news"}, "not_on_list"),
        "general": ({"joinsList": "vip"}, "joined_before"),
        "entersSegment": ({"entersSegment": "free"}, "matched_before"),
        "leavesSegment": ({"leavesSegment": "free"}, "still_in_segment"),
        "dateAttribute": ({"dateAttribute": "birthday", "yearly": True}, "date_ahead"),
        "schedule": ({"schedule": {"time": "09:00"}, "segment": "free"}, "next_schedule"),
        "group": ({"schedule": {"time": "09:00"}, "list": "news"}, "not_in_group"),
    }
    for trigger, rule in expected.values():
        reentry = "each" if trigger.keys() & {"schedule", "yearly"} else "never"
        key = await sequences.start(email, trigger=trigger, reentry=reentry)
        [run] = await sequences.engine.sequences.explanations.of_sequence(DEFAULT_TENANT, key, ANN)
        assert run.not_entered is not None
        assert run.not_entered.rule == rule
        assert run_text(run, sequences.clock.now())
    key = await sequences.start(email, entry=pro)
    await sequences.enrol(key, ANN)
    await sequences.run()
    assert "entry filter, which is for contacts whose attribute plan is “pro” (theirs is “free”)" in await sentence(
        sequences, key
    )


async def test_held_email_names_reason_and_time(sequences: SequenceBench) -> None:
    await sequences.people(ANN)
    await change_tenant(sequences.database, timezone="UTC", working_hours="mon-fri 09:00-17:00")
    key = await sequences.start(an_email("hello"), a_wait("rest"))
    sequences.clock.advance(DAY // 2)  # Friday, 20:00.
    await sequences.enrol(key, ANN)
    await sequences.run()
    await sequences.bench.drain()
    [run] = await sequences.engine.sequences.explanations.of_sequence(DEFAULT_TENANT, key, ANN)
    [hello] = run.steps
    assert hello.email is not None
    assert (hello.email.reason, hello.email.until) == ("outside_hours", sequences.clock.now() + 61 * HOUR)
    assert "The email hello: Outside working hours of tenant default." in run_text(run, sequences.clock.now())
    assert "Outside working hours" in step_text(hello)


@pytest.fixture
async def api(database: Database, clock: ManualClock) -> AsyncIterator[Api]:
    async with an_api(database, clock) as api:
        yield api


async def test_sequence_is_managed_over_http(api: Api) -> None:
    await a_subscriber(api.engine.database, ANN)
    await api.client.put(f"/v1/templates/{WELCOME}", json={"subject": "Hi", "html": "<p>Hi</p>"})
    document = a_document(an_email(), a_wait())
    refused = await api.client.post("/v1/sequences", json={"document": {**document, "steps": [{"id": "a"}]}})
    assert (refused.status_code, refused.json()["code"]) == (422, "SEQUENCE_INVALID")
    assert refused.json()["errors"][0]["field"] == "steps[0]"
    created = await api.client.post("/v1/sequences", json={"document": document})
    path = f"/v1/sequences/{created.json()['sequenceId']}"
    plan = await api.client.post(f"{path}/publish", json={"dryRun": True})
    assert (plan.json()["isPublished"], (await api.client.get(path)).json()["status"]) == (False, "draft")
    assert (await api.client.post(f"{path}/publish", json={})).json()["version"] == 1
    stale = await api.client.put(path, json={"document": document, "revision": 7})
    assert (stale.status_code, stale.json()["code"]) == (409, "SEQUENCE_CHANGED")
    rehearsal = await api.client.post(f"{path}/rehearse", json={"emails": [ANN, "zz@example.com"], "days": 2})
    assert [rehearsal.json()[name] for name in ("alreadyIn", "notEligible", "unknown")] == [0, 0, 1]
    assert [day["emails"] for day in rehearsal.json()["days"]] == [1, 0, 0]
    assert (await api.client.post(f"{path}/enrol", json={"emails": [ANN]})).json()["enrolled"] == 1
    [enrolment] = (await api.client.get(f"{path}/enrolments")).json()["enrolments"]
    assert (enrolment["email"], enrolment["enteredBecause"]) == (ANN, "manual")
    [run] = (await api.client.get(f"/v1/contacts/{ANN}/sequences")).json()["runs"]
    assert (run["state"], run["name"]) == ("runs_soon", "Welcome")
    await a_subscriber(api.engine.database, BOB)
    params = {"sequenceId": created.json()["sequenceId"]}
    [absent] = (await api.client.get(f"/v1/contacts/{BOB}/sequences", params=params)).json()["runs"]
    assert (absent["state"], absent["notEntered"]["rule"]) == ("never_entered", "manual_only")
    assert (await api.client.post(f"{path}/pause")).json()["status"] == "paused"
    undecided = await api.client.post(f"{path}/resume", json={})
    assert (undecided.status_code, undecided.json()["code"]) == (409, "OVERDUE_UNDECIDED")
    assert (await api.client.post(f"{path}/resume", json={"overdue": "send"})).json() == {
        "status": "running",
        "overdue": 1,
    }
    assert (await api.client.post(f"{path}/remove", json={"email": ANN})).status_code == 204
    assert (await api.client.delete(path)).status_code == 204
    archived = (await api.client.get(path)).json()
    assert archived["status"] == "archived"
    # What an answer shows can be created again.
    again = await api.client.post("/v1/sequences", json={"document": archived["document"]})
    copied = await api.client.get(f"/v1/sequences/{again.json()['sequenceId']}")
    assert (copied.json()["document"], copied.json()["status"]) == (document, "draft")


async def test_ready_made_sequence_is_created_over_http(api: Api) -> None:
    listed = (await api.client.get("/v1/sequences/ready")).json()["sequences"]
    assert [each["name"] for each in listed if each["needsList"]] == ["welcome"]
    both = await api.client.post("/v1/sequences", json={"ready": "welcome", "document": {}})
    without_list = await api.client.post("/v1/sequences", json={"ready": "welcome"})
    unknown = await api.client.post("/v1/sequences", json={"ready": "nothing"})
    assert [each.status_code for each in (both, without_list, unknown)] == [422, 422, 404]
    await api.client.post("/v1/lists", json={"listKey": "news"})
    created = await api.client.post("/v1/sequences", json={"ready": "welcome", "list": "news"})
    published = await api.client.post(f"/v1/sequences/{created.json()['sequenceId']}/publish", json={})
    assert (created.status_code, published.json()["version"]) == (201, 1)
