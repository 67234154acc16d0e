"""Invitations, forgotten passwords and notices about sign-ins, on both engines."""

import re
from dataclasses import dataclass
from email import message_from_bytes, policy
from urllib.parse import quote

import httpx
import pyotp
import pytest
from fastapi import FastAPI
from sqlalchemy import func, select

from mailwright.access.account_links import CONFIRMATION_AGE, INVITATION_AGE, RESET_AGE, RESET_INTERVAL
from mailwright.access.account_notices import AccountNotices, RequestOrigin
from mailwright.access.failed_sign_ins import ADDRESS_POLICY, KNOWN_FOR
from mailwright.access.roles import Role
from mailwright.app.system_emails import render_branded
from mailwright.app.wiring import Engine
from mailwright.audience import suppressions
from mailwright.domain.clock import ManualClock
from mailwright.domain.message import SEALED_LINK_MARK
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import list_entries
from mailwright.storage.database import Database
from mailwright.storage.tables import account_links, contacts, messages
from mailwright.web.app import create_app
from tests.api import an_engine
from tests.builders import Bench, a_tenant
from tests.standins.provider import ScriptedProvider

HOME = "http://mail.example"
PASSWORD = "correct horse battery"
OTHER = "another pile of words"
ADA, GRACE = "ada@example.com", "grace@example.com"


@dataclass(frozen=True)
class Site:
    app: FastAPI
    engine: Engine
    clock: ManualClock
    provider: ScriptedProvider

    def client(self, host: str = "192.0.2.1") -> httpx.AsyncClient:
        transport = httpx.ASGITransport(self.app, client=(host, 1234))
        headers = {"Origin": HOME, "Accept": "text/html", "User-Agent": "Mozilla/5.0 (X11; Linux) Firefox/150.0"}
        return httpx.AsyncClient(transport=transport, base_url=HOME, headers=headers)

    async def sign_in(self, client: httpx.AsyncClient, login: str, password: str = PASSWORD) -> int:
        answer = await client.post("/sign-in", data={"login": login, "password": password})
        return answer.status_code

    async def post(self, client: httpx.AsyncClient, path: str, **fields: str) -> httpx.Response:
        """Send a form with the token of the session."""
        found = re.search(r'name="form_token" value="([\w-]{43})"', (await client.get("/account")).text)
        assert found is not None
        return await client.post(path, data={"form_token": found[1], **fields})

    async def emails(self) -> list[str]:
        """Deliver what is due, and return the texts of all emails that were sent."""
        await Bench(self.engine, self.clock).drain(self.provider)
        parsed = [message_from_bytes(each.content, policy=policy.default) for each in self.provider.messages]
        return [f"{each['To']} {each['Subject']}\n{each.get_body(('plain',)).get_content()}" for each in parsed]

    async def link(self) -> str:
        """Return the path of the link in the latest email."""
        found = re.search(rf"{HOME}(/\S+token=\S+)", (await self.emails())[-1])
        assert found is not None
        return found[1]


@pytest.fixture
async def site(database: Database, clock: ManualClock) -> Site:
    engine = an_engine(database, clock, base_url=HOME)
    await engine.users.create(ADA, PASSWORD, Role.ADMIN, actor="test")
    return Site(create_app(engine), engine, clock, ScriptedProvider())


def token_of(path: str) -> str:
    return path.partition("token=")[2]


