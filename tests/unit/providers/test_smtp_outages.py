"""Outages of an SMTP server: refused connections, temporary rejections and half-open sockets."""

from mailwright.domain.results import ResultKind
from tests.standins.smtp_sink import SmtpSink, Step
from tests.unit.providers.smtp_builders import a_mail, impatient, smtp_to


async def test_refused_connection_is_a_deferral() -> None:
    async with SmtpSink() as sink, smtp_to(sink) as smtp:
        assert (await smtp.send(a_mail())).kind is ResultKind.SENT
        await sink.refuse_connections()
        result = await smtp.send(a_mail())
        assert (result.kind, result.is_deferral, result.blames_provider) == (ResultKind.RETRYABLE, True, True)
        await sink.recover()
        assert (await smtp.send(a_mail())).kind is ResultKind.SENT


async def test_server_that_never_greets_is_a_deferral() -> None:
    async with SmtpSink() as sink, smtp_to(sink, timeouts=impatient(greeting=0.05)) as smtp:
        sink.hang()
        result = await smtp.send(a_mail())
        assert (result.code, result.is_deferral, result.blames_provider) == ("SMTP_TIMEOUT", True, True)
        await sink.recover()
        assert (await smtp.send(a_mail())).kind is ResultKind.SENT


async def test_temporary_rejection_is_a_deferral_until_it_ends() -> None:
    async with SmtpSink() as sink, smtp_to(sink) as smtp:
        sink.answer(Step.RCPT, "451 4.7.1 try again later")
        results = [await smtp.send(a_mail()) for _ in range(3)]
        assert [(result.is_deferral, result.blames_provider) for result in results] == [(True, False)] * 3
        await sink.recover()
        assert (await smtp.send(a_mail())).kind is ResultKind.SENT
