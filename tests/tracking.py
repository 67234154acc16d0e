"""Tracking in tests: an application with a worker, and what recipients do with the emails."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email import message_from_bytes, policy
from html import unescape
from pathlib import Path
from typing import Any, Final

import httpx
from sqlalchemy import update

from mailwright.access.roles import Role
from mailwright.domain.clock import MINUTE, ManualClock
from mailwright.events.tracking.drain import SpoolDrain
from mailwright.storage.database import Database
from mailwright.storage.tables import contacts
from mailwright.web.app import create_app
from tests.api import Api, an_api, an_engine
from tests.builders import Bench
from tests.campaigns import CampaignHarness, join
from tests.pages import HOME, PASSWORD, Visit, a_visit
from tests.standins.provider import ScriptedProvider

BROWSER: Final = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36"
)
# The headers of a browser in which a person follows a link of an email.
PERSON: Final = {
    "User-Agent": BROWSER,
    "Sec-Fetch-User": "?1",
    "Sec-Fetch-Mode": "navigate",
    "Sec-Fetch-Dest": "document",
    "Sec-Fetch-Site": "cross-site",
}
SHOP: Final = "https://shop.example/offers?colour=red&size=4#sale"
BODY: Final = (
    f'<p>Hello {{{{ name }}}}</p><p><a class="b" href="{SHOP.replace("&", "&amp;")}">Offers</a></p>'
    '<p><a href="{{ unsubscribe_url }}">Leave</a></p>'
)
_LINK: Final = re.compile(r'href="([^"]*)"(?![^>]*aria-hidden)')
_INVISIBLE_LINK: Final = re.compile(r'href="([^"]*)"(?=[^>]*aria-hidden)')
_PIXEL: Final = re.compile(r'<img src="([^"]*/t/[^"]*)"')


def html_of(content: bytes) -> str:
    return str(message_from_bytes(content, policy=policy.default).get_body(("html",)).get_content())  # type: ignore[union-attr]


def text_of(content: bytes) -> str:
    return str(message_from_bytes(content, policy=policy.default).get_body(("plain",)).get_content())  # type: ignore[union-attr]


def links_of(content: bytes) -> list[str]:
    return [unescape(link) for link in _LINK.findall(html_of(content))]


def invisible_link_of(content: bytes) -> str | None:
    found = _INVISIBLE_LINK.search(html_of(content))
    return unescape(found[1]) if found else None


def pixel_of(content: bytes) -> str | None:
    found = _PIXEL.search(html_of(content))
    return unescape(found[1]) if found else None


@dataclass(frozen=True)
class Tracking:
    api: Api
    bench: Bench
    provider: ScriptedProvider
    clock: ManualClock

    @property
    def campaigns(self) -> CampaignHarness:
        harness = CampaignHarness(self.bench)
        harness.campaigns = self.api.engine.campaigns
        return harness

    async def send(self, *addresses: str, consents: bool | None = True, **changes: Any) -> str:
        """Send a campaign to new subscribers with this consent, and return its ID."""
        consent = {} if consents is None else {"consents_to_tracking": consents, "tracking_consent_at": 0}
        if addresses:
            await join(self.bench.database, addresses, **consent)
        content = {"subject": "News", "body": changes.pop("body", BODY)}
        campaign_id = await self.campaigns.start(content=content, **changes)
        await self.campaigns.run_scheduler()
        await self.bench.drain(self.provider)
        return campaign_id

    def content_to(self, address: str) -> bytes:
        return next(sent.content for sent in self.provider.messages if address in sent.recipients)

    async def request(self, url: str, agent: str = BROWSER, method: str = "GET", **headers: str) -> httpx.Response:
        names = {"user-agent": agent, **headers}
        return await self.api.anonymous.request(method, url, headers=names, follow_redirects=False)

    async def visit(self, url: str, agent: str = BROWSER) -> httpx.Response:
        """Follow a link some minutes after it was sent, and store what was recorded."""
        self.clock.advance(5 * MINUTE)
        response = await self.request(url, agent)
        await self.drain()
        return response

    async def drain(self) -> int:
        engine = self.api.engine
        return await SpoolDrain(engine.database, engine.clock, engine.reports, engine.redirects).drain()

    async def consent(self, address: str, *, given: bool) -> None:
        async with self.bench.database.write() as tx:
            changed = update(contacts).where(contacts.c.email == address)
            await tx.execute(changed.values(consents_to_tracking=given, tracking_consent_at=self.clock.now()))

    async def report(self, campaign_id: str) -> dict[str, Any]:
        answer = await self.api.client.get(f"/v1/campaigns/{campaign_id}/report")
        assert answer.status_code == 200, answer.text
        report: dict[str, Any] = answer.json()
        return report


@asynccontextmanager
async def a_tracking_dashboard(tracking: Tracking, folder: Path, role: Role = Role.VIEWER) -> AsyncIterator[Visit]:
    """Serve the dashboard of this installation, and sign in to it."""
    engine = an_engine(
        tracking.bench.database, tracking.clock, base_url=HOME, tracking="individual", tracking_spool=folder
    )
    await engine.users.create("ada", PASSWORD, role, actor="test")
    async with a_visit(create_app(engine)) as visit:
        yield visit
    await engine.close()


@asynccontextmanager
async def a_tracking(
    database: Database, clock: ManualClock, folder: Path, tracking: str = "individual", **settings: Any
) -> AsyncIterator[Tracking]:
    async with an_api(database, clock, tracking=tracking, tracking_spool=folder, **settings) as api:
        yield Tracking(api, Bench(api.engine, clock), ScriptedProvider(), clock)
