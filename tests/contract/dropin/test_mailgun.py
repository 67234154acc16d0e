"""Mailgun's own SDK against Mailwright, and requests as Mailgun's documentation shows them."""

import asyncio
import base64
import json
from datetime import UTC, datetime
from email.utils import format_datetime, formatdate
from typing import Any

import pytest
import requests
from mailgun.client import Client

from mailwright.access.roles import Scope
from mailwright.audience import lists
from mailwright.domain.clock import HOUR, ManualClock
from tests.api import socket_client
from tests.dropin import PNG, DropIn
from tests.engines import on_sqlite

pytestmark = pytest.mark.promise("drop-in-sdks")

Files = list[tuple[str, tuple[str, bytes, str]]]


def an_email(**changes: Any) -> dict[str, Any]:
    email = {
        "from": "Shop <shop@example.com>",
        "to": "Ada <ada@example.com>",
        "subject": "Your order",
        "html": "<p>It is on its way.</p>",
        **changes,
    }
    return {name: value for name, value in email.items() if value is not None}


async def send(drop_in: DropIn, email: dict[str, Any], files: Files | None = None, key: str | None = None) -> Any:
    def work() -> requests.Response:
        with Client(auth=("api", key or drop_in.key), api_url=drop_in.url) as client:
            return client.messages.create(data=email, files=files, domain="example.com")

    return await asyncio.to_thread(work)


async def post(drop_in: DropIn, email: dict[str, Any], files: Files | None = None) -> requests.Response:
    """Send as Mailgun's documentation shows it; without files, the form is urlencoded."""
    url, auth = f"{drop_in.url}/v3/example.com/messages", ("api", drop_in.key)
    return await asyncio.to_thread(lambda: requests.post(url, auth=auth, data=email, files=files, timeout=30))


async def test_email_with_all_fields_is_one_message(drop_in: DropIn, clock: ManualClock) -> None:
    later = (clock.now() + HOUR) / 1000
    email = an_email(
        **{
            "text": "It is on its way.",
            "h:Reply-To": "help@example.com",
            "h:X-Order": "7",
            "h:X-Mailgun-Variables": '{"shop": "7"}',
            "v:order": "7",
            "o:tag": ["orders", "shop"],
            "o:tracking": "no",
            "o:dkim": "yes",
            "o:deliverytime": formatdate(later),
        }
    )
    files: Files = [
        ("attachment", ("bill.pdf", b"%PDF", "application/pdf")),
        ("inline", ("logo.png", PNG, "image/png")),
    ]
    answer = await send(drop_in, email, files)
    [stored] = await drop_in.stored()
    assert answer.status_code == 200, answer.text
    assert answer.json() == {"id": f"<{stored.outbox_id}@example.com>", "message": "Queued. Thank you."}
    assert stored.scheduled_at == (clock.now() + HOUR) // 1000 * 1000
    assert stored.payload == {
        "to": "ada@example.com",
        "toName": "Ada",
        "from": "Shop <shop@example.com>",
        "replyTo": "help@example.com",
        "subject": "Your order",
        "text": "It is on its way.",
        "html": "<p>It is on its way.</p>",
        "headers": {"X-Order": "7"},
        "tags": ["orders", "shop"],
        "metadata": {"shop": "7", "order": "7"},
        "tracking": "off",
        "attachments": [
            {"filename": "bill.pdf", "contentType": "application/pdf", "content": base64.b64encode(b"%PDF").decode()},
            {
                "filename": "logo.png",
                "contentType": "image/png",
                "content": base64.b64encode(PNG).decode(),
                "contentId": "logo.png",
            },
        ],
    }


