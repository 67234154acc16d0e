"""Sign-in with an identity provider, over real sockets and on both engines."""

import base64
import hmac
import json
import re
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import jwt
import pyotp
import pytest
from sqlalchemy import select

from mailwright.access.challenges import CHALLENGE_AGE
from mailwright.access.oidc_settings import oidc_settings
from mailwright.access.roles import Role
from mailwright.access.users import User
from mailwright.app.oidc import KEYS_INTERVAL, OidcClient
from mailwright.app.verify import verify
from mailwright.app.wiring import Engine
from mailwright.checks.oidc import check_oidc
from mailwright.domain.clock import ManualClock, SystemClock
from mailwright.domain.errors import ConfigurationInvalid, NotPossibleNow
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import list_entries
from mailwright.storage.database import Database
from mailwright.storage.tables import messages
from mailwright.web.app import create_app
from tests.api import an_engine
from tests.builders import a_tenant, settings_for
from tests.standins.http import BROKEN_JSON, EMPTY, HTML, WRONG_JSON, Answer, Step, a_large_answer
from tests.standins.issuer import CLIENT, IssuerStandIn, public_pem

HOME = "http://mail.example"
PASSWORD = "correct horse battery"
ADA = "ada@example.com"
CALLBACK = "/sign-in/oidc/callback"


@dataclass(frozen=True)
class Site:
    engine: Engine
    issuer: IssuerStandIn

    def client(self, host: str = "192.0.2.1") -> httpx.AsyncClient:
        transport = httpx.ASGITransport(create_app(self.engine), client=(host, 1234))
        headers = {"Origin": HOME, "Accept": "text/html"}
        return httpx.AsyncClient(transport=transport, base_url=HOME, headers=headers)

    async def sign_in(self, client: httpx.AsyncClient, path: str = "/sign-in/oidc", **changes: str) -> httpx.Response:
        """Go to the provider and come back. `changes` change the query of the callback."""
        sent = await client.get(path)
        assert sent.status_code == 303, sent.text
        answer = {**self.issuer.authorize(sent.headers["location"]), **changes}
        return await client.get(CALLBACK, params=answer)

    async def user(self, login: str = ADA) -> User:
        return await self.engine.users.find(login)


@pytest.fixture
async def issuer(clock: ManualClock) -> AsyncIterator[IssuerStandIn]:
    async with IssuerStandIn(clock) as issuer:
        yield issuer
        assert not issuer.violations


@asynccontextmanager
async def a_site(database: Database, clock: ManualClock, issuer: IssuerStandIn, **changes: Any) -> AsyncIterator[Site]:
    engine = an_engine(database, clock, base_url=HOME, **issuer.settings(**changes))
    await engine.users.create("boss", PASSWORD, Role.ADMIN, actor="test")
    yield Site(engine, issuer)
    assert engine.oidc is not None
    await engine.oidc.close()


@pytest.fixture
async def site(database: Database, clock: ManualClock, issuer: IssuerStandIn) -> AsyncIterator[Site]:
    """A provider whose group `staff` edits in all tenants."""
    issuer.claims["groups"] = ["staff"]
    async with a_site(database, clock, issuer, oidc_roles="staff=editor@*") as site:
        yield site


def token_in(page: str) -> str:
    found = re.search(r'name="form_token" value="([\w-]{43})"', page)
    assert found is not None
    return found[1]


def error_in(answer: httpx.Response) -> str:
    found = re.search(r'id="form-error"[^>]*>.*?</svg>([^<]+)', answer.text, re.DOTALL)
    return found[1].strip() if found else ""


@contextmanager
def a_real_provider(subject: str, **claims: Any) -> Iterator[str]:
    """Run a provider of PyPI in a thread and return its issuer."""
    with warnings.catch_warnings(record=True):  # It uses a deprecated module.
        import oidc_provider_mock  # noqa: PLC0415
    people = [oidc_provider_mock.User(sub=subject, claims=claims)]
    with oidc_provider_mock.run_server_in_thread(user_claims=people) as server:
        yield f"http://localhost:{server.server_port}"


