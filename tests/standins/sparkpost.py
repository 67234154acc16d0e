"""A stand-in for SparkPost: it checks transmissions by the rules of the API, replaces variables and records messages.

async with SparkPostStandIn() as sparkpost:
    sparkpost.answer(sparkpost.refusal(420, "2101: Exceed Sending Limit (hourly)"), nth=1)
    ...
    assert sparkpost.messages[0]["content"]["subject"] == "Hello"
"""

import re
from base64 import b64decode
from typing import Any

from tests.standins.http import Answer, Request, json_answer
from tests.standins.vendors import KEY, VendorStandIn

FIELDS = frozenset(
    {"options", "recipients", "content", "campaign_id", "description", "metadata", "substitution_data", "return_path"}
)
OPTIONS = frozenset({"open_tracking", "click_tracking", "transactional", "sandbox"})
CONTENT = frozenset({"from", "subject", "html", "text", "reply_to", "headers", "attachments", "inline_images"})
NOT_HEADERS = frozenset({"from", "to", "subject", "reply-to", "content-type", "content-transfer-encoding"})
MOST_METADATA_BYTES = 1000
_EXPRESSION = re.compile(r"\{\{\{?\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}?\}\}")


class Refused(Exception):
    """The text begins with SparkPost's error code."""


def render(template: str, data: dict[str, str]) -> str:
    """Replace variables as SparkPost does: values are not rendered again, and unknown variables are empty."""
    parts = _EXPRESSION.split(template)
    if any(bracket in text for text in parts[::2] for bracket in ("{{", "}}")):
        raise Refused("3000: substitution language syntax error in template content")
    return "".join(data.get(part, "") if index % 2 else part for index, part in enumerate(parts))


class SparkPostStandIn(VendorStandIn):
    name = "sparkpost"

    def is_authorized(self, request: Request) -> bool:
        return request.headers.get("Authorization") == KEY

    def take(self, request: Request) -> Answer:
        if request.path.rstrip("/") != "/api/v1/transmissions":
            return self.refusal(404, "1600: resource not found")
        try:
            message = checked(request.json())
        except Refused as error:
            return self.refusal(422, str(error))
        message["subaccount"] = request.headers.get("X-MSYS-SUBACCOUNT")
        count = len(message["recipients"])
        results = {"total_rejected_recipients": 0, "total_accepted_recipients": count, "id": self.record(message)}
        return json_answer(200, {"results": results})

    def account(self, request: Request) -> Answer:
        return self.refusal(403, "1100: permission denied")

    def refusal(self, status: int, text: str, **headers: str) -> Answer:
        code, _, message = text.rpartition(": ")
        error = {"code": code, "message": message} if code else {"message": message}
        return json_answer(status, {"errors": [error]}, **headers)


def checked(transmission: Any) -> dict[str, Any]:
    """Return the transmission with its variables replaced."""
    for name in ("content", "recipients"):
        if not transmission.get(name):
            raise Refused(f"1400: {name} is a required field")
    content, data = transmission["content"], transmission.get("substitution_data", {})
    options = transmission.get("options", {})
    if unknown := (transmission.keys() - FIELDS) | (options.keys() - OPTIONS) | (content.keys() - CONTENT):
        raise Refused(f"1300: invalid data: {sorted(unknown)}")
    if not all(isinstance(option, bool) for option in options.values()):
        raise Refused("1300: options must be booleans")
    if not content.get("from") or not content.get("subject") or not (content.get("html") or content.get("text")):
        raise Refused("1400: from, subject and html or text are required")
    if (
        sum(len(f"{name}{value}".encode()) for name, value in transmission.get("metadata", {}).items())
        > MOST_METADATA_BYTES
    ):
        raise Refused("1300: metadata too large")
    if any(name.lower() in NOT_HEADERS for name in content.get("headers", {})):
        raise Refused("3002: invalid header")
    for recipient in transmission["recipients"]:
        if "@" not in recipient["address"]["email"]:
            raise Refused("5002: no valid recipients")
    for file in (*content.get("attachments", ()), *content.get("inline_images", ())):
        if file.keys() != {"name", "type", "data"}:
            raise Refused("1300: invalid attachment")
        b64decode(file["data"], validate=True)
    rendered = {
        name: render(content[name], data) for name in ("subject", "html", "text", "reply_to") if name in content
    }
    headers = {name: render(value, data) for name, value in content.get("headers", {}).items()}
    return {**transmission, "content": {**content, **rendered, "headers": headers}}
