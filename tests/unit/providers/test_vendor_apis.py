"""Providers with an HTTP API, and Brevo: each message leaves complete, and each response has its meaning."""

from base64 import b64decode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from mailwright.content.mime import EmailAttachment, Mailbox, UnsubscribeTargets
from mailwright.domain.clock import HOUR, SECOND, ManualClock
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.results import ErrorCategory, ResultKind
from mailwright.providers.api_provider import ApiProvider
from mailwright.providers.brevo.provider import Brevo
from mailwright.providers.http import HttpClient, HttpResponse
from mailwright.providers.mailgun.provider import Mailgun, MailgunSettings
from mailwright.providers.mailjet.provider import Mailjet, MailjetSettings
from mailwright.providers.postmark.provider import Postmark, PostmarkSettings
from mailwright.providers.resend.provider import Resend, ResendSettings
from mailwright.providers.smtp.url import parse_smtp_url
from mailwright.providers.sparkpost.provider import SparkPost, SparkPostSettings
from tests.ports import free_port
from tests.standins.http import Answer, Step, json_answer
from tests.standins.mailjet import SECRET_KEY, MailjetStandIn, error_of, failed
from tests.standins.smtp_sink import SmtpSink
from tests.standins.sparkpost import SparkPostStandIn
from tests.standins.vendors import DOMAIN, KEY, MailgunStandIn, PostmarkStandIn, ResendStandIn, VendorStandIn
from tests.unit.providers.sendgrid_builders import OUTBOX_ID, a_mail
from tests.unit.providers.smtp_builders import PATIENT

SENT, RETRIED, FAILED, DOUBT = ResultKind.SENT, ResultKind.RETRYABLE, ResultKind.FAILED, ResultKind.IN_DOUBT
PERMANENT, OURS, QUOTA = ErrorCategory.PERMANENT, ErrorCategory.CONFIGURATION, ErrorCategory.QUOTA
TRANSIENT = ErrorCategory.TRANSIENT

MAKE: dict[type[VendorStandIn], Callable[..., ApiProvider]] = {
    MailgunStandIn: lambda url, http, key, **options: Mailgun(
        MailgunSettings(key, DOMAIN, url, **options), http, ManualClock()
    ),
    ResendStandIn: lambda url, http, key, **options: Resend(ResendSettings(key, url, **options), http, ManualClock()),
    PostmarkStandIn: lambda url, http, key, **options: Postmark(
        PostmarkSettings(key, "outbound", url, **options), http, ManualClock()
    ),
    SparkPostStandIn: lambda url, http, key, **options: SparkPost(
        SparkPostSettings(key, url, **options), http, ManualClock()
    ),
    MailjetStandIn: lambda url, http, key, **options: Mailjet(
        MailjetSettings(key, SECRET_KEY, url, **options), http, ManualClock()
    ),
}
EVERY = pytest.mark.parametrize("stand_in", MAKE, ids=lambda each: each.name)


@asynccontextmanager
async def a_provider(
    place: VendorStandIn | str, kind: type[VendorStandIn] | None = None, key: str = KEY, **options: Any
) -> AsyncIterator[ApiProvider]:
    url = place if isinstance(place, str) else place.url
    http = HttpClient()
    try:
        yield MAKE[kind or type(place)](url, http, key, **options)  # type: ignore[index]
    finally:
        await http.close()


def a_full_mail() -> OutgoingMessage:
    return a_mail(
        "hidden@example.com",
        subject="Grüße",
        html='<p>Jäne</p><img src="cid:logo">',
        text="Jäne",
        cc=(Mailbox("copy@example.com", "Copy, Carbon"),),
        reply_to=(Mailbox("answers@example.com"),),
        unsubscribe=UnsubscribeTargets("https://mail.example.com/u?t=1", "mailto:leave@example.com"),
        headers={"X-Campaign": "spring"},
        attachments=(
            EmailAttachment("bill.pdf", "application/pdf", b"%PDF"),
            EmailAttachment("logo.png", "image/png", b"PNG", content_id="logo"),
        ),
    )


