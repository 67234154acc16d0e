"""Requests with callbacks give the same results as awaited ones, on kept connections."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from types import MappingProxyType

import pytest

from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.results import ResultKind, SendResult
from mailwright.providers.callbacks import translating_callback
from mailwright.providers.http import PIECE_BYTES, Disconnect, HttpClient, HttpPhase, HttpResponse
from mailwright.providers.protocol import SendHandle
from tests.standins.http import GARBAGE, Answer, HttpStandIn, Step

NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Poster:
    """At most one connection: if it is not returned, the next request fails."""

    def __init__(self, http: HttpClient, url: str) -> None:
        self._http = http
        self._url = url

    def begin(
        self,
        told: Callable[[HttpResponse | Disconnect], None],
        body: bytes = b"{}",
        *,
        headers: Mapping[str, str] = NO_HEADERS,
        timeout_seconds: float = 20.0,
        may_begin: bool = True,
    ) -> SendHandle:
        return self._http.post(
            f"{self._url}/messages",
            told,
            headers=headers,
            body=body,
            timeout_seconds=timeout_seconds,
            may_begin=lambda: may_begin,
        )

    async def post(self, body: bytes = b"{}", **options: object) -> HttpResponse | Disconnect:
        told: asyncio.Future[HttpResponse | Disconnect] = asyncio.get_running_loop().create_future()
        self.begin(told.set_result, body, **options)  # type: ignore[arg-type]
        return await told


@pytest.fixture
async def server() -> AsyncIterator[HttpStandIn]:
    async with HttpStandIn() as server:
        yield server


@pytest.fixture
async def poster(server: HttpStandIn) -> AsyncIterator[Poster]:
    """Use a client with an idle connection."""
    http = HttpClient(connections=1)
    poster = Poster(http, server.url)
    assert isinstance(await poster.post(), HttpResponse)
    server.requests.clear()
    yield poster
    await http.close()


async def test_responses_use_the_open_connection(poster: Poster, server: HttpStandIn) -> None:
    server.answer(Answer(418, b"short and stout", {"X-Pot": "tea"}))
    reply = await poster.post(b"water", headers={"Authorization": "Bearer key"})
    assert isinstance(reply, HttpResponse)
    assert (reply.status, reply.body, reply.headers["x-POT"]) == (418, b"short and stout", "tea")
    (request,) = server.requests
    assert (request.method, request.body, request.headers["Authorization"]) == ("POST", b"water", "Bearer key")
    assert server.connections == 1
    assert not server.violations


async def test_concurrent_posts_use_the_allowed_connections(server: HttpStandIn) -> None:
    http = HttpClient(connections=8)
    poster = Poster(http, server.url)
    for _ in range(2):  # On new and on kept connections.
        replies = await asyncio.gather(*(poster.post(str(number).encode()) for number in range(100)))
        assert all(isinstance(reply, HttpResponse) and reply.status == 200 for reply in replies)
    assert sorted(int(request.body) for request in server.requests) == sorted([*range(100)] * 2)
    assert server.most_connections == 8
    await http.close()


async def test_body_in_several_pieces_arrives_complete(poster: Poster, server: HttpStandIn) -> None:
    body = b"x" * (3 * PIECE_BYTES + 7)
    assert isinstance(await poster.post(body), HttpResponse)
    assert [request.body for request in server.requests] == [body]


@pytest.mark.parametrize("step", [Step.ANSWER, Step.MIDDLE])
async def test_interruption_is_in_doubt_and_the_next_reconnects(
    poster: Poster, server: HttpStandIn, step: Step
) -> None:
    server.cut(step, nth=1)
    cut = await poster.post()
    assert isinstance(cut, Disconnect)
    assert (cut.phase, cut.is_timeout) == (HttpPhase.AFTER, False)
    assert isinstance(await poster.post(), HttpResponse)
    assert (len(server.requests), server.connections) == (2, 2)


async def test_malformed_response_is_in_doubt(poster: Poster, server: HttpStandIn) -> None:
    server.answer(GARBAGE, nth=1)
    assert await poster.post() == Disconnect(HttpPhase.AFTER, "the response was not HTTP")
    assert isinstance(await poster.post(), HttpResponse)


async def test_missing_response_is_in_doubt(poster: Poster, server: HttpStandIn) -> None:
    hold = server.hold(Step.ANSWER, nth=1)
    assert await poster.post(timeout_seconds=0.05) == Disconnect(
        HttpPhase.AFTER, "no response in time", is_timeout=True
    )
    hold.release()
    assert isinstance(await poster.post(), HttpResponse)
    assert server.connections == 2


async def test_timeouts_are_per_request(poster: Poster, server: HttpStandIn) -> None:
    assert isinstance(await poster.post(timeout_seconds=0.05), HttpResponse)
    hold = server.hold(Step.ANSWER, nth=1)
    slow = asyncio.ensure_future(poster.post())
    await hold.reached.wait()
    await asyncio.sleep(0.06)  # Sockets use the real clock.
    hold.release()
    assert isinstance(await slow, HttpResponse)


async def test_closed_connection_is_not_used(poster: Poster, server: HttpStandIn) -> None:
    server.cut(Step.ANSWERED, nth=1)
    assert isinstance(await poster.post(), HttpResponse)
    await asyncio.sleep(0.01)  # The close must reach this socket.
    assert isinstance(await poster.post(), HttpResponse)
    assert len(server.requests) == 2


async def test_request_is_not_sent_if_it_may_not_begin(poster: Poster, server: HttpStandIn) -> None:
    cut = await poster.post(may_begin=False)
    assert isinstance(cut, Disconnect)
    assert cut.phase is HttpPhase.BEFORE
    assert not server.requests
    assert isinstance(await poster.post(), HttpResponse)


async def test_header_injection_is_rejected(poster: Poster, server: HttpStandIn) -> None:
    cut = await poster.post(headers={"X-A": "a\r\nX-B: b"})
    assert isinstance(cut, Disconnect)
    assert cut.phase is HttpPhase.BEFORE
    assert not server.requests
    assert isinstance(await poster.post(), HttpResponse)
    assert server.connections == 1


async def test_cancelled_caller_is_not_called_back(poster: Poster, server: HttpStandIn) -> None:
    told: list[HttpResponse | Disconnect] = []
    hold = server.hold(Step.ANSWER, nth=1)
    sending = poster.begin(told.append)
    await hold.reached.wait()
    sending.cancel()
    sending.cancel()
    hold.release()
    assert isinstance(await poster.post(), HttpResponse)
    assert not told


async def test_close_calls_waiting_callers_back(server: HttpStandIn) -> None:
    http = HttpClient()
    poster = Poster(http, server.url)
    await poster.post()
    hold = server.hold(Step.ANSWER, nth=1)
    waiting = asyncio.ensure_future(poster.post())
    await hold.reached.wait()
    await http.close()
    assert isinstance(await waiting, Disconnect)
    hold.release()
    assert await poster.post() == Disconnect(HttpPhase.BEFORE, "the connections were closed")


def test_untranslatable_response_is_in_doubt() -> None:
    def meaning(_: HttpResponse | Disconnect) -> SendResult:
        raise ZeroDivisionError

    told: list[SendResult] = []
    message = OutgoingMessage("id", "news@example.com", ("ada@example.com",), b"")
    translating_callback(meaning, "ses", message, told.append)(Disconnect(HttpPhase.AFTER, "lost"))
    assert [(result.kind, result.code, result.provider) for result in told] == [
        (ResultKind.IN_DOUBT, "PROVIDER_RAISED", "ses")
    ]
