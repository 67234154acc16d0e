"""Actions on selected rows, and the order of lists, on both engines."""

import re
from collections.abc import AsyncIterator, Sequence

import pytest
from sqlalchemy import update

from mailwright.access.roles import Role
from mailwright.app.wiring import Engine
from mailwright.audience import contacts, lists, segments, suppressions
from mailwright.audience.contacts import ContactChange
from mailwright.audience.status import ContactStatusService
from mailwright.domain.clock import HOUR, ManualClock
from mailwright.outbox import tenants
from mailwright.storage.tables import contacts as contacts_table
from mailwright.web.app import create_app
from tests.api import an_engine
from tests.builders import DEFAULT_TENANT, REFUSAL, Bench, a_message
from tests.campaigns import a_list
from tests.pages import HOME, PASSWORD, Visit, a_visit
from tests.standins.provider import ScriptedProvider

FILTER = {"attribute": "orders", "atLeast": 10}
PATHS = ("/contacts/~bulk", "/messages/~bulk", "/suppressions/~bulk")


@pytest.fixture
def web_engine(bench: Bench, clock: ManualClock) -> Engine:
    return an_engine(bench.database, clock, base_url=HOME)


@pytest.fixture
async def grace(web_engine: Engine) -> AsyncIterator[Visit]:
    await web_engine.users.create("grace", PASSWORD, Role.EDITOR, actor="test")
    async with a_visit(create_app(web_engine), "grace") as visit:
        yield visit


async def post(visit: Visit, path: str, selected: Sequence[str], status: int = 200, **fields: str) -> None:
    """Send the form of the selected rows as a browser does."""
    page = await visit.client.get(path.removesuffix("/~bulk"))
    token = re.search(r'name="form_token" value="([^"]+)"', page.text)
    assert token
    data = {"form_token": token[1], "selected": list(selected), **fields}
    visit.answer = await visit.client.post(path, data=data, follow_redirects=True)
    assert visit.answer.status_code == status


async def some_contacts(bench: Bench, *names: str, tenant_id: int = DEFAULT_TENANT) -> list[str]:
    emails = [f"{name}@example.com" for name in names]
    for email in emails:
        change = ContactChange(tags=["old"])
        await contacts.put(bench.database, bench.clock, tenant_id, email, change, actor="test")
    return emails


async def test_selected_contacts_are_tagged_and_added_to_list(grace: Visit, bench: Bench) -> None:
    await a_list(bench.database)
    statuses = ContactStatusService(bench.database, bench.clock)
    emails = await some_contacts(bench, "a", "b", "c")
    await post(grace, PATHS[0], [*emails[:2], "nobody@example.com"], action="tag", tag="vip", next="/contacts?tag=old")
    assert "2 contacts tagged vip. 1 contact not changed" in grace.flash
    assert str(grace.answer.url).endswith("/contacts?tag=old")
    for email, tags in zip(emails, (["old", "vip"], ["old", "vip"], ["old"]), strict=True):
        assert list((await contacts.load_details(bench.database, DEFAULT_TENANT, email)).tags) == tags
    await post(grace, PATHS[0], emails[:1], action="list", list="news")
    assert grace.flash.startswith("1 contact added to the list.")
    await statuses.unsubscribe(DEFAULT_TENANT, emails[1], "news", source="test")
    await post(grace, PATHS[0], emails, action="list", list="news")
    assert "2 contacts added to the list." in grace.flash
    assert "1 contact not changed: b@example.com unsubscribed or said no." in grace.flash
    async with bench.database.write() as tx:
        await tx.execute(update(contacts_table).where(contacts_table.c.email == emails[1]).values(status="bounced"))
    await post(grace, PATHS[0], emails[1:2], action="list", list="news")
    assert "b@example.com bounced and gets no email." in grace.flash
    await post(grace, PATHS[0], emails, action="tag", tag="two, tags")
    assert "without a comma" in grace.flash
    await post(grace, PATHS[0], [], action="suppress")
    assert grace.flash == "Select at least one contact."


