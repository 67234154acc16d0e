"""Follow RSS and Atom feeds. An item is new once: it is recognised by its ID, its link or its content.

Dates of items are not used, because a feed may have none or wrong ones.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import orjson
from sqlalchemy import ColumnElement, and_, delete, func, insert, or_, select, update

from mailwright.content.blocks.feed import FeedItem
from mailwright.content.text import from_html
from mailwright.domain.clock import DAY, MINUTE, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.storage.database import Transaction
from mailwright.storage.tables import feed_item_marks, feed_items, followed_feeds

READ_EVERY: Final[Instant] = 15 * MINUTE
# Items after these are ignored.
MAX_ITEMS: Final = 10_000
# A feed that suddenly has many new items probably changed the IDs and links of old ones.
MAX_NEW_ITEMS: Final = 20
# A feed with at least this many items of which all are new since yesterday has probably moved. A single item may have
# been replaced by the next one.
MIN_MOVED_ITEMS: Final = 2
# Databases limit the number of parameters of a statement.
_BATCH: Final = 5_000
# The number of newest items that are shown for a followed feed.
SHOWN_ITEMS: Final = 3
MAX_SUMMARY: Final = 2_000
MAX_ADDRESS: Final = 2_000
# How long an item is recognised after it has left the feed.
FORGET_AFTER: Final[Instant] = 365 * DAY

_F = followed_feeds.c
_I = feed_items.c
_M = feed_item_marks.c


class FeedOwner(NamedTuple):
    """The follower of a feed: a sequence or a recurring campaign."""

    kind: str
    key: int


class Validators(NamedTuple):
    """The values that let a server answer that a feed has not changed."""

    etag: str | None = None
    modified: str | None = None

    @classmethod
    def of(cls, stored: str | None) -> "Validators":
        return cls(*orjson.loads(stored)) if stored else cls()

    @property
    def headers(self) -> dict[str, str]:
        named = {"If-None-Match": self.etag, "If-Modified-Since": self.modified}
        return {name: value for name, value in named.items() if value}


# The validators of a feed that was not read yet.
NOT_READ: Final = Validators()


@dataclass(frozen=True, slots=True)
class NewItem:
    key: int
    content: Mapping[str, Any]  # title, link, summary and image


@dataclass(frozen=True, slots=True)
class FollowedFeed:
    key: int
    url: str
    read_at: Instant | None
    error: str | None
    newest: tuple[Mapping[str, str], ...]  # The newest items when it was last read, whether they are new or not.


async def follow(tx: Transaction, tenant_id: int, owner: FeedOwner, url: str, now: Instant) -> int:
    """Follow a feed from now on, and return its key. The items of the first read do not count as new."""
    known = await find_feed(tx, owner)
    if known is not None and known.url == url:
        return known.key
    await unfollow(tx, owner)
    values = {"tenant_id": tenant_id, "owner_kind": owner.kind, "owner_key": owner.key, "url": url, "due_at": now}
    rows = await tx.execute(insert(followed_feeds).values(**values).returning(_F.id))
    return int(rows[0].id)


async def unfollow(tx: Transaction, owner: FeedOwner) -> None:
    """Forget a feed. Its items stay, because emails that are not written yet may use them."""
    known = await find_feed(tx, owner)
    if known is not None:
        await tx.execute(delete(feed_item_marks).where(_M.feed_key == known.key))
        await tx.execute(delete(followed_feeds).where(_F.id == known.key))


async def find_feed(tx: Transaction, owner: FeedOwner) -> FollowedFeed | None:
    mine = (_F.owner_kind == owner.kind, _F.owner_key == owner.key)
    rows = await tx.execute(select(_F.id, _F.url, _F.read_at, _F.error, _F.newest).where(*mine))
    if not rows:
        return None
    row = rows[0]
    return FollowedFeed(row.id, row.url, row.read_at, row.error, tuple(orjson.loads(row.newest or "[]")))


async def take_items(tx: Transaction, owner: FeedOwner, now: Instant, *, limit: int) -> list[NewItem]:
    """Return the oldest items that were not used yet, and mark them as used."""
    feed = await find_feed(tx, owner)
    if feed is None:
        return []
    unused = and_(_I.feed_key == feed.key, _I.used_at.is_(None))
    rows = await tx.execute(select(_I.id, _I.content).where(unused).order_by(_I.id).limit(limit))
    if rows:
        taken = update(feed_items).where(_I.id.in_([row.id for row in rows]))
        await tx.execute(taken.values(used_at=now))
    return [NewItem(row.id, orjson.loads(row.content)) for row in rows]


async def store_items(
    tx: Transaction, feed_key: int, items: Sequence[FeedItem], now: Instant, *, validators: Validators = NOT_READ
) -> int:
    """Store the items of a feed that are new. Return their number; the first time, no item is new."""
    rows = await tx.execute(select(_F.read_at, _F.newest).where(_F.id == feed_key).with_for_update())
    if not rows:
        return 0  # Nobody follows it any more.
    considered = list(items[:MAX_ITEMS])
    marks = _marks(considered)
    known_rows = await tx.execute(select(_M.mark, _M.seen_at).where(_M.feed_key == feed_key))
    known = {row.mark: row.seen_at for row in known_rows}
    new = [item for item, own in zip(considered, marks, strict=True) if not own & known.keys()]
    if rows[0].read_at is None:
        new = []
    elif len(new) == len(considered) or not known:
        before = orjson.loads(rows[0].newest or "[]")
        if _has_moved(new, before, now - rows[0].read_at, was_empty=not known):
            new = []
    # Feeds list their newest item first.
    stored = [
        {"feed_key": feed_key, "content": orjson.dumps(item_content(item)).decode(), "found_at": now}
        for item in reversed(new[:MAX_NEW_ITEMS])
    ]
    if stored:
        await tx.execute(insert(feed_items), stored)
    await _remember(tx, feed_key, sorted({mark for each in marks for mark in each}), known, now)
    newest = orjson.dumps([item_content(item) for item in considered[:SHOWN_ITEMS]]).decode()
    changes = {"newest": newest, "validators": orjson.dumps(list(validators)).decode()}
    await tx.execute(update(followed_feeds).where(_F.id == feed_key).values(read_at=now, error=None, **changes))
    return len(stored)


def _has_moved(new: Sequence[FeedItem], before: Sequence[Mapping[str, str]], age: Instant, *, was_empty: bool) -> bool:
    """Return whether old items only look new, because the feed was empty by mistake or changed the IDs and links of its
    items. All items are new; `before` are the newest items when the feed was last read.
    """
    if was_empty:
        return len(new) > MAX_NEW_ITEMS
    if len(new) >= MIN_MOVED_ITEMS:
        return age < DAY
    return any(_is_same_page(item_content(item), each) for item in new for each in before)


def _is_same_page(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Return whether an item has the title of another, and the path of its link or another host.

    A feed whose only item always has the same title stays on its host.
    """
    ours, theirs = urlsplit(one["link"]), urlsplit(other["link"])
    return one["title"] == other["title"] and (ours.path == theirs.path or ours.hostname != theirs.hostname)


