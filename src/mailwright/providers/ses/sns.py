"""Verify that SNS envelopes are signed by Amazon, come from an allowed topic, and are recent.

Cheap checks come first. A certificate is fetched only for an envelope that passes all other checks.
"""

import asyncio
import re
from base64 import b64decode
from collections import OrderedDict
from collections.abc import Collection, Mapping
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar
from urllib.parse import parse_qs, urlsplit

import orjson

from mailwright.domain.clock import HOUR, MINUTE, Clock, Instant, to_instant
from mailwright.domain.foreign_json import load_json
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.ops.logs import logger
from mailwright.providers.inbound.rejected_events import (
    ForgedEvent,
    MalformedEvent,
    StaleEvent,
    TopicNotAllowed,
    VerificationUnavailable,
)
from mailwright.providers.ses.fetch import AmazonFetcher

if TYPE_CHECKING:
    from mailwright.providers.ses.sns_certificate import SnsCertificate

# Maximum age of an envelope. SNS retries for up to an hour with the first timestamp; the rest allows for clock skew. A
# long time is safe, because a repeated event changes nothing.
MAX_AGE: Instant = 2 * HOUR

MAX_CERTIFICATES = 16
MAX_CERTIFICATE_BYTES = 16 * 1024
# A certificate that could not be fetched is not requested again before this delay.
FETCH_RETRY_DELAY: Instant = MINUTE

# Maximum number of certificates that are requested at once. More than this must come from forged envelopes.
MAX_PENDING_FETCHES = 8

# An AWS region. Other names before amazonaws.com may be a customer's bucket, such as `s3-us-west-2`.
_REGION = r"[a-z]{2}(?:-[a-z]{3,5})?-(?:central|north|south|(?:north|south)?(?:east|west))-[0-9]{1,2}"
_TOPIC = re.compile(rf"arn:aws[a-z-]{{0,20}}:sns:({_REGION}):[0-9]{{12}}:[A-Za-z0-9_.-]{{1,256}}")
# Patterns for the complete rest of a URL after the host, so that it cannot contain a user, port, query or escape.
_CERTIFICATE_PATH = re.compile(r"/([A-Za-z0-9_-][A-Za-z0-9_.-]{0,199}\.pem)")
_SUBSCRIBE_PATH = re.compile(r"/\?[A-Za-z0-9_.~:%&=+-]{1,2000}")

SIGNATURE_VERSIONS = frozenset({"1", "2"})

Value = TypeVar("Value")

log = logger(__name__)


class SnsMessageType(StrEnum):
    NOTIFICATION = "Notification"
    SUBSCRIPTION = "SubscriptionConfirmation"
    UNSUBSCRIPTION = "UnsubscribeConfirmation"


_CONFIRMED = ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type")
SIGNED_FIELDS: Mapping[SnsMessageType, tuple[str, ...]] = {
    SnsMessageType.NOTIFICATION: ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"),
    SnsMessageType.SUBSCRIPTION: _CONFIRMED,
    SnsMessageType.UNSUBSCRIPTION: _CONFIRMED,
}
_MESSAGE_TYPES = {kind.value: kind for kind in SnsMessageType}
_OPTIONAL = frozenset({"Subject"})
_ALWAYS = ("SignatureVersion", "Signature", "SigningCertURL")
# Maximum length of every field except the message, which may be as long as the body.
MAX_FIELD_LENGTH = 4_096


@dataclass(frozen=True, slots=True)
class SnsEnvelope:
    """The SNS wrapper of a message; not trusted before `SnsVerifier.verify`."""

    kind: SnsMessageType
    message_id: str
    topic: str
    message: str
    at: Instant
    version: str
    signature: bytes
    certificate_url: str
    signed_text: bytes
    token: str | None = None
    subscribe_url: str | None = None


class CertificateSource(Protocol):
    async def find(self, url: str) -> "SnsCertificate":
        """Return the certificate at a URL that `check_certificate_url` has accepted."""
        ...


