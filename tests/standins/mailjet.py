"""A stand-in for Mailjet: it checks requests by the rules of the Send API v3.1 and records messages.

async with MailjetStandIn() as mailjet:
    mailjet.answer(mailjet.refusal(403, "send-0008: not authorized"), nth=1)
    ...
    assert mailjet.messages[0]["Subject"] == "Hello"
"""

from base64 import b64decode, b64encode
from typing import Any

from tests.standins.http import Answer, Request, json_answer
from tests.standins.vendors import KEY, VendorStandIn

SECRET_KEY = "secret-key-not-a-secret"
FIELDS = frozenset(
    {
        "From",
        "Sender",
        "To",
        "Cc",
        "Bcc",
        "ReplyTo",
        "Subject",
        "TextPart",
        "HTMLPart",
        "TemplateID",
        "TemplateLanguage",
        "Attachments",
        "InlinedAttachments",
        "Priority",
        "CustomCampaign",
        "DeduplicateCampaign",
        "TrackOpens",
        "TrackClicks",
        "CustomID",
        "EventPayload",
        "Headers",
        "Variables",
        "URLTags",
    }
)
REFUSED_HEADERS = frozenset(
    {
        "date",
        "x-csa-complaints",
        "message-id",
        "domainkey-status",
        "received-spf",
        "authentication-results",
        "received",
        "from",
        "sender",
        "subject",
        "to",
        "cc",
        "bcc",
        "reply-to",
        "return-path",
        "delivered-to",
        "dkim-signature",
        "x-feedback-id",
        "list-id",
        "user-agent",
        "x-mailer",
        "content-type",
        "content-transfer-encoding",
    }
)


class Refused(Exception):
    """The text begins with Mailjet's error code."""


class MailjetStandIn(VendorStandIn):
    name = "mailjet"

    def is_authorized(self, request: Request) -> bool:
        login = b64encode(f"{KEY}:{SECRET_KEY}".encode()).decode()
        return request.headers.get("Authorization") == f"Basic {login}"

    def take(self, request: Request) -> Answer:
        if request.path != "/v3.1/send":
            return self.refusal(404, "mj-0404: not found")
        document = request.json()
        if not document.get("Messages"):
            return self.global_error(400, "mj-0007: Messages cannot be empty")
        results = []
        for message in document["Messages"]:
            try:
                results.append(self.accepted(checked({**document.get("Globals", {}), **message})))
            except Refused as error:
                results.append(failed(400, str(error)))
        is_refused = all(result["Status"] == "error" for result in results)
        return json_answer(400 if is_refused else 200, {"Messages": results})

    def accepted(self, message: dict[str, Any]) -> dict[str, Any]:
        number = 19_421_777_835_146_490 + len(self.messages)
        self.record(message)
        self.message_ids[-1] = str(number)
        recipients = {
            role: [
                {
                    "Email": box["Email"],
                    "MessageUUID": f"uuid-{number}",
                    "MessageID": number,
                    "MessageHref": f"{self.url}/v3/REST/message/{number}",
                }
                for box in message.get(role, ())
            ]
            for role in ("To", "Cc", "Bcc")
        }
        return {"Status": "success", "CustomID": message.get("CustomID", ""), **recipients}

    def account(self, request: Request) -> Answer:
        return self.refusal(404, "mj-0404: not found")

    def refusal(self, status: int, text: str, **headers: str) -> Answer:
        if status == 401:
            return self.global_error(status, text, **headers)
        return json_answer(status, {"Messages": [failed(status, text)]}, **headers)

    def global_error(self, status: int, text: str, **headers: str) -> Answer:
        return json_answer(status, error_of(status, text), **headers)


def error_of(status: int, text: str) -> dict[str, Any]:
    code, _, message = text.rpartition(": ")
    return {"ErrorIdentifier": "f987008f", "ErrorCode": code, "StatusCode": status, "ErrorMessage": message}


def failed(status: int, text: str) -> dict[str, Any]:
    return {"Status": "error", "Errors": [{**error_of(status, text), "ErrorRelatedTo": ["To"]}]}


def checked(message: dict[str, Any]) -> dict[str, Any]:
    if unknown := message.keys() - FIELDS:
        raise Refused(f"mj-0004: unknown properties {sorted(unknown)}")
    if not message.get("To") or not message.get("From"):
        raise Refused("mj-0003: From and To are mandatory")
    if not (message.get("TextPart") or message.get("HTMLPart")):
        raise Refused("send-0003: at least TextPart or HTMLPart is required")
    boxes = [message["From"], *message["To"], *message.get("Cc", ()), *message.get("Bcc", ())]
    if not all(box["Email"].count("@") == 1 and box.keys() <= {"Email", "Name"} for box in boxes):
        raise Refused("mj-0013: invalid email address")
    for option in ("TrackOpens", "TrackClicks"):
        if message.get(option, "disabled") not in ("account_default", "disabled", "enabled"):
            raise Refused(f"mj-0005: {option}")
    if refused := {name for name in message.get("Headers", {}) if name.lower() in REFUSED_HEADERS}:
        raise Refused(f"send-0011: forbidden headers {sorted(refused)}")
    for file in message.get("Attachments", ()):
        if file.keys() != {"ContentType", "Filename", "Base64Content"}:
            raise Refused("mj-0004: Attachments")
        b64decode(file["Base64Content"], validate=True)
    for file in message.get("InlinedAttachments", ()):
        if file.keys() != {"ContentType", "Filename", "Base64Content", "ContentID"}:
            raise Refused("mj-0004: InlinedAttachments")
    return message
