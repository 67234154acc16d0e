"""The language of the dashboard: chosen for a user, by a cookie or by the browser."""

import re
from dataclasses import replace

import orjson
import pytest
from selectolax.lexbor import LexborHTMLParser

from tests.contract.dashboard.test_entry import Site, site

__all__ = ["site"]


def language_in(page: str) -> str:
    found = re.search(r'<html lang="(\w+)">', page)
    assert found is not None
    return found[1]


@pytest.mark.both_engines
async def test_user_chooses_language_of_dashboard(site: Site) -> None:
    async with site.client(**{"Accept-Language": "pt-BR,pt;q=0.9"}) as client:
        token = await site.sign_in(client, "alan")
        assert language_in((await client.get("/account")).text) == "pt"
        answer = await client.post("/account/language", data={"form_token": token, "language": "ru"})
        assert answer.status_code == 303
        page = (await client.get("/account")).text
        assert language_in(page) == "ru"
        assert "Язык интерфейса" in page
        await client.post("/account/language", data={"form_token": token, "language": "klingon"})
        assert language_in((await client.get("/account")).text) == "pt"
    assert (await site.engine.users.find("alan")).language is None


async def test_sign_in_page_remembers_language(site: Site) -> None:
    async with site.client() as client:
        assert language_in((await client.get("/sign-in")).text) == "en"
        answer = await client.get("/sign-in?lang=ru&next=/lists")
        assert answer.headers["location"] == "/sign-in?next=%2Flists"
        page = (await client.get("/sign-in")).text
        assert language_in(page) == "ru"
        assert "Имя пользователя" in page
        await client.get("/sign-in?lang=")
        assert language_in((await client.get("/sign-in")).text) == "ru"


async def test_installation_has_a_language(site: Site) -> None:
    site.app.state.engine = replace(site.engine, settings=site.engine.settings.model_copy(update={"language": "pt"}))
    async with site.client(**{"Accept-Language": "de"}) as client:
        assert language_in((await client.get("/sign-in")).text) == "pt"
        assert language_in((await client.get("/unsubscribe")).text) == "pt"
        assert language_in((await client.get("/sign-in", headers={"Accept-Language": "ru"})).text) == "ru"


async def test_audit_log_is_downloaded_in_the_language_of_the_page(site: Site) -> None:
    async with site.client(**{"Accept-Language": "ru"}) as client:
        await site.sign_in(client, "ada")
        page = (await client.get("/settings/audit-log")).text
        assert "создаёт пользователя" in page
        for kind in ("csv", "jsonl"):
            file = (await client.get(f"/settings/audit-log/file.{kind}")).text
            assert "создаёт пользователя" in file, kind
            assert "created the user" not in file


async def test_api_answers_a_russian_user_in_english(site: Site) -> None:
    async with site.client(**{"Accept-Language": "ru"}) as client:
        await site.sign_in(client, "ada")
        answer = await client.get("/v1/campaigns/none", headers={"Accept": "application/json"})
        assert answer.json()["detail"].isascii()


# Four English words, and no word of Russian beside them: a sentence that nobody translated.
_ENGLISH = re.compile(r"(?:[A-Za-z]*[a-z][,;:]? +){3}[a-z]{2,}")
_NOT_TRANSLATED = "script, style, template, code, kbd, pre, textarea, svg, [lang]"


def english_in(page: str) -> list[str]:
    """Return the sentences of a Russian page that are in English. Code and what users wrote are none."""
    tree = LexborHTMLParser(page)
    for node in tree.css(f"body :is({_NOT_TRANSLATED})"):
        node.decompose()
    texts = [node.text_content or "" for node in tree.body.traverse(include_text=True) if node.tag == "-text"]
    named = [str(node.attributes.get(name)) for name in _READ for node in tree.css(f"body [{name}]")]
    return [text.strip() for text in [*texts, *named] if _ENGLISH.search(text) and not re.search("[А-Яа-я]", text)]


