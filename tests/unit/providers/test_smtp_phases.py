"""Interrupted SMTP sessions: retried before the last byte, in doubt after it."""

import asyncio

import pytest

from mailwright.domain.clock import ManualClock
from mailwright.domain.results import ErrorCategory, ResultKind
from tests.standins.smtp_sink import SmtpSink, Step
from tests.unit.providers.smtp_builders import CONTENT, READER, a_mail, impatient, smtp_to

pytestmark = pytest.mark.promise("provider-phase")

LARGE = b"Subject: Large\r\n\r\n" + (b"y" * 98 + b"\r\n") * 200_000

BEFORE_THE_LAST_BYTE = [Step.GREETING, Step.EHLO, Step.MAIL, Step.RCPT, Step.DATA]


@pytest.mark.parametrize("pipelining", [True, False], ids=["pipelined", "step by step"])
@pytest.mark.parametrize("step", BEFORE_THE_LAST_BYTE)
async def test_interruption_before_the_last_byte_is_retried(step: Step, pipelining: bool) -> None:
    async with SmtpSink(pipelining=pipelining) as sink, smtp_to(sink) as smtp:
        sink.cut(step, nth=1)
        result = await smtp.send(a_mail())
        assert (result.kind, result.code) == (ResultKind.RETRYABLE, "NETWORK_ERROR")
        assert (result.category, result.blames_provider) == (ErrorCategory.TRANSIENT, True)
        assert not sink.complete
        assert (await smtp.send(a_mail())).kind is ResultKind.SENT


@pytest.mark.parametrize("pipelining", [True, False], ids=["pipelined", "step by step"])
async def test_interruption_after_the_last_byte_is_in_doubt(pipelining: bool) -> None:
    async with SmtpSink(pipelining=pipelining) as sink, smtp_to(sink) as smtp:
        sink.cut(Step.DOT, nth=1)
        result = await smtp.send(a_mail())
        assert (result.kind, result.code) == (ResultKind.IN_DOUBT, "SMTP_NO_ANSWER")
        assert result.category is ErrorCategory.TIMEOUT
        assert len(sink.complete) == 1
        assert (await smtp.send(a_mail())).kind is ResultKind.SENT


async def test_partial_reply_is_not_a_reply() -> None:
    async with SmtpSink() as sink, smtp_to(sink) as smtp:
        sink.answer(Step.DOT, b"250 2.0.0 O")
        sink.cut(Step.ANSWERED)
        assert (await smtp.send(a_mail())).kind is ResultKind.IN_DOUBT


async def test_first_line_of_a_reply_is_not_a_reply() -> None:
    async with SmtpSink() as sink, smtp_to(sink) as smtp:
        sink.answer(Step.DOT, b"250-2.0.0 Ok\r\n")
        sink.cut(Step.ANSWERED)
        assert (await smtp.send(a_mail())).kind is ResultKind.IN_DOUBT


async def test_interruption_after_the_response_changes_nothing() -> None:
    async with SmtpSink() as sink, smtp_to(sink) as smtp:
        sink.cut(Step.ANSWERED)
        results = [await smtp.send(a_mail()) for _ in range(3)]
        assert [result.kind for result in results] == [ResultKind.SENT] * 3
        assert len(sink.messages) == 3


async def test_interruption_in_a_large_message_is_retried() -> None:
    async with SmtpSink() as sink, smtp_to(sink) as smtp:
        sink.cut(Step.BODY, nth=1)
        result = await smtp.send(a_mail(content=LARGE))
        assert (result.kind, result.code) == (ResultKind.RETRYABLE, "NETWORK_ERROR")
        assert (await smtp.send(a_mail(content=LARGE))).kind is ResultKind.SENT
        assert sink.messages[0].content == LARGE


async def test_rejection_during_the_content_is_received() -> None:
    async with SmtpSink() as sink, smtp_to(sink) as smtp:
        hold = sink.hold(Step.BODY)
        sending = asyncio.ensure_future(smtp.send(a_mail(content=LARGE)))
        await hold.reached.wait()
        (writer,) = sink.writers
        writer.write(b"552 5.3.4 enough\r\n")
        result = await sending
        hold.release()
    assert (result.kind, result.code) == (ResultKind.FAILED, "SMTP_MESSAGE_TOO_LARGE")
    assert not sink.complete


@pytest.mark.parametrize(
    "garbage", [b"hello\r\n", b"\x00\x01\r\n", b"250-a\r\n251 b\r\n", b"399 odd\r\n", b"9" * 9_000]
)
async def test_garbled_reply_to_the_content_is_in_doubt(garbage: bytes) -> None:
    async with SmtpSink() as sink, smtp_to(sink) as smtp:
        sink.answer(Step.DOT, garbage, nth=1)
        result = await smtp.send(a_mail())
        assert (result.kind, result.code) == (ResultKind.IN_DOUBT, "SMTP_GARBLED_ANSWER")
        assert (await smtp.send(a_mail())).kind is ResultKind.SENT