async def test_sender_amp_and_missing_subject_are_kept(drop_in: DropIn, clock: ManualClock) -> None:
    email = an_email(subject=None, **{"h:Sender": "Office <office@example.com>", "amp-html": "<html amp4email></html>"})
    for change in ({}, {"to": ["bob@example.com", "carol@example.com"]}):
        assert (await send(drop_in, {**email, **change})).status_code == 200
    key = {"Authorization": f"Bearer {drop_in.key}"}
    async with socket_client(drop_in.url, headers=key) as client:
        await client.put("/v1/templates/welcome", json={"subject": "Hi", "html": "<p>Hi</p>"})
    template = {"html": None, "amp-html": None, "template": "welcome", "to": "dan@example.com"}
    assert (await send(drop_in, {**email, **template})).status_code == 200
    sent = await drop_in.deliver(clock)
    assert [each["Subject"] for each in sent] == [None, None, None, "Hi"]
    assert {each["Sender"] for each in sent} == {"Office <office@example.com>"}
    for each in sent[:3]:
        kinds = [part.get_content_type() for part in each.iter_parts()]
        assert kinds == ["text/plain", "text/x-amp-html", "text/html"]


async def test_several_recipients_share_one_email_and_its_id(drop_in: DropIn) -> None:
    to = ["ada@example.com", '"Ross, Bob" <bob@example.com>, carol@example.com']
    answer = await post(drop_in, an_email(to=to, cc="dan@example.com", bcc="secret@example.com"))
    stored = await drop_in.stored()
    assert [each.to for each in stored] == [f"{name}@example.com" for name in ("ada", "bob", "carol", "dan", "secret")]
    assert stored[0].email["Message-ID"] == answer.json()["id"]
    assert stored[0].email["To"] == 'ada@example.com, "Ross, Bob" <bob@example.com>, carol@example.com'


async def test_recipient_variables_make_an_email_for_each_recipient(drop_in: DropIn) -> None:
    variables = {"ada@example.com": {"first": "Ada", "id": 1}, "Bob@example.com": {"first": "%recipient.id%", "id": 2}}
    email = an_email(
        **{
            "to": ["ada@example.com", "bob@example.com", "carol@example.com"],
            "subject": "Hi %recipient.first%",
            "html": "<p>%recipient.id% %recipient%</p>",
            "h:X-Id": "%recipient.id%",
            "v:id": "%recipient.id%",
            "recipient-variables": json.dumps(variables),
        }
    )
    assert (await send(drop_in, email)).status_code == 200
    assert [(each.to, each.payload["html"], each.content) for each in await drop_in.stored()] == [
        ("ada@example.com", "<p>1 ada@example.com</p>", None),
        ("bob@example.com", "<p>2 bob@example.com</p>", None),
        ("carol@example.com", "<p>%recipient.id% carol@example.com</p>", None),
    ]
    subjects = [each.subject for each in await drop_in.stored()]
    assert subjects == ["Hi Ada", "Hi %recipient.id%", "Hi %recipient.first%"]
    stored = [each.payload for each in await drop_in.stored()]
    ids = [(payload["headers"]["X-Id"], payload["metadata"]["id"]) for payload in stored]
    assert ids == [("1", "1"), ("2", "2"), ("%recipient.id%", "%recipient.id%")]


async def test_repeated_address_with_variables_gets_one_email(drop_in: DropIn) -> None:
    to = "ada@example.com, Ada <ADA@example.com>, bob@example.com"
    variables = json.dumps({"ada@example.com": {"id": 1}})
    assert (await send(drop_in, an_email(to=to, **{"recipient-variables": variables}))).status_code == 200
    assert [each.to for each in await drop_in.stored()] == ["ada@example.com", "bob@example.com"]


async def send_mime(drop_in: DropIn, content: bytes, **fields: Any) -> Any:
    def work() -> requests.Response:
        with Client(auth=("api", drop_in.key), api_url=drop_in.url) as client:
            files = {"message": ("message.mime", content)}
            return client.mimemessage.create(data=fields, files=files, domain="example.com")

    return await asyncio.to_thread(work)