@pytest.mark.promise("account-links")
async def test_invited_person_creates_their_account_once(site: Site) -> None:
    async with site.client() as ada, site.client() as grace:
        await site.sign_in(ada, ADA)
        answer = await site.post(ada, "/settings/invitations", email="Grace@Example.com", role="editor", by="email")
        assert answer.status_code == 303
        link = await site.link()
        assert GRACE in (await ada.get("/settings/users")).text
        page = (await grace.get(link)).text
        assert "with the role editor" in page
        assert f'value="{GRACE}"' in page
        form = {"token": token_of(link), "login": GRACE, "password": "short"}
        refused = await grace.post("/sign-in/invitation", data=form)
        assert (refused.status_code, "10 to 200 characters" in refused.text) == (422, True)
        for address in (ADA, "somebody@example.com"):
            foreign = await grace.post("/sign-in/invitation", data=form | {"login": address, "password": OTHER})
            assert (foreign.status_code, f"must be the invited address, {GRACE}" in foreign.text) == (422, True)
        await site.engine.users.create("taken", PASSWORD, Role.VIEWER, actor="test")
        taken = await grace.post("/sign-in/invitation", data=form | {"login": "taken", "password": OTHER})
        assert (taken.status_code, "already exists" in taken.text) == (422, True)
        entered = await grace.post("/sign-in/invitation", data=form | {"password": OTHER})
        assert (entered.status_code, (await grace.get("/account")).status_code) == (303, 200)
        used = await grace.get(link)
        assert (used.status_code, "<h1>Link not valid</h1>" in used.text) == (404, True)
        again = await grace.post("/sign-in/invitation", data=form | {"login": "second", "password": OTHER})
        assert again.status_code == 404
    user = await site.engine.users.find(GRACE)
    assert (user.role, user.email, user.tenant_id) == (Role.EDITOR, GRACE, None)


@pytest.mark.promise("account-links")
@pytest.mark.both_engines
async def test_invitation_link_ends_or_is_revoked(site: Site) -> None:
    links = site.engine.account_links
    first = await links.invite(GRACE, Role.VIEWER, tenant_id=None, actor=ADA, sends_email=False)
    second = await links.invite(GRACE, Role.VIEWER, tenant_id=None, actor=ADA, sends_email=False)
    assert await site.emails() == []
    async with site.client() as ada, site.client() as grace:
        assert (await grace.get(first)).status_code == 404  # A new invitation replaces the one before.
        assert (await grace.get(second)).status_code == 200
        site.clock.advance(INVITATION_AGE)
        assert (await grace.get(second)).status_code == 404
        await site.sign_in(ada, ADA)
        shown = await site.post(ada, "/settings/invitations", email=GRACE, role="viewer", by="link")
        found = re.search(rf"{HOME}(/sign-in/invitation\?token=[\w-]+)", shown.text)
        assert found is not None
        assert (await grace.get(found[1])).status_code == 200
        [invitation] = await links.list_invitations(None)
        assert (await site.post(ada, f"/settings/invitations/{invitation.id}/revoke")).status_code == 303
        assert (await grace.get(found[1])).status_code == 404


@pytest.mark.promise("tenant-isolation")
async def test_administrator_of_a_tenant_invites_to_it_only(site: Site, database: Database) -> None:
    tenant_id = await a_tenant(database, "acme")
    await site.engine.users.create("boss", PASSWORD, Role.ADMIN, tenant_id=tenant_id, actor="test")
    await site.engine.account_links.invite(GRACE, Role.ADMIN, tenant_id=None, actor=ADA, sends_email=False)
    [other] = await site.engine.account_links.list_invitations(None)
    async with site.client() as boss:
        await site.sign_in(boss, "boss")
        answer = await site.post(
            boss, "/settings/invitations", email="x@example.com", role="admin", home="", by="email"
        )
        assert answer.status_code == 303
        assert GRACE not in (await boss.get("/settings/users")).text
        assert (await site.post(boss, f"/settings/invitations/{other.id}/revoke")).status_code == 404
        # What belongs to the installation is not theirs, in the dashboard and over HTTP.
        assert (await site.post(boss, "/settings/domains/unrestrict")).status_code == 403
        for path in ("providers", "providers/routes", "report-sources", "restricted-tenants"):
            assert (await boss.get(f"/v1/{path}")).status_code == 403, path
    [own] = await site.engine.account_links.list_invitations(tenant_id)
    assert (own.email, own.tenant_id) == ("x@example.com", tenant_id)


