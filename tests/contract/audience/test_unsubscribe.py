"""Unsubscribe, resubscribe and preference pages over HTTP, on both engines."""

import asyncio
import email
import re
from collections.abc import AsyncIterator
from email.policy import SMTP
from pathlib import Path
from typing import Any

import dkim
import httpx
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from sqlalchemy import select

from mailwright.app.wiring import PublicPages
from mailwright.audience import lists, suppressions
from mailwright.audience.status import ContactStatusService
from mailwright.content.dkim_key import DkimKey
from mailwright.domain.clock import DAY, ManualClock
from mailwright.domain.errors import NotDurable
from mailwright.domain.states import Status
from mailwright.domain.unsubscribe_confirmation import UnsubscribeConfirmation
from mailwright.domain.unsubscribe_tokens import MAX_TOKEN_LENGTH, UnsubscribeTokens
from mailwright.outbox.installation import UNSUBSCRIBE_SECRET, get_or_create_secret
from mailwright.storage.database import Database
from mailwright.storage.tables import contacts, subscriptions
from tests.api import Api, an_api
from tests.builders import (
    DEFAULT_TENANT,
    Bench,
    a_bench,
    a_contact,
    a_message,
    a_message_with,
    a_newsletter,
    a_subscriber,
    a_tenant,
    status_of,
)
from tests.conftest import DatabaseAddress
from tests.standins.provider import ScriptedProvider
from tests.standins.smtp_sink import SmtpSink
from tests.tracking import BROWSER, PERSON

SECRET = "s" * 32
TOKENS = UnsubscribeTokens(SECRET)
JANE = "jane@example.org"
ONE_CLICK = {"List-Unsubscribe": "One-Click"}
BUTTON = {"confirm": "unsubscribe"}
PROGRAM = {"Accept": "application/json"}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_700_000_000_000)  # A verifier refuses signatures from the future.


@pytest.fixture
async def api(database: Database, clock: ManualClock) -> AsyncIterator[Api]:
    async with an_api(database, clock, public_pages=PublicPages(SECRET, sender="Northwind Books")) as api:
        await lists.create(
            database, clock, DEFAULT_TENANT, "weekly", name="Weekly digest", description="On Friday mornings."
        )
        await lists.create(database, clock, DEFAULT_TENANT, "offers", name="Offers & <deals>")
        await lists.create(database, clock, DEFAULT_TENANT, "staff", name="Staff only", is_public=False)
        yield api


@pytest.fixture
def client(api: Api) -> httpx.AsyncClient:
    """The browser of a person who follows links."""
    api.anonymous.headers.update(PERSON)
    return api.anonymous


@pytest.fixture
async def asking_api(database: Database, clock: ManualClock) -> AsyncIterator[Api]:
    """An installation whose links ask before they unsubscribe."""
    async with an_api(
        database, clock, public_pages=PublicPages(SECRET, confirmation=UnsubscribeConfirmation.EVERYONE)
    ) as api:
        api.anonymous.headers.update(PERSON)
        yield api


def unsubscribe_path(list_key: str = "general", address: str = JANE) -> str:
    return f"/unsubscribe?token={TOKENS.make(address, list_key)}"


def link_on(response: httpx.Response, page: str) -> str:
    """Return the target of a form or link on this page."""
    result = re.search(rf'(?:action|href)="({page}\?[^"]+)"', response.text)
    assert result, response.text
    return "/" + result[1].replace("&amp;", "&")


async def scopes(api: Api, address: str = JANE, tenant_id: int = DEFAULT_TENANT) -> dict[str, str]:
    statuses = ContactStatusService(api.engine.database, api.engine.clock)
    return dict((await statuses.load_preferences(tenant_id, address)).scopes)


async def status(api: Api, address: str = JANE, tenant_id: int = DEFAULT_TENANT) -> str | None:
    wanted = select(contacts.c.status).where(contacts.c.tenant_id == tenant_id, contacts.c.email == address)
    async with api.engine.database.read() as tx:
        rows = await tx.execute(wanted)
    return rows[0].status if rows else None


async def unsubscribed_at(api: Api, list_key: str) -> int | None:
    async with api.engine.database.read() as tx:
        rows = await tx.execute(select(subscriptions.c.unsubscribed_at).where(subscriptions.c.list_key == list_key))
    return rows[0].unsubscribed_at if rows else None


def is_plain_page(response: httpx.Response) -> None:
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["referrer-policy"] == "no-referrer"
    assert "noindex" in response.headers["x-robots-tag"]
    assert response.headers["content-security-policy"].startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in response.headers["content-security-policy"]
    assert "set-cookie" not in response.headers
    assert "<script" not in response.text
    assert JANE not in response.text


# Unsubscribe links.


async def test_unsubscribe_link_acts_and_offers_undo(api: Api, client: httpx.AsyncClient) -> None:
    response = await client.get(unsubscribe_path())
    assert response.status_code == 200
    is_plain_page(response)
    assert "You are unsubscribed" in response.text
    assert "j***@e***.org" in response.text
    assert "Northwind Books" in response.text
    assert link_on(response, "resubscribe")
    assert (await status(api), await scopes(api)) == ("unsubscribed", {"general": "unsubscribed"})


