"""Publishing checks the emails and the feed of a sequence first."""

from unittest.mock import AsyncMock

import pytest

from mailwright.app import feeds
from mailwright.audience.lists import create as create_list
from mailwright.content.blocks.feed import FeedUnreachable
from mailwright.domain.clock import DAY
from mailwright.domain.errors import InvalidInput
from mailwright.sources.sequences.definition import InvalidSequence
from mailwright.sources.sequences.overdue import OverdueUndecided
from mailwright.sources.sequences.records import SequenceStatus
from tests.builders import DEFAULT_TENANT, change_tenant
from tests.sequences import ACTOR, SequenceBench, a_document, a_wait, an_email, lists

FEED = {"rss": "https://blog.example/feed.xml", "list": "news"}


async def write(at: SequenceBench, html: str) -> None:
    await at.engine.templates.put(DEFAULT_TENANT, "offer", subject="Offer", html=html, text=None)


async def draft(at: SequenceBench, **changes: object) -> str:
    document = a_document({"id": "offer", "send": {"template": "offer"}}, **changes)
    return (await at.engine.sequences.create(DEFAULT_TENANT, document, actor=ACTOR)).sequence_id


async def test_email_with_an_error_is_not_published(sequences: SequenceBench) -> None:
    await write(sequences, '<p><a href="/offer">Offer</a></p>')
    key = await draft(sequences)
    with pytest.raises(InvalidSequence) as refused:
        await sequences.engine.sequences.publish(DEFAULT_TENANT, key, actor=ACTOR)
    [problem] = refused.value.errors
    assert (problem.field, problem.code) == ("steps[0].send.template", "RELATIVE_LINK")
    assert problem.message.startswith("template offer: ")
    assert (await sequences.engine.sequences.find(DEFAULT_TENANT, key)).status is SequenceStatus.DRAFT


async def test_broken_subject_of_a_step_is_not_published(sequences: SequenceBench) -> None:
    with pytest.raises(InvalidSequence) as refused:
        await sequences.start(an_email(subject="Hello {{ name"))
    assert [problem.field for problem in refused.value.errors] == ["steps[0].send.subject"]


@pytest.mark.parametrize(
    ("field", "text"), [("text", "Hello {{ name"), ("subject", "{% include 'a' %}"), ("text", "{{ unsubscribe_url }}")]
)
async def test_broken_notification_is_neither_published_nor_rehearsed(
    sequences: SequenceBench, field: str, text: str
) -> None:
    body = {"to": "team@example.com", "subject": "Look", "text": "{{ city }}", field: text}
    document = a_document({"id": "tell", "notify": body})
    key = (await sequences.engine.sequences.create(DEFAULT_TENANT, document, actor=ACTOR)).sequence_id
    for refuse in (
        lambda: sequences.engine.sequences.publish(DEFAULT_TENANT, key, actor=ACTOR),
        lambda: sequences.engine.sequences.rehearsals.rehearse(DEFAULT_TENANT, key),
    ):
        with pytest.raises(InvalidSequence) as refused:
            await refuse()
        [problem] = refused.value.errors
        assert (problem.field, problem.code) == (f"steps[0].notify.{field}", "INVALID_TEMPLATE")


async def test_publishing_shows_the_warnings_of_its_emails(sequences: SequenceBench) -> None:
    await write(sequences, "<p>Hello {{ city }}, {{ plan }}</p>")
    await sequences.people("ann@example.com", attributes='{"city": "Lisbon"}')
    notify = {"to": "team@example.com", "subject": "{{ city }}", "text": "{{ shop }} {{ event.total }}"}
    steps = [{"id": "offer", "send": {"template": "offer"}}, {"id": "tell", "notify": notify}]
    key = await draft(sequences, steps=steps)
    _, plan = await sequences.engine.sequences.publish(DEFAULT_TENANT, key, actor=ACTOR)
    assert {"UNKNOWN_VARIABLE", "NO_UNSUBSCRIBE_LINK"} <= {each.code for each in plan.warnings}
    [unknown, team] = [each for each in plan.warnings if each.code == "UNKNOWN_VARIABLE"]
    assert (unknown.step, unknown.template) == ("offer", "offer")
    assert (team.step, team.template) == ("tell", None)
    assert ("{{ plan }}" in unknown.sentence, "{{ shop }}" in team.sentence) == (True, True)


