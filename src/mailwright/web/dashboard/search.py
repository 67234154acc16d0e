"""The global search: messages, contacts, campaigns, sequences, templates, lists, segments, pages and actions.

It also answers why a message or campaign has not been sent. Every query is bounded, because it runs while users type.
"""

import re
from collections.abc import AsyncIterator, Sequence
from typing import Final
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.access.roles import Role
from mailwright.app.wiring import Engine
from mailwright.audience import lists, segments
from mailwright.audience.contact_fields import is_address
from mailwright.audience.search import ContactQuery, find_by_prefix, search_contacts
from mailwright.content.template_store import find_template_ids
from mailwright.domain import address
from mailwright.domain.errors import NotFound
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.states import MessageGroup, Status
from mailwright.domain.translation import gettext
from mailwright.outbox.message_records import MessageSearch, MessageSummary, find
from mailwright.outbox.search import find_deferrals, find_page
from mailwright.pipeline.rerender import render_subjects
from mailwright.sources.campaigns.explain import explain_campaign
from mailwright.sources.campaigns.search import find_campaigns
from mailwright.sources.message_limits import explain_message
from mailwright.texts import explanations
from mailwright.web.dashboard.navigation import NAVIGATION, SHORTCUTS
from mailwright.web.dashboard.settings import TABS
from mailwright.web.dashboard.shell import PageRoute, fragment, is_htmx, page
from mailwright.web.session import ViewerDep, Visitor
from mailwright.web.state import EngineDep

router = APIRouter(route_class=PageRoute, include_in_schema=False)

MAX_QUERY: Final = 320
# The number of results of one kind.
_SHOWN: Final = 5
_EXPLAINED: Final = 3
# The number of waiting messages whose reasons are compared.
_COMPARED: Final = 50
# The number of newest messages and contacts that are compared with the words.
_SCAN_LIMIT: Final = 2_000

