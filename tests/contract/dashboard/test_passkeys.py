"""Passkeys: registration, sign-in, second factor and what is refused, on both engines."""

import re
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
import pyotp
import pytest
from sqlalchemy import select

from mailwright.access.challenges import CHALLENGE_AGE
from mailwright.access.roles import Role
from mailwright.access.users import User
from mailwright.app.wiring import Engine
from mailwright.domain.clock import ManualClock
from mailwright.domain.errors import NotPossibleNow
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import list_entries
from mailwright.storage.database import Database
from mailwright.storage.tables import messages
from mailwright.web.app import create_app
from tests.api import an_engine
from tests.standins.authenticator import Authenticator

HOME = "https://mail.example"
PASSWORD = "correct horse battery"
ADA = "ada@example.com"


@dataclass(frozen=True)
class Site:
    engine: Engine
    device: Authenticator = field(default_factory=Authenticator)

    def client(self, host: str = "192.0.2.1") -> httpx.AsyncClient:
        transport = httpx.ASGITransport(create_app(self.engine), client=(host, 1234))
        headers = {"Origin": HOME, "Accept": "text/html"}
        return httpx.AsyncClient(transport=transport, base_url=HOME, headers=headers)

    async def enter(self, client: httpx.AsyncClient, login: str = ADA) -> httpx.Response:
        """Sign in with the password."""
        return await client.post("/sign-in", data={"login": login, "password": PASSWORD})

    async def options(self, client: httpx.AsyncClient, path: str, page: str = "", **form: str) -> dict[str, Any]:
        token = {"form_token": token_in((await client.get(page)).text)} if page else {}
        answer = await client.post(f"{path}/options", data={**token, **form})
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def post(self, client: httpx.AsyncClient, path: str, page: str = "/account", **form: str) -> httpx.Response:
        token = {"form_token": token_in((await client.get(page)).text)} if page else {}
        return await client.post(path, data={**token, **form})

    async def register(self, client: httpx.AsyncClient, device: Authenticator | None = None) -> httpx.Response:
        options = await self.options(client, "/account/passkeys", "/account", current=PASSWORD)
        credential = (device or self.device).register(options)
        return await self.post(client, "/account/passkeys", credential=credential, name="Laptop")

    async def sign_in(self, client: httpx.AsyncClient, **how: Any) -> httpx.Response:
        """Sign in with the passkey alone."""
        options = await self.options(client, "/sign-in/passkey")
        return await client.post("/sign-in/passkey", data={"credential": self.device.sign(options, **how)})

    async def user(self, login: str = ADA) -> User:
        return await self.engine.users.find(login)


@pytest.fixture
async def site(database: Database, clock: ManualClock) -> Site:
    engine = an_engine(database, clock, base_url=HOME)
    await engine.users.create(ADA, PASSWORD, Role.ADMIN, actor="test")
    await engine.users.create("grace", PASSWORD, Role.EDITOR, actor="test")
    return Site(engine)


def token_in(page: str) -> str:
    found = re.search(r'name="form_token" value="([\w-]{43})"', page)
    assert found is not None
    return found[1]


async def is_in(client: httpx.AsyncClient) -> bool:
    return (await client.get("/account")).status_code == 200


@pytest.mark.promise("second-factor")
async def test_passkey_signs_in_without_password_and_code(site: Site) -> None:
    async with site.client() as first, site.client() as other, site.client() as client:
        await site.enter(first)
        await site.enter(other)
        shown = await site.register(first)
        codes = re.findall(r"<li>([a-z2-7-]{19})</li>", shown.text)
        assert (shown.status_code, len(codes)) == (200, 10)
        assert (await is_in(first), await is_in(other)) == (True, False)  # Other sessions end.
        assert (await site.sign_in(client)).headers["location"] == "/"
        await tenants.change(site.engine.database, "default", requires_second_factor=True)
        assert (await client.get("/contacts")).status_code == 200
        assert "Laptop" in (await client.get("/account")).text
        again = await site.register(client, Authenticator())
        assert again.status_code == 303  # The recovery codes stay.
    noted = await list_entries(site.engine.database, tenant_id=None, limit=9, subject=ADA)
    found = [entry.detail.get("method", entry.action) for entry in noted]
    assert found == ["user_passkey", "passkey", "user_passkey", "password", "password", "user_create"]


