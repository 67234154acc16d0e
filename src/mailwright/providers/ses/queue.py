"""Read SES events from an SQS queue. A message is deleted only after its event is recorded."""

import asyncio
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import orjson

from mailwright.domain.clock import Clock
from mailwright.domain.errors import ConfigurationInvalid, MailwrightError
from mailwright.domain.foreign_json import load_json
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import lazy_gettext
from mailwright.ops.logs import logger
from mailwright.providers.aws import AwsKeyChain, AwsKeysMissing, AwsSigner
from mailwright.providers.inbound.parsed_events import RecordEvents
from mailwright.providers.inbound.rejected_events import EventRejected, MalformedEvent, TopicNotAllowed
from mailwright.providers.ses.event_format import read_event

if TYPE_CHECKING:
    from mailwright.providers.http import HttpClient

SERVICE = "sqs"
HEADERS = {"Content-Type": "application/x-amz-json-1.0"}
# The maximum duration of a long poll of SQS. The poll returns as soon as there is a message.
WAIT_SECONDS = 20
TIMEOUT_SECONDS = WAIT_SECONDS + 10.0
# Messages per request (the maximum of SQS), and the maximum size of a response. A message has up to 256 KB, and
# escaping makes it longer. A truncated response would be received again much later, and be truncated again.
MAX_MESSAGES = 10
MAX_RESPONSE_BYTES = 4 * 1024 * 1024

_HOST = re.compile(r"sqs\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

log = logger(__name__)


class SqsUnavailable(MailwrightError):
    """The SQS queue is unavailable."""

    code = "QUEUE_UNAVAILABLE"


@dataclass(frozen=True, slots=True)
class SqsMessage:
    """A received message. It is hidden from other consumers until it is deleted or its visibility timeout ends."""

    message_id: str
    receipt: str
    body: str


class SqsQueue:
    """A minimal SQS client, signed with the keys of the AWS credential chain."""

    def __init__(
        self, url: str, region: str | None, http: "HttpClient", clock: Clock, keys: AwsKeyChain | None = None
    ) -> None:
        self._url = url
        self._http = http
        self._clock = clock
        self._keys = keys or AwsKeyChain(clock)
        self._endpoint, signing_region = parse_queue_url(url, region)
        self._signer = AwsSigner(SERVICE, signing_region)

    async def receive(self) -> list[SqsMessage]:
        """Wait for messages, up to `WAIT_SECONDS`. Raises `SqsUnavailable`."""
        answer = await self._call("ReceiveMessage", MaxNumberOfMessages=MAX_MESSAGES, WaitTimeSeconds=WAIT_SECONDS)
        messages = answer.get("Messages") or []
        try:
            return [SqsMessage(each["MessageId"], each["ReceiptHandle"], each["Body"]) for each in messages]
        except (KeyError, TypeError) as error:
            raise SqsUnavailable("SQS returned an unexpected response.") from error

    async def delete(self, messages: Sequence[SqsMessage]) -> None:
        entries = [{"Id": str(number), "ReceiptHandle": each.receipt} for number, each in enumerate(messages)]
        answer = await self._call("DeleteMessageBatch", Entries=entries)
        if answer.get("Failed"):
            # Messages that are not deleted are received again and recognised as repeats.
            log.warning("sqs_messages_not_deleted", count=len(answer["Failed"]))

    async def _call(self, action: str, **arguments: Any) -> dict[str, Any]:
        from mailwright.providers.http import Disconnect  # noqa: PLC0415 - large and rarely needed

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
            max_response_bytes=MAX_RESPONSE_BYTES,
        )
        if isinstance(reply, Disconnect):
            raise SqsUnavailable(f"SQS is unreachable: {reply.cause}.")
        if reply.status in (401, 403):
            self._keys.forget()
        try:
            content = load_json(reply.body or b"{}")
        except orjson.JSONDecodeError as error:
            raise SqsUnavailable(f"SQS responded with status {reply.status} and a body that is not JSON.") from error
        if reply.status != 200 or not isinstance(content, dict):
            raise SqsUnavailable(f"SQS responded with status {reply.status}: {_error(content)}.")
        return content


class SqsEventSource:
    """Records the SES events of a queue."""

    name = "queue"
    pause_seconds = 0.0

    def __init__(self, queue: SqsQueue, record: RecordEvents, clock: Clock, topics: Sequence[str] = ()) -> None:
        self._queue = queue
        self._record = record
        self._clock = clock
        self._topics = frozenset(topics)

    async def poll(self) -> int:
        """Receive and record messages. Rejected messages stay in the queue, for its redrive policy."""
        messages = await self._queue.receive()
        # Process messages concurrently, so that they share a commit. If one fails, still delete the recorded ones.
        results = await asyncio.gather(*map(self._process, messages), return_exceptions=True)
        if done := [message for message, result in zip(messages, results, strict=True) if result is True]:
            await self._queue.delete(done)
        if error := next((result for result in results if isinstance(result, BaseException)), None):
            raise error
        return len(messages)

    async def _process(self, message: SqsMessage) -> bool:
        try:
            event = self._event_in(message.body)
            await self._record(read_event(event, self._clock, by_address=bool(self._topics)))
        except EventRejected as error:
            log.warning("sqs_message_rejected", message_id=message.message_id, code=error.code, reason=str(error))
            return False
        except MailwrightError:
            raise
        except Exception as error:  # a message that cannot be recorded must not block the others
            log.error("sqs_message_failed", message_id=message.message_id, exc_info=error)
            return False
        return True

    def _event_in(self, body: str) -> str:
        """Unwrap the SNS envelope, if any. No signature is checked, because the queue policy controls who may write."""
        try:
            envelope = load_json(body)
        except orjson.JSONDecodeError as error:
            raise MalformedEvent("The message is not JSON.") from error
        if not isinstance(envelope, dict) or "Type" not in envelope:
            return body
        if self._topics and envelope.get("TopicArn") not in self._topics:
            raise TopicNotAllowed
        message = envelope.get("Message")
        if not isinstance(message, str):
            raise MalformedEvent("Message is missing or not text.")
        return message


def parse_queue_url(url: str, region: str | None) -> tuple[str, str]:
    """Return the endpoint and the signing region of a queue URL."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    found = _HOST.fullmatch(host)
    if parts.scheme != "https" and not (parts.scheme == "http" and host in _LOOPBACK):
        raise ConfigurationInvalid(lazy_gettext("the queue URL must begin with https://; copy it from the SQS console"))
    signing = found[1] if found else region
    if signing is None:
        raise ConfigurationInvalid(lazy_gettext("the queue URL contains no region; set AWS_REGION"))
    return f"{parts.scheme}://{parts.netloc}/", signing


def _error(response: Any) -> str:
    """Return the error name: the part after the hash in `com.amazonaws.sqs#QueueDoesNotExist`."""
    kind = response.get("__type") if isinstance(response, dict) else None
    return re.sub(r"[^ -~]", "?", kind.rpartition("#")[2])[:100] if isinstance(kind, str) else "no reason given"
