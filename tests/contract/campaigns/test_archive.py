"""Web views and the public archive, on both engines."""

import email
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from email.policy import SMTP
from html import unescape
from typing import Any
from xml.etree import ElementTree

import httpx
import pytest

from mailwright.app.wiring import PublicPages
from mailwright.audience.erasure import erase
from mailwright.domain.errors import NotPossibleNow
from mailwright.domain.ids import uuid7
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.unsubscribe_tokens import InvalidToken
from mailwright.domain.web_view_tokens import WebViewTokens
from mailwright.sources.campaigns.archive import Archive, NotPublishable
from mailwright.web.app import create_app
from tests.api import client_of
from tests.builders import DEFAULT_TENANT, Bench, a_message, a_newsletter
from tests.campaigns import NEWS, OPERATOR, CampaignHarness, a_list, join
from tests.standins.provider import ScriptedProvider

ADA = "ada@example.com"
BODY = (
    "<html><head><title>News</title></head><body><p>Hello {{ name }}, you are on {{ plan }}.</p>"
    '<a href="{{ web_view_url }}">In the browser</a> <a href="{{ preferences_url }}">Choose</a> '
    '<a href="{{ unsubscribe_url }}">Leave</a></body></html>'
)
ATOM = "{http://www.w3.org/2005/Atom}"


@dataclass
class ArchiveSite:
    desk: CampaignHarness
    archive: Archive
    client: httpx.AsyncClient

    async def campaign(self, body: str = BODY, **changes: Any) -> str:
        content = {"subject": "News for {{ name }}", "body": body}
        return await self.desk.start(**{"content": content, **changes})

    async def sent(self) -> list[OutgoingMessage]:
        provider = ScriptedProvider()
        await self.desk.run_scheduler()
        await self.desk.bench.drain(provider)
        return provider.messages

    async def published(self, **changes: Any) -> str:
        campaign_id = await self.campaign(**changes)
        await self.archive.publish(OPERATOR, campaign_id)
        return campaign_id


@pytest.fixture
async def site(bench: Bench) -> AsyncIterator[ArchiveSite]:
    engine = bench.engine
    pages = PublicPages(secret="s" * 32, sender="Northwind")
    engine = replace(engine, public_pages=pages)
    await join(bench.database, [ADA])
    async with client_of(create_app(engine)) as client:
        yield ArchiveSite(CampaignHarness(bench), Archive(bench.database, bench.clock, engine.templates), client)


def links_in(message: OutgoingMessage) -> list[str]:
    body = email.message_from_bytes(message.content, policy=SMTP).get_body(("html",))
    assert body is not None
    found = re.findall(r'href="([^"]+)"', body.get_content())
    return [each.replace("&amp;", "&").replace("&#x2f;", "/") for each in found]


# The web view of a message.


async def test_web_view_shows_the_email_as_sent(site: ArchiveSite) -> None:
    await site.campaign()
    [message] = await site.sent()
    view, choose, leave = links_in(message)
    page = await site.client.get(view)
    assert page.status_code == 200
    assert "Hello Ann, you are on pro." in page.text
    links = {unescape(link) for link in re.findall(r'href="([^"]+)"', page.text)}
    assert links == {view, choose, leave}


async def test_email_can_link_to_the_preferences_page(site: ArchiveSite) -> None:
    await site.campaign()
    [message] = await site.sent()
    page = await site.client.get(links_in(message)[1])
    assert page.status_code == 200
    assert "Email preferences" in page.text


async def test_only_bulk_api_messages_have_a_web_view(site: ArchiveSite) -> None:
    bench = site.desk.bench
    template = await bench.engine.templates.put(DEFAULT_TENANT, "news", subject="Hi", html=BODY, text=None)
    told = {"variables": {"plan": "gold"}}
    bulk = a_newsletter(to=ADA, template_key=template.key, payload={"to": ADA, "toName": "Ada", **told}, list_key=NEWS)
    receipt = a_message(to=ADA, template_key=template.key, payload={"to": ADA, **told})
    await bench.accept(bulk, receipt)
    emails = {message.outbox_id: message for message in await site.sent()}
    page = await site.client.get(links_in(emails[bulk.outbox_id])[0])
    assert "Hello Ada, you are on gold." in page.text
    assert links_in(emails[receipt.outbox_id]) == []
    unsigned = WebViewTokens("s" * 32).make(receipt.outbox_id)
    assert (await site.client.get(f"/view/{unsigned}")).status_code == 404


async def test_forged_web_view_link_shows_nothing(site: ArchiveSite) -> None:
    await site.campaign()
    [message] = await site.sent()
    token = links_in(message)[0].rpartition("/")[2]
    outbox_id, _, signature = token.partition(".")
    assert outbox_id == message.outbox_id
    for wrong in (
        outbox_id,
        f"{outbox_id}.",
        f"{outbox_id}.{signature[:-1]}",
        f"{outbox_id}.{signature}=",
        f"{uuid7(1)}.{signature}",
    ):
        answer = await site.client.get(f"/view/{wrong}")
        assert (answer.status_code, "Hello" in answer.text) == (400, False), wrong


def test_links_signed_with_a_retired_secret_keep_working() -> None:
    outbox_id = uuid7(1_800_000_000_000)
    token = WebViewTokens("old" * 8).make(outbox_id)
    assert WebViewTokens("new" * 8, "old" * 8).parse(token) == outbox_id
    with pytest.raises(InvalidToken):
        WebViewTokens("new" * 8).parse(token)


async def test_email_to_an_erased_contact_is_gone(site: ArchiveSite) -> None:
    await site.campaign()
    [message] = await site.sent()
    await erase(site.desk.database, site.desk.clock, DEFAULT_TENANT, ADA, actor="test")
    answer = await site.client.get(links_in(message)[0])
    assert (answer.status_code, "Ann" in answer.text) == (404, False)


