"""Templates and images, on both engines: immutable versions, locales, variables and checks."""

import asyncio
from collections.abc import AsyncIterator
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any

import pytest

from mailwright.app.wiring import make_worker, open_engine
from mailwright.content import template_store as content_store
from mailwright.content.formats import TemplateFormat
from mailwright.content.image_files import ImageFolder
from mailwright.content.images import ImageStore
from mailwright.content.presend_checks import PresendContext
from mailwright.content.template import InvalidTemplate
from mailwright.content.template_store import TemplateDraft, TemplateStore, diff_versions
from mailwright.content.variables import Variable
from mailwright.domain import locales
from mailwright.domain.clock import ManualClock
from mailwright.domain.errors import InvalidInput, NotFound
from mailwright.ops.settings import load
from mailwright.sources.campaigns.checks import check_campaign
from mailwright.sources.campaigns.definition import CampaignDefinition
from mailwright.sources.campaigns.snapshot import freeze
from mailwright.sources.campaigns.variants import CampaignNotStartable
from mailwright.storage.database import Database
from tests.api import Api, a_request, an_api
from tests.builders import DEFAULT_TENANT, a_contact, a_message, a_subscriber, claims_of
from tests.conftest import DatabaseAddress
from tests.pictures import a_png

FOOTER = '<p><a href="{{ unsubscribe_url }}">Leave</a> {{ postal_address }}</p>'


@pytest.fixture
def images(database: Database, clock: ManualClock, tmp_path: Path) -> ImageStore:
    return ImageStore(database, clock, ImageFolder(tmp_path / "images"))


@pytest.fixture
def store(database: Database, clock: ManualClock, images: ImageStore) -> TemplateStore:
    return TemplateStore(database, clock, images, "https://mail.example")


@pytest.fixture
async def api(database: Database, clock: ManualClock, tmp_path: Path) -> AsyncIterator[Api]:
    async with an_api(database, clock, images=tmp_path / "images", postal_address="Street 1") as api:
        yield api


def a_draft(body: str = "<p>Hello {{ name }}</p>", **changes: Any) -> TemplateDraft:
    return TemplateDraft(**{"subject": "Hello", "body": body, **changes})


# Versions.


async def test_template_cache_is_limited_and_keeps_recent_loads(
    database: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content_store, "MAX_CACHED_CHARACTERS", 10_000)
    monkeypatch.setattr(content_store, "RECENT_LOADS", 2)
    small = TemplateStore(database, clock)
    keys = [(await small.write(1, "large", a_draft(f"<p>{'x' * 4_000}{number}</p>"))).key for number in range(5)]
    await small.load(keys[:3])  # more than the limit, but needed
    assert [small.cached(key) is not None for key in keys] == [True, True, True, False, False]
    for key in (keys[3], keys[4], keys[4]):
        await small.load([key])
    assert [small.cached(key) is not None for key in keys] == [False, False, False, True, True]


async def test_every_change_creates_a_new_version(store: TemplateStore) -> None:
    first = await store.write(1, "hello", a_draft("# One", format=TemplateFormat.MARKDOWN))
    second = await store.write(
        1, "hello", a_draft("# Two\n\nand more", format=TemplateFormat.MARKDOWN, subject="Hello again")
    )
    assert (first.version, second.version) == (1, 2)
    assert await store.version(1, "hello", 1) == first
    assert await store.latest(1, "hello") == second
    assert [each.version for each in await store.versions(1, "hello")] == [2, 1]
    assert (second.body, second.format) == ("# Two\n\nand more", TemplateFormat.MARKDOWN)
    assert "<h1" in second.html
    changes = diff_versions(first, second).splitlines()
    assert {"-Hello", "+Hello again", "-# One", "+# Two", "+and more"} <= set(changes)
    assert diff_versions(first, first) == ""


async def test_concurrent_authors_get_different_versions(store: TemplateStore) -> None:
    await store.write(1, "hello", a_draft())
    written = await asyncio.gather(*(store.write(1, "hello", a_draft(f"<p>{number}</p>")) for number in range(6)))
    assert sorted(each.version for each in written) == [2, 3, 4, 5, 6, 7]


