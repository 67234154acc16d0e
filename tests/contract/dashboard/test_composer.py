"""What the composer asks the dashboard, on both engines: drafts, versions, previews, roles and tenants."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from html import escape, unescape
from typing import Any

import httpx
import orjson
import pytest

from mailwright.access.roles import Role
from mailwright.audience import contacts
from mailwright.audience.contacts import ContactChange
from mailwright.content.blocks.starters import load_starter
from mailwright.content.brand import Brand
from mailwright.content.formats import TemplateFormat
from mailwright.content.template import InvalidTemplate
from mailwright.content.template_drafts import DraftKey
from mailwright.content.template_store import TemplateDraft
from mailwright.content.variables import Variable
from mailwright.domain.clock import ManualClock
from mailwright.domain.tracking_tokens import TrackingTokens, link_id_of
from mailwright.domain.unsubscribe_tokens import UnsubscribeTokens
from mailwright.outbox import tenants
from mailwright.outbox.message_records import MessageSearch, search
from mailwright.outbox.tracked_links import store_links
from mailwright.sources.campaigns.checks import check_campaign
from mailwright.sources.campaigns.definition import CampaignDefinition, ContentDefinition
from mailwright.storage.database import Database
from tests.api import Api, an_api
from tests.builders import DEFAULT_TENANT
from tests.composing import DOCUMENT, a_block_draft, a_block_template
from tests.pages import HOME, PASSWORD

EMAIL: dict[str, Any] = {"document": DOCUMENT, "subject": "Summer news"}
PATHS = {
    "autosave": ("PUT", {**EMAIL, "baseRevision": 0, "baseVersion": 1}),
    "publish": ("POST", {**EMAIL, "baseRevision": 0, "baseVersion": 1}),
    "source": ("POST", {**EMAIL, "baseRevision": 0, "baseVersion": 1}),
    "discard": ("POST", {"baseRevision": 0}),
    "copy": ("POST", EMAIL),
    "presence": ("POST", {"editor": "tab"}),
}


@pytest.fixture
async def api(database: Database, clock: ManualClock) -> AsyncIterator[Api]:
    async with an_api(database, clock, postal_address="Street 1") as api:
        await a_block_template(api.engine, "news")
        yield api


@dataclass
class Editor:
    client: httpx.AsyncClient

    async def send(self, method: str, path: str, body: Any = None) -> httpx.Response:
        return await self.client.request(method, path, json=body)

    async def save(self, revision: int, subject: str = "Summer news", **changes: Any) -> httpx.Response:
        body = {**EMAIL, "subject": subject, "baseRevision": revision, "baseVersion": 1, **changes}
        return await self.send("PUT", "/templates/news/autosave", body)


@asynccontextmanager
async def an_editor(api: Api, login: str, role: Role = Role.EDITOR, **user: Any) -> AsyncIterator[Editor]:
    await api.engine.users.create(login, PASSWORD, role, actor="test", **user)
    transport = httpx.ASGITransport(api.app)
    async with httpx.AsyncClient(transport=transport, base_url=HOME, headers={"Origin": HOME}) as client:
        assert (await client.post("/sign-in", data={"login": login, "password": PASSWORD})).status_code == 303
        answer = await client.get("/composer/session")
        client.headers["X-Form-Token"] = answer.json().get("formToken", "none")
        yield Editor(client)


async def test_second_editor_gets_the_draft_of_the_first(api: Api) -> None:
    async with an_editor(api, "ada") as ada, an_editor(api, "grace") as grace:
        assert (await ada.save(0)).json()["revision"] == 1
        refused = await grace.save(0, "From Grace")
        assert refused.status_code == 409
        theirs = refused.json()
        assert (theirs["savedBy"], theirs["subject"], theirs["revision"]) == ("ada", "Summer news", 1)
        assert theirs["document"] == DOCUMENT
        assert (await grace.save(1, "From Grace")).json()["revision"] == 2
        seen = [
            await each.send("POST", "/templates/news/presence", {"editor": each_id})
            for each, each_id in ((ada, "a"), (grace, "g"))
        ]
        assert [each.json()["others"] for each in seen] == [[], ["ada"]]
        assert seen[1].json()["savedBy"] == "grace"


async def test_publishing_ends_the_draft_for_everyone(api: Api) -> None:
    async with an_editor(api, "ada") as ada, an_editor(api, "grace") as grace:
        await ada.save(0)
        body = {**EMAIL, "baseRevision": 1, "baseVersion": 1}
        made = await ada.send("POST", "/templates/news/publish", body)
        assert made.json() == {"version": 2, "revision": 2}
        stale = await grace.save(1, "From Grace")
        assert stale.status_code == 409
        assert (stale.json()["isPublished"], stale.json()["savedBy"]) == (True, "ada")
        assert stale.json()["subject"] == "Summer news"
        again = await grace.send("POST", "/templates/news/publish", {**body, "baseRevision": 2})
        assert again.status_code == 409  # The version is older than the published one.


async def test_unchanged_email_is_not_published_again(api: Api) -> None:
    body = {**EMAIL, "baseRevision": 0, "baseVersion": 1}
    async with an_editor(api, "ada") as ada:
        assert (await ada.send("POST", "/templates/news/publish", body)).json() == {"version": 2, "revision": 1}
        again = await ada.send("POST", "/templates/news/publish", {**body, "baseRevision": 1, "baseVersion": 2})
        assert again.json() == {"version": 2, "revision": 2, "isUnchanged": True}
        # Another brand kit changes the email.
        await api.engine.brands.save(DEFAULT_TENANT, Brand(name="Acme"), actor="test")
        made = await ada.send("POST", "/templates/news/publish", {**body, "baseRevision": 2, "baseVersion": 2})
        assert made.json()["version"] == 3


async def test_one_of_four_parallel_publications_succeeds(api: Api) -> None:
    body = {**EMAIL, "baseRevision": 0, "baseVersion": 1}
    async with an_editor(api, "ada") as ada:
        made = await asyncio.gather(*(ada.send("POST", "/templates/news/publish", body) for _ in range(4)))
    assert sorted(each.status_code for each in made) == [200, 409, 409, 409]
    assert len(await api.engine.templates.versions(DEFAULT_TENANT, "news")) == 2


async def test_version_from_elsewhere_is_a_conflict(api: Api) -> None:
    await api.client.put("/v1/templates/news", json={"subject": "By API", "blocks": DOCUMENT})
    async with an_editor(api, "ada") as ada:
        refused = await ada.send("POST", "/templates/news/publish", {**EMAIL, "baseRevision": 0, "baseVersion": 1})
        assert (refused.status_code, refused.json()["subject"]) == (409, "By API")
        assert refused.json()["savedBy"].startswith("the API")


@pytest.mark.parametrize(
    ("actor", "format_", "named"),
    [
        ("console", TemplateFormat.BLOCKS, "the command line"),
        ("api:shop", TemplateFormat.BLOCKS, "the API (key shop)"),
        ("grace", TemplateFormat.BLOCKS, "grace"),
        ("grace", TemplateFormat.HTML, "grace, in the source editor,"),
        (None, TemplateFormat.BLOCKS, "another program"),
    ],
)
async def test_conflict_names_who_published(api: Api, actor: str | None, format_: TemplateFormat, named: str) -> None:
    body = orjson.dumps(DOCUMENT).decode() if format_ is TemplateFormat.BLOCKS else "<p>Hello</p>"
    draft = TemplateDraft(subject="Other news", body=body, format=format_)
    await api.engine.templates.write(DEFAULT_TENANT, "news", draft, actor=actor)
    async with an_editor(api, "ada") as ada:
        refused = await ada.send("POST", "/templates/news/publish", {**EMAIL, "baseRevision": 0, "baseVersion": 1})
        assert (refused.status_code, refused.json()["savedBy"]) == (409, named)


async def test_new_language_of_a_design_opens_the_composer(api: Api) -> None:
    async with an_editor(api, "ada") as ada:
        shown = await ada.send("GET", "/templates/news")
        assert 'action="/templates/news/compose"' in shown.text
        assert "/templates/news/edit?version=1#locale" not in shown.text
        opened = await ada.send("GET", "/templates/news/compose?locale=PT_br")
        assert (opened.status_code, '"locale":"pt-BR"' in opened.text.replace(": ", ":")) == (200, True)
        refused = await ada.send("GET", "/templates/news/compose?locale=no+language")
        assert (refused.status_code, refused.headers["location"]) == (303, "/templates/news")


async def test_unfinished_draft_is_saved_but_not_published(api: Api) -> None:
    broken = {"version": 1, "blocks": [{"id": "b9", "type": "button", "href": "javascript:x"}]}
    async with an_editor(api, "ada") as ada:
        assert (await ada.save(0, "", document=broken)).status_code == 200
        body = {"document": broken, "subject": "News", "baseRevision": 1, "baseVersion": 1}
        refused = await ada.send("POST", "/templates/news/publish", body)
        assert (refused.status_code, refused.json()["blockId"]) == (422, "b9")
        body = {"document": DOCUMENT, "subject": " ", "baseRevision": 1, "baseVersion": 1}
        refused = await ada.send("POST", "/templates/news/publish", body)
        assert refused.json()["errors"][0]["field"] == "subject"


async def test_preview_has_size_warnings_and_real_values(api: Api) -> None:
    change = ContactChange(name="Ada", attributes={"city": "London"})
    await contacts.put(api.engine.database, api.engine.clock, DEFAULT_TENANT, "ada@example.com", change)
    chip = '<span data-variable="city" data-fallback="town">city</span>'
    blocks = [{"id": "t", "type": "text", "html": f"<p>{chip}</p>"}, {"id": "i", "type": "image"}]
    body = {"document": {"version": 1, "blocks": blocks}, "subject": "Hi {{ name }}", "contact": "ada@example.com"}
    async with an_editor(api, "ada") as ada:
        made = (await ada.send("POST", "/composer/preview", body)).json()
        assert (made["subject"], "London" in made["html"]) == ("Hi Ada", True)
        assert made["sizeBytes"] > 1_000
        assert ["i"] in [each["blockIds"] for each in made["warnings"]]
        assert any("unsubscribe" in each["message"] for each in made["warnings"])
        variables = (await ada.send("GET", "/composer/variables")).json()
        assert {"name": "city", "example": "London", "count": 1} in variables
        unknown = await ada.send("POST", "/composer/preview", {**body, "contact": "nobody@example.com"})
        assert unknown.status_code == 422


async def test_test_email_is_accepted(api: Api) -> None:
    async with an_editor(api, "ada") as ada:
        sent = await ada.send("POST", "/composer/test", {**EMAIL, "to": "me@example.com"})
        assert sent.status_code == 200
        refused = await ada.send("POST", "/composer/test", {**EMAIL, "to": "nowhere"})
        assert refused.status_code == 422
    [message] = await search(api.engine.database, DEFAULT_TENANT, MessageSearch(to_email="me@example.com"), limit=5)
    assert message.subject == "[Test] Summer news"


async def test_source_keeps_the_blocks_as_a_version(api: Api) -> None:
    async with an_editor(api, "ada") as ada:
        made = await ada.send("POST", "/templates/news/source", {**EMAIL, "baseRevision": 0, "baseVersion": 1})
    assert made.json()["path"] == "/templates/news/edit?version=3"
    versions = await api.engine.templates.versions(DEFAULT_TENANT, "news")
    assert [each.format for each in versions] == ["mjml", "blocks", "blocks"]
    assert orjson.loads(versions[1].body) == DOCUMENT


async def test_copies_get_a_free_id(api: Api) -> None:
    async with an_editor(api, "ada") as ada:
        made = [(await ada.send("POST", "/templates/news/copy", EMAIL)).json()["path"] for _ in range(2)]
        await api.engine.template_removal.delete(DEFAULT_TENANT, "news-copy", actor="test")
        made.append((await ada.send("POST", "/templates/news/copy", EMAIL)).json()["path"])
    assert made == [f"/templates/news-copy{number}/compose" for number in ("", "-2", "-3")]


async def test_viewer_cannot_compose(api: Api) -> None:
    async with an_editor(api, "alan", Role.VIEWER) as alan:
        asked = [(method, f"/templates/news/{name}", body) for name, (method, body) in PATHS.items()]
        asked += [("POST", "/composer/preview", EMAIL), ("POST", "/composer/test", {**EMAIL, "to": "a@example.com"})]
        asked += [("GET", "/composer/variables", None), ("GET", "/composer/session", None)]
        asked += [("GET", "/templates/news/compose", None)]
        for method, path, body in asked:
            assert (await alan.send(method, path, body)).status_code == 403, path
    assert (await api.engine.templates.latest(DEFAULT_TENANT, "news")).version == 1


async def test_other_tenants_do_not_find_the_template(api: Api) -> None:
    await tenants.create(api.engine.database, api.engine.clock, "bakery")
    bakery = await tenants.find(api.engine.database, "bakery")
    async with an_editor(api, "mary", tenant_id=bakery.id) as mary:
        for name, (method, body) in PATHS.items():
            assert (await mary.send(method, f"/templates/news/{name}", body)).status_code == 404, name
        assert (await mary.send("GET", "/templates/news/compose")).status_code == 404


async def test_requests_need_a_session_and_its_token(api: Api) -> None:
    async with an_editor(api, "ada") as ada:
        ada.client.headers["X-Form-Token"] = "foreign"
        assert (await ada.save(0)).status_code == 403
        ada.client.cookies.clear()
        assert (await ada.save(0)).status_code == 401
        assert (await ada.send("GET", "/composer/session")).status_code == 401


# Campaigns.


async def problems_of(api: Api, template_id: str) -> set[str]:
    """Return the codes of the problems and warnings of a campaign with this template."""
    definition = CampaignDefinition(name="Spring", content=ContentDefinition(template_id=template_id))
    found = await check_campaign(
        api.engine.database, api.engine.templates, definition, tenant_id=DEFAULT_TENANT, now=api.engine.clock.now()
    )
    return {problem.code for problem in found.problems} | {warning.code for warning in found.warnings}


@pytest.mark.both_engines
async def test_campaign_needs_a_published_draft(api: Api) -> None:
    async with an_editor(api, "ada") as ada:
        assert "UNPUBLISHED_DRAFT" not in await problems_of(api, "news")
        assert (await ada.save(0, "Changed")).status_code == 200
        assert "UNPUBLISHED_DRAFT" in await problems_of(api, "news")
        made = await api.client.post("/v1/campaigns", json={"name": "Spring", "content": {"templateId": "news"}})
        campaign_id = made.json()["campaignId"]
        review = (await ada.client.get(f"/campaigns/{campaign_id}/checks")).text
        assert f'href="/templates/news/compose?campaign={campaign_id}">Fix this' in review
        assert review.count("“Publish” or “Discard draft”") == 1
        assert "at this time" not in review  # No list is chosen.
        body = {**EMAIL, "baseRevision": 1, "baseVersion": 1}
        assert (await ada.send("POST", "/templates/news/publish", body)).status_code == 200
        assert "UNPUBLISHED_DRAFT" not in await problems_of(api, "news")


async def test_campaign_with_a_blank_design_is_not_ready(api: Api) -> None:
    blocks = [{"id": "a", "type": "header"}, {"id": "b", "type": "text", "html": ""}, {"id": "c", "type": "footer"}]
    await a_block_template(api.engine, "spring", document={"version": 1, "blocks": blocks})
    assert "BLANK_DESIGN" in await problems_of(api, "spring")
    assert "BLANK_DESIGN" not in await problems_of(api, "news")


FLAWS = {
    "UNKNOWN_SEGMENT": {"type": "condition", "segment": "vip", "blocks": [{"id": "v", "type": "divider"}]},
    "EMPTY_HEADER": {"type": "header"},
    "UNFINISHED_BLOCK": {"type": "image"},
    "EMPTY_BLOCK": {"type": "text"},
    "LOW_CONTRAST": {"type": "button", "label": "Go", "href": "https://shop.io", "color": "#777", "textColor": "#888"},
    "SAMPLE_LINK": {"type": "text", "html": '<p><a href="https://example.com/a">More</a></p>'},
    "EMPTY_LINK": {"type": "html", "html": '<p><a href="#">More</a></p>'},
    "NO_POSTAL_ADDRESS": {"type": "text", "html": "<p>{{ unsubscribe_url }}</p>"},
}


async def test_content_has_the_same_issues_everywhere(api: Api) -> None:
    blocks = [{"id": f"b{number}", **block} for number, block in enumerate(FLAWS.values())]
    stored = await a_block_template(api.engine, "spring", document={"version": 1, "blocks": blocks})
    body = {"document": {"version": 1, "blocks": blocks}, "subject": stored.subject}
    answer = (await api.client.get("/v1/templates/spring/preflight")).json()
    issues = {(each["code"], each["sentence"]) for each in answer["findings"]}
    assert {code for code, _ in issues} == set(FLAWS)
    made = await api.client.post("/v1/campaigns", json={"name": "Spring", "content": {"templateId": "spring"}})
    async with an_editor(api, "ada", Role.ADMIN) as ada:
        for template_id in ("spring", ""):
            shown = (await ada.send("POST", "/composer/preview", {**body, "templateId": template_id})).json()
            assert {(each["code"], each["message"]) for each in shown["warnings"]} == issues
        page = unescape((await ada.client.get("/templates/spring")).text)
        review = unescape((await ada.client.get(f"/campaigns/{made.json()['campaignId']}/checks")).text)
    for text in (page, review):
        assert all(f"<b>{sentence}</b>" in text for _, sentence in issues if "{{" not in sentence)
        assert '<a href="/settings/brand">Set a logo or a name in the brand kit</a>' in text
    assert await problems_of(api, "spring") - {"NO_AUDIENCE"} == set(FLAWS)


async def test_changed_brand_asks_to_publish_again(api: Api) -> None:
    document = {"version": 1, "blocks": [{"id": "h", "type": "header"}, *DOCUMENT["blocks"]]}
    stored = await a_block_template(api.engine, "spring", document=document)
    body = {"document": document, "subject": stored.subject, "templateId": "spring"}
    async with an_editor(api, "ada") as ada:

        async def codes(**changes: str) -> set[str]:
            shown = (await ada.send("POST", "/composer/preview", {**body, **changes})).json()
            return {each["code"] for each in shown["warnings"]} & {"BRAND_CHANGED", "EMPTY_HEADER"}

        assert await codes() == {"EMPTY_HEADER"}
        await api.engine.brands.save(DEFAULT_TENANT, Brand(name="Acme"), actor="test")
        assert await codes() == {"BRAND_CHANGED"}
        assert await codes(subject="A draft, which gets the new brand kit") == set()
        assert "BRAND_CHANGED" in await problems_of(api, "spring")
        published = {**body, "locale": "", "baseRevision": 0, "baseVersion": stored.version}
        del published["templateId"]
        assert (await ada.send("POST", "/templates/spring/publish", published)).status_code == 200
        await api.engine.brands.save(DEFAULT_TENANT, Brand(name="Acme", accent="#112233"), actor="test")
        assert await codes() == set()
        await api.engine.brands.save(DEFAULT_TENANT, Brand(), actor="test")
        assert await codes() == {"BRAND_CHANGED"}


async def test_review_warns_about_samples_of_a_starter(api: Api) -> None:
    await a_block_template(api.engine, "spring", document=load_starter("newsletter").document)
    assert await problems_of(api, "spring") >= {"SAMPLE_TEXT", "SAMPLE_LINK"}
    words = {"id": "a", "type": "text", "html": '<p>Read <a href="https://www.example.org/a">more</a></p>'}
    await a_block_template(api.engine, "spring", document={"version": 1, "blocks": [words]})
    assert {"SAMPLE_TEXT", "SAMPLE_LINK"} & await problems_of(api, "spring") == {"SAMPLE_LINK"}
    words["html"] = '<p>Read <a href="https://myexample.org/example.org">more</a></p>'
    await a_block_template(api.engine, "spring", document={"version": 1, "blocks": [words]})
    assert not {"SAMPLE_TEXT", "SAMPLE_LINK"} & await problems_of(api, "spring")


@pytest.mark.parametrize(
    ("format_", "body"),
    [
        (TemplateFormat.HTML, '<p><a href="https://example.com/a">More</a></p>'),
        (TemplateFormat.MARKDOWN, "Read [more](https://example.com/a)"),
        (
            TemplateFormat.MJML,
            "<mjml><mj-body><mj-section><mj-column>"
            '<mj-button href="https://example.com/a">More</mj-button></mj-column></mj-section></mj-body></mjml>',
        ),
    ],
)
async def test_sample_link_is_found_in_each_format_and_language(api: Api, format_: TemplateFormat, body: str) -> None:
    for locale, text in (("", body.replace("example.com", "shop.test")), ("pt-BR", body)):
        draft = TemplateDraft(subject="News", body=text, format=format_, locale=locale)
        await api.engine.templates.write(DEFAULT_TENANT, "source", draft, actor="test")
    assert "SAMPLE_LINK" in await problems_of(api, "source")
    made = await api.client.post("/v1/campaigns", json={"name": "Spring", "content": {"templateId": "source"}})
    campaign_id = made.json()["campaignId"]
    async with an_editor(api, "ada") as ada:
        review = (await ada.client.get(f"/campaigns/{campaign_id}/checks")).text
        fix = f"/templates/source/compose?campaign={campaign_id}&amp;locale=pt-BR"
        assert f'1 link goes to example.com.</b> <span>Link to your own pages.</span> <a href="{fix}">' in review
        opened = await ada.client.get(fix.replace("&amp;", "&"))
        assert opened.headers["Location"] == "/templates/source/edit?version=2"


# Locked blocks and content from elsewhere.


async def test_locks_of_a_deleted_template_are_not_lost(api: Api) -> None:
    locked = {"version": 1, "blocks": [{"id": "h", "type": "heading", "html": "Ours", "locked": True}]}
    mine = {"subject": "Mine", "html": "<p>Mine</p>"}
    for template_id, document in (("rules", locked), ("free", DOCUMENT)):
        await a_block_template(api.engine, template_id, document=document)
        assert (await api.client.delete(f"/v1/templates/{template_id}")).status_code in (200, 204)
    refused = await api.client.put("/v1/templates/rules", json=mine)
    assert (refused.status_code, "was deleted and can be restored" in refused.text) == (409, True)
    assert (await api.client.put("/v1/templates/free", json=mine)).status_code == 201


async def test_only_an_administrator_changes_locked_blocks(api: Api) -> None:
    locked = {"version": 1, "blocks": [{"id": "h", "type": "heading", "html": "Ours", "locked": True}]}
    changed = {"version": 1, "blocks": [{"id": "h", "type": "heading", "html": "Mine", "locked": True}]}
    added = {"version": 1, "blocks": [*locked["blocks"], {"id": "t", "type": "text", "html": "More"}]}
    await a_block_template(api.engine, "rules", document=locked)
    async with an_editor(api, "ada") as ada, an_editor(api, "root", Role.ADMIN) as root:
        body = {"subject": "Rules", "baseRevision": 0, "baseVersion": 1}
        refused = await ada.send("POST", "/templates/rules/publish", {**body, "document": changed})
        assert refused.status_code == 422
        assert (refused.json()["blockId"], "locked" in refused.json()["detail"]) == ("h", True)
        assert (await ada.send("POST", "/templates/rules/source", {**body, "document": locked})).status_code == 422
        saved = await ada.send("POST", "/templates/rules/publish", {**body, "document": added})
        assert saved.status_code == 200, saved.text
        body = {"subject": "Rules", "baseRevision": saved.json()["revision"], "baseVersion": 2}
        assert (await root.send("POST", "/templates/rules/publish", {**body, "document": changed})).status_code == 200


LAW: dict[str, Any] = {"id": "law", "type": "text", "html": "Ours", "locked": True}
MINE: dict[str, Any] = {"id": "mine", "type": "text", "html": "Mine"}
MJML = "<mjml><mj-body><mj-section><mj-column><mj-text>[[intro]]</mj-text></mj-column></mj-section></mj-body></mjml>"
SLOT: dict[str, Any] = {"id": "s", "type": "slot", "name": "intro", "kind": "text", "value": "Hi"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"blocks": [LAW]}, {"blocks": [MINE]}),
        ({"blocks": [LAW]}, {"blocks": [{**LAW, "locked": False}]}),
        ({"blocks": [MINE]}, {"blocks": [{**MINE, "locked": True}]}),
        ({"blocks": [MINE]}, {"blocks": [MINE, LAW]}),
        ({"blocks": [MINE]}, {"mjml": MJML, "blocks": [SLOT]}),
        ({"mjml": MJML, "blocks": [SLOT]}, {"mjml": MJML, "blocks": [SLOT, {**SLOT, "id": "t", "kind": "richText"}]}),
        ({"mjml": MJML, "blocks": [SLOT]}, {"mjml": MJML, "blocks": [SLOT, {**SLOT, "id": "t", "name": "new"}]}),
    ],
)
async def test_editor_neither_saves_nor_publishes_changed_locks(
    api: Api, before: dict[str, Any], after: dict[str, Any]
) -> None:
    await a_block_template(api.engine, "rules", document={"version": 1, **before})
    body = {"subject": "Rules", "baseRevision": 0, "baseVersion": 1, "document": {"version": 1, **after}}
    async with an_editor(api, "ada") as ada:
        assert (await ada.send("PUT", "/templates/rules/autosave", body)).status_code == 422
        assert (await ada.send("POST", "/templates/rules/publish", body)).status_code == 422
        copied = {name: body[name] for name in ("subject", "document", "baseVersion")}
        for copy in (copied, {**copied, "baseVersion": 0}):
            assert (await ada.send("POST", "/templates/rules/copy", copy)).status_code == 422
        kept = {**copied, "document": {"version": 1, **before}}
        assert (await ada.send("POST", "/templates/rules/copy", kept)).status_code == 200


async def test_only_an_administrator_deletes_locked_blocks(api: Api) -> None:
    await a_block_template(api.engine, "rules", document={"version": 1, "blocks": [LAW]})
    async with an_editor(api, "ada") as ada, an_editor(api, "root", Role.ADMIN) as root:
        for editor, is_deleted in ((ada, False), (root, True)):
            form = {"form_token": editor.client.headers["X-Form-Token"]}
            assert (await editor.client.post("/templates/rules/delete", data=form)).status_code == 303
            found = await api.engine.templates.list_page(DEFAULT_TENANT, limit=9)
            assert ("rules" not in [each[""].template_id for each in found]) == is_deleted


async def test_subject_without_a_fallback_is_named(api: Api) -> None:
    variables = (Variable("name", is_required=False),)
    await api.engine.templates.write(DEFAULT_TENANT, "vip", a_block_draft(variables=variables), actor="test")
    body = {**EMAIL, "subject": "Hello {{ name }}"}
    async with an_editor(api, "ada") as ada:
        refused = await ada.send("POST", "/templates/vip/publish", {**body, "baseRevision": 0, "baseVersion": 1})
        shown = await ada.send("POST", "/composer/preview", {**body, "templateId": "vip"})
    advice = 'Write what they see instead, for example {{ name|default("…", true) }}.'
    sentence = f"Subject: some contacts have no name. {advice}"
    assert refused.status_code == 422
    assert refused.json()["detail"] == sentence
    assert shown.json()["warnings"][0]["message"] == sentence


async def test_deleted_template_keeps_its_locks_and_ends_its_draft(api: Api) -> None:
    await a_block_template(api.engine, "rules", document={"version": 1, "blocks": [LAW]})
    async with an_editor(api, "ada") as ada:
        kept = {"subject": "Rules", "baseRevision": 0, "baseVersion": 1, "document": {"version": 1, "blocks": [LAW]}}
        assert (await ada.send("PUT", "/templates/rules/autosave", kept)).status_code == 200
        await api.engine.template_removal.delete(DEFAULT_TENANT, "rules", actor="ada")
        draft = await api.engine.template_drafts.find(DraftKey(DEFAULT_TENANT, "rules"))
        assert draft is not None
        assert (draft.document, draft.revision) == (None, 2)
    body = orjson.dumps({"version": 1, "blocks": [MINE]}).decode()
    changed = TemplateDraft(subject="Rules", body=body, format=TemplateFormat.BLOCKS)
    with pytest.raises(InvalidTemplate, match="locked"):
        await api.engine.templates.write(DEFAULT_TENANT, "rules", changed, actor="ada", keeps_locked=True)


@pytest.mark.parametrize(
    "changes",
    [
        {"document": {"version": 9, "blocks": []}},
        {"document": {"version": 1, "blocks": "x"}},
        {"document": {"version": 1}},
        {"document": {"version": 1, "blocks": [5]}},
        {"document": {"version": 1, "blocks": [{"id": "a", "type": 5}]}},
        {"document": {"version": 1, "blocks": [{"type": "text"}]}},
        {"document": {"version": 1, "blocks": [{"id": "a", "type": "columns", "columns": "x"}]}},
        {"document": {"version": 1, "blocks": [{"id": "a", "type": "repeat", "blocks": [5]}]}},
        {"locale": "xx-invalid-&&"},
    ],
)
async def test_draft_that_the_composer_cannot_open_is_refused(api: Api, changes: dict[str, Any]) -> None:
    async with an_editor(api, "ada") as ada:
        assert (await ada.save(0, **changes)).status_code == 422


async def test_pasted_template_code_is_reported(api: Api) -> None:
    async with an_editor(api, "ada") as ada:
        for kind in ("html", "markdown"):
            answer = await ada.send("POST", "/composer/convert", {"from": kind, "text": "Hi {{ email }}"})
            assert "template code" in answer.json()["warnings"][0]
            assert (await ada.send("POST", "/composer/convert", {"from": kind, "text": "Hi"})).json()["warnings"] == []


@pytest.mark.promise("no-foreign-links")
async def test_pasted_personal_links_become_variables(api: Api) -> None:
    token = UnsubscribeTokens("secret").make("u2@example.com")
    tracked = f"https://links.example/t/{TrackingTokens('secret').open(20_000, 7, is_anonymous=True)}"
    leave, choose = (f"https://mail.example/{page}?token={token}&message=1" for page in ("unsubscribe", "preferences"))
    pasted = {
        "html": f'<p><a href="{escape(leave)}">a</a></p><table><th><a href="{escape(choose)}">b</a></table>',
        "markdown": f"[a]({leave}) and [b]({choose})",
    }
    async with an_editor(api, "ada") as ada:
        for kind, text in pasted.items():
            answer = await ada.send("POST", "/composer/convert", {"from": kind, "text": text})
            assert token not in answer.text
            assert "{{ unsubscribe_url }}" in answer.text
            assert "{{ preferences_url }}" in answer.text
            assert any("personal links" in each for each in answer.json()["warnings"])
        kept = await ada.send("POST", "/composer/convert", {"from": "html", "text": f'<a href="{tracked}">c</a>'})
        assert [each for each in kept.json()["warnings"] if "belong to one recipient" in each]


@pytest.mark.promise("no-foreign-links")
async def test_pasted_tracked_links_become_their_targets(api: Api) -> None:
    urls = {tenant: f"https://shop.test/{tenant}?a=1&b=2" for tenant in (DEFAULT_TENANT, DEFAULT_TENANT + 1)}
    stored = {link_id_of(tenant, url): (tenant, url) for tenant, url in urls.items()}
    await store_links(api.engine.database, stored, api.engine.clock.now())
    tokens = TrackingTokens("secret")
    own, foreign = (tokens.link(20_000, 7, link_id, is_anonymous=True) for link_id in stored)
    async with an_editor(api, "ada") as ada:
        for kind, text in (("html", '<p><a href="{}">a</a></p>'), ("markdown", "[a]({})")):
            for token, is_own in ((own, True), (foreign, False)):
                pasted = {"from": kind, "text": text.format(f"https://links.example/t/{token}")}
                answer = await ada.send("POST", "/composer/convert", pasted)
                shown = unescape(answer.json()["blocks"][0]["html"])
                assert (urls[DEFAULT_TENANT] in shown, token in shown) == (is_own, not is_own)
                assert bool(answer.json()["warnings"]) != is_own


@pytest.mark.promise("no-foreign-links")
@pytest.mark.both_engines
async def test_saved_source_has_links_for_everyone(api: Api) -> None:
    url = "https://shop.test/?a=1&b=2"
    link_id = link_id_of(DEFAULT_TENANT, url)
    await store_links(api.engine.database, {link_id: (DEFAULT_TENANT, url)}, api.engine.clock.now())
    tracked = f"https://links.example/t/{TrackingTokens('secret').link(20_000, 7, link_id, is_anonymous=True)}"
    leave = f"https://mail.example/unsubscribe?token={UnsubscribeTokens('secret').make('u2@example.com')}"
    html = f'<p><a href="{tracked}">a</a> <a href="{leave}">b</a></p>'
    shared = f'<p><a href="{escape(url)}">a</a> <a href="{{{{ unsubscribe_url }}}}">b</a></p>'
    template = {"templateId": "pasted", "subject": "Hi", "format": "html", "body": html, "text": tracked}
    written = {"content.subject": "Hi", "content.format": "html", "content.body": html, "content.text": tracked}
    forms = {"/templates/~new": template, "/campaigns/new": {"name": "Pasted", "way": "source", **written}}
    async with an_editor(api, "ada") as ada:
        for path, form in forms.items():
            assert (await ada.client.post(path, data=form)).status_code == 303, path
    stored = await api.engine.templates.latest(DEFAULT_TENANT, "pasted")
    assert (stored.body, stored.text) == (shared, url)
    [campaign] = await api.engine.campaigns.list_page(tenant_id=DEFAULT_TENANT, limit=2)
    assert (campaign.definition.content.body, campaign.definition.content.text) == (shared, url)


async def test_content_from_elsewhere_becomes_blocks(api: Api) -> None:
    async with an_editor(api, "ada") as ada:
        html = await ada.send("POST", "/composer/convert", {"from": "html", "text": "<h1>A</h1><p>b<script>x</script>"})
        assert [block["type"] for block in html.json()["blocks"]] == ["heading", "text"]
        markdown = await ada.send("POST", "/composer/convert", {"from": "markdown", "text": "# A\n\nb"})
        assert [block["type"] for block in markdown.json()["blocks"]] == ["heading", "text"]
        for url in ("http://127.0.0.1/feed", "file:///etc/passwd", "http://10.0.0.1/"):
            refused = await ada.send("POST", "/composer/convert", {"from": "feed", "url": url})
            assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "url")
        unconnected = await ada.send("POST", "/composer/convert", {"from": "notion", "page": "x"})
        assert (unconnected.status_code, unconnected.json()["errors"][0]["field"]) == (422, "page")
