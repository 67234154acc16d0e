"""Sequences in the dashboard, on both engines."""

from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from mailwright.access.roles import Role
from mailwright.app.wiring import Engine
from mailwright.audience import segments
from mailwright.content.blocks.starters import load_starter
from mailwright.content.template_store import TemplateDraft
from mailwright.domain.clock import DAY, ManualClock
from mailwright.sources.sequences.ready import READY_NAMES
from mailwright.web.app import create_app
from tests.api import an_engine
from tests.builders import DEFAULT_TENANT, Bench, a_subscriber
from tests.campaigns import a_list
from tests.pages import HOME, PASSWORD, Visit, a_visit, actions_on
from tests.sequences import SequenceBench, a_document, a_wait, an_email


@pytest.fixture
def web_engine(bench: Bench, clock: ManualClock) -> Engine:
    return an_engine(bench.database, clock, base_url=HOME)


@pytest.fixture
async def ada(web_engine: Engine) -> AsyncIterator[Visit]:
    await web_engine.users.create("ada", PASSWORD, Role.EDITOR, actor="test")
    async with a_visit(create_app(web_engine)) as visit:
        yield visit


@pytest.fixture
def sequences(bench: Bench) -> SequenceBench:
    return SequenceBench(bench)


async def sign_in_again(visit: Visit) -> None:
    """Sign in after the clock moved, because the session has ended."""
    await visit.client.post("/sign-in", data={"login": "ada", "password": PASSWORD})


async def draft_of(engine: Engine, sequence_id: str) -> Any:
    return (await engine.sequences.find(DEFAULT_TENANT, sequence_id)).draft


def step_ids(draft: Any) -> list[str]:
    return [step["id"] for step in draft["steps"]]


@pytest.mark.parametrize("name", READY_NAMES)
async def test_ready_made_sequence_is_created_and_published(
    ada: Visit, web_engine: Engine, bench: Bench, name: str
) -> None:
    await a_list(bench.database, "news")
    await ada.open("/sequences")
    assert "No sequences yet" in ada.words()
    await ada.open(f"/sequences/~new?ready={name}")
    await ada.press("Create draft", ready=name, list="news")
    [sequence] = await web_engine.sequences.list_all(DEFAULT_TENANT)
    assert ada.path == f"/sequences/{sequence.sequence_id}"
    await ada.open(f"{ada.path}/publish")
    await ada.press("Publish")
    assert ada.flash == "Version 1 is published."
    assert await actions_on(web_engine, sequence.sequence_id) == ["sequence.create", "sequence.publish"]


async def test_pause_and_publish_ask_about_overdue_people(
    ada: Visit, web_engine: Engine, sequences: SequenceBench, clock: ManualClock
) -> None:
    await sequences.people("ada@example.com", "grace@example.com")
    sequence_id = await sequences.start(a_wait(days=3), an_email())
    await sequences.enrol(sequence_id, "ada@example.com", "grace@example.com")
    await sequences.run()
    await ada.open(f"/sequences/{sequence_id}")
    await ada.press("Pause")
    assert "keeps their place" in ada.flash
    clock.advance(4 * DAY)
    await sign_in_again(ada)
    await ada.open(f"/sequences/{sequence_id}/resume")
    assert "2 people became due during the pause" in ada.words()
    await ada.press("Resume", 422)
    await ada.press("Resume", overdue="spread", hours="12")
    assert ada.flash == "Sequence resumed."
    due = [each.due_at or 0 for each in await sequences.enrolments(sequence_id)]
    assert all(clock.now() <= each < clock.now() + DAY / 2 for each in due)


async def test_publish_shows_who_moves_and_is_overdue(
    ada: Visit, web_engine: Engine, sequences: SequenceBench, clock: ManualClock
) -> None:
    await sequences.people("ada@example.com")
    sequence_id = await sequences.start(a_wait(days=3), an_email())
    await sequences.enrol(sequence_id, "ada@example.com")
    await sequences.run()
    clock.advance(2 * DAY)
    await sign_in_again(ada)
    await ada.open(f"/sequences/{sequence_id}/steps/pause/edit")
    await ada.press("Save step", days="1")
    assert "changes that are not published" in ada.words()
    await ada.open(f"/sequences/{sequence_id}/publish")
    assert "ada@example.com" in ada.words()
    await ada.press("Publish", 422)
    assert "overdue" in ada.words()
    await ada.press("Publish", overdue="skip")
    assert ada.flash == "Version 2 is published."
    await sequences.run()
    assert await sequences.recipients() == []


