"""The global search: what it finds, for whom, and what it answers, on both engines."""

from collections.abc import AsyncIterator

import pytest

from mailwright.access.roles import Role
from mailwright.app.wiring import Engine
from mailwright.audience import contacts
from mailwright.audience.contacts import ContactChange
from mailwright.audience.list_removal import ListRemoval
from mailwright.audience.search import find_by_prefix
from mailwright.content.template_store import TemplateDraft
from mailwright.domain.clock import HOUR, ManualClock
from mailwright.outbox import tenants
from mailwright.sources.campaigns.records import Actor
from mailwright.sources.campaigns.removal import CampaignRemoval
from mailwright.web.app import create_app
from tests.api import an_engine
from tests.builders import DEFAULT_TENANT, Bench, a_message
from tests.campaigns import OPERATOR, CampaignHarness, a_definition, a_list
from tests.pages import HOME, PASSWORD, Visit, a_visit


@pytest.fixture
def web_engine(bench: Bench, clock: ManualClock) -> Engine:
    return an_engine(bench.database, clock, base_url=HOME)


@pytest.fixture
async def ada(web_engine: Engine) -> AsyncIterator[Visit]:
    await web_engine.users.create("ada", PASSWORD, Role.ADMIN, actor="test")
    async with a_visit(create_app(web_engine)) as visit:
        yield visit


async def found(visit: Visit, text: str, at: str = "") -> str:
    """Return the words of the options that the palette shows."""
    answer = await visit.client.get("/search", params={"q": text, "at": at}, headers={"HX-Request": "true"})
    assert answer.status_code == 200
    visit.answer = answer
    return answer.text


async def test_search_finds_every_kind_of_thing(ada: Visit, bench: Bench, clock: ManualClock) -> None:
    await a_list(bench.database)
    campaign_id = await CampaignHarness(bench).create(name="Brass catalogue")
    change = ContactChange(name="Bramble Smith")
    await contacts.put(bench.database, clock, DEFAULT_TENANT, "bob@example.com", change, actor="test")
    [outbox_id] = await bench.accept(a_message(subject="Bread is ready"))
    text = await found(ada, "br")
    for path in (f"/campaigns/{campaign_id}", "/contacts/bob%40example.com", f"/messages/{outbox_id}"):
        assert f'href="{path}"' in text
    assert 'href="/lists/news"' in await found(ada, "NEWS")
    assert 'href="/contacts/bob%40example.com"' in await found(ada, "BOB@ex")
    assert 'href="/settings/keys"' in await found(ada, "api key")
    assert "Nothing found" in await found(ada, "zzzz")


async def test_search_finds_nothing_that_was_deleted(ada: Visit, web_engine: Engine, bench: Bench) -> None:
    await a_list(bench.database, "brass")
    campaign_id = await CampaignHarness(bench).create(name="Brass catalogue")
    await web_engine.templates.write(
        DEFAULT_TENANT, "brass-design", TemplateDraft(subject="Hello", body="<p>Hello</p>")
    )
    change = ContactChange(name="Brass Smith")
    await contacts.put(bench.database, bench.clock, DEFAULT_TENANT, "brass@example.com", change, actor="test")
    [contact] = await find_by_prefix(bench.database, DEFAULT_TENANT, "brass@", limit=2)
    before = await found(ada, "brass")
    assert all(f'href="/{kind}/' in before for kind in ("campaigns", "contacts", "lists", "templates"))
    await CampaignRemoval(bench.database, bench.clock).delete(OPERATOR, campaign_id)
    await ListRemoval(bench.database, bench.clock).delete(DEFAULT_TENANT, "brass", actor="test")
    await web_engine.template_removal.delete(DEFAULT_TENANT, "brass-design", actor="test")
    await contacts.delete(bench.database, bench.clock, DEFAULT_TENANT, contact.contact_id)
    assert "Nothing found" in await found(ada, "brass")


QUESTIONS = ("{id}", "why was {id} not sent?", "late@example.com", "why hasn't late@example.com got it")


@pytest.mark.promise("search-explains")
@pytest.mark.parametrize("text", QUESTIONS)
async def test_search_explains_why_a_message_waits(ada: Visit, bench: Bench, clock: ManualClock, text: str) -> None:
    later = clock.now() + HOUR
    [outbox_id] = await bench.accept(a_message(to="late@example.com", scheduled_at=later))
    words = await found(ada, text.format(id=outbox_id))
    assert "Scheduled" in words
    assert "in 60 minutes" in words
    assert f'href="/messages/{outbox_id}"' in words


async def test_question_is_about_the_page_or_the_queue(ada: Visit, bench: Bench, clock: ManualClock) -> None:
    campaign_id = await CampaignHarness(bench).create(name="Spring")
    assert "Spring" in await found(ada, "why hasn't this been sent?", f"/campaigns/{campaign_id}")
    ids = await bench.accept(*(a_message(scheduled_at=clock.now() + HOUR) for _ in range(4)))
    words = await found(ada, "why is this not sent", f"/messages/{ids[0]}")
    assert words.count('role="option"') == 1
    assert ids[0] in words
    # Messages that wait for the same reason are explained once.
    assert (await found(ada, "why hasn't this been sent?", "/")).count('role="option"') == 1


async def test_search_respects_role_and_tenant(ada: Visit, web_engine: Engine, clock: ManualClock) -> None:
    database = web_engine.database
    other = await tenants.create(database, clock, "acme")
    await web_engine.users.create("alan", PASSWORD, Role.VIEWER, actor="test")
    await contacts.put(database, clock, other.id, "eve@example.com", ContactChange(name="Eve"), actor="test")
    actor = Actor("operator", other.id)
    await web_engine.campaigns.create(actor, other.id, a_definition(name="Eve's campaign"))
    async with a_visit(create_app(web_engine), "alan") as alan:
        assert "New campaign" in await found(ada, "new")
        assert "New campaign" not in await found(alan, "new")
        assert "/settings/" not in await found(alan, "limits")
    for text in ("eve", "eve@example.com"):
        assert "/contacts/" not in await found(ada, text)
        assert "/campaigns/" not in await found(ada, text)


async def test_search_works_as_a_page_without_scripts(ada: Visit, bench: Bench) -> None:
    [outbox_id] = await bench.accept(a_message(subject="Bread is ready"))
    await ada.open("/search?q=bread")
    assert f'href="/messages/{outbox_id}"' in ada.text
    await ada.open("/search?q=%25%27%22%3Cb%3E")
    assert "Nothing found" in ada.words()
    assert "<b>" not in ada.words()


async def test_address_prefix_compares_bytes_on_both_engines(bench: Bench, clock: ManualClock) -> None:
    for email in ("ab@example.com", "a.b@example.com", "a_c@example.com", "b@example.com", "aé@example.com"):
        await bench.accept(a_message(to=email))
    found = await find_by_prefix(bench.database, DEFAULT_TENANT, "A", limit=10)
    assert {each.email for each in found} >= {"ab@example.com", "a.b@example.com", "a_c@example.com"}
    assert "b@example.com" not in {each.email for each in found}
    assert [each.email for each in await find_by_prefix(bench.database, DEFAULT_TENANT, "a.", limit=10)] == [
        "a.b@example.com"
    ]


async def test_search_finds_the_time_zone(ada: Visit) -> None:
    assert "Time zone" in await found(ada, "timezone")
