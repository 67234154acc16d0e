"""SendGrid's own SDK against Mailwright."""

import asyncio
import base64
from typing import Any

import pytest
from python_http_client.exceptions import BadRequestsError, ForbiddenError, NotFoundError, UnauthorizedError
from sendgrid import SendGridAPIClient
from sendgrid.helpers.mail import (
    Asm,
    Attachment,
    Bcc,
    Category,
    Cc,
    ClickTracking,
    Content,
    ContentId,
    CustomArg,
    Disposition,
    FileContent,
    FileName,
    FileType,
    From,
    GroupId,
    GroupsToDisplay,
    Header,
    MailSettings,
    Personalization,
    ReplyTo,
    SandBoxMode,
    SendAt,
    Substitution,
    To,
    TrackingSettings,
)
from sendgrid.helpers.mail.mail import Mail

from mailwright.access.roles import Scope
from mailwright.domain.clock import HOUR, ManualClock
from mailwright.web.api.dropin import requests as dropin_requests
from tests.api import socket_client
from tests.dropin import PNG, DropIn
from tests.engines import on_sqlite

pytestmark = pytest.mark.promise("drop-in-sdks")

LONG_TAG = "o" * 255


def an_email(**changes: Any) -> Mail:
    fields = {
        "from_email": From("shop@example.com", "Shop"),
        "to_emails": [("ada@example.com", "Ada")],
        "subject": "Your order",
        "plain_text_content": "It is on its way.",
        "html_content": "<p>It is on its way.</p>",
        **changes,
    }
    return Mail(**fields)


async def send(drop_in: DropIn, message: Mail | dict[str, Any], key: str | None = None) -> Any:
    client = SendGridAPIClient(key or drop_in.key, host=drop_in.url)
    return await asyncio.to_thread(client.send, message)


def file(name: str, kind: str, content: bytes, content_id: str | None = None) -> Attachment:
    encoded = FileContent(base64.b64encode(content).decode())
    inline = (Disposition("inline"), ContentId(content_id)) if content_id else (Disposition("attachment"),)
    return Attachment(encoded, FileName(name), FileType(kind), *inline)


