"""Followed feeds: each item is new once, whatever the feed does with its IDs, links and dates."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from unittest.mock import AsyncMock

import pytest

from mailwright.app import feeds
from mailwright.app.feeds import fetch_changed_feed
from mailwright.content.blocks.feed import read_feed
from mailwright.domain.clock import HOUR
from mailwright.providers.http import HttpResponse
from mailwright.sources.feeds.follow import (
    MAX_NEW_ITEMS,
    READ_EVERY,
    FeedOwner,
    FollowedFeed,
    Validators,
    find_feed,
    follow,
    take_items,
    unfollow,
)
from mailwright.sources.feeds.reader import FeedReader, FeedReading
from tests.builders import DEFAULT_TENANT, Bench
from tests.sequences import SequenceBench, an_email, lists

OWNER = FeedOwner("sequence", 1)
URL = "https://blog.example/feed.xml"


def an_item(number: int, **fields: str) -> str:
    """Return an item of an RSS feed; `None` leaves a field out."""
    parts = {"title": f"Post {number}", "link": f"https://blog.example/{number}", "guid": f"id-{number}", **fields}
    return f"<item>{''.join(f'<{name}>{text}</{name}>' for name, text in parts.items() if text)}</item>"


@dataclass
class Blog:
    """A feed that a test writes, and its reader."""

    bench: Bench
    items: list[str] = field(default_factory=list)
    document: bytes | None = None
    asked: list[Validators] = field(default_factory=list)

    async def fetch(self, url: str, known: Validators) -> FeedReading:
        assert url == URL
        self.asked.append(known)
        text = f"<rss><channel>{''.join(self.items)}</channel></rss>".encode()
        return FeedReading(read_feed(self.document or text), Validators(f"v{len(self.asked)}"))

    async def read(self) -> None:
        self.bench.clock.advance(READ_EVERY)
        reader = FeedReader(self.bench.engine.database, self.bench.clock, self.fetch)
        while await reader.read_due():
            pass

    async def new_titles(self) -> list[str]:
        await self.read()
        async with self.bench.engine.database.write() as tx:
            items = await take_items(tx, OWNER, self.bench.clock.now(), limit=100)
        return [item.content["title"] for item in items]

    async def feed(self) -> FollowedFeed:
        async with self.bench.engine.database.read() as tx:
            found = await find_feed(tx, OWNER)
        assert found is not None
        return found


@pytest.fixture
async def blog(bench: Bench) -> Blog:
    async with bench.engine.database.write() as tx:
        await follow(tx, DEFAULT_TENANT, OWNER, URL, bench.clock.now())
    return Blog(bench)


async def test_items_that_exist_when_following_begins_are_not_new(blog: Blog) -> None:
    blog.items = [an_item(2), an_item(1)]
    assert await blog.new_titles() == []
    blog.items = [an_item(4), an_item(3), *blog.items]
    assert await blog.new_titles() == ["Post 3", "Post 4"]
    assert await blog.new_titles() == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (an_item(1), an_item(1, guid="changed")),
        (an_item(1), an_item(1, link="https://new.example/1")),
        (an_item(1, guid=""), an_item(1, guid="", link="https://new.example/1")),
        (an_item(1, guid="", link=""), an_item(1, guid="", link="", pubDate="Fri, 01 Jan 2100 00:00:00 GMT")),
        (an_item(1), an_item(1, title="Post 1, corrected")),
    ],
    ids=["other id", "other link", "no id", "nothing but a title", "other title"],
)
async def test_changed_item_is_not_new_again(blog: Blog, before: str, after: str) -> None:
    blog.items = [before]
    await blog.read()
    blog.items = [after]
    assert await blog.new_titles() == []


async def test_items_that_share_a_link_are_distinguished(blog: Blog) -> None:
    home = "https://blog.example/"
    blog.items = [an_item(1, link=home, guid=""), an_item(2, link=home, guid="")]
    await blog.read()
    blog.items.insert(0, an_item(3, link=home, guid=""))
    assert await blog.new_titles() == ["Post 3"]


async def test_date_in_the_future_hides_no_later_item(blog: Blog) -> None:
    await blog.read()
    blog.items = [an_item(1, pubDate="Fri, 01 Jan 2100 00:00:00 GMT")]
    assert await blog.new_titles() == ["Post 1"]
    blog.items.insert(0, an_item(2, pubDate="Fri, 01 Jan 2027 00:00:00 GMT"))
    assert await blog.new_titles() == ["Post 2"]


async def test_flood_of_new_items_is_limited(blog: Blog) -> None:
    blog.items = [an_item(0)]
    await blog.read()
    blog.items = [an_item(number) for number in range(500, -1, -1)]
    assert await blog.new_titles() == [f"Post {number}" for number in range(501 - MAX_NEW_ITEMS, 501)]
    assert await blog.new_titles() == []


async def test_feed_that_was_empty_by_mistake_floods_nobody(blog: Blog) -> None:
    await blog.read()
    blog.items = [an_item(number) for number in range(500, 0, -1)]
    assert await blog.new_titles() == []
    blog.items.insert(0, an_item(501))
    assert await blog.new_titles() == ["Post 501"]


async def test_feed_that_moved_sends_no_old_items(blog: Blog) -> None:
    blog.items = [an_item(number) for number in range(10, 0, -1)]
    await blog.read()
    fields = {"link": "https://new.example/{}", "guid": "new-{}", "description": "Now with a summary of {}"}
    moved = [an_item(number, **{name: text.format(number) for name, text in fields.items()}) for number in range(1, 11)]
    blog.items = moved
    assert await blog.new_titles() == []
    blog.items = [an_item(11), *moved]
    assert await blog.new_titles() == ["Post 11"]


@pytest.mark.parametrize("number", [1, 2, 3, 4])
async def test_short_feed_that_moved_sends_no_old_items(blog: Blog, number: int) -> None:
    blog.items = [an_item(each) for each in range(number, 0, -1)]
    await blog.read()
    fields = {"link": "https://new.example/posts/{}", "guid": "new-{}", "description": "Now with a summary of {}"}
    moved = [
        an_item(each, **{name: text.format(each) for name, text in fields.items()}) for each in range(number, 0, -1)
    ]
    blog.items = moved
    assert await blog.new_titles() == []
    blog.items = [an_item(11), *moved]
    assert await blog.new_titles() == ["Post 11"]


async def test_only_item_replaced_by_the_next_one_is_new(blog: Blog) -> None:
    blog.items = [an_item(1, title="Picture of the day", description="A lake")]
    await blog.read()
    blog.items = [an_item(2, title="Picture of the day", description="A hill")]
    assert await blog.new_titles() == ["Picture of the day"]
    blog.items = [an_item(3)]
    assert await blog.new_titles() == ["Post 3"]


async def test_thousands_of_old_items_stay_old(blog: Blog) -> None:
    blog.items = [an_item(number) for number in range(3_000, 0, -1)]
    await blog.read()
    blog.items = blog.items[2_000:]
    assert await blog.new_titles() == []


async def test_reused_id_hides_no_item(blog: Blog) -> None:
    blog.items = [an_item(1, guid="news")]
    await blog.read()
    blog.items.insert(0, an_item(2, guid="news"))
    assert await blog.new_titles() == ["Post 2"]


async def test_unchanged_feed_is_not_read_again(blog: Blog) -> None:
    blog.items = [an_item(1)]
    for _ in range(2):
        await blog.read()
    assert blog.asked == [Validators(), Validators("v1")]
    statuses: list[int] = []

    async def request(_url: str, headers: Mapping[str, str]) -> HttpResponse:
        statuses.append(304 if headers.get("If-None-Match") == "v2" else 200)
        return HttpResponse(statuses[-1], (), b"")

    async def fetch(url: str, known: Validators) -> FeedReading:
        return await fetch_changed_feed(url, known, request)

    blog.bench.clock.advance(READ_EVERY)
    await FeedReader(blog.bench.engine.database, blog.bench.clock, fetch).read_due()
    assert (statuses, (await blog.feed()).read_at) == ([304], blog.bench.clock.now())
    blog.items.insert(0, an_item(2))
    assert await blog.new_titles() == ["Post 2"]


async def test_links_and_summaries_of_strangers_are_harmless(blog: Blog) -> None:
    await blog.read()
    blog.items = [
        an_item(1, link="javascript:alert(1)", description="&lt;script&gt;x&lt;/script&gt;&lt;b&gt;Hi&lt;/b&gt;")
    ]
    await blog.read()
    async with blog.bench.engine.database.write() as tx:
        [item] = await take_items(tx, OWNER, blog.bench.clock.now(), limit=10)
    assert item.content == {"title": "Post 1", "link": "", "summary": "Hi", "image": ""}


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (b"<!DOCTYPE a [<!ENTITY b 'c'>]><rss>&b;</rss>", "has a DTD"),
        (b"<html><body>Hello</body></html>", "not an RSS or Atom feed"),
        (b"<rss>" + b"x" * 5_000_000 + b"</rss>", "larger than 4 MB"),
        (b"<rss>" * 60, "too many elements"),
    ],
    ids=["entities", "a page", "huge", "deep"],
)
async def test_hostile_feed_is_an_error_that_users_see(blog: Blog, document: bytes, reason: str) -> None:
    await blog.read()
    blog.document = document
    await blog.read()
    assert reason in ((await blog.feed()).error or "")
    blog.document, blog.items = None, [an_item(1)]
    assert await blog.new_titles() == ["Post 1"]
    assert (await blog.feed()).error is None


async def test_feed_in_a_private_network_is_not_fetched(bench: Bench) -> None:
    async with bench.engine.database.write() as tx:
        await follow(tx, DEFAULT_TENANT, OWNER, "http://127.0.0.1:1/feed", bench.clock.now())
    await FeedReader(bench.engine.database, bench.clock, fetch_changed_feed).read_due()
    async with bench.engine.database.read() as tx:
        found = await find_feed(tx, OWNER)
    assert found is not None
    assert "The feed cannot be read" in (found.error or "")


async def test_clock_that_was_ahead_stops_no_feed(blog: Blog) -> None:
    blog.bench.clock.advance(1_000 * HOUR)
    blog.items = [an_item(1)]
    await blog.read()
    blog.bench.clock.advance(-1_000 * HOUR)
    blog.items.insert(0, an_item(2))
    assert await blog.new_titles() == ["Post 2"]


async def test_two_processes_read_a_feed_once(blog: Blog) -> None:
    database, clock, reads = blog.bench.engine.database, blog.bench.clock, []

    async def fetch(url: str, _known: Validators) -> FeedReading:
        reads.append(url)
        if len(reads) == 1:
            await FeedReader(database, clock, fetch).read_due()
        return FeedReading([])

    await FeedReader(database, clock, fetch).read_due()
    assert reads == [URL]


async def test_unfollowed_feed_is_forgotten(blog: Blog) -> None:
    blog.items = [an_item(1)]
    await blog.read()
    async with blog.bench.engine.database.write() as tx:
        await unfollow(tx, OWNER)
        assert await find_feed(tx, OWNER) is None
        assert await take_items(tx, OWNER, 0, limit=1) == []


async def test_new_item_starts_the_sequence_with_its_content(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    at = SequenceBench(bench)
    monkeypatch.setattr(feeds, "fetch_feed", AsyncMock(return_value=[]))
    await lists(at, "news")
    await at.people("ann@example.com", list_key="news")
    email = an_email("post", subject="{{ item.title }}")
    key = await at.start(email, trigger={"rss": URL, "list": "news"}, list="news", reentry="each")
    blog = Blog(bench, [an_item(1)])
    await blog.read()
    blog.items = [an_item(3), an_item(2), *blog.items]
    await blog.read()
    for _ in range(3):
        await at.watch()
        await at.run()
        bench.clock.advance(HOUR)
    assert [each.entered_because for each in await at.enrolments(key)] == ["rss Post 3", "rss Post 2"]
    assert [each["item"]["link"] for each in await at.variables()] == [f"https://blog.example/{n}" for n in (2, 3)]


async def test_new_feed_gets_no_item_of_a_forgotten_one(blog: Blog) -> None:
    await blog.read()
    blog.items = [an_item(1)]
    await blog.read()
    other = FeedOwner("sequence", 2)
    async with blog.bench.engine.database.write() as tx:
        await unfollow(tx, OWNER)
        await follow(tx, DEFAULT_TENANT, other, "https://other.example/feed.xml", blog.bench.clock.now())
        assert await take_items(tx, other, blog.bench.clock.now(), limit=10) == []
