"""Segments, on both engines: every filter finds exactly the contacts that a reference implementation finds."""

import random
import re
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import insert, select

from mailwright.audience import filters, lists, segments, suppressions
from mailwright.audience.filter_sql import filter_clause
from mailwright.audience.filters import (
    AttributeCondition,
    EventActivity,
    FilterCondition,
    InvalidFilter,
    MessageActivity,
)
from mailwright.audience.responses import SETTLES_AFTER
from mailwright.audience.segments import SegmentExists, audience, audience_query
from mailwright.audience.status import ContactStatusService
from mailwright.audience.value_matching import properties_match, value_matches
from mailwright.domain.clock import DAY, Instant, ManualClock, isoformat
from mailwright.domain.errors import InvalidInput, NotFound
from mailwright.domain.states import EventType, Status
from mailwright.storage.database import Database
from mailwright.storage.tables import (
    campaigns,
    contact_events,
    contact_tags,
    contacts,
    deliveries,
    events,
    messages,
    subscriptions,
)
from mailwright.storage.tables import lists as list_table
from mailwright.texts.filters import describe
from tests.examples import examples

NOW: Instant = 1_800_000_000_000
CAMPAIGNS = [f"0197f000-0000-7000-8000-00000000000{number}" for number in range(2)]
VALUES: list[Any] = [
    "pro", "Pro", "free", "42", "042", "-7", "3.5", "3.", ".5", "1e3", "", "2027-01-31", "2027-02-01T10:00:00Z",
    "2026-12-31 and more", "Лиссабон", "x%y_z", "12345678901234567", "true", 42, -7, 3.5, 0, 1000.25, True, False,
    None, [1, 2], {"a": "pro"}, '"quoted" \\ text',
]  # fmt: skip
KEYS = ["plan", "age", "since", "город"]
PROPERTIES = ["total", "list", "campaign", "Order date", "a.b", "$город"]


@dataclass(repr=False)
class SampleMessage:
    campaign: str | None
    sent_at: Instant | None
    reports: list[tuple[str, Instant]]


@dataclass(repr=False)
class SampleEvent:
    name: str
    at: Instant
    properties: dict[str, Any]


@dataclass(repr=False)
class SampleContact:
    email: str
    status: str
    locale: str | None
    timezone: str | None
    created_at: Instant
    attributes: dict[str, Any]
    tags: set[str] = field(default_factory=set)
    on: dict[str, tuple[bool, bool]] = field(default_factory=dict)  # by list: is unsubscribed, is pending
    messages: list[SampleMessage] = field(default_factory=list)
    events: list[SampleEvent] = field(default_factory=list)

    def _repr_pretty_(self, printer: Any, _is_cycle: bool) -> None:
        """Write something short, because Hypothesis prints all contacts."""
        printer.text(self.email)


def sample_contacts(seed: int) -> list[SampleContact]:
    chance = random.Random(seed)
    return [a_contact(chance, number) for number in range(50)]


def a_contact(chance: random.Random, number: int) -> SampleContact:
    def a_time() -> Instant:
        return NOW - chance.randrange(60) * DAY

    return SampleContact(
        email=f"p{number:02}@{chance.choice(['gmail.com', 'example.com', 'mail.example.com', 'agmail.com'])}",
        status=chance.choice(["active", "active", "unsubscribed", "bounced"]),
        locale=chance.choice([None, "pt", "pt-BR", "en", "ptx"]),
        timezone=chance.choice([None, "Europe/Lisbon", "UTC"]),
        created_at=a_time(),
        attributes={key: chance.choice(VALUES) for key in KEYS if chance.random() < 0.8},
        tags=set(chance.sample(["vip", "new", "vi"], chance.randrange(3))),
        on={
            key: (chance.random() < 0.3, chance.random() < 0.3)
            for key in chance.sample(["news", "tips"], chance.randrange(3))
        },
        messages=[
            SampleMessage(
                campaign,
                chance.choice([None, a_time()]),
                [
                    (chance.choice(["open", "click", "bounce", "complaint", "unsubscribe", "delivered"]), a_time())
                    for _ in range(chance.randrange(3))
                ],
            )
            for campaign in chance.sample([None, None, *CAMPAIGNS], chance.randrange(4))
        ],
        events=[
            SampleEvent(
                chance.choice(["order.placed", "Signed up"]),
                a_time(),
                {key: chance.choice(VALUES) for key in PROPERTIES if chance.random() < 0.8},
            )
            for _ in range(chance.randrange(4))
        ],
    )


# The reference implementation of filters.