@pytest.mark.promise("oidc-sign-in")
async def test_real_provider_signs_in_a_person(database: Database) -> None:
    with a_real_provider("ada-1", email=ADA, email_verified=True, groups=["staff"]) as issuer:
        own = {"oidc_issuer": issuer, "oidc_client_id": CLIENT, "oidc_client_secret": "secret"}
        engine = an_engine(database, SystemClock(), base_url=HOME, **own, oidc_roles="staff=editor@*")
        transport = httpx.ASGITransport(create_app(engine))
        async with (
            httpx.AsyncClient(transport=transport, base_url=HOME) as client,
            httpx.AsyncClient(timeout=60) as browser,
        ):
            sent = await client.get("/sign-in/oidc?next=/contacts")
            back = await browser.post(sent.headers["location"], data={"sub": "ada-1"})
            answer = await client.get(back.headers["location"])
            assert (answer.status_code, answer.headers["location"]) == (303, "/contacts")
            assert (await client.get("/account")).status_code == 200
        assert engine.oidc is not None
        await engine.oidc.close()
    user = await engine.users.find(ADA)
    assert (user.role, user.has_password, user.tenant_id) == (Role.EDITOR, False, None)


@pytest.mark.promise("oidc-sign-in")
async def test_identity_stays_the_same_user(site: Site, clock: ManualClock) -> None:
    async with site.client() as client:
        assert (await site.sign_in(client)).status_code == 303
        first, before = await site.user(), dict(client.cookies)
        site.issuer.claims |= {"email": "countess@example.com"}
        site.issuer.claims["groups"] = ["other", "staff"]
        assert (await site.sign_in(client)).headers["location"] == "/"
        assert [each.login for each in await site.engine.users.list_all()] == [ADA, "boss"]
        assert (await site.user()).id == first.id
        assert dict(client.cookies) != before  # Each sign-in has a session of its own.
        page = (await client.get("/account")).text
    assert "countess@example.com" in page
    noted = await list_entries(site.engine.database, tenant_id=None, limit=9, subject=ADA)
    found = {entry.detail.get("method", entry.action) for entry in noted}
    assert found == {"user_identity", "user_create", "identity provider"}


# What a token may not say, and the word in the message that names it.
WRONG_CLAIMS = {
    "nonce": {"nonce": "of another sign-in"},
    "no nonce": {"nonce": None},
    "aud": {"aud": "another-client"},
    "no aud": {"aud": None},
    "azp": {"aud": [CLIENT, "another-client"]},
    "foreign azp": {"azp": "another-client"},
    "iss": {"iss": "https://evil.example"},
    "exp": {"exp": 1},
    "no exp": {"exp": None},
    "text exp": {"exp": "tomorrow"},
    "iat": {"iat": 1},
    "future iat": {"iat": 99_999_999_999},
    "nbf": {"nbf": 99_999_999_999},
    "no sub": {"sub": None},
    "number sub": {"sub": ["ada-1"]},
    "huge exp": {"exp": 10**400},
}


@pytest.mark.promise("oidc-sign-in")
@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)  # Refused before the database is used.
async def test_token_with_wrong_claims_is_refused(site: Site) -> None:
    usual = dict(site.issuer.claims)
    async with site.client() as client:
        for name, changes in WRONG_CLAIMS.items():
            site.issuer.claims = usual | changes
            answer = await site.sign_in(client)
            assert answer.status_code == 403, name
            assert f"({name.split()[-1]})" in error_in(answer) or name == "huge exp", (name, error_in(answer))
            assert (await client.get("/account")).status_code == 303, name
    assert [each.login for each in await site.engine.users.list_all()] == ["boss"]


