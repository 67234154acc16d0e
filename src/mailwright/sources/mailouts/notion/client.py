"""Asking Notion: as often as it allows, again where that does no harm, and every refusal says what to do there."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import orjson

from mailwright.domain.clock import SECOND, Clock, Instant
from mailwright.ops.logs import logger
from mailwright.providers.http import Disconnect, HttpClient, HttpResponse
from mailwright.sources.mailouts.notion.error_messages import sentence_for
from mailwright.sources.mailouts.notion.errors import NotionError, NotionInDoubt, NotionRefused, NotionUnavailable
from mailwright.sources.mailouts.notion.ids import is_id, notion_id
from mailwright.sources.mailouts.notion.pages import DataSource, NotionPage
from mailwright.sources.mailouts.notion.properties import Cell, build_properties, plain
from mailwright.sources.mailouts.notion.rate_limit import SharedRateLimit

NOTION_URL = "https://api.notion.com"
# The newest first. An older one cannot read a database to which somebody added a second data source.
VERSIONS = ("2026-03-11", "2025-09-03")

# What Notion allows: on average by its own words, and in every second by ours.
PER_SECOND = 3
INTERVAL: Instant = 334
ATTEMPTS = 5
# A person waits for a run to start. What would take longer is told, with the time that Notion named.
MAX_WAIT: Instant = 60 * SECOND
TIMEOUT_SECONDS = 65.0  # Notion gives up after 60
MAX_RESPONSE_BYTES = 32 * 1024 * 1024

PAGE_SIZE = 100

Sleep = Callable[[float], Awaitable[None]]

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class _Call:
    """`is_repeatable`: doing it twice is doing it once."""

    method: str
    path: str
    about: str  # what was asked for, in the words of the sentence that is shown
    body: Mapping[str, Any] | None = None
    is_repeatable: bool = True


@dataclass(slots=True)
class _Asked:
    """A request; when it has ended it has surely come, however long it was on its way."""

    ended_at: Instant | None = None


class Notion:
    """One for the whole process: whoever shares it shares its pace. `clock` is for intervals only.

    `shared` keeps the pace among processes, which cannot know of one another when their requests arrive.
    """

    def __init__(
        self,
        http: HttpClient,
        token: str,
        clock: Clock,
        *,
        url: str = NOTION_URL,
        version: str = VERSIONS[0],
        shared: SharedRateLimit | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._http = http
        self._clock = clock
        self._sleep = sleep
        self._url = f"{url.rstrip('/')}/v1"
        self._headers = {"Authorization": f"Bearer {token}", "Notion-Version": version}
        self._shared = shared
        self._free_at = self._rests_until = clock.now()
        self._lately: deque[_Asked] = deque(maxlen=PER_SECOND)
        self._warned: set[tuple[str, str]] = set()

    # Reading.

    async def page(self, page_id: str) -> NotionPage:
        """Raises a `NotionRefused` also where the page is in the trash: nobody means to send it."""
        page_id = notion_id(page_id)
        page = _page(await self._ask(_Call("GET", f"/pages/{page_id}", f"the page {page_id}")))
        if page.is_in_trash:
            raise NotionRefused(
                f"The page {page_id} is in Notion's trash: restore it there first.", code="NOTION_IN_TRASH"
            )
        return page

    async def data_source(self, database_id: str, *, setting: str = "NOTION_DB_MAILOUTS") -> DataSource:
        """The table behind the id of a database, or of one of its data sources. `setting` is where the id came from."""
        database_id = notion_id(database_id, field=setting)
        about = f"the database {database_id} of {setting}"
        try:
            database = await self._ask(_Call("GET", f"/databases/{database_id}", about))
        except NotionRefused as refused:
            if refused.code != "NOTION_NOT_SHARED":
                raise
            try:
                return await self._described(database_id, about)
            except NotionRefused:
                raise refused from None  # the sentence about the database is the one that helps
        sources = [each for each in _list(database, "data_sources") if isinstance(each, Mapping)]
        if len(sources) != 1:
            raise _which_source(database_id, sources, setting)
        return await self._described(notion_id(str(sources[0].get("id"))), about)

    async def table(self, source_id: str) -> DataSource:
        """The table that a row names as its own."""
        return await self._described(notion_id(source_id), "the table of the page")

    async def query(self, source: DataSource, *, where: Mapping[str, Any]) -> AsyncIterator[NotionPage]:
        """Every row that fits, page by page; `where` is a filter in Notion's own form."""
        body = {"page_size": PAGE_SIZE, "filter": where}
        about = f"the table {source.name!r}"
        async for found in self._pages(_Call("POST", f"/data_sources/{source.id}/query", about, body)):
            if found.get("object", "page") == "page":
                yield _page(found)

    async def children(self, block_id: str) -> tuple[Mapping[str, Any], ...]:
        """One level, in the order of the page, as Notion describes each block."""
        block_id = notion_id(block_id)
        call = _Call("GET", f"/blocks/{block_id}/children", f"the content of {block_id}")
        found = [block async for block in self._pages(call)]
        return tuple(block for block in found if not block.get("in_trash") and not block.get("archived"))

    async def named_page(self, page_id: str) -> tuple[str, str | None]:
        """Its title, and where everybody can read it, if it is published."""
        answer = await self._ask(_Call("GET", f"/pages/{notion_id(page_id)}", f"the page {page_id}"))
        public_url = answer.get("public_url")
        return _title(_page(answer)), public_url if isinstance(public_url, str) else None

    # Writing.

    async def create_page(self, source: DataSource, cells: Mapping[str, Cell]) -> NotionPage:
        """A new row. Raises `NotionInDoubt` where it may be there already: Notion has no key to tell two apart."""
        body = {
            "parent": {"type": "data_source_id", "data_source_id": source.id},
            "properties": self._properties(source, cells),
        }
        about = f"a new row of the table {source.name!r}"
        return _page(await self._ask(_Call("POST", "/pages", about, body, is_repeatable=False)))

    async def update_page(self, page_id: str, source: DataSource, cells: Mapping[str, Cell]) -> NotionPage | None:
        """Writes the same however often it is asked. None where the table has none of these columns."""
        page_id = notion_id(page_id)
        properties = self._properties(source, cells)
        if not properties:
            return None
        call = _Call("PATCH", f"/pages/{page_id}", f"the page {page_id}", {"properties": properties})
        return _page(await self._ask(call))

    def _properties(self, source: DataSource, cells: Mapping[str, Cell]) -> Mapping[str, Any]:
        found = build_properties(source, cells)
        for name, sentence in found.skipped.items():
            if (source.id, name) not in self._warned:
                self._warned.add((source.id, name))
                log.warning("notion_property_skipped", reason=sentence, property=name)
        return found.properties

    # The details of reading.

    async def _described(self, source_id: str, about: str) -> DataSource:
        answer = await self._ask(_Call("GET", f"/data_sources/{source_id}", about))
        columns = {
            str(name): each for name, each in _mapping(answer, "properties").items() if isinstance(each, Mapping)
        }
        types = {name: str(each.get("type")) for name, each in columns.items()}
        name = plain(answer.get("title")) or "without a name"
        return DataSource(source_id, name, types, {each: _options(columns[each], types[each]) for each in types})

    async def _pages(self, call: _Call) -> AsyncIterator[Mapping[str, Any]]:
        cursor: str | None = None
        seen: set[str] = set()
        while True:
            answer = await self._ask(_at(call, cursor))
            for each in _list(answer, "results"):
                if isinstance(each, Mapping):
                    yield each
            status = answer.get("request_status")
            if isinstance(status, Mapping) and status.get("type") == "incomplete":
                raise NotionRefused(
                    f"{call.about} has more rows than Notion hands out at once: narrow the question.",
                    code="NOTION_TOO_MANY_ROWS",
                )
            if not answer.get("has_more"):
                return
            cursor = answer.get("next_cursor")
            if not isinstance(cursor, str) or cursor in seen:
                raise NotionUnavailable("Notion promises more and does not say where it begins.", code="NOTION_GARBLED")
            seen.add(cursor)

    # One request.

    async def _ask(self, call: _Call) -> Mapping[str, Any]:
        failure: NotionError = NotionUnavailable()
        for attempt in range(ATTEMPTS):
            reply = await self._request(call)
            answer = _answer(reply)
            if isinstance(reply, HttpResponse) and reply.status == 200 and answer is not None:
                return answer
            failure = _failure(call, reply, answer)
            if not isinstance(failure, NotionUnavailable) or isinstance(failure, NotionInDoubt):
                break
            wait = failure.retry_after if failure.retry_after is not None else SECOND << attempt
            is_last = wait > MAX_WAIT or attempt == ATTEMPTS - 1
            if failure.retry_after is not None or not is_last:
                # Whatever is asked next waits as well: Notion told the whole process.
                self._rests_until = max(self._rests_until, self._clock.now() + wait)
            if is_last:
                break
            log.info("notion_asked_again", about=call.about, reason=str(failure), wait_ms=wait, code=failure.code)
        raise failure

    async def _request(self, call: _Call) -> HttpResponse | Disconnect:
        asked = await self._turn()
        try:
            return await self._http.request(
                call.method,
                f"{self._url}{call.path}",
                headers=self._headers if call.body is None else {**self._headers, "Content-Type": "application/json"},
                body=b"" if call.body is None else orjson.dumps(call.body),
                timeout_seconds=TIMEOUT_SECONDS,
                max_response_bytes=MAX_RESPONSE_BYTES,
            )
        finally:
            asked.ended_at = self._clock.now()

    async def _turn(self) -> _Asked:
        """Waits for the next free place in the pace that all share."""
        await self._wait_until(lambda: self._rests_until)
        if self._shared is not None:
            await self._sleep(await self._shared.seconds_to_wait())
        # What another request was told meanwhile holds for this one as well.
        await self._wait_until(lambda: max(self._free_at_last(), self._rests_until))
        self._free_at = self._clock.now() + INTERVAL
        asked = _Asked()
        self._lately.append(asked)
        return asked

    async def _wait_until(self, moment: Callable[[], Instant]) -> None:
        """Raises where Notion asked us to rest for longer than anybody waits for an answer."""
        while (wait := moment() - self._clock.now()) > 0:
            if wait > MAX_WAIT:
                raise NotionUnavailable("Notion asks us to wait.", code="NOTION_RATE_LIMITED", retry_after=wait)
            await self._sleep(wait / 1000)

    def _free_at_last(self) -> Instant:
        """Even intervals are not enough: a request that is slow on its way comes close to those behind it."""
        if len(self._lately) < PER_SECOND:
            return self._free_at
        ended_at = self._lately[0].ended_at
        return max(self._free_at, self._clock.now() + INTERVAL if ended_at is None else ended_at + SECOND + 1)