LIST_HEADERS = {
    "List-Unsubscribe": "<https://mail.example.com/u?t=1>, <mailto:leave@example.com>",
    "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
    "X-Campaign": "spring",
    "Message-ID": "<0190-1@example.com>",
}


@pytest.mark.promise("provider-content")
async def test_mailgun_gets_the_exact_bytes() -> None:
    message = a_full_mail()
    async with MailgunStandIn() as server, a_provider(server) as mailgun:
        result = await mailgun.send(message)
        assert (result.kind, result.provider_message_id) == (SENT, f"{server.message_ids[0]}@{DOMAIN}")
        [taken] = server.messages
        assert taken["message"] == message.content
        assert taken["to"] == ["jane@example.org", "copy@example.com", "hidden@example.com"]
        assert taken["v:mailwright_message"] == [OUTBOX_ID]
        assert taken["o:tracking"] == taken["o:tracking-clicks"] == taken["o:tracking-opens"] == ["no"]
        assert not server.violations


@pytest.mark.promise("provider-content")
async def test_resend_gets_every_field_once() -> None:
    async with ResendStandIn() as server, a_provider(server) as resend:
        for _ in range(2):
            result = await resend.send(a_full_mail())
            assert (result.kind, result.provider_message_id) == (SENT, server.message_ids[0])
        [taken] = server.messages  # The second request had the same idempotency key.
    assert taken["from"] == "Example News <news@example.com>"
    assert (taken["to"], taken["cc"]) == (["Jane Doe <jane@example.org>"], ['"Copy, Carbon" <copy@example.com>'])
    assert (taken["bcc"], taken["reply_to"]) == (["hidden@example.com"], ["answers@example.com"])
    assert (taken["subject"], taken["text"]) == ("Grüße", "Jäne")
    assert taken["html"].startswith("<p>Jäne</p>")
    assert taken["headers"].items() >= LIST_HEADERS.items()
    assert taken["tags"] == [{"name": "mailwright_message", "value": OUTBOX_ID}]
    bill, logo = sorted(taken["attachments"], key=lambda each: str(each["filename"]))
    assert (bill["filename"], b64decode(bill["content"]), "content_id" in bill) == ("bill.pdf", b"%PDF", False)
    assert (logo["content_type"], logo["content_id"]) == ("image/png", "logo")


@pytest.mark.promise("provider-content")
async def test_postmark_gets_every_field() -> None:
    async with PostmarkStandIn() as server, a_provider(server) as postmark:
        result = await postmark.send(a_full_mail())
        assert (result.kind, result.provider_message_id) == (SENT, server.message_ids[0])
        [taken] = server.messages
    assert (taken["From"], taken["To"]) == ("Example News <news@example.com>", "Jane Doe <jane@example.org>")
    assert (taken["Cc"], taken["Bcc"]) == ('"Copy, Carbon" <copy@example.com>', "hidden@example.com")
    assert (taken["TrackOpens"], taken["TrackLinks"], taken["MessageStream"]) == (False, "None", "outbound")
    assert taken["Metadata"] == {"mailwright_message": OUTBOX_ID}
    headers = {each["Name"]: each["Value"] for each in taken["Headers"]}
    assert headers.items() >= {**LIST_HEADERS, "X-PM-KeepID": "true"}.items()
    bill, logo = sorted(taken["Attachments"], key=lambda each: str(each["Name"]))
    assert (b64decode(bill["Content"]), "ContentID" in bill, logo["ContentID"]) == (b"%PDF", False, "cid:logo")


