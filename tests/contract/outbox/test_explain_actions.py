"""Actions of explanations over the API, on both engines: every action of every state is accepted."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from sqlalchemy import select, update

from mailwright.access.roles import Scope
from mailwright.actions.suggestions import SUGGESTIONS
from mailwright.audience import contacts, suppressions
from mailwright.domain.actions import ActionKind
from mailwright.domain.campaign import AWAITING_WINNER, CANCELLED, GUARD_RAILS, NEXT_WAVE, SCHEDULED
from mailwright.domain.clock import HOUR, MINUTE, SECOND, ManualClock
from mailwright.domain.explanation import ExplanationState
from mailwright.domain.guard_rails import GuardAction, GuardFinding, GuardState, Incident
from mailwright.domain.lanes import lane_number
from mailwright.domain.permits import QUOTA_EXHAUSTED, Deferral, DeferReason
from mailwright.domain.report import ContactVerdict, Report
from mailwright.domain.states import EventType, Priority, Resolution, Status
from mailwright.events.reports import Reports
from mailwright.outbox.defer import defer, defer_lane
from mailwright.outbox.operations import Operations
from mailwright.outbox.workers import WorkerPresence, WorkerRegistry
from mailwright.storage.tables import api_keys, deliveries, lane_deferrals, messages, queue_entries
from mailwright.web.api.caller import scope_of
from tests.api import Api, an_api, client_of
from tests.builders import DEFAULT_TENANT, LOCK_TTL, REFUSAL, THROTTLE, Bench, change_tenant
from tests.campaigns import OPERATOR, CampaignHarness, address_of, join
from tests.contract.outbox.test_explain import MessageUnderTest
from tests.sequences import ACTOR, SequenceBench, an_email
from tests.standins.provider import ScriptedProvider

ADA = "a/d?a#1%2@example.com"  # characters that an address may contain and a path must escape
AB_TEST = {"variants": [{"name": "A"}, {"name": "B", "subject": "Other"}], "test_percent": 20}


class ExplainedApi:
    """An installation with its API, and the message or campaign that is explained."""

    def __init__(self, bench: Bench, api: Api) -> None:
        self.bench, self.api, self.database, self.clock = bench, api, bench.database, bench.clock
        self.under_test = MessageUnderTest(bench.database, bench.clock)
        self.desk = CampaignHarness(bench)
        self.campaign_id = ""

    async def message(self, client: Any = None) -> Any:
        return await self._explained(f"/v1/email/{self.under_test.outbox_id}/explain", client)

    async def campaign(self, client: Any = None) -> Any:
        return await self._explained(f"/v1/campaigns/{self.campaign_id}/explain", client)

    async def _explained(self, path: str, client: Any) -> Any:
        answer = await (client or self.api.client).get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def do(self, action: Any, client: Any = None) -> None:
        """Send the request of the action, as a program would."""
        assert set(action) == {"do", "method", "path", "body"}
        told = {} if action["body"] is None else {"json": action["body"]}
        answer = await (client or self.api.client).request(action["method"], action["path"], **told)
        assert 200 <= answer.status_code < 300, (action, answer.text)

    async def worker(self, **changes: Any) -> None:
        await WorkerRegistry(self.database, self.clock, "w").report(WorkerPresence("smtp", **changes))

    async def report(self, verdict: ContactVerdict) -> None:
        report = Report("1", "smtp", EventType.BOUNCED, self.clock.now(), ADA, self.under_test.outbox_id)
        await Reports(self.database, self.clock).receive([replace(report, verdict=verdict)])

    async def suppress(self, list_key: str = "*") -> None:
        await suppressions.add(
            self.database, self.clock, DEFAULT_TENANT, ADA, reason="manual", source="test", list_key=list_key
        )

    async def deferred(self, reason: str) -> None:
        await self.under_test.accept()
        claimed = await self.under_test.claim()
        await defer(self.database, [(claimed, Deferral(self.clock.now() + MINUTE, reason))])

    async def start(self, readers: int = 1, **changes: Any) -> None:
        """Start a campaign. Its first message is the one that is explained."""
        self.campaign_id = await self.desk.start(readers, **changes)
        await self.desk.run_scheduler()
        await self.take_first_message()

    async def take_first_message(self) -> None:
        async with self.database.read() as tx:
            rows = await tx.execute(select(messages.c.outbox_id).order_by(messages.c.id).limit(1))
        self.under_test.outbox_id = rows[0].outbox_id if rows else ""

    async def hold(self, reason: str) -> None:
        lane = lane_number(Priority.TRANSACTIONAL, DEFAULT_TENANT)
        if self.campaign_id:
            lane = (await self.desk.position(self.campaign_id)).lane
        await defer_lane(self.database, lane, reason, self.clock.now() + HOUR)

    async def find_incidents(self, action: GuardAction) -> None:
        """Record that the guard rails of the campaign have passed a threshold."""
        found = GuardState(finding=GuardFinding(Incident.COMPLAINT, action, 9, 100, 0.3), found_at=self.clock.now())
        async with self.database.write() as tx:
            await tx.execute(update(queue_entries).values(guard=found.as_text()))

    async def all_are(self, status: Status) -> None:
        async with self.database.write() as tx:
            told = {"error_code": "CUT", "in_doubt_since": self.clock.now(), "failed_at": self.clock.now()}
            await tx.execute(update(deliveries).values(status=status, locked_by=None, **told))


@pytest.fixture
async def world(bench: Bench, clock: ManualClock) -> AsyncIterator[ExplainedApi]:
    async with an_api(bench.database, clock) as api:
        yield ExplainedApi(bench, api)


@dataclass(frozen=True)
class Case:
    """A situation, its state, and the actions that are offered, with their bodies if they have one."""

    set_up: Callable[[ExplainedApi], Awaitable[None]]
    state: str
    offered: Sequence[Any] = ()

    @property
    def name(self) -> str:
        return self.set_up.__name__


CASES: dict[str, list[Case]] = {"message": [], "campaign": []}
Setup = Callable[[ExplainedApi], Awaitable[None]]


def message_is(state: str, *offered: Any) -> Callable[[Setup], Setup]:
    def keep(set_up: Setup) -> Setup:
        CASES["message"].append(Case(set_up, state, offered))
        return set_up

    return keep


def campaign_is(state: str, *offered: Any) -> Callable[[Setup], Setup]:
    def keep(set_up: Setup) -> Setup:
        CASES["campaign"].append(Case(set_up, state, offered))
        return set_up

    return keep


# Finished messages.


@message_is(ExplanationState.SENT)
async def a_sent_one(world: ExplainedApi) -> None:
    await world.under_test.accept()
    await world.under_test.deliver()


@message_is(ExplanationState.SENT, ActionKind.ACTIVATE)
async def one_that_hard_bounced(world: ExplainedApi) -> None:
    await world.under_test.accept(to=ADA)
    await world.under_test.deliver()
    await world.report(ContactVerdict.HARD_BOUNCE)


@message_is(ExplanationState.SENT)
async def one_that_soft_bounced(world: ExplainedApi) -> None:
    await world.under_test.accept(to=ADA)
    await world.under_test.deliver()
    await world.report(ContactVerdict.SOFT_BOUNCE)


@message_is(ExplanationState.FAILED, ActionKind.RETRY)
async def a_failed_one(world: ExplainedApi) -> None:
    await world.under_test.accept(to=ADA)
    await world.under_test.settle(Status.FAILED, error_code="SMTP_REFUSED")


@message_is(ExplanationState.FAILED)
async def an_invalid_one(world: ExplainedApi) -> None:
    await world.under_test.accept()
    await world.under_test.settle(Status.FAILED, error_code="INVALID_TEMPLATE")


@message_is(ExplanationState.FAILED)
async def a_failed_one_that_expired(world: ExplainedApi) -> None:
    await world.under_test.accept(expires_at=world.clock.now() + MINUTE)
    await world.under_test.settle(Status.FAILED, error_code="SMTP_REFUSED")
    world.clock.advance(MINUTE)


@message_is(ExplanationState.FAILED, ActionKind.LIFT_SUPPRESSION)
async def one_to_a_suppressed_address(world: ExplainedApi) -> None:
    await a_failed_one(world)
    await world.suppress()


@message_is(ExplanationState.FAILED)
async def one_to_an_unsubscribed_recipient(world: ExplainedApi) -> None:
    await world.api.client.post("/v1/lists", json={"listKey": "news"})
    await world.under_test.accept(to=ADA, list_key="news")
    await world.under_test.settle(Status.FAILED, error_code="RECIPIENT_SUPPRESSED")
    await world.suppress("news")


@message_is(ExplanationState.FAILED, ActionKind.RETRY)
async def a_receipt_to_an_unsubscribed_recipient(world: ExplainedApi) -> None:
    await a_failed_one(world)
    await world.suppress("general")


@message_is(ExplanationState.FAILED)
async def a_failed_one_of_a_cancelled_campaign(world: ExplainedApi) -> None:
    await world.start()
    await world.desk.campaigns.cancel(OPERATOR, world.campaign_id)
    await world.all_are(Status.FAILED)


@message_is(ExplanationState.CANCELLED)
async def a_cancelled_one(world: ExplainedApi) -> None:
    await world.under_test.accept()
    await Operations(world.database, world.clock).cancel(world.under_test.outbox_id, tenant_id=None)


@message_is(ExplanationState.CLOSED_UNKNOWN)
async def one_that_was_closed(world: ExplainedApi) -> None:
    await world.under_test.accept()
    await world.under_test.settle(Status.IN_DOUBT)
    await Operations(world.database, world.clock).resolve(world.under_test.outbox_id, Resolution.CLOSE, tenant_id=None)


# Messages that a provider has or may have.


def resolved_as(*words: str) -> list[Any]:
    return [(ActionKind.RESOLVE, {"as": word}) for word in words]


@message_is(ExplanationState.IN_DOUBT, *resolved_as("sent", "resend", "close"))
async def one_in_doubt(world: ExplainedApi) -> None:
    await world.under_test.accept()
    await world.under_test.settle(Status.IN_DOUBT, due_at=world.clock.now() + 10 * MINUTE)


@message_is(ExplanationState.IN_DOUBT, *resolved_as("sent", "close"))
async def one_in_doubt_that_expired(world: ExplainedApi) -> None:
    await world.under_test.accept(expires_at=world.clock.now() + MINUTE)
    await world.under_test.settle(Status.IN_DOUBT, due_at=world.clock.now() + 10 * MINUTE)
    world.clock.advance(MINUTE)


@message_is(ExplanationState.IN_DOUBT, *resolved_as("sent", "close"))
async def one_in_doubt_of_a_cancelled_campaign(world: ExplainedApi) -> None:
    await world.start()
    await world.desk.campaigns.cancel(OPERATOR, world.campaign_id)
    await world.all_are(Status.IN_DOUBT)


@message_is(ExplanationState.SENDING)
async def one_that_is_being_sent(world: ExplainedApi) -> None:
    await world.under_test.accept()
    await world.under_test.attempt()


@message_is(ExplanationState.WORKER_LOST)
async def one_of_a_lost_worker(world: ExplainedApi) -> None:
    await one_that_is_being_sent(world)
    world.clock.advance(LOCK_TTL)


# Waiting messages.


@message_is(ExplanationState.CLAIMED, ActionKind.CANCEL)
async def a_claimed_one(world: ExplainedApi) -> None:
    await world.under_test.accept()
    await world.under_test.claim()


@message_is(ExplanationState.SUSPECT, ActionKind.CANCEL)
async def a_suspect(world: ExplainedApi) -> None:
    await a_claimed_one(world)
    world.clock.advance(LOCK_TTL)
    await world.worker()


@message_is(ExplanationState.SCHEDULED, ActionKind.CANCEL)
async def a_scheduled_one(world: ExplainedApi) -> None:
    await world.under_test.accept(scheduled_at=world.clock.now() + HOUR)


@message_is(ExplanationState.RETRYING, ActionKind.CANCEL)
async def one_with_a_retry(world: ExplainedApi) -> None:
    await world.under_test.accept()
    due_at = world.clock.now() + SECOND
    await world.under_test.settle(Status.RETRY_SCHEDULED, due_at=due_at, error_code="NETWORK_ERROR")


@message_is(ExplanationState.PROVIDER_UNAVAILABLE, ActionKind.CANCEL)
async def one_with_an_unavailable_provider(world: ExplainedApi) -> None:
    await world.deferred(DeferReason.PROVIDER_UNAVAILABLE)


@message_is(ExplanationState.THROTTLED, ActionKind.CANCEL)
async def a_throttled_one(world: ExplainedApi) -> None:
    await world.deferred(DeferReason.PROVIDER_THROTTLED)


@message_is(ExplanationState.PROVIDER_MISSING, ActionKind.CANCEL)
async def one_whose_provider_is_missing(world: ExplainedApi) -> None:
    await world.deferred(DeferReason.PROVIDER_MISSING)


@message_is(ExplanationState.DOMAIN_LIMIT, ActionKind.CANCEL)
async def one_to_a_busy_domain(world: ExplainedApi) -> None:
    await world.deferred(DeferReason.DOMAIN_RATE)


@message_is(ExplanationState.TENANT_BUSY, ActionKind.CANCEL)
async def one_of_a_busy_tenant(world: ExplainedApi) -> None:
    await world.deferred(DeferReason.TENANT_CONCURRENCY)


@message_is(ExplanationState.HELD, ActionKind.CANCEL)
async def one_outside_the_recipients_hours(world: ExplainedApi) -> None:
    await world.deferred(DeferReason.RECIPIENT_HOURS)


@message_is(ExplanationState.IN_LINE, ActionKind.CANCEL)
async def one_sent_one_at_a_time(world: ExplainedApi) -> None:
    await world.deferred(DeferReason.ONE_AT_A_TIME)


@message_is(ExplanationState.IN_LINE, ActionKind.CANCEL)
async def one_that_waits_for_its_resend(world: ExplainedApi) -> None:
    await world.deferred(DeferReason.RESEND_TURN)


@message_is(ExplanationState.HELD, ActionKind.CANCEL)
async def one_at_its_tenants_limit(world: ExplainedApi) -> None:
    await world.under_test.accept()
    await world.hold("rate_per_hour")


@message_is(ExplanationState.HELD, ActionKind.CANCEL)
async def one_without_quota(world: ExplainedApi) -> None:
    await world.under_test.accept()
    await world.hold(QUOTA_EXHAUSTED)


@message_is(ExplanationState.EXPIRED)
async def an_expired_one(world: ExplainedApi) -> None:
    await world.under_test.accept(expires_at=world.clock.now() + MINUTE)
    world.clock.advance(MINUTE)


@message_is(ExplanationState.NO_WORKER, ActionKind.CANCEL)
async def one_without_a_worker(world: ExplainedApi) -> None:
    await world.under_test.accept()


@message_is(ExplanationState.PROVIDER_UNAVAILABLE, ActionKind.CANCEL)
async def one_with_a_paused_provider(world: ExplainedApi) -> None:
    await world.under_test.accept()
    await world.worker(unavailable_until=world.clock.now() + MINUTE, unavailable_reason="wrong password")


@message_is(ExplanationState.IN_LINE, ActionKind.CANCEL)
async def a_queued_one(world: ExplainedApi) -> None:
    await world.under_test.accept()
    await world.worker()


# Messages of campaigns.


@message_is(ExplanationState.HELD, ActionKind.RESUME_CAMPAIGN, ActionKind.CANCEL)
async def one_of_a_paused_campaign(world: ExplainedApi) -> None:
    await world.start()
    await world.desk.campaigns.pause(OPERATOR, world.campaign_id)


@message_is(ExplanationState.HELD, (ActionKind.RESUME_SEQUENCE, {"overdue": "send"}), ActionKind.CANCEL)
async def one_of_a_paused_sequence(world: ExplainedApi) -> None:
    at = SequenceBench(world.bench)
    await at.people(address_of(0))
    key = await at.start(an_email())
    await at.enrol(key, address_of(0))
    await at.run()
    await at.engine.sequences.pause(DEFAULT_TENANT, key, actor=ACTOR)
    await world.take_first_message()


@message_is(ExplanationState.SCHEDULED, ActionKind.CANCEL_CAMPAIGN, ActionKind.CANCEL)
async def one_of_a_scheduled_campaign(world: ExplainedApi) -> None:
    await world.start()
    await world.hold(SCHEDULED)


@message_is(ExplanationState.HELD, ActionKind.EXPLAIN_CAMPAIGN, ActionKind.CANCEL)
async def one_of_an_ab_test(world: ExplainedApi) -> None:
    await world.start()
    await world.hold(AWAITING_WINNER)


@message_is(ExplanationState.HELD, ActionKind.EXPLAIN_CAMPAIGN, ActionKind.CANCEL)
async def one_of_a_campaign_with_a_limit(world: ExplainedApi) -> None:
    await world.start()
    await world.hold("daily_limit")


@message_is(ExplanationState.HELD, ActionKind.EXPLAIN_CAMPAIGN, ActionKind.CANCEL)
async def one_of_a_campaign_that_guard_rails_stopped(world: ExplainedApi) -> None:
    await world.start()
    await world.hold(GUARD_RAILS)


@message_is(ExplanationState.HELD, ActionKind.EXPLAIN_CAMPAIGN, ActionKind.CANCEL)
async def one_between_two_waves(world: ExplainedApi) -> None:
    await world.start()
    await world.hold(NEXT_WAVE)


@message_is(ExplanationState.HELD)
async def one_of_a_campaign_that_was_just_cancelled(world: ExplainedApi) -> None:
    await world.start()
    await world.desk.campaigns.cancel(OPERATOR, world.campaign_id)
    assert (await world.message())["reason"] == CANCELLED


# Campaigns.


@campaign_is("draft", ActionKind.START_CAMPAIGN)
async def a_draft_that_may_start(world: ExplainedApi) -> None:
    await join(world.database, [address_of(1)])
    world.campaign_id = await world.desk.create()


@campaign_is("draft", ActionKind.PREFLIGHT_CAMPAIGN)
async def a_draft_without_audience(world: ExplainedApi) -> None:
    world.campaign_id = await world.desk.create()


@campaign_is("sent")
async def a_sent_campaign(world: ExplainedApi) -> None:
    await world.start()
    await world.bench.drain(ScriptedProvider())


@campaign_is("cancelled")
async def a_cancelled_campaign(world: ExplainedApi) -> None:
    await world.start()
    await world.desk.campaigns.cancel(OPERATOR, world.campaign_id)


@campaign_is("cancelled", ActionKind.FIND_DOUBTS)
async def a_cancelled_campaign_with_doubts(world: ExplainedApi) -> None:
    await one_in_doubt_of_a_cancelled_campaign(world)


@campaign_is("failures", ActionKind.RETRY_FAILED, ActionKind.ACCEPT_FAILURES)
async def a_campaign_with_failures(world: ExplainedApi) -> None:
    await world.start(2)
    await world.bench.drain(ScriptedProvider(REFUSAL))


@campaign_is("in_doubt", ActionKind.FIND_DOUBTS)
async def a_campaign_with_doubts(world: ExplainedApi) -> None:
    await a_campaign_with_failures(world)
    await world.all_are(Status.IN_DOUBT)


@campaign_is("held", (ActionKind.EDIT_LIMITS, {"dailyLimit": 50}))
async def a_campaign_at_its_hourly_limit(world: ExplainedApi) -> None:
    await world.start(3, limits={"rate_per_hour": 1, "daily_limit": 50})
    await world.bench.drain(ScriptedProvider())


@campaign_is("held", (ActionKind.EDIT_LIMITS, {}))
async def a_campaign_at_its_daily_limit(world: ExplainedApi) -> None:
    await world.start(3, limits={"daily_limit": 1})
    await world.bench.drain(ScriptedProvider())


@campaign_is("held", (ActionKind.EDIT_LIMITS, {"timezone": "Europe/Lisbon"}))
async def a_campaign_outside_its_hours(world: ExplainedApi) -> None:
    await world.start(1, limits={"working_hours": "12:00-18:00", "timezone": "Europe/Lisbon"})
    await world.bench.drain(ScriptedProvider())


@campaign_is("sending")
async def a_campaign_with_an_interval(world: ExplainedApi) -> None:
    await world.start(3, limits={"interval_ms": HOUR})
    await world.worker()


@campaign_is("held", (ActionKind.EDIT_LIMITS, {}))
async def a_campaign_in_warm_up(world: ExplainedApi) -> None:
    await world.start(1, limits={"warmup": True})
    await world.hold("warmup")


@campaign_is("held")
async def a_campaign_at_its_tenants_limit(world: ExplainedApi) -> None:
    await change_tenant(world.database, rate_per_hour=1)
    await world.start(3)
    await world.bench.drain(ScriptedProvider())


@campaign_is("held", ActionKind.PAUSE_CAMPAIGN)
async def a_campaign_deferred_by_a_removed_limit(world: ExplainedApi) -> None:
    await a_campaign_at_its_tenants_limit(world)
    await change_tenant(world.database, rate_per_hour=None)


@campaign_is("held")
async def a_campaign_without_quota(world: ExplainedApi) -> None:
    await world.start()
    await world.hold(QUOTA_EXHAUSTED)


@campaign_is("sending")
async def a_campaign_with_throttled_messages(world: ExplainedApi) -> None:
    await world.start()
    await world.bench.drain(ScriptedProvider(THROTTLE))
    await world.worker()


@campaign_is("held", (ActionKind.CHOOSE_WINNER, {"version": "A"}), (ActionKind.CHOOSE_WINNER, {"version": "B"}))
async def a_campaign_with_an_ab_test(world: ExplainedApi) -> None:
    await world.start(10, experiment=AB_TEST)
    await world.bench.drain(ScriptedProvider())


@campaign_is("paused", ActionKind.RESUME_CAMPAIGN)
async def a_paused_campaign(world: ExplainedApi) -> None:
    await one_of_a_paused_campaign(world)


@campaign_is("scheduled", (ActionKind.SEND_NOW, {"scheduledAt": None}), ActionKind.CANCEL_CAMPAIGN)
async def a_scheduled_campaign(world: ExplainedApi) -> None:
    await world.start(scheduled_at=world.clock.now() + HOUR)


@campaign_is("overdue", (ActionKind.SEND_NOW, {"scheduledAt": None}), ActionKind.CANCEL_CAMPAIGN)
async def a_campaign_that_is_a_day_late(world: ExplainedApi) -> None:
    await world.start(scheduled_at=world.clock.now() + HOUR)
    world.clock.advance(26 * HOUR)
    await world.desk.run_scheduler()


@campaign_is("no_worker")
async def a_campaign_without_a_worker(world: ExplainedApi) -> None:
    await world.start()


@campaign_is("sending")
async def a_campaign_that_is_being_sent(world: ExplainedApi) -> None:
    await world.start()
    await world.worker()


@campaign_is("held", ActionKind.OPEN_WAVE, ActionKind.PAUSE_CAMPAIGN, ActionKind.CANCEL_CAMPAIGN)
async def a_campaign_between_two_waves(world: ExplainedApi) -> None:
    await world.start(20, waves={"percents": [10]})
    await world.bench.drain(ScriptedProvider())


@campaign_is("held", ActionKind.SHOW_PLAN, ActionKind.REQUEST_APPROVAL)
async def a_campaign_that_awaits_an_approval(world: ExplainedApi) -> None:
    await world.start(2, scheduled_at=world.clock.now() + HOUR)
    await change_tenant(world.database, approval_over=1)
    async with world.database.write() as tx:  # A key without an owner cannot request an approval.
        await tx.execute(update(api_keys).values(owner="grace"))
    world.clock.advance(HOUR)
    await world.desk.run_scheduler()


@campaign_is("held", ActionKind.OPEN_WAVE, ActionKind.CANCEL_CAMPAIGN)
async def a_campaign_whose_next_wave_is_held(world: ExplainedApi) -> None:
    await a_campaign_between_two_waves(world)
    await world.find_incidents(GuardAction.WARN)
    await world.hold(GUARD_RAILS)


@campaign_is("paused", ActionKind.RESUME_CAMPAIGN, ActionKind.CANCEL_CAMPAIGN)
async def a_campaign_that_guard_rails_stopped(world: ExplainedApi) -> None:
    await world.start()
    await world.desk.campaigns.pause(OPERATOR, world.campaign_id)
    await world.find_incidents(GuardAction.STOP)
    async with world.database.write() as tx:
        await tx.execute(update(lane_deferrals).values(defer_reason=GUARD_RAILS))


@campaign_is("sending", ActionKind.PAUSE_CAMPAIGN, ActionKind.ACCEPT_INCIDENTS)
async def a_campaign_that_guard_rails_warned_about(world: ExplainedApi) -> None:
    await world.start()
    await world.find_incidents(GuardAction.WARN)
    await world.worker()


@campaign_is("in_line", ActionKind.PAUSE_CAMPAIGN)
async def a_campaign_behind_another(world: ExplainedApi) -> None:
    await world.start()
    await world.start(0)
    await world.worker()


def cases_by_action(of: str) -> list[Any]:
    """Return each case once for each of its actions, or once if it has none."""
    return [
        pytest.param(case, number, id=f"{case.name}-{number}")
        for case in CASES[of]
        for number in range(max(1, len(case.offered)))
    ]


async def perform_and_check(
    world: ExplainedApi, case: Case, number: int, explained: Callable[[], Awaitable[Any]]
) -> None:
    await case.set_up(world)
    answer = await explained()
    offered = [each if isinstance(each, tuple) else (each, None) for each in case.offered]
    assert answer["state"] == case.state
    assert [(each["do"], each["body"]) for each in answer["actions"]] == offered
    if offered:
        await world.do(answer["actions"][number])


@pytest.mark.promise("explain-actions")
@pytest.mark.parametrize(("case", "number"), cases_by_action("message"))
async def test_every_action_of_a_message_is_accepted(world: ExplainedApi, case: Case, number: int) -> None:
    await perform_and_check(world, case, number, world.message)


@pytest.mark.promise("explain-actions")
@pytest.mark.parametrize(("case", "number"), cases_by_action("campaign"))
async def test_every_action_of_a_campaign_is_accepted(world: ExplainedApi, case: Case, number: int) -> None:
    await perform_and_check(world, case, number, world.campaign)


@pytest.mark.promise("explain-actions")
def test_cases_cover_every_state_and_action() -> None:
    assert {case.state for case in CASES["message"]} == set(ExplanationState)
    cases = [*CASES["message"], *CASES["campaign"]]
    offered = {each[0] if isinstance(each, tuple) else each for case in cases for each in case.offered}
    assert offered == set(ActionKind) == set(SUGGESTIONS)


@pytest.mark.promise("explain-actions")
async def test_every_action_has_a_route_in_the_api_description(world: ExplainedApi) -> None:
    routes = {
        (method.upper(), re.sub(r"{\w+}", "{subject}", path))
        for path, methods in world.api.app.openapi()["paths"].items()
        for method in methods
    }
    assert {(place.method, place.path.partition("?")[0]) for place in SUGGESTIONS.values()} <= routes
    for place in SUGGESTIONS.values():
        assert place.scope is scope_of(place.method, place.path.partition("?")[0])


@pytest.mark.promise("explain-actions")
async def test_actions_taken_in_turn_lead_to_a_final_state(world: ExplainedApi) -> None:
    await one_to_a_suppressed_address(world)
    done = []
    while (answer := await world.message())["state"] == ExplanationState.FAILED:
        [action] = answer["actions"]
        done.append(action["do"])
        await world.do(action)
    assert done == [ActionKind.LIFT_SUPPRESSION, ActionKind.RETRY]
    await world.bench.drain(ScriptedProvider())
    assert (await world.message())["state"] == ExplanationState.SENT


@pytest.mark.promise("explain-actions")
async def test_activated_contact_receives_email_again(world: ExplainedApi) -> None:
    await one_that_hard_bounced(world)
    [action] = (await world.message())["actions"]
    await world.do(action)
    assert (await world.message())["actions"] == []
    known = await contacts.find_by_email(world.database, DEFAULT_TENANT, ADA)
    assert known.status == "active"
    assert not await suppressions.is_suppressed(world.database, DEFAULT_TENANT, ADA, "news")


@pytest.mark.promise("explain-actions")
async def test_lifting_a_suppression_keeps_list_unsubscribes(world: ExplainedApi) -> None:
    await one_to_an_unsubscribed_recipient(world)
    await world.suppress()
    [action] = (await world.message())["actions"]
    await world.do(action)
    assert (await world.message())["actions"] == []
    assert await suppressions.is_suppressed(world.database, DEFAULT_TENANT, ADA, "news")


@pytest.mark.promise("explain-actions")
async def test_removed_limit_no_longer_defers_the_campaign(world: ExplainedApi) -> None:
    await a_campaign_at_its_hourly_limit(world)
    [action] = (await world.campaign())["actions"]
    await world.do(action)
    await world.bench.drain(ScriptedProvider())
    assert (await world.campaign())["state"] == "sent"


@pytest.mark.promise("explain-actions")
async def test_pause_action_targets_the_campaign_ahead(world: ExplainedApi) -> None:
    await a_campaign_behind_another(world)
    [action] = (await world.campaign())["actions"]
    assert world.campaign_id not in action["path"]
    await world.do(action)
    assert (await world.campaign())["state"] == "sending"


async def test_read_only_key_is_offered_only_reading_actions(world: ExplainedApi) -> None:
    await one_of_a_campaign_with_a_limit(world)
    key = await world.api.engine.keys.create(DEFAULT_TENANT, "looks", frozenset({Scope.READ}))
    async with client_of(world.api.app, key) as looking:
        [action] = (await world.message(looking))["actions"]
        assert action["do"] == ActionKind.EXPLAIN_CAMPAIGN
        await world.do(action, looking)
        await world.desk.campaigns.pause(OPERATOR, world.campaign_id)
        assert (await world.message(looking))["actions"] == []
        assert (await world.campaign(looking))["actions"] == []
    assert (await world.campaign())["actions"] != []
