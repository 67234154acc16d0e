"""The connection pool: opened on demand, limited, and closed completely."""

import asyncio
import socket

import pytest

from mailwright.domain.clock import SECOND
from mailwright.domain.results import ErrorCategory, ResultKind
from mailwright.providers.smtp import pipeline
from mailwright.providers.smtp.provider import Smtp
from mailwright.providers.smtp.url import parse_smtp_url
from tests.standins.smtp_sink import SmtpSink, Step
from tests.unit.providers.smtp_builders import a_mail, impatient, smtp_to


async def test_connection_is_reused() -> None:
    async with SmtpSink() as sink, smtp_to(sink) as smtp:
        for _ in range(5):
            await smtp.send(a_mail())
        assert len(sink.sessions) == 1


async def test_connections_are_opened_up_to_the_limit() -> None:
    async with SmtpSink(latency_seconds=0.001) as sink, smtp_to(sink, "?connections=4") as smtp:
        results = await asyncio.gather(*(smtp.send(a_mail()) for _ in range(100)))
        assert {result.kind for result in results} == {ResultKind.SENT}
        assert sink.most_connections == 4


async def test_connection_closes_after_its_message_limit() -> None:
    async with SmtpSink() as sink, smtp_to(sink, "?connections=1&messages=3") as smtp:
        results = await asyncio.gather(*(smtp.send(a_mail()) for _ in range(10)))
        assert {result.kind for result in results} == {ResultKind.SENT}
        assert [session.verbs.count("MAIL") for session in sink.sessions] == [3, 3, 3, 1]
        assert [session.verbs[-1] for session in sink.sessions[:3]] == ["QUIT"] * 3
        assert sink.most_connections == 1


async def test_idle_connection_closes_with_quit() -> None:
    async with SmtpSink() as sink, smtp_to(sink, timeouts=impatient(idle=0.02)) as smtp:
        await smtp.send(a_mail())
        await sink.sessions[0].has_ended.wait()
        assert sink.sessions[0].verbs[-1] == "QUIT"
        assert (await smtp.send(a_mail())).kind is ResultKind.SENT


@pytest.mark.parametrize("last_words", [b"421 4.4.2 idle too long\r\n", b""])
async def test_closed_idle_connection_loses_no_message(last_words: bytes) -> None:
    async with SmtpSink() as sink, smtp_to(sink) as smtp:
        await smtp.send(a_mail())
        sink.writers[0].write(last_words)
        sink.writers[0].close()
        await sink.sessions[0].has_ended.wait()
        assert (await smtp.send(a_mail())).kind is ResultKind.SENT


@pytest.mark.parametrize("answer", [None, "421 4.4.2 idle too long"])
async def test_stale_connection_counts_no_attempt(answer: str | None) -> None:
    async with SmtpSink() as sink, smtp_to(sink) as smtp:
        await smtp.send(a_mail())
        # The server closes at the moment when the next message begins.
        if answer is None:
            sink.cut(Step.MAIL, nth=1)
        else:
            sink.answer(Step.MAIL, answer, nth=1)
        assert (await smtp.send(a_mail())).kind is ResultKind.SENT
        assert len(sink.sessions) == 2


async def test_message_after_a_broken_one_uses_another_connection() -> None:
    async with SmtpSink() as sink, smtp_to(sink, "?connections=1") as smtp:
        sink.cut(Step.DOT, nth=1)
        first, second = await asyncio.gather(smtp.send(a_mail()), smtp.send(a_mail()))
        assert (first.kind, second.kind) == (ResultKind.IN_DOUBT, ResultKind.SENT)


async def test_server_that_always_disconnects_is_given_up() -> None:
    async with SmtpSink() as sink, smtp_to(sink, "?connections=2") as smtp:
        sink.cut(Step.MAIL)
        results = await asyncio.gather(*(smtp.send(a_mail()) for _ in range(20)))
        assert {result.code for result in results} == {"NETWORK_ERROR"}


