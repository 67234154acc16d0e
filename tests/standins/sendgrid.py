"""A SendGrid stand-in: it validates requests by the v3 API rules, records messages and signs events.

async with SendGridStandIn() as sendgrid:
    sendgrid.answer(refusal(429, "too many requests", X_RateLimit_Reset="1800000060"), nth=1)
    ...
    assert sendgrid.messages[0]["subject"] == "Hello"
    headers, body = sendgrid.signed_events([{"event": "delivered", "email": "reader@example.com"}])
"""

import asyncio
import json
import re
import time
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Iterator, Mapping, Sequence
from http.client import responses
from itertools import count
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.standins.http import Answer, HttpStandIn, Request, json_answer
from tests.standins.options import StandInOptions, misbehave, post

KEY = "SG.stand-in.not-a-secret"
SEND, SCOPES = "/v3/mail/send", "/v3/scopes"
SIGNATURE = "X-Twilio-Email-Event-Webhook-Signature"
TIMESTAMP = "X-Twilio-Email-Event-Webhook-Timestamp"

MOST_BYTES = 30 * 1024 * 1024
MOST_RECIPIENTS = 1_000
MOST_ARGUMENT_BYTES = 10_000

_ADDRESS = re.compile(r"[!-?A-~]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+")
_HEADER_NAME = re.compile(r"[!-9;-~]+")
_NO_HEADER = """
    x-sg-id x-sg-eid received dkim-signature content-type content-transfer-encoding to from subject reply-to cc bcc
"""
NO_HEADER = frozenset(_NO_HEADER.split())

# The allowed members and their types.
MESSAGE = {
    "personalizations": list,
    "from": dict,
    "reply_to": dict,
    "reply_to_list": list,
    "subject": str,
    "content": list,
    "attachments": list,
    "template_id": str,
    "headers": dict,
    "categories": list,
    "custom_args": dict,
    "send_at": int,
    "batch_id": str,
    "asm": dict,
    "ip_pool_name": str,
    "mail_settings": dict,
    "tracking_settings": dict,
}
PERSONALIZATION = {
    "to": list,
    "cc": list,
    "bcc": list,
    "from": dict,
    "subject": str,
    "headers": dict,
    "custom_args": dict,
    "substitutions": dict,
    "dynamic_template_data": dict,
    "send_at": int,
}
BOX = {"email": str, "name": str}
CONTENT = {"type": str, "value": str}
ATTACHMENT = {"content": str, "type": str, "filename": str, "disposition": str, "content_id": str}
TRACKING = {
    "click_tracking": {"enable": bool, "enable_text": bool},
    "open_tracking": {"enable": bool, "substitution_tag": str},
    "subscription_tracking": {"enable": bool, "text": str, "html": str, "substitution_tag": str},
    "ganalytics": {
        "enable": bool,
        "utm_source": str,
        "utm_medium": str,
        "utm_term": str,
        "utm_content": str,
        "utm_campaign": str,
    },
}


def refusal(status: int, message: str, field: str | None = None, **headers: str) -> Answer:
    """Return an error in SendGrid's format."""
    return json_answer(status, {"errors": [{"message": message, "field": field, "help": None}]}, **headers)


def refused(status: int) -> Answer:
    """Return SendGrid's own error for a status; a gateway sends no body."""
    return Answer(status) if status in (502, 504) else refusal(status, responses.get(status, "error").lower())


