"""Withdrawn, archived, deleted and restored campaigns, lists and templates, on both engines."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from mailwright.app.template_removal import make_template_removal
from mailwright.audience import lists
from mailwright.audience.eligibility import may_receive
from mailwright.audience.list_removal import RESTORABLE, ListInUse, ListRemoval
from mailwright.audience.lists import GENERAL, ListExists
from mailwright.audience.status import ContactStatusService, load_preferences
from mailwright.content.template_removal import TemplateInUse, TemplateRemoval
from mailwright.content.template_store import TemplateDraft, TemplateStore
from mailwright.domain.campaign import CampaignStatus
from mailwright.domain.clock import HOUR
from mailwright.domain.errors import InvalidInput, NotFound, NotPossibleNow
from mailwright.domain.record_state import RecordState
from mailwright.outbox.campaign_uses import CampaignUse
from mailwright.sources.api.templates import latest_templates
from mailwright.sources.campaigns.checks import check_campaign, require_existing
from mailwright.sources.campaigns.records import Actor
from mailwright.sources.campaigns.removal import CampaignRemoval
from mailwright.sources.campaigns.variants import CampaignNotStartable
from mailwright.storage.tables import contacts, deleted_lists, deleted_subscriptions, queue_entries, templates
from tests.builders import DEFAULT_TENANT, Bench, a_tenant, settings_for
from tests.campaigns import NEWS, OPERATOR, CampaignHarness, a_definition, a_list, address_of, join

ANN = "ann"


async def count(bench: Bench, table: Any) -> int:
    async with bench.database.read() as tx:
        return int((await tx.execute(select(func.count()).select_from(table)))[0][0])


async def reached(bench: Bench, *named: str) -> list[str]:
    async with bench.database.read() as tx:
        rows = await tx.execute(select(contacts.c.email).where(may_receive(DEFAULT_TENANT, named)))
    return sorted(row.email for row in rows)


# Withdrawing.


async def test_withdrawn_campaign_is_a_draft_that_can_start_again(bench: Bench) -> None:
    desk, removal = CampaignHarness(bench), CampaignRemoval(bench.database, bench.clock)
    campaign_id = await desk.start(3, scheduledAt=bench.clock.now() + HOUR)
    withdrawn = await removal.withdraw(OPERATOR, campaign_id)
    assert (withdrawn.status, withdrawn.started_at) == (CampaignStatus.DRAFT, None)
    bench.clock.advance(2 * HOUR)
    await desk.run_scheduler()
    assert await count(bench, queue_entries) == 0
    edited = a_definition(name="Later", scheduledAt=bench.clock.now() + HOUR)
    await desk.campaigns.edit(OPERATOR, campaign_id, edited)
    await desk.campaigns.start(OPERATOR, campaign_id)
    assert await count(bench, queue_entries) == 1


async def test_campaign_that_began_to_send_is_not_withdrawn(bench: Bench) -> None:
    desk, removal = CampaignHarness(bench), CampaignRemoval(bench.database, bench.clock)
    campaign_id = await desk.start(3)
    await desk.run_scheduler()
    with pytest.raises(NotPossibleNow):
        await removal.withdraw(OPERATOR, campaign_id)
    await desk.campaigns.pause(OPERATOR, campaign_id)
    with pytest.raises(NotPossibleNow, match="already begun"):
        await removal.withdraw(OPERATOR, campaign_id)


# Campaigns.


async def test_deleted_draft_is_found_by_nobody_until_restored(bench: Bench) -> None:
    desk, removal = CampaignHarness(bench), CampaignRemoval(bench.database, bench.clock)
    await join(bench.database, [address_of(1)])
    draft = await desk.campaigns.create(OPERATOR, DEFAULT_TENANT, a_definition())
    await removal.delete(OPERATOR, draft.campaign_id)
    actions: list[Callable[[Actor, str], Awaitable[Any]]] = [
        desk.campaigns.start,
        desk.campaigns.duplicate,
        desk.campaigns.cancel,
        removal.archive,
        removal.delete,
    ]
    for action in actions:
        with pytest.raises(NotFound):
            await action(OPERATOR, draft.campaign_id)
    with pytest.raises(NotFound):
        await desk.campaigns.find(draft.campaign_id, tenant_id=DEFAULT_TENANT)
    assert await desk.campaigns.list_page(tenant_id=DEFAULT_TENANT, limit=9) == []
    [deleted] = await desk.campaigns.list_page(tenant_id=DEFAULT_TENANT, limit=9, state=RecordState.DELETED)
    assert deleted.campaign_id == draft.campaign_id
    with pytest.raises(NotFound):
        await removal.restore(Actor("them", await a_tenant(bench.database, "them")), draft.campaign_id)
    await removal.restore(OPERATOR, draft.campaign_id)
    await desk.campaigns.start(OPERATOR, draft.campaign_id)


async def test_sent_campaign_is_archived_but_never_deleted(bench: Bench) -> None:
    desk, removal = CampaignHarness(bench), CampaignRemoval(bench.database, bench.clock)
    campaign_id = await desk.start(2)
    with pytest.raises(NotPossibleNow):
        await removal.archive(OPERATOR, campaign_id)
    await desk.campaigns.cancel(OPERATOR, campaign_id)
    with pytest.raises(NotPossibleNow, match="Archive it instead"):
        await removal.delete(OPERATOR, campaign_id)
    await removal.archive(OPERATOR, campaign_id)
    assert await desk.campaigns.list_page(tenant_id=DEFAULT_TENANT, limit=9) == []
    assert (await desk.campaigns.find(campaign_id, tenant_id=DEFAULT_TENANT)).archived_at is not None
    await removal.restore(OPERATOR, campaign_id)
    assert len(await desk.campaigns.list_page(tenant_id=DEFAULT_TENANT, limit=9)) == 1


@pytest.mark.parametrize(
    ("missing", "problem"), [({"content": {}}, "content.body"), ({"lists": []}, "lists"), ({}, "content.subject")]
)
async def test_incomplete_draft_is_saved_and_cannot_start(bench: Bench, missing: dict[str, Any], problem: str) -> None:
    desk = CampaignHarness(bench)
    await join(bench.database, [address_of(1)])
    definition = a_definition(**({"content": {"body": "<p>Hello</p>"}} | missing))
    draft = await desk.campaigns.create(OPERATOR, DEFAULT_TENANT, definition)
    with pytest.raises(CampaignNotStartable) as refused:
        await desk.campaigns.start(OPERATOR, draft.campaign_id)
    assert problem in {each.field for each in refused.value.problems}


# Exclusions.


async def test_excluded_list_and_segment_receive_nothing(bench: Bench) -> None:
    desk = CampaignHarness(bench)
    everyone = [address_of(number) for number in range(4)]
    await join(bench.database, everyone)
    await a_list(bench.database, "staff")
    status = ContactStatusService(bench.database, bench.clock)
    await status.subscribe(DEFAULT_TENANT, everyone[0], "staff", source="test")
    campaign_id = await desk.start(excludeLists=["staff"])
    await desk.run_scheduler()
    assert sorted(await desk.addresses(campaign_id)) == everyone[1:]
    definition = a_definition(excludeLists=["staff", "nowhere"])
    with pytest.raises(InvalidInput, match="no list nowhere"):
        await require_existing(bench.database, DEFAULT_TENANT, definition)


# Lists.


async def test_deleted_list_reaches_nobody_and_restores_its_subscribers(bench: Bench) -> None:
    removal = ListRemoval(bench.database, bench.clock)
    everyone = [address_of(number) for number in range(3)]
    await join(bench.database, everyone)
    await removal.delete(DEFAULT_TENANT, NEWS, actor=ANN)
    assert await reached(bench, NEWS) == await reached(bench) == await reached(bench, GENERAL) == []
    assert await lists.list_all(bench.database, DEFAULT_TENANT, with_archived=True) == []
    async with bench.database.read() as tx:
        assert not await lists.existing_keys(tx, DEFAULT_TENANT, [NEWS])
        assert not (await load_preferences(tx, DEFAULT_TENANT, everyone[0])).lists
    status = ContactStatusService(bench.database, bench.clock)
    await status.unsubscribe_by_link(DEFAULT_TENANT, everyone[0], NEWS, source="link")
    with pytest.raises(NotFound):
        await removal.restore(await a_tenant(bench.database, "them"), NEWS, actor="them")
    await removal.restore(DEFAULT_TENANT, NEWS, actor=ANN)
    assert await reached(bench, NEWS) == everyone[1:]
    assert await count(bench, deleted_lists) == await count(bench, deleted_subscriptions) == 0


async def test_deleted_list_is_gone_after_thirty_days(bench: Bench) -> None:
    removal = ListRemoval(bench.database, bench.clock)
    await join(bench.database, [address_of(1)])
    await removal.delete(DEFAULT_TENANT, NEWS, actor=ANN)
    bench.clock.advance(RESTORABLE)
    assert await removal.list_deleted(DEFAULT_TENANT) == []
    with pytest.raises(NotFound):
        await removal.restore(DEFAULT_TENANT, NEWS, actor=ANN)
    await a_list(bench.database, "other")
    await removal.delete(DEFAULT_TENANT, "other", actor=ANN)
    assert await count(bench, deleted_subscriptions) == 0


async def test_new_list_with_a_deleted_key_has_no_subscribers(bench: Bench) -> None:
    removal = ListRemoval(bench.database, bench.clock)
    await join(bench.database, [address_of(1)])
    await removal.delete(DEFAULT_TENANT, NEWS, actor=ANN)
    await lists.create(bench.database, bench.clock, DEFAULT_TENANT, NEWS)
    assert await reached(bench, NEWS) == []
    with pytest.raises(ListExists):
        await removal.restore(DEFAULT_TENANT, NEWS, actor=ANN)


async def test_archived_list_is_offered_nowhere(bench: Bench) -> None:
    removal = ListRemoval(bench.database, bench.clock)
    await join(bench.database, [address_of(1)])
    await removal.archive(DEFAULT_TENANT, NEWS, actor=ANN)
    assert await lists.list_all(bench.database, DEFAULT_TENANT) == []
    async with bench.database.read() as tx:
        assert not (await load_preferences(tx, DEFAULT_TENANT, "stranger@example.com")).lists
        subscriber = await load_preferences(tx, DEFAULT_TENANT, address_of(1))
        assert [each.list_key for each in subscriber.lists] == [NEWS]
    store = TemplateStore(bench.database, bench.clock)
    checked = await check_campaign(
        bench.database, store, a_definition(), tenant_id=DEFAULT_TENANT, now=bench.clock.now()
    )
    assert "ARCHIVED_LIST" in {each.code for each in checked.problems}
    await removal.restore(DEFAULT_TENANT, NEWS, actor=ANN)
    assert await reached(bench, NEWS) == [address_of(1)]


async def test_archived_list_is_restored_before_a_deleted_one(bench: Bench) -> None:
    removal = ListRemoval(bench.database, bench.clock)
    await join(bench.database, [address_of(1)])
    await removal.delete(DEFAULT_TENANT, NEWS, actor=ANN)
    await join(bench.database, [address_of(2)])
    await removal.archive(DEFAULT_TENANT, NEWS, actor=ANN)
    await removal.restore(DEFAULT_TENANT, NEWS, actor=ANN)
    [restored] = await lists.list_all(bench.database, DEFAULT_TENANT)
    assert (restored.archived_at, await reached(bench, NEWS)) == (None, [address_of(2)])
    with pytest.raises(ListExists):
        await removal.restore(DEFAULT_TENANT, NEWS, actor=ANN)


@pytest.mark.parametrize("named", [{"lists": [NEWS]}, {"lists": [GENERAL], "excludeLists": [NEWS]}])
async def test_list_of_a_draft_is_not_removed(bench: Bench, named: dict[str, Any]) -> None:
    desk, removal = CampaignHarness(bench), ListRemoval(bench.database, bench.clock)
    await a_list(bench.database)
    draft = await desk.campaigns.create(OPERATOR, DEFAULT_TENANT, a_definition(**named))
    for remove in (removal.delete, removal.archive):
        with pytest.raises(ListInUse, match="the draft News of January") as refused:
            await remove(DEFAULT_TENANT, NEWS, actor=ANN)
        assert [each.campaign_id for each in refused.value.uses if isinstance(each, CampaignUse)] == [draft.campaign_id]
    await CampaignRemoval(bench.database, bench.clock).delete(OPERATOR, draft.campaign_id)
    await removal.delete(DEFAULT_TENANT, NEWS, actor=ANN)


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        (None, "the scheduled campaign News of January uses it. Withdraw or cancel the campaign first."),
        ("pause", "the paused campaign News of January uses it. Wait until the campaign is sent, or cancel it."),
    ],
)
async def test_refusal_names_the_list_and_the_state(bench: Bench, action: str | None, reason: str) -> None:
    desk = CampaignHarness(bench)
    campaign_id = await desk.start(1, scheduledAt=bench.clock.now() + HOUR)
    await lists.edit(bench.database, bench.clock, DEFAULT_TENANT, NEWS, name="Shop news", actor=ANN)
    if action:
        await desk.campaigns.pause(OPERATOR, campaign_id)
    with pytest.raises(ListInUse) as refused:
        await ListRemoval(bench.database, bench.clock).delete(DEFAULT_TENANT, NEWS, actor=ANN)
    assert str(refused.value) == f"The list Shop news cannot be deleted because {reason}"


# Templates.


def a_removal(bench: Bench, **settings: Any) -> TemplateRemoval:
    return make_template_removal(settings_for("sqlite:///unused.db", **settings), bench.database, bench.clock)


async def test_deleted_template_is_unknown_until_restored(bench: Bench) -> None:
    store, removal = TemplateStore(bench.database, bench.clock), a_removal(bench)
    draft = TemplateDraft(subject="Hello", body="<p>Hello</p>")
    first = await store.write(DEFAULT_TENANT, "hello", draft)
    await removal.delete(DEFAULT_TENANT, "hello", actor=ANN)
    for find in (store.latest, store.versions):
        with pytest.raises(NotFound):
            await find(DEFAULT_TENANT, "hello")
    async with bench.database.read() as tx:
        assert not (await latest_templates(tx, DEFAULT_TENANT, ["hello"], [])).by_locale
    assert await store.list_page(DEFAULT_TENANT, limit=9) == []
    await store.load([first.key])
    assert store.cached(first.key) is not None  # Accepted messages still need their version.
    await removal.restore(DEFAULT_TENANT, "hello", actor=ANN)
    assert (await store.latest(DEFAULT_TENANT, "hello")).version == 1


async def test_template_with_a_deleted_id_is_a_new_one(bench: Bench) -> None:
    store, removal = TemplateStore(bench.database, bench.clock), a_removal(bench)
    draft = TemplateDraft(subject="Hello", body="<p>Hello</p>")
    await store.write(DEFAULT_TENANT, "hello", draft)
    await removal.delete(DEFAULT_TENANT, "hello", actor=ANN)
    again = await store.write(DEFAULT_TENANT, "hello", draft, must_be_new=True)
    assert again.version == 2
    assert [each.version for each in await store.versions(DEFAULT_TENANT, "hello")] == [2]
    with pytest.raises(NotPossibleNow, match="Another template"):
        await removal.restore(DEFAULT_TENANT, "hello", actor=ANN)


async def test_archived_template_is_hidden_but_still_works(bench: Bench) -> None:
    store, removal = TemplateStore(bench.database, bench.clock), a_removal(bench)
    draft = TemplateDraft(subject="Hello", body="<p>Hello</p>")
    await store.write(DEFAULT_TENANT, "hello", draft)
    await removal.archive(DEFAULT_TENANT, "hello", actor=ANN)
    assert await store.list_page(DEFAULT_TENANT, limit=9) == []
    assert len(await store.list_page(DEFAULT_TENANT, limit=9, state=RecordState.ARCHIVED)) == 1
    assert (await store.latest(DEFAULT_TENANT, "hello")).is_archived
    await removal.restore(DEFAULT_TENANT, "hello", actor=ANN)
    assert len(await store.list_page(DEFAULT_TENANT, limit=9)) == 1


async def test_template_of_a_draft_is_not_deleted(bench: Bench) -> None:
    store, removal = TemplateStore(bench.database, bench.clock), a_removal(bench)
    await store.write(DEFAULT_TENANT, "hello", TemplateDraft(subject="Hello", body="<p>Hello</p>"))
    desk = CampaignHarness(bench)
    await desk.campaigns.create(OPERATOR, DEFAULT_TENANT, a_definition(content={"templateId": "hello"}))
    with pytest.raises(TemplateInUse, match="the draft News of January"):
        await removal.delete(DEFAULT_TENANT, "hello", actor=ANN)
    await removal.archive(DEFAULT_TENANT, "hello", actor=ANN)


async def test_template_of_a_notification_type_is_not_deleted(bench: Bench, tmp_path: Path) -> None:
    store, draft = TemplateStore(bench.database, bench.clock), TemplateDraft(subject="Hello", body="<p>Hello</p>")
    kinds = tmp_path / "kinds.toml"
    kinds.write_text('[seat_taken]\ntemplate = "seat"\ntemplate_version = "v2"\nvariables = []\n')
    await a_tenant(bench.database, "them")
    for template_id in ("seat.v2", "seat.v1", "open-seat.v1"):
        await store.write(DEFAULT_TENANT, template_id, draft)
    removal = a_removal(bench, notify_kinds=kinds)
    for template_id, name in (("seat.v2", "seat_taken"), ("open-seat.v1", "open-seat")):
        with pytest.raises(TemplateInUse, match=f"notifications of the type {name} use it"):
            await removal.delete(DEFAULT_TENANT, template_id, actor=ANN)
    await removal.delete(DEFAULT_TENANT, "seat.v1", actor=ANN)
    await a_removal(bench, notify_kinds=kinds, notify_tenant="them").delete(DEFAULT_TENANT, "seat.v2", actor=ANN)
    await a_removal(bench).delete(DEFAULT_TENANT, "open-seat.v1", actor=ANN)


async def test_content_of_campaigns_cannot_be_removed_by_itself(bench: Bench) -> None:
    desk = CampaignHarness(bench)
    await desk.start(1)
    async with bench.database.read() as tx:
        [row] = await tx.execute(select(templates.c.template_id))
    for remove in (a_removal(bench).delete, a_removal(bench).archive):
        with pytest.raises(NotFound):
            await remove(DEFAULT_TENANT, row.template_id, actor=ANN)
