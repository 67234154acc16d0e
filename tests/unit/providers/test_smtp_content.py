"""Content arrives byte for byte, and ambiguous content is never sent."""

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mailwright.domain.results import ErrorCategory, ResultKind
from mailwright.providers.smtp.wire import dot_stuff, is_clean
from tests.examples import examples
from tests.standins.smtp_sink import SmtpSink, Step
from tests.unit.providers.smtp_builders import a_mail, smtp_to

LINES = st.lists(
    st.one_of(
        st.sampled_from([b"", b".", b"..", b". ", b".\t.", b"Subject: x", b"QUIT", b"MAIL FROM:<a@b.c>"]),
        st.binary(max_size=40).map(lambda raw: raw.translate(None, b"\r\n\0")),
    ),
    min_size=1,
    max_size=30,
)


@pytest.mark.promise("provider-content")
@settings(max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(contents=st.lists(LINES.map(lambda lines: b"\r\n".join((*lines, b""))), min_size=1, max_size=5))
def test_any_content_arrives_byte_for_byte(contents: list[bytes]) -> None:
    async def scenario() -> None:
        async with SmtpSink() as sink, smtp_to(sink, "?connections=1") as smtp:
            results = await asyncio.gather(*(smtp.send(a_mail(content=content)) for content in contents))
            assert {result.kind for result in results} == {ResultKind.SENT}
            assert [one.content for one in sink.messages] == contents
            assert not sink.violations

    asyncio.run(scenario())


@pytest.mark.promise("provider-content")
async def test_large_message_and_the_next_arrive_unchanged() -> None:
    large = b"Subject: Large\r\n\r\n" + b".line that begins with a dot\r\n" * 100_000
    async with SmtpSink() as sink, smtp_to(sink, "?connections=1") as smtp:
        await asyncio.gather(smtp.send(a_mail(content=large)), smtp.send(a_mail()), smtp.send(a_mail(content=large)))
        assert [len(one.content) for one in sink.messages] == [len(large), len(a_mail().content), len(large)]
        assert (sink.messages[0].content, sink.violations) == (large, [])


@pytest.mark.promise("provider-content")
async def test_missing_final_line_end_is_added() -> None:
    async with SmtpSink() as sink, smtp_to(sink) as smtp:
        await smtp.send(a_mail(content=b"Subject: x\r\n\r\nend"))
        assert sink.messages[0].content == b"Subject: x\r\n\r\nend\r\n"


@pytest.mark.promise("provider-content")
@pytest.mark.parametrize(
    "end_of_data",
    [b"\n.\n", b"\r.\r", b"\n.\r\n", b"\r\n.\n", b"\r\n.\r", b"\r.\r\n", b"\r\r\n.\r\r\n", b"\r\n\0.\r\n", b"\n..\n"],
)
async def test_content_cannot_hide_a_second_message(end_of_data: bytes) -> None:
    smuggled = b"MAIL FROM:<ceo@example.com>\r\nRCPT TO:<victim@example.com>\r\nDATA\r\nSubject: pay\r\n\r\n.\r\n"
    async with SmtpSink() as sink, smtp_to(sink) as smtp:
        result = await smtp.send(a_mail(content=b"Subject: x\r\n\r\nbody" + end_of_data + smuggled))
        assert (result.kind, result.code) == (ResultKind.FAILED, "INVALID_CONTENT")
        assert result.category is ErrorCategory.VALIDATION
        assert not sink.sessions, "nothing was sent, not even a connection was opened"


@pytest.mark.promise("provider-content")
@given(st.binary(max_size=200) | st.lists(st.sampled_from([b"\r", b"\n", b"\r\n", b".", b"a", b"\0"])).map(b"".join))
def test_only_crlf_line_ends_are_clean(content: bytes) -> None:
    without_pairs = content.replace(b"\r\n", b"")
    is_safe = bool(content) and not any(byte in without_pairs for byte in (b"\r", b"\n", b"\0"))
    assert is_clean(content) is is_safe
    if is_safe:
        assert (b"\r\n" + dot_stuff(content)).count(b"\r\n.\r\n") == 1, "the end of the content is where we put it"


@pytest.mark.promise("provider-content")
@pytest.mark.parametrize(
    "address",
    [
        "a@example.com>\r\nRCPT TO:<b@example.com",
        "a@example.com\nDATA",
        "a@example.com> SIZE=1",
        "a b@example.com",
        "<a@example.com",
        "a@example.com\0",
        "a\x7f@example.com",
        "a\u2028@example.com",
        "a\x85@example.com",
        "a\ud800@example.com",
        "a" * 250 + "@example.com",
    ],
)
async def test_address_cannot_add_a_command_or_recipient(address: str) -> None:
    async with SmtpSink() as sink, smtp_to(sink) as smtp:
        results = [
            await smtp.send(a_mail(address)),
            await smtp.send(a_mail("reader@example.com", address)),
            await smtp.send(a_mail(sender=address)),
        ]
        assert {(result.kind, result.code) for result in results} == {(ResultKind.FAILED, "INVALID_ADDRESS")}
        assert not sink.sessions


async def test_message_without_recipient_fails() -> None:
    async with SmtpSink() as sink, smtp_to(sink) as smtp:
        assert (await smtp.send(a_mail(""))).code == "INVALID_ADDRESS"


async def test_empty_bounce_sender_is_allowed() -> None:
    async with SmtpSink() as sink, smtp_to(sink) as smtp:
        assert (await smtp.send(a_mail(sender=""))).kind is ResultKind.SENT
        assert sink.messages[0].sender == ""


class TestExtensions:
    """Use only extensions that the server offers."""

    EIGHT_BIT = "Subject: x\r\n\r\nGrüße\r\n".encode()

    async def test_size_is_announced(self) -> None:
        async with SmtpSink() as sink, smtp_to(sink) as smtp:
            await smtp.send(a_mail())
            assert sink.messages[0].parameters == (f"SIZE={len(a_mail().content)}",)

    async def test_message_above_the_server_limit_is_not_sent(self) -> None:
        async with SmtpSink(size=1_000) as sink, smtp_to(sink) as smtp:
            fits, does_not_fit = a_mail(content=b"x" * 998 + b"\r\n"), a_mail(content=b"x" * 999 + b"\r\n")
            results = await asyncio.gather(smtp.send(does_not_fit), smtp.send(fits))
            assert [result.code for result in results] == ["SMTP_MESSAGE_TOO_LARGE", None]
            assert len(sink.complete) == 1

    @pytest.mark.parametrize("size", [None, 0])
    async def test_server_without_size_limit_gets_any_size(self, size: int | None) -> None:
        async with SmtpSink(size=size) as sink, smtp_to(sink) as smtp:
            assert (await smtp.send(a_mail())).kind is ResultKind.SENT

    async def test_eight_bit_content_is_announced(self) -> None:
        async with SmtpSink(size=None) as sink, smtp_to(sink) as smtp:
            await smtp.send(a_mail(content=self.EIGHT_BIT))
            assert (sink.messages[0].parameters, sink.messages[0].content) == (("BODY=8BITMIME",), self.EIGHT_BIT)

    async def test_eight_bit_content_needs_server_support(self) -> None:
        async with SmtpSink(eight_bit=False) as sink, smtp_to(sink) as smtp:
            result = await smtp.send(a_mail(content=self.EIGHT_BIT))
            assert (result.kind, result.code) == (ResultKind.FAILED, "SMTP_8BIT_UNSUPPORTED")
            assert not sink.complete

    async def test_non_ascii_address_is_announced(self) -> None:
        async with SmtpSink(size=None) as sink, smtp_to(sink) as smtp:
            await smtp.send(a_mail("grüße@example.com"))
            assert (sink.messages[0].recipients, sink.messages[0].parameters) == (
                ("grüße@example.com",),
                ("SMTPUTF8",),
            )

    async def test_non_ascii_address_needs_server_support(self) -> None:
        async with SmtpSink(smtputf8=False) as sink, smtp_to(sink) as smtp:
            result = await smtp.send(a_mail("grüße@example.com"))
            assert (result.kind, result.code) == (ResultKind.FAILED, "SMTP_UTF8_UNSUPPORTED")

    async def test_helo_only_server_gets_plain_smtp(self) -> None:
        async with SmtpSink(pipelining=False) as sink, smtp_to(sink) as smtp:
            sink.answer(Step.EHLO, "502 5.5.1 what?")
            assert (await smtp.send(a_mail())).kind is ResultKind.SENT
            assert sink.sessions[0].verbs[:2] == ["EHLO", "HELO"]
            assert sink.messages[0].parameters == ()
