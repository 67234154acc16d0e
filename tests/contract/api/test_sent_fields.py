"""What API and events state about a message that was sent or failed: subject, provider ID, validations, last error."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from mailwright.domain.clock import ManualClock
from mailwright.domain.results import ErrorCategory
from mailwright.domain.states import VALIDATIONS, EventType
from mailwright.outbox import message_records
from mailwright.pipeline.validate import CHECKS, ValidationKind
from mailwright.providers.route import Route
from mailwright.providers.ses.responses import SENDING_PAUSED
from mailwright.storage.database import Database
from tests.api import Api, a_request, an_api
from tests.builders import FAULT, Bench, a_message, deliveries_of, the_event
from tests.campaigns import CampaignHarness, join
from tests.standins.provider import ScriptedProvider

pytestmark = pytest.mark.both_engines
TEMPLATE = {"subject": "Hi {{ name }}, {{ count }} new", "html": "<p>Hello {{ name }}</p>"}


@pytest.fixture
async def api(database: Database, clock: ManualClock) -> AsyncIterator[Api]:
    async with an_api(database, clock) as api:
        yield api


async def shown(api: Api, outbox_id: str) -> dict[str, object]:
    found: dict[str, object] = (await api.client.get(f"/v1/email/{outbox_id}")).json()
    return found


@pytest.mark.parametrize("own", [{}, {"cc": ["boss@example.com"]}], ids=["prepared layout", "composed"])
async def test_subject_of_a_template_is_the_one_that_was_sent(
    api: Api, clock: ManualClock, own: dict[str, object]
) -> None:
    await api.client.put("/v1/templates/welcome", json=TEMPLATE)
    variables = {"name": "Ada", "count": 3}
    outbox_id = await api.send(html=None, subject=None, templateId="welcome", variables=variables, **own)
    await Bench(api.engine, clock).drain(ScriptedProvider())
    assert (await shown(api, outbox_id))["subject"] == "Hi Ada, 3 new"
    found = (await api.client.get("/v1/email")).json()["messages"]
    assert [each["subject"] for each in found] == ["Hi Ada, 3 new"]
    wanted = message_records.MessageSearch(words="hi ada")
    assert len(await message_records.search(api.engine.database, 1, wanted, limit=5)) == 1


async def test_fixed_subject_of_a_template_is_stored_once(api: Api, clock: ManualClock) -> None:
    await api.client.put("/v1/templates/welcome", json={**TEMPLATE, "subject": "Welcome"})
    outbox_id = await api.send(html=None, subject=None, templateId="welcome", variables={"name": "Ada"})
    await Bench(api.engine, clock).drain(ScriptedProvider())
    assert (await shown(api, outbox_id))["subject"] == "Welcome"
    assert [row.subject for row in await deliveries_of(api.engine.database)] == [None]


async def test_campaign_message_shows_the_subject_of_its_recipient(bench: Bench) -> None:
    desk = CampaignHarness(bench)
    await join(bench.database, ["ann@example.com"])
    content = {"subject": "For {{ name }}", "body": "<p>News</p>"}
    await desk.start(content=content)
    provider = ScriptedProvider()
    await bench.drain(provider)
    record = await bench.record(provider.messages[0].outbox_id)
    assert record.summary.subject == "For Ann"


async def test_deferred_message_shows_its_subject_and_last_error(api: Api, clock: ManualClock) -> None:
    await api.client.put("/v1/templates/welcome", json=TEMPLATE)
    outbox_id = await api.send(html=None, subject=None, templateId="welcome", variables={"name": "Ada", "count": 1})
    await Bench(api.engine, clock).drain(ScriptedProvider(FAULT))
    found = await shown(api, outbox_id)
    assert (found["subject"], found["lastError"]) == ("Hi Ada, 1 new", "TEMPORARY: later")


async def test_sent_event_of_ses_has_its_message_id(bench: Bench) -> None:
    (outbox_id,) = await bench.accept(a_message())
    await bench.drain(ScriptedProvider(name="ses"))
    metadata = the_event(await bench.record(outbox_id), EventType.SENT).metadata
    assert metadata["sesMessageId"] == metadata["providerMessageId"] == "<1@scripted>"
    assert (await bench.record(outbox_id)).summary.ses_message_id == "<1@scripted>"


async def test_sent_event_of_other_providers_has_no_ses_id(bench: Bench) -> None:
    (outbox_id,) = await bench.accept(a_message())
    await bench.drain(ScriptedProvider())
    record = await bench.record(outbox_id)
    assert "sesMessageId" not in the_event(record, EventType.SENT).metadata
    assert record.summary.ses_message_id is None


@pytest.mark.parametrize("answers", [(), (FAULT,)], ids=["sent", "retried"])
async def test_validated_event_lists_the_validations(bench: Bench, answers: tuple[object, ...]) -> None:
    (outbox_id,) = await bench.accept(a_message())
    await bench.drain(ScriptedProvider(*answers))  # type: ignore[arg-type]
    metadata = the_event(await bench.record(outbox_id), EventType.VALIDATED).metadata
    assert metadata["validations"] == ["INTEGRITY", "OUTBOX", "RECIPIENT", "TEMPLATE"]


def test_listed_validations_are_the_checks_in_order() -> None:
    assert list(VALIDATIONS) == [ValidationKind(check.__name__.removeprefix("check_").upper()) for check in CHECKS]


async def test_paused_account_is_permanent_and_keeps_its_messages(bench: Bench) -> None:
    paused = replace(SENDING_PAUSED.result("Sending paused"), provider="scripted")
    assert paused.category is ErrorCategory.PERMANENT
    (outbox_id,) = await bench.accept(a_message())
    route = Route.of(ScriptedProvider(paused), bench.clock)
    await bench.drain(route)
    record = await bench.record(outbox_id)
    assert (record.summary.status, record.summary.error_category) == ("RETRY_SCHEDULED", "PERMANENT_ERROR")
    assert record.summary.defer_reason == "provider_unavailable"
    assert route.deferral() is not None


async def test_recipient_id_must_be_a_uuid(api: Api) -> None:
    before = await api.stored()
    answer = await api.client.post("/v1/email/send", json=a_request(recipient={"recipientId": "customer-42"}))
    [problem] = answer.json()["errors"]
    assert (answer.status_code, problem["field"], problem["code"]) == (422, "recipient.recipientId", "INVALID_PAYLOAD")
    assert await api.stored() == before


async def test_stored_recipient_id_without_uuid_is_an_invalid_payload(bench: Bench) -> None:
    (outbox_id,) = await bench.accept(a_message(recipient_id="customer-42"))
    await bench.drain(ScriptedProvider())
    record = await message_records.find(bench.database, outbox_id, tenant_id=1)
    assert (record.summary.status, record.summary.error_code) == ("FAILED", "INVALID_PAYLOAD")
