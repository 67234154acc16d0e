"""Fill a large installation: a million messages with events and related data, written by the database itself.

`await fill(url, folder, Size())` fills an empty database so that every page has data. With `is_tallied=False` no
event is tallied, as after an import of millions of events.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlalchemy import select, text

from bench.migrated import migrated
from mailwright.app.notification_queue import open_configured_queue
from mailwright.app.restore_checks import make_guard
from mailwright.app.wiring import Engine, open_engine
from mailwright.audience import contacts, lists, segments
from mailwright.audience.importing.imports import Imports
from mailwright.audience.importing.plan import ImportOptions
from mailwright.demo.sample import load_sample
from mailwright.domain.clock import DAY, SystemClock
from mailwright.domain.lanes import lane_number
from mailwright.domain.message import Source
from mailwright.domain.states import Priority
from mailwright.events.outbound.endpoints import WebhookEndpointInput, WebhookEndpoints
from mailwright.ops.settings import Settings, load
from mailwright.outbox.tallies import EventTallier
from mailwright.storage.partitions import ensure_event_partitions
from mailwright.storage.tables import campaigns, message_dead_letters

SHOP: Final = 1
BAKERY: Final = 2
# Generated rows have keys above this, so that they never collide with those of the sample.
ABOVE: Final = 1_000
# The least number of recipients. Only the first of them are contacts; the others have been erased.
ADDRESSES: Final = 500_000
# A multiplier that is coprime to the number of addresses, so that the largest campaign uses each address once.
SHUFFLE: Final = 7_919
AT_ONCE: Final = 50_000
DAYS: Final = 60
# The highest number of a campaign.
CAMPAIGNS: Final = 200
# The campaign of the sample that generated campaigns copy.
MODEL: Final = "Thanks to collectors"
LARGE_CAMPAIGN: Final = "01900000-0000-7000-9000-100000000001"
CAMPAIGN_IN_LINE: Final = "01900000-0000-7000-9000-100000000200"
LARGE_RUN: Final = "01900000-0000-7000-a000-100000000001"
LARGE_MAILOUT: Final = "01900000-0000-7000-9000-100000000002"
SENT_MESSAGE: Final = "01900000-0000-7000-8000-100000000001"
# The endpoint of a user's system, which gets every fourth notification.
BUSY_ADDRESS: Final = "ops@example.com"


@dataclass(frozen=True, slots=True)
class Size:
    """The number of rows of each kind, scaled by `share` thousandths."""

    share: int = 1_000

    def of(self, number: int) -> int:
        return max(1, number * self.share // 1_000)

    def at_most(self, number: int) -> int:
        """Return how many campaigns or runs there are: more messages make them larger, not more."""
        return min(number, self.of(number))

    @property
    def addresses(self) -> int:
        return max(ADDRESSES, self.of(ADDRESSES))


@dataclass(frozen=True, slots=True)
class Block:
    """Messages that were accepted together; the last `waiting` of them wait."""

    source: Source
    count: int
    waiting: int = 0
    tenant_id: int = SHOP
    campaign: int = 0  # The number of its campaign among the generated ones.
    run: int = 0

    @property
    def lane(self) -> int:
        priority = Priority.BULK if self.is_bulk else Priority.TRANSACTIONAL
        return lane_number(priority, self.tenant_id, ABOVE + self.campaign if self.campaign else 0)

    @property
    def is_bulk(self) -> bool:
        return self.source in (Source.CAMPAIGN, Source.MAILOUT, Source.ARTICLE)

    @property
    def request(self) -> str:
        if self.run:
            return f"'{_id('a', self.run)}'"
        return f"'{_id('9', self.campaign)}'" if self.campaign else "'request-' || i"


def blocks(size: Size) -> Iterator[Block]:
    """Return the groups, oldest first: a million messages, of which 50,000 wait."""
    yield Block(Source.CAMPAIGN, size.of(500_000), campaign=1)
    for number in range(2, 2 + size.at_most(189)):
        source = Source.MAILOUT if number <= 20 else Source.CAMPAIGN
        yield Block(source, size.of(1_000), campaign=number)
    yield Block(Source.API, size.of(100_000))
    yield Block(Source.API, size.of(40_000), tenant_id=BAKERY)
    yield Block(Source.ARTICLE, size.of(60_000), run=1)
    for number in range(2, 2 + size.at_most(20)):
        yield Block(Source.ARTICLE, size.of(500), run=number)
    yield Block(Source.NOTIFICATION, size.of(36_000))
    for number in range(191, CAMPAIGNS + 1):
        yield Block(Source.CAMPAIGN, size.of(6_000), waiting=size.of(4_500), campaign=number)
    yield Block(Source.API, size.of(5_000), waiting=size.of(5_000))


def settings_of(url: str, folder: Path) -> Settings:
    return load(**places(url, folder))


def places(url: str, folder: Path) -> dict[str, str]:
    """Return the settings by field name."""
    return {
        "database_url": url,
        "mailbox": str(folder / "mailbox"),
        "images": str(folder / "images"),
        "imports": str(folder / "imports"),
        "state": str(folder / "state"),
        "notify_database_url": f"sqlite:///{folder / 'seats.db'}",
        "working_hours": "00:00-24:00",
    }


async def fill(url: str, folder: Path, size: Size, *, is_tallied: bool = True) -> None:
    async with open_engine(settings_of(await migrated(url), folder)) as engine:
        # Records that this machine uses the database from its beginning, so that a worker sends the waiting messages.
        await make_guard(engine.settings, engine.database, engine.clock, None).check()
        now = SystemClock().now()
        for days in (DAYS, 0):
            await ensure_event_partitions(engine.database, now - days * DAY)
        await load_sample(engine)
        await _people(engine, size, now)
        await _campaigns(engine, size, now)
        await _messages(engine, size, now)
        await _around(engine, size, now, folder)
        await _queue(engine, size)
        if engine.database.dialect == "postgresql":
            await _run(engine, *(_NEXT_KEY.format(table=table) for table in _WITH_KEYS))
            await _run(engine, "ANALYZE")  # As the autovacuum of PostgreSQL does. SQLite has none.
        tallying = EventTallier(engine.database, engine.clock)
        while is_tallied and await tallying.add_batch():
            pass


async def _people(engine: Engine, size: Size, now: int) -> None:
    people, clock = size.of(100_000), engine.clock
    await lists.create(engine.database, clock, SHOP, "offers", name="Offers", requires_confirmation=True)
    for number in range(50):
        asked = {"attribute": "orders", "atLeast": number}
        await segments.create(engine.database, clock, SHOP, f"orders-{number}", filter_=asked, name=f"{number} or more")
    await contacts.put(engine.database, clock, SHOP, BUSY_ADDRESS, contacts.ContactChange(name="Operations"))
    await _series(engine, people, _CONTACTS, now=now)
    await _series(engine, people, _ON_NEWS, now=now)
    await _series(engine, people // 3, _ON_OFFERS, now=now)
    await _series(engine, people // 2, _TAGS)
    await _series(engine, people // 10, _SUPPRESSIONS, now=now)


async def _campaigns(engine: Engine, size: Size, now: int) -> None:
    async with engine.database.read() as tx:
        [model] = await tx.execute(select(campaigns.c.id).where(campaigns.c.name == MODEL))
    every = []
    for block, first, last in _numbered(size):
        facts = {
            "number": block.campaign or block.run,
            "model": model.id,
            "lane": block.lane,
            "count": block.count,
            "status": "SENDING" if block.waiting else "SENT",
            "began": _moment(size, first, now),
            "behind": ABOVE + first - 1,  # the key of the last message before it
            "ended": "NULL" if block.waiting else _moment(size, last, now),
            "met": _moment(size, last, now),
        }
        kinds = _KINDS.get(block.source, ())
        every += [words.format(**facts) for words in kinds]
    await _run(engine, *every)


async def _messages(engine: Engine, size: Size, now: int) -> None:
    for block, first, last in _numbered(size):
        facts = {
            "tenant": block.tenant_id,
            "source": block.source.value,
            "request": block.request,
            "campaign": ABOVE + block.campaign if block.campaign else "NULL",
            "lane": block.lane,
            "is_bulk": "true" if block.is_bulk else "false",
            "list": "'news'" if block.is_bulk else "NULL",
            "busy": 4 if block.source is Source.NOTIFICATION else 2**31,
            "told": 10 if block.is_bulk else 2**31,  # providers report further events only about bulk messages
            "waits_after": last - block.waiting,
            "contacts": size.of(100_000),
            "addresses": size.addresses,
            "created": f"({_moment(size, 0, now)} + i * {_step(size)})",
            "now": now,
        }
        for start in range(first, last + 1, AT_ONCE):
            bounds = {"first": start, "last": min(start + AT_ONCE - 1, last)}
            numbers = _NUMBERS.format(**bounds)
            kinds = (_MESSAGES, _DELIVERIES, _EVENTS, _DEAD_LETTERS, _INTAKE)
            await _run(engine, *(words.format(**facts, **bounds, numbers=numbers) for words in kinds))


def _numbered(size: Size) -> Iterator[tuple[Block, int, int]]:
    """Yield each block with the numbers of its first and last message."""
    first = 1
    for block in blocks(size):
        yield block, first, first + block.count - 1
        first += block.count


def _step(size: Size) -> int:
    return DAYS * DAY // sum(block.count for block in blocks(size))


def _moment(size: Size, number: int, now: int) -> int:
    """Return when the message with this number was accepted."""
    return now - DAYS * DAY + number * _step(size)


async def _around(engine: Engine, size: Size, now: int, folder: Path) -> None:
    endpoints = WebhookEndpoints(engine.database, engine.clock)
    for number in range(3):
        wanted = WebhookEndpointInput(
            f"https://hooks.example.com/{number}", ("SENT", "FAILED"), f"number {number}", is_active=True
        )
        await endpoints.create(SHOP, wanted, actor="bench")
    await _series(engine, size.of(200_000), _TOLD, now=now)
    await _series(engine, size.of(200_000), _DEEDS, now=now)
    people = folder / "people.csv"
    people.write_text("email,name\nada@example.com,Ada\n", encoding="utf-8")
    await Imports(engine.database, engine.clock).begin(SHOP, people, ImportOptions("news"))
    await _series(engine, size.of(300), _IMPORTS, now=now)
    await _series(engine, size.of(5_000), _TEMPLATES, now=now)


async def _queue(engine: Engine, size: Size) -> None:
    async with open_configured_queue(engine.settings, engine.database) as queue:
        bounds = {"first": 1, "last": size.of(50_000)}
        for words in (_SEATS, _SUBSCRIBERS, _NOTIFICATIONS):
            async with queue.database.write() as tx:
                await tx.execute(text(words.format(numbers=_NUMBERS.format(**bounds))))


async def _series(engine: Engine, count: int, words: str, **facts: int) -> None:
    for start in range(1, count + 1, AT_ONCE):
        bounds = {"first": start, "last": min(start + AT_ONCE - 1, count)}
        await _run(engine, words.format(**facts, numbers=_NUMBERS.format(**bounds)))


async def _run(engine: Engine, *words: str) -> None:
    async with engine.database.write() as tx:
        for each in words:
            await tx.execute(text(each))


def _id(kind: str, number: int) -> str:
    return f"01900000-0000-7000-{kind}000-{100_000_000_000 + number}"


# A recursive query, which both engines support, yields the numbers; all other values are computed from them.
_NUMBERS = "WITH RECURSIVE n(i) AS (SELECT CAST({first} AS bigint) UNION ALL SELECT i + 1 FROM n WHERE i < {last})"
_READER = f"i * {SHUFFLE} % {{addresses}}"
_EMAIL = f"CASE WHEN i % {{busy}} = 0 THEN '{BUSY_ADDRESS}' ELSE 'reader' || ({_READER}) || '@example.com' END"

_CONTACTS = (
    "INSERT INTO contacts (id, contact_id, tenant_id, email, name, status, created_at, status_updated_at, attributes) "
    "{numbers} "
    f"SELECT i + {ABOVE}, '01900000-0000-7000-b000-' || (100000000000 + i), {SHOP},"
    " 'reader' || (i - 1) || '@example.com', 'Reader ' || i, CASE WHEN i % 50 = 0 THEN 'bounced' ELSE 'active' END,"
    " {now} - i, CASE WHEN i % 50 = 0 THEN {now} - i END,"
    """ '{{"city": "' || CASE i % 3 WHEN 0 THEN 'Rome' WHEN 1 THEN 'Lisbon' ELSE 'Oslo' END || '", "orders": ' || """
    """ (i % 40) || ', "ocd_ids": ["ocd-division/country\\:us", "ocd-division/country\\:us/state\\:oh"]}}' FROM n"""
)
_ON_NEWS = (
    "INSERT INTO subscriptions (tenant_id, contact_key, list_key, subscribed_at, unsubscribed_at, source) {numbers} "
    f"SELECT {SHOP}, i + {ABOVE}, 'news', {{now}} - i, CASE WHEN i % 20 = 0 THEN {{now}} END, 'import' FROM n"
)
_ON_OFFERS = (
    "INSERT INTO subscriptions (tenant_id, contact_key, list_key, subscribed_at, source, is_pending) {numbers} "
    f"SELECT {SHOP}, i + {ABOVE}, 'offers', {{now}} - i, 'form', i % 10 = 0 FROM n"
)
_TAGS = (
    "INSERT INTO contact_tags (contact_key, tag, tenant_id) {numbers} "
    f"SELECT i + {ABOVE}, 'tag-' || (i % 30), {SHOP} FROM n"
)
_SUPPRESSIONS = (
    "INSERT INTO suppressions (tenant_id, email, reason, source, created_at, list_key) {numbers} "
    f"SELECT {SHOP}, 'reader' || (i * 7) || '@example.com', CASE WHEN i % 2 = 0 THEN 'bounce' ELSE 'unsubscribed' END,"
    " 'ses', {now} - i, CASE WHEN i % 2 = 0 THEN '*' ELSE 'news' END FROM n"
)
_CAMPAIGN = (
    "INSERT INTO campaigns (id, campaign_id, tenant_id, name, status, definition, created_at, updated_at, started_at,"
    f" finished_at, messages_after_key) SELECT {ABOVE} + {{number}},"
    " '01900000-0000-7000-9000-' || (100000000000 + {number}), tenant_id, 'Campaign {number}', '{status}', definition,"
    " {began}, {met}, {began}, {ended}, {behind} FROM campaigns WHERE id = {model}"
)
_ENTRY = (
    "INSERT INTO queue_entries (id, campaign_key, tenant_id, lane, content, limits, planned, processed, recipients,"
    f" enqueued_to, enqueue_ended_at, created_at, completed_at) SELECT {ABOVE} + {{number}}, {ABOVE} + {{number}},"
    " tenant_id, {lane}, content, limits, {count}, {count}, {count}, 'z', {met}, {began}, {ended} FROM queue_entries"
    " WHERE campaign_key = {model}"
)
_MAILOUT = (
    "INSERT INTO mailouts (mailout_id, tenant_id, page_id, sent_page, actor, is_test, subject, status, campaign_key,"
    " planned, created_at, finished_at, failures, leased_until)"
    f" SELECT '01900000-0000-7000-9000-' || (100000000000 + {{number}}), {SHOP}, 'page-{{number}}', 'page-{{number}}',"
    f" 'bench', false, 'Mailout {{number}}', 'sent', {ABOVE} + {{number}}, {{count}}, {{began}}, {{ended}}, 0, 0"
)
_ARTICLE_RUN = (
    "INSERT INTO campaign_runs (id, run_id, tenant_id, campaign_tag, article_key, actor, send_batch_id,"
    " audience_filter, list_key, content, recipients, skipped, enqueued_to, started_at, enqueue_ended_at,"
    " messages_after_key)"
    f" SELECT {ABOVE} + {{number}}, '01900000-0000-7000-a000-' || (100000000000 + {{number}}), tenant_id, campaign_tag,"
    " article_key, 'bench', 'batch-{number}', audience_filter, list_key, content, {count}, 0, 'z', {began}, {met},"
    " {behind} FROM campaign_runs WHERE id = 1"
)
_MESSAGES = (
    "INSERT INTO messages (id, outbox_id, tenant_id, source, request_id, to_email, external_id, contact_key, subject,"
    " template_key, payload, retry_policy, on_doubt, is_bulk, created_at, list_key, campaign_key) {numbers} "
    f"SELECT i + {ABOVE}, '01900000-0000-7000-8000-' || (100000000000 + i), {{tenant}}, '{{source}}', {{request}},"
    f" {_EMAIL}, '' || i, CASE WHEN {_READER} < {{contacts}} THEN {_READER} + {ABOVE} + 1 END,"
    " 'Order ' || i || ' is on its way', 1,"
    """ '{{"to": "reader@example.com", "subject": "Your order is on its way", "variables": {{"name": "Ada", """
    """"order": "A-1815", "total": "€ 24.00", "items": []}}}}', 'standard', 'hold', {is_bulk}, {created}, {list},"""
    " {campaign} FROM n"
)
_STATUS = (
    "CASE WHEN i > {waits_after} THEN 'PENDING' WHEN i % 500 = 7 THEN 'FAILED' WHEN i % 5000 = 13 THEN 'IN_DOUBT'"
    " ELSE 'SENT' END"
)
_DELIVERIES = (
    "INSERT INTO deliveries (message_key, tenant_id, lane, status, claimable_at, next_attempt_at, attempts, claims,"
    " resends, provider, provider_message_id, error_code, error_category, error_reason, duration_ms, sent_at,"
    " failed_at, in_doubt_since, settlement) {numbers} "
    f"SELECT i + {ABOVE}, {{tenant}}, {{lane}}, {_STATUS}, CASE WHEN i > {{waits_after}} THEN {{created}} ELSE 0 END,"
    " NULL, CASE WHEN i > {waits_after} THEN 0 ELSE 1 END, 0, 0, CASE WHEN i <= {waits_after} THEN 'ses' END,"
    " CASE WHEN i <= {waits_after} THEN 'provider-' || i END, CASE WHEN i % 500 = 7 THEN 'SES_REJECTED' END,"
    " CASE WHEN i % 500 = 7 THEN 'PERMANENT' END, CASE WHEN i % 500 = 7 THEN 'refused' END, 40,"
    f" CASE WHEN {_STATUS} = 'SENT' THEN {{created}} + 300000 END,"
    f" CASE WHEN {_STATUS} = 'FAILED' THEN {{created}} + 300000 END,"
    f" CASE WHEN {_STATUS} = 'IN_DOUBT' THEN {{created}} + 300000 END, i / 64 FROM n"
)
_EVENTS = (
    "INSERT INTO events (message_key, tenant_id, type, created_at, metadata) {numbers}, "
    "story(type, step) AS (SELECT 'RECEIVED', 0 UNION ALL SELECT 'VALIDATED', 1 UNION ALL SELECT 'SENT_ATTEMPT', 2"
    " UNION ALL SELECT 'SENT', 3 UNION ALL SELECT 'FAILED', 4 UNION ALL SELECT 'IN_DOUBT', 5"
    " UNION ALL SELECT 'delivered', 6 UNION ALL SELECT 'open', 7 UNION ALL SELECT 'open', 8 UNION ALL SELECT 'click', 9"
    " UNION ALL SELECT 'bounce', 10 UNION ALL SELECT 'complaint', 11 UNION ALL SELECT 'unsubscribe', 12) "
    f"SELECT i + {ABOVE}, {{tenant}}, type, {{created}} + step * 60000 + CASE WHEN step > 6 THEN i * 104729 % 259200000"
    """ ELSE 0 END, '{{"provider": "ses", "attempt": 1, "worker": "worker-1"}}' FROM n CROSS JOIN story"""
    " WHERE i <= {waits_after} AND (step < 3"
    f" OR ({_STATUS}) = type"
    f" OR (({_STATUS}) = 'SENT' AND {{told}} = 10 AND CASE step WHEN 6 THEN 1 WHEN 7 THEN CASE WHEN i % 10 < 3 THEN 1"
    " ELSE 0 END WHEN 8 THEN CASE WHEN i % 10 = 0 THEN 1 ELSE 0 END WHEN 9 THEN CASE WHEN i % 10 = 1 THEN 1 ELSE 0 END"
    " WHEN 10 THEN CASE WHEN i % 200 = 3 THEN 1 ELSE 0 END WHEN 11 THEN CASE WHEN i % 2000 = 11 THEN 1 ELSE 0 END"
    " WHEN 12 THEN CASE WHEN i % 1000 = 17 THEN 1 ELSE 0 END ELSE 0 END = 1)) ORDER BY step, i"
)
_DEAD_LETTERS = (
    f"INSERT INTO {message_dead_letters.name} (message_key, tenant_id, code, reason, attempts, created_at) {{numbers}} "
    f"SELECT i + {ABOVE}, {{tenant}}, 'SES_REJECTED', 'refused', 1, {{created}} FROM n"
    " WHERE i % 500 = 7 AND i <= {waits_after}"
)
_INTAKE = (
    "INSERT INTO accepted_counts (tenant_id, source, accepted, created_at)"
    " VALUES ({tenant}, '{source}', {last} - {first} + 1, {now})"
)
_TOLD = (
    "INSERT INTO webhook_deliveries (delivery_id, endpoint_key, tenant_id, event_key, event_at, message_key, type,"
    " status, due_at, attempts, log, created_at, ended_at) {numbers} "
    f"SELECT '01900000-0000-7000-c000-' || (100000000000 + i), i % 2 + 1, {SHOP}, i, {{now}} - i, {ABOVE} + i, 'SENT',"
    " CASE WHEN i % 1000 = 0 THEN 'FAILED' ELSE 'DELIVERED' END, 0, 1, '[]', {now} - i, {now} - i FROM n"
)
_DEEDS = (
    "INSERT INTO audit_log (tenant_id, actor, action, subject, detail, created_at) {numbers} "
    f"SELECT {SHOP}, 'ada', 'contact.edit', 'reader' || i || '@example.com', '{{{{}}}}', {{now}} - i FROM n"
)
_IMPORTS = (
    "INSERT INTO imports (import_id, tenant_id, file_name, fingerprint, size_bytes, plan, records, read_bytes,"
    " report_bytes, added, changed, unchanged, refused, created_at, updated_at, finished_at) {numbers} "
    f"SELECT '01900000-0000-7000-d000-' || (100000000000 + i), {SHOP}, 'people-' || i || '.csv', 'f', 1,"
    " model.plan, 9, 1, 0, 9, 0, 0, 0, {now}, {now}, {now} FROM n, imports AS model WHERE model.id = 1"
)
_TEMPLATES = (
    "INSERT INTO templates (tenant_id, template_id, version, subject, html, created_at) {numbers} "
    f"SELECT {SHOP}, 'template-' || (i % 1000), i / 1000 + 1, 'Hello', '<p>Hello</p>', {{now}} FROM n"
)
_SEATS = (
    "INSERT INTO open_events (open_event_id, term_id, campus_code, index_number, status_before, status_after, event_at,"
    " dedupe_key, payload, created_at) {numbers} "
    "SELECT i + 1000, '92026', 'NB', '' || (10000 + i), 'Closed', 'Open', '2026-10-01T00\\:00\\:00Z', 'seat-' || i,"
    """ '{{"courseTitle": "Engines"}}', '2026-10-01T00\\:00\\:00Z' FROM n WHERE i % 50 = 0"""
)
_SUBSCRIBERS = (
    "INSERT INTO subscriptions (subscription_id, term_id, campus_code, index_number, contact_type, contact_value,"
    " locale, status, metadata) {numbers} SELECT i + 1000, '92026', 'NB', '10001', 'email',"
    " 'reader' || i || '@example.com',"
    " 'en', 'active', '{{}}' FROM n WHERE i <= 10000"
)
_NOTIFICATIONS = (
    "INSERT INTO open_event_notifications (notification_id, open_event_id, subscription_id, dedupe_key, fanout_status,"
    " fanout_attempts, created_at) {numbers} SELECT i + 1000, i / 50 * 50 + 1000, i % 10000 + 1000, 'seat-' || i,"
    " CASE i % 100 WHEN 1 THEN 'pending' WHEN 2 THEN 'failed' ELSE 'sent' END, 1, '2026-10-01T00\\:00\\:00Z' FROM n"
)
# Rows that the messages of each source need.
_KINDS = {
    Source.CAMPAIGN: (_CAMPAIGN, _ENTRY),
    Source.MAILOUT: (_CAMPAIGN, _ENTRY, _MAILOUT),
    Source.ARTICLE: (_ARTICLE_RUN,),
}

# Tables whose keys the statements above choose. SQLite continues after the highest key by itself.
_WITH_KEYS: Final = ("contacts", "campaigns", "queue_entries", "campaign_runs", "messages")
_NEXT_KEY: Final = "SELECT setval(pg_get_serial_sequence('{table}', 'id'), (SELECT max(id) FROM {table}))"