async def test_refused_connection_ends_all_waiting_messages() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"smtp://127.0.0.1:{unused.getsockname()[1]}"
        async with smtp_to(url) as smtp:
            results = await asyncio.gather(*(smtp.send(a_mail()) for _ in range(50)))
    assert {(result.kind, result.code, result.blames_provider) for result in results} == {
        (ResultKind.RETRYABLE, "NETWORK_ERROR", True)
    }


async def test_rejecting_server_gets_one_connection_attempt() -> None:
    async with SmtpSink() as sink, smtp_to(sink) as smtp:
        sink.answer(Step.GREETING, "554 5.7.1 listed")
        results = await asyncio.gather(*(smtp.send(a_mail()) for _ in range(50)))
        assert {(result.code, result.category) for result in results} == {
            ("SMTP_ACCESS_REFUSED", ErrorCategory.CONFIGURATION)
        }
        assert len(sink.sessions) == 1


async def test_server_connection_limit_still_sends_everything() -> None:
    async with SmtpSink(latency_seconds=0.001) as sink, smtp_to(sink) as smtp:
        for refused in range(3, 50):
            sink.answer(Step.GREETING, "421 4.7.0 connection limit", nth=refused)
        results = await asyncio.gather(*(smtp.send(a_mail()) for _ in range(60)))
        assert {result.kind for result in results} == {ResultKind.SENT}


async def test_unknown_host_is_reported_as_result() -> None:
    async with smtp_to("smtp://" + "a" * 70 + ".invalid:25?tls=none") as smtp:
        result = await smtp.send(a_mail())
    assert (result.kind, result.code) == (ResultKind.RETRYABLE, "NETWORK_ERROR")


async def test_close_waits_for_messages_in_flight() -> None:
    async with SmtpSink() as sink:
        smtp = Smtp(parse_smtp_url(sink.url + "?connections=1"))
        hold = sink.hold(Step.DOT)
        sending = [asyncio.ensure_future(smtp.send(a_mail())) for _ in range(4)]
        await hold.reached.wait()
        closing = asyncio.ensure_future(smtp.close(grace=20 * SECOND))
        await asyncio.sleep(0)
        hold.release()
        await closing
        assert {(await one).kind for one in sending} == {ResultKind.SENT}
        assert sink.sessions[0].verbs[-1] == "QUIT"


async def test_unsent_messages_are_returned_after_the_grace() -> None:
    async with SmtpSink() as sink:
        smtp = Smtp(parse_smtp_url(sink.url + "?connections=1"))
        hold = sink.hold(Step.DOT)
        sending = [asyncio.ensure_future(smtp.send(a_mail())) for _ in range(3)]
        await hold.reached.wait()
        await smtp.close(grace=0)
        results = [await one for one in sending]
        assert [result.kind for result in results] == [
            ResultKind.IN_DOUBT,
            ResultKind.RETRYABLE,
            ResultKind.RETRYABLE,
        ]
        assert {result.code for result in results[1:]} == {"SHUTTING_DOWN"}


async def test_close_ends_a_connection_attempt() -> None:
    async with SmtpSink() as sink:
        smtp = Smtp(parse_smtp_url(sink.url))
        hold = sink.hold(Step.GREETING)
        sending = asyncio.ensure_future(smtp.send(a_mail()))
        await hold.reached.wait()
        await smtp.close(grace=0)
        assert (await sending).code == "SHUTTING_DOWN"


async def test_closed_provider_accepts_nothing() -> None:
    async with SmtpSink() as sink:
        smtp = Smtp(parse_smtp_url(sink.url))
        await smtp.close()
        assert (await smtp.send(a_mail())).code == "SHUTTING_DOWN"
        assert not sink.sessions
        await smtp.close()


async def test_capacity_grows_with_open_connections() -> None:
    async with SmtpSink() as sink, smtp_to(sink, "?connections=6") as smtp:
        assert smtp.capacity == 1  # A server that is down gets one message.
        grown: list[int] = []
        smtp.watch_capacity(lambda: grown.append(smtp.capacity))
        holds = [sink.hold(Step.DOT, nth=number) for number in range(1, 7)]
        sending = [smtp.send(a_mail()) for _ in range(6)]
        await asyncio.gather(*(hold.reached.wait() for hold in holds))  # Each message has its own connection.
        assert (grown[0], smtp.capacity) == (1 + 4, 6)
        for hold in holds:
            hold.release()
        await asyncio.gather(*sending)