async def test_email_to_one_recipient_is_one_message(drop_in: DropIn, clock: ManualClock) -> None:
    email = an_email()
    email.reply_to = ReplyTo("help@example.com", "Help")
    email.category = [Category("shop"), Category(LONG_TAG)]
    email.custom_arg = CustomArg("order", "7")
    email.header = [Header("X-Order", "7"), Header("List-Unsubscribe", "<https://shop.example/leave?a=1>")]
    email.send_at = SendAt((clock.now() + HOUR) // 1000)
    email.tracking_settings = TrackingSettings(ClickTracking(False, False))
    # The SDK reverses the order of categories, attachments and personalizations.
    email.attachment = [
        file("logo.png", "image/png", PNG, "logo"),
        file("bill.txt", 'text/plain; charset="utf-8"', b"7"),
    ]
    answer = await send(drop_in, email)
    [stored] = await drop_in.stored()
    assert (answer.status_code, answer.body) == (202, b"")
    assert answer.headers["X-Message-Id"] == stored.outbox_id
    assert (stored.to, stored.subject, stored.scheduled_at) == (
        "ada@example.com",
        "Your order",
        (clock.now() + HOUR) // 1000 * 1000,
    )
    assert stored.payload == {
        "to": "ada@example.com",
        "toName": "Ada",
        "from": "Shop <shop@example.com>",
        "replyTo": "Help <help@example.com>",
        "subject": "Your order",
        "text": "It is on its way.",
        "html": "<p>It is on its way.</p>",
        "headers": {"X-Order": "7", "List-Unsubscribe": "<https://shop.example/leave?a=1>"},
        "tags": [LONG_TAG, "shop"],
        "metadata": {"order": "7"},
        "tracking": "off",
        "attachments": [
            {"filename": "bill.txt", "contentType": 'text/plain; charset="utf-8"', "content": "Nw=="},
            {
                "filename": "logo.png",
                "contentType": "image/png",
                "content": base64.b64encode(PNG).decode(),
                "contentId": "logo",
            },
        ],
    }


async def test_recipients_of_one_email_see_each_other_except_bcc(drop_in: DropIn) -> None:
    email = an_email(to_emails=[To("ada@example.com", "Ada"), To("bob@example.com")])
    email.personalizations[0].add_email(Cc("carol@example.com", "Carol"))
    email.personalizations[0].add_email(Bcc("secret@example.com"))
    email.attachment = [file("logo.png", "image/png", PNG, "logo")]
    email.category = Category("orders")
    await send(drop_in, email)
    stored = await drop_in.stored()
    assert [each.to for each in stored] == [f"{name}@example.com" for name in ("ada", "bob", "carol", "secret")]
    assert len({each.content for each in stored}) == 1
    assert all(each.payload["tags"] == ["orders"] for each in stored)
    sent = stored[0].email
    assert (sent["To"], sent["Cc"]) == ("Ada <ada@example.com>, bob@example.com", "Carol <carol@example.com>")
    assert sent["From"] == "Shop <shop@example.com>"
    assert b"secret@example.com" not in (stored[0].content or b"")
    [image] = [part for part in sent.walk() if part.get_content_type() == "image/png"]
    assert (image["Content-ID"], image.get_content()) == ("<logo>", PNG)


async def test_each_personalization_is_its_own_email(drop_in: DropIn) -> None:
    email = an_email(to_emails=None, subject="Hello -name-", html_content="<p>-name- owes -sum-</p>")
    for name, total in (("Bob", "\\1"), ("Ada", "-name-")):
        person = Personalization()
        person.add_to(To(f"{name.lower()}@example.com"))
        person.add_substitution(Substitution("-name-", name))
        person.add_substitution(Substitution("-sum-", total))
        person.add_custom_arg(CustomArg("who", name))
        email.add_personalization(person)
    await send(drop_in, email)
    assert [(each.subject, each.payload["html"], each.payload["metadata"]) for each in await drop_in.stored()] == [
        ("Hello Ada", "<p>Ada owes -name-</p>", {"who": "Ada"}),
        ("Hello Bob", "<p>Bob owes \\1</p>", {"who": "Bob"}),
    ]


async def test_substitutions_of_a_request_are_limited_together(
    drop_in: DropIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dropin_requests, "MAX_SEARCHED", 3_000)
    to = [{"email": "ada@example.com"}]
    people = [{"to": to, "substitutions": {f"-{number}-": "Ada", "-sum-": "7"}} for number in range(3)]
    email = an_email(html_content="x" * 500).get()
    assert (await send(drop_in, {**email, "personalizations": people[:2]})).status_code == 202
    with pytest.raises(BadRequestsError) as refused:
        await send(drop_in, {**email, "personalizations": people})
    assert refused.value.to_dict["errors"][0]["field"] == "personalizations.2.substitutions"
    assert len(await drop_in.stored()) == 2
    # The same text and keys are searched once.
    assert (await send(drop_in, {**email, "personalizations": people[:1] * 9})).status_code == 202


async def test_template_of_mailwright_is_filled_with_dynamic_data(drop_in: DropIn) -> None:
    template = {"subject": "Hi {{ name }}", "html": "<p>{{ name }}</p>"}
    headers = {"Authorization": f"Bearer {drop_in.key}"}
    async with socket_client(drop_in.url, headers=headers) as client:
        assert (await client.put("/v1/templates/welcome", json=template)).is_success
    email = an_email(subject=None, plain_text_content=None, html_content=None)
    email.template_id = "welcome"
    email.dynamic_template_data = {"name": "Ada"}
    await send(drop_in, email)
    [stored] = await drop_in.stored()
    assert stored.payload["variables"] == {"name": "Ada"}
    email.template_id = "unknown"
    with pytest.raises(BadRequestsError) as refused:
        await send(drop_in, email)
    assert refused.value.to_dict["errors"][0]["field"] == "template_id"
    assert len(await drop_in.stored()) == 1


async def test_node_sdk_writes_its_own_content_id(drop_in: DropIn) -> None:
    image = {"content": "Nw==", "filename": "a.png", "type": "image/png", "disposition": "inline", "contentId": "a"}
    await send(drop_in, {**an_email().get(), "attachments": [image]})
    [stored] = await drop_in.stored()
    assert [each["contentId"] for each in stored.payload["attachments"]] == ["a"]


async def test_sandbox_checks_and_stores_nothing(drop_in: DropIn) -> None:
    email = an_email()
    email.mail_settings = MailSettings(sandbox_mode=SandBoxMode(True))
    assert (await send(drop_in, email)).status_code == 200
    email.header = Header("Bcc", "eve@example.com")
    with pytest.raises(BadRequestsError):
        await send(drop_in, email)
    assert await drop_in.is_empty()


async def test_calendar_and_amp_are_alternatives_of_the_email(drop_in: DropIn, clock: ManualClock) -> None:
    for people in (["ada@example.com"], ["bob@example.com", "carol@example.com"]):
        email = an_email(to_emails=people, subject=" ")
        email.add_content(
            Content("text/calendar; method=REQUEST; charset=UTF-8", "BEGIN:VCALENDAR\r\nEND:VCALENDAR\r\n")
        )
        email.add_content(Content("text/x-amp-html", "<html amp4email><p>Grüße</p></html>"))
        assert (await send(drop_in, email)).status_code == 202
    for sent in await drop_in.deliver(clock):
        assert (sent.get_content_type(), sent["Subject"]) == ("multipart/alternative", None)
        plain, amp, html, calendar = sent.iter_parts()
        types = [part.get_content_type() for part in (plain, amp, html, calendar)]
        assert types == ["text/plain", "text/x-amp-html", "text/html", "text/calendar"]
        assert calendar["Content-Type"].params == {"method": "REQUEST", "charset": "utf-8"}
        assert calendar.get_payload(decode=True) == b"BEGIN:VCALENDAR\r\nEND:VCALENDAR\r\n"
        assert amp.get_content().strip() == "<html amp4email><p>Grüße</p></html>"


@on_sqlite
@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"asm": {"group_id": 3}}, "asm.group_id"),
        ({"content": [{"type": "text/html", "value": "<%asm_preferences_raw_url%>"}]}, "content.0.value"),
        ({"asm": {"group_id": 3}, "content": [{"type": "text/html", "value": "<%asm_x%>"}]}, "content.0.value"),
        ({"reply_to": {"email": "a@example.com"}, "reply_to_list": [{"email": "b@example.com"}]}, "reply_to_list"),
        ({"headers": {"Message-ID": "<a@example.com>\r\nBcc: eve@example.com"}}, "headers.Message-ID"),
        ({"ip_pool_name": "fast"}, "ip_pool_name"),
        ({"mail_settings": {"footer": {"enable": True}}}, "mail_settings.footer"),
        ({"mail_settings": {"bypass_list_management": {"enable": True}}}, "mail_settings.bypass_list_management"),
        ({"colour": "red"}, "colour"),
        ({"subject": ""}, "subject"),
        ({"subject": "a\r\nBcc: eve@example.com"}, "subject"),
        ({"from": {"email": "nobody"}}, "from.email"),
        ({"personalizations": []}, "personalizations"),
        ({"personalizations": [{"to": [{"email": "ada"}]}]}, "personalizations.0.to.0.email"),
        ({"content": [{"type": "application/pdf", "value": "x"}]}, "content.0.type"),
        ({"content": [{"type": "text/calendar", "value": "x"}]}, "content"),
        ({"content": []}, "content"),
        ({"attachments": [{"content": "%%", "filename": "a"}]}, "attachments.0.content"),
        ({"attachments": [{"content": "Nw==", "filename": "a", "type": "text/plain;\r\nX: y"}]}, "attachments.0.type"),
        ({"headers": {"Bcc": "eve@example.com"}}, "headers"),
        ({"headers": {"List-Unsubscribe-Post": "é"}}, "headers"),
        ({"headers": {"Feedback-ID": "é"}}, "headers"),
        ({"categories": ["x" * 256]}, "categories.0"),
        ({"send_at": 5}, "send_at"),
        ({"send_at": 10**18}, "send_at"),
        (
            {"personalizations": [{"to": [{"email": f"{n}@example.com"} for n in range(1000)]}] * 3},
            "personalizations.to",
        ),
        (
            {"personalizations": [{"to": [{"email": "a@example.com"}], "substitutions": {"i": "x" * 500_000}}]},
            "personalizations.0.substitutions",
        ),
    ],
)
async def test_refused_fields_are_named_and_nothing_is_stored(
    drop_in: DropIn, change: dict[str, Any], field: str
) -> None:
    with pytest.raises(BadRequestsError) as refused:
        await send(drop_in, {**an_email().get(), **change})
    [error, *_] = refused.value.to_dict["errors"]
    assert error["field"] == field
    assert set(error) == {"message", "field", "help"}
    assert await drop_in.is_empty()


