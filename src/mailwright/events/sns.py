"""SNS: only what Amazon signed, for a topic of ours and not long ago, gets past this file.

Checks go from cheap to dear: nothing is fetched for an envelope that fails any that needs no certificate.
"""

import asyncio
import re
from base64 import b64decode
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar
from urllib.parse import parse_qs, urlsplit

import orjson

from mailwright.domain.clock import HOUR, MINUTE, Clock, Instant, to_instant
from mailwright.events.fetch import AmazonFetcher
from mailwright.events.rejected_events import (
    ForgedEvent,
    MalformedEvent,
    StaleEvent,
    TopicNotAllowed,
    VerificationUnavailable,
)
from mailwright.ops.logs import logger

if TYPE_CHECKING:
    from mailwright.events.sns_certificate import SnsCertificate

# SNS carries 256 KB, and JSON inside JSON grows.
MAX_BODY_BYTES = 2 * 1024 * 1024
# SNS tries again for an hour at most, with the time of the first try. As much again is for clocks that differ: an event
# that comes twice changes nothing, so this window need not be narrow.
MAX_AGE: Instant = 2 * HOUR

MAX_CERTIFICATES = 16
MAX_CERTIFICATE_BYTES = 16 * 1024
# A certificate that could not be had is not asked for again at once, however many envelopes name it.
FETCH_RETRY_DELAY: Instant = MINUTE

# Different certificates that are fetched or wait for it. Whoever names more of them at once made them up.
MAX_PENDING_FETCHES = 8

# A region as Amazon names them. Anything else before amazonaws.com may be somebody's bucket, as in `s3-us-west-2`.
_REGION = r"[a-z]{2}(?:-[a-z]{3,5})?-(?:central|north|south|(?:north|south)?(?:east|west))-[0-9]{1,2}"
_TOPIC = re.compile(rf"arn:aws[a-z-]{{0,20}}:sns:({_REGION}):[0-9]{{12}}:[A-Za-z0-9_.-]{{1,256}}")
# The whole rest of an address in one pattern: no user, port, query, escape or second reading of it gets in.
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
_OPTIONAL = frozenset({"Subject"})
_ALWAYS = ("SignatureVersion", "Signature", "SigningCertURL")
# The message may be as long as the body; nothing else has a reason to be long.
MAX_FIELD_LENGTH = 4_096


@dataclass(frozen=True, slots=True)
class SnsEnvelope:
    """What SNS wraps around a message. Nothing in it is true before `Sns.verified` has said so."""

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
        """The certificate at an address that `check_certificate_url` has found to be in order."""
        ...


class SnsVerifier:
    def __init__(
        self, clock: Clock, certificates: CertificateSource, fetch: AmazonFetcher, topics: Collection[str] = ()
    ) -> None:
        """Without topics, notifications of any topic are heard, and no subscription is confirmed."""
        self._clock = clock
        self._certificates = certificates
        self._fetch = fetch
        self._topics = frozenset(topics)
        self._has_warned = False

    @property
    def has_topics(self) -> bool:
        """Else anybody's topic may have sent a verified envelope: it must name a mail of ours to mean anything."""
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
        """Any customer of Amazon can have a message signed and sent to us: only our topics speak of our mail."""
        if self._topics and envelope.topic not in self._topics:
            raise TopicNotAllowed
        if not self._topics and envelope.kind is SnsMessageType.SUBSCRIPTION:
            raise TopicNotAllowed("Name the topic in SNS_TOPIC_ARNS; then request the confirmation again.")

    async def confirm_subscription(self, envelope: SnsEnvelope) -> None:
        """Says yes to a verified SubscriptionConfirmation."""
        url = envelope.subscribe_url or ""
        _check_subscribe_url(url, envelope)
        reply = await self._fetch.get(url)
        if reply.status != 200:
            raise VerificationUnavailable(f"The subscription could not be confirmed: SNS answered {reply.status}.")

    def _warn_once(self, envelope: SnsEnvelope) -> None:
        if self._topics or self._has_warned:
            return
        self._has_warned = True
        log.warning(
            "sns_topics_not_set",
            setting="SNS_TOPIC_ARNS",
            topic=envelope.topic,
            message="Until our topics are named, an event counts only if it names one of our mails.",
        )


