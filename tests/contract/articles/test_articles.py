"""Articles on both engines: slices by position, runs that are sent once, variants that are stored once."""

import asyncio
from dataclasses import replace
from email import message_from_bytes, policy
from email.message import EmailMessage
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import func, select, text, update

from mailwright.audience import contacts, lists
from mailwright.audience.status import ContactStatusService
from mailwright.content.template_store import TemplateStore
from mailwright.domain.clock import SECOND
from mailwright.domain.errors import InvalidInput, NotFound
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.results import SendResult, sent
from mailwright.domain.retry import ARTICLES
from mailwright.domain.states import EventType, Status
from mailwright.outbox.audit import audit
from mailwright.outbox.audit_log import list_entries
from mailwright.outbox.message_records import dead_letters
from mailwright.providers.route import Route
from mailwright.sources.articles import enqueue, recipients
from mailwright.sources.articles.assembly import Inclusion, PublishStatus, Slice, narrowest_scope
from mailwright.sources.articles.enqueue import ArticleScheduler
from mailwright.sources.articles.files import FilesRefused, ParsedSlice
from mailwright.sources.articles.preview import ArticleCoverage, ArticlePreviews, PreviewRecipient
from mailwright.sources.articles.runs import (
    BatchIdReused,
    EmptyAudience,
    NothingPublished,
    UnknownArticle,
)
from mailwright.sources.articles.slice_input import SliceRefused
from mailwright.sources.articles.slices import SliceChanges, SlicePositionTaken, SliceStore
from mailwright.storage.tables import campaign_runs, messages, slices, templates
from tests.articles import (
    ACTOR,
    ADA,
    BATCH,
    CLEO,
    FRANKLIN,
    KEY,
    OHIO,
    TAG,
    UPPER_ARLINGTON,
    US,
    a_recipient,
    a_run_request,
    a_slice,
    begin,
    rows_of,
    runs_of,
    the_slices,
    two_recipients,
    write_slices,
)
from tests.builders import (
    DEFAULT_TENANT,
    FAULT,
    REFUSAL,
    SENT,
    THROTTLE,
    UNKNOWN,
    Bench,
    a_message,
    a_tenant,
    deliveries_of,
    suppress,
)
from tests.standins.provider import ScriptedProvider


@pytest.fixture(autouse=True)
async def adds_up(bench: Bench) -> Any:
    yield
    assert (await audit(bench.database)).ok


def store_of(bench: Bench) -> SliceStore:
    return SliceStore(bench.database, bench.clock, bench.engine.templates)


def scheduler_of(bench: Bench) -> ArticleScheduler:
    """A scheduler without caches, as in a new process."""
    return ArticleScheduler(bench.database, bench.clock, TemplateStore(bench.database, bench.clock))


async def enqueue_all(bench: Bench) -> None:
    scheduler = scheduler_of(bench)
    while await scheduler.tick():
        pass


def html_of(message: EmailMessage) -> str:
    body = message.get_body(("html",))
    assert body is not None
    return str(body.get_content())


async def recipients_of(bench: Bench) -> list[str]:
    async with bench.database.read() as tx:
        rows = await tx.execute(select(messages.c.to_email).order_by(messages.c.id))
    return [row.to_email for row in rows]


async def count(bench: Bench, table: Any) -> int:
    async with bench.database.read() as tx:
        return int((await tx.execute(select(func.count()).select_from(table)))[0][0])


# Slices.


async def test_writing_to_an_occupied_position_changes_the_slice(bench: Bench) -> None:
    store = store_of(bench)
    [first], put = await store.put(ACTOR, DEFAULT_TENANT, [a_slice(body_md="Old")])
    assert put == SliceChanges(added=1)
    [second], put = await store.put(ACTOR, DEFAULT_TENANT, [a_slice(body_md="New", tags=("vote",))])
    assert (put, second.slice_id) == (SliceChanges(changed=1), first.slice_id)
    _, put = await store.put(ACTOR, DEFAULT_TENANT, [a_slice(body_md="New", tags=("vote",)), a_slice(sort_index=1)])
    assert put == SliceChanges(added=1, unchanged=1)
    assert [each.body_md for each in await store.list_slices(DEFAULT_TENANT, KEY)] == ["New", "Words."]
    assert await store.find(DEFAULT_TENANT, first.slice_id) == second