async def test_link_of_one_list_keeps_the_others(api: Api, client: httpx.AsyncClient, clock: ManualClock) -> None:
    statuses = ContactStatusService(api.engine.database, clock)
    for list_key in ("weekly", "offers"):
        await statuses.subscribe(DEFAULT_TENANT, JANE, list_key, source="test")
    response = await client.get(unsubscribe_path("weekly"))
    assert "no longer receive emails from <strong>Weekly digest</strong>" in response.text
    assert (await status(api), await scopes(api)) == ("active", {"weekly": "unsubscribed"})
    assert await unsubscribed_at(api, "weekly") == clock.now()
    assert await unsubscribed_at(api, "offers") is None


async def test_unsubscribing_again_changes_nothing(api: Api, client: httpx.AsyncClient, clock: ManualClock) -> None:
    first = await client.get(unsubscribe_path("weekly"))
    then = clock.now()
    clock.advance(60_000)
    for method, data in (("GET", None), ("POST", ONE_CLICK)):
        again = await client.request(method, unsubscribe_path("weekly"), data=data)
        assert (again.status_code, again.text) == (first.status_code, first.text)
    assert await unsubscribed_at(api, "weekly") == then


async def test_link_of_a_missing_list_still_works(api: Api, client: httpx.AsyncClient) -> None:
    response = await client.get(unsubscribe_path("spring-2019"))
    assert response.status_code == 200
    assert "<strong>spring-2019</strong>" in response.text
    assert await scopes(api) == {"spring-2019": "unsubscribed"}


async def test_unsubscribe_returns_json_on_request(api: Api, client: httpx.AsyncClient) -> None:
    for _ in range(2):
        response = await client.get(unsubscribe_path("weekly"), headers=PROGRAM)
        assert (response.status_code, response.json()) == (200, {"ok": True, "listKey": "weekly"})
    bad = await client.get("/unsubscribe?token=made.up", headers=PROGRAM)
    assert (bad.status_code, bad.headers["content-type"]) == (400, "application/problem+json")
    assert bad.json()["code"] == "INVALID_TOKEN"


async def test_generated_secret_signs_links_without_a_setting(database: Database, clock: ManualClock) -> None:
    async with an_api(database, clock) as api:
        token = UnsubscribeTokens(await get_or_create_secret(database, UNSUBSCRIBE_SECRET)).make(JANE)
        assert (await api.anonymous.get(f"/unsubscribe?token={token}", headers=PERSON)).status_code == 200
        assert await status(api) == "unsubscribed"


async def test_links_of_earlier_secrets_stay_valid(database: Database, clock: ManualClock) -> None:
    created = await get_or_create_secret(database, UNSUBSCRIBE_SECRET)
    pages = PublicPages("n" * 32, retired=(SECRET,))
    async with an_api(database, clock, public_pages=pages) as api:
        for secret, response in ((created, 200), (SECRET, 200), ("n" * 32, 200), ("x" * 32, 400)):
            link = f"/unsubscribe?token={UnsubscribeTokens(secret).make(JANE)}"
            assert (await api.anonymous.get(link)).status_code == response


async def test_links_of_a_removed_secret_stay_valid(database: Database, clock: ManualClock) -> None:
    async with an_api(database, clock, public_pages=PublicPages(retired=(SECRET,))) as api:
        assert (await api.anonymous.get(unsubscribe_path())).status_code == 200


# One click.


@pytest.mark.promise("unsubscribe-one-click")
@pytest.mark.parametrize(
    "body",
    [
        {"data": ONE_CLICK},
        {"files": {"List-Unsubscribe": (None, "One-Click")}},
        {"data": BUTTON},
    ],
    ids=["urlencoded", "multipart", "button"],
)
async def test_one_click_unsubscribes_without_redirect_or_cookie(
    api: Api, client: httpx.AsyncClient, body: dict[str, Any]
) -> None:
    response = await client.post(unsubscribe_path(), **body)
    assert response.status_code == 200
    is_plain_page(response)
    assert await status(api) == "unsubscribed"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"data": {"List-Unsubscribe": "Two-Click"}},
        {"data": {"list-unsubscribe": ""}},
        {"files": {"other": (None, "One-Click")}},
        {"json": {"List-Unsubscribe": "One-Click"}},
        {"content": b"\x00\xff not a form", "headers": {"Content-Type": "text/plain"}},
        {"content": b"no parts", "headers": {"Content-Type": "multipart/form-data; boundary=x"}},
    ],
    ids=["empty", "value", "no-value", "name", "json", "nonsense", "broken-multipart"],
)
async def test_other_posts_unsubscribe_nobody(api: Api, client: httpx.AsyncClient, body: dict[str, Any]) -> None:
    response = await client.post(unsubscribe_path(), **body)
    assert response.status_code == 400
    is_plain_page(response)
    assert link_on(response, "unsubscribe")
    program = await client.post(unsubscribe_path(), **{**body, "headers": {**body.get("headers", {}), **PROGRAM}})
    assert (program.status_code, program.json()["code"]) == (400, "CONFIRMATION_NEEDED")
    assert "List-Unsubscribe=One-Click" in program.json()["detail"]
    assert (await status(api), await scopes(api)) == (None, {})


@pytest.mark.promise("unsubscribe-one-click")
async def test_one_click_acts_even_if_links_ask_first(asking_api: Api) -> None:
    response = await asking_api.anonymous.post(unsubscribe_path(), data=ONE_CLICK)
    assert response.status_code == 200
    assert await status(asking_api) == "unsubscribed"