@pytest.mark.promise("provider-content")
async def test_sparkpost_gets_every_field() -> None:
    async with SparkPostStandIn() as server, a_provider(server, subaccount="42") as sparkpost:
        result = await sparkpost.send(a_full_mail())
        assert (result.kind, result.provider_message_id) == (SENT, server.message_ids[0])
        [taken] = server.messages
    content = taken["content"]
    assert content["from"] == {"email": "news@example.com", "name": "Example News"}
    assert (content["subject"], content["text"], content["reply_to"]) == ("Grüße", "Jäne", "answers@example.com")
    to = "Jane Doe <jane@example.org>"
    everybody = ("jane@example.org", "copy@example.com", "hidden@example.com")
    assert taken["recipients"] == [{"address": {"email": each, "header_to": to}} for each in everybody]
    assert content["headers"].items() >= {**LIST_HEADERS, "CC": '"Copy, Carbon" <copy@example.com>'}.items()
    assert taken["options"] == {
        "open_tracking": False,
        "click_tracking": False,
        "transactional": True,
        "sandbox": False,
    }
    assert (taken["metadata"], taken["subaccount"]) == ({"mailwright_message": OUTBOX_ID}, "42")
    [bill], [logo] = content["attachments"], content["inline_images"]
    assert (bill["name"], b64decode(bill["data"])) == ("bill.pdf", b"%PDF")
    assert (logo["name"], logo["type"]) == ("logo", "image/png")


@pytest.mark.parametrize(
    "text", ["{{name}}", "{{{name}}}", "@media{a{b:c}}", "{}}", "{{}", "}{{", "{ {", "{{{{{", "{{if x}}"]
)
async def test_sparkpost_replaces_no_brackets_of_the_message(text: str) -> None:
    async with SparkPostStandIn() as server, a_provider(server) as sparkpost:
        message = a_mail(subject=text, text=text, html=f"<p>{text}</p>", headers={"X-Test": text})
        assert (await sparkpost.send(message)).kind is SENT
        [taken] = server.messages
    content = taken["content"]
    assert (content["subject"], content["text"].strip(), content["headers"]["X-Test"]) == (text, text, text)
    assert f"<p>{text}</p>" in content["html"]


async def test_sparkpost_names_rejected_recipients() -> None:
    async with SparkPostStandIn() as server, a_provider(server) as sparkpost:
        results = {"total_rejected_recipients": 1, "total_accepted_recipients": 0, "id": "11668787484950529"}
        server.answer(json_answer(200, {"results": results}), times=1)
        result = await sparkpost.send(a_mail())
        assert (result.kind, result.code) == (FAILED, "SPARKPOST_RECIPIENT_REJECTED")
        assert result.definitely_not_sent
        results = {"total_rejected_recipients": 1, "total_accepted_recipients": 1, "id": "11668787484950530"}
        server.answer(json_answer(200, {"errors": [{"code": "2000"}], "results": results}), times=1)
        assert (await sparkpost.send(a_mail("hidden@example.com"))).kind is SENT


@pytest.mark.promise("provider-content")
async def test_mailjet_gets_every_field() -> None:
    async with MailjetStandIn() as server, a_provider(server) as mailjet:
        result = await mailjet.send(replace(a_full_mail(), dedupe_key="order-1"))
        assert (result.kind, result.provider_message_id) == (SENT, server.message_ids[0])
        [taken] = server.messages
    assert taken["From"] == {"Email": "news@example.com", "Name": "Example News"}
    assert taken["To"] == [{"Email": "jane@example.org", "Name": "Jane Doe"}]
    assert taken["Cc"] == [{"Email": "copy@example.com", "Name": "Copy, Carbon"}]
    assert (taken["Bcc"], taken["ReplyTo"]) == ([{"Email": "hidden@example.com"}], {"Email": "answers@example.com"})
    assert (taken["Subject"], taken["TextPart"]) == ("Grüße", "Jäne")
    assert taken["HTMLPart"].startswith("<p>Jäne</p>")
    kept = {name: value for name, value in LIST_HEADERS.items() if name != "Message-ID"}
    assert taken["Headers"].items() >= kept.items()
    assert (taken["TrackOpens"], taken["TrackClicks"], taken["TemplateLanguage"]) == ("disabled", "disabled", False)
    assert (taken["CustomID"], taken["EventPayload"]) == (OUTBOX_ID, '{"dedupe_key":"order-1"}')
    [bill], [logo] = taken["Attachments"], taken["InlinedAttachments"]
    assert (bill["Filename"], b64decode(bill["Base64Content"])) == ("bill.pdf", b"%PDF")
    assert (logo["ContentID"], logo["ContentType"]) == ("logo", "image/png")