async def test_unsubscribe_group_is_a_list_with_its_links(drop_in: DropIn, clock: ManualClock) -> None:
    async with socket_client(drop_in.url, headers={"Authorization": f"Bearer {drop_in.key}"}) as client:
        await client.post("/v1/lists", json={"listKey": "42", "name": "News"})
    html = '<a href="<%asm_group_unsubscribe_raw_url%>">Leave</a> <a href="<%asm_preferences_url%>">Choose</a>'
    email = an_email(plain_text_content=None, html_content=html)
    email.asm = Asm(GroupId(42), GroupsToDisplay([42, 43]))
    await send(drop_in, email)
    [stored] = await drop_in.stored()
    assert stored.list_key == "42"
    [sent] = await drop_in.deliver(clock)
    leave = str(sent["List-Unsubscribe"]).strip("<>")
    body = sent.get_body(("html",))
    assert body is not None
    preferences = leave.replace("/unsubscribe", "/preferences")
    assert body.get_content().strip() == f'<a href="{leave}">Leave</a> <a href="{preferences}">Choose</a>'


async def test_key_is_required_with_the_scope_to_send(drop_in: DropIn) -> None:
    for key in ("SG.wrong", "mw_" + "x" * 43):
        with pytest.raises(UnauthorizedError) as refused:
            await send(drop_in, an_email(), key)
        assert "authorization grant is invalid" in refused.value.to_dict["errors"][0]["message"]
    with pytest.raises(ForbiddenError):
        await send(drop_in, an_email(), await drop_in.key_with(Scope.READ))
    assert await drop_in.is_empty()