class SendGridStandIn(HttpStandIn):
    def __init__(self, *, key: str = KEY, scopes: Sequence[str] = ("mail.send",), **options: Any) -> None:
        super().__init__(**options)
        self.key = key
        self.scopes = list(scopes)
        self.messages: list[dict[str, Any]] = []  # Accepted messages.
        self.message_ids: list[str] = []
        self._numbers = count(1)
        self._signing_key = ec.generate_private_key(ec.SECP256R1())

    def usual(self, request: Request) -> Answer:
        if request.headers.get("Authorization") != f"Bearer {self.key}":
            return refusal(401, "The provided authorization grant is invalid, expired, or revoked")
        match request.method, request.path:
            case "POST", path if path == SEND:
                return self._take(request)
            case "GET", path if path == SCOPES:
                return json_answer(200, {"scopes": self.scopes})
            case _, path if path in (SEND, SCOPES):
                return refusal(405, "method not allowed")
            case _:
                return refusal(404, "not found")

    def _take(self, request: Request) -> Answer:
        if PERMISSION not in self.scopes:
            return refusal(403, "access forbidden")
        if request.headers.get("Content-Type", "").partition(";")[0] != "application/json":
            return refusal(415, "Content-Type should be application/json.")
        if len(request.body) > MOST_BYTES:
            return refusal(413, "The JSON payload is too large.")
        try:
            email = json.loads(request.body.decode())
        except ValueError:
            return refusal(400, "Bad Request")
        complaints = [{"message": message, "field": field} for field, message in complaints_about(email)]
        if complaints:
            return json_answer(400, {"errors": complaints})
        if email.get("mail_settings", {}).get("sandbox_mode", {}).get("enable"):
            return Answer(200)
        message_id = f"standin{next(self._numbers):08d}"
        self.messages.append(email)
        self.message_ids.append(message_id)
        return Answer(202, b"", {"X-Message-Id": message_id})

    # Events.

    @property
    def public_key(self) -> str:
        """The public key as SendGrid shows it: base64 of the DER."""
        der = self._signing_key.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        return b64encode(der).decode()

    def signed_events(
        self, events: Sequence[Mapping[str, Any]], *, timestamp: int = 1_800_000_000
    ) -> tuple[dict[str, str], bytes]:
        """Return headers and body of a signed event webhook. The signature covers the exact bytes."""
        body = json.dumps(list(events), separators=(",", ":")).encode() + b"\r\n"
        return self.signed(body, timestamp=timestamp), body

    def signed(self, body: bytes, *, timestamp: int) -> dict[str, str]:
        signature = self._signing_key.sign(str(timestamp).encode() + body, ec.ECDSA(hashes.SHA256()))
        return {
            "Content-Type": "application/json",
            SIGNATURE: b64encode(signature).decode(),
            TIMESTAMP: str(timestamp),
        }

    def events_of(self, index: int, *names: str, timestamp: int = 1_800_000_000) -> list[dict[str, Any]]:
        """Return SendGrid's event for an accepted message, including our arguments."""
        message, message_id = self.messages[index], self.message_ids[index]
        (personalization,) = message["personalizations"]
        return [
            {
                **personalization.get("custom_args", {}),
                "email": personalization["to"][0]["email"],
                "event": name,
                "sg_event_id": f"{message_id}-{name}",
                "sg_message_id": f"{message_id}.filter0001-1-1.0",
                "smtp-id": message.get("headers", {}).get("Message-ID", ""),
                "timestamp": timestamp,
                **({"type": "bounce", "status": "5.1.1", "reason": "550 5.1.1 unknown"} if name == "bounce" else {}),
            }
            for name in names
        ]


PERMISSION = "mail.send"


# The rules.

Complaint = tuple[str, str]  # The field and its problem.


def complaints_about(message: Any) -> list[Complaint]:
    """Return everything in a request body that SendGrid would reject, including unknown members."""
    if not isinstance(message, dict):
        return [("", "Bad Request")]
    kinds = list(_kinds("", message, MESSAGE))
    return kinds or [
        *_personalizations(message),
        *_required(message),
        *_contents(message),
        *_attachments(message),
        *_headers("headers", message.get("headers", {})),
        *_settings(message.get("tracking_settings", {})),
    ]


def _kinds(place: str, given: Any, expected: Mapping[str, type]) -> Iterator[Complaint]:
    if not isinstance(given, dict):
        yield place, "Invalid type. Expected: object"
        return
    for name, value in given.items():
        field = f"{place}.{name}" if place else name
        if name not in expected:
            yield field, "unknown field"
        elif not isinstance(value, expected[name]) or (expected[name] is int and isinstance(value, bool)):
            yield field, f"Invalid type. Expected: {expected[name].__name__}"


def _personalizations(message: dict[str, Any]) -> Iterator[Complaint]:
    personalizations = message.get("personalizations", [])
    if not 1 <= len(personalizations) <= 1_000:
        yield "personalizations", "There must be 1 to 1000 personalizations."
    seen: set[str] = set()
    for number, personalization in enumerate(personalizations):
        place = f"personalizations.{number}"
        if wrong := list(_kinds(place, personalization, PERSONALIZATION)):
            yield from wrong
            continue
        if not personalization.get("to"):
            yield f"{place}.to", "The to array is required for all personalization objects."
        for role in ("to", "cc", "bcc"):
            if role != "to" and personalization.get(role) == []:
                yield f"{place}.{role}", f"The {role} array, when used, must at least have an email parameter."
            for index, box in enumerate(personalization.get(role, [])):
                yield from _box(f"{place}.{role}.{index}", box)
                address = str(box.get("email", "") if isinstance(box, dict) else box).lower()
                if address in seen:
                    yield f"{place}.{role}", "Each unique email address should only be included once."
                seen.add(address)
        yield from _arguments(f"{place}.custom_args", personalization.get("custom_args", {}))
        yield from _headers(f"{place}.headers", personalization.get("headers", {}))
    if len(seen) > MOST_RECIPIENTS:
        yield "personalizations", "There is a limit of 1000 total recipients (to + cc + bcc) per request."
    yield from _arguments("custom_args", message.get("custom_args", {}))


def _required(message: dict[str, Any]) -> Iterator[Complaint]:
    yield from _box("from", message.get("from", {}))
    if "reply_to" in message and "reply_to_list" in message:
        yield "reply_to", "Only one of reply_to and reply_to_list may be used."
    for box in [message["reply_to"]] if "reply_to" in message else message.get("reply_to_list", []):
        yield from _box("reply_to", box)
    subject = message.get("subject", "")
    if "template_id" not in message and not subject:
        yield "subject", "The subject is required."
    if "\n" in subject or "\r" in subject:
        yield "subject", "The subject may not contain line breaks."