async def test_mailjet_drops_headers_that_it_would_refuse() -> None:
    content = (
        b"From: a@example.com\r\nTo: jane@example.org\r\nSubject: Hi\r\nSender: b@example.com\r\nX-Mailer: m\r\n"
        b"List-Id: <news.example.com>\r\nX-MJ-CustomID: 7\r\nX-Own: kept\r\n\r\nHello\r\n"
    )
    message = OutgoingMessage(OUTBOX_ID, "bounces@example.com", ("jane@example.org",), content)
    async with MailjetStandIn() as server, a_provider(server) as mailjet:
        assert (await mailjet.send(message)).kind is SENT
        assert server.messages[0]["Headers"] == {"X-Own": "kept"}


async def test_mailjet_refuses_a_message_in_a_successful_response() -> None:
    unexpected = (DOUBT, "MAILJET_UNEXPECTED_ANSWER", False)
    async with MailjetStandIn() as server, a_provider(server) as mailjet:
        for answered, expected in (
            ({"Messages": [failed(403, "send-0008: not authorized")]}, (FAILED, "MAILJET_SENDER_REFUSED", True)),
            ({"Messages": [failed(500, "mj-9999: broken")]}, unexpected),
            (
                {"Messages": [{"Status": "success", "To": [{"MessageID": 0}]}]},
                unexpected,
            ),
            ({"Messages": []}, unexpected),
        ):
            server.answer(json_answer(200, answered), times=1)
            result = await mailjet.send(a_mail())
            assert (result.kind, result.code, result.definitely_not_sent) == expected
        server.answer(json_answer(400, error_of(400, "mj-0002: Malformed JSON")), times=1)
        assert (await mailjet.send(a_mail())).code == "MAILJET_BAD_REQUEST"


@pytest.mark.promise("provider-content")
async def test_brevo_gets_the_bytes_and_our_id() -> None:
    message = a_full_mail()
    async with SmtpSink() as sink:
        brevo = Brevo(parse_smtp_url(sink.url), clock=ManualClock(), timeouts=PATIENT, hostname="client.test")
        try:
            result = await brevo.send(message)
            assert (result.kind, result.provider, brevo.reports_events) == (SENT, "brevo", True)
            assert sink.messages[0].content == f"X-Mailin-custom: {OUTBOX_ID}\r\n".encode() + message.content
            assert (await brevo.check()).is_ok
        finally:
            await brevo.close(SECOND)


@EVERY
async def test_raw_email_is_sent_too(stand_in: type[VendorStandIn]) -> None:
    content = b"From: a@example.com\r\nTo: Jane <jane@example.org>\r\nSubject: Hi\r\n\r\nHello\r\n"
    message = OutgoingMessage(OUTBOX_ID, "bounces@example.com", ("jane@example.org",), content)
    async with stand_in() as server, a_provider(server) as provider:
        assert (await provider.send(message)).kind is SENT
        assert len(server.messages) == 1


@pytest.mark.parametrize("stand_in", [ResendStandIn, PostmarkStandIn, SparkPostStandIn, MailjetStandIn])
async def test_signed_email_is_refused_where_it_would_break(stand_in: type[VendorStandIn]) -> None:
    content = b'From: a@example.com\r\nContent-Type: multipart/signed; boundary="x"\r\n\r\n--x--\r\n'
    message = OutgoingMessage(OUTBOX_ID, "bounces@example.com", ("jane@example.org",), content)
    async with stand_in() as server, a_provider(server) as provider:
        result = await provider.send(message)
        assert (result.kind, result.code, server.begun) == (FAILED, "INVALID_CONTENT", [])


