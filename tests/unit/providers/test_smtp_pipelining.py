"""Pipelining: each message gets its own replies, with many and with bad recipients."""

import asyncio

import pytest

from mailwright.domain.results import ResultKind, SendResult
from mailwright.providers.protocol import RetractedAcceptance
from tests.standins.smtp_sink import SmtpSink, Step
from tests.unit.providers.smtp_builders import CONTENT, READER, a_mail, smtp_to

ONE_CONNECTION = "?connections=1"
BOTH_ROADS = pytest.mark.parametrize("pipelining", [True, False], ids=["pipelined", "step by step"])

TO, CC, BCC = "to@example.com", "cc@example.net", "bcc@example.org"


def content(number: int) -> bytes:
    return b"Subject: %d\r\n\r\n%d\r\n" % (number, number)


def kinds(results: list[SendResult]) -> list[ResultKind]:
    return [result.kind for result in results]


@BOTH_ROADS
async def test_messages_on_one_connection_arrive_in_order(pipelining: bool) -> None:
    async with SmtpSink(pipelining=pipelining) as sink, smtp_to(sink, ONE_CONNECTION) as smtp:
        emails = [a_mail(f"reader{i}@example.com", content=content(i)) for i in range(100)]
        results = await asyncio.gather(*map(smtp.send, emails))
        assert kinds(results) == [ResultKind.SENT] * 100
        assert [result.provider_message_id for result in results] == [f"SINK{i + 1}" for i in range(100)]
        assert [(one.recipients, one.content) for one in sink.messages] == [
            (message.recipients, message.content) for message in emails
        ]
        assert (len(sink.sessions), sink.violations) == (1, [])


async def test_next_envelope_is_sent_with_the_current_content() -> None:
    async with SmtpSink() as sink, smtp_to(sink, ONE_CONNECTION) as smtp:
        await asyncio.gather(*(smtp.send(a_mail()) for _ in range(3)))
        assert [one.commands_behind for one in sink.messages] == [3, 3, 0], "MAIL, RCPT and DATA"
        assert sink.sessions[0].verbs == ["EHLO", *["MAIL", "RCPT", "DATA"] * 3]


async def test_nothing_is_sent_ahead_without_pipelining() -> None:
    async with SmtpSink(pipelining=False) as sink, smtp_to(sink, ONE_CONNECTION) as smtp:
        await asyncio.gather(*(smtp.send(a_mail(TO, CC)) for _ in range(5)))
        assert (len(sink.messages), sink.violations) == (5, [])


@BOTH_ROADS
async def test_bad_recipient_does_not_block_others(pipelining: bool) -> None:
    async with SmtpSink(pipelining=pipelining) as sink, smtp_to(sink, ONE_CONNECTION) as smtp:
        sink.answer(Step.RCPT, "550 5.1.1 unknown", recipient="bad@example.com")
        names = ["good", "bad", "good", "bad", "bad", "good"]
        results = await asyncio.gather(*(smtp.send(a_mail(f"{name}@example.com")) for name in names))
        assert kinds(results) == [ResultKind.SENT if name == "good" else ResultKind.FAILED for name in names]
        assert (len(sink.messages), len(sink.sessions), sink.violations) == (3, 1, [])


@BOTH_ROADS
@pytest.mark.parametrize("step", [Step.MAIL, Step.RCPT, Step.DATA, Step.DOT])
async def test_connection_continues_after_a_rejection(step: Step, pipelining: bool) -> None:
    async with SmtpSink(pipelining=pipelining) as sink, smtp_to(sink, ONE_CONNECTION) as smtp:
        sink.answer(step, "451 later", nth=2)
        results = await asyncio.gather(*(smtp.send(a_mail(content=content(i))) for i in range(4)))
        assert kinds(results) == [ResultKind.SENT, ResultKind.RETRYABLE, ResultKind.SENT, ResultKind.SENT]
        assert (len(sink.sessions), sink.violations) == (1, [])


async def test_accepted_data_without_recipient_ends_with_a_lone_dot() -> None:
    async with SmtpSink() as sink, smtp_to(sink, ONE_CONNECTION) as smtp:
        sink.answer(Step.RCPT, "550 5.1.1 unknown", recipient="bad@example.com")
        sink.answer(Step.DATA, "354 go on, all the same", nth=1)
        results = await asyncio.gather(smtp.send(a_mail("bad@example.com")), smtp.send(a_mail()))
        assert [result.code for result in results] == ["SMTP_RECIPIENT_REJECTED", None]
        assert "RSET" not in sink.sessions[0].verbs
        assert (len(sink.messages), len(sink.sessions), sink.violations) == (1, 1, [])


