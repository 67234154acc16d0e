"""A client of the Notion API that respects its rate limit, retries if that is safe, and explains refusals."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import orjson

from mailwright.domain.clock import SECOND, Clock, Instant
from mailwright.domain.foreign_json import load_json
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import lazy_gettext
from mailwright.ops.logs import logger
from mailwright.providers.http import Disconnect, HttpClient, HttpResponse
from mailwright.sources.mailouts.notion.error_messages import describe_refusal
from mailwright.sources.mailouts.notion.errors import NotionError, NotionInDoubt, NotionRefused, NotionUnavailable
from mailwright.sources.mailouts.notion.ids import is_id, notion_id
from mailwright.sources.mailouts.notion.pages import DataSource, NotionPage
from mailwright.sources.mailouts.notion.properties import Cell, build_properties, plain
from mailwright.sources.mailouts.notion.rate_limit import SharedRateLimit

NOTION_URL = "https://api.notion.com"
# Newest first. Older versions cannot read a database with more than one data source.
VERSIONS = ("2026-03-11", "2025-09-03")

# Notion allows this many requests per second on average; we never exceed it in any second.
PER_SECOND = 3
INTERVAL: Instant = 334
ATTEMPTS = 5
# The longest wait for the rate limit, because a user may be waiting. A longer one raises `NotionUnavailable`.
MAX_WAIT: Instant = 60 * SECOND
TIMEOUT_SECONDS = 65.0  # longer than Notion's own timeout of 60
MAX_RESPONSE_BYTES = 32 * 1024 * 1024

PAGE_SIZE = 100

Sleep = Callable[[float], Awaitable[None]]

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class _NotionRequest:
    """An API request. `is_repeatable` means that it is idempotent."""

    method: str
    path: str
    about: str  # the subject of error messages
    body: Mapping[str, Any] | None = None
    is_repeatable: bool = True


@dataclass(slots=True)
class _SentRequest:
    """A request that was sent. Until it ends, it is unknown when it arrives at Notion."""

    ended_at: Instant | None = None


class Notion:
    """A client for the whole process, which shares one rate limit. `clock` is used for intervals only.

    `shared` keeps the rate limit across processes.
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
        self._interval_ends_at = self._limited_until = clock.now()
        self._recent_requests: deque[_SentRequest] = deque(maxlen=PER_SECOND)
        self._warned: set[tuple[str, str]] = set()

    # Reading.

    async def page(self, page_id: str) -> NotionPage:
        """Return the page. Raises `NotionRefused` if it is inaccessible or in the trash."""
        page_id = notion_id(page_id)
        page = _page(
            await self._call(
                _NotionRequest("GET", f"/pages/{page_id}", lazy_gettext("the page {page_id}", page_id=page_id))
            )
        )
        if page.is_in_trash:
            raise NotionRefused(
                "The page {page_id} is in Notion's trash. Restore it there first.",
                code="NOTION_IN_TRASH",
                page_id=page_id,
            )
        return page

    async def data_source(self, database_id: str, *, setting: str = "NOTION_DB_MAILOUTS") -> DataSource:
        """Return the table with the id of a database or a data source. `setting` holds the id, for error messages."""
        database_id = notion_id(database_id, field=setting)
        about = lazy_gettext("the database {database_id} of {setting}", database_id=database_id, setting=setting)
        try:
            database = await self._call(_NotionRequest("GET", f"/databases/{database_id}", about))
        except NotionRefused as refused:
            if refused.code != "NOTION_NOT_SHARED":
                raise
            try:
                return await self._describe_source(database_id, about)
            except NotionRefused:
                raise refused from None  # The error about the database is more useful.
        sources = [each for each in _list(database, "data_sources") if isinstance(each, Mapping)]
        if len(sources) != 1:
            raise _ambiguous_source(database_id, sources, setting)
        return await self._describe_source(notion_id(str(sources[0].get("id"))), about)

    async def table(self, source_id: str) -> DataSource:
        """Return the table of a row."""
        return await self._describe_source(notion_id(source_id), "the table of the page")

    async def query(self, source: DataSource, *, where: Mapping[str, Any]) -> AsyncIterator[NotionPage]:
        """Yield every matching row. `where` is a Notion filter."""
        body = {"page_size": PAGE_SIZE, "filter": where}
        about = lazy_gettext("the table {table}", table=repr(source.name))
        async for found in self._pages(_NotionRequest("POST", f"/data_sources/{source.id}/query", about, body)):
            if found.get("object", "page") == "page":
                yield _page(found)

    async def children(self, block_id: str) -> tuple[Mapping[str, Any], ...]:
        """Return the direct children of a block as Notion describes them, in page order."""
        block_id = notion_id(block_id)
        call = _NotionRequest(
            "GET", f"/blocks/{block_id}/children", lazy_gettext("the content of {block_id}", block_id=block_id)
        )
        found = [block async for block in self._pages(call)]
        return tuple(block for block in found if not block.get("in_trash") and not block.get("archived"))

    async def named_page(self, page_id: str) -> tuple[str, str | None]:
        """Return the title of a page, and its public address if it is published."""
        answer = await self._call(
            _NotionRequest("GET", f"/pages/{notion_id(page_id)}", lazy_gettext("the page {page_id}", page_id=page_id))
        )
        public_url = answer.get("public_url")
        return _title(_page(answer)), public_url if isinstance(public_url, str) else None

    # Writing.

    async def create_page(self, source: DataSource, cells: Mapping[str, Cell]) -> NotionPage:
        """Add a row. Raises `NotionInDoubt` if Notion may have added it: Notion has no idempotency keys."""
        body = {
            "parent": {"type": "data_source_id", "data_source_id": source.id},
            "properties": self._properties(source, cells),
        }
        about = lazy_gettext("a new row of the table {table}", table=repr(source.name))
        return _page(await self._call(_NotionRequest("POST", "/pages", about, body, is_repeatable=False)))

    async def update_page(self, page_id: str, source: DataSource, cells: Mapping[str, Cell]) -> NotionPage | None:
        """Update properties; repeating it is safe. Return None if the table has none of these columns."""
        page_id = notion_id(page_id)
        properties = self._properties(source, cells)
        if not properties:
            return None
        call = _NotionRequest(
            "PATCH",
            f"/pages/{page_id}",
            lazy_gettext("the page {page_id}", page_id=page_id),
            {"properties": properties},
        )
        return _page(await self._call(call))

    def _properties(self, source: DataSource, cells: Mapping[str, Cell]) -> Mapping[str, Any]:
        found = build_properties(source, cells)
        for name, sentence in found.skipped.items():
            if (source.id, name) not in self._warned:
                self._warned.add((source.id, name))
                log.warning("notion_property_skipped", reason=sentence, property=name)
        return found.properties

    # Details of reading.

    async def _describe_source(self, source_id: str, about: str) -> DataSource:
        answer = await self._call(_NotionRequest("GET", f"/data_sources/{source_id}", about))
        columns = {
            str(name): each for name, each in _mapping(answer, "properties").items() if isinstance(each, Mapping)
        }
        types = {name: str(each.get("type")) for name, each in columns.items()}
        name = plain(answer.get("title")) or "without a name"
        return DataSource(source_id, name, types, {each: _options(columns[each], types[each]) for each in types})

    async def _pages(self, call: _NotionRequest) -> AsyncIterator[Mapping[str, Any]]:
        cursor: str | None = None
        seen: set[str] = set()
        while True:
            answer = await self._call(_at(call, cursor))
            for each in _list(answer, "results"):
                if isinstance(each, Mapping):
                    yield each
            status = answer.get("request_status")
            if isinstance(status, Mapping) and status.get("type") == "incomplete":
                raise NotionRefused(
                    "{about} has more rows than Notion returns. Use a narrower filter.",
                    code="NOTION_TOO_MANY_ROWS",
                    about=call.about,
                )
            if not answer.get("has_more"):
                return
            cursor = answer.get("next_cursor")
            if not isinstance(cursor, str) or cursor in seen:
                raise NotionUnavailable("Notion announced another page without a cursor.", code="NOTION_GARBLED")
            seen.add(cursor)

    # One request.

    async def _call(self, call: _NotionRequest) -> Mapping[str, Any]:
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
                # The limit applies to the whole process, so later requests wait as well.
                self._limited_until = max(self._limited_until, self._clock.now() + wait)
            if is_last:
                break
            log.info("notion_request_retried", about=call.about, reason=str(failure), wait_ms=wait, code=failure.code)
        raise failure

    async def _request(self, call: _NotionRequest) -> HttpResponse | Disconnect:
        asked = await self._take_slot()
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

    async def _take_slot(self) -> _SentRequest:
        """Wait for the next slot of the shared rate limit."""
        await self._wait_until(lambda: self._limited_until)
        if self._shared is not None:
            await self._sleep(await self._shared.seconds_to_wait())
        # Another request may have received a longer wait in the meantime.
        await self._wait_until(lambda: max(self._next_slot_at(), self._limited_until))
        self._interval_ends_at = self._clock.now() + INTERVAL
        asked = _SentRequest()
        self._recent_requests.append(asked)
        return asked

    async def _wait_until(self, deadline: Callable[[], Instant]) -> None:
        """Wait until `deadline`, which may change during the wait. Raises if the wait exceeds `MAX_WAIT`."""
        while (wait := deadline() - self._clock.now()) > 0:
            if wait > MAX_WAIT:
                raise NotionUnavailable("Notion limits the request rate.", code="NOTION_RATE_LIMITED", retry_after=wait)
            await self._sleep(wait / 1000)

    def _next_slot_at(self) -> Instant:
        """Return the time of the next slot. It depends on when earlier requests ended, because they may arrive late."""
        if len(self._recent_requests) < PER_SECOND:
            return self._interval_ends_at
        ended_at = self._recent_requests[0].ended_at
        return max(self._interval_ends_at, self._clock.now() + INTERVAL if ended_at is None else ended_at + SECOND + 1)


