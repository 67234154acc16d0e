"""Stand-ins for Mailgun, Resend and Postmark: they check requests by the rules of each API and record messages.

async with ResendStandIn() as resend:
    resend.answer(resend.refusal(429, "rate_limit_exceeded"), nth=1)
    ...
    assert resend.messages[0]["subject"] == "Hello"
"""

import hmac
import json
from abc import ABC, abstractmethod
from base64 import b64decode, b64encode
from collections.abc import Mapping
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar, cast

import resend
from postmark.models.outbound.schemas import Email as PostmarkEmail
from pydantic import SecretStr

from mailwright.domain.clock import Clock
from mailwright.providers.inbound.parsed_events import ProviderWebhook
from tests.standins.http import Answer, HttpStandIn, Request, json_answer

KEY = "key-not-a-secret"
DOMAIN = "mg.example.com"
SVIX_SECRET = "whsec_" + b64encode(b"a secret of twenty-four b").decode()
SHARED_SECRET = "a-long-webhook-password"
RESEND_FIELDS = frozenset({*resend.Emails.SendParams.__annotations__, "from"})


class VendorStandIn(HttpStandIn, ABC):
    name: ClassVar[str]

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.messages: list[dict[str, Any]] = []
        self.message_ids: list[str] = []

    def usual(self, request: Request) -> Answer:
        if not self.is_authorized(request):
            return self.refusal(401, "no such key")
        return self.take(request) if request.method == "POST" else self.account(request)

    @abstractmethod
    def is_authorized(self, request: Request) -> bool: ...

    @abstractmethod
    def take(self, request: Request) -> Answer: ...

    @abstractmethod
    def account(self, request: Request) -> Answer: ...

    @abstractmethod
    def refusal(self, status: int, text: str, **headers: str) -> Answer: ...

    def record(self, message: dict[str, Any]) -> str:
        """Record an accepted message and return its id."""
        self.messages.append(message)
        self.message_ids.append(f"{self.name}-{len(self.messages):08d}")
        return self.message_ids[-1]


class MailgunStandIn(VendorStandIn):
    name = "mailgun"

    def is_authorized(self, request: Request) -> bool:
        return request.headers.get("Authorization") == "Basic " + b64encode(f"api:{KEY}".encode()).decode()

    def take(self, request: Request) -> Answer:
        if request.path != f"/v3/{DOMAIN}/messages.mime":
            return self.refusal(404, "Domain not found")
        head = f"Content-Type: {request.headers['Content-Type']}\r\nMIME-Version: 1.0\r\n\r\n".encode()
        form = cast("EmailMessage", BytesParser(policy=policy.HTTP).parsebytes(head + request.body))
        fields: dict[str, list[bytes]] = {}
        for part in form.iter_parts():
            name = str(part.get_param("name", header="content-disposition"))
            content = part.get_payload(0).as_bytes() if part.is_multipart() else part.get_payload(decode=True)
            fields.setdefault(name, []).append(cast("bytes", content))
        if "to" not in fields or "message" not in fields:
            return self.refusal(400, "to parameter is missing")
        boundary = request.headers["Content-Type"].partition("boundary=")[2].encode()
        raw = request.body.partition(b"message/rfc822\r\n\r\n")[2].partition(b"\r\n--" + boundary)[0]
        message = {
            name: [value.decode().strip() for value in values] for name, values in fields.items() if name != "message"
        }
        message_id = self.record({**message, "message": raw})
        return json_answer(200, {"id": f"<{message_id}@{DOMAIN}>", "message": "Queued. Thank you."})

    def account(self, request: Request) -> Answer:
        return self.refusal(404, "not found")

    def refusal(self, status: int, text: str, **headers: str) -> Answer:
        return json_answer(status, {"message": text}, **headers)