def _box(place: str, box: Any) -> Iterator[Complaint]:
    if wrong := list(_kinds(place, box, BOX)):
        yield from wrong
    elif not _ADDRESS.fullmatch(box.get("email", "")):
        yield f"{place}.email", "Does not contain a valid address."


def _contents(message: dict[str, Any]) -> Iterator[Complaint]:
    contents = message.get("content", [])
    if "template_id" not in message and not contents:
        yield "content", "Unless a valid template_id is provided, the content parameter is required."
    for number, content in enumerate(contents):
        place = f"content.{number}"
        if wrong := list(_kinds(place, content, CONTENT)):
            yield from wrong
            continue
        if not content.get("value"):
            yield f"{place}.value", "The content value must be a string at least one character in length."
        if not content.get("type") or any(sign in content["type"] for sign in ";\r\n"):
            yield f"{place}.type", "The content type cannot contain ';', or CRLF characters."
    types = [content.get("type") for content in contents if isinstance(content, dict)]
    if "text/plain" in types[1:] or "text/html" in types[2:] or types[:2] == ["text/html", "text/html"]:
        yield "content", "If present, text/plain and text/html may only be provided once, and in this order."


def _attachments(message: dict[str, Any]) -> Iterator[Complaint]:
    for number, attachment in enumerate(message.get("attachments", [])):
        place = f"attachments.{number}"
        if wrong := list(_kinds(place, attachment, ATTACHMENT)):
            yield from wrong
            continue
        try:
            b64decode(attachment.get("content", ""), validate=True)
            is_coded = bool(attachment.get("content"))
        except (NotBase64, ValueError):
            is_coded = False
        if not is_coded:
            yield f"{place}.content", "The attachment content must be base64 encoded."
        if not attachment.get("filename") or any(sign in attachment["filename"] for sign in "\r\n"):
            yield f"{place}.filename", "The filename of the attachment is a required string."
        if any(sign in attachment.get("type", "") for sign in ";\r\n") or attachment.get("type") == "":
            yield f"{place}.type", "The attachment type cannot contain ';', or CRLF characters."
        if attachment.get("disposition", "attachment") not in ("attachment", "inline"):
            yield f"{place}.disposition", "The attachment disposition must be attachment or inline."
        if any(sign in attachment.get("content_id", "") for sign in ";,\r\n<>"):
            yield f"{place}.content_id", "The attachment content id cannot contain ';', ',' or CRLF characters."


def _headers(place: str, headers: Mapping[str, Any]) -> Iterator[Complaint]:
    for name, value in headers.items():
        if name.lower() in NO_HEADER:
            yield f"{place}.{name}", f"The header {name} is reserved and cannot be overridden."
        elif not _HEADER_NAME.fullmatch(name):
            yield f"{place}.{name}", "Not a header name."
        if not isinstance(value, str) or not value.isascii() or "\r" in value or "\n" in value:
            yield f"{place}.{name}", "A header is a string of ASCII characters without line breaks."
    if len({name.lower() for name in headers}) < len(headers):
        yield place, "A header occurs twice."


def _arguments(place: str, arguments: Mapping[str, Any]) -> Iterator[Complaint]:
    if not all(isinstance(value, str) for value in arguments.values()):
        yield place, "Custom arguments are strings."
    if len(json.dumps(arguments).encode()) > MOST_ARGUMENT_BYTES:
        yield place, "Custom arguments may not exceed 10,000 bytes."


def _settings(settings: Mapping[str, Any]) -> Iterator[Complaint]:
    for name, setting in settings.items():
        place = f"tracking_settings.{name}"
        if name not in TRACKING:
            yield place, "unknown field"
        else:
            yield from _kinds(place, setting, TRACKING[name])


async def serve(host: str, port: int, asked: StandInOptions) -> None:
    async with SendGridStandIn(host=host, port=port) as sendgrid:
        misbehave(sendgrid, asked, SEND, refused)
        print(f"SendGrid stands in at {sendgrid.url}. For `mailwright serve`, set:")
        print("  export MAILWRIGHT_PROVIDER=sendgrid MAILWRIGHT_FROM=news@example.com")
        print(f"  export MAILWRIGHT_SENDGRID_URL={sendgrid.url}")
        print(f"  export SENDGRID_API_KEY={KEY}")
        print(f"  export SENDGRID_WEBHOOK_PUBLIC_KEY={sendgrid.public_key}", flush=True)
        told = 0
        while True:
            await asyncio.sleep(0.1)
            if asked.events_to is not None:
                told = await post_events(sendgrid, told, asked.events_to, asked.type)


# Command-line event names in SendGrid's terms.
_NAMES = {"bounce": "bounce", "complaint": "spamreport", "delivery": "delivered"}


async def post_events(sendgrid: SendGridStandIn, told: int, url: str, kind: str | None = None) -> int:
    """Post the events of unreported messages; return how many were posted."""
    now = int(time.time())
    for index in range(told, len(sendgrid.messages)):
        events = sendgrid.events_of(index, "processed", _NAMES[kind or "delivery"], timestamp=now)
        headers, body = sendgrid.signed_events(events, timestamp=now)
        print(f"{sendgrid.message_ids[index]}: {await post(url, body, headers)}", flush=True)
    return len(sendgrid.messages)