class SnsVerifier:
    def __init__(
        self, clock: Clock, certificates: CertificateSource, fetch: AmazonFetcher, topics: Collection[str] = ()
    ) -> None:
        """Create the verifier. If `topics` is empty, accept notifications of any topic and confirm no subscription."""
        self._clock = clock
        self._certificates = certificates
        self._fetch = fetch
        self._topics = frozenset(topics)
        self._has_warned = False

    @property
    def has_topics(self) -> bool:
        """Whether topics are configured. If not, an event counts only if it contains one of our message IDs."""
        return bool(self._topics)

    async def verify(self, body: bytes) -> SnsEnvelope:
        """Return the envelope if it is authentic and fresh.

        Raises `EventRejected`, or `VerificationUnavailable` when the certificate cannot be fetched now.
        """
        envelope = parse_envelope(body)
        self.check_topic(envelope)
        if abs(self._clock.now() - envelope.at) > MAX_AGE:
            raise StaleEvent
        if envelope.version not in SIGNATURE_VERSIONS:
            raise ForgedEvent("SignatureVersion must be 1 or 2.")
        check_certificate_url(envelope)
        certificate = await self._certificates.find(envelope.certificate_url)
        certificate.check_signature(
            envelope.signature, envelope.signed_text, version=envelope.version, now=self._clock.now()
        )
        self._warn_once(envelope)
        return envelope

    def check_topic(self, envelope: SnsEnvelope) -> None:
        """Reject topics that are not ours, because any AWS customer can send us correctly signed messages."""
        if self._topics and envelope.topic not in self._topics:
            raise TopicNotAllowed
        if not self._topics and envelope.kind is SnsMessageType.SUBSCRIPTION:
            raise TopicNotAllowed("Add the topic to SNS_TOPIC_ARNS, then request the confirmation again.")

    async def confirm_subscription(self, envelope: SnsEnvelope) -> None:
        """Confirm the subscription of a verified SubscriptionConfirmation."""
        url = envelope.subscribe_url or ""
        _check_subscribe_url(url, envelope)
        reply = await self._fetch.get(url)
        if reply.status != 200:
            raise VerificationUnavailable(f"The subscription could not be confirmed: SNS returned {reply.status}.")

    def _warn_once(self, envelope: SnsEnvelope) -> None:
        if self._topics or self._has_warned:
            return
        self._has_warned = True
        log.warning(
            "sns_topics_not_set",
            setting="SNS_TOPIC_ARNS",
            topic=envelope.topic,
            message="Set SNS_TOPIC_ARNS. Without it, an event counts only if it contains one of our message ids.",
        )


def parse_envelope(body: bytes) -> SnsEnvelope:
    """Parse an envelope. Fields that are signed or used are checked strictly; other fields are ignored."""
    try:
        document = load_json(body)
    except orjson.JSONDecodeError as error:
        raise MalformedEvent("The body is not JSON.") from error
    if not isinstance(document, dict):
        raise MalformedEvent("The body is not an SNS envelope.")
    if "Type" not in document and ("eventType" in document or "notificationType" in document):
        raise MalformedEvent(
            "The event has no envelope and no signature. Turn off raw message delivery of the SNS subscription."
        )
    kind = _message_type(document.get("Type"))
    fields = {name: _field(document, name) for name in (*SIGNED_FIELDS[kind], *_ALWAYS)}
    text = {name: value for name, value in fields.items() if value is not None}
    return SnsEnvelope(
        kind=kind,
        message_id=text["MessageId"],
        topic=text["TopicArn"],
        message=text["Message"],
        at=_instant(text["Timestamp"]),
        version=text["SignatureVersion"],
        signature=_signature(text["Signature"]),
        certificate_url=text["SigningCertURL"],
        signed_text="".join(f"{name}\n{text[name]}\n" for name in SIGNED_FIELDS[kind] if name in text).encode(),
        token=text.get("Token"),
        subscribe_url=text.get("SubscribeURL"),
    )


def check_certificate_url(envelope: SnsEnvelope) -> None:
    """Require a certificate URL of SNS in the region of the topic."""
    if not _CERTIFICATE_PATH.fullmatch(_path_at_sns(envelope.certificate_url, envelope)):
        raise ForgedEvent("SigningCertURL is not a certificate URL of SNS in the topic's region.")


def _path_at_sns(url: str, envelope: SnsEnvelope) -> str:
    """Return the rest of the URL after the SNS host of this topic. Return an empty string for any other host."""
    topic = _TOPIC.fullmatch(envelope.topic)
    if topic is None:
        raise ForgedEvent("TopicArn is not a topic ARN.")
    host = f"https://sns.{topic[1]}.amazonaws.com" + (".cn" if topic[1].startswith("cn-") else "")
    return url.removeprefix(host) if url.startswith(host) else ""