# What came back.


def _answer(reply: HttpResponse | Disconnect) -> Mapping[str, Any] | None:
    if isinstance(reply, Disconnect):
        return None
    try:
        answer = orjson.loads(reply.body)
    except orjson.JSONDecodeError:
        return None
    is_whole = isinstance(answer, dict) and isinstance(answer.get("object"), str)
    return answer if is_whole and (answer["object"] != "page" or is_id(answer.get("id"))) else None


def _failure(call: _Call, reply: HttpResponse | Disconnect, answer: Mapping[str, Any] | None) -> NotionError:
    """Who is asked again, who is in doubt, and who is refused."""
    if isinstance(reply, Disconnect):
        if reply.is_in_doubt and not call.is_repeatable:
            return NotionInDoubt(f"Notion did not say whether it wrote {call.about}: {reply.cause}.")
        return NotionUnavailable(f"Notion is out of reach: {reply.cause}.")
    if reply.status in (429, 529, 409):
        # Nothing was done, whatever was asked.
        code = "NOTION_BUSY" if reply.status != 429 else "NOTION_RATE_LIMITED"
        return NotionUnavailable("Notion asks us to wait.", code=code, retry_after=_retry_after(reply))
    if answer is not None and 400 <= reply.status < 500:
        ours, sentence = sentence_for(reply.status, answer, call.about)
        log.info("notion_refused", status=reply.status, code=ours, request_id=str(answer.get("request_id")))
        return NotionRefused(sentence, code=ours)
    if not call.is_repeatable and (reply.status >= 500 or reply.status < 300):
        return NotionInDoubt(f"Notion did not say whether it wrote {call.about}: it answered {reply.status}.")
    garbled = "NOTION_GARBLED" if reply.status < 500 else None
    return NotionUnavailable(f"Notion answered {reply.status} and nothing to go by.", code=garbled)