async def test_missing_template_is_not_found(store: TemplateStore) -> None:
    await store.write(2, "theirs", a_draft())
    with pytest.raises(NotFound):
        await store.latest(1, "theirs")
    with pytest.raises(NotFound):
        await store.versions(1, "theirs")
    with pytest.raises(NotFound):
        await store.version(2, "theirs", 2)


async def test_internal_templates_are_hidden_and_protected(store: TemplateStore) -> None:
    await store.put(1, "campaign:1", subject="a", html="<p>a</p>", text=None)
    await store.write(1, "hello", a_draft())
    assert [list(each) for each in await store.list_page(1, limit=10)] == [[""]]
    with pytest.raises(InvalidInput, match="colon"):
        await store.write(1, "campaign:1", a_draft())


# Locales.


@pytest.mark.parametrize(
    ("wanted", "got"),
    [
        (None, ""),
        ("pt", "pt"),
        ("pt-BR", "pt-BR"),
        ("PT_br", "pt-BR"),
        ("pt-AO", "pt"),
        ("de", ""),
        ("zh-Hant-TW", "zh-Hant"),
        ("nonsense!", ""),
    ],
)
def test_most_specific_locale_is_chosen(wanted: str | None, got: str) -> None:
    texts = {name: name for name in ("", "pt", "pt-BR", "zh-Hant")}
    assert locales.best(texts, wanted) == got


async def test_locales_share_one_version_sequence(store: TemplateStore) -> None:
    with pytest.raises(InvalidInput, match="without a locale first"):
        await store.write(1, "hello", a_draft(locale="pt"))
    with pytest.raises(InvalidInput, match="pt-BR"):
        await store.write(1, "hello", a_draft(locale="klingon"))
    await store.write(1, "hello", a_draft())
    await store.write(1, "hello", a_draft("<p>Olá</p>", locale="pt"))
    await store.write(1, "hello", a_draft("<p>Oi</p>", locale="pt_br"))
    await store.write(1, "hello", a_draft("<p>Hello!</p>"))
    result = {locale: (await store.latest(1, "hello", locale)).version for locale in ("", "pt", "pt-BR", "pt-AO", "ru")}
    assert result == {"": 4, "pt": 2, "pt-BR": 3, "pt-AO": 2, "ru": 4}


async def test_send_uses_locale_of_request_or_contact(api: Api, clock: ManualClock) -> None:
    for locale, words in ((None, "Hello"), ("pt", "Olá"), ("ru", "Привет")):
        body = {"subject": words, "html": f"<p>{words}</p>", **({"locale": locale} if locale else {})}
        assert (await api.client.put("/v1/templates/hello", json=body)).status_code == 201
    await a_contact(api.engine.database, "ana@example.com", locale="pt_BR")
    templated = {"html": None, "subject": None, "templateId": "hello"}
    for to, locale in (
        ("ana@example.com", None),
        ("ana@example.com", "ru"),
        ("Ana@Example.com", "de"),
        ("x@example.com", None),
    ):
        await api.send(**templated, to=to, locale=locale)
    batch = {"messages": [a_request(**templated, to="ana@example.com"), a_request(**templated, locale="ru-RU")]}
    assert (await api.client.post("/v1/email/batch", json=batch)).status_code == 202
    claimed = await claims_of(api.engine.database, clock).claim(limit=10)
    assert [each.template_key for each in sorted(claimed, key=lambda each: each.message_key)] == [2, 3, 1, 1, 2, 3]


@pytest.mark.parametrize("changes", [{"locale": "pt"}, {"html": None, "templateId": "hello", "locale": "not a locale"}])
async def test_invalid_locale_is_refused(api: Api, changes: dict[str, Any]) -> None:
    response = await api.client.post("/v1/email/send", json=a_request(**changes))
    assert (response.status_code, response.json()["errors"][0]["field"]) == (422, "locale")


# Variables.


async def test_declared_variables_must_match_used_ones(store: TemplateStore) -> None:
    def declaring(body: str, *variables: Variable) -> Any:
        return store.write(1, "hello", a_draft(body, variables=variables))

    with pytest.raises(InvalidTemplate, match="not declared: coupn"):
        await declaring("<p>{{ coupn }} {{ name }}</p>", Variable("coupon"))
    with pytest.raises(InvalidTemplate, match="some contacts have no coupon"):
        await declaring("<p>{{ coupon }}</p>", Variable("coupon", is_required=False))
    with pytest.raises(InvalidTemplate, match="twice: a"):
        await declaring("<p>{{ a }}</p>", Variable("a"), Variable("a"))
    kept = (Variable("coupon", is_required=False, sample={"code": "X1"}), Variable("count", sample=3))
    stored = await declaring('<p>{{ coupon|default("none") }} {{ count }} {{ name }}</p>', *kept)
    assert (await store.latest(1, "hello")).expected_variables() == kept
    assert "3 Jane Doe" in str(stored.render({"coupon": "Y"}).html)