def parse_envelope(body: bytes) -> SnsEnvelope:
    """Strict about every field that is signed or decides something; other fields are left alone."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise MalformedEvent("The body is not JSON.") from error
    if not isinstance(found, dict):
        raise MalformedEvent("The body is not an SNS envelope.")
    if "Type" not in found and ("eventType" in found or "notificationType" in found):
        raise MalformedEvent("The event has no envelope and so no signature: switch raw message delivery off.")
    kind = _kind(found.get("Type"))
    fields = {name: _field(found, name) for name in (*SIGNED_FIELDS[kind], *_ALWAYS)}
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
    """It must point to Amazon's SNS in the topic's own region, and nowhere else."""
    if not _CERTIFICATE_PATH.fullmatch(_path_at_sns(envelope.certificate_url, envelope)):
        raise ForgedEvent("SigningCertURL does not point to a certificate of SNS in the topic's region.")


def _path_at_sns(url: str, envelope: SnsEnvelope) -> str:
    """What follows the one host that serves this topic; empty for every other address."""
    topic = _TOPIC.fullmatch(envelope.topic)
    if topic is None:
        raise ForgedEvent("TopicArn is not the name of a topic.")
    host = f"https://sns.{topic[1]}.amazonaws.com" + (".cn" if topic[1].startswith("cn-") else "")
    return url.removeprefix(host) if url.startswith(host) else ""


class AmazonCertificates:
    """From Amazon itself, over TLS and without a redirect. A few are kept: a region changes its own once a year."""

    def __init__(self, fetch: AmazonFetcher, clock: Clock) -> None:
        self._fetch = fetch
        self._clock = clock
        self._kept: OrderedDict[str, SnsCertificate] = OrderedDict()
        self._unavailable: OrderedDict[str, Instant] = OrderedDict()
        self._under_way: dict[str, asyncio.Task[SnsCertificate]] = {}
        # One at a time: whoever sends us many addresses does not make us send as many requests at once.
        self._turn = asyncio.Lock()

    async def find(self, url: str) -> "SnsCertificate":
        """One that is kept waits for nobody; one that is being fetched is fetched once for all who ask."""
        if url in self._kept:
            self._kept.move_to_end(url)
            return self._kept[url]
        if self._clock.now() < self._unavailable.get(url, 0):
            raise VerificationUnavailable
        if url not in self._under_way:
            if len(self._under_way) >= MAX_PENDING_FETCHES:
                raise VerificationUnavailable("Too many certificates are asked for at once.")
            self._under_way[url] = asyncio.create_task(self._in_turn(url))
        return await asyncio.shield(self._under_way[url])

    async def _in_turn(self, url: str) -> "SnsCertificate":
        try:
            async with self._turn:
                certificate = await self._fetched(url)
        except (ForgedEvent, VerificationUnavailable):
            _keep(self._unavailable, url, self._clock.now() + FETCH_RETRY_DELAY)
            raise
        finally:
            del self._under_way[url]
        _keep(self._kept, url, certificate)
        return certificate

    async def _fetched(self, url: str) -> "SnsCertificate":
        reply = await self._fetch.get(url)
        if reply.status >= 500:
            raise VerificationUnavailable(f"The certificate could not be fetched: SNS answered {reply.status}.")
        if reply.status != 200 or len(reply.body) > MAX_CERTIFICATE_BYTES:
            raise ForgedEvent("SigningCertURL does not lead to a certificate.")
        certificate = _load(reply.body)
        certificate.check_names()
        return certificate


class FolderCertificates:
    """From a folder, for rehearsals. Whoever fills the folder decides whom to believe: names are not looked at."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        log.warning(
            "sns_certificates_from_folder",
            setting="MAILWRIGHT_SNS_CERTS",
            message="Events signed with a certificate of that folder are believed. Not for production.",
        )

    async def find(self, url: str) -> "SnsCertificate":
        try:
            content = await asyncio.to_thread((self._folder / url.rpartition("/")[2]).read_bytes)
        except OSError as error:
            raise ForgedEvent("The folder MAILWRIGHT_SNS_CERTS has no such certificate.") from error
        return _load(content)


def _load(content: bytes) -> "SnsCertificate":
    from mailwright.events.sns_certificate import SnsCertificate  # noqa: PLC0415 - only for those who hear SNS: see there

    return SnsCertificate(content)


def _keep(cache: OrderedDict[str, Value], key: str, value: Value) -> None:
    cache[key] = value
    cache.move_to_end(key)
    while len(cache) > MAX_CERTIFICATES:
        cache.popitem(last=False)


def _check_subscribe_url(url: str, envelope: SnsEnvelope) -> None:
    """The address is signed, and still it must be SNS's own and do what we mean it to."""
    if not _SUBSCRIBE_PATH.fullmatch(_path_at_sns(url, envelope)):
        raise ForgedEvent("SubscribeURL does not point to SNS.")
    query = parse_qs(urlsplit(url).query, keep_blank_values=True)
    wanted = {"Action": "ConfirmSubscription", "TopicArn": envelope.topic, "Token": envelope.token}
    if any(query.get(name) != [value] for name, value in wanted.items()):
        raise ForgedEvent("SubscribeURL does something other than confirming this subscription.")


def _kind(value: object) -> SnsMessageType:
    if isinstance(value, str) and value in tuple(SnsMessageType):
        return SnsMessageType(value)
    raise MalformedEvent("Type is none that SNS has.")


def _field(found: Mapping[str, object], name: str) -> str | None:
    value = found.get(name)
    if value is None and name in _OPTIONAL:
        return None
    if not isinstance(value, str):
        raise MalformedEvent(f"{name} is missing or not text.")
    if len(value) > MAX_FIELD_LENGTH and name != "Message":
        raise MalformedEvent(f"{name} is too long.")
    return value


def _instant(text: str) -> Instant:
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            raise MalformedEvent("Timestamp has no time zone.")
        return to_instant(moment)
    except (ValueError, OverflowError) as error:
        raise MalformedEvent("Timestamp is not a time.") from error


def _signature(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError as error:
        raise MalformedEvent("Signature is not base64.") from error