def forged_tokens(issuer: IssuerStandIn, nonce: str) -> dict[str, str]:
    now = issuer.clock.now() // 1000
    claims = {"iss": issuer.url, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": nonce, **issuer.claims}
    head, body, signature = issuer.id_token(nonce).split(".")
    confused = f"{encoded({'alg': 'HS256', 'kid': 'one', 'typ': 'JWT'})}.{body}"
    mac = base64.urlsafe_b64encode(hmac.digest(public_pem("one"), confused.encode(), "sha256")).rstrip(b"=").decode()
    return {
        "alg none": jwt.encode(claims, None, "none"),
        "alg none with a key": jwt.encode(claims, None, "none", headers={"kid": "one"}),
        "public key as secret": f"{confused}.{mac}",
        "client secret": jwt.encode(claims, "x" * 64, "HS256"),
        "no signature": f"{head}.{body}.",
        "other content": f"{head}.{encoded(claims | {'sub': 'boss'})}.{signature}",
        "critical header": issuer.id_token(nonce, crit=["exp"], exp=1),
        "empty": "",
        "no token": "token",
        "deep": f"{encoded('[' * 9)[:-2]}{'W1tb' * 9_000}.{body}.{signature}",
    }


def encoded(content: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()


@pytest.mark.promise("oidc-sign-in")
@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
async def test_token_with_forged_signature_is_refused(site: Site) -> None:
    async with site.client() as client:
        for name in forged_tokens(site.issuer, ""):
            sent = (await client.get("/sign-in/oidc")).headers["location"]
            nonce = parse_qs(urlsplit(sent).query)["nonce"][0]
            site.issuer.token = forged_tokens(site.issuer, nonce)[name]
            answer = await client.get(CALLBACK, params=site.issuer.authorize(sent))
            assert (answer.status_code, (await client.get("/account")).status_code) == (403, 303), name
        site.issuer.token = None
        assert (await site.sign_in(client)).status_code == 303


@pytest.mark.promise("oidc-sign-in")
async def test_callback_works_once_in_the_same_browser(site: Site, clock: ManualClock) -> None:
    async with site.client() as client, site.client() as other:
        sent = (await client.get("/sign-in/oidc")).headers["location"]
        cookies = dict(client.cookies)
        answer = site.issuer.authorize(sent)
        assert (await other.get(CALLBACK, params=answer)).status_code == 403  # without the cookie
        other.cookies.update((await other.get("/sign-in/oidc")).cookies)
        assert (await other.get(CALLBACK, params=answer)).status_code == 403  # with the cookie of another sign-in
        assert (await client.get(CALLBACK, params={**answer, "iss": "https://evil.example"})).status_code == 403
        client.cookies.update(cookies)
        assert (await client.get(CALLBACK, params=answer)).status_code == 303
        other.cookies.update(cookies)
        for code in (answer, site.issuer.authorize(sent)):  # the same code, and a second one of the same sign-in
            assert (await other.get(CALLBACK, params=code)).status_code in (403, 502)
        assert (await other.get("/account")).status_code == 303
        sent = (await other.get("/sign-in/oidc")).headers["location"]
        clock.advance(CHALLENGE_AGE)
        assert (await other.get(CALLBACK, params=site.issuer.authorize(sent))).status_code == 403
    async with site.client() as client:
        assert "access_denied" in error_in(await site.sign_in(client, error="access_denied"))


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
@pytest.mark.parametrize("target", ["https://evil.example", "//evil.example", "/\\evil.example", "/sign-in/oidc"])
async def test_sign_in_never_leads_to_other_sites(site: Site, target: str) -> None:
    async with site.client() as client:
        answer = await site.sign_in(client, str(httpx.URL("/sign-in/oidc", params={"next": target})))
        assert (answer.status_code, answer.headers["location"]) == (303, "/")


DISCOVERY = "/.well-known/openid-configuration"
BROKEN = {
    "error": Answer(500, b"{}"),
    "redirect": Answer(302, b"", {"Location": "https://evil.example/"}),
    "page": HTML,
    "nothing": EMPTY,
    "a list": WRONG_JSON,
    "half": BROKEN_JSON,
    "huge": a_large_answer(size=1024 * 1024),
}


@pytest.mark.promise("oidc-sign-in")
@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
async def test_broken_provider_locks_out_no_administrator(site: Site) -> None:
    assert site.engine.oidc is not None
    async with site.client() as client:
        for path in ("/token", "/keys", DISCOVERY):
            for name, broken in BROKEN.items():
                fresh = OidcClient(site.engine.oidc.settings, site.engine.clock)
                changed = Site(replace(site.engine, oidc=fresh), site.issuer)
                sent = None if path == DISCOVERY else (await client.get("/sign-in/oidc")).headers["location"]
                site.issuer.answer(broken, path=path)
                async with changed.client() as visitor:
                    visitor.cookies.update(client.cookies)
                    answer = (
                        await visitor.get("/sign-in/oidc")
                        if sent is None
                        else await visitor.get(CALLBACK, params=site.issuer.authorize(sent))
                    )
                    assert answer.status_code == 502, (path, name, answer.text)
                    assert "Administrators can sign in with their password." in error_in(answer)
                    form = {"login": "boss", "password": PASSWORD}
                    assert (await visitor.post("/sign-in", data=form)).status_code == 303
                site.issuer.forget_rules()
                await fresh.close()


@pytest.mark.promise("oidc-sign-in")
@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
async def test_silent_provider_is_given_up(site: Site) -> None:
    assert site.engine.oidc is not None
    hurried = OidcClient(site.engine.oidc.settings, site.engine.clock, timeout_seconds=0.05)
    hold = site.issuer.hold(Step.ANSWER)
    async with Site(replace(site.engine, oidc=hurried), site.issuer).client() as client:
        answer = await client.get("/sign-in/oidc")
        assert (answer.status_code, "no response in time" in error_in(answer)) == (502, True)
    hold.release()
    await hurried.close()


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"issuer": "https://evil.example"}, "calls itself"),
        ({"token_endpoint": "http://evil.example/token"}, "no secure URL for token_endpoint"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "no secure URL for authorization_endpoint"),
        ({"jwks_uri": None}, "no secure URL for jwks_uri"),
        ({"token_endpoint_auth_methods_supported": ["private_key_jwt"]}, "supports no client secret"),
    ],
)
@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
async def test_wrong_discovery_document_is_named(site: Site, document: dict[str, Any], problem: str) -> None:
    site.issuer.document = document
    async with site.client() as client:
        answer = await client.get("/sign-in/oidc")
        assert (answer.status_code, problem in error_in(answer)) == (502, True), error_in(answer)


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
async def test_new_keys_are_downloaded_at_most_once_a_minute(site: Site, clock: ManualClock) -> None:
    site.issuer.document = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    async with site.client() as client:
        assert (await site.sign_in(client)).status_code == 303
        site.issuer.signs_with, site.issuer.published = "two", ["two"]
        for _ in range(3):
            assert (await site.sign_in(client)).status_code == 403
        assert site.issuer.begun.count("GET /keys") == 1
        clock.advance(KEYS_INTERVAL)
        assert (await site.sign_in(client)).status_code == 303
        assert site.issuer.begun.count("GET /keys") == 2
        site.issuer.published = ["one"]  # A known key is not downloaded again.
        assert (await site.sign_in(client)).status_code == 303