async def test_undeclared_template_lists_used_variables(store: TemplateStore) -> None:
    stored = await store.write(1, "hello", a_draft('<p>{{ a }}{{ b|default("") }}{{ email }}</p>'))
    assert stored.expected_variables() == (Variable("a"), Variable("b", is_required=False))
    with pytest.raises(InvalidTemplate, match="needs a: provide"):
        stored.render({})


# Images.


async def test_image_is_stored_by_content_and_shown_by_name(
    store: TemplateStore, images: ImageStore, tmp_path: Path
) -> None:
    image = await images.put(1, "logo.png", a_png())
    first = await store.write(1, "hello", a_draft('<img src="logo.png" alt="Us">'))
    assert f"https://mail.example/images/{image.file_name}" in first.html
    assert first.body == '<img src="logo.png" alt="Us">'
    other = await images.put(1, "logo.png", a_png(41))
    second = await store.write(1, "hello", a_draft('<img src="logo.png" alt="Us">'))
    assert other.file_name in second.html
    assert image.file_name in (await store.version(1, "hello", 1)).html
    assert {file.name for file in (tmp_path / "images").iterdir()} == {image.file_name, other.file_name}


# Over HTTP.


async def test_template_is_stored_shown_compared_and_previewed(api: Api) -> None:
    path = "/v1/templates/receipt"
    variables = [{"name": "total", "sample": "12.00"}, {"name": "note", "required": False}]
    mjml = (
        "<mjml><mj-body><mj-section><mj-column><mj-text>{{ total }} {{ note|default('') }}</mj-text></mj-column>"
        "</mj-section></mj-body></mjml>"
    )
    first = await api.client.put(path, json={"subject": "Receipt {{ total }}", "mjml": mjml, "variables": variables})
    assert first.status_code == 201, first.text
    assert (first.json()["version"], first.json()["format"], first.json()["body"]) == (1, "mjml", mjml)
    await api.client.put(path, json={"subject": "Receipt", "html": "<p>{{ total }}</p>", "text": "{{ total }}"})
    await api.client.put(path, json={"subject": "Recibo", "markdown": "**{{ total }}**", "locale": "pt"})
    assert (await api.client.get(path)).json()["version"] == 2
    assert (await api.client.get(f"{path}?locale=pt-BR")).json()["subject"] == "Recibo"
    assert (await api.client.get(f"{path}?version=1")).json()["variables"][0] == {
        "name": "total",
        "required": True,
        "sample": "12.00",
    }
    assert [each["version"] for each in (await api.client.get(f"{path}/versions")).json()["versions"]] == [3, 2, 1]
    [line] = (await api.client.get("/v1/templates")).json()["templates"]
    assert [(each["locale"], each["version"]) for each in line["newest"]] == [("", 2), ("pt", 3)]
    changed = (await api.client.get(f"{path}/diff?before=1&after=2")).json()["difference"]
    assert "-Receipt {{ total }}" in changed
    assert (await api.client.get(f"{path}/diff?after=2")).json()["difference"] == changed
    assert (await api.client.get(f"{path}/diff")).json()["difference"] == ""  # the first version of its locale
    visible = await api.client.post(f"{path}/preview", json={"version": 1})
    assert (visible.json()["subject"], "12.00" in visible.json()["text"]) == ("Receipt 12.00", True)
    visible = await api.client.post(f"{path}/preview", json={"locale": "pt", "variables": {"total": "<b>"}})
    assert ("&lt;b&gt;" in visible.json()["html"], visible.json()["locale"]) == (True, "pt")
    lacking = await api.client.post(f"{path}/preview", json={})
    assert (lacking.status_code, lacking.json()["errors"][0]["field"]) == (422, "variables")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"subject": "a"}, "html"),
        ({"subject": "a", "html": "<p>a</p>", "mjml": "b"}, "html"),
        ({"subject": "a\nBcc: b", "html": "<p>a</p>"}, "subject"),
        ({"subject": "a", "html": "<p>{{ a </p>"}, "html"),
        ({"subject": "a", "html": "<script>a</script>"}, "html"),
        ({"subject": "a", "mjml": "<mjml><mj-body><mj-x/></mj-body></mjml>"}, "mjml"),
        ({"subject": "a", "markdown": "<div>" * 1_000}, "markdown"),
        ({"subject": "a", "html": "<p>a</p>", "variables": [{"name": "a b"}]}, "variables[0].name"),
        ({"subject": "a", "html": "<p>a</p>", "colour": "red"}, "colour"),
    ],
)
async def test_invalid_template_names_its_field(api: Api, body: dict[str, Any], field: str) -> None:
    response = await api.client.put("/v1/templates/hello", json=body)
    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == field
    assert (await api.client.get("/v1/templates/hello")).status_code == 404


