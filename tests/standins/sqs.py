"""An SQS for tests: one queue with the JSON protocol. A received message stays until it is deleted.

async with SqsStandIn(clock) as sqs:
    sqs.put('{"eventType": …}')
    ...
    assert sqs.bodies == []
"""

import hashlib
import json
from dataclasses import dataclass
from itertools import count
from typing import Any

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from mailwright.domain.clock import Clock
from tests.standins.http import Answer, HttpStandIn, Request, json_answer

ACCESS_KEY = "AKIASTANDIN000000000"
SECRET_KEY = "stand-in/not+a/secret"
REGION = "eu-west-1"
NAME = "/123456789012/mail-events"
MOST_MESSAGES = 10


@dataclass(slots=True)
class Kept:
    message_id: str
    body: str
    receives: int = 0
    is_hidden: bool = False


class SqsStandIn(HttpStandIn):
    def __init__(self, clock: Clock, **options: Any) -> None:
        super().__init__(**options)
        self.complaints: list[str] = []
        self.actions: list[str] = []
        self.clock = clock
        self._kept: list[Kept] = []
        self._numbers = count(1)

    @property
    def queue_url(self) -> str:
        return self.url + NAME

    @property
    def bodies(self) -> list[str]:
        return [each.body for each in self._kept]

    @property
    def receives(self) -> list[int]:
        return [each.receives for each in self._kept]

    def put(self, body: str) -> None:
        self._kept.append(Kept(f"message-{next(self._numbers)}", body))

    def show_again(self) -> None:
        """End the visibility timeout of received messages."""
        for each in self._kept:
            each.is_hidden = False

    def usual(self, request: Request) -> Answer:
        action = request.headers.get("X-Amz-Target", "").removeprefix("AmazonSQS.")
        self.actions.append(action)
        if complaint := self._complaint(request):
            self.complaints.append(complaint)
            return refusal("InvalidSignatureException", 403, complaint)
        asked = request.json()
        if asked.pop("QueueUrl", None) != self.queue_url:
            return refusal("QueueDoesNotExist", 400, "The specified queue does not exist.")
        match action:
            case "ReceiveMessage":
                return self._receive(asked)
            case "DeleteMessageBatch":
                return self._delete(asked)
            case _:
                return refusal("UnknownOperationException", 400, "")

    def _receive(self, asked: dict[str, Any]) -> Answer:
        most, wait = asked.get("MaxNumberOfMessages", 1), asked.get("WaitTimeSeconds", 0)
        if not 1 <= most <= MOST_MESSAGES or not 0 <= wait <= 20:
            return refusal("InvalidParameterValue", 400, "Value is out of range.")
        found = [each for each in self._kept if not each.is_hidden][:most]
        for each in found:
            each.is_hidden = True
            each.receives += 1
        messages = [
            {
                "MessageId": each.message_id,
                "ReceiptHandle": f"{each.message_id}/{each.receives}",
                "MD5OfBody": hashlib.md5(each.body.encode()).hexdigest(),
                "Body": each.body,
            }
            for each in found
        ]
        return amazon_json(200, {"Messages": messages} if messages else {})

    def _delete(self, asked: dict[str, Any]) -> Answer:
        entries = asked["Entries"]
        if not 1 <= len(entries) <= MOST_MESSAGES or len({each["Id"] for each in entries}) < len(entries):
            return refusal("BatchEntryIdsNotDistinct", 400, "Ids must be distinct.")
        gone = {each["ReceiptHandle"].partition("/")[0] for each in entries}
        self._kept = [each for each in self._kept if each.message_id not in gone]
        return amazon_json(200, {"Successful": [{"Id": each["Id"]} for each in entries], "Failed": []})

    def _complaint(self, request: Request) -> str | None:
        """Compare the signature with that of botocore over the same headers."""
        given = request.headers.get("Authorization", "")
        if (request.method, request.headers.get("Content-Type")) != ("POST", "application/x-amz-json-1.0"):
            return "This is not the JSON protocol."
        listed = given.partition("SignedHeaders=")[2].partition(",")[0].split(";")
        if not {"host", "x-amz-date", "x-amz-target"} <= set(listed):
            return "Some headers must be signed and are not."
        signer = SigV4Auth(Credentials(ACCESS_KEY, SECRET_KEY), "sqs", REGION)
        headers = {name: request.headers[name] for name in listed if name in request.headers}
        again = AWSRequest("POST", self.url + request.path, headers=headers, data=request.body)
        again.context["timestamp"] = request.headers["X-Amz-Date"]
        signed = signer.signature(signer.string_to_sign(again, signer.canonical_request(again)), again)
        scope = f"{ACCESS_KEY}/{request.headers['X-Amz-Date'][:8]}/{REGION}/sqs/aws4_request"
        if f"Credential={scope}," not in given or not given.endswith(f"Signature={signed}"):
            return "The signature does not match."
        return None


def amazon_json(status: int, content: Any) -> Answer:
    return Answer(status, json.dumps(content).encode(), {"Content-Type": "application/x-amz-json-1.0"})


def refusal(name: str, status: int, message: str) -> Answer:
    return json_answer(status, {"__type": f"com.amazonaws.sqs#{name}", "message": message})