@pytest.mark.promise("second-factor")
@pytest.mark.both_engines
async def test_passkey_or_recovery_code_is_required_after_password(site: Site) -> None:
    async with site.client() as client, site.client() as lost, site.client() as grace:
        await site.enter(client)
        codes = re.findall(r"<li>([a-z2-7-]{19})</li>", (await site.register(client)).text)
        entered = await site.enter(client)
        assert entered.headers["location"].startswith("/sign-in/code")
        assert not await is_in(client)
        code_page = "/sign-in/code"
        options = await site.options(client, "/sign-in/code/passkey", code_page)
        assert len(options["publicKey"]["allowCredentials"]) == 1
        foreign = Authenticator(handle=site.device.handle).sign(options)
        assert (await site.post(client, "/sign-in/code/passkey", code_page, credential=foreign)).status_code == 403
        answer = site.device.sign(options, is_verified=False)  # The password was the other factor.
        assert (await site.post(client, "/sign-in/code/passkey", code_page, credential=answer)).status_code == 303
        assert await is_in(client)
        await site.enter(lost)
        assert (await site.post(lost, code_page, code_page, code=codes[3])).status_code == 303
        assert await is_in(lost)
        await site.enter(grace, "grace")  # The passkey of another user does not help.
        secret = await site.engine.second_factors.begin(await site.user("grace"))
        code = pyotp.TOTP(secret).at(site.engine.clock.now() // 1000)
        assert await site.engine.second_factors.confirm(await site.user("grace"), code)
        await site.enter(grace, "grace")
        options = await site.options(grace, "/sign-in/code/passkey", code_page)
        answer = site.device.sign(options)
        assert (await site.post(grace, "/sign-in/code/passkey", code_page, credential=answer)).status_code == 403


@pytest.mark.promise("second-factor")
async def test_challenge_works_once_in_time_and_browser(site: Site, clock: ManualClock) -> None:
    async with site.client() as client, site.client() as thief:
        await site.enter(client)
        await site.register(client)
        await client.post("/sign-out", data={"form_token": token_in((await client.get("/account")).text)})
        options = await site.options(client, "/sign-in/passkey")
        form = {"credential": site.device.sign(options)}
        assert (await thief.post("/sign-in/passkey", data=form)).status_code == 403  # without the cookie
        await site.options(thief, "/sign-in/passkey")
        assert (await thief.post("/sign-in/passkey", data=form)).status_code == 403  # with another challenge
        assert (await client.post("/sign-in/passkey", data=form)).status_code == 303
        replayed = await client.post("/sign-in/passkey", data=form)
        assert (replayed.status_code, "was already used" in replayed.text) == (403, True)
    async with site.client() as client:
        options = await site.options(client, "/sign-in/passkey")
        clock.advance(CHALLENGE_AGE)
        assert (
            await client.post("/sign-in/passkey", data={"credential": site.device.sign(options)})
        ).status_code == 403
        await site.enter(client)
        code = await site.options(client, "/sign-in/code/passkey", "/sign-in/code")
        answer = site.device.sign(code, is_verified=False)  # A second factor is no sign-in.
        assert (await client.post("/sign-in/passkey", data={"credential": answer})).status_code == 403


@pytest.mark.promise("second-factor")
async def test_wrong_answers_of_devices_are_refused(site: Site) -> None:
    async with site.client() as client:
        await site.enter(client)
        await site.register(client)
    good = site.device
    async with site.client() as client:
        assert (await site.sign_in(client, is_verified=False)).status_code == 403
        assert (await site.sign_in(client, handle=b"another user")).status_code == 403
        for name, value in (("origin", "https://evil.example"), ("host", "evil.example"), ("key", Authenticator().key)):
            before = getattr(good, name)
            setattr(good, name, value)
            assert (await site.sign_in(client)).status_code == 403, name
            setattr(good, name, before)
        for credential in ("", "{}", "[]", '{"rawId": 7}', '{"rawId": "!"}', '{"rawId": "AAAA"}'):
            await site.options(client, "/sign-in/passkey")
            answer = await client.post("/sign-in/passkey", data={"credential": credential})
            assert answer.status_code == 403, credential
        assert not await is_in(client)
        good.count = 5
        assert (await site.sign_in(client)).status_code == 303
        for copied in (5, 4, 0):
            good.count = copied
            refused = await site.sign_in(client)
            assert (refused.status_code, "counter went back" in refused.text) == (403, True)
        good.count = 6
        assert (await site.sign_in(client)).status_code == 303
        await site.engine.users.create("boss", PASSWORD, Role.ADMIN, actor="test")
        await site.engine.users.disable(ADA, actor="boss")
        good.count = 7
        assert (await site.sign_in(client)).status_code == 403
    noted = await list_entries(site.engine.database, tenant_id=None, limit=9, subject=ADA)
    assert [entry.action for entry in noted].count("user_passkey_copied") == 3


@pytest.mark.promise("second-factor")
async def test_registration_needs_password_and_verified_user(site: Site) -> None:
    async with site.client() as client, site.client() as grace:
        await site.enter(client)
        await site.enter(grace, "grace")
        wrong = await site.post(client, "/account/passkeys/options", current="not this one")
        assert (wrong.status_code, wrong.json()["detail"]) == (422, "The current password is wrong.")
        options = await site.options(client, "/account/passkeys", "/account", current=PASSWORD)
        unverified = Authenticator().register(options, is_verified=False)
        assert (await site.post(client, "/account/passkeys", credential=unverified, name="x")).status_code == 403
        credential = site.device.register(options)
        assert (await site.post(client, "/account/passkeys", credential=credential, name=" ")).status_code == 422
        assert (await site.post(client, "/account/passkeys", credential=credential, name="x")).status_code == 200
        assert (await site.post(client, "/account/passkeys", credential=credential, name="x")).status_code == 403
        assert (await site.register(grace)).status_code == 409  # the same device for another user
        form = {"form_token": token_in((await grace.get("/account")).text), "credential": credential, "name": "x"}
        session, challenge = "__Host-mailwright", "__Host-mailwright-passkey"
        mixed = f"{session}={grace.cookies[session]}; {challenge}={client.cookies[challenge]}"
        grace.cookies.clear()
        answer = await grace.post("/account/passkeys", data=form, headers={"Cookie": mixed})
        assert answer.status_code == 403  # the challenge of another user


@pytest.mark.promise("tenant-isolation")
@pytest.mark.both_engines
async def test_users_rename_and_remove_their_own_passkeys(site: Site) -> None:
    async with site.client() as client, site.client() as grace:
        await site.enter(client)
        await site.register(client)
        await site.enter(grace, "grace")
        [passkey] = await site.engine.passkeys.list_for_user(await site.user())
        path = f"/account/passkeys/{passkey.id}"
        assert (await site.post(grace, f"{path}/rename", name="Mine")).status_code == 404
        assert (await site.post(grace, f"{path}/drop", current=PASSWORD)).status_code == 404
        assert (await site.post(client, f"{path}/rename", name="Phone  <b>")).status_code == 303
        assert "Phone &lt;b&gt;" in (await client.get("/account")).text
        assert (await site.post(client, f"{path}/drop", current="not this one")).status_code == 422
        assert (await site.user()).has_second_factor
        without_password = replace(await site.user(), has_password=False)
        with pytest.raises(NotPossibleNow):  # Nobody could sign in any more.
            await site.engine.passkeys.remove(without_password, passkey.id, actor="ada")
        assert (await site.post(client, f"{path}/drop", current=PASSWORD)).status_code == 303
        assert not (await site.user()).has_second_factor
        assert (await site.enter(client)).headers["location"] == "/"
    async with site.client() as client:
        refused = await site.sign_in(client)
        assert (refused.status_code, "may have been removed" in refused.text) == (403, True)


@pytest.mark.both_engines
async def test_administrator_resets_lost_passkeys_and_sessions(site: Site, database: Database) -> None:
    async with site.client() as ada, site.client() as grace:
        await site.enter(grace, "grace")
        await site.register(grace)
        await site.enter(ada)
        page = "/settings/users/grace"
        assert "192.0.2.1" in (await ada.get(page)).text
        assert (await site.post(ada, f"{page}/sign-out")).status_code == 303
        assert not await is_in(grace)
        assert (await site.post(ada, f"{page}/second-factor/drop")).status_code == 303
        assert (await site.enter(grace, "grace")).headers["location"] == "/"
        other = await tenants.create(database, site.engine.clock, "acme")
        await site.engine.users.create("boss", PASSWORD, Role.ADMIN, tenant_id=other.id, actor="test")
        await site.enter(ada, "boss")
        assert (await site.post(ada, f"{page}/sign-out")).status_code == 404
        assert await is_in(grace)
    noted = await list_entries(database, tenant_id=None, limit=9, subject="grace")
    assert "user_sign_out" in [entry.action for entry in noted]


@pytest.mark.both_engines
async def test_user_signs_out_all_other_sessions(site: Site) -> None:
    async with site.client() as here, site.client() as there, site.client() as grace:
        await site.enter(here)
        await site.enter(there)
        await site.enter(grace, "grace")
        assert (await here.get("/account")).text.count("192.0.2.1") == 2
        assert (await site.post(here, "/account/sessions/end-others")).status_code == 303
        assert [await is_in(each) for each in (here, there, grace)] == [True, False, True]


async def test_passkey_from_a_new_network_is_reported(site: Site) -> None:
    async with site.client() as client, site.client("198.51.100.7") as far:
        await site.enter(client)
        await site.register(client)
        await site.sign_in(client)
        await site.sign_in(far)
    async with site.engine.database.read() as tx:
        rows = await tx.execute(select(messages.c.subject).order_by(messages.c.id))
    subjects = ["A passkey was added to your Mailwright account", "New sign-in to Mailwright"]
    assert [row.subject for row in rows] == subjects


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("url", "is_available"),
    [
        ("https://mail.example", True),
        ("http://localhost:8025", True),
        ("http://127.0.0.1:8025", False),
        ("https://192.0.2.1", False),
        ("http://mail.example", False),
    ],
)
async def test_passkeys_need_a_secure_host_name(
    database: Database, clock: ManualClock, url: str, is_available: bool
) -> None:
    engine = an_engine(database, clock, base_url=url)
    assert engine.passkeys.is_available is is_available
    transport = httpx.ASGITransport(create_app(engine))
    async with httpx.AsyncClient(transport=transport, base_url=url, headers={"Origin": url}) as client:
        assert ("Sign in with a passkey" in (await client.get("/sign-in")).text) is is_available
        assert (await client.post("/sign-in/passkey/options")).status_code == (200 if is_available else 409)


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
async def test_passkeys_can_be_left_to_administrators(site: Site, clock: ManualClock) -> None:
    async with site.client() as grace:
        await site.enter(grace, "grace")
        await site.register(grace)
    own = {"oidc_issuer": "https://login.example.com", "oidc_client_id": "a", "oidc_client_secret": "b"}
    engine = an_engine(site.engine.database, clock, base_url=HOME, **own, oidc_password_sign_in=False)
    strict = Site(engine, site.device)
    async with strict.client() as grace:
        refused = await strict.sign_in(grace)
        assert (refused.status_code, "Only administrators" in refused.text) == (403, True)
        assert not await is_in(grace)