async def test_templates_of_other_tenants_are_not_found(api: Api) -> None:
    await api.stranger.put("/v1/templates/theirs", json={"subject": "a", "html": "<p>a</p>"})
    for path in ("", "/versions", "/diff?before=1&after=1", "/preflight"):
        assert (await api.client.get(f"/v1/templates/theirs{path}")).status_code == 404
    assert (await api.client.post("/v1/templates/theirs/preview", json={})).status_code == 404
    assert (await api.client.get("/v1/templates")).json()["templates"] == []


async def test_template_is_checked_before_sending(api: Api) -> None:
    await api.client.put("/v1/templates/news", json={"subject": "News", "html": '<p>News</p><img src="a.png">'})
    response = (await api.client.get("/v1/templates/news/preflight")).json()
    assert response["mayGo"] is False
    assert [each["code"] for each in response["findings"] if each["level"] == "blocks"] == ["BROKEN_IMAGE"]
    assert "NO_UNSUBSCRIBE_LINK" in [each["code"] for each in response["findings"]]
    await api.client.put("/v1/templates/news", json={"subject": "News", "html": f"<p>News</p>{FOOTER}"})
    assert (await api.client.get("/v1/templates/news/preflight")).json() == {"mayGo": True, "findings": []}
    response = (await api.client.get("/v1/templates/news/preflight?bulk=false&version=1")).json()
    assert "NO_UNSUBSCRIBE_LINK" not in [each["code"] for each in response["findings"]]


async def test_postal_address_of_settings_is_in_the_email(engine: DatabaseAddress, tmp_path: Path) -> None:
    settings = load(database_url=engine.url, mailbox=tmp_path / "box", postal_address="Workshop, Street 1,\nLisbon\n")
    async with open_engine(settings) as opened:
        template = await opened.templates.write(1, "news", a_draft(f"<p>News</p>{FOOTER}"))
        to = "ada@example.com"
        await opened.acceptor.accept([a_message(to=to, template_key=template.key, payload={"to": to})])
        await (await make_worker(opened)).run(drain=True)
    [file] = (tmp_path / "box" / "new").iterdir()
    email = message_from_bytes(file.read_bytes(), policy=policy.default)
    bodies = [email.get_body((kind,)) for kind in ("html", "plain")]
    assert all("Workshop, Street 1 · Lisbon" in body.get_content() for body in bodies if body is not None)


# Campaigns.


def a_definition(content: dict[str, Any], **changes: Any) -> CampaignDefinition:
    everyone = {"filter": {"status": "active"}}
    return CampaignDefinition.model_validate({"name": "News", "content": content, **everyone, **changes})


async def test_campaign_is_refused_with_all_reasons(
    database: Database, store: TemplateStore, clock: ManualClock
) -> None:
    await a_subscriber(database, "ana@example.com")
    body = '<p>{{ city }}</p><a href="/x">x</a><img src="none.png">'
    definition = a_definition({"subject": "READ THIS NOW", "body": body}, lists=["missing"], filter={"nonsense": 1})
    with pytest.raises(CampaignNotStartable) as refused:
        await freeze(database, store, definition, tenant_id=1, campaign_id="c1", now=clock.now())
    reasons = {(each.field, each.code) for each in refused.value.problems}
    assert {field for field, _ in reasons} == {"lists", "filter", "content.body", "variables"}
    assert reasons >= {
        ("lists", "UNKNOWN_LIST"),
        ("content.body", "RELATIVE_LINK"),
        ("content.body", "BROKEN_IMAGE"),
    }
    with pytest.raises(NotFound):
        await store.latest(1, "campaign:c1")