@pytest.mark.parametrize("step", BEFORE_THE_LAST_BYTE)
@pytest.mark.parametrize("garbage", [b"hello\r\n", b"250-a\r\n" * 200, b"x" * 100_000])
async def test_garbled_reply_before_the_content_is_retried(step: Step, garbage: bytes) -> None:
    async with SmtpSink() as sink, smtp_to(sink) as smtp:
        sink.answer(step, garbage, nth=1)
        result = await smtp.send(a_mail())
        assert (result.kind, result.code) == (ResultKind.RETRYABLE, "SMTP_UNKNOWN_REPLY")
        assert (await smtp.send(a_mail())).kind is ResultKind.SENT


@pytest.mark.parametrize(
    ("step", "shortened"),
    [
        (Step.GREETING, "greeting"),
        (Step.EHLO, "hello"),
        (Step.MAIL, "mail"),
        (Step.RCPT, "rcpt"),
        (Step.DATA, "data"),
    ],
)
async def test_silence_before_the_last_byte_is_retried(step: Step, shortened: str) -> None:
    async with SmtpSink() as sink, smtp_to(sink, timeouts=impatient(**{shortened: 0.05})) as smtp:
        sink.hold(step)
        result = await smtp.send(a_mail())
    assert (result.kind, result.code, result.category) == (ResultKind.RETRYABLE, "SMTP_TIMEOUT", ErrorCategory.TIMEOUT)
    assert result.blames_provider


async def test_silence_after_the_last_byte_is_in_doubt() -> None:
    async with SmtpSink() as sink, smtp_to(sink, timeouts=impatient(dot=0.05)) as smtp:
        sink.hold(Step.DOT)
        result = await smtp.send(a_mail())
    assert (result.kind, result.code, result.category) == (ResultKind.IN_DOUBT, "SMTP_NO_ANSWER", ErrorCategory.TIMEOUT)


async def test_server_that_stops_reading_causes_a_retry() -> None:
    async with SmtpSink() as sink, smtp_to(sink, timeouts=impatient(block=0.05)) as smtp:
        sink.hold(Step.BODY)
        result = await smtp.send(a_mail(content=LARGE))
    assert (result.kind, result.code) == (ResultKind.RETRYABLE, "SMTP_TIMEOUT")


async def test_trickling_bytes_do_not_extend_the_timeout() -> None:
    async with SmtpSink() as sink, smtp_to(sink, timeouts=impatient(mail=0.2)) as smtp:
        hold = sink.hold(Step.MAIL)
        sending = asyncio.ensure_future(smtp.send(a_mail()))
        await hold.reached.wait()
        while not sending.done():
            sink.writers[0].write(b"2")
            await asyncio.sleep(0.02)
        assert (await sending).code == "SMTP_TIMEOUT"


async def test_nothing_is_sent_after_the_lease_ends() -> None:
    clock = ManualClock()
    async with SmtpSink() as sink, smtp_to(sink, clock=clock) as smtp:
        result = await smtp.send(a_mail(send_before=clock.now()))
        assert (result.kind, result.code, result.category) == (
            ResultKind.RETRYABLE,
            "LOCK_EXPIRED",
            ErrorCategory.TRANSIENT,
        )
        assert "MAIL" not in sink.sessions[0].verbs
        assert (await smtp.send(a_mail(send_before=clock.now() + 1))).kind is ResultKind.SENT


@pytest.mark.parametrize("pipelining", [True, False], ids=["pipelined", "step by step"])
async def test_content_is_not_sent_after_the_lease_ends(pipelining: bool) -> None:
    clock = ManualClock()
    async with SmtpSink(pipelining=pipelining) as sink, smtp_to(sink, clock=clock) as smtp:
        sink.call(Step.DATA, lambda: clock.advance(2))
        result = await smtp.send(a_mail(send_before=clock.now() + 1))
        assert (result.kind, result.code) == (ResultKind.RETRYABLE, "LOCK_EXPIRED")
        assert not sink.complete
        assert (await smtp.send(a_mail())).kind is ResultKind.SENT


async def test_cancelled_message_is_not_sent() -> None:
    async with SmtpSink() as sink, smtp_to(sink) as smtp:
        hold = sink.hold(Step.DATA)
        sending = asyncio.ensure_future(smtp.send(a_mail()))
        await hold.reached.wait()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        hold.release()
        await sink.sessions[0].has_ended.wait()
        assert not sink.complete
        assert (await smtp.send(a_mail(READER, content=CONTENT))).kind is ResultKind.SENT