def matches(condition: FilterCondition, sample: SampleContact) -> bool:
    match condition:
        case filters.AllOf(all=parts):
            return all(matches(part, sample) for part in parts)
        case filters.AnyOf(any=parts):
            return any(matches(part, sample) for part in parts)
        case filters.Not(not_=part):
            return not matches(part, sample)
        case AttributeCondition():
            return value_matches(condition, sample.attributes.get(condition.attribute))
        case filters.HasTag(tag=tag):
            return tag in sample.tags
        case filters.OnList(list=key):
            states = sample.on.values() if key == "general" else [sample.on.get(key)]
            return (False, False) in states
        case filters.HasStatus(status=status):
            return sample.status == status
        case filters.HasLocale(locale=locale):
            return sample.locale is not None and f"{sample.locale}-".lower().startswith(f"{locale}-".lower())
        case filters.InTimezone(timezone=timezone):
            return sample.timezone == timezone
        case filters.AtDomain(domain=domain):
            return sample.email.split("@")[1] == domain
        case filters.CreatedSince(created_since=time):
            return sample.created_at >= time
        case filters.CreatedBefore(created_before=time):
            return sample.created_at < time
        case filters.WasSent(sent=activity):
            return often_enough(sample, activity, lambda message: [] if message.sent_at is None else [message.sent_at])
        case filters.HasOpened(opened=activity):
            return often_enough(
                sample, activity, lambda message: [at for type_, at in settled(message) if type_ == "open"]
            )
        case filters.HasClicked(clicked=activity):
            return often_enough(
                sample, activity, lambda message: [at for type_, at in settled(message) if type_ == "click"]
            )
        case filters.HasBounced(bounced=activity):
            return often_enough(
                sample, activity, lambda message: [at for type_, at in message.reports if type_ == "bounce"]
            )
        case filters.HasComplained(complained=activity):
            return often_enough(
                sample, activity, lambda message: [at for type_, at in message.reports if type_ == "complaint"]
            )
        case filters.HasUnsubscribed(unsubscribed=activity):
            return often_enough(
                sample, activity, lambda message: [at for type_, at in message.reports if type_ == "unsubscribe"]
            )
        case filters.HasEvent(event=activity):
            return has_events(sample, activity)
    raise AssertionError(condition)


def settled(message: SampleMessage) -> list[tuple[str, Instant]]:
    """Return the reports without the newest, which may be the first of a burst."""
    return [(type_, at) for type_, at in message.reports if at <= NOW - SETTLES_AFTER]


def often_enough(sample: SampleContact, activity: MessageActivity, moments: Any) -> bool:
    since = 0 if activity.within_days is None else NOW - activity.within_days * DAY
    result = [
        message
        for message in sample.messages
        if any(at >= since for at in moments(message)) and activity.campaign in (None, message.campaign)
    ]
    return len(result) >= activity.at_least


def has_events(sample: SampleContact, activity: EventActivity) -> bool:
    since = 0 if activity.within_days is None else NOW - activity.within_days * DAY
    found = [
        event
        for event in sample.events
        if event.name == activity.name and event.at >= since and properties_match(activity.where, event.properties)
    ]
    return len(found) >= activity.at_least


# Filters of every kind.

WORDS = [value for value in VALUES if isinstance(value, str) and value]
SCALARS = [*WORDS, 42, -7, 3.5, 1000.25, 42.0, True, False]
BOUNDS = st.sampled_from([0, 42, 3.5, -7, 1000, "2027-01-31", "2027-01-01", "2027-02-01"])
ACTIVITIES = st.fixed_dictionaries(
    {},
    optional={
        "withinDays": st.sampled_from([1, 7, 30]),
        "atLeast": st.integers(1, 3),
        "campaign": st.sampled_from([*CAMPAIGNS, "0197f000-0000-7000-8000-0000000000ff"]),
    },
)


FILTERED_ACTIVITIES = ("sent", "opened", "clicked", "bounced", "complained", "unsubscribed")