async def test_web_view_runs_no_script_and_has_no_origin(site: ArchiveSite) -> None:
    campaign_id = await site.published()
    [message] = await site.sent()
    view = await site.client.get(links_in(message)[0])
    content = await site.client.get(f"/archive/{NEWS}/{campaign_id}/content")
    for answer, framed_by in ((view, "'none'"), (content, "'self'")):
        rules = dict(rule.partition(" ")[::2] for rule in answer.headers["Content-Security-Policy"].split("; "))
        assert set(rules["sandbox"].split()) == {"allow-popups", "allow-popups-to-escape-sandbox"}
        assert (rules["default-src"], rules["form-action"], rules["base-uri"]) == ("'none'", "'none'", "'none'")
        assert "script-src" not in rules
        assert rules["frame-ancestors"] == framed_by
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert not answer.cookies
    assert view.headers["Cache-Control"] == "no-store"


# The archive.


async def test_archive_has_only_published_campaigns(site: ArchiveSite) -> None:
    first, second = await site.published(name="First"), await site.campaign(name="Second")
    page = await site.client.get(f"/archive/{NEWS}")
    assert page.status_code == 200
    assert (first in page.text, second in page.text) == (True, False)
    assert (await site.client.get(f"/archive/{NEWS}/{second}")).status_code == 404
    assert (await site.client.get(f"/archive/{NEWS}/{second}/content")).status_code == 404
    await site.archive.withdraw(OPERATOR, first)
    assert first not in (await site.client.get(f"/archive/{NEWS}")).text
    assert (await site.client.get(f"/archive/{NEWS}/{first}")).status_code == 404


async def test_archive_has_no_recipient_data(site: ArchiveSite) -> None:
    campaign_id = await site.published()
    page = await site.client.get(f"/archive/{NEWS}/{campaign_id}")
    content = await site.client.get(f"/archive/{NEWS}/{campaign_id}/content")
    feed = await site.client.get(f"/archive/{NEWS}/feed")
    assert "Hello , you are on ." in content.text
    assert f"subscribe&#x2f;{NEWS}" in content.text or f"/subscribe/{NEWS}" in content.text
    for answer in (page, content, feed):
        assert not any(word in answer.text for word in (ADA, "Ann", "token=", "/view/"))


async def test_archived_campaign_is_shown_in_a_sandboxed_frame(site: ArchiveSite) -> None:
    campaign_id = await site.published()
    page = await site.client.get(f"/archive/{NEWS}/{campaign_id}")
    assert f'src="{campaign_id}/content"' in page.text
    assert 'sandbox="allow-popups allow-popups-to-escape-sandbox"' in page.text
    assert "frame-src 'self'" in page.headers["Content-Security-Policy"]
    content = await site.client.get(f"/archive/{NEWS}/{campaign_id}/content")
    assert '<head><base target="_blank">' in content.text


async def test_feed_is_atom_and_supports_conditional_requests(site: ArchiveSite) -> None:
    body = BODY.replace("Hello", "1 &lt; 2 \x0b&amp; Hello")
    campaign_id = await site.published(body=body)
    feed = await site.client.get(f"/archive/{NEWS}/feed")
    root = ElementTree.fromstring(feed.content)
    [entry] = root.findall(f"{ATOM}entry")
    assert feed.headers["Content-Type"] == "application/atom+xml; charset=utf-8"
    assert entry.findtext(f"{ATOM}id") == f"urn:uuid:{campaign_id}"
    assert "1 < 2 & Hello" in (entry.findtext(f"{ATOM}summary") or "").replace("  ", " ")
    link = entry.find(f"{ATOM}link")
    assert link is not None
    assert (await site.client.get(link.attrib["href"])).status_code == 200
    again = await site.client.get(f"/archive/{NEWS}/feed", headers={"If-None-Match": feed.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")


async def test_older_campaigns_are_paginated(site: ArchiveSite) -> None:
    ids = [await site.published(name=f"Number {number}") for number in range(32)]
    page = await site.client.get(f"/archive/{NEWS}")
    older = re.search(r'href="([^"]+)" rel="next"', page.text)
    assert older is not None
    rest = await site.client.get(f"/archive/{older[1].replace('&amp;', '&')}")
    assert [each in page.text for each in ids] == [False] * 2 + [True] * 30
    assert [each in rest.text for each in ids] == [True] * 2 + [False] * 30


async def test_archived_campaign_is_under_its_own_lists_only(site: ArchiveSite) -> None:
    campaign_id = await site.published()
    await a_list(site.desk.database, "other")
    assert campaign_id not in (await site.client.get("/archive/other")).text
    assert (await site.client.get(f"/archive/other/{campaign_id}")).status_code == 404
    assert (await site.client.get("/archive/never")).status_code == 404


async def test_draft_or_personal_campaign_cannot_be_published(site: ArchiveSite) -> None:
    with pytest.raises(NotPossibleNow, match="not been started"):
        await site.archive.publish(OPERATOR, await site.desk.create())
    needs = await site.campaign(BODY.replace("{{ plan }}", "{{ plan.name }}"), variables={"plan": {"name": "x"}})
    await site.archive.publish(OPERATOR, needs)
    attributes = {"attributes": {"company": {"name": "Acme"}}}
    await join(site.desk.database, ["bob@example.com"], "firms", **attributes)
    needs = await site.campaign(BODY.replace("{{ plan }}", "{{ company.name }}"), lists=["firms"])
    with pytest.raises(NotPublishable, match="without recipient data"):
        await site.archive.publish(OPERATOR, needs)