@pytest.mark.promise("tenant-isolation")
async def test_access_to_all_tenants_must_be_chosen(site: Site, database: Database) -> None:
    acme = await a_tenant(database, "acme")
    forms: dict[str, dict[str, str]] = {
        "/settings/invitations": {"email": GRACE, "by": "email"},
        "/settings/users": {"login": "grace", "password": OTHER},
        "/set-up/team": {"email": GRACE},
    }
    async with site.client() as ada:
        await site.sign_in(ada, ADA)
        for path, fields in forms.items():
            refused = await site.post(ada, path, role="viewer", **fields)
            assert (refused.status_code, "Choose a tenant, or all tenants." in refused.text) == (422, True), path
        assert await site.engine.account_links.list_invitations(None) == []
        for home in ("acme", "*"):
            await site.post(ada, "/settings/invitations", role="viewer", home=home, **forms["/settings/invitations"])
    found = await site.engine.account_links.list_invitations(None)
    assert {each.tenant_id for each in found} == {acme, None}
    assert [user.login for user in await site.engine.users.list_all()] == [ADA]


@pytest.mark.promise("tenant-isolation")
async def test_invitations_of_tenants_do_not_affect_each_other(site: Site, database: Database) -> None:
    links, tenant_id = site.engine.account_links, await a_tenant(database, "acme")
    first = await links.invite(GRACE, Role.ADMIN, tenant_id=None, actor=ADA, sends_email=False)
    await links.invite(GRACE, Role.VIEWER, tenant_id=tenant_id, actor="boss", sends_email=False)
    await links.invite(ADA, Role.VIEWER, tenant_id=tenant_id, actor="boss", sends_email=False)
    async with site.client() as client:
        assert (await client.get(first)).status_code == 200


@pytest.mark.promise("account-links")
@pytest.mark.parametrize("change", ["disabled", "demoted"])
async def test_former_administrator_leaves_no_open_invitation(site: Site, change: str) -> None:
    users, links = site.engine.users, site.engine.account_links
    await users.create("mallory", PASSWORD, Role.ADMIN, actor="test")
    link = await links.invite(GRACE, Role.ADMIN, tenant_id=None, actor="mallory", sends_email=False)
    if change == "disabled":
        await users.disable("mallory", actor=ADA)
    else:
        await users.change_role("mallory", Role.EDITOR, actor=ADA)
    async with site.client() as client:
        assert (await client.get(link)).status_code == 404


@pytest.mark.parametrize("email", ["", "grace", "grace@", "a@b@c", "grace@example.com\r\nBcc: x@example.com", ADA])
async def test_invalid_or_taken_address_is_not_invited(site: Site, email: str) -> None:
    async with site.client() as ada:
        await site.sign_in(ada, ADA)
        answer = await site.post(ada, "/settings/invitations", email=email, role="viewer", by="email")
    assert answer.status_code == 422
    assert await site.engine.account_links.list_invitations(None) == []


@pytest.mark.promise("account-links")
@pytest.mark.both_engines
async def test_forgotten_password_is_replaced_once(site: Site) -> None:
    async with site.client() as ada, site.client() as forgetful:
        await site.sign_in(ada, ADA)
        answer = await forgetful.post("/sign-in/forgotten", data={"login": "ADA@example.com "})
        link = await site.link()
        assert "a link is on its way" in answer.text
        form = {"token": token_of(link), "password": "short"}
        assert (await forgetful.get(link)).status_code == 200
        assert (await forgetful.post("/sign-in/reset", data=form)).status_code == 422
        assert (await forgetful.post("/sign-in/reset", data=form | {"password": OTHER})).status_code == 303
        assert (await forgetful.post("/sign-in/reset", data=form | {"password": PASSWORD})).status_code == 404
        assert (await ada.get("/account")).status_code == 303  # All sessions ended.
        assert await site.sign_in(forgetful, ADA) == 401
        assert await site.sign_in(forgetful, ADA, OTHER) == 303
    assert "Your Mailwright password was changed" in (await site.emails())[-1]
    actions = {each.action for each in await list_entries(site.engine.database, tenant_id=None, limit=20)}
    assert {"user_reset_request", "user_password"} <= actions