def an_attribute(name: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries({"attribute": st.sampled_from([*KEYS, "nobody_has_it"]), name: values})


COMPARISONS = st.one_of(
    st.sampled_from(SCALARS),
    *(st.fixed_dictionaries({name: st.sampled_from(SCALARS)}) for name in ("is", "isNot")),
    st.fixed_dictionaries({"in": st.lists(st.sampled_from(SCALARS), min_size=1, max_size=3)}),
    st.fixed_dictionaries({"contains": st.sampled_from(["PRO", "р", "%", "e", '"'])}),
    *(st.fixed_dictionaries({name: BOUNDS}) for name in ("greaterThan", "lessThan", "atLeast", "atMost")),
    st.fixed_dictionaries({"exists": st.booleans()}),
)
EVENTS = st.fixed_dictionaries(
    {"name": st.sampled_from(["order.placed", "Signed up", "never"])},
    optional={
        "withinDays": st.sampled_from([1, 7, 30]),
        "atLeast": st.integers(1, 3),
        "where": st.dictionaries(st.sampled_from(PROPERTIES), COMPARISONS, min_size=1, max_size=2),
    },
)


UNSUBSCRIBE = st.one_of(
    *(an_attribute(name, st.sampled_from(SCALARS)) for name in ("is", "isNot")),
    an_attribute("in", st.lists(st.sampled_from(SCALARS), min_size=1, max_size=3)),
    an_attribute("contains", st.sampled_from(["PRO", "р", "Лис", "%", "_", "e", '"'])),
    *(an_attribute(name, BOUNDS) for name in ("greaterThan", "lessThan", "atLeast", "atMost")),
    an_attribute("exists", st.booleans()),
    st.sampled_from(
        [
            {"tag": "vip"},
            {"tag": "NEW"},
            {"list": "news"},
            {"list": "tips"},
            {"list": "general"},
            {"status": "active"},
            {"status": "bounced"},
            {"locale": "pt"},
            {"locale": "PT_br"},
            {"timezone": "Europe/Lisbon"},
            {"domain": "gmail.com"},
            {"domain": "EXAMPLE.com"},
            {"createdSince": isoformat(NOW - 30 * DAY)},
            {"createdBefore": isoformat(NOW - 7 * DAY)},
            {"createdBefore": "2027-01-01"},
        ]
    ),
    *(st.fixed_dictionaries({name: ACTIVITIES}) for name in FILTERED_ACTIVITIES),
    st.fixed_dictionaries({"event": EVENTS}),
)
FILTERS = st.recursive(
    UNSUBSCRIBE,
    lambda inner: st.one_of(
        st.fixed_dictionaries({"all": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"any": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"not": inner}),
    ),
    max_leaves=5,
)


@pytest.fixture(params=[1, 2])
async def stored_contacts(request: pytest.FixtureRequest, database: Database) -> list[SampleContact]:
    created = sample_contacts(request.param)
    await store(database, created)
    return created


async def store(database: Database, stored_contacts: list[SampleContact]) -> None:
    async with database.write() as tx:
        for key in ("news", "tips"):
            values = {"tenant_id": 1, "list_key": key, "name": key, "is_public": True, "created_at": 0}
            await tx.execute(insert(list_table).values(**values))
        keys = {}
        for campaign in CAMPAIGNS:
            values = {"campaign_id": campaign, "tenant_id": 1, "name": campaign, "status": "SENT", "definition": "{}"}
            await tx.execute(insert(campaigns).values(**values, created_at=0, updated_at=0))
            result = await tx.execute(select(campaigns.c.id).where(campaigns.c.campaign_id == campaign))
            keys[campaign] = result[0].id
        number = 0
        for key, sample in enumerate(stored_contacts, 1):
            await tx.execute(
                insert(contacts).values(
                    id=key, contact_id=f"c-{key}", tenant_id=1, email=sample.email, status=sample.status,
                    locale=sample.locale, timezone=sample.timezone, created_at=sample.created_at,
                    attributes=orjson.dumps(sample.attributes).decode(),
                )
            )  # fmt: skip
            for tag in sample.tags:
                await tx.execute(insert(contact_tags).values(contact_key=key, tag=tag, tenant_id=1))
            for list_key, (has_left, is_pending) in sample.on.items():
                await tx.execute(
                    insert(subscriptions).values(
                        tenant_id=1, contact_key=key, list_key=list_key, subscribed_at=1, source="test",
                        unsubscribed_at=2 if has_left else None, is_pending=is_pending,
                    )
                )  # fmt: skip
            for message in sample.messages:
                number += 1
                await store_message(tx, number, key, sample.email, message, keys)
            for event in sample.events:
                number += 1
                values = {"tenant_id": 1, "event_id": str(number), "email": sample.email, "name": event.name}
                properties = orjson.dumps(event.properties).decode()
                await tx.execute(
                    insert(contact_events).values(
                        **values, properties=properties, occurred_at=event.at, received_at=NOW
                    )
                )


async def store_message(
    tx: Any, number: int, contact: int, email: str, message: SampleMessage, keys: dict[str, int]
) -> None:
    await tx.execute(
        insert(messages).values(
            id=number, outbox_id=f"o-{number}", tenant_id=1, source="campaign", request_id="r", to_email=email,
            contact_key=contact, subject="s", payload="{}", retry_policy="standard", on_doubt="hold", is_bulk=True,
            created_at=1, list_key="news", campaign_key=keys.get(message.campaign or ""),
        )
    )  # fmt: skip
    status = Status.PENDING if message.sent_at is None else Status.SENT
    await tx.execute(
        insert(deliveries).values(
            message_key=number, tenant_id=1, lane=1, status=status, claimable_at=1, attempts=0, claims=0, resends=0,
            sent_at=message.sent_at,
        )
    )  # fmt: skip
    for type_, at in message.reports:
        values = {"message_key": number, "tenant_id": 1, "type": EventType(type_), "created_at": at, "metadata": "{}"}
        await tx.execute(insert(events).values(**values))


@pytest.mark.promise("segment-exact")
@settings(
    max_examples=examples(40),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(filter_json=FILTERS)
async def test_filter_matches_its_reference_implementation(
    database: Database, stored_contacts: list[SampleContact], filter_json: dict[str, Any]
) -> None:
    condition = filters.parse(filter_json)
    # A filter that names a missing campaign matches nobody, even inside `not`.
    is_complete = {*filters.values_named(filter_json, "campaign")} <= {*CAMPAIGNS}
    expected = [sample.email for sample in stored_contacts if is_complete and matches(condition, sample)]
    async with database.read() as tx:
        query = select(contacts.c.email).where(filter_clause(filter_json, 1, NOW)).order_by(contacts.c.id)
        result = [row.email for row in await tx.execute(query)]
    assert result == expected
    assert describe(filter_json).startswith(("Contacts who", "Contacts ("))


async def test_segment_is_evaluated_at_each_use(database: Database, clock: ManualClock) -> None:
    statuses = ContactStatusService(database, clock)
    await lists.create(database, clock, 1, "news")
    filter_json = {"all": [{"list": "news"}, {"domain": "example.com"}]}
    saved = await segments.create(database, clock, 1, "readers", filter_=filter_json, name="Readers")
    assert await segments.find(database, 1, "readers") == saved
    for email in ("c@example.com", "a@example.com", "b@elsewhere.com"):
        await statuses.subscribe(1, email, "news", source="form")
    async with database.read() as tx:
        assert await segments.count_members(tx, 1, saved.filter, clock.now()) == 2
        first = await segments.list_members(tx, 1, saved.filter, clock.now(), limit=1)
        rest = await segments.list_members(tx, 1, saved.filter, clock.now(), limit=10, after=first[0].email)
        assert [sample.email for sample in (*first, *rest)] == ["a@example.com", "c@example.com"]
        assert await segments.count_members(tx, 2, saved.filter, clock.now()) == 0
    clock.advance(1_000)
    changed = await segments.change(database, clock, 1, "readers", filter_={"tag": "vip"})
    assert (changed.name, changed.filter, changed.updated_at) == ("Readers", {"tag": "vip"}, clock.now())
    assert [each.segment_key for each in await segments.list_all(database, 1)] == ["readers"]
    await segments.delete_segment(database, 1, "readers")
    with pytest.raises(NotFound):
        await segments.find(database, 1, "readers")


async def test_segment_needs_a_unique_key_and_valid_filter(database: Database, clock: ManualClock) -> None:
    await segments.create(database, clock, 1, "vips", filter_={"tag": "vip"})
    await segments.create(database, clock, 2, "vips", filter_={"tag": "vip"})
    with pytest.raises(SegmentExists):
        await segments.create(database, clock, 1, "vips", filter_={"tag": "other"})
    for key, filter_json in (("No Key", {"tag": "vip"}), ("k", {"tag": "vip", "list": "news"}), ("k", {"sql": "1=1"})):
        with pytest.raises(InvalidInput):
            await segments.create(database, clock, 1, key, filter_=filter_json)
    with pytest.raises(InvalidFilter):
        await segments.change(database, clock, 1, "vips", filter_={"attribute": "a'; DROP", "is": 1})
    with pytest.raises(NotFound):
        await segments.change(database, clock, 3, "vips", name="theirs")
    with pytest.raises(NotFound):
        await segments.delete_segment(database, 3, "vips")


async def test_audience_contains_only_active_subscribers(database: Database, clock: ManualClock) -> None:
    statuses = ContactStatusService(database, clock)
    for key in ("news", "tips"):
        await lists.create(database, clock, 1, key)
    for name in ("stays", "left", "left-all", "bounced", "complained", "suppressed", "suppressed-on-list", "pending"):
        await statuses.subscribe(1, f"{name}@example.com", "news", source="form")
    await statuses.subscribe(1, "other@example.com", "tips", source="form")
    await statuses.unsubscribe_by_link(1, "left@example.com", "news", source="link")
    await statuses.unsubscribe_by_link(1, "left-all@example.com", source="link")
    await statuses.bounce(1, "bounced@example.com", source="ses")
    await statuses.complain(1, "complained@example.com", source="ses")
    await suppressions.add(database, clock, 1, "suppressed@example.com", reason="law", source="cli")
    await suppressions.add(
        database, clock, 1, "suppressed-on-list@example.com", reason="law", source="cli", list_key="news"
    )
    async with database.write() as tx:
        pending = select(contacts.c.id).where(contacts.c.email == "pending@example.com").scalar_subquery()
        await tx.execute(subscriptions.update().where(subscriptions.c.contact_key == pending).values(is_pending=True))

    async def names(*list_keys: str, filter_json: Any = None) -> list[str]:
        stored_contacts, whole = (ask(1, list_keys, filter_json, clock.now()) for ask in (audience, audience_query))
        async with database.read() as tx:
            rows = await tx.execute(select(contacts.c.email).where(stored_contacts).order_by(contacts.c.email))
            assert list(await tx.execute(whole.add_columns(contacts.c.email).order_by(contacts.c.email))) == list(rows)
        return [row.email.partition("@")[0] for row in rows]

    assert await names("news") == ["stays"]
    assert await names("news", "tips") == ["other", "stays"]
    assert await names("general") == await names() == ["other", "stays"]
    assert await names("news", filter_json={"not": {"domain": "example.com"}}) == []
    assert (await names("news", filter_json={"list": "news"}), await names("news", filter_json={"list": "tips"})) == (
        ["stays"],
        [],
    )


@pytest.mark.parametrize(
    ("filter_json", "reason"),
    [
        ({"x": 1}, "exactly one of all, any"),
        ({"tag": "a", "list": "b"}, "exactly one of all, any"),
        ({"all": []}, "all"),
        ({"all": [{"tag": "a"}, {"tag": ""}]}, r"filter.all\[1\].tag"),
        ({"attribute": "plan"}, "exactly one of is, isNot"),
        ({"attribute": "plan", "is": "a", "isNot": "b"}, "exactly one of is, isNot"),
        ({"attribute": "a b", "is": 1}, "filter.attribute"),
        ({"attribute": "plan", "greaterThan": "big"}, "filter.greaterThan"),
        ({"attribute": "plan", "is": "nul\x00"}, "filter.is"),
        ({"attribute": "plan", "is": 1e300}, "filter.is"),
        ({"opened": {"withinDays": 0}}, "filter.opened.withinDays"),
        ({"opened": {"days": 3}}, "filter.opened"),
        ({"createdSince": "2027-01-31T09:00:00"}, "with its zone"),
        ({"status": "happy"}, "filter.status"),
        ({"any": [{"tag": "a"}] * 101}, "more than 100"),
        ("tag = 'a'", "exactly one of"),
    ],
)
def test_invalid_filter_names_the_field_and_the_fix(filter_json: Any, reason: str) -> None:
    with pytest.raises(InvalidFilter, match=reason) as refused:
        filters.parse(filter_json)
    assert not re.search(r"should|validation|tuple|Input|\^|\[a-z", str(refused.value)), "a message of the validator"


def test_deep_nesting_is_refused_cheaply() -> None:
    deep: dict[str, Any] = {"tag": "a"}
    for _ in range(50_000):
        deep = {"not": deep}
    with pytest.raises(InvalidFilter, match="nested deeper"):
        filters.parse(deep)


def test_filter_is_described_in_a_sentence() -> None:
    filter_json = {
        "all": [
            {"list": "news"},
            {"any": [{"attribute": "plan", "is": "pro"}, {"tag": "VIP"}]},
            {"not": {"any": [{"opened": {"withinDays": 30}}, {"clicked": {"atLeast": 2}}]}},
            {"attribute": "spent", "atLeast": 100},
            {"not": {"event": {"name": "order.placed", "atLeast": 2, "where": {"total": {"atLeast": 50}, "to": "PT"}}}},
        ]
    }
    assert describe(filter_json) == (
        "Contacts who are on the list news and (whose attribute plan is “pro” or who are tagged vip) and (who did not "
        "open an email within the last 30 days and who clicked in fewer than 2 emails) and whose attribute spent is at "
        "least 100 and who have the event “order.placed” fewer than 2 times (total is at least 50 and to is “PT”)."
    )