async def test_unsubscribed_contact_is_not_asked_again(asking_api: Api) -> None:
    client = asking_api.anonymous
    filter_ = await client.get(unsubscribe_path())
    left = await client.post(link_on(filter_, "unsubscribe"), data=BUTTON)
    other = await client.get(link_on(left, "unsubscribe"))
    assert other.headers["content-language"] != left.headers["content-language"]
    assert 'action="resubscribe?' in other.text
    assert 'action="unsubscribe?' not in other.text
    back = await client.post(link_on(other, "resubscribe"))
    assert back.status_code == 200
    assert 'action="unsubscribe?' in (await client.get(unsubscribe_path())).text


# Requests that must not act.


@pytest.mark.promise("unsubscribe-one-click")
@pytest.mark.parametrize(
    "headers",
    [
        {"Purpose": "prefetch"},
        {"Sec-Purpose": "prefetch"},
        {"Sec-Purpose": "prefetch;prerender"},
        {"Sec-Purpose": "prefetch;anonymous-client-ip"},
        {"X-Purpose": "preview"},
        {"X-Moz": "prefetch"},
    ],
    ids=str,
)
async def test_prefetch_only_shows_a_button(api: Api, client: httpx.AsyncClient, headers: dict[str, str]) -> None:
    response = await client.get(unsubscribe_path(), headers=headers)
    assert response.status_code == 200
    assert await scopes(api) == {}
    assert (await client.post(link_on(response, "unsubscribe"), data=BUTTON)).status_code == 200
    assert await scopes(api) == {"general": "unsubscribed"}


@pytest.mark.promise("unsubscribe-one-click")
@pytest.mark.parametrize("page", ["unsubscribe", "preferences"])
async def test_head_request_never_unsubscribes(api: Api, client: httpx.AsyncClient, page: str) -> None:
    response = await client.head(unsubscribe_path().replace("unsubscribe", page, 1))
    assert response.status_code == 200
    assert (await client.head(f"/{page}?token=x.y")).status_code == 400
    assert await scopes(api) == {}


@pytest.mark.promise("unsubscribe-one-click")
async def test_with_ask_first_only_the_button_unsubscribes(asking_api: Api) -> None:
    client = asking_api.anonymous
    filter_ = await client.get(unsubscribe_path("weekly"))
    assert filter_.status_code == 200
    is_plain_page(filter_)
    assert "Unsubscribe?" in filter_.text
    assert filter_.text.count("<button") == 1
    assert await scopes(asking_api) == {}

    program = await client.get(unsubscribe_path("weekly"), headers=PROGRAM)
    assert (program.status_code, program.json()["code"]) == (409, "CONFIRMATION_NEEDED")
    assert await scopes(asking_api) == {}

    left = await client.post(link_on(filter_, "unsubscribe"), data=BUTTON)
    assert "You are unsubscribed" in left.text
    assert await scopes(asking_api) == {"weekly": "unsubscribed"}


# People and link scanners.