class AmazonCertificates:
    """Fetches certificates from Amazon over TLS and caches them. A region's certificate changes about once a year."""

    def __init__(self, fetch: AmazonFetcher, clock: Clock) -> None:
        self._fetch = fetch
        self._clock = clock
        self._cached: OrderedDict[str, SnsCertificate] = OrderedDict()
        self._unavailable: OrderedDict[str, Instant] = OrderedDict()
        self._pending: dict[str, asyncio.Task[SnsCertificate]] = {}
        # Fetch one certificate at a time, so that many different URLs do not cause many concurrent requests.
        self._fetch_lock = asyncio.Lock()

    async def find(self, url: str) -> "SnsCertificate":
        """Return a certificate from the cache, or fetch it. Concurrent requests for one URL share one fetch."""
        if url in self._cached:
            self._cached.move_to_end(url)
            return self._cached[url]
        if self._clock.now() < self._unavailable.get(url, 0):
            raise VerificationUnavailable
        if url not in self._pending:
            if len(self._pending) >= MAX_PENDING_FETCHES:
                raise VerificationUnavailable("Too many certificates are requested at once.")
            self._pending[url] = asyncio.create_task(self._fetch_and_cache(url))
        return await asyncio.shield(self._pending[url])

    async def _fetch_and_cache(self, url: str) -> "SnsCertificate":
        try:
            async with self._fetch_lock:
                certificate = await self._fetch_certificate(url)
        except (ForgedEvent, VerificationUnavailable):
            _put(self._unavailable, url, self._clock.now() + FETCH_RETRY_DELAY)
            raise
        finally:
            del self._pending[url]
        _put(self._cached, url, certificate)
        return certificate

    async def _fetch_certificate(self, url: str) -> "SnsCertificate":
        reply = await self._fetch.get(url)
        if reply.status >= 500:
            raise VerificationUnavailable(f"The certificate could not be fetched: SNS returned {reply.status}.")
        if reply.status != 200 or len(reply.body) > MAX_CERTIFICATE_BYTES:
            raise ForgedEvent("SigningCertURL does not lead to a certificate.")
        certificate = _load_certificate(reply.body)
        certificate.check_names()
        return certificate


class FolderCertificates:
    """Reads certificates from a folder, for tests. Subject and issuer are not checked."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._cached: OrderedDict[str, SnsCertificate] = OrderedDict()
        log.warning(
            "sns_certificates_from_folder",
            setting="MAILWRIGHT_SNS_CERTS",
            message="Events signed with a certificate of this folder are trusted. Not for production.",
        )

    async def find(self, url: str) -> "SnsCertificate":
        if url in self._cached:
            return self._cached[url]
        try:
            content = await asyncio.to_thread((self._folder / url.rpartition("/")[2]).read_bytes)
        except OSError as error:
            raise ForgedEvent("The folder MAILWRIGHT_SNS_CERTS has no such certificate.") from error
        certificate = _load_certificate(content)
        _put(self._cached, url, certificate)
        return certificate


def _load_certificate(content: bytes) -> "SnsCertificate":
    from mailwright.providers.ses.sns_certificate import SnsCertificate  # noqa: PLC0415 - imported on first use: see there

    return SnsCertificate(content)


def _put(cache: OrderedDict[str, Value], key: str, value: Value) -> None:
    cache[key] = value
    cache.move_to_end(key)
    while len(cache) > MAX_CERTIFICATES:
        cache.popitem(last=False)


def _check_subscribe_url(url: str, envelope: SnsEnvelope) -> None:
    """Require a confirmation URL of SNS for this topic, even though the URL is signed."""
    if not _SUBSCRIBE_PATH.fullmatch(_path_at_sns(url, envelope)):
        raise ForgedEvent("SubscribeURL does not point to SNS.")
    query = parse_qs(urlsplit(url).query, keep_blank_values=True)
    wanted = {"Action": "ConfirmSubscription", "TopicArn": envelope.topic, "Token": envelope.token}
    if any(query.get(name) != [value] for name, value in wanted.items()):
        raise ForgedEvent("SubscribeURL does not confirm this subscription.")


def _message_type(value: object) -> SnsMessageType:
    if isinstance(value, str) and value in _MESSAGE_TYPES:
        return _MESSAGE_TYPES[value]
    raise MalformedEvent("Type is not an SNS message type.")


def _field(document: Mapping[str, object], name: str) -> str | None:
    value = document.get(name)
    if value is None and name in _OPTIONAL:
        return None
    if not isinstance(value, str):
        raise MalformedEvent(f"{name} is missing or not text.")
    if len(value) > MAX_FIELD_LENGTH and name != "Message":
        raise MalformedEvent(f"{name} is too long.")
    return value


def _instant(text: str) -> Instant:
    try:
        timestamp = datetime.fromisoformat(text)
        if timestamp.tzinfo is None:
            raise MalformedEvent("Timestamp has no time zone.")
        return to_instant(timestamp)
    except (ValueError, OverflowError) as error:
        raise MalformedEvent("Timestamp is not a time.") from error


def _signature(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError as error:
        raise MalformedEvent("Signature is not base64.") from error