async def test_slice_moves_only_to_a_free_position(bench: Bench) -> None:
    store = store_of(bench)
    (first, second), _ = await store.put(ACTOR, DEFAULT_TENANT, [a_slice(), a_slice(sort_index=1)])
    with pytest.raises(SlicePositionTaken):
        await store.change(ACTOR, DEFAULT_TENANT, second.slice_id, a_slice(sort_index=0))
    moved = await store.change(ACTOR, DEFAULT_TENANT, second.slice_id, a_slice(sort_index=2, scope_ocd_id=OHIO))
    assert (await store.find(DEFAULT_TENANT, second.slice_id)) == moved
    await store.remove(ACTOR, DEFAULT_TENANT, first.slice_id)
    with pytest.raises(NotFound):
        await store.find(DEFAULT_TENANT, first.slice_id)
    [summary] = await store.list_articles(DEFAULT_TENANT)
    assert (summary.article_key, summary.slices, summary.published) == (KEY, 1, 1)
    done = [
        (entry.action, entry.subject) for entry in await list_entries(bench.database, tenant_id=DEFAULT_TENANT, limit=9)
    ]
    assert done == [("slices.remove", KEY), ("slices.change", KEY), ("slices.put", KEY)]


async def test_unsendable_slice_is_refused_on_write(bench: Bench) -> None:
    store = store_of(bench)
    with pytest.raises(SliceRefused, match=r"body_md: .*<script>"):
        await store.put(ACTOR, DEFAULT_TENANT, [a_slice(sort_index=1), a_slice(body_md="<script>alert(1)</script>")])
    found = [
        ParsedSlice("a.csv", 2, a_slice()),
        ParsedSlice("a.csv", 7, a_slice(body_md="x <img onerror=alert(1) src=x>")),
    ]
    with pytest.raises(FilesRefused, match=r"a\.csv, line 7: body_md"):
        await store.import_slices(ACTOR, DEFAULT_TENANT, found)
    assert await count(bench, slices) == 0


@pytest.mark.promise("tenant-isolation")
async def test_slices_and_runs_belong_to_one_tenant(bench: Bench) -> None:
    other = await a_tenant(bench.database, "other")
    [first, *_] = await write_slices(bench)
    await two_recipients(bench)
    run = await begin(bench)
    with pytest.raises(NotFound):
        await store_of(bench).find(other, first.slice_id)
    with pytest.raises(NotFound):
        await runs_of(bench).find(other, run.run_id)
    with pytest.raises(UnknownArticle):
        await runs_of(bench).start(ACTOR, other, a_run_request())
    await enqueue_all(bench)


# Runs.


@pytest.mark.promise("article-once")
async def test_repeated_batch_changes_nothing(bench: Bench) -> None:
    await write_slices(bench)
    await two_recipients(bench)
    provider = ScriptedProvider()
    first = await begin(bench)
    await bench.drain(provider)
    history = await rows_of(bench.database, "delivery_history")
    assert sorted(row["email"] for row in history) == [ADA, CLEO]
    for _ in range(3):
        again, is_replay = await runs_of(bench).start("somebody else", DEFAULT_TENANT, a_run_request())
        assert (again.run_id, is_replay, again.actor) == (first.run_id, True, ACTOR)
        await bench.drain(provider)
    assert await rows_of(bench.database, "delivery_history") == history
    assert len(provider.messages) == 2
    assert await count(bench, campaign_runs) == 1


@pytest.mark.promise("article-once")
async def test_concurrent_requests_for_a_batch_create_one_run(bench: Bench) -> None:
    await write_slices(bench)
    await two_recipients(bench)
    found = await asyncio.gather(*(runs_of(bench).start(ACTOR, DEFAULT_TENANT, a_run_request()) for _ in range(5)))
    assert len({run.run_id for run, _ in found}) == 1
    assert [is_replay for _, is_replay in found].count(False) == 1
    await enqueue_all(bench)