@pytest.mark.parametrize(
    "answer", [[], FeedUnreachable("The server does not respond."), InvalidInput("This is no feed.")]
)
async def test_feed_is_read_before_its_sequence_is_published(
    sequences: SequenceBench, monkeypatch: pytest.MonkeyPatch, answer: object
) -> None:
    await lists(sequences, "news")
    await write(sequences, "<p>{{ item.title }}</p>")
    fetch = AsyncMock(side_effect=[answer])
    monkeypatch.setattr(feeds, "fetch_feed", fetch)
    key = await draft(sequences, trigger=FEED, list="news", reentry="each")
    if isinstance(answer, InvalidInput) and not isinstance(answer, FeedUnreachable):
        with pytest.raises(InvalidSequence, match="no feed"):
            await sequences.engine.sequences.publish(DEFAULT_TENANT, key, actor=ACTOR)
        return
    _, plan = await sequences.engine.sequences.publish(DEFAULT_TENANT, key, actor=ACTOR)
    found = [each.sentence for each in plan.warnings if each.code == "FEED_UNREACHABLE"]
    assert found == ([] if answer == [] else [str(answer)])
    fetch.assert_awaited_once_with(FEED["rss"])


async def test_paused_sequence_asks_about_the_overdue_only_once(sequences: SequenceBench) -> None:
    key = await sequences.start(a_wait(days=9), an_email())
    await sequences.people("ann@example.com")
    await sequences.enrol(key, "ann@example.com")
    await sequences.run()
    sequences.clock.advance(2 * DAY)
    await sequences.engine.sequences.pause(DEFAULT_TENANT, key, actor=ACTOR)
    plan = await sequences.publish(key, a_wait(days=1), an_email())
    assert plan.overdue == 1
    with pytest.raises(OverdueUndecided):
        await sequences.engine.sequences.resume(DEFAULT_TENANT, key, actor=ACTOR)


async def test_failed_person_continues_after_their_step_is_removed(sequences: SequenceBench) -> None:
    await sequences.people("ann@example.com")
    key = await sequences.start(an_email("bad", subject="{{ plan }}"), an_email("good"))
    await sequences.enrol(key, "ann@example.com")
    await sequences.run()
    assert (await sequences.enrolment(key)).failure
    plan = await sequences.publish(key, an_email("good"))
    assert plan.moves == 1
    await sequences.run()
    ended = await sequences.enrolment(key)
    assert (ended.failure, ended.end_reason) == (None, "finished")
    assert await sequences.recipients() == ["ann@example.com"]


@pytest.mark.parametrize(
    ("step", "days"),
    [
        ({"waitFor": {"event": "order.placed", "timeout": {"days": 4}}}, 4),
        ({"waitUntil": {"weekdays": ["mon"], "time": "08:00"}}, 3),  # The wait begins on a Friday at 08:00.
    ],
)
async def test_wait_of_another_kind_ends_at_its_own_time(
    sequences: SequenceBench, step: dict[str, object], days: int
) -> None:
    await sequences.people("ann@example.com")
    key = await sequences.start(a_wait("w", days=30), an_email())
    await sequences.enrol(key, "ann@example.com")
    await sequences.run()
    start = sequences.clock.now()
    sequences.clock.advance(DAY)
    await sequences.publish(key, {"id": "w", **step}, an_email())
    assert (await sequences.enrolment(key)).due_at == start + days * DAY


async def test_document_nested_too_deep_is_refused(sequences: SequenceBench) -> None:
    nested: object = 1
    for _ in range(300):
        nested = [nested]
    with pytest.raises(InvalidSequence, match="nested deeper than 100 levels"):
        await sequences.start(an_email(variables={"a": nested}))
    with pytest.raises(InvalidSequence, match="must have at most 100 characters"):
        await sequences.start(an_email(), trigger={"event": "a" * 101})


async def test_steps_that_cannot_work_are_named(sequences: SequenceBench) -> None:
    await create_list(sequences.database, sequences.clock, DEFAULT_TENANT, "strict", requires_confirmation=True)
    await change_tenant(sequences.database, frequency_cap="2 per 7 days")
    subscribe = {"id": "join", "change": {"subscribe": ["strict"]}}
    # The cap holds the third email for five days, and the fourth one for two.
    first = [an_email("one"), a_wait("w1"), an_email("two"), a_wait("w2"), an_email("three"), a_wait(days=4)]
    steps = [*first, an_email("four"), subscribe, {"id": "stop", "end": True}, an_email("never")]
    await sequences.engine.templates.put(DEFAULT_TENANT, "welcome", subject="Hi", html="<p>Hello</p>", text=None)
    created = await sequences.engine.sequences.create(DEFAULT_TENANT, a_document(*steps), actor=ACTOR)
    plan = await sequences.engine.sequences.preview_publish(DEFAULT_TENANT, created.sequence_id)
    assert [(each.step, each.code) for each in plan.warnings if each.template is None] == [
        ("three", "FREQUENCY_CAP"),
        ("join", "CONFIRMATION_REQUIRED"),
        ("never", "UNREACHABLE_STEP"),
    ]
