"""What an explanation offers to programs, on both engines: every action of every state is carried out, and accepted."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from sqlalchemy import select, update

from mailwright.access.roles import Scope
from mailwright.audience import contacts, suppressions
from mailwright.domain.actions import ActionKind
from mailwright.domain.campaign import AWAITING_WINNER, CANCELLED, SCHEDULED
from mailwright.domain.clock import HOUR, MINUTE, SECOND, ManualClock
from mailwright.domain.explanation import ExplanationState
from mailwright.domain.lanes import lane_number
from mailwright.domain.permits import PROVIDER_RATE, QUOTA_EXHAUSTED, Deferral, DeferReason
from mailwright.domain.report import ContactVerdict, Report
from mailwright.domain.states import EventType, Priority, Resolution, Status
from mailwright.events.reports import Reports
from mailwright.outbox.defer import defer, defer_lane
from mailwright.outbox.operations import Operations
from mailwright.outbox.workers import WorkerPresence, WorkerRegistry
from mailwright.storage.tables import deliveries, messages
from mailwright.web.api.actions import ROUTES
from tests.api import Api, an_api, client_of
from tests.builders import DEFAULT_TENANT, LOCK_TTL, REFUSAL, THROTTLE, Bench, change_tenant
from tests.campaigns import OPERATOR, Desk, address_of, join
from tests.contract.outbox.test_explain import MessageUnderTest
from tests.standins.provider import ScriptedProvider

ADA = "a/d?a#1%2@example.com"  # what an address may hold, and a path must not
EXPERIMENT = {"variants": [{"name": "A"}, {"name": "B", "subject": "Other"}], "test_percent": 20}


class World:
    """One installation, its API, and what is asked about: a message, or a campaign."""

    def __init__(self, bench: Bench, api: Api) -> None:
        self.bench, self.api, self.database, self.clock = bench, api, bench.database, bench.clock
        self.under_test = MessageUnderTest(bench.database, bench.clock)
        self.desk = Desk(bench)
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
        """As a program would, that knows nothing but the action."""
        assert set(action) == {"do", "method", "path", "body"}
        told = {} if action["body"] is None else {"json": action["body"]}
        answer = await (client or self.api.client).request(action["method"], action["path"], **told)
        assert 200 <= answer.status_code < 300, (action, answer.text)

    async def worker(self, **changes: Any) -> None:
        await WorkerRegistry(self.database, self.clock, "w").report(WorkerPresence("smtp", **changes))

    async def came_back(self, verdict: ContactVerdict) -> None:
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
        """A campaign whose first reader's mail is the message that is asked about."""
        self.campaign_id = await self.desk.start(readers, **changes)
        await self.desk.walk()
        async with self.database.read() as tx:
            rows = await tx.execute(select(messages.c.outbox_id).order_by(messages.c.id).limit(1))
        self.under_test.outbox_id = rows[0].outbox_id if rows else ""

    async def hold(self, reason: str) -> None:
        lane = lane_number(Priority.TRANSACTIONAL, DEFAULT_TENANT)
        if self.campaign_id:
            lane = (await self.desk.place(self.campaign_id)).lane
        await defer_lane(self.database, lane, reason, self.clock.now() + HOUR)

    async def all_are(self, status: Status) -> None:
        async with self.database.write() as tx:
            told = {"error_code": "CUT", "in_doubt_since": self.clock.now(), "failed_at": self.clock.now()}
            await tx.execute(update(deliveries).values(status=status, locked_by=None, **told))


@pytest.fixture
async def world(bench: Bench, clock: ManualClock) -> AsyncIterator[World]:
    async with an_api(bench.database, clock) as api:
        yield World(bench, api)


@dataclass(frozen=True)
class Case:
    """A way to stand, and what is offered then: the deeds, or a deed and what is said with it."""

    bring_about: Callable[[World], Awaitable[None]]
    state: str
    offered: Sequence[Any] = ()

    @property
    def name(self) -> str:
        return self.bring_about.__name__


CASES: dict[str, list[Case]] = {"message": [], "campaign": []}
Making = Callable[[World], Awaitable[None]]