@pytest.mark.promise("article-once")
async def test_reused_batch_id_is_a_conflict(bench: Bench) -> None:
    await write_slices(bench)
    await two_recipients(bench)
    await begin(bench)
    for changed in ({"article_key": "other"}, {"audience_filter": {"state": "OH"}}):
        with pytest.raises(BatchIdReused):
            await begin(bench, **changed)
    assert (await begin(bench, campaign_tag="another-tag")).campaign_tag == "another-tag"
    await enqueue_all(bench)


@pytest.mark.parametrize(
    ("prepared", "asked", "refusal", "field"),
    [
        ([], {}, UnknownArticle, "article_key"),
        ([a_slice(publish_status=PublishStatus.DRAFT)], {}, NothingPublished, "article_key"),
        ([a_slice(expires_at=1)], {}, NothingPublished, "article_key"),
        ([a_slice(publish_at=2_000_000_000_000)], {}, NothingPublished, "article_key"),
        ([a_slice()], {"audience_filter": {"state": "TX"}}, EmptyAudience, "audience_filter"),
        ([a_slice(scope_ocd_id="ocd-division/country:fr")], {}, EmptyAudience, "audience_filter"),
        ([a_slice()], {"audience_filter": {"list": "nowhere"}}, InvalidInput, "audience_filter.list"),
        ([a_slice()], {"audience_filter": {"ocd_id": "ohio"}}, InvalidInput, "audience_filter.ocd_id"),
        ([a_slice()], {"audience_filter": {'a"b': "x"}}, InvalidInput, 'audience_filter.a"b'),
        ([a_slice()], {"audience_filter": {"state": "\x00"}}, InvalidInput, "audience_filter.state"),
    ],
)
async def test_run_without_recipients_is_refused_and_stores_nothing(
    bench: Bench, prepared: list[Slice], asked: dict[str, Any], refusal: type[InvalidInput], field: str
) -> None:
    await two_recipients(bench)
    if prepared:
        await write_slices(bench, *prepared)
    with pytest.raises(refusal) as refused:
        await begin(bench, **asked)
    assert refused.value.field == field
    assert await count(bench, campaign_runs) == 0
    await enqueue_all(bench)
    assert await count(bench, messages) == 0


async def test_run_records_actor_content_and_time(bench: Bench) -> None:
    await write_slices(bench)
    await two_recipients(bench)
    run = await begin(bench)
    assert (run.actor, run.campaign_tag, run.article_key, run.send_batch_id) == (ACTOR, TAG, KEY, BATCH)
    assert run.started_at == bench.clock.now()
    [entry, *_] = await list_entries(bench.database, tenant_id=DEFAULT_TENANT, limit=1)
    assert (entry.actor, entry.action, entry.subject) == (ACTOR, "article.send", run.run_id)
    await enqueue_all(bench)


@pytest.mark.promise("article-once")
async def test_interrupted_run_resumes_where_it_stopped(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enqueue, "BATCH_SIZE", 3)
    await write_slices(bench)
    everyone = [f"reader{number:02d}@example.com" for number in range(10)]
    for email in reversed(everyone):
        await a_recipient(bench, email, US, OHIO)
    run = await begin(bench)
    assert await scheduler_of(bench).tick()

    class Cut(Exception):
        """The process ends after it wrote the messages and before it commits."""

    def cut(*_: Any) -> None:
        raise Cut

    with monkeypatch.context() as patched:
        patched.setattr(enqueue, "variant_rows", cut)  # The messages of the batch are written by then.
        assert not await scheduler_of(bench).tick()
    assert await recipients_of(bench) == everyone[:3]
    # A later change of the slices does not affect a run that has started.
    await write_slices(bench, a_slice(is_headline=True, title="Other", body_md="Other"))
    await begin(bench)
    await enqueue_all(bench)
    assert await recipients_of(bench) == everyone
    assert [(share.recipients, len(share.slice_ids)) for share in await runs_of(bench).list_variants(run)] == [(10, 3)]
    found = await runs_of(bench).find(DEFAULT_TENANT, run.run_id)
    assert (found.recipients, found.skipped, found.enqueue_ended_at is not None) == (10, 0, True)


@pytest.mark.promise("article-once")
async def test_concurrent_workers_enqueue_each_recipient_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enqueue, "BATCH_SIZE", 2)
    await write_slices(bench)
    everyone = [f"reader{number:02d}@example.com" for number in range(9)]
    for email in everyone:
        await a_recipient(bench, email, US)
    await begin(bench)
    await asyncio.gather(*(enqueue_all(bench) for _ in range(3)))
    assert await recipients_of(bench) == everyone