# Responses.


def _answer(reply: HttpResponse | Disconnect) -> Mapping[str, Any] | None:
    if isinstance(reply, Disconnect):
        return None
    try:
        answer = load_json(reply.body)
    except orjson.JSONDecodeError:
        return None
    is_whole = isinstance(answer, dict) and isinstance(answer.get("object"), str)
    return answer if is_whole and (answer["object"] != "page" or is_id(answer.get("id"))) else None


def _failure(call: _NotionRequest, reply: HttpResponse | Disconnect, answer: Mapping[str, Any] | None) -> NotionError:
    """Classify a failure: retry, in doubt, or refused."""
    if isinstance(reply, Disconnect):
        if reply.is_in_doubt and not call.is_repeatable:
            return NotionInDoubt(
                "Notion did not confirm that it wrote {about}: {cause}.", about=call.about, cause=reply.cause
            )
        return NotionUnavailable("Notion is unreachable: {cause}.", cause=reply.cause)
    if reply.status in (429, 529, 409):
        # Notion did not carry out the request.
        code = "NOTION_BUSY" if reply.status != 429 else "NOTION_RATE_LIMITED"
        return NotionUnavailable("Notion limits the request rate.", code=code, retry_after=_retry_after(reply))
    if answer is not None and 400 <= reply.status < 500:
        refused = describe_refusal(reply.status, answer, call.about)
        log.info("notion_refused", status=reply.status, code=refused.code, request_id=str(answer.get("request_id")))
        return refused
    if not call.is_repeatable and (reply.status >= 500 or reply.status < 300):
        return NotionInDoubt(
            "Notion did not confirm that it wrote {about}: it returned {status}.", about=call.about, status=reply.status
        )
    garbled = "NOTION_GARBLED" if reply.status < 500 else None
    return NotionUnavailable("Notion returned {status} without a usable body.", code=garbled, status=reply.status)