def message_is(state: str, *offered: Any) -> Callable[[Making], Making]:
    def keep(bring_about: Making) -> Making:
        CASES["message"].append(Case(bring_about, state, offered))
        return bring_about

    return keep


def campaign_is(state: str, *offered: Any) -> Callable[[Making], Making]:
    def keep(bring_about: Making) -> Making:
        CASES["campaign"].append(Case(bring_about, state, offered))
        return bring_about

    return keep


# Messages that wait no longer.


@message_is(ExplanationState.SENT)
async def a_sent_one(world: World) -> None:
    await world.under_test.accept()
    await world.under_test.deliver()


@message_is(ExplanationState.SENT, ActionKind.ACTIVATE)
async def one_that_bounced(world: World) -> None:
    await world.under_test.accept(to=ADA)
    await world.under_test.deliver()
    await world.came_back(ContactVerdict.HARD_BOUNCE)


@message_is(ExplanationState.SENT)
async def one_that_bounced_for_now(world: World) -> None:
    await world.under_test.accept(to=ADA)
    await world.under_test.deliver()
    await world.came_back(ContactVerdict.SOFT_BOUNCE)


@message_is(ExplanationState.FAILED, ActionKind.RETRY)
async def a_failed_one(world: World) -> None:
    await world.under_test.accept(to=ADA)
    await world.under_test.settle(Status.FAILED, error_code="SMTP_REFUSED")


@message_is(ExplanationState.FAILED)
async def one_that_is_itself_wrong(world: World) -> None:
    await world.under_test.accept()
    await world.under_test.settle(Status.FAILED, error_code="INVALID_TEMPLATE")


@message_is(ExplanationState.FAILED)
async def a_failed_one_that_is_of_no_use_any_more(world: World) -> None:
    await world.under_test.accept(expires_at=world.clock.now() + MINUTE)
    await world.under_test.settle(Status.FAILED, error_code="SMTP_REFUSED")
    world.clock.advance(MINUTE)


@message_is(ExplanationState.FAILED, ActionKind.LIFT_SUPPRESSION)
async def one_to_a_suppressed_address(world: World) -> None:
    await a_failed_one(world)
    await world.suppress()


@message_is(ExplanationState.FAILED)
async def one_to_somebody_who_left_its_list(world: World) -> None:
    await world.api.client.post("/v1/lists", json={"listKey": "news"})
    await world.under_test.accept(to=ADA, list_key="news")
    await world.under_test.settle(Status.FAILED, error_code="RECIPIENT_SUPPRESSED")
    await world.suppress("news")


@message_is(ExplanationState.FAILED, ActionKind.RETRY)
async def a_receipt_to_somebody_who_left_a_list(world: World) -> None:
    await a_failed_one(world)
    await world.suppress("general")


@message_is(ExplanationState.FAILED)
async def a_failed_one_of_a_cancelled_campaign(world: World) -> None:
    await world.start()
    await world.desk.campaigns.cancel(OPERATOR, world.campaign_id)
    await world.all_are(Status.FAILED)


@message_is(ExplanationState.CANCELLED)
async def a_cancelled_one(world: World) -> None:
    await world.under_test.accept()
    await Operations(world.database, world.clock).cancel(world.under_test.outbox_id, tenant_id=None)


@message_is(ExplanationState.CLOSED_UNKNOWN)
async def one_that_was_closed(world: World) -> None:
    await world.under_test.accept()
    await world.under_test.settle(Status.IN_DOUBT)
    await Operations(world.database, world.clock).resolve(world.under_test.outbox_id, Resolution.CLOSE, tenant_id=None)


# Messages that a provider has, or may have.


def resolved_as(*words: str) -> list[Any]:
    return [(ActionKind.RESOLVE, {"as": word}) for word in words]


@message_is(ExplanationState.IN_DOUBT, *resolved_as("sent", "resend", "close"))
async def a_doubtful_one(world: World) -> None:
    await world.under_test.accept()
    await world.under_test.settle(Status.IN_DOUBT, due_at=world.clock.now() + 10 * MINUTE)