@pytest.mark.promise("oidc-sign-in")
@pytest.mark.both_engines
async def test_person_without_permission_gets_no_account(
    database: Database, clock: ManualClock, issuer: IssuerStandIn
) -> None:
    async with a_site(database, clock, issuer) as site, site.client() as client:
        unknown = await site.sign_in(client)
        assert (unknown.status_code, "Ask your administrator for an invitation" in error_in(unknown)) == (403, True)
        await site.engine.account_links.invite(ADA, Role.EDITOR, tenant_id=None, actor="boss", sends_email=False)
        issuer.claims["email_verified"] = False
        assert "did not confirm your address" in error_in(await site.sign_in(client))
        issuer.claims["email_verified"] = "true"
        assert (await site.sign_in(client)).status_code == 303
        assert (await site.user()).role is Role.EDITOR
        assert await site.engine.account_links.list_invitations(None) == []
        issuer.claims["sub"] = "somebody else"  # The address was given to another person.
        assert "exists already" in error_in(await site.sign_in(client))
        await site.engine.users.disable(ADA, actor="boss")
        issuer.claims["sub"] = "ada-1"
        assert "is disabled" in error_in(await site.sign_in(client))


async def test_link_of_an_invitation_accepts_any_identity_once(
    database: Database, clock: ManualClock, issuer: IssuerStandIn
) -> None:
    acme = await a_tenant(database, "acme")
    issuer.claims |= {"email": "countess@example.com", "email_verified": None}
    async with a_site(database, clock, issuer) as site, site.client() as client, site.client() as other:
        links = site.engine.account_links
        link = await links.invite(ADA, Role.VIEWER, tenant_id=acme, actor="boss", sends_email=False)
        token = link.partition("token=")[2]
        assert "Continue with Example Corp" in (await client.get(link)).text
        assert (await site.sign_in(client, f"/sign-in/oidc?invitation={token}")).status_code == 303
        issuer.claims["sub"] = "second"
        assert (await site.sign_in(other, f"/sign-in/oidc?invitation={token}")).status_code == 403
    [user] = [each for each in await site.engine.users.list_all() if each.login != "boss"]
    assert (user.role, user.tenant_id, user.email) == (Role.VIEWER, acme, None)  # Nothing proves the address.
    assert user.login.startswith("oidc-")


