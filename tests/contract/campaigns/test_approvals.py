"""A tenant can require that a second person approves campaigns. Nothing over the limit is sent without it."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from sqlalchemy import select

from mailwright.access.roles import Role
from mailwright.access.users import User
from mailwright.app.system_emails import render_branded
from mailwright.content.mime import EmailAttachment
from mailwright.content.template_store import TemplateDraft
from mailwright.domain.approval import ApprovalStatus
from mailwright.domain.campaign import AWAITS_APPROVAL
from mailwright.domain.clock import DAY, HOUR
from mailwright.domain.errors import NotPossibleNow
from mailwright.domain.explanation import Remedy
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import list_entries
from mailwright.sources.campaigns.approval_gate import AwaitsApproval, KeyWithoutOwner
from mailwright.sources.campaigns.approval_notices import ApprovalNotices
from mailwright.sources.campaigns.approvals import CampaignApprovals, PlanReport, SecondPersonRequired
from mailwright.sources.campaigns.definition import CampaignLimits
from mailwright.sources.campaigns.explain import explain_campaign
from mailwright.sources.campaigns.guard_actions import CampaignGuardActions
from mailwright.sources.campaigns.records import Actor
from mailwright.storage.tables import messages
from mailwright.texts.explanations import campaign_text
from tests.builders import DEFAULT_TENANT, Bench
from tests.campaigns import BODY, OPERATOR, CampaignHarness, a_definition, address_of, join

OVER = 5
PASSWORD = "correct horse battery staple"


class Approving(CampaignHarness):
    """Campaigns of a tenant that requires approvals over five recipients, with people who can give them."""

    @property
    def approvals(self) -> CampaignApprovals:
        return self.bench.engine.campaign_approvals

    async def require(self, over: int | None) -> None:
        await tenants.change(self.database, tenants.DEFAULT, actor="admin", clock=self.clock, approval_over=over)

    async def person(self, login: str, email: str | None = None) -> User:
        users = self.bench.engine.users
        await users.create(login, PASSWORD, Role.EDITOR, tenant_id=DEFAULT_TENANT, actor="admin")
        if email is not None:
            await users.change_email(login, email, actor="admin")
        return await users.find(login)

    async def write_template(self, html: str, actor: str | None = None) -> None:
        draft = TemplateDraft(subject="Sale", body=html)
        await self.bench.engine.templates.write(DEFAULT_TENANT, "sale", draft, actor=actor)

    async def a_draft(self, recipients: int = 10, **changes: Any) -> str:
        await join(self.database, [address_of(number) for number in range(recipients)])
        return await self.create(**changes)

    async def request(self, campaign_id: str, actor: Actor = OPERATOR) -> PlanReport:
        return await self.approvals.request(actor, campaign_id)

    async def approve(self, campaign_id: str, user: User) -> None:
        requested = await self.request(campaign_id)
        await self.approvals.approve(user, DEFAULT_TENANT, campaign_id, requested.plan.digest)

    async def state(self, campaign_id: str) -> str | None:
        report = await self.approvals.report(campaign_id, tenant_id=DEFAULT_TENANT)
        return None if report.approval is None else report.approval.status.value

    async def send(self, campaign_id: str) -> int:
        """Start the campaign, run the scheduler, and return the number of messages."""
        await self.campaigns.start(OPERATOR, campaign_id)
        await self.run_scheduler()
        return len(await self.addresses(campaign_id))

    async def explain(self, campaign_id: str) -> Any:
        engine = self.bench.engine
        return await explain_campaign(
            self.database,
            self.clock,
            engine.defaults,
            campaign_id,
            tenant_id=DEFAULT_TENANT,
            store=engine.templates,
            approvals=self.approvals,
        )


@pytest.fixture
async def desk(bench: Bench) -> Approving:
    desk = Approving(bench)
    desk.campaigns = bench.engine.campaigns
    await desk.require(OVER)
    return desk


@pytest.fixture
async def bea(desk: Approving) -> User:
    return await desk.person("bea")


@pytest.mark.promise("second-person")
async def test_campaign_over_the_limit_needs_an_approval(desk: Approving, bea: User) -> None:
    campaign_id = await desk.a_draft()
    with pytest.raises(AwaitsApproval, match=r"10 recipients, and a second person .* more than 5. Request approval"):
        await desk.campaigns.start(OPERATOR, campaign_id)
    await desk.require(0)
    with pytest.raises(AwaitsApproval, match=r"A second person must approve every campaign\. Request approval"):
        await desk.campaigns.start(OPERATOR, campaign_id)
    await desk.request(campaign_id)
    with pytest.raises(AwaitsApproval, match="waits for the approval of a second person, which operator requested"):
        await desk.campaigns.start(OPERATOR, campaign_id)
    await desk.approve(campaign_id, bea)
    assert await desk.send(campaign_id) == 10
    assert (await desk.audit_actions(campaign_id))[-3:] == ["request_approval", "approve", "start"]


async def test_campaign_within_the_limit_starts_as_before(desk: Approving) -> None:
    assert await desk.send(await desk.a_draft(OVER)) == OVER


@pytest.mark.promise("second-person")
async def test_small_campaigns_of_one_person_count_together(desk: Approving, bea: User) -> None:
    first, second, third, fourth = await desk.a_draft(3), *[await desk.create() for _ in range(3)]
    assert await desk.send(first) == 3
    with pytest.raises(AwaitsApproval, match=r"more than 5\. The same person has reached 3 .* Request approval"):
        await desk.campaigns.start(OPERATOR, second)
    await desk.approve(second, bea)
    assert await desk.send(second) == 3, "what was approved does not count"
    await desk.campaigns.start(Actor("bea", DEFAULT_TENANT), third)
    desk.clock.advance(DAY)
    assert await desk.send(fourth) == 3


async def test_rejected_campaign_needs_another_request(desk: Approving, bea: User) -> None:
    campaign_id = await desk.a_draft()
    requested = await desk.request(campaign_id)
    await desk.approvals.reject(bea, DEFAULT_TENANT, campaign_id, requested.plan.digest, "The price is wrong.")
    with pytest.raises(AwaitsApproval, match="bea rejected the campaign: The price is wrong"):
        await desk.campaigns.start(OPERATOR, campaign_id)
    with pytest.raises(NotPossibleNow, match="bea rejected the campaign in this form: The price is wrong"):
        await desk.request(campaign_id)
    await edit(desk, campaign_id, name="Right price")
    await desk.approve(campaign_id, bea)
    assert await desk.send(campaign_id) == 10


async def test_requester_cannot_approve(desk: Approving) -> None:
    campaign_id = await desk.a_draft()
    await desk.person("ada", "ada@example.com")
    same = [await desk.person("ada2", "Ada+second@example.com"), await desk.bench.engine.users.find("ada")]
    report = await desk.request(campaign_id, Actor("ada", DEFAULT_TENANT))
    for user in same:
        with pytest.raises(SecondPersonRequired, match="you requested"):
            await desk.approvals.approve(user, DEFAULT_TENANT, campaign_id, report.plan.digest)


async def test_last_editor_and_owner_of_a_key_cannot_approve(desk: Approving, bea: User) -> None:
    engine, ada = desk.bench.engine, await desk.person("ada")
    await desk.write_template(BODY, actor="bea")
    campaign_id = await desk.a_draft(content={"templateId": "sale"})
    await desk.campaigns.edit(Actor("ada", DEFAULT_TENANT), campaign_id, a_definition(content={"templateId": "sale"}))
    cleo = await desk.person("cleo")
    await engine.keys.create(DEFAULT_TENANT, "robot", owner="cleo")
    report = await desk.request(campaign_id, Actor("api:robot", DEFAULT_TENANT))
    for user, why in ((ada, "changed the campaign"), (bea, "its template"), (cleo, "requested")):
        with pytest.raises(SecondPersonRequired, match=why):
            await desk.approvals.approve(user, DEFAULT_TENANT, campaign_id, report.plan.digest)
    await desk.approvals.approve(await desk.person("dan"), DEFAULT_TENANT, campaign_id, report.plan.digest)


@pytest.mark.promise("second-person")
async def test_key_without_owner_cannot_request(desk: Approving, bea: User) -> None:
    keys, robot = desk.bench.engine.keys, Actor("api:robot", DEFAULT_TENANT)
    campaign_id = await desk.a_draft()
    await keys.create(DEFAULT_TENANT, "robot")
    await keys.create(DEFAULT_TENANT, "robot", owner="bea")  # A key of the same name does not help.
    free = (await keys.list_all(DEFAULT_TENANT))[0]
    with pytest.raises(KeyWithoutOwner, match=rf"robot \(id {free.id}\) has no owner"):
        await desk.request(campaign_id, robot)
    assert await desk.state(campaign_id) is None
    await desk.require(None)
    report = await desk.request(campaign_id, robot)  # Without the rule, the key could start it as well.
    await desk.require(OVER)
    dan = await desk.person("dan")
    with pytest.raises(SecondPersonRequired, match="has no owner"):
        await desk.approvals.approve(dan, DEFAULT_TENANT, campaign_id, report.plan.digest)
    await keys.set_owner(DEFAULT_TENANT, free.id, "BEA", actor="console")
    with pytest.raises(SecondPersonRequired, match="you requested"):
        await desk.approvals.approve(bea, DEFAULT_TENANT, campaign_id, report.plan.digest)
    await desk.approvals.approve(dan, DEFAULT_TENANT, campaign_id, report.plan.digest)


async def test_small_sends_of_keys_without_owner_count_together(desk: Approving) -> None:
    first, second = await desk.a_draft(3), await desk.create()
    for name in ("shop", "crm"):
        await desk.bench.engine.keys.create(DEFAULT_TENANT, name)
    await desk.campaigns.start(Actor("api:shop", DEFAULT_TENANT), first)
    with pytest.raises(AwaitsApproval, match="has reached 3"):
        await desk.campaigns.start(Actor("api:crm", DEFAULT_TENANT), second)


Change = Callable[[Approving, str], Awaitable[Any]]


async def edit(desk: Approving, campaign_id: str, **changes: Any) -> None:
    await desk.campaigns.edit(OPERATOR, campaign_id, a_definition(**changes))


async def attach(desk: Approving, campaign_id: str) -> None:
    await desk.campaigns.attach(OPERATOR, campaign_id, [EmailAttachment("a.txt", "text/plain", b"x")])


async def set_limits(desk: Approving, campaign_id: str) -> None:
    await desk.campaigns.edit_limits(OPERATOR, campaign_id, CampaignLimits(daily_limit=100))


async def reschedule(desk: Approving, campaign_id: str) -> None:
    await desk.campaigns.reschedule(OPERATOR, campaign_id, desk.clock.now() + HOUR)


async def grow(desk: Approving, _: str) -> None:
    await join(desk.database, ["new@example.com"])


CHANGES: dict[str, tuple[Change, str]] = {
    "content": (lambda desk, id_: edit(desk, id_, content={"subject": "Other", "body": BODY}), "subject of content"),
    "sender": (lambda desk, id_: edit(desk, id_, **{"from": "other@example.com"}), "from"),
    "attachment": (attach, "attachments"),
    "limits": (set_limits, "limits.dailyLimit"),
    "send time": (reschedule, "scheduledAt"),
    "audience": (grow, "recipients"),
}


@pytest.mark.promise("second-person")
@pytest.mark.parametrize("change", CHANGES)
async def test_change_makes_an_approval_void(desk: Approving, bea: User, change: str) -> None:
    campaign_id = await desk.a_draft()
    await desk.approve(campaign_id, bea)
    make, field = CHANGES[change]
    await make(desk, campaign_id)
    with pytest.raises(AwaitsApproval, match="approval of bea is void, because something was changed"):
        await desk.campaigns.start(OPERATOR, campaign_id)
    assert await desk.state(campaign_id) == ApprovalStatus.VOID
    report = await desk.approvals.report(campaign_id, tenant_id=DEFAULT_TENANT)
    assert field in [each.field for each in report.changes]
    why = await desk.explain(campaign_id)
    assert (why.state, why.reason, why.remedy) == ("draft", AWAITS_APPROVAL, Remedy.REQUEST_APPROVAL)
    assert field in campaign_text(why).sentence


async def test_template_of_a_draft_is_covered(desk: Approving, bea: User) -> None:
    await desk.write_template(BODY)
    campaign_id = await desk.a_draft(content={"templateId": "sale"})
    await desk.approve(campaign_id, bea)
    await desk.write_template(BODY.replace("Hello", "Goodbye"))
    with pytest.raises(AwaitsApproval, match="changed: content"):
        await desk.campaigns.start(OPERATOR, campaign_id)
    [change] = (await desk.approvals.report(campaign_id, tenant_id=DEFAULT_TENANT)).changes
    assert "-Hello {{ name }}" in (change.diff or "")
    assert "+Goodbye {{ name }}" in (change.diff or "")


async def test_small_growth_keeps_the_approval(desk: Approving, bea: User) -> None:
    campaign_id = await desk.a_draft(20)
    await desk.approve(campaign_id, bea)
    await join(desk.database, ["new@example.com"])  # 5 percent
    assert await desk.send(campaign_id) == 21


async def test_changed_request_cannot_be_approved(desk: Approving, bea: User) -> None:
    campaign_id = await desk.a_draft()
    first = await desk.request(campaign_id)
    await edit(desk, campaign_id, name="Renamed")
    with pytest.raises(NotPossibleNow, match="does not wait"):
        await desk.approvals.approve(bea, DEFAULT_TENANT, campaign_id, first.plan.digest)
    await desk.request(campaign_id)
    with pytest.raises(NotPossibleNow, match="Another plan was requested"):
        await desk.approvals.approve(bea, DEFAULT_TENANT, campaign_id, first.plan.digest)


@pytest.mark.promise("second-person")
async def test_scheduled_campaign_that_grew_waits(desk: Approving, bea: User) -> None:
    campaign_id = await desk.a_draft(scheduledAt=desk.clock.now() + HOUR)
    await desk.approve(campaign_id, bea)
    await desk.campaigns.start(OPERATOR, campaign_id)
    await join(desk.database, ["new@example.com"])
    desk.clock.advance(HOUR)
    await desk.run_scheduler()
    assert await desk.addresses(campaign_id) == []
    assert (await desk.deferral(campaign_id))[0] == AWAITS_APPROVAL
    why = await desk.explain(campaign_id)
    assert (why.state, why.reason) == ("held", AWAITS_APPROVAL)
    assert "10 approved, now 11" in campaign_text(why).sentence
    await desk.approve(campaign_id, bea)
    await desk.run_scheduler()
    assert len(await desk.addresses(campaign_id)) == 11


@pytest.mark.promise("second-person")
async def test_changed_rule_does_not_release_waiting_campaigns(desk: Approving) -> None:
    waiting = await desk.a_draft()
    await desk.request(waiting)
    held = await desk.create(scheduledAt=desk.clock.now() + HOUR, lists=["small"])
    await join(desk.database, ["a@example.com"], "small")
    await desk.campaigns.start(OPERATOR, held)
    await join(desk.database, [f"b{each}@example.com" for each in range(OVER)], "small")
    desk.clock.advance(HOUR)
    await desk.run_scheduler()
    await desk.require(None)
    await desk.run_scheduler()
    assert await desk.addresses(held) == []
    with pytest.raises(AwaitsApproval):
        await desk.campaigns.start(OPERATOR, waiting)
    await desk.approvals.withdraw(OPERATOR, waiting)
    assert await desk.send(waiting) == 10
    await desk.campaigns.reschedule(OPERATOR, held, None)
    await desk.run_scheduler()
    assert len(await desk.addresses(held)) == OVER + 1


@pytest.mark.promise("second-person")
async def test_only_administrators_lift_a_rejection_with_a_reason(desk: Approving, bea: User) -> None:
    campaign_id = await desk.a_draft()
    report = await desk.request(campaign_id)
    await desk.approvals.reject(bea, DEFAULT_TENANT, campaign_id, report.plan.digest, "Wrong list")
    await desk.require(None)
    for changes in ({}, {"name": "Renamed"}):  # A later request, of something else, does not help.
        if changes:
            await edit(desk, campaign_id, **changes)
            await desk.request(campaign_id)
        for way in ({}, {"reason": "Please"}, {"may_lift": True, "reason": " "}):
            with pytest.raises(NotPossibleNow, match="bea rejected this campaign"):
                await desk.approvals.withdraw(OPERATOR, campaign_id, **way)
        with pytest.raises(AwaitsApproval):
            await desk.campaigns.start(OPERATOR, campaign_id)
    await desk.approvals.withdraw(OPERATOR, campaign_id, reason="Bea agrees now.", may_lift=True)
    entry = (await list_entries(desk.database, tenant_id=DEFAULT_TENANT, limit=1, subject=campaign_id))[0]
    assert (entry.detail["rejectedBy"], entry.detail["reason"]) == ("bea", "Bea agrees now.")
    assert await desk.send(campaign_id) == 10


async def test_new_recipients_need_an_approval(desk: Approving, bea: User) -> None:
    campaign_id = await desk.start(OVER)
    await desk.run_scheduler()
    await join(desk.database, ["new@example.com"])
    with pytest.raises(AwaitsApproval):
        await desk.campaigns.extend(OPERATOR, campaign_id)
    await desk.approve(campaign_id, bea)
    await desk.campaigns.extend(OPERATOR, campaign_id)
    await desk.run_scheduler()
    assert len(await desk.addresses(campaign_id)) == OVER + 1


async def test_next_wave_and_winner_need_the_approval_too(desk: Approving, bea: User) -> None:
    guard = CampaignGuardActions(desk.database, desk.clock, desk.campaigns.rails)
    waves = await desk.a_draft(10, waves={"percents": [20], "waitMinutes": 60})
    variants = [{"name": "A"}, {"name": "B", "subject": "Other"}]
    test = await desk.create(experiment={"variants": variants, "testPercent": 20, "winnerBy": "manual"})
    for campaign_id in (waves, test):
        await desk.approve(campaign_id, bea)
        await desk.campaigns.start(OPERATOR, campaign_id)
    await desk.run_scheduler()
    await join(desk.database, ["new1@example.com", "new2@example.com"])
    assert [len(await desk.addresses(each)) for each in (waves, test)] == [2, 2]
    await guard.open_next_wave(OPERATOR, waves)
    await desk.campaigns.choose_winner(OPERATOR, test, "A")
    await desk.run_scheduler()
    for campaign_id in (waves, test):
        assert (await desk.deferral(campaign_id))[0] == AWAITS_APPROVAL
        assert len(await desk.addresses(campaign_id)) == 2
        await desk.approve(campaign_id, bea)
    await desk.run_scheduler()
    assert [len(await desk.addresses(each)) for each in (waves, test)] == [12, 12]


async def test_changes_of_the_rule_are_logged(desk: Approving) -> None:
    [entry] = await list_entries(desk.database, tenant_id=DEFAULT_TENANT, limit=1)
    assert (entry.actor, entry.action, entry.detail) == ("admin", "tenant.change", {"approval_over": OVER})


async def test_each_change_is_announced_once_by_email(desk: Approving) -> None:
    ada, bea = await desk.person("ada", "ada@example.com"), await desk.person("bea", "bea@example.com")
    notices = ApprovalNotices(desk.database, desk.clock, public_url="https://mail.example", render=render_branded)

    async def sent() -> list[tuple[str, str]]:
        await notices.send()
        async with desk.database.read() as tx:
            rows = await tx.execute(select(messages.c.to_email, messages.c.subject).order_by(messages.c.id))
        return [(row.to_email, row.subject) for row in rows]

    campaign_id = await desk.a_draft()
    report = await desk.request(campaign_id, Actor(ada.login, DEFAULT_TENANT))
    expected = [(bea.email, "Approve a campaign: News of January")]
    assert [await sent(), await sent()] == [expected, expected]
    await desk.approvals.approve(bea, DEFAULT_TENANT, campaign_id, report.plan.digest)
    expected.append((ada.email, "Approved: News of January"))
    assert await sent() == expected
    await edit(desk, campaign_id, content={"subject": "Other", "body": BODY})
    assert await sent() == [*expected, (ada.email, "No longer approved: News of January")]