async def test_more_connections_open_beyond_those_for_bulk() -> None:
    async with SmtpSink() as sink, smtp_to(sink) as smtp:
        holds = [sink.hold(Step.DOT, nth=number) for number in range(1, 41)]
        sending = [smtp.send(a_mail()) for _ in range(41)]
        await asyncio.gather(*(hold.reached.wait() for hold in holds))
        assert (smtp.capacity, smtp.bulk_capacity, sink.most_connections) == (40, 20, 40)
        for hold in holds:
            hold.release()
        assert {result.kind for result in await asyncio.gather(*sending)} == {ResultKind.SENT}


async def test_limit_of_connections_holds_for_all_messages() -> None:
    async with SmtpSink() as sink, smtp_to(sink, "?connections=3") as smtp:
        await asyncio.gather(*(smtp.send(a_mail()) for _ in range(20)))
        assert (smtp.capacity, smtp.bulk_capacity, sink.most_connections) == (2 * 3, 2 * 3, 3)


async def test_bulk_opens_no_connections_of_transactional_messages() -> None:
    async with SmtpSink() as sink, smtp_to(sink) as smtp:
        holds = [sink.hold(Step.DOT, nth=number) for number in range(1, 21)]
        bulk = [smtp.send(a_mail(is_bulk=True)) for _ in range(60)]
        await asyncio.gather(*(hold.reached.wait() for hold in holds))
        assert sink.most_connections == 20
        assert (await smtp.send(a_mail())).kind is ResultKind.SENT  # On a connection of its own.
        assert sink.most_connections == 21
        for hold in holds:
            hold.release()
        assert {result.kind for result in await asyncio.gather(*bulk)} == {ResultKind.SENT}
        assert sink.most_connections == 21


async def test_transactional_message_overtakes_waiting_bulk() -> None:
    async with SmtpSink() as sink, smtp_to(sink, "?connections=1") as smtp:
        hold = sink.hold(Step.MAIL, nth=1)
        bulk = [smtp.send(a_mail(is_bulk=True)) for _ in range(3)]
        await hold.reached.wait()
        urgent = smtp.send(a_mail("urgent@example.com"))
        hold.release()
        await asyncio.gather(urgent, *bulk)
        assert [message.recipients[0] for message in sink.messages].index("urgent@example.com") == 1


@pytest.mark.parametrize(
    ("pipelining", "quick_seconds", "places"), [(True, 60.0, 2), (True, -1.0, 1), (False, 60.0, 1)]
)
async def test_quick_connection_carries_two_messages(
    monkeypatch: pytest.MonkeyPatch, pipelining: bool, quick_seconds: float, places: int
) -> None:
    monkeypatch.setattr(pipeline, "QUICK_SECONDS", quick_seconds)
    async with SmtpSink(pipelining=pipelining) as sink, smtp_to(sink, "?connections=1") as smtp:
        assert smtp.capacity == 1
        await smtp.send(a_mail())
        assert (smtp.capacity, smtp.bulk_capacity) == (places, places)
        await asyncio.gather(smtp.send(a_mail()), smtp.send(a_mail()))
        assert sink.messages[1].commands_behind == (3 if pipelining else 0)  # The envelope of the third message.


async def test_last_message_of_a_connection_has_no_second() -> None:
    async with SmtpSink() as sink, smtp_to(sink, "?connections=1&messages=2") as smtp:
        await smtp.send(a_mail())
        assert smtp.capacity == 2
        await smtp.send(a_mail())
        assert smtp.capacity == 1