async def test_existing_user_is_connected_only_if_allowed(
    database: Database, clock: ManualClock, issuer: IssuerStandIn
) -> None:
    async with a_site(database, clock, issuer) as site, site.client() as client:
        made = await site.engine.users.create(ADA, PASSWORD, Role.EDITOR, actor="test")
        assert "exists already" in error_in(await site.sign_in(client))
    allowed = an_engine(database, clock, base_url=HOME, **issuer.settings(oidc_link_existing=True))
    assert allowed.oidc is not None
    site = Site(allowed, issuer)
    async with site.client() as client:
        assert (await site.sign_in(client)).status_code == 303
        assert ((await site.user()).id, (await site.user()).has_password) == (made.id, True)
    await allowed.oidc.close()


@pytest.mark.promise("tenant-isolation")
@pytest.mark.both_engines
async def test_groups_decide_on_role_and_tenant(database: Database, clock: ManualClock, issuer: IssuerStandIn) -> None:
    acme, rules = (
        await a_tenant(database, "acme"),
        "cn=heads,o=x=admin@acme; staff=viewer@acme; root=admin@*; lost=admin@gone",
    )
    async with a_site(database, clock, issuer, oidc_roles=rules, oidc_role_claim="realm.roles") as site:
        async with site.client() as client, site.client() as older:
            issuer.claims["realm"] = {"roles": ["staff", 7]}
            assert (await site.sign_in(client)).status_code == 303
            assert ((await site.user()).role, (await site.user()).tenant_id) == (Role.VIEWER, acme)
            issuer.claims["realm"] = {"roles": ["staff", "cn=heads,o=x"]}
            assert (await site.sign_in(older)).status_code == 303
            assert (await site.user()).role is Role.ADMIN
            assert (await older.get("/settings/users")).status_code == 200
            assert "boss" not in (await older.get("/settings/users")).text
            issuer.claims["realm"] = {"roles": ["root"]}
            assert (await site.sign_in(client)).status_code == 303
            assert ((await site.user()).role, (await site.user()).tenant_id) == (Role.ADMIN, None)
            assert (await older.get("/account")).status_code == 303  # The session of the tenant before has ended.
            for refused in (["lost"], ["nothing"], "x" * 9, {"root": True}, None):
                issuer.claims["realm"] = {"roles": refused}
                assert (await site.sign_in(older)).status_code == 403, refused
        with pytest.raises(NotPossibleNow):  # The other administrator depends on the provider.
            await site.engine.users.disable("boss", actor="test")
        await site.engine.users.change_password(ADA, PASSWORD, actor="test")
        await site.engine.users.disable("boss", actor="test")
        issuer.claims["realm"] = {"roles": ["staff"]}
        async with site.client() as client:  # A group cannot remove the last administrator.
            assert (await site.sign_in(client)).status_code == 303
        assert ((await site.user()).role, (await site.user()).tenant_id) == (Role.ADMIN, None)


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
async def test_unknown_people_of_a_domain_become_viewers(
    database: Database, clock: ManualClock, issuer: IssuerStandIn
) -> None:
    acme = await a_tenant(database, "acme")
    changes = {"oidc_new_user_tenant": "acme", "oidc_email_domains": "example.com, @example.org"}
    async with a_site(database, clock, issuer, **changes) as site, site.client() as client:
        issuer.user_info = {"sub": "ada-1"}
        for email in ("eve@evil.example", "eve@sub.example.com", "no address", None):
            issuer.claims["email"] = email
            assert "verified email address of example.com, example.org" in error_in(await site.sign_in(client))
        issuer.claims["email_verified"] = None
        issuer.user_info |= {"email": "Ada@Example.com", "email_verified": True}
        assert (await site.sign_in(client)).status_code == 303
        assert ((await site.user()).role, (await site.user()).tenant_id) == (Role.VIEWER, acme)
        issuer.user_info["sub"] = "boss"
        assert "another person" in error_in(await site.sign_in(client))


