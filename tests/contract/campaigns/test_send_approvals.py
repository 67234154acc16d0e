"""Articles, mailouts and sequences that reach many people need the approval of a second person, like campaigns."""

import pytest
from sqlalchemy import select

from mailwright.access.roles import Role
from mailwright.access.users import User
from mailwright.app.system_emails import render_branded
from mailwright.app.wiring import Engine
from mailwright.audience import segments
from mailwright.domain.clock import HOUR, ManualClock
from mailwright.domain.errors import NotFound, NotPossibleNow
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import list_entries
from mailwright.sources.articles.enqueue import ArticleScheduler
from mailwright.sources.campaigns.approval_gate import AwaitsApproval, KeyWithoutOwner
from mailwright.sources.campaigns.approval_notices import ApprovalNotices
from mailwright.sources.campaigns.approvals import SecondPersonRequired
from mailwright.sources.send_approvals import SendApproval
from mailwright.sources.sequences.segment_edits import edit_segment
from mailwright.storage.tables import campaign_runs, messages
from tests.articles import KEY, US, a_recipient, a_slice, begin, the_slices, two_recipients, write_slices
from tests.builders import DEFAULT_TENANT, Bench, a_tenant
from tests.campaigns import join
from tests.conftest import DatabaseAddress
from tests.mailouts import a_mailout_bench
from tests.sequences import WELCOME, SequenceBench, a_document, an_email, lists

PASSWORD = "correct horse battery staple"
EMAILS = ("ada@example.com", "bob@example.com", "cleo@example.com")
PRO, FREE = ({"attribute": "plan", "is": plan} for plan in ("pro", "free"))
NOT_PRO = {"attribute": "plan", "isNot": "pro"}


async def require(engine: Engine, over: int | None) -> None:
    await tenants.change(engine.database, tenants.DEFAULT, actor="admin", clock=engine.clock, approval_over=over)


async def a_person(engine: Engine, login: str) -> User:
    return await engine.users.create(login, PASSWORD, Role.EDITOR, tenant_id=DEFAULT_TENANT, actor="admin")


async def decide(engine: Engine, user: User, *, approves: bool = True, comment: str = "") -> SendApproval:
    """Decide about the only send that waits."""
    [waiting] = await engine.send_approvals.list_waiting(DEFAULT_TENANT)
    return await engine.send_approvals.decide(
        user, DEFAULT_TENANT, waiting.id, waiting.digest, approves=approves, comment=comment
    )


async def sent_to(engine: Engine) -> list[str]:
    async with engine.database.read() as tx:
        rows = await tx.execute(select(messages.c.to_email).order_by(messages.c.to_email))
    return [row.to_email for row in rows]


async def enqueue_article(bench: Bench) -> None:
    scheduler = ArticleScheduler(bench.database, bench.clock, bench.engine.templates)
    while await scheduler.tick():
        pass


@pytest.mark.promise("second-person")
async def test_article_to_many_needs_a_second_person(bench: Bench) -> None:
    engine = bench.engine
    await write_slices(bench, *the_slices())
    await two_recipients(bench)
    await require(engine, 1)
    bea = await a_person(engine, "bea")
    for _ in range(2):  # A repeated attempt does not request it twice.
        with pytest.raises(AwaitsApproval):
            await begin(bench)
    [waiting] = await engine.send_approvals.list_waiting(DEFAULT_TENANT)
    assert (waiting.recipients, waiting.kind) == (2, "article")
    await require(engine, None)  # A changed rule releases nothing.
    with pytest.raises(AwaitsApproval):
        await begin(bench)
    await require(engine, 1)
    await decide(engine, bea)
    assert (await begin(bench)).max_recipients == 2
    await enqueue_article(bench)
    assert len(await sent_to(engine)) == 2


async def test_changed_article_needs_another_approval(bench: Bench) -> None:
    engine = bench.engine
    await write_slices(bench, *the_slices())
    await two_recipients(bench)
    await require(engine, 1)
    bea = await a_person(engine, "bea")
    with pytest.raises(AwaitsApproval):
        await begin(bench)
    await decide(engine, bea, approves=False, comment="Not today")
    with pytest.raises(AwaitsApproval, match="bea rejected this article: Not today"):
        await begin(bench)
    await write_slices(bench, a_slice(body_md="Other words."))
    await require(engine, None)  # After a rejection, the rule does not matter.
    with pytest.raises(AwaitsApproval, match=r"bea rejected it before, .* The approval is requested now"):
        await begin(bench)
    await decide(engine, bea)
    assert (await begin(bench)).article_key == KEY