async def test_run_keeps_the_slices_it_started_with(bench: Bench) -> None:
    await write_slices(bench)
    await two_recipients(bench)
    await begin(bench)
    for each in await store_of(bench).list_slices(DEFAULT_TENANT, KEY):
        await store_of(bench).remove(ACTOR, DEFAULT_TENANT, each.slice_id)
    provider = ScriptedProvider()
    await bench.drain(provider)
    assert all(b"The nation votes." in message.content for message in provider.messages)


# Variants.


async def test_recipients_of_the_same_slices_share_one_stored_variant(bench: Bench) -> None:
    await write_slices(bench)
    for number in range(20):
        places = [US, OHIO, FRANKLIN] if number % 2 else [US, f"{US}/state:tx"]
        await a_recipient(bench, f"reader{number}@example.com", *places, name=f"Reader {number}")
    run = await begin(bench)
    await enqueue_all(bench)
    assert await count(bench, templates) == 2
    assert [share.recipients for share in await runs_of(bench).list_variants(run)] == [10, 10]
    await begin(bench, send_batch_id=BATCH.replace("7", "8"))
    await enqueue_all(bench)
    assert (await count(bench, templates), await count(bench, messages)) == (2, 40)


async def test_placeholders_are_filled_for_each_recipient(bench: Bench) -> None:
    await write_slices(
        bench, a_slice(title="For [[name|you]]", body_md="Dear [[name|reader]] in [[city|your town]] & co")
    )
    await a_recipient(bench, ADA, name="Ada", city="Columbus <OH>")
    await a_recipient(bench, CLEO)
    provider = ScriptedProvider()
    await begin(bench)
    await bench.drain(provider)
    emails = {
        message.recipients[0]: message_from_bytes(message.content, policy=policy.default)
        for message in provider.messages
    }
    assert (emails[ADA]["Subject"], emails[CLEO]["Subject"]) == ("For Ada", "For you")
    assert "Dear Ada in Columbus &lt;OH&gt; &amp; co" in html_of(emails[ADA])
    assert "Dear reader in your town &amp; co" in html_of(emails[CLEO])
    assert await count(bench, templates) == 1


# Audiences.


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, ["a@example.com", "b@example.com", "c@example.com", "d@example.com"]),
        ({"state": "OH"}, ["a@example.com", "b@example.com"]),
        ({"state": "oh", "county": "Franklin"}, ["a@example.com"]),
        ({"place": "Upper Arlington"}, ["a@example.com"]),
        ({"ocd_id": OHIO}, ["a@example.com"]),
        ({"state": "DC"}, ["c@example.com"]),
        ({"plan": "PRO"}, ["b@example.com", "c@example.com"]),
        ({"age": "42"}, ["d@example.com"]),
        ({"is_member": "true"}, ["d@example.com"]),
        ({"list": "news"}, ["b@example.com"]),
    ],
)
async def test_filter_selects_by_division_attribute_or_list(
    bench: Bench, asked: dict[str, str], expected: list[str]
) -> None:
    await write_slices(bench, a_slice())
    await a_recipient(bench, "a@example.com", US, OHIO, FRANKLIN, UPPER_ARLINGTON)
    await a_recipient(bench, "b@example.com", state="oh", plan="pro")
    await a_recipient(
        bench, "c@example.com", f"{US}/district:dc", plan="Pro", note="lives near /state:oh-io, not in it"
    )
    await a_recipient(bench, "d@example.com", age=42, is_member=True, ocd_ids=f"{US}; {US}/state:ohx")
    await lists.create(bench.database, bench.clock, DEFAULT_TENANT, "news")
    await ContactStatusService(bench.database, bench.clock).subscribe(
        DEFAULT_TENANT, "b@example.com", "news", source="test"
    )
    run = await begin(bench, audience_filter=asked)
    await enqueue_all(bench)
    assert await recipients_of(bench) == expected
    assert run.list_key == asked.get("list", "general")