PROGRAMS = ["", "curl/8.5.0", "python-requests/2.31.0", "Barracuda Sentinel (EE)"]
WITHOUT_NAVIGATION: list[dict[str, str]] = [
    {},
    {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Sec-Fetch-Site": "none"},
    {"Sec-Fetch-User": "?0", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
    {"Sec-Fetch-User": "?1", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
    {"Sec-Fetch-User": "?1", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
]


@pytest.fixture
async def compatible_api(database: Database, clock: ManualClock) -> AsyncIterator[Api]:
    """An installation with the settings of AmazonSender, whose links act on every GET request of a person."""
    settings = {"unsubscribe_base_url": "https://news.example.com/unsubscribe", "unsubscribe_secret": SECRET}
    async with an_api(database, clock, **settings) as api:
        yield api


@pytest.mark.promise("unsubscribe-scanners")
@pytest.mark.parametrize("headers", WITHOUT_NAVIGATION, ids=str)
async def test_request_without_navigation_by_a_person_gets_a_button(api: Api, headers: dict[str, str]) -> None:
    response = await api.anonymous.get(unsubscribe_path(), headers={"User-Agent": BROWSER, **headers})
    assert (response.status_code, response.text.count("<button")) == (200, 1)
    is_plain_page(response)
    assert await scopes(api) == {}
    await api.anonymous.post(link_on(response, "unsubscribe"), data=BUTTON)
    assert await scopes(api) == {"general": "unsubscribed"}


@pytest.mark.promise("unsubscribe-scanners")
@pytest.mark.parametrize("agent", PROGRAMS)
async def test_recognised_machine_gets_a_button(api: Api, agent: str) -> None:
    response = await api.anonymous.get(unsubscribe_path(), headers={**PERSON, "User-Agent": agent})
    assert (response.status_code, response.text.count("<button")) == (200, 1)
    assert await scopes(api) == {}


@pytest.mark.promise("unsubscribe-scanners")
@pytest.mark.parametrize("agent", PROGRAMS)
async def test_settings_of_amazonsender_give_machines_a_button(compatible_api: Api, agent: str) -> None:
    response = await compatible_api.anonymous.get(unsubscribe_path(), headers={"User-Agent": agent})
    assert (response.status_code, response.text.count("<button")) == (200, 1)
    assert await scopes(compatible_api) == {}


@pytest.mark.promise("unsubscribe-scanners")
async def test_visit_within_seconds_after_sending_gets_a_button(
    database: Database, clock: ManualClock, compatible_api: Api
) -> None:
    bench = Bench(compatible_api.engine, clock)
    await a_subscriber(database, JANE, "general")
    [outbox_id] = await bench.accept(a_newsletter(to=JANE, list_key="general"))
    await bench.drain(ScriptedProvider())
    assert await status_of(database, outbox_id) == Status.SENT
    for seconds, expected in ((4, {}), (2, {"general": "unsubscribed"})):
        clock.advance(seconds * 1000)
        path = f"{unsubscribe_path()}&message={outbox_id}"
        assert (await compatible_api.anonymous.get(path, headers=PERSON)).status_code == 200
        assert await scopes(compatible_api) == expected


@pytest.mark.promise("unsubscribe-scanners")
async def test_settings_of_amazonsender_let_a_get_request_act(compatible_api: Api) -> None:
    client = compatible_api.anonymous
    script = {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "empty"}
    for headers in ({"Sec-Purpose": "prefetch"}, {"Purpose": "prefetch"}, {"X-Moz": "prefetch"}, script):
        await client.get(unsubscribe_path(), headers={"User-Agent": BROWSER, **headers})
    await client.head(unsubscribe_path(), headers={"User-Agent": BROWSER})
    assert await scopes(compatible_api) == {}
    response = await client.get(unsubscribe_path(), headers={"User-Agent": BROWSER})
    assert "You are unsubscribed" in response.text
    assert await scopes(compatible_api) == {"general": "unsubscribed"}


@pytest.mark.parametrize(
    "given", [{"unsubscribe_base_url": "https://news.example.com/u"}, {"unsubscribe_secret": SECRET}]
)
async def test_only_both_settings_of_amazonsender_let_a_get_request_act(
    database: Database, clock: ManualClock, given: dict[str, str]
) -> None:
    async with an_api(database, clock, **given) as api:
        secret = given.get("unsubscribe_secret") or await get_or_create_secret(database, UNSUBSCRIBE_SECRET)
        path = f"/unsubscribe?token={UnsubscribeTokens(secret).make(JANE)}"
        await api.anonymous.get(path, headers={"User-Agent": BROWSER})
        assert await scopes(api) == {}


@pytest.mark.parametrize(
    ("confirm", "asks"), [("true", True), (True, True), ("on", True), ("false", False), ("0", False)]
)
async def test_confirm_setting_outranks_the_visitor(
    database: Database, clock: ManualClock, confirm: object, asks: bool
) -> None:
    async with an_api(database, clock, unsubscribe_confirm=confirm, unsubscribe_secret=SECRET) as api:
        headers = PERSON if asks else {"User-Agent": "curl/8.5.0"}
        await api.anonymous.get(unsubscribe_path(), headers=headers)
        assert await scopes(api) == ({} if asks else {"general": "unsubscribed"})


async def test_language_link_of_the_button_page_unsubscribes_nobody(api: Api, client: httpx.AsyncClient) -> None:
    shown = await client.get(unsubscribe_path(), headers={"Sec-Fetch-User": "?0"})
    other = await client.get(link_on(shown, "unsubscribe"), headers={"Sec-Fetch-Site": "same-origin"})
    assert other.text.count("<button") == 1
    assert await scopes(api) == {}


async def test_program_without_browser_headers_is_told_to_confirm(api: Api) -> None:
    response = await api.anonymous.get(unsubscribe_path(), headers=PROGRAM)
    assert (response.status_code, response.json()["code"]) == (409, "CONFIRMATION_NEEDED")
    assert await scopes(api) == {}


@pytest.mark.promise("unsubscribe-scanners")
@pytest.mark.parametrize("page", ["preferences", "resubscribe", "confirm"])
async def test_opening_another_link_changes_nothing(api: Api, client: httpx.AsyncClient, page: str) -> None:
    await client.get(unsubscribe_path("weekly"))
    before = await api.stored()
    tokens = {"preferences": TOKENS, "resubscribe": TOKENS.for_resubscribe(), "confirm": TOKENS.for_confirmation()}
    response = await client.get(f"/{page}?token={tokens[page].make(JANE, 'weekly')}&snooze=30&everything=1&list=offers")
    assert response.status_code == 200
    assert await api.stored() == before


# Invalid links.

GOOD = TOKENS.make(JANE)


@pytest.mark.parametrize(
    "query",
    [
        "",
        "token=",
        "token=x",
        f"token={GOOD[:-1]}",
        f"token={GOOD}A",
        f"token={GOOD}%0A",
        f"token={GOOD.partition('.')[0]}.{'A' * 43}",
        f"token={UnsubscribeTokens('another secret').make(JANE)}",
        f"token={TOKENS.for_resubscribe().make(JANE)}",
        f"token={TOKENS.for_tenant(2).make(JANE)}",
        f"token={TOKENS.make('not an address')}",
        f"token={GOOD}&tenant=nobody",
        f"token={GOOD}&tenant=other",
        f"token={GOOD}&tenant=%00",
        "token=" + "A" * (MAX_TOKEN_LENGTH + 1),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_invalid_link_returns_400_and_changes_nothing(
    api: Api, client: httpx.AsyncClient, method: str, query: str
) -> None:
    stored = await api.stored()
    for page in ("unsubscribe", "preferences"):
        response = await client.request(method, f"/{page}?{query}", headers={"Accept-Language": "ru"})
        assert response.status_code == 400
        is_plain_page(response)
        assert '<html lang="ru">' in response.text
        assert "Ссылка недействительна" in response.text
    assert await api.stored() == stored


async def test_unstored_choice_is_never_confirmed(
    api: Api, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*_: Any, **__: Any) -> None:
        raise NotDurable("disk full at db.internal")

    monkeypatch.setattr(ContactStatusService, "unsubscribe_by_link", full)
    response = await client.post(unsubscribe_path(), data=ONE_CLICK, headers={"Accept-Language": "pt"})
    assert (response.status_code, response.headers["retry-after"]) == (503, "5")
    assert "Tente novamente em um minuto" in response.text
    assert "internal" not in response.text
    program = await client.post(unsubscribe_path(), data=ONE_CLICK, headers=PROGRAM)
    assert (program.status_code, program.json()["code"]) == (503, "NOT_DURABLE")
    assert "internal" not in program.text


# Tenants.


async def test_link_acts_only_in_its_own_tenant(api: Api, client: httpx.AsyncClient) -> None:
    other = (await api.engine.keys.authenticate(api.stranger.headers["authorization"])).tenant_id
    token = TOKENS.for_tenant(other).make(JANE)
    response = await client.get(f"/unsubscribe?token={token}&tenant=other")
    assert response.status_code == 200
    assert "Northwind Books" not in response.text  # the sender name of the first tenant
    assert await scopes(api) == {}
    assert await scopes(api, tenant_id=other) == {"general": "unsubscribed"}

    preferences = await client.get(link_on(response, "preferences"))
    assert "Weekly digest" not in preferences.text
    back = await client.post(link_on(response, "resubscribe"))
    assert "You are subscribed again" in back.text
    assert await scopes(api, tenant_id=other) == {}


# Undo.


@pytest.mark.parametrize("list_key", ["general", "weekly"])
async def test_undo_restores_the_previous_state(
    api: Api, client: httpx.AsyncClient, clock: ManualClock, list_key: str
) -> None:
    await ContactStatusService(api.engine.database, clock).subscribe(DEFAULT_TENANT, JANE, "weekly", source="test")
    left = await client.get(unsubscribe_path(list_key))
    back = await client.post(link_on(left, "resubscribe"))
    assert back.status_code == 200
    is_plain_page(back)
    assert "You are subscribed again" in back.text
    assert (await status(api), await scopes(api)) == ("active", {})
    assert await unsubscribed_at(api, "weekly") is None


async def test_undo_needs_the_button_and_its_own_token(api: Api, client: httpx.AsyncClient) -> None:
    left = await client.get(unsubscribe_path())
    filter_ = await client.get(link_on(left, "resubscribe"))
    assert (filter_.status_code, "Resubscribe?" in filter_.text) == (200, True)
    stolen = await client.post(unsubscribe_path().replace("unsubscribe", "resubscribe", 1))
    assert stolen.status_code == 400
    assert await scopes(api) == {"general": "unsubscribed"}


async def test_undo_never_reactivates_a_bounced_contact(
    api: Api, client: httpx.AsyncClient, clock: ManualClock
) -> None:
    left = await client.get(unsubscribe_path())
    await ContactStatusService(api.engine.database, clock).bounce(DEFAULT_TENANT, JANE, source="test")
    back = await client.post(link_on(left, "resubscribe"))
    assert "We cannot send to this address" in back.text
    assert "subscribed again" not in back.text
    program = await client.post(link_on(left, "resubscribe"), headers=PROGRAM)
    assert (program.status_code, program.json()["code"]) == (409, "ADDRESS_BLOCKED")
    assert await status(api) == "bounced"


async def test_undo_of_one_list_mentions_unsubscribe_from_all(api: Api, client: httpx.AsyncClient) -> None:
    left = await client.get(unsubscribe_path("weekly"))
    await client.get(unsubscribe_path())
    back = await client.post(link_on(left, "resubscribe"))
    assert "You are unsubscribed from everything" in back.text
    assert await scopes(api) == {"general": "unsubscribed"}


# Languages.


async def test_chosen_language_wins_over_contact_and_browser(api: Api, client: httpx.AsyncClient) -> None:
    await a_contact(api.engine.database, JANE, locale="pt-BR")
    browser = {"Accept-Language": "ru"}
    page = await client.get(unsubscribe_path(), headers=browser)
    assert ('<html lang="pt">' in page.text, page.headers["content-language"]) == (True, "pt")
    chosen = await client.get(unsubscribe_path() + "&lang=en", headers=browser)
    assert '<html lang="en">' in chosen.text
    assert "lang=en" in link_on(chosen, "resubscribe")  # The choice stays on the following pages.
    unknown = await client.get(unsubscribe_path(address="who@example.org"), headers=browser)
    assert '<html lang="ru">' in unknown.text


# Preferences.


def preferences_of(address: str = JANE, list_key: str = "general") -> str:
    return f"/preferences?token={TOKENS.make(address, list_key)}"


def boxes(response: httpx.Response) -> dict[str, bool]:
    """Return the lists that the page shows, and whether each is selected."""
    result = re.findall(r'<input type="checkbox" name="list" value="([^"]+)"( checked)?', response.text)
    return {list_key: bool(checked) for list_key, checked in result}


SHOWN = ["weekly", "offers"]


async def test_preference_page_shows_public_and_own_lists(
    api: Api, client: httpx.AsyncClient, clock: ManualClock
) -> None:
    statuses = ContactStatusService(api.engine.database, clock)
    page = await client.get(preferences_of())
    is_plain_page(page)
    assert boxes(page) == {"weekly": False, "offers": False}
    assert "Offers &amp; &lt;deals&gt;" in page.text
    await statuses.subscribe(DEFAULT_TENANT, JANE, "staff", source="test")
    assert boxes(await client.get(preferences_of())) == {"weekly": False, "offers": False, "staff": True}


async def test_pause_button_saves_only_the_pause(api: Api, client: httpx.AsyncClient, clock: ManualClock) -> None:
    statuses = ContactStatusService(api.engine.database, clock)
    await statuses.subscribe(DEFAULT_TENANT, JANE, "offers", source="test")
    before = await statuses.load_preferences(DEFAULT_TENANT, JANE)
    changed = {"shown": SHOWN, "list": ["weekly"], "language": "pt"}
    paused = await client.post(preferences_of(), data={**changed, "snooze": "7"})
    assert "No newsletters until" in paused.text
    assert boxes(paused) == {"weekly": False, "offers": True}
    after = await statuses.load_preferences(DEFAULT_TENANT, JANE)
    assert (after.snoozed_until, after.locale) == (clock.now() + 7 * DAY, before.locale)


async def test_saving_preferences_applies_and_reports_changes(
    api: Api, client: httpx.AsyncClient, clock: ManualClock
) -> None:
    await ContactStatusService(api.engine.database, clock).subscribe(DEFAULT_TENANT, JANE, "offers", source="test")
    saved = await client.post(preferences_of(), data={"shown": SHOWN, "list": ["weekly"], "language": "en"})
    assert saved.status_code == 200
    is_plain_page(saved)
    assert "You are subscribed to <strong>Weekly digest</strong>." in saved.text
    assert "You are unsubscribed from <strong>Offers &amp; &lt;deals&gt;</strong>." in saved.text
    assert boxes(saved) == {"weekly": True, "offers": False}
    assert (await status(api), await scopes(api)) == ("active", {"offers": "unsubscribed"})

    again = await client.post(preferences_of(), data={"shown": SHOWN, "list": ["weekly"], "language": "en"})
    assert "Nothing changed." in again.text


async def test_unsubscribe_from_all_then_resubscribe_to_one(
    api: Api, client: httpx.AsyncClient, clock: ManualClock
) -> None:
    statuses = ContactStatusService(api.engine.database, clock)
    for list_key in SHOWN:
        await statuses.subscribe(DEFAULT_TENANT, JANE, list_key, source="test")
    form = {"shown": SHOWN, "list": SHOWN, "language": "en"}
    left = await client.post(preferences_of(), data={**form, "everything": "leave"})
    assert "You are unsubscribed from everything." in left.text
    assert boxes(left) == {"weekly": False, "offers": False}
    assert (await status(api), await scopes(api)) == ("unsubscribed", {"general": "unsubscribed"})

    unchanged = await client.post(preferences_of(), data={"shown": SHOWN, "language": "en"})
    assert "Nothing changed." in unchanged.text

    back = await client.post(preferences_of(), data={"shown": SHOWN, "list": ["weekly"], "language": "en"})
    assert boxes(back) == {"weekly": True, "offers": False}
    assert (await status(api), await scopes(api)) == ("active", {"offers": "unsubscribed"})


async def test_form_changes_only_lists_it_showed(api: Api, client: httpx.AsyncClient, clock: ManualClock) -> None:
    await ContactStatusService(api.engine.database, clock).subscribe(DEFAULT_TENANT, JANE, "offers", source="test")
    # Created after the page was opened; not visible to this contact; missing.
    saved = await client.post(
        preferences_of(), data={"shown": ["weekly", "staff", "nothing"], "list": ["staff", "nothing", "general", "*"]}
    )
    assert "Nothing changed." in saved.text
    assert boxes(saved) == {"weekly": False, "offers": True}
    assert await scopes(api) == {}


@pytest.mark.parametrize("scope", ["*", "general"])
async def test_contact_cannot_lift_an_operators_suppression(api: Api, client: httpx.AsyncClient, scope: str) -> None:
    stop = {"reason": "asked by phone", "source": "test", "list_key": scope}
    await suppressions.add(api.engine.database, api.engine.clock, DEFAULT_TENANT, JANE, **stop)
    page = await client.get(preferences_of())
    assert "We cannot send to this address" in page.text
    await client.post(preferences_of(), data={"shown": SHOWN, "list": SHOWN})
    back = await client.post(f"/resubscribe?token={TOKENS.for_resubscribe().make(JANE)}")
    assert "We cannot send to this address" in back.text
    assert await scopes(api) == {scope: "asked by phone"}


async def test_chosen_language_is_stored(api: Api, client: httpx.AsyncClient) -> None:
    await a_contact(api.engine.database, JANE, locale="pt-BR")
    kept = await client.post(preferences_of(), data={"shown": SHOWN, "language": "pt"})
    assert "Nada foi alterado." in kept.text
    assert (
        await ContactStatusService(api.engine.database, api.engine.clock).load_preferences(DEFAULT_TENANT, JANE)
    ).locale == "pt-BR"
    chosen = await client.post(preferences_of(), data={"shown": SHOWN, "language": "ru"})
    assert '<html lang="ru">' in chosen.text
    assert "Ваш язык: <strong>Русский</strong>." in chosen.text
    assert '<html lang="ru">' in (await client.get(preferences_of())).text
    strange = await client.post(preferences_of(), data={"shown": SHOWN, "language": "xx"})
    assert "Ничего не изменилось." in strange.text


@pytest.mark.parametrize("body", [b"list=" + b"a" * 300_000, b"&".join([b"list=a"] * 5_000)], ids=["long", "many"])
async def test_oversized_form_is_refused(api: Api, client: httpx.AsyncClient, body: bytes) -> None:
    response = await client.post(preferences_of(), content=body)
    assert response.status_code == 413


async def test_concurrent_requests_of_one_contact_end_consistently(api: Api, client: httpx.AsyncClient) -> None:
    """Email programs click twice, browsers reload, and scanners follow links: no request waits forever."""
    form = {"shown": SHOWN, "list": ["weekly"], "language": "ru"}
    back = f"/resubscribe?token={TOKENS.for_resubscribe().make(JANE, 'weekly')}"
    hands: list[tuple[str, dict[str, Any]]] = [
        (unsubscribe_path("weekly"), ONE_CLICK),
        (unsubscribe_path(), ONE_CLICK),
        (back, {}),
        (preferences_of(), form),
    ] * 4
    responses = await asyncio.gather(*(client.post(address, data=data) for address, data in hands))
    assert {response.status_code for response in responses} == {200}
    await client.post(unsubscribe_path(), data=ONE_CLICK)
    saved = await client.post(preferences_of(), data=form)
    assert boxes(saved) == {"weekly": True, "offers": False}
    assert await scopes(api) == {}


# The email itself.


@pytest.fixture
async def sink() -> AsyncIterator[SmtpSink]:
    async with SmtpSink() as sink:
        yield sink


@pytest.fixture(scope="module")
def dkim_key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    file = tmp_path_factory.mktemp("dkim") / "dkim.pem"
    encoding = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file.write_bytes(key.private_bytes(*encoding))
    return file


@pytest.fixture
async def bench(engine: DatabaseAddress, clock: ManualClock, sink: SmtpSink, dkim_key: Path) -> AsyncIterator[Bench]:
    settings = {
        "provider": "smtp",
        "smtp_url": f"{sink.url}?tls=none",
        "base_url": "https://mail.example.com",
        "dkim_selector": "mw",
        "dkim_key_file": dkim_key,
    }
    async with a_bench(engine.url, clock, **settings) as bench:
        yield bench


@pytest.mark.promise("unsubscribe-one-click")
async def test_bulk_email_has_signed_one_click_headers(bench: Bench, sink: SmtpSink, dkim_key: Path) -> None:
    other = await a_tenant(bench.database, "acme")
    await bench.accept(
        a_newsletter(to=JANE, list_key="weekly"),
        a_newsletter(to="joe@example.org", list_key="general"),
        a_newsletter(to="ann@example.org", list_key="weekly", tenant_id=other),
    )
    await bench.drain()
    messages_ = {message.recipients[0]: message.content for message in sink.messages}
    record = DkimKey.load(dkim_key.read_text(), "example.com", "mw").record().encode()
    list_ids = {
        JANE: "<weekly.example.com>",
        "joe@example.org": "<campaign.example.com>",
        "ann@example.org": "<weekly.acme.example.com>",
    }
    links = {
        JANE: TOKENS.make(JANE, "weekly"),
        "joe@example.org": TOKENS.make("joe@example.org"),
        "ann@example.org": TOKENS.for_tenant(other).make("ann@example.org", "weekly") + "&tenant=acme",
    }
    assert messages_.keys() == links.keys()
    for recipient, content in messages_.items():
        message = email.message_from_bytes(content, policy=SMTP)
        link = (
            f"https://mail.example.com/unsubscribe?token={links[recipient]}&message={message['X-Mailwright-Message']}"
        )
        assert f"\r\nList-Unsubscribe: <{link}>\r\n" in content.decode()
        assert message.get_all("List-Unsubscribe-Post") == ["List-Unsubscribe=One-Click"]
        assert message["List-Id"] == list_ids[recipient]
        [signed] = re.findall(r"\bh=([^;]+)", message["DKIM-Signature"])
        covered = re.sub(r"\s", "", signed).lower().split(":")
        assert {"list-unsubscribe", "list-unsubscribe-post"} <= set(covered)
        assert dkim.verify(content, dnsfunc=lambda name, timeout=5: record)
        changed = content.replace(b"One-Click", b"Two-Click")
        assert not dkim.verify(changed, dnsfunc=lambda name, timeout=5: record)


@pytest.mark.promise("sender-domains")
async def test_foreign_from_is_not_signed(bench: Bench, sink: SmtpSink) -> None:
    senders = ["a@bank.example", "b@notexample.com", "c@example.com", "d@news.example.com"]
    await bench.accept(*(a_message_with(**{"from": sender}) for sender in senders))
    await bench.drain()
    found = [email.message_from_bytes(message.content, policy=SMTP) for message in sink.messages]
    signed = {message["From"]: message["DKIM-Signature"] is not None for message in found}
    assert signed == dict(zip(senders, [False, False, True, True], strict=True))


@pytest.mark.promise("unsubscribe-one-click")
async def test_unsubscribed_contact_still_receives_other_lists(
    bench: Bench, sink: SmtpSink, clock: ManualClock
) -> None:
    async with an_api(bench.database, clock, public_pages=PublicPages(SECRET)) as api:
        await bench.accept(a_newsletter(to=JANE, list_key="weekly"))
        await bench.drain()
        link = re.search(rb"List-Unsubscribe: <https://mail.example.com([^>]+)>", sink.messages[0].content)
        assert link
        assert (await api.anonymous.post(link[1].decode(), data=ONE_CLICK)).status_code == 200
        [refused] = await bench.accept(a_newsletter(to=JANE, list_key="weekly"))
        [other] = await bench.accept(a_newsletter(to=JANE, list_key="offers"))
        await bench.drain()
        assert (await bench.record(refused)).summary.error_code == "RECIPIENT_SUPPRESSED"
        assert (await bench.record(other)).summary.status == "SENT"
        assert len(sink.messages) == 2


@pytest.mark.promise("unsubscribe-one-click")
async def test_messages_of_two_lists_name_their_own_list(bench: Bench, sink: SmtpSink) -> None:
    template = await bench.engine.templates.put(
        DEFAULT_TENANT, "news", subject="News", html='<a href="{{ unsubscribe_url }}">Unsubscribe</a>', text=None
    )
    payload = {"to": JANE}
    for list_key in ("weekly", "offers"):
        await bench.accept(a_newsletter(to=JANE, list_key=list_key, template_key=template.key, payload=payload))
        await bench.drain()
    for message, list_key in zip(sink.messages, ("weekly", "offers"), strict=True):
        parsed = email.message_from_bytes(message.content, policy=SMTP)
        assert parsed["List-Id"] == f"<{list_key}.example.com>"
        assert TOKENS.make(JANE, list_key) in str(parsed["List-Unsubscribe"])
        body = parsed.get_body(("html",))
        assert body is not None
        assert TOKENS.make(JANE, list_key) in body.get_content()


async def test_attribute_cannot_replace_unsubscribe_link_or_address(bench: Bench, sink: SmtpSink) -> None:
    html = "<p>{{ email }} {{ unsubscribe_url }} {{ name }} {{ plan }}</p>"
    template = await bench.engine.templates.put(DEFAULT_TENANT, "news", subject="News", html=html, text=None)
    variables = {"unsubscribe_url": "https://elsewhere.example", "email": "x@example.net", "name": "Jo", "plan": "free"}
    content = {"to": JANE, "variables": variables}
    await bench.accept(a_newsletter(to=JANE, list_key="weekly", template_key=template.key, payload=content))
    await bench.drain()
    body = email.message_from_bytes(sink.messages[0].content, policy=SMTP).get_body(("html",))
    assert body is not None
    expected = body.get_content()
    assert TOKENS.make(JANE, "weekly") in expected
    assert f">{JANE} " in expected
    assert "elsewhere" not in expected
    assert "Jo free" in expected


@pytest.mark.promise("unsubscribe-one-click")
async def test_transactional_email_has_no_unsubscribe_headers(bench: Bench, sink: SmtpSink) -> None:
    await bench.accept(a_message(to=JANE))
    await bench.drain()
    assert b"\nList-" not in sink.messages[0].content


async def test_senders_own_list_id_is_not_duplicated(bench: Bench, sink: SmtpSink) -> None:
    payload = {"to": JANE, "subject": "Hi", "html": "<p>Hi</p>", "headers": {"List-ID": "<mine.example.net>"}}
    await bench.accept(a_newsletter(to=JANE, list_key="weekly", payload=payload))
    await bench.drain()
    message = email.message_from_bytes(sink.messages[0].content, policy=SMTP)
    assert message.get_all("List-Id") == ["<mine.example.net>"]


@pytest.mark.promise("unsubscribe-one-click")
async def test_appended_test_parameter_does_not_disable_a_link(client: httpx.AsyncClient, database: Database) -> None:
    await a_subscriber(database, JANE, "weekly")
    link = f"/unsubscribe?token={TOKENS.make(JANE, 'weekly')}&test=1"
    assert (await client.post(link, data=ONE_CLICK)).status_code == 200
    assert await suppressions.is_suppressed(database, DEFAULT_TENANT, JANE, "weekly")


@pytest.mark.promise("unsubscribe-one-click")
@pytest.mark.parametrize("path", ["unsubscribe", "resubscribe", "preferences"])
async def test_link_of_a_test_email_changes_nothing(client: httpx.AsyncClient, database: Database, path: str) -> None:
    await a_subscriber(database, JANE, "weekly")
    tokens = TOKENS.for_test()
    token = (tokens.for_resubscribe() if path == "resubscribe" else tokens).make(JANE, "weekly")
    for method in ("GET", "POST"):
        answer = await client.request(method, f"/{path}?token={token}", data=ONE_CLICK if method == "POST" else None)
        assert answer.status_code == 200
    assert not await suppressions.is_suppressed(database, DEFAULT_TENANT, JANE, "weekly")
