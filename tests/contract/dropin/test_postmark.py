"""Postmark's own SDK against Mailwright."""

import base64
from typing import Any

import pytest
from postmark import ServerClient
from postmark.exceptions import PostmarkException

from mailwright.access.roles import Scope
from mailwright.domain.clock import ManualClock
from tests.api import socket_client
from tests.dropin import PNG, DropIn
from tests.engines import on_sqlite

pytestmark = pytest.mark.promise("drop-in-sdks")


def an_email(**changes: Any) -> dict[str, Any]:
    email = {
        "From": "Shop <shop@example.com>",
        "To": '"Lovelace, Ada" <ada@example.com>',
        "Subject": "Your order",
        "HtmlBody": "<p>It is on its way.</p>",
        "TextBody": "It is on its way.",
        **changes,
    }
    return {name: value for name, value in email.items() if value is not None}


def client_of(drop_in: DropIn, key: str | None = None) -> ServerClient:
    return ServerClient(key or drop_in.key, retries=0, timeout=30, base_url=drop_in.url)


async def test_email_with_all_fields_is_one_message(drop_in: DropIn) -> None:
    encoded, lines = base64.b64encode(PNG).decode(), base64.encodebytes(PNG).decode()
    email = an_email(
        ReplyTo="help@example.com",
        Tag="orders",
        Metadata={"order": "7"},
        Headers=[{"Name": "X-Order", "Value": "7"}],
        TrackOpens=False,
        TrackLinks="HtmlOnly",
        MessageStream="outbound",
        Attachments=[{"Name": "logo.png", "Content": lines, "ContentType": "image/png", "ContentID": "cid:logo"}],
    )
    async with client_of(drop_in) as client:
        answer = await client.outbound.send(email)
    [stored] = await drop_in.stored()
    assert (answer.success, answer.to, answer.message_id) == (True, "ada@example.com", stored.outbox_id)
    assert stored.payload == {
        "to": "ada@example.com",
        "toName": "Lovelace, Ada",
        "from": "Shop <shop@example.com>",
        "replyTo": "help@example.com",
        "subject": "Your order",
        "text": "It is on its way.",
        "html": "<p>It is on its way.</p>",
        "headers": {"X-Order": "7"},
        "tags": ["orders"],
        "metadata": {"order": "7"},
        "tracking": "off",
        "attachments": [
            {
                "filename": "logo.png",
                "contentType": "image/png",
                "content": "".join(encoded.split()),
                "contentId": "logo",
            },
        ],
    }


async def test_several_recipients_share_one_email(drop_in: DropIn) -> None:
    email = an_email(To="ada@example.com, Bob <bob@example.com>", Cc="carol@example.com", Bcc="secret@example.com")
    email["Headers"] = [{"Name": "List-Unsubscribe", "Value": f"<https://shop.example/{'x' * 80}>"}]
    async with client_of(drop_in) as client:
        await client.outbound.send(email)
    stored = await drop_in.stored()
    assert [each.to for each in stored] == [f"{name}@example.com" for name in ("ada", "bob", "carol", "secret")]
    assert (stored[3].email["To"], stored[3].email["Cc"], stored[3].email["Bcc"]) == (
        "ada@example.com, Bob <bob@example.com>",
        "carol@example.com",
        None,
    )
    assert f"\r\nList-Unsubscribe: <https://shop.example/{'x' * 80}>\r\n".encode() in (stored[3].content or b"")


async def test_subject_and_to_may_be_missing(drop_in: DropIn, clock: ManualClock) -> None:
    async with client_of(drop_in) as client:
        await client.outbound.send(an_email(Subject=None))
        await client.outbound.send(an_email(Subject="", To="", Cc="bob@example.com"))
    alone, copied = await drop_in.deliver(clock)
    assert (alone["Subject"], copied["Subject"]) == (None, None)
    assert (alone["To"], copied["To"], copied["Cc"]) == ('"Lovelace, Ada" <ada@example.com>', None, "bob@example.com")


async def test_batch_reports_each_email_on_its_own(drop_in: DropIn) -> None:
    emails = [an_email(), an_email(Subject="x" * 999), an_email(To="bob@example.com"), an_email(Headers=[{}])]
    headers = {"X-Postmark-Server-Token": drop_in.key}
    async with client_of(drop_in) as client:
        answers = await client.outbound.send_batch(emails[:3])
    assert [answer.success for answer in answers] == [True, False, True]
    assert (answers[1].error_code, "Subject" in answers[1].message) == (300, True)
    stored = await drop_in.stored()
    assert [each.outbox_id for each in stored] == [answers[0].message_id, answers[2].message_id]
    async with socket_client(drop_in.url, headers=headers) as client:
        found = (await client.post("/email/batch", json=emails[3:])).json()
        assert [(each["ErrorCode"], each["Message"]) for each in found] == [(300, "Headers[0].Name: is required")]
        assert (await client.post("/email/batch", json=[an_email()] * 501)).json()["ErrorCode"] == 300
    assert len(await drop_in.stored()) == 2


