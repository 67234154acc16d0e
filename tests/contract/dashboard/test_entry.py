"""Access to dashboard pages: sign-in, roles, CSRF protection and API keys, on both engines."""

import re
from dataclasses import dataclass

import httpx
import pyotp
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from sqlalchemy import select

from mailwright.access.failed_sign_ins import ACCOUNT_POLICY, ADDRESS_POLICY
from mailwright.access.roles import ALL_SCOPES, Role, Scope
from mailwright.app.wiring import Engine
from mailwright.domain.clock import MINUTE, ManualClock
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import list_entries
from mailwright.storage.database import Database
from mailwright.storage.tables import failed_sign_ins
from mailwright.web.api.administrator import AdministratorDep
from mailwright.web.app import create_app
from mailwright.web.dashboard import pages
from mailwright.web.dashboard.json_route import JsonRoute
from mailwright.web.dashboard.shell import local_path
from tests.api import a_request, an_engine, client_of

HOME = "http://mail.example"
PASSWORD = "correct horse battery"
PEOPLE = {"ada": Role.ADMIN, "grace": Role.EDITOR, "alan": Role.VIEWER}


@dataclass(frozen=True)
class Site:
    app: FastAPI
    engine: Engine

    def client(self, **headers: str) -> httpx.AsyncClient:
        plain = {"Origin": HOME, "Accept": "text/html"}
        transport = httpx.ASGITransport(self.app)
        return httpx.AsyncClient(transport=transport, base_url=HOME, headers={**plain, **headers})

    async def sign_in(self, client: httpx.AsyncClient, login: str) -> str:
        """Sign in and return the form token."""
        answer = await client.post("/sign-in", data={"login": login, "password": PASSWORD})
        assert answer.status_code == 303, answer.text
        return token_in((await client.get("/account")).text)


def token_in(page: str) -> str:
    found = re.search(r'name="form_token" value="([\w-]{43})"', page)
    assert found is not None
    return found[1]


@pytest.fixture
async def site(database: Database, clock: ManualClock) -> Site:
    engine = an_engine(database, clock, base_url=HOME)
    app = create_app(engine)

    @app.post("/only-administrators")
    async def only(administrator: AdministratorDep) -> str:
        return administrator.actor

    for login, role in PEOPLE.items():
        await engine.users.create(login, PASSWORD, role, actor="test")
    return Site(app, engine)


def routes(route_class: type[APIRoute] = APIRoute) -> list[tuple[str, str]]:
    """Every page and form of a class except sign-in and the first administrator."""
    public_paths = ("/assets/", "/sign-in", "/set-up$", "/settings$")
    found = []
    for router in pages.ROUTERS:
        for route in router.routes:
            assert isinstance(route, APIRoute)
            if not isinstance(route, route_class):
                continue
            path = re.sub(r"{\w+}", "1", route.path)
            if not re.match("|".join(public_paths), path):
                found += [(method, path) for method in sorted(route.methods or ()) if method != "HEAD"]
    return found


async def test_every_page_and_form_requires_sign_in(site: Site) -> None:
    called_by_scripts = routes(JsonRoute)
    async with site.client() as client:
        for method, path in routes():
            answer = await client.request(method, path)
            if (method, path) in called_by_scripts:
                assert answer.status_code == 401, (method, path)
            else:
                assert answer.status_code == 303, (method, path)
                assert answer.headers["location"].startswith("/sign-in"), (method, path)
    assert len(routes()) > 15


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)  # Refused without the database.
async def test_every_form_rejects_cross_site_requests(site: Site) -> None:
    async with site.client() as client:
        token = await site.sign_in(client, "ada")
        for method, path in routes():
            if method == "GET":
                continue
            refused = [
                await client.request(method, path),
                await client.request(method, path, data={"form_token": "x" * 43}),
                await client.request(
                    method, path, data={"form_token": token}, headers={"Origin": "https://evil.example"}
                ),
                await client.request(method, path, data={"form_token": token}, headers={"Origin": "null"}),
            ]
            assert [answer.status_code for answer in refused] == [403] * 4, path
        # Nothing was changed: the session still exists.
        assert (await client.get("/account")).status_code == 200


async def test_old_failed_sign_ins_are_deleted_regularly(site: Site, clock: ManualClock) -> None:
    async with site.client() as client:
        await client.post("/sign-in", data={"login": "ada", "password": "not the password"})
    clock.advance(ACCOUNT_POLICY.forgotten_after + 1)
    await site.app.state.run_upkeep()
    async with site.engine.database.read() as tx:
        assert not await tx.execute(select(failed_sign_ins))


