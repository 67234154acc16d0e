"""What a platform key manages over HTTP: tenants, keys, users and settings."""

from collections.abc import AsyncIterator

import httpx
import pytest

from mailwright.access.roles import PLATFORM_SCOPES, Role
from mailwright.domain.clock import ManualClock
from mailwright.storage.database import Database
from tests.api import Api, a_request, an_api, client_of

PASSWORD = "correct horse battery"


@pytest.fixture
async def api(database: Database, clock: ManualClock) -> AsyncIterator[Api]:
    async with an_api(database, clock) as api:
        yield api


@pytest.fixture
async def platform(api: Api) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(api.app, await api.engine.keys.create(None, "ops", PLATFORM_SCOPES)) as client:
        yield client


async def test_platform_key_sets_up_a_tenant_that_sends(api: Api, platform: httpx.AsyncClient) -> None:
    made = await platform.post("/v1/tenants", json={"name": "acme", "ratePerHour": 500})
    assert (made.status_code, made.json()["ratePerHour"]) == (201, 500)
    key = (await platform.post("/v1/keys", json={"tenant": "acme", "name": "shop", "scopes": ["send"]})).json()
    async with client_of(api.app, key["key"]) as shop:
        assert (await shop.post("/v1/email/send", json=a_request())).status_code == 202
        assert (await shop.get("/v1/keys")).status_code == 403
    listed = await platform.get("/v1/keys?tenant=acme")
    assert [each["hint"] for each in listed.json()["keys"]] == [key["key"][-4:]]
    assert key["key"] not in listed.text + (await platform.get(f"/v1/keys/{key['id']}")).text
    assert (await platform.delete(f"/v1/keys/{key['id']}")).status_code == 204
    async with client_of(api.app, key["key"]) as shop:
        assert (await shop.post("/v1/email/send", json=a_request())).status_code == 401


@pytest.mark.parametrize("body", [{"weight": None}, {"requiresSecondFactor": None}, {"weight": 0}, {"dailyLimit": 0}])
async def test_invalid_tenant_names_its_field(platform: httpx.AsyncClient, body: dict[str, int | None]) -> None:
    answer = await platform.patch("/v1/tenants/default", json=body)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, next(iter(body)))


async def test_null_removes_the_limit_of_a_tenant(platform: httpx.AsyncClient) -> None:
    await platform.patch("/v1/tenants/default", json={"ratePerHour": 500, "dailyLimit": 9})
    changed = (await platform.patch("/v1/tenants/default", json={"ratePerHour": None})).json()
    assert (changed["ratePerHour"], changed["dailyLimit"]) == (None, 9)


async def test_last_administrator_stays_over_http(api: Api, platform: httpx.AsyncClient) -> None:
    await platform.post("/v1/users", json={"login": "ada", "password": PASSWORD, "role": "admin", "allTenants": True})
    for answer in (
        await platform.delete("/v1/users/ada"),
        await platform.patch("/v1/users/ada", json={"role": "editor", "email": "new@example.com"}),
    ):
        assert (answer.status_code, "last administrator" in answer.json()["detail"]) == (409, True)
    found = await api.engine.users.find("ada")
    assert (found.role, found.email, found.disabled_at) == (Role.ADMIN, None, None)


async def test_new_user_needs_a_tenant_if_there_are_several(platform: httpx.AsyncClient) -> None:
    body = {"login": "ada", "password": PASSWORD}
    refused = await platform.post("/v1/users", json=body)
    assert (refused.status_code, refused.json()["code"]) == (422, "TENANT_MISSING")
    made = await platform.post("/v1/users", json={**body, "tenant": "other"})
    assert (made.status_code, made.json()["tenant"], PASSWORD in made.text) == (201, "other", False)


async def test_invitation_shows_its_link_only_on_request(platform: httpx.AsyncClient) -> None:
    body = {"email": "grace@example.com", "allTenants": True}
    assert (await platform.post("/v1/users/invitations", json=body)).json()["link"] is None
    link = (await platform.post("/v1/users/invitations", json={**body, "link": True})).json()["link"]
    assert link.startswith("http://mail.example/sign-in/invitation?token=")


async def test_settings_are_stored_together_and_secrets_never_shown(platform: httpx.AsyncClient) -> None:
    secret = "smtp://ada:very-secret-word@127.0.0.1:2525?tls=none"
    changed = await platform.patch(
        "/v1/settings", json={"settings": {"MAILWRIGHT_SMTP_URL": secret, "rate_per_hour": "3", "daily_limit": "7"}}
    )
    assert changed.status_code == 200, changed.text
    assert {each["name"]: each["value"] for each in changed.json()["settings"]} == {
        "MAILWRIGHT_RATE_PER_HOUR": "3",
        "MAILWRIGHT_SMTP_URL": "set",
        "MAILWRIGHT_DAILY_LIMIT": "7",
    }
    shown = [await platform.get("/v1/settings"), await platform.get("/v1/settings/smtp_url")]
    assert "very-secret-word" not in changed.text + "".join(each.text for each in shown)
    assert shown[1].json()["storedBy"] == "api:ops"
    assert (await platform.delete("/v1/settings/daily_limit")).status_code == 204
    assert (await platform.get("/v1/settings/daily_limit")).json()["storedBy"] is None


@pytest.mark.parametrize(
    ("name", "value", "status", "words"),
    [
        ("MAILWRIGHT_DATABASE_URL", "sqlite:///x", 422, "restart Mailwright"),
        ("MAILWRIGHT_NOTHING", "1", 404, "There is no setting"),
        ("MAILWRIGHT_DAILY_LIMIT", "many", 422, "MAILWRIGHT_DAILY_LIMIT"),
    ],
)
async def test_refused_setting_changes_nothing(
    platform: httpx.AsyncClient, name: str, value: str, status: int, words: str
) -> None:
    body = {"settings": {"MAILWRIGHT_RATE_PER_HOUR": "5", name: value}}
    answer = await platform.patch("/v1/settings", json=body)
    assert (answer.status_code, words in answer.text) == (status, True), answer.text
    assert (await platform.get("/v1/settings/rate_per_hour")).json()["storedBy"] is None