COMMON = [
    (400, "bad field", FAILED, "BAD_REQUEST", PERMANENT),
    (401, "no such key", FAILED, "UNAUTHORIZED", OURS),
    (404, "not found", FAILED, "NOT_FOUND", OURS),
    (413, "too large", FAILED, "TOO_LARGE", PERMANENT),
    (429, "slow down", RETRIED, "RATE_LIMIT", QUOTA),
    (500, "oops", RETRIED, "SERVER_ERROR", TRANSIENT),
    (502, "bad gateway", DOUBT, "NO_ANSWER", ErrorCategory.TIMEOUT),
    (503, "maintenance", RETRIED, "SERVICE_UNAVAILABLE", TRANSIENT),
    (418, "teapot", RETRIED, "UNKNOWN_ANSWER", TRANSIENT),
    (520, "proxy", DOUBT, "UNKNOWN_ANSWER", TRANSIENT),
]
TABLE: list[tuple[type[VendorStandIn], int, str, ResultKind, str, ErrorCategory]] = [
    *((stand_in, *row) for stand_in in MAKE for row in COMMON),
    (MailgunStandIn, 400, "'from' parameter is not a valid address", FAILED, "SENDER_REFUSED", OURS),
    (MailgunStandIn, 402, "payment required", RETRIED, "LIMIT_EXCEEDED", QUOTA),
    (MailgunStandIn, 403, "Domain is not allowed to send: hourly limit reached", RETRIED, "LIMIT_EXCEEDED", QUOTA),
    (MailgunStandIn, 403, "Domain is not allowed to send: activate it", FAILED, "FORBIDDEN", OURS),
    (ResendStandIn, 403, "invalid_api_key: API key is invalid", FAILED, "UNAUTHORIZED", OURS),
    (ResendStandIn, 403, "validation_error: The domain is not verified", FAILED, "SENDER_REFUSED", OURS),
    (ResendStandIn, 409, "concurrent_idempotent_requests: wait", RETRIED, "IN_PROGRESS", TRANSIENT),
    (ResendStandIn, 409, "invalid_idempotent_request: other body", DOUBT, "ALREADY_RECEIVED", TRANSIENT),
    (ResendStandIn, 422, "invalid_from_address: x", FAILED, "SENDER_REFUSED", OURS),
    (ResendStandIn, 422, "missing_required_field: to", FAILED, "BAD_REQUEST", PERMANENT),
    (ResendStandIn, 429, "daily_quota_exceeded: you reached it", RETRIED, "QUOTA_EXCEEDED", QUOTA),
    (ResendStandIn, 451, "security_error: not sent", FAILED, "SECURITY_ERROR", PERMANENT),
    (PostmarkStandIn, 422, "300: Invalid email request", FAILED, "BAD_REQUEST", PERMANENT),
    (PostmarkStandIn, 422, "400: The sender signature is not defined", FAILED, "SENDER_REFUSED", OURS),
    (PostmarkStandIn, 422, "405: Not allowed to send", RETRIED, "CREDITS_EXCEEDED", QUOTA),
    (PostmarkStandIn, 422, "406: Found inactive addresses", FAILED, "INACTIVE_RECIPIENT", PERMANENT),
    (PostmarkStandIn, 422, "412: Your account is pending approval", FAILED, "ACCOUNT_NOT_ALLOWED", OURS),
    (PostmarkStandIn, 422, "1235: The stream does not exist", FAILED, "STREAM_REFUSED", OURS),
    (SparkPostStandIn, 400, "7001: Invalid domain", FAILED, "SENDER_REFUSED", OURS),
    (SparkPostStandIn, 400, "7000: Sending domain blacklisted", FAILED, "SENDER_REFUSED", OURS),
    (SparkPostStandIn, 400, "1901: Message failed to generate", FAILED, "BAD_REQUEST", PERMANENT),
    (SparkPostStandIn, 400, "1902: recipient address suppressed", FAILED, "RECIPIENT_REJECTED", PERMANENT),
    (SparkPostStandIn, 400, "5002: No valid recipients in list", FAILED, "RECIPIENT_REJECTED", PERMANENT),
    (SparkPostStandIn, 400, "1910: Message generation not configured", FAILED, "NOT_FOUND", OURS),
    (SparkPostStandIn, 400, "2001: Invalid transmission id", FAILED, "BAD_REQUEST", PERMANENT),
    (SparkPostStandIn, 403, "1100: permission denied", FAILED, "FORBIDDEN", OURS),
    (SparkPostStandIn, 406, "1800: header value not acceptable", FAILED, "BAD_REQUEST", PERMANENT),
    (SparkPostStandIn, 420, "2101: Exceed Sending Limit (hourly)", RETRIED, "LIMIT_EXCEEDED", QUOTA),
    (SparkPostStandIn, 420, "2102: Exceed Sending Limit (daily)", RETRIED, "LIMIT_EXCEEDED", QUOTA),
    (SparkPostStandIn, 420, "2103: Exceed Sending Limit (sandbox)", FAILED, "SANDBOX_LIMIT", OURS),
    (SparkPostStandIn, 422, "1300: invalid data format/type", FAILED, "BAD_REQUEST", PERMANENT),
    (SparkPostStandIn, 422, "1603: Subresource not found", FAILED, "NOT_FOUND", OURS),
    (MailjetStandIn, 400, "mj-0011: payload too large", FAILED, "TOO_LARGE", PERMANENT),
    (MailjetStandIn, 400, "mj-0013: invalid email address", FAILED, "BAD_REQUEST", PERMANENT),
    (MailjetStandIn, 400, "send-0011: forbidden header", FAILED, "BAD_REQUEST", PERMANENT),
    (MailjetStandIn, 400, "send-0015: too many recipients", FAILED, "BAD_REQUEST", PERMANENT),
    (MailjetStandIn, 401, "mj-0001: API key suspended", FAILED, "ACCOUNT_SUSPENDED", OURS),
    (MailjetStandIn, 401, "mj-0015: invalid credentials", FAILED, "UNAUTHORIZED", OURS),
    (MailjetStandIn, 403, "send-0006: no permission for a Sender", FAILED, "SENDER_REFUSED", OURS),
    (MailjetStandIn, 403, "send-0008: not an authorized sender", FAILED, "SENDER_REFUSED", OURS),
    (MailjetStandIn, 403, "mj-0999: blocked", FAILED, "FORBIDDEN", OURS),
    (SparkPostStandIn, 503, "1900: generation not available", RETRIED, "SERVICE_UNAVAILABLE", TRANSIENT),
]