async def test_publish_asks_about_emails_already_received(
    ada: Visit, web_engine: Engine, sequences: SequenceBench
) -> None:
    await sequences.people("ada@example.com")
    sequence_id = await sequences.start(an_email("hello"), a_wait(days=3), an_email("tips"))
    await sequences.enrol(sequence_id, "ada@example.com")
    await sequences.run()
    await ada.open(f"/sequences/{sequence_id}/people")
    assert "waits until the previous email is sent" in ada.words()
    await ada.open(f"/sequences/{sequence_id}/steps/hello/move")
    await ada.press("Move step", place="//2")
    await ada.open(f"/sequences/{sequence_id}/publish")
    assert "1 person already received hello" in ada.words()
    assert "Already received" in ada.words()
    await ada.press("Publish")
    await sequences.run_for(4 * DAY, DAY)
    assert len(await sequences.recipients()) == 2


async def test_segment_edit_asks_who_enters_the_sequence(
    ada: Visit, web_engine: Engine, sequences: SequenceBench
) -> None:
    await sequences.people("ada@example.com", attributes='{"plan": "pro"}')
    where = (web_engine.database, web_engine.clock, DEFAULT_TENANT, "pros")
    await segments.create(*where, filter_={"attribute": "plan", "is": "free"})
    sequence_id = await sequences.start(trigger={"entersSegment": "pros"})
    await ada.open("/segments/pros/edit")
    await ada.press("Save segment", 422, **{"0.0.value": "pro"})
    assert "1 person would enter Welcome" in ada.words()
    await ada.press("Save segment", members="enrol")
    assert ada.flash == "Segment saved. 1 entered Welcome."
    assert len(await sequences.enrolments(sequence_id)) == 1


async def test_editor_adds_moves_deletes_and_undoes(ada: Visit, web_engine: Engine, sequences: SequenceBench) -> None:
    sequence_id = await sequences.start(an_email())
    home = f"/sequences/{sequence_id}"
    await ada.open(f"{home}/steps/~new?kind=wait&index=1")
    await ada.press("Add step", 422)
    assert "needs days, hours or minutes" in ada.words()
    await ada.press("Add step", days="2")
    await ada.open(f"{home}/steps/~new?kind=branch&index=2")
    await ada.press("Add step", **{"id": "plan", "0.0.name": "plan", "0.0.op": "is", "0.0.value": "pro"})
    await ada.open(f"{home}/steps/~new?kind=notify&parent=plan&path=branch.0&index=0")
    await ada.press("Add step", id="tell", to="team@example.com", subject="A pro", text="Look")
    draft = await draft_of(web_engine, sequence_id)
    assert step_ids(draft) == ["first", "wait", "plan"]
    [case] = draft["steps"][2]["branch"]
    assert case["if"] == {"all": [{"attribute": "plan", "is": "pro"}]}
    assert [step["id"] for step in case["steps"]] == ["tell"]
    await ada.open(f"{home}/steps/tell/move")
    await ada.press("Move step", place="//0")
    assert step_ids(await draft_of(web_engine, sequence_id)) == ["tell", "first", "wait", "plan"]
    token = {"form_token": ada.forms()[0].filled({})["form_token"]}
    ada.answer = await ada.client.post(f"{home}/steps/first/delete", data=token)
    assert step_ids(await draft_of(web_engine, sequence_id)) == ["tell", "wait", "plan"]
    await ada.press("Undo")
    assert step_ids(await draft_of(web_engine, sequence_id)) == ["tell", "first", "wait", "plan"]