@message_is(ExplanationState.IN_DOUBT, *resolved_as("sent", "close"))
async def a_doubtful_one_that_is_of_no_use_any_more(world: World) -> None:
    await world.under_test.accept(expires_at=world.clock.now() + MINUTE)
    await world.under_test.settle(Status.IN_DOUBT, due_at=world.clock.now() + 10 * MINUTE)
    world.clock.advance(MINUTE)


@message_is(ExplanationState.IN_DOUBT, *resolved_as("sent", "close"))
async def a_doubtful_one_of_a_cancelled_campaign(world: World) -> None:
    await world.start()
    await world.desk.campaigns.cancel(OPERATOR, world.campaign_id)
    await world.all_are(Status.IN_DOUBT)


@message_is(ExplanationState.SENDING)
async def one_that_is_being_sent(world: World) -> None:
    await world.under_test.accept()
    await world.under_test.attempt()


@message_is(ExplanationState.WORKER_LOST)
async def one_whose_worker_is_gone(world: World) -> None:
    await one_that_is_being_sent(world)
    world.clock.advance(LOCK_TTL)


# Messages that wait.


@message_is(ExplanationState.CLAIMED, ActionKind.CANCEL)
async def a_claimed_one(world: World) -> None:
    await world.under_test.accept()
    await world.under_test.claim()


@message_is(ExplanationState.SUSPECT, ActionKind.CANCEL)
async def a_suspect(world: World) -> None:
    await a_claimed_one(world)
    world.clock.advance(LOCK_TTL)
    await world.worker()


@message_is(ExplanationState.SCHEDULED, ActionKind.CANCEL)
async def a_scheduled_one(world: World) -> None:
    await world.under_test.accept(scheduled_at=world.clock.now() + HOUR)


@message_is(ExplanationState.RETRYING, ActionKind.CANCEL)
async def one_that_is_tried_again(world: World) -> None:
    await world.under_test.accept()
    due_at = world.clock.now() + SECOND
    await world.under_test.settle(Status.RETRY_SCHEDULED, due_at=due_at, error_code="NETWORK_ERROR")


@message_is(ExplanationState.PROVIDER_UNAVAILABLE, ActionKind.CANCEL)
async def one_that_its_provider_does_not_take(world: World) -> None:
    await world.deferred(DeferReason.PROVIDER_UNAVAILABLE)


@message_is(ExplanationState.THROTTLED, ActionKind.CANCEL)
async def a_throttled_one(world: World) -> None:
    await world.deferred(DeferReason.PROVIDER_THROTTLED)


@message_is(ExplanationState.PROVIDER_MISSING, ActionKind.CANCEL)
async def one_whose_provider_is_missing(world: World) -> None:
    await world.deferred(DeferReason.PROVIDER_MISSING)


@message_is(ExplanationState.DOMAIN_LIMIT, ActionKind.CANCEL)
async def one_to_a_busy_domain(world: World) -> None:
    await world.deferred(DeferReason.DOMAIN_RATE)


@message_is(ExplanationState.TENANT_BUSY, ActionKind.CANCEL)
async def one_of_a_busy_tenant(world: World) -> None:
    await world.deferred(DeferReason.TENANT_CONCURRENCY)


@message_is(ExplanationState.HELD, ActionKind.CANCEL)
async def one_for_the_readers_morning(world: World) -> None:
    await world.deferred(DeferReason.RECIPIENT_HOURS)


@message_is(ExplanationState.IN_LINE, ActionKind.CANCEL)
async def one_behind_another(world: World) -> None:
    await world.deferred(DeferReason.ONE_AT_A_TIME)


@message_is(ExplanationState.IN_LINE, ActionKind.CANCEL)
async def one_that_waits_for_its_resend(world: World) -> None:
    await world.deferred(DeferReason.RESEND_TURN)


@message_is(ExplanationState.HELD, ActionKind.CANCEL)
async def one_that_its_tenants_limit_holds(world: World) -> None:
    await world.under_test.accept()
    await world.hold("rate_per_hour")


@message_is(ExplanationState.HELD, ActionKind.CANCEL)
async def one_without_quota(world: World) -> None:
    await world.under_test.accept()
    await world.hold(QUOTA_EXHAUSTED)


@message_is(ExplanationState.HELD, ActionKind.CANCEL)
async def one_that_the_providers_rate_holds(world: World) -> None:
    await world.under_test.accept()
    await world.hold(PROVIDER_RATE)


