"""The SendGrid stand-in works with SendGrid's own library and its published schema."""

import asyncio
import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from python_http_client.exceptions import HTTPError
from sendgrid import SendGridAPIClient
from sendgrid.helpers.eventwebhook import EventWebhook
from sendgrid.helpers.mail import Attachment, Content, From, Mail

from mailwright.content import mime
from mailwright.domain.results import ResultKind
from tests.standins.sendgrid import KEY, SIGNATURE, TIMESTAMP, SendGridStandIn, complaints_about
from tests.unit.providers.sendgrid_builders import OUTBOX_ID, a_mail, sendgrid_to

FIXTURES = Path(__file__).resolve().parents[4] / "shared" / "fixtures" / "sendgrid"
DESCRIPTION = FIXTURES / "openapi_tsg_mail_v3.json"
needs_description = pytest.mark.skipif(not DESCRIPTION.exists(), reason="SendGrid's description of its API is not here")


async def posted(server: SendGridStandIn, message: Mail | dict[str, Any], key: str = KEY) -> Any:
    """Send with SendGrid's own library, in a thread."""
    client = SendGridAPIClient(key, host=server.url)
    return await asyncio.to_thread(client.send, message)


def their_mail() -> Mail:
    return Mail(From("news@example.com", "News"), "reader@example.com", "Hello", "Text", "<p>HTML</p>")


async def test_sendgrid_library_sends_through_the_stand_in() -> None:
    async with SendGridStandIn() as server:
        message = their_mail()
        message.add_attachment(Attachment("eA==", "x.txt", "text/plain"))
        answer = await posted(server, message)
        assert (answer.status_code, answer.headers["X-Message-Id"]) == (202, server.message_ids[0])
        assert server.messages[0]["subject"] == "Hello"
        assert not server.violations


async def test_sendgrid_library_reads_its_rejections() -> None:
    async with SendGridStandIn() as server:
        wrong = their_mail()
        wrong.add_content(Content("text/plain", "a second text"))
        with pytest.raises(HTTPError) as refused:
            await posted(server, wrong)
        assert refused.value.status_code == 400
        assert "in this order" in refused.value.to_dict["errors"][0]["message"]
        with pytest.raises(HTTPError) as unauthorized:
            await posted(server, their_mail(), key="SG.wrong")
        assert unauthorized.value.status_code == 401
        assert not server.messages


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"personalizations": []}, "personalizations"),
        ({"personalizations": [{"to": []}]}, "personalizations.0.to"),
        ({"personalizations": [{"to": [{"email": "a@b.example"}, {"email": "A@b.example"}]}]}, "personalizations.0.to"),
        ({"personalizations": [{"to": [{"email": "nobody"}]}]}, "personalizations.0.to.0.email"),
        (
            {"personalizations": [{"to": [{"email": "a@b.example"}], "custom_args": {"x": "y" * 10_000}}]},
            "personalizations.0.custom_args",
        ),
        ({"from": {"name": "News"}}, "from.email"),
        ({"subject": ""}, "subject"),
        ({"subject": "a\nb"}, "subject"),
        ({"content": []}, "content"),
        ({"content": [{"type": "text/plain", "value": ""}]}, "content.0.value"),
        ({"content": [{"type": "text/html", "value": "x"}, {"type": "text/plain", "value": "x"}]}, "content"),
        ({"content": [{"type": "text/plain; charset=utf-8", "value": "x"}]}, "content.0.type"),
        ({"headers": {"subject": "x"}}, "headers.subject"),
        ({"headers": {"X-A": "ü"}}, "headers.X-A"),
        ({"headers": {"X-A": "1", "x-a": "2"}}, "headers"),
        ({"custom_args": {"number": 1}}, "custom_args"),
        ({"attachments": [{"content": "not base64", "filename": "x"}]}, "attachments.0.content"),
        ({"attachments": [{"content": "eA=="}]}, "attachments.0.filename"),
        ({"attachments": [{"content": "eA==", "filename": "x", "type": "a/b; c=d"}]}, "attachments.0.type"),
        ({"tracking_settings": {"click_tracking": {"enable": "no"}}}, "tracking_settings.click_tracking.enable"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_stand_in_rejects_like_sendgrid(change: dict[str, Any], field: str) -> None:
    right = {
        "personalizations": [{"to": [{"email": "reader@example.com"}]}],
        "from": {"email": "news@example.com"},
        "subject": "Hello",
        "content": [{"type": "text/plain", "value": "Hello"}],
    }
    assert complaints_about(right) == []
    assert [place for place, _ in complaints_about({**right, **change})] == [field]


async def test_sendgrid_library_verifies_its_events() -> None:
    async with SendGridStandIn() as server, sendgrid_to(server) as sendgrid:
        await sendgrid.send(a_mail())
        headers, body = server.signed_events(server.events_of(0, "processed", "delivered"))
        webhook = EventWebhook()
        key = webhook.convert_public_key_to_ecdsa(server.public_key)
        signature, timestamp = headers[SIGNATURE], headers[TIMESTAMP]
        assert webhook.verify_signature(body.decode(), signature, timestamp, key)
        assert not webhook.verify_signature(body.decode().strip(), signature, timestamp, key)
        assert not webhook.verify_signature(body.decode(), signature, "1800000001", key)
        assert [event["mailwright_message"] for event in json.loads(body)] == [OUTBOX_ID] * 2
        assert json.loads(body)[0]["sg_message_id"].startswith(f"{server.message_ids[0]}.")


@needs_description
async def test_requests_match_sendgrids_published_schema() -> None:
    validator = described()
    async with SendGridStandIn() as server, sendgrid_to(server) as sendgrid:
        image = mime.EmailAttachment("logo.png", "image/png", b"\x89PNG", "logo")
        emails = [
            a_mail(),
            a_mail(
                "blind@example.com", cc=(mime.Mailbox("c@example.com", "Ü"),), reply_to=(mime.Mailbox("r@example.com"),)
            ),
            a_mail(html=None, text="Nur Text"),
            a_mail(html='<img src="cid:logo">', attachments=(image,), headers={"X-Note": "Grüße"}),
        ]
        results = [await sendgrid.send(message) for message in emails]
        assert {result.kind for result in results} == {ResultKind.SENT}
        for request in server.requests:
            assert [str(error) for error in validator.iter_errors(request.json())] == []


@cache
def described() -> Any:
    """Return the schema of the request body with resolved references."""
    document = json.loads(DESCRIPTION.read_text(encoding="utf-8"))
    schema = document["components"]["requestBodies"]["PostMailSend"]["content"]["application/json"]["schema"]
    # The schema calls custom_args a string; SendGrid's own library sends an object.
    schema["properties"]["custom_args"] = {"type": "object"}
    return jsonschema_rs.Draft7Validator({**schema, "components": document["components"]}, validate_formats=True)
