"""HTTP API and page of providers: availability and quotas."""

from mailwright.access.roles import Role, Scope
from mailwright.domain.clock import MINUTE, ManualClock
from mailwright.domain.permits import Limits
from mailwright.outbox import quotas
from mailwright.outbox.limits import DefaultLimits
from mailwright.outbox.quotas import STALE_AFTER, QuotaReport
from mailwright.outbox.workers import WorkerPresence, WorkerRegistry
from mailwright.storage.database import Database
from tests.api import an_api

PASSWORD = "a password of the administrator"
ADMINISTRATOR = {"Authorization": f"Bearer {PASSWORD}"}


async def tell(database: Database, clock: ManualClock) -> None:
    before = await quotas.read_pre_sync_state(database, ["ses"])
    told = QuotaReport("ses", remaining=40_000, limit_per_day=50_000, rate_per_second=14)
    assert await quotas.record_sync(database, clock, [told], before)


async def test_administrator_sees_state_of_each_provider(database: Database, clock: ManualClock) -> None:
    defaults = DefaultLimits(Limits(), {"ses": None, "smtp": None, "sendgrid": None})
    async with an_api(database, clock, admin_password=PASSWORD, defaults=defaults) as api:
        await tell(database, clock)
        until = clock.now() + MINUTE
        shut = WorkerPresence("smtp", unavailable_until=until, unavailable_reason="SMTP_AUTH_FAILED")
        await WorkerRegistry(database, clock, "worker-1").report(WorkerPresence("ses"), shut)
        await WorkerRegistry(database, clock, "worker-2").report(WorkerPresence("ses"))
        answer = await api.anonymous.get("/v1/providers", headers=ADMINISTRATOR)
        ses, smtp, sendgrid = answer.json()["providers"]
        assert (ses["provider"], ses["status"], ses["workers"]) == ("ses", "ok", 2)
        assert (ses["quota"]["remaining"], ses["quota"]["ratePerSecond"], ses["quota"]["isRateKept"]) == (
            40_000,
            14,
            True,
        )
        assert (smtp["status"], smtp["unavailableReason"], smtp["quota"]) == ("left_alone", "SMTP_AUTH_FAILED", None)
        assert (sendgrid["status"], sendgrid["workers"]) == ("unused", 0)
        ops = await api.engine.keys.create(None, "ops", frozenset({Scope.PLATFORM_READ}))
        for key, status in (("", 401), ("a wrong password", 401), (api.key, 403), (ops, 200)):
            headers = {"Authorization": f"Bearer {key}"} if key else {}
            assert (await api.anonymous.get("/v1/providers", headers=headers)).status_code == status
        made = await api.anonymous.post("/v1/providers", json={}, headers={"Authorization": f"Bearer {ops}"})
        assert (made.status_code, made.json()["code"]) == (403, "PLATFORM_KEY_REQUIRED")


async def test_expired_provider_rate_is_marked(database: Database, clock: ManualClock) -> None:
    async with an_api(database, clock, admin_password=PASSWORD, defaults=DefaultLimits(Limits(), {"ses": None})) as api:
        await tell(database, clock)
        for _ in range(STALE_AFTER):
            await quotas.record_failure(database, clock, "ses", "NETWORK_ERROR: no connection in time")
        [ses] = (await api.anonymous.get("/v1/providers", headers=ADMINISTRATOR)).json()["providers"]
        quota = ses["quota"]
        assert (quota["ratePerSecond"], quota["isRateKept"], quota["missed"]) == (14, False, STALE_AFTER)
        assert quota["failure"] == "NETWORK_ERROR: no connection in time"


async def test_provider_page_shows_rate_and_its_expiry(database: Database, clock: ManualClock) -> None:
    async with an_api(database, clock, defaults=DefaultLimits(Limits(), {"ses": None})) as api:
        await api.engine.users.create("ada", "correct horse battery", Role.ADMIN, actor="test")
        form = {"login": "ada", "password": "correct horse battery"}
        browser = api.anonymous
        browser.headers.update({"Origin": "http://mail.example", "Accept": "text/html"})
        assert (await browser.post("/sign-in", data=form)).status_code == 303
        await tell(database, clock)
        assert ">14</td>" in (await browser.get("/settings/providers")).text
        for _ in range(STALE_AFTER):
            await quotas.record_failure(database, clock, "ses", "NETWORK_ERROR: no connection in time")
        page = (await browser.get("/settings/providers")).text
        assert "<s>14</s><small>outdated: 3 failed updates</small>" in page