@pytest.mark.promise("account-links")
async def test_reset_link_ends_with_time_and_every_change(site: Site) -> None:
    links, users = site.engine.account_links, site.engine.users
    async with site.client() as client:

        async def is_open() -> bool:
            return (await client.get(link)).status_code == 200

        for change in (
            lambda: users.change_password(ADA, OTHER, actor="test"),
            lambda: users.change_email(ADA, "new@example.com", actor="test"),
            lambda: links.request_reset(ADA),
        ):
            site.clock.advance(RESET_INTERVAL)
            await links.request_reset(ADA)
            link = await site.link()
            assert await is_open()
            site.clock.advance(RESET_INTERVAL)
            await change()
            assert not await is_open()
        link = await site.link()
        site.clock.advance(RESET_AGE)
        assert not await is_open()


async def guess(site: Site, login: str) -> None:
    """Try 80 wrong passwords, each from another network."""
    for number in range(80):
        async with site.client(f"203.0.{number}.1") as stranger:
            assert await site.sign_in(stranger, login, OTHER) in (401, 429)


@pytest.mark.promise("session-revoked")
async def test_mailed_link_lets_the_owner_of_a_blocked_account_in(site: Site) -> None:
    await guess(site, ADA)
    async with site.client("198.51.100.7") as client:
        refused = await client.post("/sign-in", data={"login": ADA, "password": PASSWORD})
        assert refused.status_code == 429
        assert "reset your password with a link by email" in refused.text
        await site.engine.account_links.request_reset(ADA)
        token = token_of(await site.link())
        await client.post("/sign-in/reset", data={"token": token, "password": "a new pile of words"})
        assert await site.sign_in(client, ADA, "a new pile of words") == 303
    async with site.client("198.51.200.7") as stranger:
        assert await site.sign_in(stranger, ADA, OTHER) == 429  # Others stay blocked.


