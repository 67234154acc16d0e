"""The HTTP client: every failure says how far the request got, and a request is sent at most once."""

import asyncio
import logging
import socket
import ssl
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from mailwright.providers.http import MAX_RESPONSE_BYTES, PIECE_BYTES, Disconnect, HttpClient, HttpPhase, HttpResponse
from tests.ports import free_port
from tests.standins.http import GARBAGE, Answer, HttpStandIn, Step, a_large_answer
from tests.standins.smtp_sink import a_certificate

# More than the socket buffers hold.
LARGE = b"x" * (24 * 1024 * 1024)


@asynccontextmanager
async def http(connections: int = 100, tls: ssl.SSLContext | None = None) -> AsyncIterator[HttpClient]:
    http = HttpClient(connections=connections, tls=tls)
    try:
        yield http
    finally:
        await http.close()


async def post(
    http: HttpClient, url: str, body: bytes = b"{}", timeout_seconds: float = 20.0
) -> HttpResponse | Disconnect:
    return await http.request("POST", f"{url}/messages", body=body, timeout_seconds=timeout_seconds)


def cut(reply: HttpResponse | Disconnect) -> Disconnect:
    assert isinstance(reply, Disconnect), reply
    return reply


async def test_complete_response_is_returned_unchanged() -> None:
    async with HttpStandIn() as server, http() as client:
        server.answer(Answer(418, b"short and stout", {"X-Pot": "tea"}))
        reply = await client.request(
            "POST", f"{server.url}/pots?large=1", headers={"Authorization": "Bearer key"}, body=b"water"
        )
        assert isinstance(reply, HttpResponse)
        assert (reply.status, reply.body, reply.headers["x-POT"]) == (418, b"short and stout", "tea")
        (request,) = server.requests
        assert (request.method, request.path, request.query, request.body) == ("POST", "/pots", "large=1", b"water")
        assert request.headers["Authorization"] == "Bearer key"
        assert not server.violations


@pytest.mark.parametrize(
    "size", [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 2 * PIECE_BYTES, 3 * PIECE_BYTES + 7]
)
async def test_body_of_any_size_arrives_complete(size: int) -> None:
    body = bytes(index % 251 for index in range(size))
    async with HttpStandIn() as server, http() as client:
        assert isinstance(await post(client, server.url, body), HttpResponse)
        assert server.requests[0].body == body


async def test_connections_are_kept_and_shared() -> None:
    async with HttpStandIn() as server, http() as client:
        for _ in range(5):
            await post(client, server.url)
        await client.request("GET", server.url)
        assert server.connections == 1
        assert not server.violations


async def test_concurrent_requests_use_the_allowed_connections() -> None:
    async with HttpStandIn() as server, http(connections=8) as client:
        replies = await asyncio.gather(*(post(client, server.url, str(number).encode()) for number in range(200)))
        assert all(isinstance(reply, HttpResponse) and reply.status == 200 for reply in replies)
        assert sorted(int(request.body) for request in server.requests) == list(range(200))
        assert server.most_connections == 8


# Before anything was sent.


async def test_refused_connection_fails_before_sending() -> None:
    port = free_port()
    async with http() as client:
        failure = cut(await post(client, f"http://127.0.0.1:{port}"))
    assert (failure.phase, failure.is_timeout, failure.is_in_doubt) == (HttpPhase.BEFORE, False, False)
    assert failure.cause == "Connection refused"


