"""Filters that name lists, campaigns and tags, which may be missing: nobody is reached by mistake. On both engines."""

from typing import Any
from uuid import uuid4

import orjson
import pytest
from sqlalchemy import delete, insert

from mailwright.app.segment_removal import SegmentInUse, delete_segment
from mailwright.audience import segments
from mailwright.audience.filters import InvalidFilter
from mailwright.audience.list_removal import ListInUse, ListRemoval
from mailwright.content.formats import TemplateFormat
from mailwright.content.template_store import TemplateDraft, TemplateStore
from mailwright.domain.errors import InvalidInput
from mailwright.sources.campaigns.checks import CampaignCheck, check_campaign, count_audience, require_existing
from mailwright.sources.campaigns.variants import CampaignNotStartable
from mailwright.storage.tables import campaigns, lists
from mailwright.storage.tables import segments as segments_table
from tests.builders import DEFAULT_TENANT, Bench, a_tenant
from tests.campaigns import NEWS, CampaignHarness, a_definition, a_list, address_of, join

ANN = "ann"
STAFF = "staff"
NOT_STAFF = {"not": {"list": STAFF}}
UNKNOWN = str(uuid4())
# Each of these would match everyone if a missing list or campaign counted as an empty one.
WIDENING: list[Any] = [
    NOT_STAFF,
    {"all": [{"list": NEWS}, NOT_STAFF]},
    {"any": [{"domain": "elsewhere.example"}, NOT_STAFF]},
    {"not": {"any": [{"list": STAFF}, {"tag": "vip"}]}},
    {"not": {"sent": {"campaign": UNKNOWN}}},
    {"not": {"didNotOpen": {"campaign": UNKNOWN}}},
]


async def put_segment(bench: Bench, key: str, filter_: Any) -> None:
    """Store a segment as an older version or a restored backup may have left it."""
    values = {"tenant_id": DEFAULT_TENANT, "segment_key": key, "name": key, "created_at": 0, "updated_at": 0}
    async with bench.database.write() as tx:
        await tx.execute(insert(segments_table).values(**values, filter=orjson.dumps(filter_).decode()))


async def lose_list(bench: Bench, list_key: str) -> None:
    async with bench.database.write() as tx:
        await tx.execute(delete(lists).where(lists.c.list_key == list_key))


async def checked(bench: Bench, **changes: Any) -> CampaignCheck:
    store = TemplateStore(bench.database, bench.clock)
    definition = a_definition(**changes)
    return await check_campaign(bench.database, store, definition, tenant_id=DEFAULT_TENANT, now=bench.clock.now())


def codes_of(check: CampaignCheck) -> set[tuple[str, str]]:
    return {(each.field, each.code) for each in check.problems if each.code.startswith("UNKNOWN")}


@pytest.mark.promise("campaign-refusals")
@pytest.mark.parametrize("filter_", WIDENING)
async def test_filter_with_a_missing_reference_reaches_nobody(bench: Bench, filter_: Any) -> None:
    await join(bench.database, [address_of(number) for number in range(3)])
    await put_segment(bench, "others", filter_)
    code = "UNKNOWN_CAMPAIGN" if UNKNOWN in str(filter_) else "UNKNOWN_LIST"
    for field, changes in (
        ("segment", {"segment": "others"}),
        ("excludeSegments", {"excludeSegments": ["others"]}),
        ("filter", {"filter": filter_}),
    ):
        check = await checked(bench, **changes)
        assert (field, code) in codes_of(check)
        assert check.planned == 0
        definition = a_definition(**changes)
        assert (await count_audience(bench.database, DEFAULT_TENANT, definition, bench.clock.now())).planned == 0
        with pytest.raises(InvalidInput, match="There is no"):
            await require_existing(bench.database, DEFAULT_TENANT, definition)
    async with bench.database.read() as tx:
        assert await segments.count_members(tx, DEFAULT_TENANT, filter_, bench.clock.now()) == 0


async def test_list_of_another_tenant_is_missing(bench: Bench) -> None:
    await join(bench.database, [address_of(1)])
    await a_list(bench.database, STAFF, tenant_id=await a_tenant(bench.database, "them"))
    assert ("filter", "UNKNOWN_LIST") in codes_of(await checked(bench, filter=NOT_STAFF))


@pytest.mark.promise("campaign-refusals")
async def test_list_that_segments_name_is_not_deleted(bench: Bench) -> None:
    removal = ListRemoval(bench.database, bench.clock)
    await a_list(bench.database, STAFF)
    for key in ("readers", "others"):
        await segments.create(bench.database, bench.clock, DEFAULT_TENANT, key, filter_={"all": [NOT_STAFF]})
    with pytest.raises(ListInUse, match="the segments others, readers name it") as refused:
        await removal.delete(DEFAULT_TENANT, STAFF, actor=ANN)
    assert [each.name for each in refused.value.uses] == ["others", "readers"]
    for key in ("readers", "others"):
        await delete_segment(bench.database, bench.clock, DEFAULT_TENANT, key, actor=ANN)
    await removal.delete(DEFAULT_TENANT, STAFF, actor=ANN)


async def test_list_in_the_filter_of_a_draft_is_not_deleted(bench: Bench) -> None:
    await a_list(bench.database, STAFF)
    await a_list(bench.database)
    await CampaignHarness(bench).create(filter=NOT_STAFF)
    with pytest.raises(ListInUse, match="the draft News of January"):
        await ListRemoval(bench.database, bench.clock).delete(DEFAULT_TENANT, STAFF, actor=ANN)