async def test_same_idempotency_key_is_accepted_once(drop_in: DropIn) -> None:
    headers = {"Authorization": f"Bearer {drop_in.key}", "Idempotency-Key": "order-7"}
    body = an_email(to_emails=["ada@example.com", "bob@example.com"]).get()
    async with socket_client(drop_in.url, headers=headers) as client:
        answers = [await client.post("/v3/mail/send", json=body) for _ in range(2)]
        assert len({answer.headers["X-Message-Id"] for answer in answers}) == 1
        longer = {**body, "personalizations": [*body["personalizations"], {"to": [{"email": "carol@example.com"}]}]}
        conflict = await client.post("/v3/mail/send", json=longer)
    assert (conflict.status_code, "errors" in conflict.json()) == (409, True)
    assert [each.to for each in await drop_in.stored()] == ["ada@example.com", "bob@example.com"]


async def test_body_beyond_every_limit_gets_the_error_format(drop_in: DropIn) -> None:
    headers = {"Authorization": f"Bearer {drop_in.key}", "Content-Type": "application/json"}
    async with socket_client(drop_in.url, headers=headers, timeout=30) as client:
        for body in (b"x" * (17 * 1024**2), b"{", b"[]"):
            answer = await client.post("/v3/mail/send", content=body)
            assert answer.status_code == (413 if len(body) > 10 else 400)
            assert "errors" in answer.json()
    announced = f"Authorization: Bearer {drop_in.key}\r\nContent-Type: application/json\r\nContent-Length: {2**40}"
    reader, writer = await asyncio.open_connection(*drop_in.url.removeprefix("http://").split(":"))
    writer.write(f"POST /v3/mail/send HTTP/1.1\r\nHost: localhost\r\n{announced}\r\n\r\n".encode())
    writer.write_eof()
    answer = await asyncio.wait_for(reader.read(), 20)
    writer.close()
    assert (answer[9:12], b'{"errors":[{' in answer) == (b"413", True)
    assert await drop_in.is_empty()


async def test_unknown_route_has_the_error_format_of_sendgrid(drop_in: DropIn) -> None:
    client = SendGridAPIClient(drop_in.key, host=drop_in.url)
    with pytest.raises(NotFoundError) as refused:
        await asyncio.to_thread(client.client.suppression.blocks.get)
    [error] = refused.value.to_dict["errors"]
    assert "does not support this route of SendGrid" in error["message"]