class ResendStandIn(VendorStandIn):
    name = "resend"

    def __init__(self, *, may_read: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self._may_read = may_read
        self._known: dict[str, tuple[bytes, str]] = {}  # The body and the id by idempotency key.

    def is_authorized(self, request: Request) -> bool:
        return request.headers.get("Authorization") == f"Bearer {KEY}"

    def take(self, request: Request) -> Answer:
        email = request.json()
        if unknown := email.keys() - RESEND_FIELDS:
            return self.refusal(422, f"invalid_parameter: {sorted(unknown)}")
        if not email.get("to") or not (email.get("html") or email.get("text")):
            return self.refusal(422, "missing_required_field: to")
        key = request.headers["Idempotency-Key"]
        if key in self._known and self._known[key][0] != request.body:
            return self.refusal(409, "invalid_idempotent_request")
        if key not in self._known:
            self._known[key] = (request.body, self.record(email))
        return json_answer(200, {"id": self._known[key][1]})

    def account(self, request: Request) -> Answer:
        return json_answer(200, {"data": []}) if self._may_read else self.refusal(401, "restricted_api_key: only send")

    def refusal(self, status: int, text: str, **headers: str) -> Answer:
        name, _, message = text.partition(": ")
        return json_answer(status, {"statusCode": status, "name": name, "message": message or name}, **headers)


class PostmarkStandIn(VendorStandIn):
    name = "postmark"

    def is_authorized(self, request: Request) -> bool:
        return request.headers.get("X-Postmark-Server-Token") == KEY

    def take(self, request: Request) -> Answer:
        email = request.json()
        PostmarkEmail.model_validate(email, extra="forbid", by_alias=True)
        message_id = self.record(email)
        return json_answer(200, {"To": email["To"], "MessageID": message_id, "ErrorCode": 0, "Message": "OK"})

    def account(self, request: Request) -> Answer:
        return json_answer(200, {"ID": 1, "DeliveryType": "Live"})

    def refusal(self, status: int, text: str, **headers: str) -> Answer:
        code, _, message = text.rpartition(": ")
        error = {"ErrorCode": int(code) if code.isdigit() else 10, "Message": message}
        return json_answer(status, error, **headers)


# Signed webhooks.


def mailgun_request(
    data: Mapping[str, Any], now: int, *, token: str = "t" * 50, key: str = KEY
) -> tuple[dict[str, str], bytes]:
    timestamp = str(now // 1000)
    signature = hmac.digest(key.encode(), f"{timestamp}{token}".encode(), "sha256").hex()
    signed = {"timestamp": timestamp, "token": token, "signature": signature}
    return {"Content-Type": "application/json"}, json.dumps({"signature": signed, "event-data": data}).encode()


def resend_request(
    event: Any, now: int, *, identifier: str = "msg_1", secret: str = SVIX_SECRET
) -> tuple[dict[str, str], bytes]:
    body = json.dumps(event).encode()
    timestamp = str(now // 1000)
    key = b64decode(secret.removeprefix("whsec_"))
    signature = b64encode(hmac.digest(key, f"{identifier}.{timestamp}.".encode() + body, "sha256")).decode()
    headers = {"svix-id": identifier, "svix-timestamp": timestamp, "svix-signature": f"v1,AAAA v1,{signature}"}
    return headers, body


def basic_request(event: Any, _now: int = 0, *, secret: str = SHARED_SECRET) -> tuple[dict[str, str], bytes]:
    login = b64encode(f"mailwright:{secret}".encode()).decode()
    return {"Authorization": f"Basic {login}"}, json.dumps(event).encode()


def bearer_request(event: Any, _now: int = 0, *, secret: str = SHARED_SECRET) -> tuple[dict[str, str], bytes]:
    return {"Authorization": f"Bearer {secret}"}, json.dumps(event).encode()


def webhook_of(events: ModuleType, secret: str, clock: Clock) -> ProviderWebhook:
    """Make the webhook of a provider that authenticates with a shared secret. `events` is its module."""
    name = events.__name__.split(".")[-2]
    settings = SimpleNamespace(**{f"{name}_webhook_secret": SecretStr(secret)})
    return cast("ProviderWebhook", events.make_webhook(settings, clock))
