"""Fetch a feed from the internet. Users choose the URL, so requests to private networks are refused."""

from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import urljoin

from mailwright.app.link_checks import MAX_REDIRECTS, PRIVATE_NETWORK, REDIRECTS, invalid_reason, public_only
from mailwright.content.blocks.feed import MAX_FEED_BYTES, FeedItem, FeedUnreachable, read_feed
from mailwright.domain.errors import InvalidInput
from mailwright.providers.http import Disconnect, HttpClient, HttpResponse

_TIMEOUT_SECONDS: Final = 10.0
_SUCCESS: Final = 200
# There is no feed at this URL.
_GONE: Final = (404, 410)

Request = Callable[[str], Awaitable[HttpResponse | Disconnect]]


async def fetch_feed(url: str, request: Request | None = None) -> list[FeedItem]:
    """Return the items of the feed at this URL. Every redirect is checked like the URL itself."""
    if request is not None:
        return read_feed(await _fetch(url, request))
    http = HttpClient(connections=1, resolve=public_only())
    try:
        return read_feed(
            await _fetch(
                url,
                lambda each: http.request(
                    "GET", each, timeout_seconds=_TIMEOUT_SECONDS, max_response_bytes=MAX_FEED_BYTES
                ),
            )
        )
    finally:
        await http.close()


async def _fetch(url: str, request: Request) -> bytes:
    for _ in range(MAX_REDIRECTS + 1):
        if reason := invalid_reason(url):
            raise InvalidInput(f"The feed cannot be read: {reason}.", field="url")
        match await request(url):
            case Disconnect(cause=cause):
                refusal = InvalidInput if cause == PRIVATE_NETWORK else FeedUnreachable
                raise refusal(f"The feed cannot be read: {cause}.", field="url")
            case HttpResponse(status=status, headers=headers) if status in REDIRECTS:
                url = urljoin(url, headers.get("Location", ""))
            case HttpResponse(status=status, body=body) if status == _SUCCESS:
                return body
            case HttpResponse(status=status):
                refusal = InvalidInput if status in _GONE else FeedUnreachable
                raise refusal(f"The feed cannot be read: it returns {status}.", field="url")
    raise InvalidInput("The feed cannot be read: it redirects too often.", field="url")