async def test_repeated_batch_keeps_positions_when_emails_become_valid(drop_in: DropIn) -> None:
    template = {"From": "shop@example.com", "To": "bob@example.com", "TemplateAlias": "welcome", "TemplateModel": {}}
    batch = [template, an_email(), an_email(To="carol@example.com, dan@example.com")]
    headers = {"X-Postmark-Server-Token": drop_in.key, "Idempotency-Key": "order-7"}
    async with socket_client(drop_in.url, headers=headers) as client:
        first = (await client.post("/email/batch", json=batch)).json()
        welcome = {"subject": "Hi", "html": "<p>Hi</p>"}
        await client.put("/v1/templates/welcome", json=welcome, headers={"Authorization": f"Bearer {drop_in.key}"})
        second = (await client.post("/email/batch", json=batch)).json()
    assert [each["ErrorCode"] for each in (*first, *second)] == [1101, 0, 0, 0, 0, 0]
    assert [each["MessageID"] for each in second[1:]] == [each["MessageID"] for each in first[1:]]
    found = sorted(each.to for each in await drop_in.stored())
    assert found == [f"{name}@example.com" for name in ("ada", "bob", "carol", "dan")]


async def test_stream_is_a_list_and_template_is_filled(drop_in: DropIn) -> None:
    async with socket_client(drop_in.url, headers={"Authorization": f"Bearer {drop_in.key}"}) as client:
        await client.put("/v1/templates/welcome", json={"subject": "Hi {{ name }}", "html": "<p>{{ name }}</p>"})
        await client.post("/v1/lists", json={"listKey": "news", "name": "News"})
    template = {"From": "shop@example.com", "To": "ada@example.com", "TemplateAlias": "welcome"}
    headers = {"X-Postmark-Server-Token": drop_in.key}
    async with socket_client(drop_in.url, headers=headers) as client:
        model = {"TemplateModel": {"name": "Ada"}}
        assert (await client.post("/email/withTemplate", json={**template, **model})).json()["ErrorCode"] == 0
        for change, code in (({"TemplateAlias": "none"}, 1101), ({"MessageStream": "none"}, 1226)):
            refused = await client.post("/email/withTemplate", json={**template, **change})
            assert (refused.status_code, refused.json()["ErrorCode"]) == (422, code)
        assert refused.json()["Message"].startswith("MessageStream: ")
        await client.post("/email", json=an_email(MessageStream="news"))
        own = {"Headers": [{"Name": "List-Unsubscribe", "Value": "<https://shop.example/leave>"}]}
        refused = await client.post("/email", json=an_email(MessageStream="news", **own))
        assert (refused.status_code, "Headers: cannot contain List-Unsubscribe" in refused.text) == (422, True)
    stored = await drop_in.stored()
    assert [(each.list_key, each.payload.get("variables")) for each in stored] == [
        (None, {"name": "Ada"}),
        ("news", None),
    ]


@on_sqlite
@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"From": None}, "From"),
        ({"To": ", ".join(f"{number}@example.com" for number in range(51))}, "To"),
        ({"To": ","}, "To"),
        ({"To": "ada"}, "To[0]"),
        ({"Colour": "red"}, "Colour"),
        ({"replyTo": "ada@example.com"}, "replyTo"),
        ({"HtmlBody": None, "TextBody": None}, "HtmlBody"),
        ({"Headers": [{"Name": "Bcc", "Value": "eve@example.com"}]}, "Headers"),
        ({"Attachments": [{"Name": "a", "Content": "%"}]}, "Attachments[0].Content"),
    ],
)
async def test_refused_fields_are_named_and_nothing_is_stored(
    drop_in: DropIn, change: dict[str, Any], field: str
) -> None:
    headers = {"X-Postmark-Server-Token": drop_in.key}
    async with socket_client(drop_in.url, headers=headers) as client:
        answer = await client.post("/email", json=an_email(**change))
    assert (answer.status_code, answer.json()["ErrorCode"]) == (422, 300)
    assert answer.json()["Message"].startswith(f"{field}: ")
    assert await drop_in.is_empty()


async def test_token_is_required_with_the_scope_to_send(drop_in: DropIn) -> None:
    for key in ("mw_" + "x" * 43, await drop_in.key_with(Scope.READ)):
        async with client_of(drop_in, key) as client:
            with pytest.raises(PostmarkException) as refused:
                await client.outbound.send(an_email())
        assert (refused.value.error_code, refused.value.http_status) == (10, 401)
    async with socket_client(drop_in.url) as client:
        assert (await client.post("/email", json=an_email())).json()["ErrorCode"] == 10
        refused = await client.post("/email", content="{", headers={"X-Postmark-Server-Token": drop_in.key})
        assert (refused.status_code, refused.json()["ErrorCode"]) == (415, 409)
    assert await drop_in.is_empty()


async def test_unknown_route_has_the_error_format_of_postmark(drop_in: DropIn) -> None:
    async with client_of(drop_in) as client:
        with pytest.raises(PostmarkException, match="does not support this route of Postmark"):
            await client.bounces.get_delivery_stats()