async def test_accepted_data_after_rejected_sender_never_gets_a_dot() -> None:
    async with SmtpSink() as sink, smtp_to(sink, ONE_CONNECTION) as smtp:
        # The server rejects MAIL and then continues as if it had accepted it.
        sink.answer(Step.MAIL, b"250 ok\r\n", nth=2)
        sink.answer(Step.MAIL, b"550 5.1.8 no\r\n250 ok\r\n354 go on\r\n", nth=1)
        result = await smtp.send(a_mail())
        assert (result.kind, result.code) == (ResultKind.FAILED, "SMTP_SENDER_REFUSED")
        await sink.sessions[0].has_ended.wait()
        assert not sink.complete


@BOTH_ROADS
async def test_all_recipients_get_the_message(pipelining: bool) -> None:
    async with SmtpSink(pipelining=pipelining) as sink, smtp_to(sink, ONE_CONNECTION) as smtp:
        results = await asyncio.gather(*(smtp.send(a_mail(TO, CC, BCC)) for _ in range(3)))
        assert kinds(results) == [ResultKind.SENT] * 3
        assert [one.recipients for one in sink.messages] == [(TO, CC, BCC)] * 3
        assert not sink.violations


@BOTH_ROADS
async def test_rejected_copy_is_reported_and_the_message_sent(pipelining: bool) -> None:
    async with SmtpSink(pipelining=pipelining) as sink, smtp_to(sink) as smtp:
        sink.answer(Step.RCPT, "550 5.1.1 unknown", recipient=CC)
        result = await smtp.send(a_mail(TO, CC, BCC))
        assert (result.kind, result.provider_message_id) == (ResultKind.SENT, "SINK1")
        assert result.message == "1 of 3 recipients rejected: c***@e***.net (550 5.1.1)"
        assert sink.messages[0].recipients == (TO, BCC)


@BOTH_ROADS
async def test_rejected_first_recipient_stops_the_message(pipelining: bool) -> None:
    async with SmtpSink(pipelining=pipelining) as sink, smtp_to(sink, ONE_CONNECTION) as smtp:
        sink.answer(Step.RCPT, "450 4.2.0 later", recipient=TO, nth=1)
        first, second = await asyncio.gather(smtp.send(a_mail(TO, CC)), smtp.send(a_mail(TO, CC)))
        assert (first.kind, first.original_code) == (ResultKind.RETRYABLE, "450 4.2.0")
        assert second.kind is ResultKind.SENT
        assert (len(sink.complete), len(sink.sessions), sink.violations) == (1, 1, [])


@BOTH_ROADS
@pytest.mark.parametrize(
    ("answers", "kind", "code"),
    [
        (("550 5.1.1 no", "550 5.7.1 no"), ResultKind.FAILED, "SMTP_RECIPIENT_REJECTED"),
        (("550 5.1.1 no", "450 4.2.0 later"), ResultKind.RETRYABLE, "SMTP_TEMPORARY_FAILURE"),
    ],
)
async def test_temporary_rejection_of_any_recipient_causes_a_retry(
    answers: tuple[str, str], kind: ResultKind, code: str, pipelining: bool
) -> None:
    async with SmtpSink(pipelining=pipelining) as sink, smtp_to(sink) as smtp:
        for address, answer in zip((TO, CC), answers, strict=True):
            sink.answer(Step.RCPT, answer, recipient=address)
        result = await smtp.send(a_mail(TO, CC))
        assert (result.kind, result.code) == (kind, code)
        assert not sink.violations


async def test_extra_reply_never_sends_the_wrong_content() -> None:
    async with SmtpSink() as sink, smtp_to(sink, ONE_CONNECTION) as smtp:
        sink.answer(Step.MAIL, b"250 ok\r\n250 ok, again\r\n", nth=1)
        first = await smtp.send(a_mail(content=content(1)))
        assert (first.kind, first.code) == (ResultKind.RETRYABLE, "SMTP_UNKNOWN_REPLY")
        assert not sink.complete
        assert (await smtp.send(a_mail(content=content(2)))).kind is ResultKind.SENT


async def test_unsolicited_reply_closes_an_idle_connection() -> None:
    async with SmtpSink() as sink, smtp_to(sink, ONE_CONNECTION) as smtp:
        sink.answer(Step.DOT, b"250 ok\r\n250 ok\r\n250 ok\r\n", nth=1)
        assert (await smtp.send(a_mail())).kind is ResultKind.SENT
        assert (await smtp.send(a_mail())).kind is ResultKind.SENT
        assert len(sink.sessions) == 2