async def test_article_with_its_own_list_goes_to_that_list(bench: Bench) -> None:
    await write_slices(bench)
    await two_recipients(bench)
    await lists.create(bench.database, bench.clock, DEFAULT_TENANT, KEY)
    await ContactStatusService(bench.database, bench.clock).subscribe(DEFAULT_TENANT, ADA, KEY, source="test")
    run = await begin(bench)
    await enqueue_all(bench)
    assert (run.list_key, await recipients_of(bench)) == (KEY, [ADA])


async def test_unsubscribed_and_deleted_contacts_get_no_article(bench: Bench) -> None:
    await write_slices(bench)
    await two_recipients(bench)
    for name in ("left", "gone", "late"):
        await a_recipient(bench, f"{name}@example.com", US)
    await suppress(bench.database, "left@example.com", list_key="general")
    gone = await contacts.find_by_email(bench.database, DEFAULT_TENANT, "gone@example.com")
    await contacts.delete(bench.database, bench.clock, DEFAULT_TENANT, gone.contact_id)
    await begin(bench)
    await enqueue_all(bench)
    await suppress(bench.database, "late@example.com", list_key="general")
    provider = ScriptedProvider()
    await bench.drain(provider)
    assert sorted(message.recipients[0] for message in provider.messages) == [ADA, CLEO]
    # Unsubscribing is not a failure.
    assert await rows_of(bench.database, "dead_letters") == []