async def test_list_in_a_frozen_filter_is_not_deleted(bench: Bench) -> None:
    desk = CampaignHarness(bench)
    await a_list(bench.database, STAFF)
    await segments.create(bench.database, bench.clock, DEFAULT_TENANT, "others", filter_=NOT_STAFF)
    await desk.start(3, segment="others")
    # The started campaign keeps the filter that names the list.
    await segments.change(bench.database, bench.clock, DEFAULT_TENANT, "others", filter_={"tag": "vip"})
    with pytest.raises(ListInUse, match="the queued campaign News of January"):
        await ListRemoval(bench.database, bench.clock).delete(DEFAULT_TENANT, STAFF, actor=ANN)


async def test_archived_list_still_leaves_its_subscribers_out(bench: Bench) -> None:
    await join(bench.database, [address_of(1)])
    await join(bench.database, [address_of(2)], STAFF)
    await ListRemoval(bench.database, bench.clock).archive(DEFAULT_TENANT, STAFF, actor=ANN)
    async with bench.database.read() as tx:
        found = await segments.list_members(tx, DEFAULT_TENANT, NOT_STAFF, bench.clock.now(), limit=9)
    assert [each.email for each in found] == [address_of(1)]


async def test_started_campaign_reaches_nobody_without_its_list(bench: Bench) -> None:
    desk = CampaignHarness(bench)
    await a_list(bench.database, STAFF)
    campaign_id = await desk.start(3, filter=NOT_STAFF)
    await lose_list(bench, STAFF)
    await desk.run_scheduler()
    assert await desk.addresses(campaign_id) == []


@pytest.mark.parametrize("filter_", WIDENING)
async def test_segment_with_a_missing_reference_is_not_saved(bench: Bench, filter_: Any) -> None:
    await a_list(bench.database)
    with pytest.raises(InvalidFilter, match="There is no"):
        await segments.create(bench.database, bench.clock, DEFAULT_TENANT, "others", filter_=filter_)
    await segments.create(bench.database, bench.clock, DEFAULT_TENANT, "vips", filter_={"tag": "vip"})
    with pytest.raises(InvalidFilter, match="There is no"):
        await segments.change(bench.database, bench.clock, DEFAULT_TENANT, "vips", filter_=filter_)


# Segments in campaigns and in conditions of the content.


def a_document(segment: str) -> str:
    inner = [{"id": "b2", "type": "text", "html": "Golden news"}]
    block = {"id": "b1", "type": "condition", "segment": segment, "blocks": inner, "otherwise": []}
    return orjson.dumps({"version": 1, "blocks": [block, {"id": "b3", "type": "footer"}]}).decode()


@pytest.mark.parametrize(
    "changes",
    [
        {"segment": "vips"},
        {"excludeSegments": ["vips"]},
        {"content": {"subject": "News", "body": "{% if in_segments['vips'] %}Hi{% endif %}"}},
        {"content": {"subject": "News", "format": "blocks", "body": a_document("vips")}},
    ],
)
async def test_segment_of_a_draft_is_not_deleted(bench: Bench, changes: dict[str, Any]) -> None:
    await a_list(bench.database)
    await segments.create(bench.database, bench.clock, DEFAULT_TENANT, "vips", filter_={"tag": "vip"})
    await CampaignHarness(bench).create(**changes)
    with pytest.raises(SegmentInUse, match="the draft News of January"):
        await delete_segment(bench.database, bench.clock, DEFAULT_TENANT, "vips", actor=ANN)
    await segments.find(bench.database, DEFAULT_TENANT, "vips")


async def test_segment_of_a_template_is_not_deleted(bench: Bench) -> None:
    store = bench.engine.templates
    await segments.create(bench.database, bench.clock, DEFAULT_TENANT, "vips", filter_={"tag": "vip"})
    draft = TemplateDraft(subject="News", body=a_document("vips"), format=TemplateFormat.BLOCKS)
    await store.write(DEFAULT_TENANT, "news", draft)
    with pytest.raises(SegmentInUse, match="the template news"):
        await delete_segment(bench.database, bench.clock, DEFAULT_TENANT, "vips", actor=ANN)
    await store.write(DEFAULT_TENANT, "news", TemplateDraft(subject="News", body="<p>Hello</p>"))
    await delete_segment(bench.database, bench.clock, DEFAULT_TENANT, "vips", actor=ANN)


async def test_condition_with_a_missing_list_stops_the_start(bench: Bench) -> None:
    desk = CampaignHarness(bench)
    await put_segment(bench, "others", NOT_STAFF)
    content = {"subject": "News", "format": "blocks", "body": a_document("others")}
    with pytest.raises(CampaignNotStartable) as refused:
        await desk.start(1, content=content)
    assert [(each.field, each.code) for each in refused.value.problems] == [("content.body", "UNKNOWN_LIST")]
    async with bench.database.read() as tx:
        found = await segments.load_memberships(tx, DEFAULT_TENANT, ["others"], [address_of(0)], bench.clock.now())
    assert found == {address_of(0): {}}


# Tags.


async def test_tag_that_no_contact_has_is_a_warning(bench: Bench) -> None:
    await join(bench.database, [address_of(1)])
    check = await checked(bench, filter={"not": {"tag": "vpi"}})
    assert check.planned == 1
    assert "UNUSED_TAG" in {each.code for each in check.warnings}


async def test_deleted_draft_still_counts_as_a_campaign(bench: Bench) -> None:
    desk = CampaignHarness(bench)
    await join(bench.database, [address_of(1)])
    campaign_id = await desk.create()
    async with bench.database.write() as tx:
        await tx.execute(campaigns.update().where(campaigns.c.campaign_id == campaign_id).values(deleted_at=1))
    assert (await checked(bench, filter={"not": {"sent": {"campaign": campaign_id}}})).planned == 1