async def test_form_token_of_another_session_is_rejected(site: Site) -> None:
    async with site.client() as ours, site.client() as theirs:
        await site.sign_in(ours, "ada")
        token = await site.sign_in(theirs, "grace")
        assert (await ours.post("/sign-out", data={"form_token": token})).status_code == 403
        assert (await theirs.post("/sign-out", headers={"X-Form-Token": token})).status_code == 303


async def test_cross_site_sign_in_is_rejected(site: Site) -> None:
    form = {"login": "ada", "password": PASSWORD}
    async with site.client(Origin="https://evil.example") as client:
        answer = await client.post("/sign-in", data=form)
        assert (answer.status_code, client.cookies) == (403, httpx.Cookies())


@pytest.mark.parametrize("login", ["alan", "grace"])
async def test_settings_require_administrator_role(site: Site, login: str) -> None:
    async with site.client() as client:
        token = await site.sign_in(client, login)
        for method, path in routes():
            if path.startswith(("/settings", "/set-up")):
                answer = await client.request(method, path, headers={"X-Form-Token": token})
                assert answer.status_code == 403, (method, path)
        assert "Settings" not in (await client.get("/")).text
    assert [user.login for user in await site.engine.users.list_all()] == ["ada", "alan", "grace"]


async def test_role_change_applies_to_next_request(site: Site) -> None:
    await site.engine.users.create("eve", PASSWORD, Role.ADMIN, actor="test")
    async with site.client() as client:
        await site.sign_in(client, "eve")
        assert (await client.get("/settings/users")).status_code == 200
        await site.engine.users.change_role("eve", Role.VIEWER, actor="ada")
        assert (await client.get("/settings/users")).status_code == 403


async def test_session_has_api_access_of_its_role(site: Site) -> None:
    asked = a_request(to="reader@example.com")
    async with site.client() as client:
        token = await site.sign_in(client, "alan")
        assert (await client.get("/v1/email")).status_code == 200
        refused = await client.post("/v1/email/send", json=asked, headers={"X-Form-Token": token})
        assert (refused.status_code, refused.json()["code"]) == (403, "FORBIDDEN")
    async with site.client() as client:
        token = await site.sign_in(client, "grace")
        without = await client.post("/v1/email/send", json=asked)
        assert (without.status_code, without.json()["code"]) == (403, "NOT_FROM_HERE")
        assert (await client.post("/v1/email/send", json=asked, headers={"X-Form-Token": token})).status_code == 202


async def test_administrator_session_opens_admin_routes(site: Site) -> None:
    async with site.client() as client:
        token = await site.sign_in(client, "ada")
        assert (await client.post("/only-administrators")).status_code == 403
        answer = await client.post("/only-administrators", headers={"X-Form-Token": token})
        assert (answer.status_code, answer.json()) == (200, "ada")
    async with site.client() as client:
        token = await site.sign_in(client, "grace")
        assert (await client.post("/only-administrators", headers={"X-Form-Token": token})).status_code == 403


@pytest.mark.promise("tenant-isolation")
async def test_tenant_administrator_cannot_reach_other_tenants(site: Site, clock: ManualClock) -> None:
    bakery = await tenants.create(site.engine.database, clock, "bakery")
    await site.engine.users.create("baker", PASSWORD, Role.ADMIN, tenant_id=bakery.id, actor="ada")
    async with site.client() as client:
        token = await site.sign_in(client, "baker")
        shown = await client.get("/settings/users")
        assert "baker" in shown.text
        assert "grace" not in shown.text
        form = {"form_token": token}
        for path in ("/settings/users/grace/disable", "/settings/users/grace/role", "/settings/users/grace/password"):
            assert (await client.post(path, data={**form, "role": "admin", "password": PASSWORD})).status_code == 404
        assert (await client.post("/settings/limits", data={**form, "daily_limit": "9"})).status_code == 403
        assert (await client.post("/tenant", data={**form, "tenant": "default"})).status_code == 404
        made = {"login": "helper", "password": PASSWORD, "role": "viewer", "home": ""}
        assert (await client.post("/settings/users", data={**form, **made})).status_code == 303
    assert (await site.engine.users.find("helper")).tenant_id == bakery.id