async def test_raw_email_keeps_its_bytes_and_options(drop_in: DropIn, clock: ManualClock) -> None:
    later = datetime.fromtimestamp((clock.now() + HOUR) / 1000, UTC)
    content = (
        b"From: Shop <shop@example.com>\r\nTo: all@example.com\r\nSubject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\n"
        b"Message-ID: <7@example.com>\r\nDate: Mon, 16 Nov 2026 10:00:00 +0000\r\n\r\n.dot\r\n"
    )
    options = {"o:tag": ["a", "b"], "v:order": "7", "o:deliverytime": format_datetime(later), "o:tracking": "no"}
    answer = await send_mime(drop_in, content, to=["ada@example.com", "Bob <bob@example.com>"], **options)
    assert (answer.status_code, answer.json()["id"]) == (200, "<7@example.com>")
    stored = await drop_in.stored()
    assert [each.to for each in stored] == ["ada@example.com", "bob@example.com"]
    assert {each.content for each in stored} == {content}
    assert stored[0].payload["tags"] == ["a", "b"]
    assert stored[0].payload["metadata"] == {"order": "7"}
    assert stored[0].scheduled_at == clock.now() + HOUR


async def test_raw_email_gets_the_message_id_of_the_response(drop_in: DropIn) -> None:
    content = "From: shop@example.com\nSubject: Hi\n\nHi\n"
    answers = [await send_mime(drop_in, content.encode(), to="ada@example.com")]
    url, auth = f"{drop_in.url}/v3/example.com/messages.mime", ("api", drop_in.key)
    form = {"to": "ada@example.com", "message": content}  # Mailgun's SDK for Node.js sends a text.
    answers.append(await asyncio.to_thread(lambda: requests.post(url, auth=auth, data=form, timeout=30)))
    found = [each.email["Message-ID"] for each in await drop_in.stored()]
    assert found == [answer.json()["id"] for answer in answers]


async def test_unsubscribe_variables_of_raw_email_are_never_sent(drop_in: DropIn) -> None:
    header = b"From: a@example.com\r\nList-Unsubscribe: <%tag_unsubscribe_url%>\r\n\r\nHi\r\n"
    encoded = b"From: a@example.com\r\nContent-Transfer-Encoding: base64\r\n\r\nJXVuc3Vic2NyaWJlX3VybCU=\r\n"
    fields = {"to": "ada@example.com", "o:tag": "news"}
    for content in (header, encoded):
        refused = await send_mime(drop_in, content, **fields)
        assert (refused.status_code, refused.json()["message"].partition(" ")[0]) == (400, "o:tag")
    await lists.create(drop_in.engine.database, drop_in.engine.clock, 1, "news", actor="test")
    refused = await send_mime(drop_in, encoded, **fields)
    assert "message parameter contains %unsubscribe_url%" in refused.json()["message"]
    assert (await send_mime(drop_in, header, **fields)).status_code == 200
    [stored] = await drop_in.stored()
    assert (stored.list_key, stored.email["List-Unsubscribe"]) == ("news", None)


@on_sqlite
@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"to": ""}, "to"),
        ({"to": "ada"}, "to"),
        ({"subject": "Hi"}, "subject"),
        ({"h:X-Order": "7"}, "h:X-Order"),
        ({"o:tag": "a,b"}, "o:tag"),
        ({"o:tracking": "yes"}, "o:tracking"),
        ({"o:testmode": "yes"}, "o:testmode"),
        ({"o:deliverytime": "Fri, 15 Jan 1999 08:00:00 +0000"}, "o:deliverytime"),
        ({"content": b"no headers"}, "message"),
        ({"content": b"From: a@example.com\r\n\r\n\0\r\n"}, "message"),
    ],
)
async def test_refused_raw_email_names_the_field(drop_in: DropIn, change: dict[str, Any], field: str) -> None:
    fields = {"content": b"From: shop@example.com\r\n\r\nHi\r\n", "to": "ada@example.com", **change}
    answer = await send_mime(drop_in, fields.pop("content"), **fields)
    assert (answer.status_code, answer.json()["message"].partition(" ")[0]) == (400, field)
    assert await drop_in.is_empty()