@message_is(ExplanationState.EXPIRED)
async def an_expired_one(world: World) -> None:
    await world.under_test.accept(expires_at=world.clock.now() + MINUTE)
    world.clock.advance(MINUTE)


@message_is(ExplanationState.NO_WORKER, ActionKind.CANCEL)
async def one_without_a_worker(world: World) -> None:
    await world.under_test.accept()


@message_is(ExplanationState.PROVIDER_UNAVAILABLE, ActionKind.CANCEL)
async def one_whose_provider_is_left_alone(world: World) -> None:
    await world.under_test.accept()
    await world.worker(unavailable_until=world.clock.now() + MINUTE, unavailable_reason="wrong password")


@message_is(ExplanationState.IN_LINE, ActionKind.CANCEL)
async def one_in_line(world: World) -> None:
    await world.under_test.accept()
    await world.worker()


# Messages of campaigns.


@message_is(ExplanationState.HELD, ActionKind.RESUME_CAMPAIGN, ActionKind.CANCEL)
async def one_of_a_paused_campaign(world: World) -> None:
    await world.start()
    await world.desk.campaigns.pause(OPERATOR, world.campaign_id)


@message_is(ExplanationState.SCHEDULED, ActionKind.CANCEL_CAMPAIGN, ActionKind.CANCEL)
async def one_of_a_scheduled_campaign(world: World) -> None:
    await world.start()
    await world.hold(SCHEDULED)


@message_is(ExplanationState.HELD, ActionKind.EXPLAIN_CAMPAIGN, ActionKind.CANCEL)
async def one_that_waits_for_a_winner(world: World) -> None:
    await world.start()
    await world.hold(AWAITING_WINNER)


@message_is(ExplanationState.HELD, ActionKind.EXPLAIN_CAMPAIGN, ActionKind.CANCEL)
async def one_of_a_campaign_with_a_limit(world: World) -> None:
    await world.start()
    await world.hold("daily_limit")


@message_is(ExplanationState.HELD)
async def one_of_a_campaign_that_was_just_cancelled(world: World) -> None:
    await world.start()
    await world.desk.campaigns.cancel(OPERATOR, world.campaign_id)
    assert (await world.message())["reason"] == CANCELLED


# Campaigns.


@campaign_is("draft", ActionKind.START_CAMPAIGN)
async def a_draft_that_may_start(world: World) -> None:
    await join(world.database, [address_of(1)])
    world.campaign_id = await world.desk.create()


@campaign_is("draft", ActionKind.PREFLIGHT_CAMPAIGN)
async def a_draft_for_nobody(world: World) -> None:
    world.campaign_id = await world.desk.create()


@campaign_is("sent")
async def a_sent_campaign(world: World) -> None:
    await world.start()
    await world.bench.drain(ScriptedProvider())


@campaign_is("cancelled")
async def a_cancelled_campaign(world: World) -> None:
    await world.start()
    await world.desk.campaigns.cancel(OPERATOR, world.campaign_id)


@campaign_is("cancelled", ActionKind.FIND_DOUBTS)
async def a_cancelled_campaign_with_doubts(world: World) -> None:
    await a_doubtful_one_of_a_cancelled_campaign(world)


@campaign_is("failures", ActionKind.RETRY_FAILED, ActionKind.ACCEPT_FAILURES)
async def a_campaign_with_failures(world: World) -> None:
    await world.start(2)
    await world.bench.drain(ScriptedProvider(REFUSAL))


@campaign_is("failures", ActionKind.RESUME_CAMPAIGN)
async def a_campaign_with_failures_that_was_paused(world: World) -> None:
    await a_campaign_with_failures(world)
    await world.desk.campaigns.pause(OPERATOR, world.campaign_id)


@campaign_is("in_doubt", ActionKind.FIND_DOUBTS)
async def a_campaign_with_doubts(world: World) -> None:
    await a_campaign_with_failures(world)
    await world.all_are(Status.IN_DOUBT)


@campaign_is("held", (ActionKind.EDIT_LIMITS, {"dailyLimit": 50}))
async def a_campaign_at_its_hourly_limit(world: World) -> None:
    await world.start(3, limits={"rate_per_hour": 1, "daily_limit": 50})
    await world.bench.drain(ScriptedProvider())