async def keep_items(tx: Transaction, feed_key: int, now: Instant) -> None:
    """Record that a feed was read and has not changed."""
    await tx.execute(update(followed_feeds).where(_F.id == feed_key).values(read_at=now, error=None))


async def _remember(
    tx: Transaction, feed_key: int, marks: Iterable[str], known: Mapping[str, Instant], now: Instant
) -> None:
    added = [{"feed_key": feed_key, "mark": mark, "seen_at": now} for mark in marks if mark not in known]
    if added:
        await tx.execute(insert(feed_item_marks), added)
    seen_again = [mark for mark in marks if now - known.get(mark, now) > DAY]
    for start in range(0, len(seen_again), _BATCH):
        mine = and_(_M.feed_key == feed_key, _M.mark.in_(seen_again[start : start + _BATCH]))
        await tx.execute(update(feed_item_marks).where(mine).values(seen_at=now))
    await tx.execute(delete(feed_item_marks).where(_M.feed_key == feed_key, _M.seen_at < now - FORGET_AFTER))
    await tx.execute(delete(feed_items).where(_I.feed_key == feed_key, _I.found_at < now - FORGET_AFTER))


def _marks(items: Sequence[FeedItem]) -> list[set[str]]:
    """Return how each item is recognised. An ID, link or content that several items share identifies none of them."""
    guids = Counter(item.guid for item in items)
    links = Counter(item.link for item in items)
    texts = Counter((item.title, item.summary_html) for item in items)
    found = []
    for item in items:
        own = {_digest("id", item.guid)} if item.guid and guids[item.guid] == 1 else set()
        if item.link and links[item.link] == 1:
            own.add(_digest("link", item.link))
        if texts[item.title, item.summary_html] == 1 or not own:
            own.add(_digest("text", f"{item.title}\n{item.summary_html}"))
        found.append(own)
    return found


def _digest(kind: str, text: str) -> str:
    return hashlib.blake2b(f"{kind}:{text}".encode(), digest_size=16).hexdigest()


def item_content(item: FeedItem) -> dict[str, str]:
    """Return an item as variables of an email: plain text, because the feed belongs to somebody else."""
    return {
        "title": item.title,
        "link": item.link[:MAX_ADDRESS] if _is_web(item.link) else "",
        "summary": from_html(item.summary_html)[:MAX_SUMMARY].strip(),
        "image": item.image[:MAX_ADDRESS] if _is_web(item.image) else "",
    }


def _is_web(address: str) -> bool:
    return address.startswith(("https://", "http://"))


def due_feeds(now: Instant, *, limit: int) -> Any:
    """Select the feeds that are to be read."""
    return select(_F.id, _F.url, _F.validators).where(_is_due(now)).order_by(_F.due_at, _F.id).limit(limit)


async def claim_feed(tx: Transaction, feed_key: int, now: Instant) -> bool:
    """Claim a due feed for one process: it is due again after the usual time."""
    due = (_F.id == feed_key, _is_due(now))
    claimed = update(followed_feeds).where(*due).values(due_at=now + READ_EVERY).returning(_F.id)
    return bool(await tx.execute(claimed))


def _is_due(now: Instant) -> ColumnElement[bool]:
    """Match due feeds, and feeds whose next time is too far in the future because a clock was ahead."""
    return or_(_F.due_at <= now, _F.due_at > now + READ_EVERY)


async def record_error(tx: Transaction, feed_key: int, error: str) -> None:
    await tx.execute(update(followed_feeds).where(_F.id == feed_key).values(error=error[:500]))


async def count_unused(tx: Transaction, owner: FeedOwner) -> int:
    mine = (_F.owner_kind == owner.kind, _F.owner_key == owner.key, _I.used_at.is_(None))
    query = select(func.count()).select_from(feed_items.join(followed_feeds, _F.id == _I.feed_key)).where(*mine)
    return int((await tx.execute(query))[0][0])