@pytest.mark.promise("second-person")
async def test_only_an_administrator_lifts_a_rejected_send(bench: Bench) -> None:
    approvals, engine = bench.engine.send_approvals, bench.engine
    await write_slices(bench, *the_slices())
    await two_recipients(bench)
    await require(engine, 1)
    bea = await a_person(engine, "bea")
    with pytest.raises(AwaitsApproval):
        await begin(bench)
    [first] = await approvals.list_waiting(DEFAULT_TENANT)
    assert (await approvals.withdraw("ada", DEFAULT_TENANT, first.id)).status == "withdrawn"
    with pytest.raises(AwaitsApproval, match="requested now"):  # The rule still applies.
        await begin(bench)
    rejected = await decide(engine, bea, approves=False, comment="Not today")
    await require(engine, None)
    for reason, may_lift in (("", True), ("Please", False)):
        with pytest.raises(NotPossibleNow, match="bea rejected this article"):
            await approvals.withdraw("ada", DEFAULT_TENANT, rejected.id, reason=reason, may_lift=may_lift)
    other = await a_tenant(engine.database, "acme")
    with pytest.raises(NotFound):
        await approvals.withdraw("ada", other, rejected.id, reason="Ours", may_lift=True)
    assert await approvals.list_rejected(DEFAULT_TENANT) == [rejected]
    await approvals.withdraw("ada", DEFAULT_TENANT, rejected.id, reason="It is fine", may_lift=True)
    assert await approvals.list_rejected(DEFAULT_TENANT) == []
    with pytest.raises(NotPossibleNow, match="nothing to withdraw"):
        await approvals.withdraw("ada", DEFAULT_TENANT, rejected.id, reason="Again", may_lift=True)
    assert (await begin(bench)).article_key == KEY
    entries = await list_entries(engine.database, tenant_id=DEFAULT_TENANT, limit=99, subject=rejected.subject)
    lifted = next(each for each in entries if each.action == "approval.withdraw")
    assert (lifted.detail["rejectedBy"], lifted.detail["reason"]) == ("bea", "It is fine")


async def test_article_ends_when_its_audience_outgrows_the_approval(bench: Bench) -> None:
    engine = bench.engine
    await write_slices(bench, *the_slices())
    await two_recipients(bench)
    await require(engine, 2)
    run = await begin(bench)
    for number in range(3):
        await a_recipient(bench, f"new{number}@example.com", US)
    await enqueue_article(bench)
    async with engine.database.read() as tx:
        [row] = await tx.execute(select(campaign_runs.c.failure).where(campaign_runs.c.id == run.id))
    assert "grown beyond the 2 recipients" in row.failure
    assert await sent_to(engine) == []


@pytest.mark.promise("second-person")
async def test_sequence_for_many_is_published_by_two_people(bench: Bench) -> None:
    sequences, engine = SequenceBench(bench), bench.engine
    await sequences.people(*EMAILS)
    await require(engine, 2)
    bea = await a_person(engine, "bea")
    with pytest.raises(AwaitsApproval, match="can reach 3 people"):
        await sequences.start(an_email(), an_email("second"))
    [made] = await engine.sequences.list_all(DEFAULT_TENANT)
    approved = await decide(engine, bea)
    assert approved.content["subjects"] == {WELCOME: ["Welcome"]}
    await engine.sequences.edit(DEFAULT_TENANT, made.sequence_id, a_document(an_email()), revision=None, actor="ada")
    with pytest.raises(AwaitsApproval):  # The approval covers the draft that was shown.
        await engine.sequences.publish(DEFAULT_TENANT, made.sequence_id, actor="ada")
    await decide(engine, bea)
    await engine.sequences.publish(DEFAULT_TENANT, made.sequence_id, actor="ada")
    with pytest.raises(AwaitsApproval):
        await sequences.enrol(made.sequence_id, *EMAILS)
    assert (await sequences.enrol(made.sequence_id, EMAILS[0])).enrolled == 1
    with pytest.raises(AwaitsApproval, match="has reached 1 without an approval"):
        await sequences.enrol(made.sequence_id, *EMAILS[1:])
    await engine.templates.put(DEFAULT_TENANT, WELCOME, subject="Buy now", html="<p>Other</p>", text=None)
    await sequences.run()
    assert await sent_to(engine) == []  # A changed template is not what was approved.
    with pytest.raises(AwaitsApproval):
        await sequences.enrol(made.sequence_id, *EMAILS)
    await decide(engine, bea)
    assert (await sequences.enrol(made.sequence_id, *EMAILS)).enrolled == 2
    with pytest.raises(AwaitsApproval):  # An approval of an enrolment works once.
        await sequences.enrol(made.sequence_id, *EMAILS)
    with pytest.raises(AwaitsApproval):
        await engine.sequences.publish(DEFAULT_TENANT, made.sequence_id, actor="ada")