async def test_contact_deleted_during_enqueue_is_not_counted(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    await write_slices(bench)
    await two_recipients(bench)
    await a_recipient(bench, "gone@example.com", US)
    run = await begin(bench)
    looked_up = recipients.page

    async def then_deleted(*given: Any, **named: Any) -> list[recipients.ArticleRecipient]:
        found = await looked_up(*given, **named)
        gone = await contacts.find_by_email(bench.database, DEFAULT_TENANT, "gone@example.com")
        await contacts.delete(bench.database, bench.clock, DEFAULT_TENANT, gone.contact_id)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(recipients, "page", then_deleted)
        assert await scheduler_of(bench).tick()
    assert await recipients_of(bench) == [ADA, CLEO]
    assert await runs_of(bench).count_messages(run) == {Status.PENDING: 2}
    assert (await runs_of(bench).find(DEFAULT_TENANT, run.run_id)).recipients == 2
    assert sum(share.recipients for share in await runs_of(bench).list_variants(run)) == 2


# Outcomes.


async def test_message_in_doubt_is_neither_history_nor_dead_letter(bench: Bench) -> None:
    await write_slices(bench)
    await two_recipients(bench)
    run = await begin(bench)
    await bench.drain(ScriptedProvider(SENT, UNKNOWN))
    assert len(await rows_of(bench.database, "delivery_history")) == 1
    assert await rows_of(bench.database, "dead_letters") == []
    assert await runs_of(bench).count_messages(run) == {Status.SENT: 1, Status.IN_DOUBT: 1}


@pytest.mark.promise("dead-letter")
async def test_rejected_article_is_a_dead_letter(bench: Bench) -> None:
    await write_slices(bench)
    await two_recipients(bench)
    await begin(bench)
    await bench.drain(ScriptedProvider(SENT, REFUSAL))
    [dead] = await dead_letters(bench.database, tenant_id=DEFAULT_TENANT, limit=10)
    [row] = await rows_of(bench.database, "dead_letters")
    assert (dead.outbox_id, dead.code, dead.source) == (row["id"], REFUSAL.code, "article")


async def test_retries_of_one_recipient_do_not_pause_the_provider(bench: Bench) -> None:
    """Their attempts follow the contract of articles, and the next message is sent meanwhile."""
    await write_slices(bench)
    for name in ("ada", "bob", "cleo"):
        await a_recipient(bench, f"{name}@example.com", US)
    await begin(bench)
    failing = replace(FAULT, provider="sendgrid", blames_provider=True, is_deferral=True)
    provider = ScriptedProvider(*[failing] * 12, name="sendgrid")
    for pause in (2, 6, 14):
        await bench.drain(provider)
        bench.clock.advance(pause * SECOND)
    await bench.drain(provider)
    assert len(await dead_letters(bench.database, tenant_id=DEFAULT_TENANT, limit=10)) == 3


async def test_failing_recipients_prolong_no_pause_after_throttling(bench: Bench) -> None:
    """A recipient whose message fails again as the probe does not hold the provider; the next message probes it."""
    await write_slices(bench)
    for name in ("ada", "bob", "cleo"):
        await a_recipient(bench, f"{name}@example.com", US)
    await begin(bench)
    fault = replace(FAULT, provider="sendgrid", blames_provider=True, is_deferral=True)
    throttle = replace(THROTTLE, provider="sendgrid", retry_after=3 * SECOND)
    throttled = iter([throttle])

    def respond(message: OutgoingMessage) -> SendResult:
        if "cleo@example.com" not in message.recipients:
            return fault
        return next(throttled, sent("sendgrid", "<1@sendgrid>"))

    provider = ScriptedProvider(*[respond] * 99, name="sendgrid")
    route = Route.of(provider, bench.clock)
    await bench.drain(route)
    assert route.deferral() is not None
    for _ in range(5):
        bench.clock.advance(SECOND)
        await bench.drain(route)
    cleo = next(message.outbox_id for message in provider.messages if "cleo@example.com" in message.recipients)
    assert (await bench.record(cleo)).summary.status == Status.SENT
    assert route.deferral() is None


async def test_attempts_keep_their_times_while_others_are_sent(bench: Bench) -> None:
    """The errors of some recipients never open the circuit breaker."""
    await write_slices(bench)
    failing = {f"{name}@example.com" for name in ("ada", "bob", "cleo", "dan")}
    for email in (*failing, "eve@example.com"):
        await a_recipient(bench, email, US)
    await begin(bench)
    fault = replace(FAULT, provider="sendgrid", blames_provider=True, is_deferral=True)

    def respond(message: OutgoingMessage) -> SendResult:
        return fault if failing.intersection(message.recipients) else sent("sendgrid", "<1@sendgrid>")

    provider = ScriptedProvider(*[respond] * 99, name="sendgrid")
    route = Route.of(provider, bench.clock)
    await bench.drain(route)
    while due := [
        row.next_attempt_at for row in await deliveries_of(bench.database) if row.status == "RETRY_SCHEDULED"
    ]:
        bench.clock.advance(max(0, min(due) - bench.clock.now()))
        [urgent] = await bench.accept(a_message())
        await bench.drain(route)
        assert (await bench.record(urgent)).summary.status == Status.SENT
    retried = {message.outbox_id for message in provider.messages if failing.intersection(message.recipients)}
    assert len(retried) == 4
    for outbox_id in retried:
        events = (await bench.record(outbox_id)).events
        began = [event.at for event in events if event.type is EventType.SENT_ATTEMPT]
        pauses = [after - before for before, after in pairwise(began)]
        assert [round(pause / delay) for pause, delay in zip(pauses, ARTICLES.delays, strict=True)] == [1, 1, 1]


async def test_variant_is_described_by_its_narrowest_slice() -> None:
    scopes = (None, UPPER_ARLINGTON, OHIO, None)
    assert narrowest_scope([Slice(str(number), KEY, scope_ocd_id=scope) for number, scope in enumerate(scopes)]) == (
        UPPER_ARLINGTON
    )


async def test_database_allows_one_message_per_run_and_address(bench: Bench) -> None:
    await write_slices(bench)
    await two_recipients(bench)
    run = await begin(bench)
    await enqueue_all(bench)
    async with bench.database.write() as tx:
        await tx.execute(
            update(campaign_runs).where(campaign_runs.c.id == run.id).values(enqueued_to="", enqueue_ended_at=None)
        )
    await scheduler_of(bench).tick()
    assert await recipients_of(bench) == [ADA, CLEO]
    async with bench.database.write() as tx:
        await tx.execute(text("UPDATE campaign_runs SET enqueue_ended_at = 1"))


# Previews and coverage.


async def test_preview_works_for_contact_or_divisions(bench: Bench) -> None:
    await write_slices(bench)
    await two_recipients(bench)
    previews = ArticlePreviews(bench.database, bench.clock, bench.engine.templates)
    as_ada = await previews.preview(DEFAULT_TENANT, KEY, await previews.find_recipient(DEFAULT_TENANT, ADA, []))
    assert as_ada.article is not None
    assert as_ada.rendered is not None
    assert as_ada.article.title == "Vote in May"
    assert "Dear Ada," in (as_ada.rendered.html or "")
    assert "<strong>Ohio</strong> votes." in (as_ada.rendered.html or "")
    nowhere = await previews.preview(DEFAULT_TENANT, KEY, PreviewRecipient())
    assert nowhere.article is not None
    assert nowhere.article.body_md == "Dear [[name|reader]],"
    with pytest.raises(InvalidInput):
        await previews.find_recipient(DEFAULT_TENANT, "nobody@example.com", [])
    with pytest.raises(UnknownArticle):
        await previews.preview(DEFAULT_TENANT, "other", PreviewRecipient())
    assert await count(bench, templates) == 0


async def test_preview_explains_each_slice(bench: Bench) -> None:
    await write_slices(bench, *the_slices(), a_slice(sort_index=5, publish_status=PublishStatus.DRAFT))
    previews = ArticlePreviews(bench.database, bench.clock, bench.engine.templates)
    seen = await previews.preview(DEFAULT_TENANT, KEY, PreviewRecipient((US, OHIO)))
    assert [each.inclusion for each in seen.slices] == [
        Inclusion.FOR_EVERYONE,
        Inclusion.DRAFT,
        Inclusion.IN_SCOPE,
        Inclusion.IN_SCOPE,
        Inclusion.OUT_OF_SCOPE,
        Inclusion.OUT_OF_SCOPE,
    ]
    assert seen.slices[-1].reason == f"{UPPER_ARLINGTON} is not among the recipient's divisions."


@pytest.mark.parametrize(
    ("given", "recipients"),
    [
        ({}, [3, 2]),
        ({"state": "OH"}, [3, 1]),
        ({"plan": "gold"}, [2, 1]),
        ({"ocd_id": OHIO}, [3]),
        ({"plan": "no"}, []),
    ],
)
async def test_coverage_is_independent_of_batch_size_and_division_format(
    bench: Bench, given: dict[str, str], recipients: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    await write_slices(bench, *the_slices())
    people: dict[str, dict[str, Any]] = {
        "a@example.com": {"ocd_ids": [US, OHIO]},
        "B.b@example.com": {"ocd_ids": f"{US}; {OHIO}", "plan": "Gold"},
        "c-c@example.com": {"ocd_ids": [OHIO, US], "plan": "gold"},
        "cc@example.com": {"plan": "gold", "ocd_ids": None},
        "d@example.com": {"state": "oh"},
    }
    for email, attributes in people.items():
        await a_recipient(bench, email, **attributes)
    previews = ArticlePreviews(bench.database, bench.clock, bench.engine.templates)
    whole = await previews.coverage(DEFAULT_TENANT, KEY, given)
    monkeypatch.setattr("mailwright.sources.articles.preview.PAGE_SIZE", 2)
    assert await previews.coverage(DEFAULT_TENANT, KEY, given) == whole
    assert [each.recipients for each in whole.variants] == recipients
    assert whole.recipients == sum(recipients)


async def test_run_matches_the_predicted_coverage(bench: Bench) -> None:
    unread = a_slice(scope_ocd_id="ocd-division/country:fr", section_order=7)
    await write_slices(bench, *the_slices()[1:], unread)
    await two_recipients(bench)
    await a_recipient(bench, "paris@example.com", "ocd-division/country:fr/region:idf")
    previews = ArticlePreviews(bench.database, bench.clock, bench.engine.templates)
    found: ArticleCoverage = await previews.coverage(DEFAULT_TENANT, KEY, {})
    assert (found.recipients, found.skipped, found.list_key) == (2, 1, "general")
    assert [each.recipients for each in found.variants] == [1, 1]
    assert [each.scope_ocd_id for each in found.unread] == ["ocd-division/country:fr"]
    run = await begin(bench)
    await enqueue_all(bench)
    shares = {share.slice_ids: share.recipients for share in await runs_of(bench).list_variants(run)}
    assert shares == {tuple(one.slice_id for one in each.slices): each.recipients for each in found.variants}
    ended = await runs_of(bench).find(DEFAULT_TENANT, run.run_id)
    assert (ended.recipients, ended.skipped) == (2, 1)