@pytest.mark.promise("second-factor")
async def test_provider_replaces_second_factor_only_if_trusted(
    database: Database, clock: ManualClock, issuer: IssuerStandIn
) -> None:
    issuer.claims |= {"groups": ["staff"], "amr": ["pwd"], "acr": "low"}
    settings = {"oidc_roles": "staff=editor@*", "oidc_second_factor": "mfa, high"}
    async with a_site(database, clock, issuer, **settings) as site, site.client() as client:
        assert (await site.sign_in(client)).status_code == 303
        await tenants.change(database, "default", requires_second_factor=True)
        refused = await client.get("/contacts")
        assert (refused.status_code, refused.headers["location"]) == (303, "/account#second-factor")
        for proof in ({"amr": ["pwd", "mfa"]}, {"acr": "high"}):
            issuer.claims |= {"amr": ["pwd"], "acr": "low"} | proof
            assert (await site.sign_in(client)).status_code == 303
            assert (await client.get("/contacts")).status_code == 200
        secret = await site.engine.second_factors.begin(await site.user())
        code = pyotp.TOTP(secret).at(clock.now() // 1000)
        assert await site.engine.second_factors.confirm(await site.user(), code)
        assert (await site.sign_in(client)).headers["location"] == "/"
        issuer.claims |= {"amr": ["pwd"], "acr": "low"}
        assert (await site.sign_in(client)).headers["location"].startswith("/sign-in/code")
        assert (await client.get("/contacts")).headers["location"].startswith("/sign-in/code")


@pytest.mark.promise("oidc-sign-in")
@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
async def test_passwords_can_be_left_to_administrators(
    database: Database, clock: ManualClock, issuer: IssuerStandIn
) -> None:
    async with a_site(database, clock, issuer, oidc_password_sign_in=False) as site, site.client() as client:
        await site.engine.users.create("grace", PASSWORD, Role.EDITOR, actor="test")
        refused = await client.post("/sign-in", data={"login": "grace", "password": PASSWORD})
        assert (refused.status_code, error_in(refused).split(".")[0]) == (403, "Sign in with Example Corp")
        links = site.engine.account_links
        link = await links.invite(ADA, Role.VIEWER, tenant_id=None, actor="boss", sends_email=False)
        assert 'name="password"' not in (await client.get(link)).text
        form = {"token": link.partition("token=")[2], "login": ADA, "password": PASSWORD}
        assert (await client.post("/sign-in/invitation", data=form)).status_code == 403
        assert (await client.get("/account")).status_code == 303
        assert (await client.post("/sign-in", data={"login": "boss", "password": PASSWORD})).status_code == 303
        assert (await client.get("/account")).status_code == 200


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
async def test_pages_of_the_provider_need_its_settings(database: Database, clock: ManualClock) -> None:
    engine = an_engine(database, clock, base_url=HOME)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(create_app(engine)), base_url=HOME) as client:
        assert [(await client.get(path)).status_code for path in ("/sign-in/oidc", CALLBACK)] == [404, 404]
        assert "Continue with" not in (await client.get("/sign-in")).text