async def test_pages_forbid_inline_scripts_and_styles(site: Site) -> None:
    async with site.client() as client:
        await site.sign_in(client, "ada")
        for path in ("/sign-in", "/", "/account", "/settings/users"):
            answer = await client.get(path, follow_redirects=True)
            policy = answer.headers["content-security-policy"]
            assert "unsafe" not in policy
            assert "default-src 'none'" in policy
            assert "frame-ancestors 'none'" in policy
            assert answer.headers["cache-control"] == "no-store"
            assert not re.search(r"<[^>]+\s(style|on\w+)=", answer.text), path
            assert not re.search(r"<script(?![^>]*\ssrc=)", answer.text), path


@pytest.mark.promise("account-links")
@pytest.mark.both_engines
async def test_sign_in_link_asks_first_and_works_once(site: Site) -> None:
    ada = await site.engine.users.find("ada")
    token = await site.engine.sessions.open_link(ada, agent="test")
    async with site.client() as client:
        shown = await client.get("/sign-in/link", params={"token": token})
        assert "Sign in as ada" in shown.text
        assert "set-cookie" not in shown.headers
        foreign = await client.post("/sign-in/link", data={"token": token}, headers={"Origin": "https://evil.example"})
        assert foreign.status_code == 403
        # The token of a link is not the token of a session.
        as_cookie = await client.get("/account", headers={"Cookie": f"mailwright={token}"})
        assert as_cookie.headers["location"].startswith("/sign-in")
        entered = await client.post("/sign-in/link", data={"token": token})
        assert (entered.status_code, entered.headers["location"]) == (303, "/")
        assert (await client.get("/account")).status_code == 200
    async with site.client() as client:
        for again in (
            await client.get("/sign-in/link", params={"token": token}),
            await client.post("/sign-in/link", data={"token": token}),
        ):
            assert again.status_code == 404
            assert "already used" in again.text


@pytest.mark.parametrize("path", ["/sign-in/code", "/sign-in?next=/sign-in/code", "/sign-in/code?next=/sign-in/code"])
async def test_sign_in_pages_never_loop_when_signed_in(site: Site, path: str) -> None:
    async with site.client() as client:
        await site.sign_in(client, "ada")
        answer = await client.get(path)
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        assert (await client.post("/sign-in/code", data={"code": "123456"})).headers["location"] == "/"


@pytest.mark.promise("content-injection")
@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("mail.example", 303),
        ("evil.example", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example:80", 403),
        ("127.0.0.1:8025", 303),
        ("[::1]:8025", 303),
        ("localhost:8025", 303),
        ("192.168.1.20:8025", 303),
    ],
)
async def test_only_own_or_numeric_hosts_are_own_origins(site: Site, host: str, status: int) -> None:
    async with site.client() as client:
        answer = await client.post(
            "/sign-in",
            data={"login": "ada", "password": PASSWORD},
            headers={"Host": host, "Origin": f"http://{host}"},
        )
    assert answer.status_code == status


async def test_session_cookie_is_http_only_and_same_site(site: Site, clock: ManualClock) -> None:
    async with site.client() as client:
        plain = await client.post("/sign-in", data={"login": "ada", "password": PASSWORD})
    database = site.engine.database
    behind_tls = create_app(an_engine(database, clock, base_url="https://mail.example"))
    async with client_of(behind_tls) as client:
        secure = await client.post(
            "/sign-in", data={"login": "ada", "password": PASSWORD}, headers={"Origin": "https://mail.example"}
        )
    assert re.fullmatch(r"mailwright=[\w-]{43}; HttpOnly; Path=/; SameSite=lax", plain.headers["set-cookie"])
    assert re.fullmatch(
        r"__Host-mailwright=[\w-]{43}; HttpOnly; Path=/; SameSite=lax; Secure", secure.headers["set-cookie"]
    )


@pytest.mark.promise("session-revoked")
async def test_too_many_wrong_passwords_block_sign_in_page(site: Site) -> None:
    async with site.client() as client:
        wrong = {"login": "ada", "password": "wrong wrong wrong"}
        answers = [await client.post("/sign-in", data=wrong) for _ in range(ADDRESS_POLICY.free_failures + 1)]
        right = await client.post("/sign-in", data={"login": "ada", "password": PASSWORD})
    assert [answer.status_code for answer in answers] == [*[401] * ADDRESS_POLICY.free_failures, 429]
    assert right.status_code == 429
    assert "Try again in" in right.text