async def test_acceptance_before_the_content_is_not_believed() -> None:
    async with SmtpSink() as sink, smtp_to(sink, ONE_CONNECTION) as smtp:
        sink.answer(Step.DATA, b"354 go on\r\n250 ok, queued\r\n", nth=1)
        result = await smtp.send(a_mail())
        assert (result.kind, result.definitely_not_sent) == (ResultKind.RETRYABLE, True)
        assert not sink.complete
        assert (await smtp.send(a_mail())).kind is ResultKind.SENT


async def test_acceptance_with_a_rejection_is_in_doubt() -> None:
    async with SmtpSink() as sink, smtp_to(sink, ONE_CONNECTION) as smtp:
        sink.answer(Step.DOT, b"250 ok\r\n554 5.7.1 rejected\r\n", nth=1)
        result = await smtp.send(a_mail())
        assert (result.kind, result.code) == (ResultKind.IN_DOUBT, "SMTP_GARBLED_ANSWER")
        assert (await smtp.send(a_mail())).kind is ResultKind.SENT


@pytest.mark.parametrize(
    ("stray", "code"),
    [
        ("554 5.7.1 rejected as spam", "SMTP_POLICY_REJECTED"),
        ("550 5.1.1 no such user", "SMTP_MESSAGE_REJECTED"),
        ("421 4.4.2 idle for too long", None),
        ("451 4.4.2 timeout", None),
        ("554 5.4.7 idle timeout, closing", None),
        ("250 still ok", None),
    ],
)
@pytest.mark.parametrize("at_quit", [False, True])
async def test_rejection_after_the_acceptance_is_a_retraction(stray: str, code: str | None, at_quit: bool) -> None:
    retractions: list[RetractedAcceptance] = []
    async with SmtpSink() as sink, smtp_to(sink, ONE_CONNECTION) as smtp:
        smtp.watch_retractions(retractions.append)
        if at_quit:
            sink.answer(Step.QUIT, f"{stray}\r\n221 bye\r\n".encode())
        assert (await smtp.send(a_mail())).kind is ResultKind.SENT
        if not at_quit:
            sink.writers[0].write(f"{stray}\r\n".encode())
            await sink.sessions[0].has_ended.wait()
            assert (await smtp.send(a_mail())).kind is ResultKind.SENT
    assert [each.rejection.code for each in retractions] == ([] if code is None else [code])
    assert all((each.outbox_id, each.recipient) == ("message-1", READER) for each in retractions)


async def test_rejection_without_a_message_retracts_nothing() -> None:
    retractions: list[RetractedAcceptance] = []
    async with SmtpSink() as sink, smtp_to(sink, ONE_CONNECTION) as smtp:
        smtp.watch_retractions(retractions.append)
        sink.answer(Step.DOT, "554 5.7.1 rejected", nth=1)
        assert (await smtp.send(a_mail())).kind is ResultKind.FAILED
        sink.writers[0].write(b"554 5.7.1 rejected\r\n")
        await sink.sessions[0].has_ended.wait()
    assert retractions == []


async def test_acceptance_with_a_goodbye_is_sent() -> None:
    async with SmtpSink() as sink, smtp_to(sink, ONE_CONNECTION) as smtp:
        sink.answer(Step.DOT, b"250 ok\r\n421 4.7.0 too many messages\r\n", nth=1)
        assert (await smtp.send(a_mail())).kind is ResultKind.SENT


async def test_mismatched_reply_puts_unanswered_content_in_doubt() -> None:
    async with SmtpSink() as sink, smtp_to(sink, ONE_CONNECTION) as smtp:
        sink.answer(Step.DOT, "354 go on", nth=1)
        first, second = await asyncio.gather(*(smtp.send(a_mail(content=content(i))) for i in range(2)))
        assert (first.kind, first.code) == (ResultKind.IN_DOUBT, "SMTP_GARBLED_ANSWER")
        assert second.kind is ResultKind.SENT
        assert [one.content for one in sink.messages] == [content(1)]


async def test_rejected_rset_moves_the_next_message_elsewhere() -> None:
    async with SmtpSink() as sink, smtp_to(sink, ONE_CONNECTION) as smtp:
        sink.answer(Step.RCPT, "550 5.1.1 unknown", nth=1)
        sink.answer(Step.RSET, "500 what?", nth=1)
        first, second = await asyncio.gather(smtp.send(a_mail()), smtp.send(a_mail()))
        assert (first.kind, second.kind) == (ResultKind.FAILED, ResultKind.SENT)
        assert len(sink.sessions) == 2


async def test_replies_in_single_bytes_are_parsed() -> None:
    async with SmtpSink(answers_in_single_bytes=True) as sink, smtp_to(sink) as smtp:
        results = await asyncio.gather(*(smtp.send(a_mail(content=CONTENT)) for _ in range(5)))
        assert kinds(results) == [ResultKind.SENT] * 5