async def test_campaign_without_unsubscribe_link_gets_one(
    database: Database, store: TemplateStore, clock: ManualClock
) -> None:
    await a_subscriber(database, "ana@example.com")
    definition = a_definition({"subject": "Hello", "body": "<html><body><p>Street 1</p></body></html>"})
    facts = PresendContext(postal_address="Street 1")
    started = await freeze(database, store, definition, tenant_id=1, campaign_id="c1", now=clock.now(), facts=facts)
    assert [each.code for each in started.warnings] == ["NO_UNSUBSCRIBE_LINK"]
    html = (await store.latest(1, "campaign:c1")).html
    assert 'href="{{ unsubscribe_url }}"' in html
    assert html.endswith("</p></body></html>")


async def test_warnings_are_reported_and_stop_nothing(
    database: Database, store: TemplateStore, clock: ManualClock
) -> None:
    await a_subscriber(database, "ana@example.com")
    definition = a_definition({"subject": "READ THIS NOW", "body": f"<p>a</p>{FOOTER}"})
    facts = PresendContext(postal_address="Street 1", sender=("SPF: none",))
    started = await freeze(database, store, definition, tenant_id=1, campaign_id="c1", now=clock.now(), facts=facts)
    assert started.planned == 1
    assert [each.code for each in started.warnings] == ["CAPITALS", "SENDER_NOT_TRUSTED"]


async def test_campaign_records_template_versions_by_locale(
    database: Database, store: TemplateStore, clock: ManualClock
) -> None:
    await a_subscriber(database, "ana@example.com", locale="pt-BR")
    for locale in ("", "pt", "pt-BR"):
        await store.write(1, "news", a_draft(f"<p>{locale}</p>{FOOTER}", locale=locale, subject=f"News {locale}"))

    async def frozen(campaign_id: str, **content: Any) -> Any:
        definition = a_definition({"templateId": "news", **content})
        started = await freeze(database, store, definition, tenant_id=1, campaign_id=campaign_id, now=clock.now())
        return started.content.variants[0]

    version = await frozen("c1")
    assert list(version.templates.items()) == [("pt-BR", 3), ("pt", 2), ("", 1)]
    version = await frozen("c2", subject="Another subject")
    assert [key > 3 for key in version.templates.values()] == [True] * 3
    await store.load(version.templates.values())
    kept = {locale: store.cached(key) for locale, key in version.templates.items()}
    assert {each.subject for each in kept.values() if each} == {"Another subject"}
    assert all(each is not None and each.locale == locale for locale, each in kept.items())


async def test_variable_of_one_locale_is_required_only_there(
    database: Database, store: TemplateStore, clock: ManualClock
) -> None:
    await a_subscriber(database, "ana@example.com", locale="pt", attributes='{"cidade": "Porto"}')
    await a_subscriber(database, "bob@example.com", locale="en")
    await store.write(1, "news", a_draft(f"<p>News</p>{FOOTER}"))
    await store.write(1, "news", a_draft(f"<p>{{{{ cidade }}}}</p>{FOOTER}", locale="pt"))
    definition = a_definition({"templateId": "news"})
    examined = await check_campaign(database, store, definition, tenant_id=DEFAULT_TENANT, now=clock.now())
    assert examined.problems == ()
    await a_subscriber(database, "rui@example.com", locale="pt-BR")
    examined = await check_campaign(database, store, definition, tenant_id=DEFAULT_TENANT, now=clock.now())
    assert [each.code for each in examined.problems] == ["MISSING_VARIABLE"]


@pytest.mark.parametrize("format_", ["html", "mjml", "markdown"])
async def test_syntax_error_in_the_subject_names_the_subject(api: Api, format_: str) -> None:
    body = "<mjml><mj-body></mj-body></mjml>" if format_ == "mjml" else "Hello"
    refused = await api.client.put("/v1/templates/hello", json={"subject": "Hello {{ name", format_: body})
    assert [(each["field"], each["message"]) for each in refused.json()["errors"]] == [
        ("subject", "The subject is invalid: a block is not closed.")
    ]