@campaign_is("held", (ActionKind.EDIT_LIMITS, {}))
async def a_campaign_at_its_daily_limit(world: World) -> None:
    await world.start(3, limits={"daily_limit": 1})
    await world.bench.drain(ScriptedProvider())


@campaign_is("held", (ActionKind.EDIT_LIMITS, {"timezone": "Europe/Lisbon"}))
async def a_campaign_outside_its_hours(world: World) -> None:
    await world.start(1, limits={"working_hours": "12:00-18:00", "timezone": "Europe/Lisbon"})
    await world.bench.drain(ScriptedProvider())


@campaign_is("held", (ActionKind.EDIT_LIMITS, {}))
async def a_campaign_between_two_mails(world: World) -> None:
    await world.start(3, limits={"interval_ms": HOUR})
    await world.bench.drain(ScriptedProvider())


@campaign_is("held", (ActionKind.EDIT_LIMITS, {}))
async def a_campaign_that_warms_up(world: World) -> None:
    await world.start(1, limits={"warmup": True})
    await world.hold("warmup")


@campaign_is("held", (ActionKind.EDIT_LIMITS, {}))
async def a_campaign_whose_mails_go_one_at_a_time(world: World) -> None:
    await world.start(1, limits={"one_at_a_time": True})
    await world.hold("one_at_a_time")


@campaign_is("held", (ActionKind.EDIT_LIMITS, {}))
async def a_campaign_at_its_limit_per_second(world: World) -> None:
    await world.start(1, limits={"rate_per_second": 1})
    await world.hold("rate_per_second")


@campaign_is("held")
async def a_campaign_at_its_tenants_limit(world: World) -> None:
    await change_tenant(world.database, rate_per_hour=1)
    await world.start(3)
    await world.bench.drain(ScriptedProvider())


@campaign_is("held", ActionKind.PAUSE_CAMPAIGN)
async def a_campaign_that_a_former_limit_holds(world: World) -> None:
    await a_campaign_at_its_tenants_limit(world)
    await change_tenant(world.database, rate_per_hour=None)


@campaign_is("held")
async def a_campaign_without_quota(world: World) -> None:
    await world.start()
    await world.hold(QUOTA_EXHAUSTED)


@campaign_is("held")
async def a_campaign_at_its_providers_rate(world: World) -> None:
    await world.start()
    await world.hold(PROVIDER_RATE)


@campaign_is("held")
async def a_campaign_whose_mails_are_throttled(world: World) -> None:
    await world.start()
    await world.bench.drain(ScriptedProvider(THROTTLE))


@campaign_is("held", (ActionKind.CHOOSE_WINNER, {"version": "A"}), (ActionKind.CHOOSE_WINNER, {"version": "B"}))
async def a_campaign_that_tries_its_versions(world: World) -> None:
    await world.start(10, experiment=EXPERIMENT)
    await world.bench.drain(ScriptedProvider())


@campaign_is("paused", ActionKind.RESUME_CAMPAIGN)
async def a_paused_campaign(world: World) -> None:
    await one_of_a_paused_campaign(world)


@campaign_is("scheduled", ActionKind.CANCEL_CAMPAIGN)
async def a_scheduled_campaign(world: World) -> None:
    await world.start(scheduled_at=world.clock.now() + HOUR)


@campaign_is("no_worker")
async def a_campaign_without_a_worker(world: World) -> None:
    await world.start()


@campaign_is("sending")
async def a_campaign_that_is_being_sent(world: World) -> None:
    await world.start()
    await world.worker()


@campaign_is("in_line", ActionKind.PAUSE_CAMPAIGN)
async def a_campaign_behind_another(world: World) -> None:
    await world.start()
    await world.start(0)
    await world.worker()


def every_offer(of: str) -> list[Any]:
    """Each case once for each of its actions, and once where it has none."""
    return [
        pytest.param(case, number, id=f"{case.name}-{number}")
        for case in CASES[of]
        for number in range(max(1, len(case.offered)))
    ]