async def test_change_of_an_older_revision_is_refused(ada: Visit, web_engine: Engine, sequences: SequenceBench) -> None:
    sequence_id = await sequences.start(an_email(), a_wait())
    await ada.open(f"/sequences/{sequence_id}/steps/pause/edit")
    draft = await draft_of(web_engine, sequence_id)
    await web_engine.sequences.edit(DEFAULT_TENANT, sequence_id, draft, revision=None, actor="grace")
    await ada.press("Save step", 409, days="5")
    assert "Somebody else changed the sequence" in ada.words()
    assert await draft_of(web_engine, sequence_id) == draft


async def test_failed_step_is_listed_and_skipped(ada: Visit, web_engine: Engine, sequences: SequenceBench) -> None:
    await sequences.people("ada@example.com")
    sequence_id = await sequences.start(an_email(), a_wait())
    html = "<p>{{ order_number }}</p>"
    await web_engine.templates.put(DEFAULT_TENANT, "welcome", subject="Hello", html=html, text=None)
    await sequences.enrol(sequence_id, "ada@example.com")
    await sequences.run()
    await ada.open(f"/sequences/{sequence_id}/people?state=failed")
    assert "needs order_number" in ada.words()
    await ada.press("Skip")
    await sequences.run()
    assert (await sequences.enrolment(sequence_id)).node == "pause"
    await ada.open(f"/sequences/{sequence_id}/people")
    await ada.press("Enrol", 422, emails="ada@example.com, nobody")
    assert "This is not an email address" in ada.words()
    await ada.open(f"/sequences/{sequence_id}/counts")
    await ada.open("/sequences/figures")
    await ada.open(f"/sequences/{sequence_id}/source")


async def test_trigger_and_goal_are_edited_in_forms(
    ada: Visit, web_engine: Engine, sequences: SequenceBench, bench: Bench
) -> None:
    await a_list(bench.database, "news")
    sequence_id = await sequences.start(an_email())
    home = f"/sequences/{sequence_id}"
    await ada.open(f"{home}/trigger?kind=schedule")
    await ada.press("Save", 422)
    assert "Choose a list or a segment" in ada.words()
    await ada.press("Save", list="news")
    await ada.open(f"{home}/filters/goal")
    await ada.press("Save", 422)
    assert "Enter the name of the event." in ada.words()
    await ada.press("Save", 422, event="order.placed", where="total 100")
    assert "Line 1 is not a condition." in ada.words()
    await ada.press("Save", where="total >= 100")
    await ada.open(f"{home}/filters/exit-0")
    await ada.press("Save", **{"for": "filter", "0.0.kind": "tag", "0.0.op": "yes", "0.0.value": "vip"})
    draft = await draft_of(web_engine, sequence_id)
    goal = {"event": "order.placed", "where": {"total": {"atLeast": 100}}}
    assert draft["trigger"] == {"schedule": {"weekdays": ["mon"], "time": "09:00"}, "list": "news"}
    assert (draft["reentry"], draft["goal"]) == ("each", goal)
    assert draft["exits"] == [{"all": [{"tag": "vip"}]}]
    assert "every Mon at 09:00, everyone on the list" in (await ada.open(home)).words()
    await ada.open(f"{home}/filters/exit-0")
    await ada.press("Remove")
    assert (await draft_of(web_engine, sequence_id))["exits"] == []


async def test_email_of_a_step_is_previewed_and_tested(
    ada: Visit, web_engine: Engine, sequences: SequenceBench
) -> None:
    await sequences.people("grace@example.com", attributes='{"plan":"pro"}')
    subject = "Order {{ event.number }} for {{ plan }}"
    sequence_id = await sequences.start(an_email("hello", subject=subject), a_wait(), trigger={"event": "order.placed"})
    at = f"/sequences/{sequence_id}/steps/hello"
    assert "Order [number] for [plan]" in (await ada.open(f"{at}/preview")).words()
    assert "Order [number] for pro" in (await ada.open(f"{at}/preview?as=grace@example.com")).words()
    assert "Hello" in (await ada.client.get(f"{at}/mail")).text
    await ada.press("Send test email", to="ada@example.com")
    assert ada.flash == "Test email sent."
    assert await sequences.recipients() == ["ada@example.com"]
    assert await sequences.enrolments(sequence_id) == []
    await ada.open(f"/sequences/{sequence_id}/steps/pause/preview", 404)


