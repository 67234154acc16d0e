"""Our SMTP client and stand-in work with other implementations."""

import asyncio
import smtplib
import ssl
from email.message import EmailMessage

import pytest
from aiosmtpd.smtp import SMTP as AiosmtpdServer  # noqa: N811
from aiosmtpd.smtp import Envelope
from aiosmtpd.smtp import Session as AiosmtpdSession

from mailwright.domain.results import ResultKind
from tests.standins.smtp_sink import SinkTls, SmtpSink, Step, a_certificate
from tests.unit.providers.smtp_builders import CONTENT, READER, SENDER, a_mail, smtp_to


class TestSinkWithSmtplib:
    """The stand-in works with smtplib."""

    async def test_message_arrives_unchanged(self) -> None:
        message = EmailMessage()
        message["Subject"], message["From"], message["To"] = "Dots", SENDER, READER
        message.set_content(".\n..\n.x\n\nend\n")

        def send(port: int) -> None:
            with smtplib.SMTP("127.0.0.1", port) as client:
                client.send_message(message)
                client.send_message(message)

        async with SmtpSink() as sink:
            await asyncio.to_thread(send, sink.port)
        assert [one.recipients for one in sink.messages] == [(READER,)] * 2
        assert sink.messages[0].content.endswith(b"\r\n\r\n.\r\n..\r\n.x\r\n\r\nend\r\n")
        assert not sink.violations

    @pytest.mark.parametrize("mechanisms", [("PLAIN",), ("LOGIN",)])
    async def test_starttls_and_auth_work(self, mechanisms: tuple[str, ...]) -> None:
        def send(port: int) -> None:
            with smtplib.SMTP("localhost", port) as client:
                client.starttls(context=ssl.create_default_context(cafile=a_certificate().file))
                client.login("me", "secret")
                client.sendmail(SENDER, [READER], CONTENT)

        async with SmtpSink(tls=SinkTls.STARTTLS, users={"me": "secret"}, mechanisms=mechanisms) as sink:
            await asyncio.to_thread(send, sink.port)
        assert sink.messages[0].session.user == "me"
        assert sink.messages[0].session.is_encrypted
        assert not sink.violations

    async def test_scripted_failures_are_returned(self) -> None:
        def send(port: int) -> None:
            with smtplib.SMTP("127.0.0.1", port) as client:
                with pytest.raises(smtplib.SMTPRecipientsRefused):
                    client.sendmail(SENDER, ["bad@example.com"], CONTENT)
                with pytest.raises(smtplib.SMTPDataError):
                    client.sendmail(SENDER, [READER], CONTENT)
                client.sendmail(SENDER, [READER], CONTENT)
                with pytest.raises(smtplib.SMTPServerDisconnected):
                    client.sendmail(SENDER, [READER], CONTENT)

        async with SmtpSink() as sink:
            sink.answer(Step.RCPT, "550 5.1.1 unknown", recipient="bad@example.com")
            sink.answer(Step.DOT, "451 later", nth=1)
            sink.cut(Step.DOT, nth=3)
            await asyncio.to_thread(send, sink.port)
        assert (len(sink.messages), len(sink.complete)) == (1, 3)

    async def test_bare_line_feeds_and_missing_stuffing_are_detected(self) -> None:
        def send(port: int) -> None:
            with smtplib.SMTP("127.0.0.1", port) as client:
                client.ehlo()
                client.mail(SENDER)
                client.rcpt(READER)
                client.putcmd("data")
                client.getreply()
                client.send(b"one\ntwo\r\n.three\r\n.\r\n")
                client.getreply()

        async with SmtpSink() as sink:
            await asyncio.to_thread(send, sink.port)
        assert len(sink.violations) == 2


class Collector:
    def __init__(self) -> None:
        self.contents: list[bytes] = []

    async def handle_RCPT(  # noqa: N802
        self, _server: object, _session: AiosmtpdSession, envelope: Envelope, address: str, _options: list[str]
    ) -> str:
        if address.startswith("bad"):
            return "550 5.1.1 unknown"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _server: object, _session: AiosmtpdSession, envelope: Envelope) -> str:  # noqa: N802
        assert isinstance(envelope.original_content, bytes)
        self.contents.append(envelope.original_content)
        return "250 OK id=abc-123"


async def test_aiosmtpd_understands_our_client() -> None:
    collector = Collector()
    server = await asyncio.get_running_loop().create_server(lambda: AiosmtpdServer(collector), "127.0.0.1", 0)
    contents = [b"Subject: %d\r\n\r\n.\r\n..x\r\n" % number for number in range(20)]
    async with server, smtp_to(f"smtp://127.0.0.1:{server.sockets[0].getsockname()[1]}?connections=2") as smtp:
        results = await asyncio.gather(*(smtp.send(a_mail(content=content)) for content in contents))
        refused = await smtp.send(a_mail("bad@example.com"))
        after = await smtp.send(a_mail("reader@example.com", "bad@example.com"))
    assert {(result.kind, result.provider_message_id) for result in results} == {(ResultKind.SENT, "abc-123")}
    assert (refused.code, after.kind) == ("SMTP_RECIPIENT_REJECTED", ResultKind.SENT)
    assert sorted(collector.contents) == sorted([*contents, CONTENT])