async def test_unknown_host_fails_before_sending(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*arguments: object, **options: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    async with http() as client:
        failure = cut(await post(client, "http://nowhere.invalid"))
    assert (failure.phase, failure.cause) == (HttpPhase.BEFORE, "the host name was not found")


@pytest.mark.parametrize("url", ["no url at all", "http://", "ftp://example.com", "http://[::1"])
async def test_invalid_url_fails_before_sending(url: str) -> None:
    async with http() as client:
        assert cut(await client.request("POST", url, body=b"{}")).phase is HttpPhase.BEFORE


async def test_header_injection_is_rejected() -> None:
    async with HttpStandIn() as server, http() as client:
        reply = await client.request("POST", server.url, headers={"X-A": "a\r\nX-B: b"}, body=b"{}")
        assert cut(reply).phase is HttpPhase.BEFORE
        assert not server.begun


async def test_untrusted_certificate_fails_before_sending() -> None:
    async with HttpStandIn(certificate=a_certificate()) as server, http() as client:
        failure = cut(await post(client, server.url))
        assert (failure.phase, failure.cause) == (HttpPhase.BEFORE, "the certificate of the host is not trusted")
        assert not server.begun


async def test_trusted_certificate_is_accepted() -> None:
    certificate = a_certificate()
    tls = ssl.create_default_context(cafile=certificate.file)
    async with HttpStandIn(certificate=certificate) as server, http(tls=tls) as client:
        assert isinstance(await post(client, server.url), HttpResponse)


async def test_server_without_tls_fails_before_sending() -> None:
    async with HttpStandIn() as server, http() as client:
        server.answer(b"HTTP/1.1 400 Bad Request\r\n\r\n", step=Step.CONNECTED)
        failure = cut(await post(client, server.url.replace("http:", "https:")))
        assert failure.phase is HttpPhase.BEFORE
        assert not server.begun


async def test_hanging_handshake_times_out_before_sending() -> None:
    async with HttpStandIn() as server, http() as client:
        server.hold(Step.CONNECTED)
        failure = cut(await post(client, server.url.replace("http:", "https:"), timeout_seconds=0.1))
        assert (failure.phase, failure.is_timeout) == (HttpPhase.BEFORE, True)


async def test_wait_for_a_connection_times_out_before_sending() -> None:
    async with HttpStandIn() as server, http(connections=1) as client:
        hold = server.hold(Step.ANSWER)
        first = asyncio.ensure_future(post(client, server.url, b"first"))
        await hold.reached.wait()
        second = cut(await post(client, server.url, b"second", timeout_seconds=0.1))
        assert (second.phase, second.is_timeout) == (HttpPhase.BEFORE, True)
        hold.release()
        assert isinstance(await first, HttpResponse)
        assert [request.body for request in server.requests] == [b"first"]


async def test_request_is_not_sent_if_it_may_not_begin() -> None:
    async with HttpStandIn() as server, http() as client:
        reply = await client.request("POST", server.url, body=b"{}", may_begin=lambda: False)
        assert cut(reply).phase is HttpPhase.BEFORE
        assert not server.begun
        assert isinstance(await client.request("POST", server.url, body=b"{}", may_begin=lambda: True), HttpResponse)


@pytest.mark.parametrize("is_used", [True, False])
async def test_closed_client_sends_nothing(is_used: bool) -> None:
    async with HttpStandIn() as server:
        client = HttpClient()
        if is_used:
            await post(client, server.url)
        await client.close()
        assert cut(await post(client, server.url)).phase is HttpPhase.BEFORE
        assert len(server.requests) == is_used


async def test_request_in_flight_at_close_is_in_doubt() -> None:
    async with HttpStandIn() as server:
        client = HttpClient()
        hold = server.hold(Step.ANSWER)
        sending = asyncio.ensure_future(post(client, server.url))
        await hold.reached.wait()
        await client.close()
        assert cut(await sending).phase is HttpPhase.AFTER


# While it was sent.


@pytest.mark.parametrize("step", [Step.HEAD, Step.BODY])
async def test_interruption_in_the_body_is_not_delivered(step: Step) -> None:
    async with HttpStandIn() as server, http() as client:
        server.cut(step, nth=1)
        failure = cut(await post(client, server.url, LARGE))
        assert (failure.phase, failure.is_in_doubt) == (HttpPhase.DURING, False)
        assert not server.requests
        assert len(server.begun) == 1
        assert isinstance(await post(client, server.url), HttpResponse)


async def test_server_that_stops_reading_never_gets_the_rest() -> None:
    """Buffered bytes may still be sent, so the last piece must not be buffered."""
    async with HttpStandIn() as server, http() as client:
        hold = server.hold(Step.HEAD)
        failure = cut(await post(client, server.url, LARGE, timeout_seconds=0.3))
        assert (failure.phase, failure.is_timeout) == (HttpPhase.DURING, True)
        hold.release()
        while server.open_connections:
            await asyncio.sleep(0)
        assert not server.requests


async def test_response_during_the_body_is_received() -> None:
    async with HttpStandIn() as server, http() as client:
        hold = server.hold(Step.BODY)
        server.answer(Answer(413, b"too large"), step=Step.HEAD, times=1)
        reply = await post(client, server.url, LARGE)
        # The connection may fail before the response is read; either way nobody has the message.
        assert isinstance(reply, HttpResponse) or reply.phase is HttpPhase.DURING
        assert not server.requests
        hold.release()


# After all of it was sent.


@pytest.mark.parametrize("step", [Step.ANSWER, Step.MIDDLE])
async def test_interruption_before_the_response_is_in_doubt(step: Step) -> None:
    async with HttpStandIn() as server, http() as client:
        server.cut(step, nth=1)
        failure = cut(await post(client, server.url))
        assert (failure.phase, failure.is_timeout, failure.is_in_doubt) == (HttpPhase.AFTER, False, True)
        assert len(server.requests) == 1
        assert isinstance(await post(client, server.url), HttpResponse)


async def test_interruption_after_a_large_body_is_in_doubt() -> None:
    async with HttpStandIn() as server, http() as client:
        server.cut(Step.ANSWER, nth=1)
        assert cut(await post(client, server.url, LARGE)).phase is HttpPhase.AFTER
        assert len(server.requests) == 1


@pytest.mark.parametrize("step", [Step.ANSWER, Step.MIDDLE])
async def test_silence_after_the_request_is_in_doubt(step: Step) -> None:
    async with HttpStandIn() as server, http() as client:
        server.hold(step)
        failure = cut(await post(client, server.url, timeout_seconds=0.1))
        assert (failure.phase, failure.is_timeout) == (HttpPhase.AFTER, True)
        assert len(server.requests) == 1


@pytest.mark.parametrize("ending", ["silence", "cut"])
async def test_incomplete_response_body_is_in_doubt(ending: str) -> None:
    async with HttpStandIn() as server, http() as client:
        server.answer(Answer(200, b"x" * 10_000), nth=1)
        server.hold(Step.MIDDLE, nth=1) if ending == "silence" else server.cut(Step.MIDDLE, nth=1)
        failure = cut(await post(client, server.url, timeout_seconds=0.2 if ending == "silence" else 20.0))
        assert (failure.phase, failure.is_timeout) == (HttpPhase.AFTER, ending == "silence")
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    "garbage",
    [
        GARBAGE,
        b"HTTP/1.1",
        b"HTTP/1.1 two hundred\r\n\r\n",
        b"250 OK\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 1_000_000 + b"\r\n\r\n",
    ],
)
async def test_malformed_response_is_in_doubt(garbage: bytes) -> None:
    async with HttpStandIn() as server, http() as client:
        server.answer(garbage, nth=1)
        assert cut(await post(client, server.url)).phase is HttpPhase.AFTER
        assert len(server.requests) == 1


