"""The brand kit of a tenant on both engines: saved, recorded, isolated, and used on pages and in system emails."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest
from sqlalchemy import select, update

from mailwright.access.roles import Role, Scope
from mailwright.content.brand import DEFAULT_BRAND, Brand
from mailwright.content.brand_store import Brands
from mailwright.content.formats import TemplateFormat
from mailwright.content.template_store import TemplateDraft
from mailwright.domain.clock import ManualClock
from mailwright.outbox.audit_log import list_entries
from mailwright.storage.database import Database
from mailwright.storage.tables import messages, tenants
from tests.api import Api, an_api, client_of, proof_of_work
from tests.pages import PASSWORD, a_visit
from tests.pictures import a_png

ACME = Brand(name="Acme <b>& Co</b>", primary="#ffe600", postal_address="1 Main Street\nLisbon")


@pytest.fixture
async def api(database: Database, clock: ManualClock, tmp_path: Path) -> AsyncIterator[Api]:
    async with an_api(database, clock, images=tmp_path / "images") as api:
        yield api


async def test_brand_is_saved_recorded_and_isolated(api: Api, database: Database) -> None:
    body = ACME.model_dump(mode="json", by_alias=True)
    saved = await api.client.put("/v1/brand", json=body)
    assert (saved.status_code, saved.json()["brand"]) == (200, body)
    assert [each["field"] for each in saved.json()["warnings"]] == ["primary"]
    assert (await api.client.get("/v1/brand")).json() == saved.json()
    [entry] = await list_entries(database, tenant_id=1, limit=5)
    assert (entry.action, entry.detail) == ("brand.change", {"changed": ["name", "primary", "postal_address"]})
    assert (await api.stranger.get("/v1/brand")).json()["brand"]["name"] == ""
    assert (await api.anonymous.get("/v1/brand")).status_code == 401


@pytest.mark.parametrize(("role", "status"), [(Role.VIEWER, 403), (Role.EDITOR, 403), (Role.ADMIN, 200)])
async def test_only_administrators_change_the_brand(api: Api, role: Role, status: int) -> None:
    await api.engine.users.create("grace", PASSWORD, role, actor="test")
    body = ACME.model_dump(mode="json", by_alias=True)
    async with a_visit(api.app, "grace") as grace:
        token = re.search(r'name="form_token" value="([\w-]{43})"', (await grace.open("/account")).text)
        assert token is not None
        answer = await grace.client.put("/v1/brand", json=body, headers={"X-Form-Token": token[1]})
        assert answer.status_code == status
        assert (await grace.client.get("/v1/brand")).status_code == 200
    assert (await api.engine.brands.load(1) == ACME) == (status == 200)


async def test_brand_needs_the_manage_scope(api: Api) -> None:
    body = ACME.model_dump(mode="json", by_alias=True)
    for scope in (Scope.SEND, Scope.READ, Scope.PROPOSE):
        key = await api.engine.keys.create(1, scope, frozenset([scope]))
        async with client_of(api.app, key) as limited:
            refused = await limited.put("/v1/brand", json=body)
        assert (refused.status_code, refused.json()["code"]) == (403, "FORBIDDEN"), scope
    assert await api.engine.brands.load(1) == DEFAULT_BRAND


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"primary": "red"}, "primary"),
        ({"font": "Comic Sans"}, "font"),
        ({"logoUrl": "javascript:x"}, "logoUrl"),
        ({"social": [{"network": "x", "href": "data:x"}]}, "social[0].href"),
        ({"colour": "#fff"}, "colour"),
    ],
)
async def test_invalid_brand_names_its_field(api: Api, body: dict[str, object], field: str) -> None:
    refused = await api.client.put("/v1/brand", json=body)
    assert refused.status_code == 422
    assert [each["field"] for each in refused.json()["errors"]] == [field]
    assert await api.engine.brands.load(1) == DEFAULT_BRAND


async def test_edited_brand_keeps_other_fields(api: Api) -> None:
    await api.engine.brands.save(1, ACME, actor="ada")
    edited = await api.client.patch("/v1/brand", json={"primary": None, "font": "georgia"})
    assert edited.json()["brand"]["primary"] == DEFAULT_BRAND.primary
    assert await api.engine.brands.load(1) == Brand(name=ACME.name, postal_address=ACME.postal_address, font="georgia")
    refused = await api.client.patch("/v1/brand", json={"name": "Other", "social": ["github"]})
    assert [each["field"] for each in refused.json()["errors"]] == ["social[0]"]
    refused = await api.client.patch("/v1/brand", json={"name": "Other", "accent": "red"})
    assert [each["field"] for each in refused.json()["errors"]] == ["accent"]


async def test_unreadable_brand_falls_back_to_the_default(database: Database, clock: ManualClock) -> None:
    async with database.write() as tx:
        await tx.execute(update(tenants).values(brand='{"primary": "red; }", "from": "the future"}'))
    assert await Brands(database, clock).load(1) == DEFAULT_BRAND


async def test_public_pages_show_the_brand(api: Api) -> None:
    await api.client.post("/v1/lists", json={"listKey": "news", "isPublic": True})
    await api.stranger.post("/v1/lists", json={"listKey": "news", "isPublic": True})
    logo = (await api.client.post("/v1/images?name=logo.png", content=a_png())).json()["url"]
    await api.engine.brands.save(1, ACME.model_copy(update={"logo_url": logo}), actor="ada")
    page = await api.anonymous.get("/subscribe/news")
    policy = page.headers["content-security-policy"]
    assert f'src="{logo}"' in page.text
    assert "img-src http://mail.example" in policy
    assert "Acme &lt;b&gt;&amp; Co&lt;/b&gt;" in page.text
    assert "--accent:" in page.text.partition("</style>")[2]
    assert policy.count("sha256-") == 2
    other = await api.anonymous.get("/subscribe/news?tenant=other")
    assert "Acme" not in other.text
    assert "img-src" not in other.headers["content-security-policy"]


@pytest.mark.promise("manual-served")
async def test_public_pages_load_no_foreign_logo(api: Api) -> None:
    await api.client.post("/v1/lists", json={"listKey": "news", "isPublic": True})
    for url in ("https://tracker.example/logo.png", f"https://tracker.example/images/{'0' * 64}.png"):
        await api.engine.brands.save(1, Brand(name="Acme", logo_url=url), actor="ada")
        page = await api.anonymous.get("/subscribe/news")
        assert "tracker.example" not in page.text + page.headers["content-security-policy"]
        assert "<header>Acme</header>" in page.text


async def test_confirmation_email_shows_the_brand(api: Api, database: Database) -> None:
    await api.engine.brands.save(1, ACME, actor="ada")
    await api.client.post("/v1/lists", json={"listKey": "news", "isPublic": True, "requiresConfirmation": True})
    proof = await proof_of_work(api.anonymous, "/subscribe/news")
    await api.anonymous.post("/subscribe/news", data={"email": "ada@example.com", **proof})
    async with database.read() as tx:
        [row] = await tx.execute(select(messages.c.payload))
    html = row.payload["html"] if isinstance(row.payload, dict) else row.payload
    for expected in ("Acme &lt;b&gt;&amp; Co&lt;/b&gt;", "#ffe600", "1 Main Street<br>Lisbon"):
        assert expected in html.replace('\\"', '"')


async def test_template_of_blocks_uses_the_brand_when_saved(api: Api) -> None:
    button = {"id": "b", "type": "button", "label": "Open", "href": "https://example.com"}
    body = {"version": 1, "blocks": [{"id": "h", "type": "header"}, button]}
    draft = TemplateDraft(subject="Hello", body=orjson.dumps(body).decode(), format=TemplateFormat.BLOCKS)
    plain = await api.engine.templates.write(1, "hello", draft)
    await api.engine.brands.save(1, ACME, actor="ada")
    branded = await api.engine.templates.write(1, "hello", draft)
    foreign = await api.engine.templates.write(2, "hello", draft)
    assert ACME.primary in branded.html
    assert "Acme &lt;b&gt;&amp; Co&lt;/b&gt;" in branded.html
    assert ACME.primary not in plain.html + foreign.html
