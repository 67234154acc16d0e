"""JSON that is nested too deeply to be stored is refused by every drop-in API, with the reason."""

import base64

import httpx
import pytest

from mailwright.access.roles import Scope
from tests.dropin import DropIn

DEEP = '{"a": ' * 1_000 + "1" + "}" * 1_000


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v3/mail/send", '{"personalizations": [{"dynamic_template_data": DEEP}]}'),
        ("/emails", '{"from": "shop@example.com", "to": "ada@example.com", "template": {"variables": DEEP}}'),
        ("/email/withTemplate", '{"From": "shop@example.com", "To": "ada@example.com", "TemplateModel": DEEP}'),
        ("/v1/track", '{"userId": "7", "event": "Paid", "properties": DEEP}'),
        ("/v1/identify", '{"userId": "7", "traits": DEEP}'),
    ],
)
async def test_deep_json_is_refused(drop_in: DropIn, path: str, body: str) -> None:
    key = await drop_in.key_with(Scope.SEND, Scope.EVENTS)
    basic = base64.b64encode(f"{key}:".encode()).decode()
    headers = {"Content-Type": "application/json", "X-Postmark-Server-Token": key, "Authorization": f"Bearer {key}"}
    if path in ("/v1/track", "/v1/identify"):
        headers["Authorization"] = f"Basic {basic}"
    async with httpx.AsyncClient(base_url=drop_in.url) as client:
        answer = await client.post(path, content=body.replace("DEEP", DEEP), headers=headers)
    assert 400 <= answer.status_code < 500
    assert "nested more than 100 levels deep" in answer.text
    assert await drop_in.stored() == []


async def test_deep_variables_of_mailgun_are_refused(drop_in: DropIn) -> None:
    key = await drop_in.key_with(Scope.SEND)
    fields = {
        "from": "shop@example.com",
        "to": "ada@example.com",
        "subject": "x",
        "text": "y",
        "h:X-Mailgun-Variables": DEEP,
    }
    async with httpx.AsyncClient(base_url=drop_in.url) as client:
        answer = await client.post("/v3/example.com/messages", data=fields, auth=("api", key))
    assert answer.status_code == 400
    assert "nested more than 100 levels deep" in answer.text