async def test_test_mode_checks_and_stores_nothing(drop_in: DropIn) -> None:
    assert (await send(drop_in, an_email(**{"o:testmode": "yes"}))).status_code == 200
    assert (await send(drop_in, an_email(**{"o:testmode": "true", "to": "ada"}))).status_code == 400
    assert await drop_in.is_empty()


@on_sqlite
@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"from": None}, "from"),
        ({"to": None}, "to"),
        ({"to": "ada"}, "to"),
        ({"html": None}, "html"),
        ({"amp-html": "<html amp>", "html": None, "template": "welcome"}, "amp-html"),
        ({"o:require-tls": "yes"}, "o:require-tls"),
        ({"o:sending-ip": "192.0.2.1"}, "o:sending-ip"),
        ({"o:tracking": "maybe"}, "o:tracking"),
        ({"o:deliverytime": "tomorrow"}, "o:deliverytime"),
        ({"o:deliverytime": "Fri, 15 Jan 1999 08:00:00 +0000"}, "o:deliverytime"),
        ({"h:Bcc": "eve@example.com"}, "h"),
        ({"subject": ["one", "two"]}, "subject"),
        ({"recipient-variables": "["}, "recipient-variables"),
        ({"recipient-variables": '{"ada@example.com": 1}'}, "recipient-variables"),
        ({"recipient-variables": "{}", "cc": "bob@example.com"}, "recipient-variables"),
        ({"template": "none", "html": None}, "template"),
        ({"attachment": "text"}, "attachment"),
    ],
)
async def test_refused_fields_are_named_and_nothing_is_stored(
    drop_in: DropIn, change: dict[str, Any], field: str
) -> None:
    answer = await post(drop_in, an_email(**change))
    assert (answer.status_code, set(answer.json())) == (400, {"message"})
    assert answer.json()["message"].startswith(f"{field} parameter ")
    assert await drop_in.is_empty()


async def test_malformed_and_large_forms_are_refused(drop_in: DropIn) -> None:
    url, auth = f"{drop_in.url}/v3/example.com/messages", ("api", drop_in.key)
    many: Files = [("attachment", (f"{number}.txt", b"x", "text/plain")) for number in range(25)]
    answers = [
        await post(drop_in, an_email(), [("attachment", ("large", bytes(17 * 1024**2), "text/plain"))]),
        await post(drop_in, an_email(), [("attachment", ("large", bytes(11 * 1024**2), "text/plain"))]),
        await post(drop_in, an_email(), many),
        await post(drop_in, an_email(html="x" * (3 * 1024**2)), [("other", ("a", b"x", "text/plain"))]),
    ]
    for kind, body in (("multipart/form-data", b"x"), ("multipart/form-data; boundary=x", b"--y"), ("text/csv", b"")):
        headers = {"Content-Type": kind}
        answers.append(await asyncio.to_thread(requests.post, url, auth=auth, data=body, headers=headers, timeout=30))
    assert [answer.status_code for answer in answers] == [413, 400, 400, 400, 400, 400, 400]
    assert all(set(answer.json()) == {"message"} for answer in answers)
    assert await drop_in.is_empty()


async def test_key_is_required_with_the_scope_to_send(drop_in: DropIn) -> None:
    assert (await send(drop_in, an_email(), key="key-wrong")).status_code == 401
    assert (await send(drop_in, an_email(), key=await drop_in.key_with(Scope.READ))).status_code == 403
    url = f"{drop_in.url}/v3/example.com/messages"
    for header in ("", "Basic !", "Bearer " + drop_in.key, "Basic " + base64.b64encode(b"\xff:x").decode()):
        headers = {"Authorization": header}
        answer = await asyncio.to_thread(requests.post, url, data=an_email(), headers=headers, timeout=30)
        assert (answer.status_code, answer.json()) == (401, {"message": "Invalid private key"})
    assert await drop_in.is_empty()