def _retry_after(reply: HttpResponse) -> Instant | None:
    told = reply.headers.get("Retry-After", "")
    return int(told) * SECOND if told.isascii() and told.isdigit() and len(told) < 8 else None


def _page(answer: Mapping[str, Any]) -> NotionPage:
    source_id, edited_at = _mapping(answer, "parent").get("data_source_id"), answer.get("last_edited_time")
    return NotionPage(
        id=notion_id(str(answer.get("id"))),
        properties={
            str(name): each for name, each in _mapping(answer, "properties").items() if isinstance(each, Mapping)
        },
        is_in_trash=bool(answer.get("in_trash") or answer.get("archived")),
        data_source_id=source_id if isinstance(source_id, str) else None,
        edited_at=edited_at if isinstance(edited_at, str) else None,
    )


def _title(page: NotionPage) -> str:
    return next((plain(each.get("title")) for each in page.properties.values() if each.get("type") == "title"), "")


def _options(column: Mapping[str, Any], kind: str) -> tuple[str, ...]:
    offered = _list(_mapping(column, kind), "options") if kind in ("status", "select", "multi_select") else []
    return tuple(str(option.get("name")) for option in offered if isinstance(option, Mapping))


def _which_source(database_id: str, sources: Sequence[Mapping[str, Any]], setting: str) -> NotionRefused:
    if not sources:
        return NotionRefused(
            f"The database {database_id} shows us no data source: connect your integration to it in Notion.",
            code="NOTION_NO_DATA_SOURCE",
            field=setting,
        )
    named = ", ".join(f"{each.get('name')!r} is {each.get('id')}" for each in sources)
    return NotionRefused(
        f"The database {database_id} has {len(sources)} data sources in Notion: "
        f"set {setting} to the id of one of them ({named}).",
        code="NOTION_SEVERAL_DATA_SOURCES",
        field=setting,
    )


def _at(call: _Call, cursor: str | None) -> _Call:
    """The request for the page that begins at the cursor: a GET has it in its address, a POST in its body."""
    if call.body is not None:
        body = call.body if cursor is None else {**call.body, "start_cursor": cursor}
        return _Call(call.method, call.path, call.about, body)
    asked = {"page_size": str(PAGE_SIZE)} | ({} if cursor is None else {"start_cursor": cursor})
    return _Call(call.method, f"{call.path}?{urlencode(asked)}", call.about)


def _mapping(answer: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = answer.get(name)
    return found if isinstance(found, Mapping) else {}


def _list(answer: Mapping[str, Any], name: str) -> list[Any]:
    found = answer.get(name)
    return found if isinstance(found, list) else []
