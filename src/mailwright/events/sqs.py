"""SQS: events of SES that wait in a queue of ours. One leaves the queue only after what it says is on disk."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import orjson

from mailwright.domain.clock import Clock
from mailwright.domain.errors import ConfigurationInvalid, MailwrightError
from mailwright.events.inbound_webhooks import record_ses_event
from mailwright.events.rejected_events import EventRejected, MalformedEvent, TopicNotAllowed
from mailwright.events.reports import Reports
from mailwright.ops.logs import logger
from mailwright.providers.aws import AwsKeyChain, AwsKeysMissing, AwsSigner

if TYPE_CHECKING:
    from mailwright.providers.http import HttpClient

SERVICE = "sqs"
HEADERS = {"Content-Type": "application/x-amz-json-1.0"}
# The longest that SQS holds a question open; the answer then comes as soon as there is something to tell.
WAIT_SECONDS = 20
TIMEOUT_SECONDS = WAIT_SECONDS + 10.0
# As many as SQS hands over at once. A message has up to 256 KB, and JSON inside JSON grows: what is cut off would come
# again much later, and be cut off again.
MAX_MESSAGES = 10
MAX_RESPONSE_BYTES = 4 * 1024 * 1024

_HOST = re.compile(r"sqs\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

log = logger(__name__)


class SqsUnavailable(MailwrightError):
    """The queue cannot be asked now."""

    code = "QUEUE_UNAVAILABLE"


@dataclass(frozen=True, slots=True)
class SqsMessage:
    """A message in the queue: hidden from others for a while, until it is deleted or shown again."""

    message_id: str
    receipt: str
    body: str


class SqsQueue:
    """The JSON protocol of SQS: two calls, signed with the keys of the AWS credential chain."""

    def __init__(
        self, url: str, region: str | None, http: "HttpClient", clock: Clock, keys: AwsKeyChain | None = None
    ) -> None:
        self._url = url
        self._http = http
        self._clock = clock
        self._keys = keys or AwsKeyChain(clock)
        self._endpoint, found = parse_queue_url(url, region)
        self._signer = AwsSigner(SERVICE, found)

    async def receive(self) -> list[SqsMessage]:
        """Waits until there is something, for a while. Raises `SqsUnavailable`."""
        answer = await self._call("ReceiveMessage", MaxNumberOfMessages=MAX_MESSAGES, WaitTimeSeconds=WAIT_SECONDS)
        messages = answer.get("Messages") or []
        try:
            return [SqsMessage(each["MessageId"], each["ReceiptHandle"], each["Body"]) for each in messages]
        except (KeyError, TypeError) as error:
            raise SqsUnavailable("SQS answered with something else than messages.") from error

    async def delete(self, messages: Sequence[SqsMessage]) -> None:
        entries = [{"Id": str(number), "ReceiptHandle": each.receipt} for number, each in enumerate(messages)]
        answer = await self._call("DeleteMessageBatch", Entries=entries)
        if answer.get("Failed"):
            # They come again, and are then known already.
            log.warning("queue_messages_not_deleted", count=len(answer["Failed"]))

    async def _call(self, action: str, **arguments: Any) -> dict[str, Any]:
        from mailwright.providers.http import Disconnect  # noqa: PLC0415 - large, and seldom needed

        body = orjson.dumps({"QueueUrl": self._url, **arguments})
        headers = {**HEADERS, "X-Amz-Target": f"AmazonSQS.{action}"}
        try:
            keys = await self._keys.keys()
        except AwsKeysMissing as error:
            raise SqsUnavailable(str(error)) from error
        signed = self._signer.sign(keys, "POST", self._endpoint, headers=headers, body=body, now=self._clock.now())
        reply = await self._http.request(
            "POST",
            self._endpoint,
            headers=signed,
            body=body,
            timeout_seconds=TIMEOUT_SECONDS,
            most_answer_bytes=MAX_RESPONSE_BYTES,
        )
        if isinstance(reply, Disconnect):
            raise SqsUnavailable(f"SQS is out of reach: {reply.cause}.")
        if reply.status in (401, 403):
            self._keys.forget()
        try:
            answer = orjson.loads(reply.body or b"{}")
        except orjson.JSONDecodeError as error:
            raise SqsUnavailable(f"SQS answered {reply.status} with something that cannot be read.") from error
        if reply.status != 200 or not isinstance(answer, dict):
            raise SqsUnavailable(f"SQS answered {reply.status}: {_error(answer)}.")
        return answer


class SqsEventSource:
    """Takes events out of the queue for as long as it is asked to."""

    name = "queue"
    pause_seconds = 0.0

    def __init__(self, queue: SqsQueue, reports: Reports, clock: Clock, topics: Sequence[str] = ()) -> None:
        self._queue = queue
        self._reports = reports
        self._clock = clock
        self._topics = frozenset(topics)

    async def poll(self) -> int:
        """What cannot be read stays: the queue's redrive policy knows where such messages go."""
        messages = await self._queue.receive()
        # Together, so that they share a commit. One that finds the database away must not keep the others from leaving.
        ends = await asyncio.gather(*map(self._is_done, messages), return_exceptions=True)
        if done := [each for each, end in zip(messages, ends, strict=True) if end is True]:
            await self._queue.delete(done)
        if error := next((end for end in ends if isinstance(end, BaseException)), None):
            raise error
        return len(messages)

    async def _is_done(self, message: SqsMessage) -> bool:
        try:
            event = self._event_in(message.body)
            await record_ses_event(self._reports, event, self._clock, by_address=bool(self._topics))
        except EventRejected as error:
            log.warning("queue_message_refused", message_id=message.message_id, code=error.code, reason=str(error))
            return False
        except MailwrightError:
            raise
        except Exception as error:  # one that nobody can record must not stand in the way of the others
            log.error("queue_message_failed", message_id=message.message_id, exc_info=error)
            return False
        return True

    def _event_in(self, body: str) -> str:
        """The queue is ours, and its policy says who may write to it: the envelope is opened, and none is fine too."""
        try:
            found = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise MalformedEvent("The message is not JSON.") from error
        if not isinstance(found, dict) or "Type" not in found:
            return body
        if self._topics and found.get("TopicArn") not in self._topics:
            raise TopicNotAllowed
        message = found.get("Message")
        if not isinstance(message, str):
            raise MalformedEvent("Message is missing or not text.")
        return message


def parse_queue_url(url: str, region: str | None) -> tuple[str, str]:
    """Where to ask for this queue, and the region to sign for: a queue's own address says it best."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    found = _HOST.fullmatch(host)
    if parts.scheme != "https" and not (parts.scheme == "http" and host in _LOOPBACK):
        raise ConfigurationInvalid("the address of a queue begins with https://sqs., as SQS shows it")
    signing = found[1] if found else region
    if signing is None:
        raise ConfigurationInvalid("set AWS_REGION: the address of the queue names no region")
    return f"{parts.scheme}://{parts.netloc}/", signing


def _error(answer: Any) -> str:
    """`com.amazonaws.sqs#QueueDoesNotExist` is its own name behind the hash."""
    kind = answer.get("__type") if isinstance(answer, dict) else None
    return re.sub(r"[^ -~]", "?", kind.rpartition("#")[2])[:100] if isinstance(kind, str) else "no reason given"
