"""Fetch a feed from the internet. Users choose the URL, so requests to private networks are refused."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final
from urllib.parse import urljoin

from mailwright.app.link_checks import MAX_REDIRECTS, PRIVATE_NETWORK, REDIRECTS, invalid_reason, public_only
from mailwright.content.blocks.feed import MAX_FEED_BYTES, FeedItem, FeedUnreachable, read_feed
from mailwright.content.work_thread import run_in_thread
from mailwright.domain.errors import InvalidInput
from mailwright.domain.translation import lazy_gettext
from mailwright.providers.http import Disconnect, HttpClient, HttpResponse
from mailwright.sources.feeds.follow import NOT_READ, Validators
from mailwright.sources.feeds.reader import FeedReading

_TIMEOUT_SECONDS: Final = 10.0
_SUCCESS: Final = 200
_NOT_MODIFIED: Final = 304
# With these statuses there is no feed at the URL.
_GONE: Final = (404, 410)
# A longer ETag is not stored.
_MAX_VALIDATOR: Final = 1_000

Request = Callable[[str, Mapping[str, str]], Awaitable[HttpResponse | Disconnect]]


async def fetch_feed(url: str) -> list[FeedItem]:
    """Return the items of the feed at this URL."""
    return list((await fetch_changed_feed(url, NOT_READ)).items or ())


async def fetch_changed_feed(url: str, known: Validators, request: Request | None = None) -> FeedReading:
    """Return the items of the feed at this URL, or none if it has not changed since the response with `known`.

    Every redirect is checked like the URL itself.
    """
    if request is not None:
        return await _read(url, known, request)
    http = HttpClient(connections=1, resolve=public_only())
    # Read one byte more than the limit, so that a feed that is too large is recognised.
    get = partial(http.request, "GET", timeout_seconds=_TIMEOUT_SECONDS, max_response_bytes=MAX_FEED_BYTES + 1)
    try:
        return await _read(url, known, lambda each, headers: get(each, headers=headers))
    finally:
        await http.close()


async def _read(url: str, known: Validators, request: Request) -> FeedReading:
    for _ in range(MAX_REDIRECTS + 1):
        if reason := invalid_reason(url):
            raise InvalidInput("The feed cannot be read: {reason}.", field="url", reason=reason)
        match await request(url, known.headers):
            case Disconnect(cause=cause):
                refusal = InvalidInput if cause == PRIVATE_NETWORK else FeedUnreachable
                raise refusal(lazy_gettext("The feed cannot be read: {cause}.", cause=cause), field="url")
            case HttpResponse(status=status, headers=headers) if status in REDIRECTS:
                url = urljoin(url, headers.get("Location", ""))
            case HttpResponse(status=status) if status == _NOT_MODIFIED and known.headers:
                return FeedReading(None, known)
            case HttpResponse(status=status, headers=headers, body=body) if status == _SUCCESS:
                items = await run_in_thread(read_feed, body, url)
                return FeedReading(items, Validators(_short(headers, "ETag"), _short(headers, "Last-Modified")))
            case HttpResponse(status=status):
                refusal = InvalidInput if status in _GONE else FeedUnreachable
                raise refusal(lazy_gettext("The feed cannot be read: it returns {status}.", status=status), field="url")
    raise InvalidInput("The feed cannot be read: it redirects too often.", field="url")


def _short(headers: Mapping[str, str], name: str) -> str | None:
    value = headers.get(name)
    return value if value is not None and len(value) <= _MAX_VALIDATOR and value.isprintable() else None