@pytest.mark.promise("oidc-sign-in")
@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
async def test_check_names_the_problem_of_the_provider(
    database: Database, clock: ManualClock, issuer: IssuerStandIn
) -> None:
    async with a_site(database, clock, issuer, oidc_roles="staff=viewer@acme") as site:

        async def found() -> list[tuple[str, str]]:
            return [(each.verdict, each.summary) async for each in check_oidc(site.engine.settings, clock)]

        missing = ("warning", "there is no tenant acme, so its people cannot sign in")
        [works, *more] = await found()
        assert (works[0], f"allow {HOME}{CALLBACK}" in works[1], more) == ("ok", True, [missing])
        issuer.document = {"issuer": "https://login.example.com/"}
        [wrong, _] = await found()
        assert (wrong[0], "Set MAILWRIGHT_OIDC_ISSUER to exactly this" in wrong[1]) == ("problem", True)
        issuer.document, issuer.published = {}, []
        assert "publishes no keys" in (await found())[0][1]
        await issuer.__aexit__(None, None, None)
        assert "cannot be reached" in (await found())[0][1]
        await issuer.__aenter__()


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"oidc_client_secret": None}, "set all of them, or none"),
        ({"oidc_issuer": "http://login.example.com"}, "MAILWRIGHT_OIDC_ISSUER: must be an https"),
        ({"oidc_issuer": "https://user@login.example.com"}, "MAILWRIGHT_OIDC_ISSUER: must be an https"),
        ({"oidc_scopes": "email"}, "MAILWRIGHT_OIDC_SCOPES: must contain openid"),
        ({"oidc_roles": "staff=owner"}, "MAILWRIGHT_OIDC_ROLES: 'staff=owner' is not"),
        ({"oidc_roles": "staff=editor"}, "'staff=editor' names no tenant; write `staff=editor@default` for one"),
        ({"oidc_new_user_tenant": "acme"}, "set MAILWRIGHT_OIDC_EMAIL_DOMAINS too"),
    ],
)
def test_incomplete_settings_are_refused(changes: dict[str, Any], problem: str) -> None:
    complete = {"oidc_issuer": "https://login.example.com", "oidc_client_id": "a", "oidc_client_secret": "b"}
    assert oidc_settings(settings_for("sqlite:///x.db", **complete)) is not None
    with pytest.raises(ConfigurationInvalid, match=re.escape(problem)):
        verify(settings_for("sqlite:///x.db", **complete | changes))


@pytest.mark.both_engines
async def test_user_connects_the_provider_to_their_account(
    database: Database, clock: ManualClock, issuer: IssuerStandIn
) -> None:
    async with a_site(database, clock, issuer) as site, site.client() as client, site.client() as other:
        for each in (client, other):
            await each.post("/sign-in", data={"login": "boss", "password": PASSWORD})
        token = token_in((await client.get("/account")).text)
        wrong = await client.post("/account/identities", data={"form_token": token, "current": "not this one"})
        assert wrong.status_code == 422
        assert (await client.get("/sign-in/oidc?connect=1")).status_code == 403  # not confirmed
        page = await client.post("/account/identities", data={"form_token": token, "current": PASSWORD})
        assert "/sign-in/oidc?connect=1" in page.text
        connected = await site.sign_in(client, "/sign-in/oidc?connect=1")
        assert connected.headers["location"] == "/account"
        await client.post("/sign-out", data={"form_token": token})
        assert (await client.get("/account")).status_code == 303
        assert (await site.sign_in(client)).status_code == 303
        page_text = (await client.get("/account")).text
        assert "boss" in page_text
        assert site.engine.identities is not None
        [identity] = await site.engine.identities.list_for_user(await site.user("boss"))
        drop = f"/account/identities/{identity.id}/drop"
        assert (await client.post(drop, data={"form_token": token_in(page_text)})).status_code == 303
        assert (await client.post(drop, data={"form_token": token_in(page_text)})).status_code == 404
    noted = await list_entries(database, tenant_id=None, limit=9, subject="boss")
    changes = [entry.action for entry in noted if not entry.action.startswith("user_sign_in")]
    assert changes[:2] == ["user_identity_gone", "user_identity"]


async def test_sign_in_from_a_new_network_is_reported(site: Site, clock: ManualClock) -> None:
    async with site.client() as client, site.client("198.51.100.7") as far:
        await site.sign_in(client)
        await site.sign_in(client)
        assert await notices(site) == 0
        await site.sign_in(far)
        assert await notices(site) == 1


async def notices(site: Site) -> int:
    async with site.engine.database.read() as tx:
        rows = await tx.execute(select(messages.c.subject))
    return len([row for row in rows if row.subject == "New sign-in to Mailwright"])