@pytest.mark.promise("session-revoked")
async def test_second_factor_lets_the_owner_of_a_blocked_account_in(site: Site) -> None:
    user = await site.engine.users.find(ADA)
    secret = await site.engine.second_factors.begin(user)
    code = pyotp.TOTP(secret).at(site.clock.now() // 1000)
    await site.engine.second_factors.confirm(await site.engine.users.find(ADA), code)
    site.clock.advance(60_000)
    await guess(site, ADA)
    async with site.client("198.51.100.7") as client:
        entered = await client.post("/sign-in", data={"login": ADA, "password": PASSWORD})
        assert (entered.status_code, entered.headers["location"].split("?")[0]) == (303, "/sign-in/code")
        page = await client.get("/sign-in/code")
        form_token = re.search(r'name="form_token" value="([\w-]{43})"', page.text)
        assert form_token is not None
        wrong = await client.post("/sign-in/code", data={"form_token": form_token[1], "code": "000000"})
        assert wrong.status_code == 401
        right = pyotp.TOTP(secret).at(site.clock.now() // 1000)
        done = await client.post("/sign-in/code", data={"form_token": form_token[1], "code": right})
        assert done.status_code == 303


@pytest.mark.promise("account-links")
async def test_reset_request_reveals_nothing_and_never_floods(site: Site, database: Database) -> None:
    await site.engine.users.create("nomail", PASSWORD, Role.VIEWER, actor="test")
    async with site.client() as client:
        answers = [
            (await client.post("/sign-in/forgotten", data={"login": login})).text
            for login in ("nobody@example.com", "nomail", ADA, ADA, "x" * 5_000)
        ]
        assert len(set(answers)) == 1
        assert len(await site.emails()) == 1
        codes = {
            (await client.post("/sign-in/forgotten", data={"login": f"{n}@example.com"})).status_code
            for n in range(ADDRESS_POLICY.free_failures)
        }
        assert 429 in codes
        assert await site.sign_in(client, ADA) == 303  # Such requests block no sign-in.
    async with database.read() as tx:
        [count] = await tx.execute(select(func.count()).select_from(account_links))
    assert count[0] == 1


@pytest.mark.promise("account-links")
async def test_nobody_reads_a_link_in_the_database_or_dashboard(site: Site, database: Database) -> None:
    await site.engine.users.create("viewer", PASSWORD, Role.VIEWER, actor="test")
    await site.engine.account_links.request_reset(ADA)
    token = token_of(await site.link())
    async with database.read() as tx:
        [message] = await tx.execute(select(messages))
        stored = str(await tx.execute(select(account_links))) + str(message)
    assert token not in stored
    async with site.client() as viewer:
        await site.sign_in(viewer, "viewer")
        for path in ("", "/source.eml", "/frame"):
            page = await viewer.get(f"/messages/{message.outbox_id}{path}")
            assert token not in page.text
            assert page.status_code in (200, 404)
        assert SEALED_LINK_MARK.encode() in (await viewer.get(f"/messages/{message.outbox_id}/source.eml")).content


@pytest.mark.promise("account-links")
async def test_sign_in_from_new_network_is_reported(site: Site) -> None:
    async with site.client() as home, site.client("198.51.100.7") as elsewhere:
        for _ in range(2):
            assert await site.sign_in(home, ADA) == 303
        assert await site.emails() == []
        assert await site.sign_in(elsewhere, ADA, OTHER) == 401
        for _ in range(2):
            assert await site.sign_in(elsewhere, ADA) == 303
    [notice] = await site.emails()
    assert "198.51.100.7, Firefox on Linux" in " ".join(notice.split())
    site.clock.advance(2 * KNOWN_FOR)
    async with site.client("203.0.113.5") as anywhere:
        await site.sign_in(anywhere, ADA)
    assert len(await site.emails()) == 2  # An account that was not used for months has a history, too.


@pytest.mark.promise("account-links")
async def test_new_user_is_warned_from_the_first_network_on(site: Site) -> None:
    link = await site.engine.account_links.invite(GRACE, Role.VIEWER, tenant_id=None, actor=ADA)
    async with site.client() as home, site.client("198.51.100.7") as elsewhere:
        await home.post("/sign-in/invitation", data={"token": token_of(link), "login": GRACE, "password": PASSWORD})
        await site.sign_in(home, GRACE)
        assert len(await site.emails()) == 1
        await site.sign_in(elsewhere, GRACE)
    assert len(await site.emails()) == 2


async def test_account_emails_create_no_contacts_and_show_suppressions(site: Site, database: Database) -> None:
    await site.engine.account_links.request_reset(ADA)
    assert len(await site.emails()) == 1
    async with database.read() as tx:
        assert await tx.execute(select(contacts)) == []
    await suppressions.add(database, site.clock, 1, ADA, reason="complaint", source="test")
    async with site.client() as ada:
        await site.sign_in(ada, ADA)
        assert "Email suppressed" in (await ada.get("/settings/users")).text


@pytest.mark.promise("second-factor")
async def test_required_second_factor_is_set_up_before_anything_else(site: Site) -> None:
    async with site.client() as ada:
        await site.sign_in(ada, ADA)
        assert (await site.post(ada, "/settings/second-factor/required")).status_code == 303
        for path in ("/", "/campaigns", "/settings/users", "/messages"):
            answer = await ada.get(path)
            assert (answer.status_code, answer.headers["location"]) == (303, "/account#second-factor")
        refused = await site.post(ada, "/settings/second-factor/optional")
        assert refused.headers["location"] == "/account#second-factor"
        assert (await ada.get("/v1/campaigns")).status_code == 403
        await site.post(ada, "/account/second-factor")
        secret = await site.engine.second_factors.pending_secret(await site.engine.users.find(ADA))
        code = pyotp.TOTP(secret or "").at(site.clock.now() // 1_000)
        assert (await site.post(ada, "/account/second-factor/confirm", code=code)).status_code == 200
        assert (await ada.get("/campaigns")).status_code == 200
        assert (await site.post(ada, "/settings/second-factor/optional")).status_code == 303
    assert not (await tenants.find(site.engine.database, "default")).requires_second_factor


@pytest.mark.promise("account-links")
async def test_new_address_counts_once_its_user_confirms_it(site: Site) -> None:
    users, new = site.engine.users, "countess@example.com"
    await users.create(GRACE, PASSWORD, Role.ADMIN, actor="test")
    async with site.client() as ada, site.client() as grace, site.client() as nobody:
        await site.sign_in(ada, ADA)
        await site.sign_in(grace, GRACE)
        for password, email in ((OTHER, new), (PASSWORD, "grace"), (PASSWORD, ADA)):
            assert (await site.post(ada, "/account/email", current=password, email=email)).status_code == 422
        assert await site.emails() == []
        assert (await site.post(ada, "/account/email", current=PASSWORD, email=new)).status_code == 303
        request, notice = sorted(await site.emails(), key=lambda each: ADA in each.split()[0])
        assert (request.startswith(f"{new} Confirm"), notice.startswith(f"{ADA} A new email address")) == (True, True)
        assert "192.0.2.1, Firefox on Linux" in " ".join(notice.split())
        again = await site.post(ada, "/account/email", current=PASSWORD, email="other@example.com")
        assert (again.status_code, "five minutes" in again.text) == (422, True)
        found = re.search(rf"{HOME}(/account/\S+)", request)
        assert found is not None
        link, confirm = found[1], {"path": "/account/email/confirm", "token": token_of(found[1])}
        assert (await nobody.get(link)).headers["location"] == f"/sign-in?next={quote(link, safe='')}"
        for answer in (await grace.get(link), await site.post(grace, **confirm)):
            assert (answer.status_code, "belongs to another user. Sign out" in answer.text) == (404, True)
        assert new in (await ada.get(link)).text
        assert (await users.find(ADA)).address == ADA
        assert (await site.post(ada, **confirm)).status_code == 303
        used = await site.post(ada, **confirm)
        assert (used.status_code, "already used" in used.text) == (404, True)
    assert (await users.find(ADA)).address == new
    last = (await site.emails())[-1]
    assert (last.startswith(f"{ADA} The email address"), new in last) == (True, True)


@pytest.mark.promise("account-links")
async def test_link_to_confirm_an_address_ends(site: Site) -> None:
    users, links = site.engine.users, site.engine.account_links

    async def is_open() -> bool:
        return await links.find_requested_address(await users.find(ADA)) == GRACE

    async def wait() -> None:
        site.clock.advance(CONFIRMATION_AGE)

    async with site.client() as ada:
        await site.sign_in(ada, ADA)
        for end in (
            lambda: site.post(ada, "/account/email/cancel"),
            lambda: users.change_password(ADA, PASSWORD, actor="console"),
            lambda: users.change_role(ADA, Role.ADMIN, actor="console"),
            wait,
        ):
            site.clock.advance(RESET_INTERVAL)
            await links.request_address(await users.find(ADA), GRACE)
            assert await is_open()
            await end()
            assert not await is_open()


@pytest.mark.promise("account-links")
async def test_every_change_of_an_account_is_reported(site: Site) -> None:
    engine = site.engine
    await engine.users.create("boss", PASSWORD, Role.ADMIN, actor="test")
    user = await engine.users.find(ADA)
    code = pyotp.TOTP(await engine.second_factors.begin(user)).at(site.clock.now() // 1_000)
    recovery_codes = await engine.second_factors.confirm(user, code)
    assert recovery_codes is not None
    async with site.client() as ada, site.client() as boss:
        await site.sign_in(boss, "boss")
        await site.sign_in(ada, ADA)
        token = re.search(r'name="form_token" value="([\w-]{43})"', (await ada.get("/sign-in/code")).text)
        assert token is not None
        await ada.post("/sign-in/code", data={"form_token": token[1], "code": recovery_codes[0]})
        await site.post(ada, "/account/second-factor/drop", current=PASSWORD)
        await site.post(ada, "/account/password", current=PASSWORD, password=OTHER)
        await site.post(boss, f"/settings/users/{ADA}/role", role="viewer")
        await site.post(boss, f"/settings/users/{ADA}/password", password=PASSWORD)
        await engine.users.change_email(ADA, GRACE, actor="console")
    emails = [" ".join(each.split()) for each in await site.emails()]
    texts = (
        "with a recovery code",
        "needs only a password now",
        "Other sessions were signed out",
        "changed from admin to viewer",
        "by boss",
        f"at {GRACE} and no longer at this address",
    )
    assert [text in email for text, email in zip(texts, emails, strict=True)] == [True] * len(texts)
    assert all(email.startswith(ADA) for email in emails)
    assert "by the command line" in emails[-1]


@pytest.mark.promise("tenant-isolation")
@pytest.mark.both_engines
async def test_tenant_administrator_cannot_give_away_foreign_addresses(site: Site, database: Database) -> None:
    tenant_id = await a_tenant(database, "acme")
    await site.engine.users.create("boss", PASSWORD, Role.ADMIN, tenant_id=tenant_id, actor="test")
    async with site.client() as boss, site.client() as grace:
        await site.sign_in(boss, "boss")
        made = await site.post(boss, "/settings/users", login=GRACE, password=OTHER, role="viewer")
        assert (made.status_code, "without @" in made.text) == (422, True)
        link = await site.engine.account_links.invite(
            GRACE, Role.VIEWER, tenant_id=tenant_id, actor="boss", sends_email=False
        )
        form = {"token": token_of(link), "password": OTHER}
        refused = await grace.post("/sign-in/invitation", data=form | {"login": GRACE})
        assert (refused.status_code, "without @" in refused.text) == (422, True)
        assert (await grace.post("/sign-in/invitation", data=form | {"login": "grace"})).status_code == 303
        assert (await site.engine.users.find("grace")).address is None
        assert (await grace.get(await site.link())).status_code == 200  # She confirms it with a link.


@pytest.mark.parametrize(
    ("language", "invitation", "notice", "reset"),
    [
        ("ru", "Вас приглашают в Mailwright", "Ваша роль в Mailwright изменена", "Сброс пароля Mailwright"),
        ("pt", "Você foi convidado", "Sua função no Mailwright foi alterada", "Redefina sua senha do Mailwright"),
    ],
)
async def test_account_emails_are_in_the_language_of_their_reader(
    site: Site, language: str, invitation: str, notice: str, reset: str
) -> None:
    grace = await site.engine.users.create(GRACE, PASSWORD, Role.EDITOR, actor="test")
    await site.engine.users.change_language(grace, language)
    async with site.client() as client:
        client.headers["Accept-Language"] = language
        await site.sign_in(client, ADA)
        await site.post(client, "/settings/invitations", email="new@example.com", role="editor", by="email")
        client.headers["Accept-Language"] = "en"
        await site.engine.users.change_role(GRACE, Role.VIEWER, actor=ADA)
        await client.post("/sign-in/forgotten", data={"login": GRACE})
    emails = await site.emails()
    for text in (invitation, notice, reset):
        assert [each for each in emails if text in each], text
    roles = {"ru": ("редактор", "наблюдатель"), "pt": ("editor", "leitor")}[language]
    assert all(role in next(each for each in emails if notice in each) for role in roles)
    html = [
        message_from_bytes(each.content, policy=policy.default).get_body(("html",)) for each in site.provider.messages
    ]
    assert any(
        {"ru": "Задать новый пароль", "pt": "Escolher uma nova senha"}[language] in each.get_content() for each in html
    )


async def test_account_email_of_a_command_is_in_installation_language(site: Site) -> None:
    grace = await site.engine.users.create(GRACE, PASSWORD, Role.EDITOR, actor="test")
    notices = AccountNotices(site.engine.database, site.clock, public_url=HOME, render=render_branded, language="pt")
    await notices.notify_sign_in(grace, RequestOrigin("192.0.2.1", "Firefox", "12:00"))
    assert any("Novo acesso ao Mailwright" in each for each in await site.emails())