async def test_refused_connection_limits_the_capacity() -> None:
    async with SmtpSink() as sink, smtp_to(sink) as smtp:
        hold = sink.hold(Step.DOT, nth=1)
        sink.call(Step.GREETING, hold.release, nth=2)
        sink.answer(Step.GREETING, "421 4.7.0 connection limit", nth=2)
        results = await asyncio.gather(smtp.send(a_mail()), smtp.send(a_mail()))
        assert {result.kind for result in results} == {ResultKind.SENT}
        async with asyncio.timeout(10):
            while smtp.capacity > 2:  # One connection, which carries two messages.
                await asyncio.sleep(0)


async def test_message_does_not_wait_behind_a_slow_one() -> None:
    async with SmtpSink() as sink, smtp_to(sink, "?connections=2") as smtp:
        hold = sink.hold(Step.DOT, nth=1)
        slow = smtp.send(a_mail())
        await hold.reached.wait()
        assert (await smtp.send(a_mail())).kind is ResultKind.SENT
        hold.release()
        assert (await slow).kind is ResultKind.SENT


async def test_connection_that_took_a_message_by_itself_gets_no_other() -> None:
    async with SmtpSink() as sink, smtp_to(sink, "?connections=2") as smtp:
        first, greeting, second = (
            sink.hold(Step.DOT, nth=1),
            sink.hold(Step.GREETING, nth=2),
            sink.hold(Step.MAIL, nth=2),
        )
        sending = [smtp.send(a_mail())]
        await first.reached.wait()
        sending.append(smtp.send(a_mail()))  # Waits for the second connection, until the first is free.
        await greeting.reached.wait()
        first.release()
        await second.reached.wait()
        sending.extend(smtp.send(a_mail()) for _ in range(3))
        second.release()
        greeting.release()
        results = await asyncio.wait_for(asyncio.gather(*sending), 30)
        assert {result.kind for result in results} == {ResultKind.SENT}
        assert len(sink.messages) == len(sending)


async def test_only_four_connections_are_opened_at_once() -> None:
    async with SmtpSink() as sink, smtp_to(sink) as smtp:
        await smtp.send(a_mail())
        greetings = [sink.hold(Step.GREETING, nth=number) for number in range(1, 11)]
        sending = [smtp.send(a_mail()) for _ in range(11)]
        await asyncio.gather(*(hold.reached.wait() for hold in greetings[:4]))
        for _ in range(200):  # Others would arrive meanwhile.
            await asyncio.sleep(0)
        assert len(sink.writers) == 1 + 4
        for hold in greetings:
            hold.release()
        assert {result.kind for result in await asyncio.gather(*sending)} == {ResultKind.SENT}


async def test_transactional_message_waits_for_the_connection_that_is_opened() -> None:
    async with SmtpSink() as sink, smtp_to(sink, "?connections=2") as smtp:
        await smtp.send(a_mail())
        stuck, greeting = sink.hold(Step.DOT, nth=1), sink.hold(Step.GREETING, nth=1)
        bulk = [smtp.send(a_mail(is_bulk=True))]
        await stuck.reached.wait()
        bulk.append(smtp.send(a_mail(is_bulk=True)))
        await greeting.reached.wait()
        urgent = smtp.send(a_mail("urgent@example.com"))
        greeting.release()
        assert (await urgent).kind is ResultKind.SENT  # The server has not replied to the first newsletter.
        stuck.release()
        await asyncio.gather(*bulk)


async def test_bulk_leaves_connections_of_a_strict_limit_idle() -> None:
    async with SmtpSink() as sink, smtp_to(sink, "?connections=5") as smtp:
        await asyncio.gather(*(smtp.send(a_mail()) for _ in range(25)))
        holds = [sink.hold(Step.RCPT, recipient="reader@bulk.example") for _ in range(9)]
        bulk = [smtp.send(a_mail("reader@bulk.example", is_bulk=True)) for _ in range(9)]
        await asyncio.gather(*(hold.reached.wait() for hold in holds[:4]))
        assert (await smtp.send(a_mail())).kind is ResultKind.SENT
        for hold in holds:
            hold.release()
        assert {result.kind for result in await asyncio.gather(*bulk)} == {ResultKind.SENT}
        assert sink.most_connections == 5