_READ = ("title", "placeholder", "aria-label", "alt", "data-confirm")
PAGES = [
    "/",
    "/campaigns",
    "/approvals",
    "/sequences",
    "/sequences/~new",
    "/reports",
    "/articles",
    "/mailouts",
    "/notifications",
    "/templates",
    "/images",
    "/messages",
    "/dead-letters",
    "/mailbox",
    "/contacts",
    "/lists",
    "/forms",
    "/segments",
    "/events",
    "/imports",
    "/suppressions",
    "/account",
    "/settings/limits",
    "/settings/users",
    "/settings/keys",
    "/settings/webhooks",
    "/settings/brand",
    "/settings/domains",
    "/settings/sender",
    "/settings/providers",
    "/settings/retention",
    "/settings/health",
    "/settings/audit-log",
]


@pytest.mark.parametrize("language", ["ru", "pt"])
async def test_pages_are_shown_in_the_language(site: Site, language: str) -> None:
    async with site.client(**{"Accept-Language": language}) as client:
        await site.sign_in(client, "ada")
        shown = {path: await client.get(path) for path in PAGES}
    assert {path: page.status_code for path, page in shown.items() if page.status_code != 200} == {}
    assert {language_in(page.text) for page in shown.values()} == {language}
    assert [path for path, page in shown.items() if 'id="texts"' not in page.text] == []
    if language == "ru":
        assert {path: found for path, page in shown.items() if (found := english_in(page.text))} == {}


# Forms with a mistake each: what is wrong with it is an error of a lower layer, which knows no language.
FORMS: list[tuple[str, dict[str, str]]] = [
    ("/account/password", {"current": "correct horse battery", "password": "short"}),
    ("/account/email", {"email": "nobody", "password": "correct horse battery"}),
    ("/lists", {"listKey": "News!", "name": "News"}),
    ("/lists", {"listKey": "general", "name": "Everything"}),
    ("/contacts/new", {"email": "ada@example", "name": "Ada"}),
    ("/contacts/new", {"email": "ada@example.com", "locale": "Klingon"}),
    ("/contacts/new", {"email": "ada@example.com", "timezone": "Mars"}),
    ("/segments", {"segmentKey": "Big!", "name": "Big"}),
    ("/campaigns/new", {"name": ""}),
    ("/templates/~new", {"templateId": "a:b", "subject": "{{", "body": "x"}),
    ("/settings/limits", {"workingHours": "always", "timezone": "Mars"}),
    ("/settings/users", {"login": "Ada!", "password": "short", "role": "admin"}),
    ("/settings/invitations", {"email": "nobody", "role": "admin", "by": "email"}),
    ("/settings/webhooks", {"url": "ftp://x", "types": "message.sent"}),
    ("/settings/domains", {"name": "not a domain"}),
    ("/settings/sender", {"sender_address": "nobody"}),
    ("/settings/sender", {"base_url": "mail.example.com", "timezone": "Mars", "reply_address": "nobody"}),
    ("/settings/providers", {"provider": "mailgun", "mailgun_api_key": "two words", "mailgun_domain": "mg"}),
    ("/settings/brand", {"website": "nowhere"}),
]


@pytest.mark.both_engines
async def test_errors_of_forms_are_in_russian(site: Site) -> None:
    async with site.client(**{"Accept-Language": "ru"}) as client:
        token = await site.sign_in(client, "ada")
        shown = [(path, await client.post(path, data={"form_token": token, **fields})) for path, fields in FORMS]
    assert [(path, page.status_code) for path, page in shown if page.status_code != 422] == []
    assert [(path, found) for path, page in shown if (found := english_in(page.text))] == []
    errors = [
        (path, each.text()) for path, page in shown for each in LexborHTMLParser(page.text).css(".error, .is-bad")
    ]
    assert [each for each in errors if each[1].strip() and not re.search("[А-Яа-я]", each[1])] == []
    assert {path for path, _ in errors} == {path for path, _ in FORMS}


async def test_refused_request_of_a_script_is_in_russian(site: Site) -> None:
    async with site.client(**{"Accept-Language": "ru"}) as client:
        token = await site.sign_in(client, "ada")
        answer = await client.post("/lists/none/delete", data={"form_token": token}, headers={"HX-Request": "true"})
    assert orjson.loads(answer.headers["HX-Trigger"]) == {"showError": "Такого списка нет."}
