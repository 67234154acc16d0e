"""The Notion client: rate limit, safe retries and helpful messages."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import structlog

from mailwright.domain.clock import ManualClock
from mailwright.domain.errors import InvalidInput
from mailwright.providers.http import HttpClient
from mailwright.sources.mailouts.notion import (
    Notion,
    NotionBlock,
    NotionInDoubt,
    NotionRefused,
    NotionUnavailable,
    notion_id,
    read_content,
)
from mailwright.sources.mailouts.notion.client import VERSIONS
from mailwright.sources.mailouts.notion.content import MAX_DEPTH
from tests.notion_pages import ERROR_COLUMNS, MAILOUT_COLUMNS, Described, block, said
from tests.standins.http import BROKEN_JSON, EMPTY, GARBAGE, HTML, WRONG_JSON, Answer, Step, json_answer
from tests.standins.notion import TOKEN, NotionStandIn, busy, error

ID = "393abc1e-edcd-8104-9e45-de1cccb47ac5"
BARE = ID.replace("-", "")
EVERY_ROW = {"property": "Name", "title": {"is_not_empty": True}}


class Stage:
    """A Notion stand-in with tables, and a client whose sleeps advance the clock."""

    def __init__(self, api: NotionStandIn, http: HttpClient, clock: ManualClock, version: str) -> None:
        self.api = api
        self.http = http
        self.clock = clock
        self.naps: list[float] = []
        self.notion = Notion(http, TOKEN, clock, url=api.url, version=version, sleep=self.nap)
        self.mailouts = api.add_database("Mailouts", MAILOUT_COLUMNS)
        self.errors = api.add_database("Errors", ERROR_COLUMNS)

    async def nap(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.clock.advance(round(seconds * 1000))
        await asyncio.sleep(0)


@pytest.fixture(params=VERSIONS)
async def stage(request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    clock, http = ManualClock(), HttpClient(connections=8)
    async with NotionStandIn(clock=clock) as api:
        yield Stage(api, http, clock, request.param)
        assert not api.violations
        await http.close()


# Ids.


@pytest.mark.parametrize(
    "pasted",
    [
        ID,
        BARE,
        BARE.upper(),
        f"  {ID}\n",
        f"https://www.notion.so/{BARE}",
        f"https://www.notion.so/team/What-the-harbour-did-{BARE}?pvs=4",
        f"https://app.notion.com/p/Test-2026-07-04-11-08-57-{BARE}#anchor",
        f"https://example.notion.site/{ID}",
        f"https://www.notion.so/team/{'f' * 32}?v={'e' * 32}&p={BARE}&pm=s",
        f"https://www.notion.so/team/{BARE}?v={'e' * 32}",
        f"notion.so/{BARE}",
        f"notion://www.notion.so/Words-{BARE}",
        f"<https://www.notion.so/{BARE}/>",
    ],
)
def test_id_is_parsed_in_every_pasted_form(pasted: str) -> None:
    assert notion_id(pasted) == ID


@pytest.mark.parametrize(
    "pasted", ["", "March", "https://example.com/", BARE[:-1], f"{BARE}0", "../" + BARE, "http://[", "g" * 32]
)
def test_invalid_id_is_refused_with_the_next_step(pasted: str) -> None:
    with pytest.raises(InvalidInput, match="Copy link") as refused:
        notion_id(pasted)
    assert refused.value.field == "notionPageId"


# Reading.


async def test_page_and_table_are_read(stage: Stage) -> None:
    page_id = stage.api.add_page(stage.mailouts, {"Name": "March", "Test": True, "Status": "Ready"})
    page = await stage.notion.page(page_id.replace("-", ""))
    table = await stage.notion.data_source(stage.mailouts)
    assert (page.id, page.data_source_id) == (page_id, table.id)
    assert page.properties["Status"]["status"]["name"] == "Ready"
    assert table.types["Status"] == "status"
    assert table.options["Status"] == ("Draft", "Ready", "Send", "Failed")
    assert {request.headers["Authorization"] for request in stage.api.requests} == {f"Bearer {TOKEN}"}


async def test_all_rows_of_a_long_table_are_read_in_order(stage: Stage) -> None:
    made = [stage.api.add_page(stage.errors, {"Name": f"{number:03}"}) for number in range(230)]
    table = await stage.notion.data_source(stage.errors)
    assert [page.id async for page in stage.notion.query(table, where=EVERY_ROW)] == made
    where = {"property": "Name", "title": {"starts_with": "01"}}
    assert [page.id async for page in stage.notion.query(table, where=where)] == made[10:20]


async def test_incomplete_query_result_is_refused(stage: Stage) -> None:
    table = await stage.notion.data_source(stage.errors)
    status = {"type": "incomplete", "incomplete_reason": "query_result_limit_reached"}
    part = {"object": "list", "results": [], "has_more": False, "next_cursor": None, "request_status": status}
    stage.api.answer(json_answer(200, part))
    with pytest.raises(NotionRefused) as refused:
        [page async for page in stage.notion.query(table, where=EVERY_ROW)]
    assert refused.value.code == "NOTION_TOO_MANY_ROWS"


async def test_repeated_cursor_ends_the_query(stage: Stage) -> None:
    page = stage.api.add_page()
    circle = {"object": "list", "results": [], "has_more": True, "next_cursor": "again"}
    stage.api.answer(json_answer(200, circle))
    with pytest.raises(NotionUnavailable) as refused:
        await stage.notion.children(page)
    assert refused.value.code == "NOTION_GARBLED"


async def test_content_is_read_depth_first_across_pages(stage: Stage) -> None:
    long = [said("paragraph", f"{number}") for number in range(205)]
    nested = said("toggle", "outer", said("bulleted_list_item", "inner", said("paragraph", "innermost")))
    page = stage.api.add_page(blocks=[nested, *long])
    blocks = await read_content(stage.notion, page)
    assert _words(blocks) == ["outer", "inner", "innermost", *(str(number) for number in range(205))]
    assert blocks[0].children[0].children[0].type == "paragraph"


async def test_child_pages_and_private_notes_are_not_read(stage: Stage) -> None:
    kinds = ("child_page", "child_database", "template", "meeting_notes", "transcription", "unsupported")
    page = stage.api.add_page(blocks=[block(kind, said("paragraph", "private"), title="x") for kind in kinds])
    blocks = await read_content(stage.notion, page)
    assert [each.type for each in blocks] == list(kinds)
    assert not any(each.children for each in blocks)


async def test_synced_block_shows_its_original_without_cycles(stage: Stage) -> None:
    home = stage.api.add_page(blocks=[block("synced_block", said("paragraph", "shared words"), synced_from=None)])
    (original,) = stage.api.children_of(home)
    copy = block("synced_block", synced_from={"type": "block_id", "block_id": original})
    page = stage.api.add_page(blocks=[copy])
    assert _words(await read_content(stage.notion, page)) == ["shared words"]
    stage.api.add_blocks(original, [copy])
    (shown,) = await read_content(stage.notion, page)
    assert shown.children[0].content["rich_text"][0]["plain_text"] == "shared words"
    assert (shown.children[1].children, shown.children[1].missing) == ((), "it contains itself")


async def test_unshared_original_is_reported_and_the_rest_read(stage: Stage) -> None:
    home = stage.api.add_page(blocks=[block("synced_block", said("paragraph", "hidden"), synced_from=None)])
    (original,) = stage.api.children_of(home)
    stage.api.hide(original)
    copy = block("synced_block", synced_from={"type": "block_id", "block_id": original})
    page = stage.api.add_page(blocks=[copy, said("paragraph", "after")])
    missing, after = await read_content(stage.notion, page)
    assert missing.missing == "its original is on a page without access"
    assert _words([after]) == ["after"]


async def test_too_deep_nesting_is_reported(stage: Stage) -> None:
    deep: Described = said("paragraph", "bottom")
    for _ in range(MAX_DEPTH + 2):
        deep = said("toggle", "more", deep)
    page = stage.api.add_page(blocks=[deep])
    (found,) = await read_content(stage.notion, page)
    levels = 1
    while found.children:
        (found,) = found.children
        levels += 1
    assert levels == MAX_DEPTH
    assert found.missing == f"it is nested more than {MAX_DEPTH} levels deep"


async def test_page_with_too_many_blocks_is_refused(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mailwright.sources.mailouts.notion.content.MAX_BLOCKS", 10)
    page = stage.api.add_page(blocks=[said("paragraph", "x")] * 11)
    with pytest.raises(NotionRefused) as refused:
        await read_content(stage.notion, page)
    assert refused.value.code == "NOTION_PAGE_TOO_LARGE"


async def test_link_to_page_has_title_and_public_address(stage: Stage) -> None:
    public = stage.api.add_page(cells={"title": "Visitors"}, public_url="https://example.notion.site/Visitors")
    hidden = stage.api.add_page(cells={"title": "Secret"})
    stage.api.hide(hidden)
    page = stage.api.add_page(blocks=[block("link_to_page", type="page_id", page_id=each) for each in (public, hidden)])
    shown, missing = await read_content(stage.notion, page)
    assert (shown.content["title"], shown.content["public_url"]) == ("Visitors", "https://example.notion.site/Visitors")
    assert missing.missing == "it links to a page without access"


# Refusals say what to do.


async def test_unshared_page_is_refused_with_the_next_step(stage: Stage) -> None:
    page = stage.api.add_page()
    stage.api.hide(page)
    with pytest.raises(NotionRefused, match="add the integration under ••• and Connections") as refused:
        await stage.notion.page(page)
    assert refused.value.code == "NOTION_NOT_SHARED"
    assert page in str(refused.value)
    assert len(stage.api.requests) == 1


async def test_page_in_trash_is_refused(stage: Stage) -> None:
    page = stage.api.add_page()
    stage.api.trash(page)
    with pytest.raises(NotionRefused, match="trash") as refused:
        await stage.notion.page(page)
    assert refused.value.code == "NOTION_IN_TRASH"


async def test_page_in_trash_is_not_updated(stage: Stage) -> None:
    database = stage.api.add_database("Mailouts", {"Name": "title", "Sent Count": "number"})
    page = stage.api.add_page(database, {"Name": "March"})
    source = await stage.notion.data_source(database)
    stage.api.trash(page)
    with pytest.raises(NotionRefused, match="Restore it") as refused:
        await stage.notion.update_page(page, source, {"Sent Count": 1})
    assert refused.value.code == "NOTION_IN_TRASH"


async def test_wrong_token_names_the_setting(stage: Stage) -> None:
    wrong = Notion(stage.http, "ntn_wrong", stage.clock, url=stage.api.url, sleep=stage.nap)
    with pytest.raises(NotionRefused, match="NOTION_TOKEN") as refused:
        await wrong.page(stage.api.add_page())
    assert refused.value.code == "NOTION_UNAUTHORIZED"
    assert "ntn_wrong" not in str(refused.value)


async def test_table_instead_of_page_is_refused(stage: Stage) -> None:
    with pytest.raises(NotionRefused, match="Use the address of one of its pages") as refused:
        await stage.notion.page(stage.mailouts)
    assert refused.value.code == "NOTION_NOT_A_PAGE"


async def test_missing_permission_is_explained(stage: Stage) -> None:
    stage.api.answer(error(403, "restricted_resource", "Insufficient permissions for this endpoint."))
    with pytest.raises(NotionRefused, match="In its settings in Notion, allow it") as refused:
        await stage.notion.page(ID)
    assert refused.value.code == "NOTION_RESTRICTED"


async def test_other_refusals_are_quoted(stage: Stage) -> None:
    stage.api.answer(error(400, "validation_error", "Title is expected to be\n  title."), times=1)
    stage.api.answer(error(418, "teapot", ""))
    with pytest.raises(NotionRefused, match=r"Title is expected to be title\.$") as refused:
        await stage.notion.page(ID)
    assert refused.value.code == "NOTION_INVALID"
    with pytest.raises(NotionRefused, match="418 teapot"):
        await stage.notion.page(ID)


async def test_two_data_sources_are_refused_with_their_ids(stage: Stage) -> None:
    two = stage.api.add_database("Mail", MAILOUT_COLUMNS, sources=("March", "April"))
    with pytest.raises(NotionRefused, match="Set NOTION_DB_ERRORS to the id of one of them") as refused:
        await stage.notion.data_source(two, setting="NOTION_DB_ERRORS")
    assert refused.value.code == "NOTION_SEVERAL_DATA_SOURCES"
    assert f"'March' is {stage.api.source_of(two)}" in str(refused.value)
    chosen = await stage.notion.data_source(stage.api.source_of(two))
    assert (chosen.id, chosen.name) == (stage.api.source_of(two), "March")


async def test_unshared_database_names_its_setting(stage: Stage) -> None:
    stage.api.hide(stage.mailouts)
    with pytest.raises(NotionRefused, match=r"of NOTION_DB_MAILOUTS\. Open it in Notion") as refused:
        await stage.notion.data_source(stage.mailouts)
    assert refused.value.code == "NOTION_NOT_SHARED"


# Pace and patience.


async def test_requests_keep_the_rate_limit(stage: Stage) -> None:
    for _ in range(12):
        await stage.notion.page(stage.api.add_page())
    assert stage.api.too_fast == 0
    assert sum(stage.naps) >= 11 / 3


async def test_concurrent_requests_share_the_rate_limit(stage: Stage) -> None:
    async with NotionStandIn() as patient:  # it looks at no clock: what is on the wire does not age with ours
        notion = Notion(stage.http, TOKEN, stage.clock, url=patient.url, sleep=stage.nap)
        pages = [patient.add_page() for _ in range(12)]
        began = stage.clock.now()
        await asyncio.gather(*(notion.page(page) for page in pages))
        assert stage.clock.now() - began >= 11_000 / 3


async def test_slow_request_does_not_arrive_with_later_ones(stage: Stage) -> None:
    pages = [stage.api.add_page() for _ in range(6)]
    stage.api.call(Step.ANSWER, lambda: stage.clock.advance(300))
    for page in pages:
        await stage.notion.page(page)
    assert stage.api.too_fast == 0


@pytest.mark.parametrize("status", [429, 529])
async def test_retry_after_is_respected(stage: Stage, status: int) -> None:
    page = stage.api.add_page()
    stage.api.answer(busy(status, seconds=7), times=2)
    began = stage.clock.now()
    assert (await stage.notion.page(page)).id == page
    assert 14_000 <= stage.clock.now() - began < 16_000
    assert len(stage.api.requests) == 3


async def test_long_wait_is_raised_with_its_length(stage: Stage) -> None:
    stage.api.answer(busy(429, seconds=600))
    with pytest.raises(NotionUnavailable) as refused:
        await stage.notion.page(ID)
    assert (refused.value.code, refused.value.retry_after) == ("NOTION_RATE_LIMITED", 600_000)
    assert len(stage.api.requests) == 1


async def test_retry_after_applies_to_all_requests(stage: Stage) -> None:
    page = stage.api.add_page()
    stage.api.answer(busy(429, seconds=600), times=1)
    for expected in (600_000, 600_000 - 30_000):
        with pytest.raises(NotionUnavailable) as refused:
            await stage.notion.page(page)
        assert refused.value.retry_after == expected
        stage.clock.advance(30_000)
    assert len(stage.api.requests) == 1
    stage.clock.advance(480_001)  # less than a minute is left, and waited for
    assert (await stage.notion.page(page)).id == page
    assert 59_000 <= sum(stage.naps) * 1_000 <= 60_000


@pytest.mark.parametrize(
    "trouble", [Answer(500), error(503, "service_unavailable", "x"), Answer(504), HTML, EMPTY, WRONG_JSON, BROKEN_JSON]
)
async def test_short_outage_is_retried_and_long_one_raised(stage: Stage, trouble: Answer) -> None:
    page = stage.api.add_page()
    stage.api.answer(trouble, times=2)
    assert (await stage.notion.page(page)).id == page
    stage.api.forget_rules()
    stage.api.answer(trouble)
    with pytest.raises(NotionUnavailable):
        await stage.notion.page(page)
    assert len(stage.api.requests) == 3 + 5


async def test_broken_connection_is_retried(stage: Stage) -> None:
    page = stage.api.add_page()
    stage.api.answer(GARBAGE, times=1)
    stage.api.cut(Step.MIDDLE, times=1)
    assert (await stage.notion.page(page)).id == page


async def test_unreachable_notion_is_unavailable(stage: Stage) -> None:
    async with NotionStandIn() as gone:
        url = gone.url
    nowhere = Notion(stage.http, TOKEN, stage.clock, url=url, sleep=stage.nap)
    with pytest.raises(NotionUnavailable, match="unreachable"):
        await nowhere.page(ID)


# Writing.


async def test_values_are_written_in_the_type_of_each_column(stage: Stage) -> None:
    page = stage.api.add_page(stage.mailouts, {"Name": "March"})
    table = await stage.notion.data_source(stage.mailouts)
    cells = {"Status": "Failed", "Sent Count": 2, "Sent At": "2027-01-15T08:00:00.000+00:00", "Bounce Rate": 0.25}
    await stage.notion.update_page(page, table, cells)
    assert {name: stage.api.cells(page)[name] for name in cells} == cells


async def test_long_error_message_is_split(stage: Stage) -> None:
    table = await stage.notion.data_source(stage.errors)
    long = "x" * 4_500 + "🚧" * 10
    row = await stage.notion.create_page(
        table, {"Name": "bounced", "Error Message": long, "Email": "ada@example.com", "Stage": "send, then settle"}
    )
    cells = stage.api.cells(row.id)
    assert (cells["Error Message"], cells["Email"], cells["Stage"]) == (long, "ada@example.com", "send  then settle")


async def test_missing_column_is_skipped_with_one_warning(stage: Stage) -> None:
    page = stage.api.add_page(stage.mailouts, {"Name": "March"})
    stage.api.remove_column(stage.mailouts, "Failed Count")
    table = await stage.notion.data_source(stage.mailouts)
    with structlog.testing.capture_logs() as lines:
        for count in (1, 2):
            await stage.notion.update_page(page, table, {"Sent Count": count, "Failed Count": 0})
        assert await stage.notion.update_page(page, table, {"Failed Count": 0}) is None
    assert stage.api.cells(page)["Sent Count"] == 2
    warnings = [line for line in lines if line["log_level"] == "warning"]
    assert [line["property"] for line in warnings] == ["Failed Count"]
    assert "has no property 'Failed Count'. Add it" in warnings[0]["reason"]


@pytest.mark.parametrize("answer", [Answer(500), Answer(504), EMPTY, HTML])
async def test_insert_in_doubt_is_not_repeated(stage: Stage, answer: Answer) -> None:
    table = await stage.notion.data_source(stage.errors)
    before = len(stage.api.requests)
    stage.api.answer(answer)
    with pytest.raises(NotionInDoubt):
        await stage.notion.create_page(table, {"Name": "once"})
    assert len(stage.api.requests) == before + 1


async def test_insert_without_response_is_in_doubt(stage: Stage) -> None:
    table = await stage.notion.data_source(stage.errors)
    stage.api.cut(Step.MIDDLE, path="/v1/pages")
    with pytest.raises(NotionInDoubt, match="did not confirm that it wrote"):
        await stage.notion.create_page(table, {"Name": "once"})
    assert len(stage.api.created) == 1


async def test_failed_insert_is_repeated(stage: Stage) -> None:
    table = await stage.notion.data_source(stage.errors)
    stage.api.answer(busy(429), times=1)
    stage.api.answer(error(409, "conflict_error", "Conflict."), times=1)
    await stage.notion.create_page(table, {"Name": "once"})
    assert len(stage.api.created) == 1


async def test_update_without_response_is_repeated(stage: Stage) -> None:
    page = stage.api.add_page(stage.mailouts, {"Name": "March"})
    table = await stage.notion.data_source(stage.mailouts)
    stage.api.cut(Step.MIDDLE, times=1)
    await stage.notion.update_page(page, table, {"Sent Count": 3})
    assert stage.api.cells(page)["Sent Count"] == 3
    assert len(stage.api.updates) == 2


def _words(blocks: tuple[NotionBlock, ...] | list[NotionBlock]) -> list[str]:
    found = []
    for each in blocks:
        found += [piece["plain_text"] for piece in each.content.get("rich_text", [])]
        found += _words(each.children)
    return found