@pytest.mark.promise("second-person")
async def test_segment_edit_that_enrols_many_needs_approval(bench: Bench) -> None:
    sequences, engine = SequenceBench(bench), bench.engine
    await sequences.people(*EMAILS, attributes='{"plan": "free"}')
    await segments.create(engine.database, engine.clock, DEFAULT_TENANT, "pros", filter_=PRO)
    key = await sequences.start(trigger={"entersSegment": "pros"})
    await require(engine, 2)
    bea = await a_person(engine, "bea")

    async def edit(filter_: dict[str, str]) -> int:
        where = (engine.database, engine.clock, DEFAULT_TENANT, "pros")
        _, started = await edit_segment(*where, filter_=filter_, enrols=True, actor="ada")
        return sum(each.people for each in started)

    for _ in range(2):  # A repeated attempt does not request it twice.
        with pytest.raises(AwaitsApproval):
            await edit(FREE)
    [waiting] = await engine.send_approvals.list_waiting(DEFAULT_TENANT)
    assert (waiting.recipients, waiting.kind) == (3, "enrolment")
    assert (await segments.find(engine.database, DEFAULT_TENANT, "pros")).filter == PRO
    await decide(engine, bea)
    with pytest.raises(AwaitsApproval):  # The approval is for the filter that was requested.
        await edit(NOT_PRO)
    assert await sequences.enrolments(key) == []
    await decide(engine, bea)
    assert await edit(NOT_PRO) == 3
    assert len(await sequences.enrolments(key)) == 3
    with pytest.raises(AwaitsApproval):  # It works once.
        await sequences.enrol(key, *EMAILS)


@pytest.mark.promise("second-person")
async def test_sequence_of_an_empty_list_needs_a_second_person(bench: Bench) -> None:
    sequences, engine = SequenceBench(bench), bench.engine
    await lists(sequences, "news")
    await require(engine, 1_000)
    bea = await a_person(engine, "bea")
    with pytest.raises(AwaitsApproval, match="others who enter later"):
        await sequences.start(trigger={"joinsList": "news"}, list="news")
    [made] = await engine.sequences.list_all(DEFAULT_TENANT)
    await decide(engine, bea)
    await join(engine.database, EMAILS[:1], list_key="news")  # The approval covers everyone who enters.
    await engine.sequences.publish(DEFAULT_TENANT, made.sequence_id, actor="ada")


async def test_requester_and_other_tenants_cannot_decide(bench: Bench, clock: ManualClock) -> None:
    sequences, engine = SequenceBench(bench), bench.engine
    await sequences.people(*EMAILS)
    await require(engine, 0)
    ada, bea = await a_person(engine, "ada"), await a_person(engine, "bea")
    await engine.templates.put(DEFAULT_TENANT, WELCOME, subject="Welcome", html="<p>Hello</p>", text=None)
    made = await engine.sequences.create(DEFAULT_TENANT, a_document(), actor="ada")
    with pytest.raises(AwaitsApproval):
        await engine.sequences.publish(DEFAULT_TENANT, made.sequence_id, actor="ada")
    [waiting] = await engine.send_approvals.list_waiting(DEFAULT_TENANT)
    with pytest.raises(SecondPersonRequired):
        await decide(engine, ada)
    await engine.keys.create(DEFAULT_TENANT, "robot")
    second = await engine.sequences.create(DEFAULT_TENANT, a_document(name="Second"), actor="ada")
    with pytest.raises(KeyWithoutOwner):
        await engine.sequences.publish(DEFAULT_TENANT, second.sequence_id, actor="api:robot")
    assert await engine.send_approvals.list_waiting(DEFAULT_TENANT) == [waiting]
    other = await a_tenant(engine.database, "acme")
    assert await engine.send_approvals.list_waiting(other) == []
    with pytest.raises(NotFound):
        await engine.send_approvals.decide(bea, other, waiting.id, waiting.digest, approves=True)
    with pytest.raises(NotPossibleNow):
        await engine.send_approvals.decide(bea, DEFAULT_TENANT, waiting.id, "0" * 24, approves=True)
    await engine.users.change_email("bea", "bea@example.com", actor="admin")
    notices = ApprovalNotices(engine.database, clock, public_url="https://mail.example", render=render_branded)
    for _ in range(2):
        await notices.send()
    assert await sent_to(engine) == ["bea@example.com"]


@pytest.mark.promise("second-person")
async def test_mailout_to_many_waits_for_a_second_person(engine: DatabaseAddress) -> None:
    async with a_mailout_bench(engine.url) as bench:
        installation = bench.bench.engine
        await require(installation, 1)
        bea = await a_person(installation, "bea")
        bench.subscribe(*EMAILS)
        run = await bench.send(bench.page())
        await bench.work()
        waiting = await bench.find(run)
        assert waiting.delay is not None
        assert waiting.delay.code == "AWAITS_APPROVAL"
        approval = await decide(installation, bea)
        assert (approval.kind, approval.recipients) == ("mailout", 3)
        assert "text" in approval.content
        bench.clock.advance(HOUR)
        await bench.finish(await bench.find(run))
        assert bench.reached == sorted(EMAILS)
        page = bench.page()
        other = await bench.send(page)
        await bench.work()
        await decide(installation, bea, approves=False, comment="Wrong week")
        bench.clock.advance(HOUR)
        await bench.work()
        await require(installation, None)
        refused = [await bench.find(other), await bench.finish(await bench.send(page))]
        assert [(each.status, each.error_code) for each in refused] == [("refused", "approval_rejected")] * 2
        [rejected] = await installation.send_approvals.list_rejected(DEFAULT_TENANT)
        await installation.send_approvals.withdraw("ada", DEFAULT_TENANT, rejected.id, reason="Fine", may_lift=True)
        assert (await bench.finish(await bench.send(page))).error_code is None