async def carried_out(world: World, case: Case, number: int, explained: Callable[[], Awaitable[Any]]) -> None:
    await case.bring_about(world)
    answer = await explained()
    offered = [each if isinstance(each, tuple) else (each, None) for each in case.offered]
    assert answer["state"] == case.state
    assert [(each["do"], each["body"]) for each in answer["actions"]] == offered
    if offered:
        await world.do(answer["actions"][number])


@pytest.mark.promise("explain-actions")
@pytest.mark.parametrize(("case", "number"), every_offer("message"))
async def test_every_action_of_a_message_is_accepted(world: World, case: Case, number: int) -> None:
    await carried_out(world, case, number, world.message)


@pytest.mark.promise("explain-actions")
@pytest.mark.parametrize(("case", "number"), every_offer("campaign"))
async def test_every_action_of_a_campaign_is_accepted(world: World, case: Case, number: int) -> None:
    await carried_out(world, case, number, world.campaign)


@pytest.mark.promise("explain-actions")
def test_every_state_and_every_deed_is_among_them() -> None:
    assert {case.state for case in CASES["message"]} == set(ExplanationState)
    cases = [*CASES["message"], *CASES["campaign"]]
    offered = {each[0] if isinstance(each, tuple) else each for case in cases for each in case.offered}
    assert offered == set(ActionKind) == set(ROUTES)


@pytest.mark.promise("explain-actions")
async def test_every_deed_lies_where_the_description_has_a_route(world: World) -> None:
    routes = {
        (method.upper(), re.sub(r"{\w+}", "{subject}", path))
        for path, methods in world.api.app.openapi()["paths"].items()
        for method in methods
    }
    assert {(place.method, place.path.partition("?")[0]) for place in ROUTES.values()} <= routes


@pytest.mark.promise("explain-actions")
async def test_one_action_after_the_other_leads_to_the_end(world: World) -> None:
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
async def test_whoever_bounced_and_is_activated_is_written_to_again(world: World) -> None:
    await one_that_bounced(world)
    [action] = (await world.message())["actions"]
    await world.do(action)
    assert (await world.message())["actions"] == []
    known = await contacts.find_by_email(world.database, DEFAULT_TENANT, ADA)
    assert known.status == "active"
    assert not await suppressions.is_suppressed(world.database, DEFAULT_TENANT, ADA, "news")


@pytest.mark.promise("explain-actions")
async def test_what_a_reader_left_stays_left_when_an_address_is_lifted(world: World) -> None:
    await one_to_somebody_who_left_its_list(world)
    await world.suppress()
    [action] = (await world.message())["actions"]
    await world.do(action)
    assert (await world.message())["actions"] == []
    assert await suppressions.is_suppressed(world.database, DEFAULT_TENANT, ADA, "news")


@pytest.mark.promise("explain-actions")
async def test_a_limit_that_is_taken_away_holds_the_campaign_no_longer(world: World) -> None:
    await a_campaign_at_its_hourly_limit(world)
    [action] = (await world.campaign())["actions"]
    await world.do(action)
    await world.bench.drain(ScriptedProvider())
    assert (await world.campaign())["state"] == "sent"


@pytest.mark.promise("explain-actions")
async def test_whom_a_campaign_waits_for_is_paused_and_not_the_campaign_itself(world: World) -> None:
    await a_campaign_behind_another(world)
    [action] = (await world.campaign())["actions"]
    assert world.campaign_id not in action["path"]
    await world.do(action)
    assert (await world.campaign())["state"] == "sending"


async def test_whoever_may_only_look_is_offered_nothing_that_changes_anything(world: World) -> None:
    await one_of_a_campaign_with_a_limit(world)
    key = await world.api.parts.keys.create(DEFAULT_TENANT, "looks", frozenset({Scope.READ}))
    async with client_of(world.api.app, key) as looking:
        [action] = (await world.message(looking))["actions"]
        assert action["do"] == ActionKind.EXPLAIN_CAMPAIGN
        await world.do(action, looking)
        await world.desk.campaigns.pause(OPERATOR, world.campaign_id)
        assert (await world.message(looking))["actions"] == []
        assert (await world.campaign(looking))["actions"] == []
    assert (await world.campaign())["actions"] != []
