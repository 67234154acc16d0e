"""Requests for feeds: redirects, refusals and servers that misbehave."""

from collections.abc import Mapping

import pytest

from mailwright.app.feeds import Request, fetch_changed_feed
from mailwright.app.link_checks import PRIVATE_NETWORK
from mailwright.content.blocks.feed import MAX_FEED_BYTES, FeedUnreachable, InvalidFeed
from mailwright.domain.errors import InvalidInput
from mailwright.providers.http import Disconnect, HttpPhase, HttpResponse
from mailwright.sources.feeds.follow import NOT_READ, Validators

URL = "https://blog.example/feed"
RSS = b"<rss><channel><item><title>A</title><link>1</link></item></channel></rss>"


def server(answers: Mapping[str, HttpResponse | Disconnect], asked: list[str] | None = None) -> Request:
    async def request(url: str, _headers: Mapping[str, str]) -> HttpResponse | Disconnect:
        if asked is not None:
            asked.append(url)
        return answers[url]

    return request


def moved(to: str) -> HttpResponse:
    return HttpResponse(301, ((b"Location", to.encode()),), b"")


async def test_redirects_are_followed_and_links_belong_to_the_last_one() -> None:
    answers = {URL: moved("/new/feed"), "https://blog.example/new/feed": HttpResponse(200, ((b"ETag", b'"x"'),), RSS)}
    found = await fetch_changed_feed(URL, NOT_READ, server(answers))
    assert [item.link for item in found.items or ()] == ["https://blog.example/new/1"]
    assert found.validators == Validators('"x"')


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (moved(URL), InvalidInput, "redirects too often"),
        (moved("http://169.254.169.254/latest"), InvalidInput, PRIVATE_NETWORK),
        (moved("http://127.1/feed"), InvalidInput, "not a web address"),
        (moved("https://blog.example:8080/feed"), InvalidInput, "port"),
        (moved("file:///etc/passwd"), InvalidInput, "not a web address"),
        (Disconnect(HttpPhase.BEFORE, PRIVATE_NETWORK), InvalidInput, PRIVATE_NETWORK),
        (Disconnect(HttpPhase.AFTER, "no response in time", is_timeout=True), FeedUnreachable, "no response in time"),
        (HttpResponse(410, (), b""), InvalidInput, "returns 410"),
        (HttpResponse(503, (), RSS), FeedUnreachable, "returns 503"),
        (HttpResponse(304, (), b""), FeedUnreachable, "returns 304"),
        (HttpResponse(200, (), b" " * (MAX_FEED_BYTES + 1)), InvalidFeed, "larger than 4 MB"),
        (HttpResponse(200, (), b""), InvalidFeed, "not valid XML"),
    ],
)
async def test_servers_that_misbehave_are_errors(
    answer: HttpResponse | Disconnect, error: type[InvalidInput], message: str
) -> None:
    asked: list[str] = []
    with pytest.raises(InvalidInput, match=message) as refused:
        await fetch_changed_feed(URL, NOT_READ, server({URL: answer}, asked))
    assert type(refused.value) is error
    assert len(asked) <= 6
