"""Whether email leaves this machine: the same sentence on every page of the flow, in the API and for each state."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import select

from mailwright.access.roles import Role, Scope
from mailwright.app.sending_readiness import load_readiness
from mailwright.app.setup import SetupStep, StepState, load_progress, record_step
from mailwright.app.wiring import Engine
from mailwright.domain.clock import ManualClock
from mailwright.domain.sending_readiness import Destination, ReadinessReason, ReadinessState
from mailwright.outbox import tenants
from mailwright.outbox.workers import WorkerPresence, WorkerRegistry
from mailwright.sources.campaigns.approval_gate import AwaitsApproval
from mailwright.sources.campaigns.records import Actor
from mailwright.storage.tables import messages
from mailwright.texts.sending_readiness import LOCAL_MAILBOX, TEST_SERVER, readiness_remarks, readiness_text, sent_note
from mailwright.web.app import create_app
from tests.api import an_engine, client_of
from tests.builders import DEFAULT_TENANT, Bench
from tests.campaigns import a_definition, address_of, join
from tests.pages import HOME, PASSWORD, Visit, a_visit
from tests.sequences import SequenceBench, a_document

PUBLIC = "https://mail.shop.org"
READY = {
    "sender": "Shop <shop@shop.org>",
    "base_url": PUBLIC,
    "provider": "smtp",
    "smtp_url": "smtp://relay.shop.org",
    "postal_address": "Street 1",
}


@pytest.fixture
def web_engine(bench: Bench, clock: ManualClock) -> Engine:
    return an_engine(bench.database, clock, base_url=HOME, postal_address="Street 1, 1000 Town")


@pytest.fixture
def sequences(bench: Bench) -> SequenceBench:
    return SequenceBench(bench)


@pytest.fixture
async def ada(web_engine: Engine) -> AsyncIterator[Visit]:
    await web_engine.users.create("ada", PASSWORD, Role.ADMIN, actor="test")
    async with a_visit(create_app(web_engine)) as visit:
        yield visit


async def test_every_page_of_the_flow_names_the_local_mailbox(ada: Visit, web_engine: Engine, bench: Bench) -> None:
    sentence = str(LOCAL_MAILBOX)
    button = "Send to the local mailbox (nobody receives it)"
    await join(bench.database, [address_of(1), address_of(2)])
    made = await web_engine.campaigns.create(Actor("ada", DEFAULT_TENANT), DEFAULT_TENANT, a_definition())
    path = f"/campaigns/{made.campaign_id}"
    for page in ("/set-up/test", "/set-up/done", "/", path, f"{path}/checks"):
        assert sentence in (await ada.open(page)).text, page
    confirmation = (await ada.open(path)).text.partition('id="start"')[2].partition(">")[0]
    assert "Send to the local mailbox" in confirmation
    assert sentence in confirmation
    assert button in ada.buttons()
    await ada.press(button)
    assert "Campaign started." in ada.flash
    assert sentence in ada.flash
    assert sentence in ada.words().replace(ada.flash, "")
    await bench.drain()
    result = await ada.open(path)
    assert "accepted by the provider" not in result.text
    assert "stored in the local mailbox; nobody receives them" in result.words().lower()
    shown = await ada.open(f"/messages/{await _a_message(bench)}")
    assert "Stored in the local mailbox" in shown.words()
    assert "Nobody receives it." in shown.words()
    assert "accepted by the provider" not in shown.words().lower()


async def test_pages_that_let_other_sources_send_name_the_local_mailbox(
    ada: Visit, web_engine: Engine, sequences: SequenceBench
) -> None:
    people = [address_of(number) for number in range(3)]
    await join(web_engine.database, people)
    running = await sequences.start()
    paused = await sequences.start(name="Paused")
    await web_engine.sequences.pause(DEFAULT_TENANT, paused, actor="test")
    drafted = await web_engine.sequences.create(DEFAULT_TENANT, a_document(name="Draft"), actor="test")
    repeated = await web_engine.campaigns.create(Actor("ada", DEFAULT_TENANT), DEFAULT_TENANT, a_definition())
    await tenants.change(web_engine.database, tenants.DEFAULT, approval_over=2)
    await web_engine.campaign_approvals.request(Actor("ada", DEFAULT_TENANT), repeated.campaign_id)
    with pytest.raises(AwaitsApproval):
        await sequences.enrol(running, *people)
    [waiting] = await web_engine.send_approvals.list_waiting(DEFAULT_TENANT)
    for page in (
        f"/campaigns/{repeated.campaign_id}/repeat",
        f"/campaigns/{repeated.campaign_id}/approval",
        f"/approvals/{waiting.id}",
        f"/sequences/{running}",
        f"/sequences/{drafted.sequence_id}/publish",
        f"/sequences/{paused}/resume",
    ):
        assert str(LOCAL_MAILBOX) in (await ada.open(page)).text, page
    await ada.open(f"/sequences/{drafted.sequence_id}")
    assert str(LOCAL_MAILBOX) not in ada.words()


async def test_api_and_agents_say_that_nobody_receives_a_campaign(web_engine: Engine, bench: Bench) -> None:
    await join(bench.database, [address_of(1)])
    key = await web_engine.keys.create(DEFAULT_TENANT, "app", frozenset([Scope.READ, Scope.MANAGE]), actor="test")
    async with client_of(create_app(web_engine), key) as client:
        made = await client.post("/v1/campaigns", json=a_definition().model_dump(mode="json", by_alias=True))
        path = f"/v1/campaigns/{made.json()['campaignId']}"
        state = (await client.get("/v1/sending")).json()
        answers = {
            "state": state,
            "check": (await client.post(f"{path}/preflight")).json()["delivery"],
            "start": (await client.post(f"{path}/start")).json()["delivery"],
            "show": (await client.get(path)).json()["delivery"],
        }
        for name, answer in answers.items():
            assert str(LOCAL_MAILBOX) in answer["sentence"], name
            assert answer["destination"] == "local_mailbox", name
        assert state["consenting"] == 0
        assert "local_mailbox" in [each["reason"] for each in state["remarks"]]
        assert (await client.get(path)).json()["sentTo"] is None
        await bench.drain()
        assert (await client.get(path)).json()["sentTo"] == "local_mailbox"
        explained = (await client.get(f"/v1/email/{await _a_message(bench)}/explain")).json()["sentence"]
        assert "Stored in the local mailbox" in explained


@pytest.mark.parametrize(
    ("changes", "state", "destination", "sentence"),
    [
        ({}, ReadinessState.READY, Destination.RECIPIENTS, "Email leaves this machine through SMTP server."),
        ({"provider": "mailbox"}, ReadinessState.NOBODY_RECEIVES, Destination.LOCAL_MAILBOX, str(LOCAL_MAILBOX)),
        (
            {"dry_run": True},
            ReadinessState.NOBODY_RECEIVES,
            Destination.LOCAL_MAILBOX,
            f"This is a dry run. {LOCAL_MAILBOX}",
        ),
        (
            {"provider": "mailbox", "demo": True},
            ReadinessState.NOBODY_RECEIVES,
            Destination.LOCAL_MAILBOX,
            f"This is a demo. {LOCAL_MAILBOX}",
        ),
        (
            {"smtp_url": "smtp://127.0.0.1:1025?purpose=test"},
            ReadinessState.NOBODY_RECEIVES,
            Destination.TEST_SERVER,
            str(TEST_SERVER),
        ),
    ],
)
async def test_state_follows_from_the_provider(
    bench: Bench,
    clock: ManualClock,
    changes: dict[str, Any],
    state: ReadinessState,
    destination: Destination,
    sentence: str,
) -> None:
    await _report_worker(bench)
    engine = an_engine(bench.database, clock, **{**READY, **changes})
    found = await load_readiness(engine.settings, bench.database, clock, DEFAULT_TENANT)
    assert (found.state, found.destination, readiness_text(found)) == (state, destination, sentence)


async def test_missing_parts_are_listed_with_advice(bench: Bench, clock: ManualClock) -> None:
    engine = an_engine(
        bench.database,
        clock,
        sender="Shop <shop@shop.test>",
        base_url="http://127.0.0.1:8025",
        provider="smtp",
        smtp_url="smtp://relay.shop.org",
    )
    found = await load_readiness(engine.settings, bench.database, clock, DEFAULT_TENANT, counts_consent=True)
    assert found.reasons == (
        ReadinessReason.NO_WORKER,
        ReadinessReason.SENDER_MISSING,
        ReadinessReason.PUBLIC_ADDRESS_LOCAL,
        ReadinessReason.POSTAL_ADDRESS_MISSING,
    )
    assert found.state is ReadinessState.STOPPED
    assert all(each.advice for each in readiness_remarks(found))
    await _report_worker(bench)
    found = await load_readiness(engine.settings, bench.database, clock, DEFAULT_TENANT)
    assert found.state is ReadinessState.INCOMPLETE
    assert readiness_text(found) == "Email leaves this machine through SMTP server."


async def test_step_without_a_usable_sender_has_no_tick(ada: Visit, web_engine: Engine, clock: ManualClock) -> None:
    await record_step(web_engine.database, SetupStep.SENDER, StepState.DONE)
    engine = an_engine(web_engine.database, clock, base_url=HOME, sender="Shop <shop@shop.test>")
    async with a_visit(create_app(engine)) as visit:
        page = (await visit.open("/set-up/done")).text
    steps = page.partition('class="wizard-steps"')[2].partition("</nav>")[0]
    assert "is-done" not in steps
    assert "does not exist on the internet" in page
    assert (await load_progress(web_engine.database)).steps == {SetupStep.SENDER: StepState.DONE}


def test_result_is_named_after_where_the_messages_went() -> None:
    notes = {each: sent_note(each) for each in Destination}
    assert [each for each, note in notes.items() if note == "accepted by the provider"] == [Destination.RECIPIENTS]
    assert all("nobody receives" in notes[each] for each in Destination if each is not Destination.RECIPIENTS)


async def _report_worker(bench: Bench) -> None:
    await WorkerRegistry(bench.database, bench.clock, "w1").report(WorkerPresence("smtp"))


async def _a_message(bench: Bench) -> str:
    async with bench.database.read() as tx:
        [row, *_] = await tx.execute(select(messages.c.outbox_id).order_by(messages.c.id))
    return str(row.outbox_id)