def _retry_after(reply: HttpResponse) -> Instant | None:
    seconds = reply.headers.get("Retry-After", "")
    return int(seconds) * SECOND if seconds.isascii() and seconds.isdigit() and len(seconds) < 8 else None


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


def _ambiguous_source(database_id: str, sources: Sequence[Mapping[str, Any]], setting: str) -> NotionRefused:
    if not sources:
        return NotionRefused(
            "The database {database_id} shows no data source. Connect your integration to it in Notion.",
            code="NOTION_NO_DATA_SOURCE",
            field=setting,
            database_id=database_id,
        )
    named = ", ".join(f"{each.get('name')!r} is {each.get('id')}" for each in sources)
    return NotionRefused(
        "The database {database_id} has {count} data sources in Notion. Set {setting} to the id of "
        "one of them ({named}).",
        code="NOTION_SEVERAL_DATA_SOURCES",
        field=setting,
        database_id=database_id,
        count=len(sources),
        setting=setting,
        named=named,
    )


def _at(call: _NotionRequest, cursor: str | None) -> _NotionRequest:
    """Return the request for the page at the cursor: in the query of a GET, in the body of a POST."""
    if call.body is not None:
        body = call.body if cursor is None else {**call.body, "start_cursor": cursor}
        return _NotionRequest(call.method, call.path, call.about, body)
    asked = {"page_size": str(PAGE_SIZE)} | ({} if cursor is None else {"start_cursor": cursor})
    return _NotionRequest(call.method, f"{call.path}?{urlencode(asked)}", call.about)


def _mapping(answer: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = answer.get(name)
    return found if isinstance(found, Mapping) else {}


def _list(answer: Mapping[str, Any], name: str) -> list[Any]:
    found = answer.get(name)
    return found if isinstance(found, list) else []