@pytest.mark.promise("provider-unknown")
async def test_each_response_has_its_meaning() -> None:
    for stand_in in MAKE:
        async with stand_in() as server, a_provider(server) as provider:
            for kind, status, words, result_kind, code, category in TABLE:
                if kind is not stand_in:
                    continue
                server.answer(server.refusal(status, words), times=1)
                result = await provider.send(a_mail())
                expected = (result_kind, f"{server.name.upper()}_{code}", category, str(status))
                assert (result.kind, result.code, result.category, result.original_code) == expected, words
                assert result.definitely_not_sent is (
                    status < 500 and code not in ("UNKNOWN_ANSWER", "IN_PROGRESS") and result_kind is not DOUBT
                )
                assert result.blames_provider is (category is OURS or not result.definitely_not_sent)


@EVERY
def test_every_status_has_a_meaning(stand_in: type[VendorStandIn]) -> None:
    provider = MAKE[stand_in]("https://api.example.com", HttpClient(), KEY)
    for status in range(100, 1_000):
        result = provider.interpret_response(HttpResponse(status, [], b"<p>?</p>"))
        assert result.kind is not SENT
        assert (result.kind is DOUBT) == (status // 100 == 2 or (status >= 500 and status not in (500, 503)))
        assert result.code
        assert result.message


@EVERY
async def test_pause_is_the_one_requested(stand_in: type[VendorStandIn]) -> None:
    async with stand_in() as server, a_provider(server) as provider:
        for header, pause in (("7", 7 * SECOND), ("999999", HOUR), ("soon", None)):
            server.answer(server.refusal(429, "slow down", Retry_After=header), times=1)
            assert (await provider.send(a_mail())).retry_after == pause


@pytest.mark.parametrize(
    ("stand_in", "status", "words"),
    [
        (ResendStandIn, 422, "invalid_from_address: x"),
        (PostmarkStandIn, 422, "400: x"),
        (SparkPostStandIn, 400, "7001: x"),
        (MailjetStandIn, 403, "send-0008: x"),
    ],
)
async def test_from_chosen_by_a_request_fails_only_that_message(
    stand_in: type[VendorStandIn], status: int, words: str
) -> None:
    async with stand_in() as server, a_provider(server) as provider:
        server.answer(server.refusal(status, words))
        result = await provider.send(replace(a_mail(), uses_default_from=False))
        assert (result.kind, result.category, result.blames_provider) == (FAILED, PERMANENT, False)


@EVERY
@pytest.mark.promise("provider-phase")
async def test_doubt_begins_with_the_last_byte(stand_in: type[VendorStandIn]) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    async with a_provider(url, stand_in) as provider:
        result = await provider.send(a_mail())
        assert (result.kind, result.code, result.definitely_not_sent) == (RETRIED, "NETWORK_ERROR", True)
    async with stand_in() as server, a_provider(server) as provider:
        server.cut(Step.ANSWER, nth=1)
        result = await provider.send(a_mail())
        assert (result.kind, result.code) == (DOUBT, f"{server.name.upper()}_NO_ANSWER")
        result = await provider.send(a_mail(send_before=0))
        assert (result.kind, result.code) == (RETRIED, "LOCK_EXPIRED")
        server.answer(Answer(200), times=1)
        result = await provider.send(a_mail())
        assert (result.kind, result.code) == (DOUBT, f"{server.name.upper()}_UNEXPECTED_ANSWER")


@EVERY
async def test_check_names_the_cause_and_sends_nothing(stand_in: type[VendorStandIn]) -> None:
    async with stand_in() as server:
        async with a_provider(server) as provider:
            found = await provider.check()
            assert found.is_ok, found
        async with a_provider(server, key="wrong") as provider:
            found = await provider.check()
            assert (found.is_ok, found.code) == (False, f"{server.name.upper()}_UNAUTHORIZED")
            assert "wrong" not in found.summary
        assert server.messages == []
        url = server.url
    async with a_provider(url, stand_in) as provider:
        assert (await provider.check()).code == "NETWORK_ERROR"


@pytest.mark.parametrize(
    "make",
    [
        lambda: MailgunSettings("key", "not a domain"),
        lambda: MailgunSettings("two words", DOMAIN),
        lambda: MailgunSettings("key", DOMAIN, "http://api.example.com"),
        lambda: ResendSettings(""),
        lambda: ResendSettings("key", "http://api.example.com"),
        lambda: PostmarkSettings("key", "not/a/stream"),
        lambda: PostmarkSettings("ключ"),
        lambda: SparkPostSettings("key", "http://api.example.com"),
        lambda: SparkPostSettings("key", subaccount="forty-two"),
        lambda: MailjetSettings("key", "two words"),
        lambda: MailjetSettings("key:with-colon", "secret"),
        lambda: MailjetSettings("key", "secret", "http://api.example.com"),
    ],
)
def test_impossible_settings_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigurationInvalid):
        make()
