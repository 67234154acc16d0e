"""Explanations: why a person got an email of a sequence or not, what comes next and when."""

from collections.abc import AsyncIterator

import pytest

from mailwright.audience.status import ContactStatusService
from mailwright.domain.clock import DAY, ManualClock
from mailwright.schemas.sequence_text import run_text
from mailwright.storage.database import Database
from tests.api import Api, an_api
from tests.builders import DEFAULT_TENANT, a_contact, a_subscriber
from tests.sequences import ACTOR, WELCOME, SequenceBench, a_document, a_wait, an_email

ANN = "ann@example.com"
BOB = "bob@example.com"
WAIT_FOR = {"id": "pro", "waitFor": {"filter": {"tag": "pro"}, "timeout": {"days": 1}}}


async def sentence(at: SequenceBench, sequence_id: str, email: str = ANN) -> str:
    [run] = await at.engine.sequences.explanations.of_sequence(DEFAULT_TENANT, sequence_id, email)
    return run_text(run, at.clock.now())


ENTERED = "Entered at 08:00 UTC (now) because of: manual."


async def test_every_state_has_its_sentence(sequences: SequenceBench) -> None:
    await sequences.people(ANN)
    await a_contact(sequences.database, BOB)
    key = await sequences.start(an_email(), a_wait(), an_email("second"), WAIT_FOR)
    service = sequences.engine.sequences
    assert await sentence(sequences, key) == (
        "They have not entered this sequence. Its trigger has not applied to them since it was published. "
        "You can enrol them by hand."
    )
    assert await sentence(sequences, key, BOB) == (
        "They have not entered this sequence. They could not receive its emails: they are not subscribed to its list."
    )
    await sequences.enrol(key, ANN)
    due = f"{ENTERED} The step (start) is due now and runs within seconds if a worker runs. The email first is next."
    assert await sentence(sequences, key) == due
    await sequences.run()
    waits = "They wait at pause until 16 Jan 2027, 08:00 UTC (in 24 hours). The email second is next."
    assert await sentence(sequences, key) == f"{ENTERED} {waits}"
    await service.pause(DEFAULT_TENANT, key, actor=ACTOR)
    assert "The sequence is paused; they keep their place at pause, due at" in await sentence(sequences, key)
    await service.resume(DEFAULT_TENANT, key, actor=ACTOR)
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
    assert (await sentence(sequences, key)).endswith("It ended at 08:00 UTC (now) because they unsubscribed.")


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
    rehearsal = await api.client.post(f"{path}/rehearse", json={"emails": [ANN], "days": 2})
    assert [day["emails"] for day in rehearsal.json()["days"]] == [1, 0, 0]
    assert (await api.client.post(f"{path}/enrol", json={"emails": [ANN]})).json()["enrolled"] == 1
    [enrolment] = (await api.client.get(f"{path}/enrolments")).json()["enrolments"]
    assert (enrolment["email"], enrolment["enteredBecause"]) == (ANN, "manual")
    [run] = (await api.client.get(f"/v1/contacts/{ANN}/sequences")).json()["runs"]
    assert (run["state"], run["name"]) == ("runs_soon", "Welcome")
    assert (await api.client.post(f"{path}/pause")).json()["status"] == "paused"
    undecided = await api.client.post(f"{path}/resume", json={})
    assert (undecided.status_code, undecided.json()["code"]) == (409, "OVERDUE_UNDECIDED")
    assert (await api.client.post(f"{path}/resume", json={"overdue": "send"})).json() == {
        "status": "running",
        "overdue": 1,
    }
    assert (await api.client.post(f"{path}/remove", json={"email": ANN})).status_code == 204
    assert (await api.client.delete(path)).status_code == 204
    assert (await api.client.get(path)).json()["status"] == "archived"


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