async def test_sign_ins_and_failures_are_in_the_audit_log(site: Site, clock: ManualClock) -> None:
    acme = await tenants.create(site.engine.database, clock, "acme", actor="test")
    user = await site.engine.users.create("eve", PASSWORD, Role.ADMIN, tenant_id=acme.id, actor="test")
    secret = await site.engine.second_factors.begin(user)
    await site.engine.second_factors.confirm(user, pyotp.TOTP(secret).at(clock.now() // 1000))
    async with site.client() as client:
        for login, password in (("eve", "not her password"), (PASSWORD, "x"), ("eve", PASSWORD)):
            await client.post("/sign-in", data={"login": login, "password": password})
        form = {"form_token": token_in((await client.get("/sign-in/code")).text)}
        await client.post("/sign-in/code", data={**form, "code": "000000"})
        clock.advance(MINUTE)
        code = pyotp.TOTP(secret).at(clock.now() // 1000)
        assert (await client.post("/sign-in/code", data={**form, "code": code})).status_code == 303
        await client.get("/sign-in/oidc/callback")
        await client.post("/sign-in/passkey", data={"credential": "{}"})
        page = await client.get("/settings/audit-log")
        assert ("identity provider" in page.text, "unknown user" in page.text) == (False, False)  # not of her tenant
    noted = [
        each for each in await list_entries(site.engine.database, tenant_id=None, limit=9) if "method" in each.detail
    ]
    assert [(each.action, each.subject, each.tenant_id, each.detail["method"]) for each in reversed(noted)] == [
        ("user_sign_in_failed", "eve", acme.id, "password"),
        ("user_sign_in_failed", "unknown user", None, "password"),
        ("user_sign_in_failed", "eve", acme.id, "code"),
        ("user_sign_in", "eve", acme.id, "code"),
        ("user_sign_in_failed", "unknown user", None, "passkey"),
    ]
    assert PASSWORD not in repr(noted)


async def test_failures_without_a_user_cannot_fill_the_audit_log(site: Site) -> None:
    async with site.client() as client:
        for _ in range(2 * ADDRESS_POLICY.free_failures):
            await client.post("/sign-in/passkey", data={"credential": "{}"})
    noted = await list_entries(site.engine.database, tenant_id=None, limit=99, subject="unknown user")
    assert len(noted) == ADDRESS_POLICY.free_failures


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("/campaigns/1?x=2", "/campaigns/1?x=2"),
        (None, "/"),
        ("//evil.example", "/"),
        ("https://evil.example", "/"),
        ("/\\evil.example", "/"),
        ("javascript:alert(1)", "/"),
        ("/a\nb", "/"),
    ],
)
def test_redirect_target_is_always_local(given: str | None, taken: str) -> None:
    assert local_path(given) == taken


@pytest.mark.promise("api-key-scopes")
async def test_api_key_is_limited_to_its_scopes(site: Site) -> None:
    keys = {scope: await site.engine.keys.create(1, scope, frozenset({scope})) for scope in ALL_SCOPES}
    asked = {
        Scope.SEND: ("POST", "/v1/email/send", a_request()),
        Scope.EVENTS: ("POST", "/v1/events", {"event": "bought", "email": "reader@example.com"}),
        Scope.READ: ("GET", "/v1/email", None),
        Scope.PROPOSE: (
            "POST",
            "/v1/campaigns",
            {"name": "June", "content": {"subject": "News", "body": "<p>News</p>"}},
        ),
        Scope.MANAGE: ("POST", "/v1/lists", {"listKey": "news"}),
    }
    included = {
        Scope.SEND: {Scope.SEND},
        Scope.EVENTS: {Scope.EVENTS},
        Scope.READ: {Scope.READ},
        Scope.PROPOSE: {Scope.READ, Scope.PROPOSE},
        Scope.MANAGE: {Scope.READ, Scope.PROPOSE, Scope.EVENTS, Scope.MANAGE},
    }
    for scope, key in keys.items():
        async with client_of(site.app, key) as client:
            for needed, (method, path, body) in asked.items():
                answer = await client.request(method, path, json=body)
                if needed in included[scope]:
                    assert answer.is_success, (scope, needed, answer.text)
                else:
                    assert (answer.status_code, answer.json()["code"]) == (403, "FORBIDDEN"), (scope, needed)


@pytest.mark.promise("api-key-scopes")
async def test_key_without_a_scope_is_refused(site: Site) -> None:
    async with site.client() as client:
        form = {"form_token": await site.sign_in(client, "ada"), "name": "shop"}
        answer = await client.post("/settings/keys", data=form)
    assert "Choose at least one scope." in answer.text
    assert await site.engine.keys.list_all(1) == []


@pytest.mark.promise("api-key-scopes")
async def test_api_key_is_created_shown_once_and_revoked(site: Site) -> None:
    async with site.client() as client:
        token = await site.sign_in(client, "ada")
        form = {"form_token": token, "name": "shop", "scope": "send"}
        made = re.search(r"<code>(mw_[\w-]{43})</code>", (await client.post("/settings/keys", data=form)).text)
        assert made is not None
        assert made[1] not in (await client.get("/settings/keys")).text
        [key] = await site.engine.keys.list_all(1)
        assert (key.name, key.scopes) == ("shop", frozenset({Scope.SEND}))
        await client.post(f"/settings/keys/{key.id}/revoke", data={"form_token": token})
        async with client_of(site.app, made[1]) as program:
            assert (await program.post("/v1/email/send", json=a_request())).status_code == 401
    found = await list_entries(site.engine.database, tenant_id=1, limit=5)
    assert [entry.action for entry in found] == ["key_revoke", "key_create"]
    assert made[1] not in str(found)


@pytest.mark.promise("sender-domains")
async def test_key_pair_with_senders_is_created_in_the_dashboard(site: Site) -> None:
    async with site.client() as client:
        form = {"form_token": await site.sign_in(client, "ada"), "name": "shop", "scope": "send", "ses": "yes"}
        refused = await client.post("/settings/keys", data={**form, "sender": "news@example.com example"})
        assert "neither an address" in refused.text
        assert "news@example.com example" in refused.text
        assert await site.engine.keys.list_all(1) == []
        made = await client.post("/settings/keys", data={**form, "sender": "News@example.com\r\n@example.org"})
    pair = re.findall(r"<code>((?:mw_|MWAK)[\w-]+)</code>", made.text)
    assert len(pair) == 2
    assert await site.engine.keys.find_key(pair[0]) == pair[1]
    [key] = await site.engine.keys.list_all(1)
    assert key.senders is not None
    assert key.senders.entries == {"news@example.com", "@example.org"}


async def test_limits_are_saved_and_errors_appear_beside_fields(site: Site) -> None:
    async with site.client() as client:
        token = await site.sign_in(client, "ada")
        form = {"form_token": token, "rate_per_hour": "1200", "working_hours": "09:00-18:00"}
        assert (await client.post("/settings/limits", data=form)).status_code == 303
        for field, value in (("daily_limit", "many"), ("working_hours", "late"), ("timezone", "Nowhere/City")):
            answer = await client.post("/settings/limits", data={**form, field: value})
            assert answer.status_code == 422
            assert f'id="{field}-error"' in answer.text
    tenant = await tenants.find(site.engine.database, "default")
    assert (tenant.rate_per_hour, tenant.working_hours, tenant.daily_limit) == (1200, "09:00-18:00", None)


async def test_asset_is_cached_only_under_its_fingerprint(site: Site) -> None:
    async with site.client() as client:
        page = (await client.get("/sign-in")).text
        found = re.search(r'href="(/assets/\w+/shell\.css)"', page)
        assert found is not None
        asset = await client.get(found[1], headers={"Accept-Encoding": "gzip"})
        assert (asset.headers["cache-control"], asset.headers["content-encoding"]) == (
            "public, max-age=31536000, immutable",
            "gzip",
        )
        assert (await client.get("/assets/old/shell.css")).headers["cache-control"] == "no-cache"


async def test_interface_font_is_served_uncompressed_and_cached_forever(site: Site) -> None:
    async with site.client() as client:
        page = await client.get("/sign-in")
        sheet = re.search(r'href="(/assets/\w+)/inter\.css"', page.text)
        assert sheet
        assert "font-src 'self'" in page.headers["content-security-policy"]
        fonts = re.findall(r'url\("([^"]+)"\)', (await client.get(f"{sheet[1]}/inter.css")).text)
        assert len(fonts) == 3
        for each in fonts:
            font = await client.get(f"{sheet[1]}/{each}", headers={"Accept-Encoding": "gzip"})
            assert font.content[:4] == b"wOF2"
            assert (font.headers["content-type"], font.headers.get("content-encoding")) == ("font/woff2", None)
            assert "immutable" in font.headers["cache-control"]
        assert "SIL OPEN FONT LICENSE" in (await client.get("/assets/any/LICENSES.txt")).text
        for name in ("nothing.css", "..%2Fshell.py", "shell.py"):
            assert (await client.get(f"/assets/x/{name}")).status_code == 404


async def test_overview_returns_json_to_api_clients(site: Site) -> None:
    async with site.client(Accept="application/json") as client:
        assert (await client.get("/")).json()["service"] == "Mailwright"