async def test_selected_contacts_are_suppressed_and_erased(grace: Visit, bench: Bench) -> None:
    emails = await some_contacts(bench, "a", "b")
    await post(grace, PATHS[0], emails, action="suppress", next="https://evil.example/")
    assert (grace.path, grace.flash) == ("/contacts", "2 contacts suppressed.")
    assert await suppressions.is_suppressed(bench.database, DEFAULT_TENANT, emails[0])
    await post(grace, PATHS[2], [f"* {email}" for email in emails])
    assert grace.flash == "2 suppressions removed."
    assert not await suppressions.is_suppressed(bench.database, DEFAULT_TENANT, emails[0])
    await post(grace, PATHS[0], emails[:1], action="erase")
    assert grace.flash == "1 contact erased."
    assert "a@example.com" not in (await grace.open("/contacts")).words()


async def test_selected_messages_are_cancelled_and_retried(grace: Visit, bench: Bench, clock: ManualClock) -> None:
    later = clock.now() + HOUR
    waiting = await bench.accept(a_message(scheduled_at=later), a_message(scheduled_at=later))
    failed = await bench.accept(a_message())
    await bench.drain(ScriptedProvider(REFUSAL))
    await post(grace, PATHS[1], [waiting[0], *failed, "not-an-id"], action="cancel", next="/messages?status=QUEUED")
    assert "1 email cancelled. 2 emails not changed" in grace.flash
    assert grace.answer.url.query == b"status=QUEUED"
    await post(grace, PATHS[1], failed, action="retry")
    assert grace.flash == "1 email queued again."
    statuses = [(await bench.record(each)).summary.status for each in (*waiting, *failed)]
    assert statuses == ["CANCELLED", "PENDING", "PENDING"]
    await post(grace, PATHS[1], failed, action="burn")
    assert grace.flash == "Choose one of the actions."


async def test_bulk_actions_respect_role_and_tenant(
    grace: Visit, web_engine: Engine, bench: Bench, clock: ManualClock
) -> None:
    other = await tenants.create(bench.database, clock, "acme")
    await some_contacts(bench, "eve", tenant_id=other.id)
    [theirs] = await bench.accept(a_message(tenant_id=other.id, scheduled_at=clock.now() + HOUR))
    for action in ("tag", "suppress", "erase"):
        await post(grace, PATHS[0], ["eve@example.com"], action=action, tag="x")
        assert grace.flash.startswith("0 contacts")
    await post(grace, PATHS[1], [theirs], action="cancel")
    assert grace.flash.startswith("0 emails")
    assert (await bench.record(theirs)).summary.status == "PENDING"
    await web_engine.users.create("alan", PASSWORD, Role.VIEWER, actor="test")
    async with a_visit(create_app(web_engine), "alan") as alan:
        for path in PATHS:
            await post(alan, path, ["x"], 403, action="cancel")
            assert 'name="selected"' not in (await alan.open(path.removesuffix("/~bulk"))).text


async def test_short_lists_are_sorted_by_column(grace: Visit, bench: Bench, clock: ManualClock) -> None:
    for key in ("b", "a", "c"):
        await lists.create(bench.database, clock, DEFAULT_TENANT, key, name=key.upper())
        await segments.create(bench.database, clock, DEFAULT_TENANT, key, filter_=FILTER, name=key.upper())
        clock.advance(HOUR)
    for path, newest in (("lists", "-created"), ("segments", "-changed")):
        for sort, expected in (("", "abc"), ("-name", "cba"), (newest, "cab"), ("nonsense", "abc")):
            text = (await grace.open(f"/{path}?sort={sort}")).text
            shown = re.findall(rf'class="main-cell"><a href="/{path}/(\w)"', text)
            assert "".join(shown) == expected, (path, sort)


async def test_sorted_contact_list_keeps_order_on_next_page(grace: Visit, bench: Bench) -> None:
    await some_contacts(bench, *(f"p{number:03}" for number in reversed(range(60))))
    text = (await grace.open("/contacts?sort=email&tag=old")).text
    assert re.findall(r'value="(p\d+)@', text)[:2] == ["p000", "p001"]
    assert 'aria-sort="ascending"' in text
    following = re.search(r'rel="next" href="([^"]+)"', text)
    assert following
    text = (await grace.open("/contacts" + following[1].replace("&amp;", "&"))).text
    assert re.findall(r'value="(p\d+)@', text) == [f"p{number:03}" for number in range(50, 60)]
    assert "sort=email" in following[1]
    assert "60 contacts" in (await grace.open("/contacts?sort=nonsense")).words()