async def test_email_is_written_in_the_composer_from_its_step(
    ada: Visit, web_engine: Engine, sequences: SequenceBench
) -> None:
    sequence_id = await sequences.start(an_email())
    home = f"/sequences/{sequence_id}"
    await ada.open(f"{home}/steps/~new?kind=send&index=1")
    await ada.press("Write a new email", 422, id="No ID")
    assert len(await web_engine.templates.list_page(DEFAULT_TENANT, limit=9)) == 1  # Nothing was created.
    await ada.press("Write a new email", id="tips", subject="Three tips")
    assert ada.path == "/templates/welcome-tips/compose"
    back = f'href="{home}#step-tips"'
    assert (back in ada.text, "Back to the sequence" in ada.text) == (True, True)
    [_, tips] = (await draft_of(web_engine, sequence_id))["steps"]
    assert tips == {"id": "tips", "send": {"template": "welcome-tips"}}
    assert (await web_engine.templates.latest(DEFAULT_TENANT, "welcome-tips")).subject == "Three tips"
    await ada.open(f"{home}/steps/~new?kind=send&index=1")
    await ada.press("Write a new email", id="news", design="newsletter")
    designed = await web_engine.templates.latest(DEFAULT_TENANT, "welcome-news")
    assert orjson.loads(designed.body) == load_starter("newsletter").document
    await ada.open(f"{home}/steps/~new?kind=send&index=1")
    await ada.press("Write a new email", 422, id="other", design="receipt")  # Not among the designs of bulk email.
    # A template that is missing, as after an import, is created under its name.
    gone = {**await draft_of(web_engine, sequence_id), "steps": [{"id": "first", "send": {"template": "gone"}}]}
    await web_engine.sequences.edit(DEFAULT_TENANT, sequence_id, gone, revision=None, actor="test")
    await ada.open(f"{home}/steps/first/edit")
    await ada.press("Edit this email")
    assert (ada.path, back.replace("tips", "first") in ada.text) == ("/templates/gone/compose", True)
    await ada.open(f"{home}/steps/first/edit")
    await ada.press("Edit this email")
    assert ada.path == "/templates/gone/compose"


async def test_import_names_missing_objects(ada: Visit, web_engine: Engine) -> None:
    await ada.open("/sequences/~new")
    document = orjson.dumps(a_document(an_email(), {"id": "tag", "change": {"subscribe": ["vip"]}}))
    data = {"form_token": ada.forms()[0].filled({})["form_token"]}
    files = {"file": ("sequence.json", document, "application/json")}
    ada.answer = await ada.client.post("/sequences/~import", data=data, files=files, follow_redirects=True)
    problems = "there is no template welcome; there is no list vip"
    assert ada.flash == f"Draft created. Before you can publish it: {problems}."


async def test_exported_file_contains_templates_and_never_overwrites_silently(
    ada: Visit, web_engine: Engine, sequences: SequenceBench
) -> None:
    sequence_id = await sequences.start(an_email())
    templates = web_engine.templates
    await templates.write(DEFAULT_TENANT, "welcome", TemplateDraft(subject="Bem-vindo", body="<p>Olá</p>", locale="pt"))
    exported = (await ada.client.get(f"/sequences/{sequence_id}/export.json")).content
    assert [(each["templateId"], each.get("locale")) for each in orjson.loads(exported)["templates"]] == [
        ("welcome", None),
        ("welcome", "pt"),
    ]

    async def take(**fields: str) -> Visit:
        await ada.open("/sequences/~new")
        data = {"form_token": ada.forms()[0].filled({})["form_token"], **fields}
        files = {"file": ("sequence.json", exported, "application/json")}
        ada.answer = await ada.client.post("/sequences/~import", data=data, files=files, follow_redirects=True)
        return ada

    async def versions() -> list[tuple[str, str]]:
        return [(each.locale, each.subject) for each in await templates.versions(DEFAULT_TENANT, "welcome")]

    before = await versions()
    assert (await take()).flash == "Draft created. Nobody enters before you publish it."
    assert await versions() == before  # The same ones are not stored again.
    await templates.write(DEFAULT_TENANT, "welcome", TemplateDraft(subject="Changed", body="<p>Changed</p>"))
    changed = await versions()
    assert "These templates exist already and differ from the file: welcome" in (await take()).words()
    assert (ada.answer.status_code, await versions()) == (422, changed)
    await take(replace="yes")
    assert (await templates.latest(DEFAULT_TENANT, "welcome")).subject == "Welcome"
    whole = exported.replace(b'"welcome"', b'"hello"')
    exported = orjson.dumps({**orjson.loads(whole), "steps": []})
    assert (await take()).answer.status_code == 422
    assert len(await templates.list_page(DEFAULT_TENANT, limit=9)) == 1
    exported = whole
    assert (await take()).flash == "Draft created. Nobody enters before you publish it."
    assert {each.locale for each in await templates.versions(DEFAULT_TENANT, "hello")} == {"", "pt"}