async def test_unknown_route_has_the_error_format_of_mailgun(drop_in: DropIn) -> None:
    def work() -> requests.Response:
        with Client(auth=("api", drop_in.key), api_url=drop_in.url) as client:
            return client.routes.get(domain="example.com")

    answer = await asyncio.to_thread(work)
    assert answer.status_code == 404
    assert "does not support this route of Mailgun" in answer.json()["message"]


GHOST = {
    "to": "ada@example.com",
    "html": '<p>News</p><p><a href="%recipient.unsubscribe_url%">Leave</a> <a href="%tag_unsubscribe_url%">Or</a></p>',
    "text": "News",
    "recipient-variables": '{"ada@example.com": {"unsubscribe_url": "https://blog.example/leave"}}',
    "h:List-Unsubscribe": "<%recipient.unsubscribe_url%>, <%tag_unsubscribe_email%>",
    "h:List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
    "h:Auto-Submitted": "auto-generated",
    "o:tag": ["bulk-email", "blog"],
    "o:tracking-opens": "yes",
}


async def test_newsletter_of_ghost_is_bulk_email_of_its_list(drop_in: DropIn) -> None:
    refused = await post(drop_in, an_email(**GHOST))
    assert refused.status_code == 400
    assert "o:tag parameter must contain the key of a list" in refused.json()["message"]
    await lists.create(drop_in.engine.database, drop_in.engine.clock, 1, "bulk-email", actor="test")
    assert (await post(drop_in, an_email(**GHOST))).status_code == 200
    [stored] = await drop_in.stored()
    assert stored.list_key == "bulk-email"
    assert "%tag_unsubscribe" not in str(stored.payload)
    assert "List-Unsubscribe" not in stored.payload.get("headers", {})


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"h:List-Id": "News <news.example.com>"}, "news"),
        ({"h:list-id": "<NEWS>"}, "news"),
        ({"o:tag": ["receipt", "news"], "h:List-Unsubscribe": "<https://a.example/>"}, "news"),
        ({"o:tag": ["receipt", "news"], "text": "%unsubscribe_url%"}, "news"),
        ({"o:tag": ["receipt", "news"]}, None),
        ({"h:List-Id": "<other.example.com>"}, "h:List-Id parameter"),
        ({"o:tag": ["news", "offers"], "text": "%unsubscribe_url%"}, "names several lists, news, offers"),
        ({"text": "%unsubscribe_url%"}, "o:tag parameter must contain the key of a list"),
    ],
)
async def test_list_is_named_by_header_or_tag(drop_in: DropIn, fields: dict[str, Any], expected: str | None) -> None:
    for key in ("news", "offers"):
        await lists.create(drop_in.engine.database, drop_in.engine.clock, 1, key, actor="test")
    answer = await post(drop_in, an_email(**fields))
    stored = await drop_in.stored()
    if expected in ("news", None):
        assert answer.status_code == 200, answer.text
        assert [each.list_key for each in stored] == [expected]
    else:
        assert answer.status_code == 400
        assert expected in answer.json()["message"]
        assert stored == []


@pytest.mark.parametrize("stated", ["", "application/octet-stream"])
async def test_type_of_a_file_without_type_follows_from_its_name(drop_in: DropIn, stated: str) -> None:
    names = ("bill.pdf", "unknown.xyzq", "c.tar.gz", "C.TGZ", "data.csv.bz2", "log.xz", "logo.svgz", "dump.gz", "old.Z")
    files: Files = [("attachment", (name, b"x", stated)) for name in names]
    assert (await post(drop_in, an_email(), files)).status_code == 200
    [message] = await drop_in.stored()
    assert [each["contentType"] for each in message.payload["attachments"]] == [
        "application/pdf",
        "application/octet-stream",
        "application/gzip",
        "application/gzip",
        "application/x-bzip2",
        "application/x-xz",
        "application/gzip",
        "application/gzip",
        "application/x-compress",
    ]
