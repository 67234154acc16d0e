"""What other services allow: long subjects, several Reply-To addresses, a Message-ID and a Feedback-ID."""

import base64

from mailwright.domain.clock import ManualClock
from tests.api import socket_client
from tests.dropin import DropIn

SUBJECT = "Grüße " + "x" * 300
FEEDBACK = "order-7:shop:receipt:example"
REPLIES = ["Help <help@example.com>", "sales@example.com"]
SENDER = "shop@example.com"


async def test_long_subject_replies_and_message_id_leave(drop_in: DropIn, clock: ManualClock) -> None:
    key = drop_in.key
    boxes = [{"email": "help@example.com", "name": "Help"}, {"email": "sales@example.com"}]
    sendgrid = {
        "personalizations": [{"to": [{"email": "a@example.com"}]}],
        "from": {"email": SENDER},
        "reply_to_list": boxes,
        "subject": SUBJECT,
        "content": [{"type": "text/plain", "value": "Hi"}],
        "headers": {"Message-ID": "<1@shop.example>", "Feedback-ID": FEEDBACK},
    }
    headers = [{"Name": "message-id", "Value": "<2@shop.example>"}, {"Name": "X-PM-KeepID", "Value": "true"}]
    headers.append({"Name": "feedback-id", "Value": FEEDBACK})
    postmark = {"From": SENDER, "To": "b@example.com", "Subject": SUBJECT, "TextBody": "Hi", "Headers": headers}
    mailgun = {
        "from": SENDER,
        "to": "c@example.com",
        "subject": SUBJECT,
        "text": "Hi",
        "h:Message-Id": "3@shop.example",
        "h:Feedback-Id": FEEDBACK,
    }
    resend = {"from": SENDER, "to": ["d@example.com", "e@example.com"], "subject": SUBJECT, "text": "Hi"}
    own_id = {"Message-Id": "<4@shop.example>", "Feedback-ID": FEEDBACK}
    basic = base64.b64encode(f"api:{key}".encode()).decode()
    async with socket_client(drop_in.url, headers={"Authorization": f"Bearer {key}"}) as client:
        answers = [
            await client.post("/v3/mail/send", json=sendgrid),
            await client.post(
                "/email", json={**postmark, "ReplyTo": ", ".join(REPLIES)}, headers={"X-Postmark-Server-Token": key}
            ),
            await client.post(
                "/v3/example.com/messages",
                data={**mailgun, "h:Reply-To": ", ".join(REPLIES)},
                headers={"Authorization": f"Basic {basic}"},
            ),
            await client.post("/emails", json={**resend, "reply_to": REPLIES, "headers": own_id}),
        ]
    assert [answer.is_success for answer in answers] == [True] * 4, [answer.text for answer in answers]
    assert answers[2].json()["id"] == "<3@shop.example>"
    sent = await drop_in.deliver(clock)
    assert [email["Message-ID"] for email in sent] == [f"<{number}@shop.example>" for number in (1, 2, 3, 4, 4)]
    assert {(email["Subject"], email["Reply-To"]) for email in sent} == {(SUBJECT, ", ".join(REPLIES))}
    assert [email.get_all("Feedback-ID") for email in sent] == [[FEEDBACK]] * 5


async def test_template_and_list_keep_the_feedback_id(drop_in: DropIn, clock: ManualClock) -> None:
    shared = {"from": SENDER, "headers": {"Feedback-ID": FEEDBACK}}
    async with socket_client(drop_in.url, headers={"Authorization": f"Bearer {drop_in.key}"}) as client:
        content = {"subject": "Hi", "html": "<p>Hi</p>"}
        assert (await client.put("/v1/templates/receipt", json=content)).is_success
        answers = [
            await client.post("/emails", json={**shared, "to": "a@example.com", "template": {"id": "receipt"}}),
            await client.post(
                "/v1/email/send", json={**shared, "to": "b@example.com", "templateId": "receipt", "listKey": "general"}
            ),
        ]
    assert [answer.is_success for answer in answers] == [True] * 2, [answer.text for answer in answers]
    assert [email.get_all("Feedback-ID") for email in await drop_in.deliver(clock)] == [[FEEDBACK]] * 2