async def test_trickling_bytes_do_not_extend_the_timeout() -> None:
    async with HttpStandIn() as server, http() as client:
        hold = server.hold(Step.MIDDLE)
        sending = asyncio.ensure_future(post(client, server.url, timeout_seconds=0.2))
        await hold.reached.wait()
        (writer,) = server.writers
        while not sending.done():
            writer.write(b" ")
            await asyncio.sleep(0.02)
        assert cut(await sending).is_timeout


async def test_protocol_switch_is_not_a_response() -> None:
    async with HttpStandIn() as server, http() as client:
        server.answer(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", nth=1)
        assert cut(await post(client, server.url)).phase is HttpPhase.AFTER


async def test_informational_responses_are_skipped() -> None:
    async with HttpStandIn() as server, http() as client:
        whole = Answer(202, b"taken", {"X-Id": "1"}).wire()
        server.answer(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nX-Id: 0\r\n\r\n" + whole, nth=1)
        reply = await post(client, server.url)
        assert isinstance(reply, HttpResponse)
        assert (reply.status, reply.body, reply.headers["X-Id"]) == (202, b"taken", "1")


async def test_response_ended_by_close_is_complete() -> None:
    async with HttpStandIn() as server, http() as client:
        server.answer(b"HTTP/1.1 200 OK\r\n\r\nall of it", nth=1)
        reply = await post(client, server.url)
        assert isinstance(reply, HttpResponse)
        assert reply.body == b"all of it"
        assert isinstance(await post(client, server.url), HttpResponse)
        assert server.connections == 2


# Each request gets its own response.


async def test_extra_response_is_not_used_for_the_next_request() -> None:
    async with HttpStandIn() as server, http() as client:
        server.answer(Answer(200, b"first", {"X-Second": "comes"}), nth=1)
        hold = server.hold(Step.ANSWERED, nth=1)
        assert isinstance(await post(client, server.url), HttpResponse)
        await hold.reached.wait()
        (writer,) = server.writers
        writer.write(Answer(413, b"second").wire())
        await asyncio.sleep(0.01)  # The close must reach this socket.
        reply = await post(client, server.url)
        assert isinstance(reply, HttpResponse)
        assert (reply.status, server.connections) == (200, 2)


async def test_two_responses_at_once_close_the_connection() -> None:
    async with HttpStandIn() as server, http() as client:
        hold = server.hold(Step.ANSWERED, nth=1)
        not_asked_for = Answer(413).wire()
        server.answer(Answer(200, b"x" + not_asked_for, {"Content-Length": "1"}), nth=1)
        first = await post(client, server.url)
        second = await post(client, server.url)
        assert isinstance(first, HttpResponse)
        assert isinstance(second, HttpResponse)
        assert (first.body, second.status, server.connections) == (b"x", 200, 2)
        hold.release()


# Never repeated.


async def test_post_is_never_repeated() -> None:
    """Each connection closes after one request without notice: a client that repeats would be detected."""
    async with HttpStandIn(requests_per_connection=1) as server, http() as client:
        replies = [await post(client, server.url, str(number).encode()) for number in range(50)]
        arrived = [int(request.body) for request in server.requests]
        assert len(arrived) == len(set(arrived)), "a request arrived twice"
        for number, reply in enumerate(replies):
            if number not in arrived:
                assert isinstance(reply, Disconnect)
            if isinstance(reply, Disconnect) and reply.phase is not HttpPhase.AFTER:
                assert number not in arrived


async def test_closed_idle_connections_are_not_reused() -> None:
    async with HttpStandIn() as server, http() as client:
        await post(client, server.url)
        await server.close_connections()
        await asyncio.sleep(0.01)  # The close must reach this socket.
        assert isinstance(await post(client, server.url), HttpResponse)
        assert len(server.requests) == 2


async def test_kept_connection_that_closes_during_a_request_is_in_doubt() -> None:
    async with HttpStandIn() as server, http() as client:
        await post(client, server.url)
        server.cut(Step.ANSWER)
        assert cut(await post(client, server.url)).phase is HttpPhase.AFTER
        assert (len(server.requests), server.connections) == (2, 1)


async def test_redirect_is_not_followed() -> None:
    async with HttpStandIn() as server, http() as client:
        server.answer(Answer(307, b"", {"Location": f"{server.url}/elsewhere"}))
        reply = await post(client, server.url)
        assert isinstance(reply, HttpResponse)
        assert reply.status == 307
        assert len(server.requests) == 1


async def test_cookies_are_not_sent_back() -> None:
    async with HttpStandIn() as server, http() as client:
        server.answer(Answer(200, b"{}", {"Set-Cookie": "a=b; Path=/"}))
        await post(client, server.url)
        await post(client, server.url)
        assert all("Cookie" not in request.headers for request in server.requests)


async def test_environment_proxy_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    async with HttpStandIn() as server, http() as client:
        assert isinstance(await post(client, server.url), HttpResponse)


# Bounded memory.


async def test_large_response_is_truncated() -> None:
    large = a_large_answer()
    async with HttpStandIn() as server, http() as client:
        server.answer(large, times=1)
        await client.request("GET", server.url + "/warm")
        wire = large.wire()
        server.answer(wire, times=1)
        tracemalloc.start()
        try:
            reply = await post(client, server.url)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert isinstance(reply, HttpResponse)
        assert len(reply.body) == MAX_RESPONSE_BYTES
        assert peak < 14 * 1024 * 1024, "the server's own copy, and little more"
        assert isinstance(await post(client, server.url), HttpResponse)


async def test_caller_can_raise_the_response_limit() -> None:
    async with HttpStandIn() as server, http() as client:
        server.answer(Answer(200, b"x" * 1_000_000))
        reply = await client.request("POST", server.url, body=b"{}", max_response_bytes=2_000_000)
        assert isinstance(reply, HttpResponse)
        assert len(reply.body) == 1_000_000


async def test_compressed_response_is_not_inflated() -> None:
    async with HttpStandIn() as server, http() as client:
        server.answer(Answer(200, b"\x1f\x8b bomb", {"Content-Encoding": "gzip"}))
        reply = await post(client, server.url)
        assert isinstance(reply, HttpResponse)
        assert reply.body == b"\x1f\x8b bomb"
        assert server.requests[0].headers["Accept-Encoding"] == "identity"


async def test_requests_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with HttpStandIn() as server, http() as client:
        server.cut(Step.ANSWER, nth=1)
        reply = await client.request("POST", server.url, headers={"Authorization": "Bearer s3cret"}, body=b"s3cret")
        assert "s3cret" not in repr(reply)
        assert "s3cret" not in caplog.text


async def test_cancelled_request_leaves_nothing_behind() -> None:
    async with HttpStandIn() as server, http() as client:
        hold = server.hold(Step.ANSWER)
        sending = asyncio.ensure_future(post(client, server.url))
        await hold.reached.wait()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        hold.release()
        assert isinstance(await post(client, server.url), HttpResponse)