@pytest.mark.both_engines
async def test_figures_are_only_those_of_listed_sequences(
    ada: Visit, web_engine: Engine, sequences: SequenceBench
) -> None:
    archived, running = await sequences.start(), await sequences.start()
    await web_engine.sequences.remove(DEFAULT_TENANT, archived, actor="test")
    for query, shown in (("", running), ("?show=archived", archived)):
        assert f'hx-get="/sequences/figures{query}"' in (await ada.open(f"/sequences{query}")).text
        figures = (await ada.client.get(f"/sequences/figures{query}")).text
        assert [f"people-{each}" in figures for each in (archived, running)] == [shown == archived, shown == running]


@pytest.mark.both_engines
async def test_simulation_and_contact_show_what_comes_next(
    ada: Visit, web_engine: Engine, sequences: SequenceBench
) -> None:
    await sequences.people("ada@example.com")
    sequence_id = await sequences.start(a_wait(days=3), an_email())
    await sequences.enrol(sequence_id, "ada@example.com")
    await sequences.run()
    await ada.open(f"/sequences/{sequence_id}/simulation")
    assert "Emails in 30 days 1" in ada.words()
    # Until somebody chooses, everyone on the list that starts the sequence enters.
    await a_list(sequences.database, "spring")
    for email in ("grace@example.com", "hedy@example.com"):
        await a_subscriber(sequences.database, email, "spring")
    joining = await sequences.start(an_email(), trigger={"joinsList": "spring"}, list="spring")
    await ada.open(f"/sequences/{joining}/simulation")
    assert ("People 2" in ada.words(), '<option value="spring" selected>' in ada.text) == (True, True)
    await ada.open(f"/sequences/{joining}/simulation?list=&segment=")
    assert "People 0" in ada.words()
    await ada.open("/contacts/ada@example.com")
    assert "They wait at pause until" in ada.words()
    assert ("Active" in ada.words(), "earlier run" in ada.words()) == (True, False)
    again = await sequences.start(an_email(), reentry="each")
    for _ in range(3):
        await sequences.enrol(again, "ada@example.com")
        await sequences.run()
    assert "2 earlier runs" in (await ada.open("/contacts/ada@example.com")).words()
    assert "Welcome" in (await ada.open("/search?q=welc")).words()


@pytest.mark.both_engines
async def test_steps_show_the_subjects_of_their_emails(
    ada: Visit, web_engine: Engine, sequences: SequenceBench
) -> None:
    await sequences.people("ada@example.com")
    subject = "Welcome to the workshop"
    await web_engine.templates.put(DEFAULT_TENANT, "greeting", subject=subject, html="<p>Hello</p>", text=None)
    outer = an_email("outer", template="greeting")
    case = {"if": {"attribute": "plan", "is": "pro"}, "steps": [an_email("inner", template="greeting")]}
    sequence_id = await sequences.start(outer, {"id": "which", "branch": [case]})
    await ada.open(f"/sequences/{sequence_id}")
    assert ada.words().count(subject) == 2