_ID: Final = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE)
_ADDRESS: Final = re.compile(r"[^\s<>,;:?]+@[^\s<>,;:?]+\.[^\s<>,;:?.]+")
_QUESTION: Final = re.compile(
    r"\bwhy\b|\b(not|never|hasn.?t|isn.?t|wasn.?t)\b.*\b(sent|sending|arrived?)\b", re.IGNORECASE
)
_UNSENT: Final = frozenset(
    {Status.PENDING, Status.RETRY_SCHEDULED, Status.SENT_ATTEMPT, Status.IN_DOUBT, Status.FAILED}
)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One result. `status` is shown as a badge, `answer` as a sentence below the title."""

    title: str
    path: str
    icon: str
    detail: str = ""
    status: str = ""
    answer: str = ""


@dataclass(frozen=True, slots=True)
class ResultGroup:
    title: str
    results: tuple[SearchResult, ...]


@router.get("/search")
async def search(request: Request, engine: EngineDep, visitor: ViewerDep, q: str = "", at: str = "") -> Response:
    """Search everything. `at` is the path of the page that the question is asked on."""
    text = q.strip()[:MAX_QUERY]
    groups = [group async for group in _groups(engine, visitor, text, at) if group.results]
    if is_htmx(request):
        return fragment(request, visitor, "search/options.html", groups=groups, text=text)
    return await page(request, visitor, "search/page.html", groups=groups, text=text)


async def _groups(engine: Engine, visitor: Visitor, text: str, at: str) -> AsyncIterator[ResultGroup]:
    if not text:
        yield ResultGroup(gettext("Actions"), _shortcuts(visitor, ""))
        yield ResultGroup(gettext("Pages"), _pages(visitor, ""))
        return
    yield ResultGroup(gettext("Delivery status"), tuple(await _answers(engine, visitor, text, at)))
    if _QUESTION.search(text):
        return
    yield ResultGroup(gettext("Actions"), _shortcuts(visitor, text))
    yield ResultGroup(gettext("Pages"), _pages(visitor, text))
    yield ResultGroup(gettext("Campaigns"), tuple(await _campaigns(engine, visitor, text)))
    yield ResultGroup(gettext("Sequences"), tuple(await _sequences(engine, visitor, text)))
    yield ResultGroup(gettext("Contacts"), tuple(await _contacts(engine, visitor, text)))
    yield ResultGroup(gettext("Lists and segments"), tuple(await _lists_and_segments(engine, visitor, text)))
    yield ResultGroup(gettext("Templates"), tuple(await _templates(engine, visitor, text)))
    yield ResultGroup(gettext("Messages"), tuple(await _messages(engine, visitor, text)))


async def _answers(engine: Engine, visitor: Visitor, text: str, at: str) -> list[SearchResult]:
    """Explain the message or campaign in the text, or else that of the current page, or else why messages wait."""
    is_question = _QUESTION.search(text) is not None
    for source in (text, at) if is_question else (text,):
        if (named := _ID.search(source)) is not None:
            return await _explain_id(engine, visitor, named[0].lower())
    if (named := _ADDRESS.search(text)) is not None and is_address(named[0]):
        wanted = MessageSearch(to_email=address.normal(named[0]))
        found = await find_page(engine.database.reader, visitor.tenant_id, wanted, limit=_SHOWN)
        unsent = [each for each in found.messages if each.status in _UNSENT]
        return await _explain_messages(engine, visitor, (unsent or found.messages)[:_EXPLAINED])
    return await _explain_queue(engine, visitor) if is_question else []


async def _explain_queue(engine: Engine, visitor: Visitor) -> list[SearchResult]:
    """Explain one waiting message for each reason."""
    waiting = MessageSearch(group=MessageGroup.QUEUED)
    queued = await find_page(
        engine.database.reader, visitor.tenant_id, waiting, limit=_COMPARED, scan_limit=_SCAN_LIMIT
    )
    waits = await find_deferrals(engine.database.reader, queued.messages, engine.clock.now())
    by_reason = {waits.get(each.message_key): each for each in queued.messages}
    return await _explain_messages(engine, visitor, list(by_reason.values())[:_EXPLAINED])


async def _explain_id(engine: Engine, visitor: Visitor, text: str) -> list[SearchResult]:
    try:
        record = await find(engine.database, text, tenant_id=visitor.tenant_id)
    except NotFound:
        return await _explain_campaign(engine, visitor, text)
    return await _explain_messages(engine, visitor, [record.summary])


async def _explain_messages(engine: Engine, visitor: Visitor, messages: Sequence[MessageSummary]) -> list[SearchResult]:
    results = []
    for result, each in zip(await _message_results(engine, visitor, messages), messages, strict=True):
        why = await explain_message(
            engine.database, engine.clock, engine.defaults, each.outbox_id, tenant_id=visitor.tenant_id
        )
        answer = explanations.message_text(why, visitor.zone).sentence
        results.append(SearchResult(result.title, result.path, "messages", result.detail, result.status, answer))
    return results


async def _explain_campaign(engine: Engine, visitor: Visitor, campaign_id: str) -> list[SearchResult]:
    try:
        campaign = await engine.campaigns.find(campaign_id, tenant_id=visitor.tenant_id)
        why = await explain_campaign(
            engine.database, engine.clock, engine.defaults, campaign_id, tenant_id=visitor.tenant_id, foreseen=()
        )
    except NotFound:
        return []
    answer = explanations.campaign_text(why, visitor.zone).sentence
    return [SearchResult(campaign.name, f"/campaigns/{campaign_id}", "campaigns", gettext("Campaign"), answer=answer)]


def _shortcuts(visitor: Visitor, text: str) -> tuple[SearchResult, ...]:
    found = [each for each in SHORTCUTS if visitor.may(each.role) and _matches(text, f"{each.title} {each.words}")]
    return tuple(SearchResult(each.title, each.path, each.icon) for each in found)


def _pages(visitor: Visitor, text: str) -> tuple[SearchResult, ...]:
    known = [page for item in NAVIGATION for page in item.pages if visitor.may(page.role)]
    pages = [SearchResult(page.title, page.path, page.icon) for page in known]
    if visitor.may(Role.ADMIN) and text:
        pages += [
            SearchResult(title, path, "settings", gettext("Settings")) for _, tabs in TABS for path, title in tabs
        ]
    return tuple(each for each in pages if _matches(text, f"{each.title} {each.detail}"))


def _matches(text: str, words: str) -> bool:
    """Return whether each part of the text is the beginning of one of the words."""
    known = words.lower().split()
    return all(any(each.startswith(part) for each in known) for part in text.lower().split())


async def _campaigns(engine: Engine, visitor: Visitor, text: str) -> list[SearchResult]:
    found = await find_campaigns(engine.database, visitor.tenant_id, text, limit=_SHOWN)
    return [
        SearchResult(each.name, f"/campaigns/{each.campaign_id}", "campaigns", status=each.status) for each in found
    ]


async def _sequences(engine: Engine, visitor: Visitor, text: str) -> list[SearchResult]:
    found = await engine.sequences.list_all(visitor.tenant_id)
    named = [each for each in found if text.lower() in each.name.lower()][:_SHOWN]
    return [
        SearchResult(each.name, f"/sequences/{each.sequence_id}", "sequences", status=f"sequence.{each.status}")
        for each in named
    ]


async def _contacts(engine: Engine, visitor: Visitor, text: str) -> list[SearchResult]:
    found = await find_by_prefix(engine.database.reader, visitor.tenant_id, text, limit=_SHOWN)
    if len(found) < _SHOWN and not is_address(text):
        query = ContactQuery(text=text)
        more = await search_contacts(
            engine.database.reader, visitor.tenant_id, query, limit=_SHOWN, scan_limit=_SCAN_LIMIT
        )
        known = {each.email for each in found}
        found += [each for each in more.contacts if each.email not in known]
    return [
        SearchResult(
            each.name or each.email, f"/contacts/{quote(each.email)}", "contacts", each.email if each.name else ""
        )
        for each in found[:_SHOWN]
    ]


async def _lists_and_segments(engine: Engine, visitor: Visitor, text: str) -> list[SearchResult]:
    named = [
        SearchResult(each.name, f"/lists/{each.list_key}", "lists", gettext("List"))
        for each in await lists.list_all(engine.database, visitor.tenant_id)
    ]
    named += [
        SearchResult(each.name, f"/segments/{each.segment_key}", "segments", gettext("Segment"))
        for each in await segments.list_all(engine.database, visitor.tenant_id)
    ]
    return [each for each in named if text.lower() in f"{each.title} {each.path}".lower()][:_SHOWN]


async def _templates(engine: Engine, visitor: Visitor, text: str) -> list[SearchResult]:
    found = await find_template_ids(engine.database, visitor.tenant_id, text, limit=_SHOWN)
    return [SearchResult(each, f"/templates/{each}", "templates") for each in found]


async def _messages(engine: Engine, visitor: Visitor, text: str) -> list[SearchResult]:
    if _ID.search(text) is not None:
        return []  # The answer shows it already.
    if is_address(text):
        return [
            SearchResult(
                gettext("All messages to {text}", text=text), f"/messages?{urlencode({'q': text})}", "messages"
            )
        ]
    wanted = MessageSearch(words=text)
    found = await find_page(engine.database.reader, visitor.tenant_id, wanted, limit=_SHOWN, scan_limit=_SCAN_LIMIT)
    return await _message_results(engine, visitor, found.messages)


async def _message_results(engine: Engine, visitor: Visitor, messages: Sequence[MessageSummary]) -> list[SearchResult]:
    stored = {each.outbox_id: each.subject for each in messages}
    subjects = await render_subjects(engine.database, stored, tenant_id=visitor.tenant_id, at=engine.clock.now())
    return [
        SearchResult(
            subjects.get(each.outbox_id, each.subject) or gettext("(no subject)"),
            f"/messages/{each.outbox_id}",
            "messages",
            each.to_email,
            each.shown_status,
        )
        for each in messages
    ]
