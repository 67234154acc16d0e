"""SNS envelopes: only those that Amazon signed for us are accepted."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from mailwright.domain.clock import DAY, HOUR, MINUTE, Instant, ManualClock, to_instant
from mailwright.providers.http import Disconnect, HttpClient, HttpResponse
from mailwright.providers.inbound.rejected_events import (
    EventRejected,
    ForgedEvent,
    MalformedEvent,
    StaleEvent,
    TopicNotAllowed,
    VerificationUnavailable,
)
from mailwright.providers.ses import sns
from mailwright.providers.ses.fetch import AmazonFetcher
from mailwright.providers.ses.sns import AmazonCertificates, FolderCertificates, SnsMessageType, SnsVerifier
from mailwright.providers.ses.sns_certificate import SnsCertificate
from tests.standins.http import Answer, HttpStandIn, Step
from tests.standins.sns import FOREIGN_TOPIC, REGION, TOPIC, Signer, body_of, forgeries, malformed

FIXTURES = Path(__file__).resolve().parents[4] / "shared" / "fixtures" / "sns"
REAL = sorted(FIXTURES.glob("real_signed__*.json"))
MESSAGE = '{"eventType": "Send"}\n'
clock = ManualClock()
SIGNER = Signer(clock.now())


class Rerouted(HttpClient):
    """Redirects requests for Amazon to a test server."""

    def __init__(self, standin: HttpStandIn) -> None:
        super().__init__()
        self._standin = standin
        self.asked: list[str] = []

    async def request(self, method: str, url: str, **options: Any) -> HttpResponse | Disconnect:
        self.asked.append(f"{method} {url}")
        path = url.partition("amazonaws.com")[2]
        return await super().request(method, self._standin.url + path, **options)


class Amazon(HttpStandIn):
    """Serves certificates by name and confirms every subscription."""

    files: dict[str, bytes]

    def usual(self, request: Any) -> Answer:
        if request.path == "/":
            return Answer(200, b"<ConfirmSubscriptionResponse/>")
        found = self.files.get(request.path)
        return Answer(404) if found is None else Answer(200, found)


@pytest.fixture
async def amazon() -> AsyncIterator[Amazon]:
    async with Amazon() as server:
        server.files = {f"/{SIGNER.file}": SIGNER.certificate}
        yield server


@pytest.fixture
async def http(amazon: Amazon) -> AsyncIterator[Rerouted]:
    http = Rerouted(amazon)
    yield http
    await http.close()


@pytest.fixture
def fetch(http: Rerouted) -> AmazonFetcher:
    return AmazonFetcher(http)


@pytest.fixture
def time() -> ManualClock:
    return ManualClock(clock.now())


@pytest.fixture
def receiver(fetch: AmazonFetcher, time: ManualClock) -> SnsVerifier:
    return SnsVerifier(time, AmazonCertificates(fetch, time), fetch, [TOPIC])


def naming(certificate_url: str, topic: str = TOPIC) -> bytes:
    """A valid signature with another certificate URL."""
    return body_of({**SIGNER.notified(MESSAGE, TopicArn=topic), "SigningCertURL": certificate_url})


# Genuine envelopes.


@pytest.mark.skipif(not REAL, reason="the real vectors are not here")
@pytest.mark.parametrize("file", REAL, ids=lambda file: file.stem)
async def test_genuine_amazon_signature_is_accepted(file: Path) -> None:
    envelope = sns.parse_envelope(file.read_bytes())
    (certificate,) = FIXTURES.glob("real_cert__*.pem")
    real = SnsCertificate(certificate.read_bytes())
    real.check_names()
    _check(envelope, real, envelope.at)
    body = json.loads(file.read_text())
    for name in ("Message", "MessageId", "Timestamp", "TopicArn"):
        forged = sns.parse_envelope(body_of({**body, name: _other(name, body[name])}))
        with pytest.raises(ForgedEvent):
            _check(forged, real, envelope.at)
    with pytest.raises(ForgedEvent, match="not valid at this time"):
        _check(envelope, real, to_instant(datetime(2022, 8, 18, tzinfo=UTC)))


@pytest.mark.parametrize("around", [b"<html>%s</html>", b"x%s", b"%sx", b"%s<script></script>", b"<!-- -->\n%s\n<p>"])
def test_certificate_inside_of_other_content_is_refused(around: bytes) -> None:
    SnsCertificate(b"\n" + SIGNER.certificate + b"\n")
    with pytest.raises(ForgedEvent, match="does not lead to a certificate"):
        SnsCertificate(around % SIGNER.certificate)


def _other(name: str, value: str) -> str:
    return value.replace("2022", "2023") if name == "Timestamp" else value + "x"


def _check(envelope: sns.SnsEnvelope, certificate: SnsCertificate, now: Instant) -> None:
    certificate.check_signature(envelope.signature, envelope.signed_text, version=envelope.version, now=now)


# All types and versions.


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("subject", [None, "", "About a message"])
async def test_notification_is_accepted(receiver: SnsVerifier, version: str, subject: str | None) -> None:
    envelope = await receiver.verify(SIGNER.notification(MESSAGE, subject=subject, version=version))
    assert (envelope.kind, envelope.message, envelope.topic) == (SnsMessageType.NOTIFICATION, MESSAGE, TOPIC)


@pytest.mark.parametrize("version", ["1", "2"])
async def test_both_confirmations_are_accepted(receiver: SnsVerifier, version: str) -> None:
    assert (await receiver.verify(SIGNER.subscription(version=version))).kind is SnsMessageType.SUBSCRIPTION
    assert (await receiver.verify(SIGNER.unsubscription(version=version))).kind is SnsMessageType.UNSUBSCRIPTION


async def test_unsigned_fields_may_be_anything(receiver: SnsVerifier) -> None:
    signed = SIGNER.notified(MESSAGE)
    await receiver.verify(body_of({**signed, "UnsubscribeURL": 7, "MessageAttributes": {"a": []}, "New": None}))


# Forgeries.


@pytest.mark.promise("signed-reports")
@pytest.mark.parametrize(("name", "body"), forgeries(SIGNER, MESSAGE).items())
async def test_forgery_is_rejected(receiver: SnsVerifier, name: str, body: bytes) -> None:
    with pytest.raises(EventRejected) as refused:
        await receiver.verify(body)
    assert refused.type is (StaleEvent if name in ("long ago", "in the future") else ForgedEvent)


@pytest.mark.parametrize("body", [*malformed(SIGNER, MESSAGE).values()], ids=[*malformed(SIGNER, MESSAGE)])
async def test_body_without_envelope_is_rejected(receiver: SnsVerifier, http: Rerouted, body: bytes) -> None:
    with pytest.raises(MalformedEvent):
        await receiver.verify(body)
    assert http.asked == []


async def test_early_rejection_fetches_nothing(receiver: SnsVerifier, http: Rerouted) -> None:
    needs_it = {"other message", "other id", "other time", "other subject", "no subject", "other type"}
    needs_it |= {"other signature", "empty signature", "version said to be 1", "another's key", "unknown certificate"}
    cheap = {name: body for name, body in forgeries(SIGNER, MESSAGE).items() if name not in needs_it}
    assert len(cheap) > 20
    foreign = SIGNER.notification(MESSAGE, TopicArn=FOREIGN_TOPIC)
    for body in (*cheap.values(), foreign, SIGNER.subscription(TopicArn=FOREIGN_TOPIC)):
        with pytest.raises(EventRejected):
            await receiver.verify(body)
    assert http.asked == []


@pytest.mark.parametrize(
    "certificate",
    [
        {"issuer": "Amazing"},
        {"subject": "sns.example.com"},
        {"subject": "sns.amazonaws.com.example.com"},
        {"subject": "bucket.s3.amazonaws.com"},
        {"expired": True},
        {"key": "weak", "bits": 1024},
    ],
    ids=str,
)
async def test_certificate_not_issued_for_sns_is_rejected(
    receiver: SnsVerifier, amazon: Amazon, certificate: dict[str, Any]
) -> None:
    impostor = Signer(clock.now(), **certificate)
    amazon.files[f"/{impostor.file}"] = impostor.certificate
    with pytest.raises(ForgedEvent):
        await receiver.verify(impostor.notification(MESSAGE))


@pytest.mark.parametrize(
    "answer", [Answer(200, b"no certificate"), Answer(200, SIGNER.certificate + b" " * 20_000), Answer(403)]
)
async def test_response_without_certificate_is_rejected(receiver: SnsVerifier, amazon: Amazon, answer: Answer) -> None:
    amazon.answer(answer)
    with pytest.raises(ForgedEvent):
        await receiver.verify(SIGNER.notification(MESSAGE))


async def test_redirect_is_not_followed(receiver: SnsVerifier, amazon: Amazon) -> None:
    amazon.answer(Answer(302, b"", {"Location": f"{amazon.url}/elsewhere.pem"}))
    with pytest.raises(ForgedEvent):
        await receiver.verify(SIGNER.notification(MESSAGE))
    assert [request.path for request in amazon.requests] == [f"/{SIGNER.file}"]


async def test_certificate_is_fetched_once(receiver: SnsVerifier, http: Rerouted) -> None:
    for _ in range(5):
        await receiver.verify(SIGNER.notification(MESSAGE))
    assert len(http.asked) == 1


async def test_concurrent_lookups_share_one_fetch(receiver: SnsVerifier, http: Rerouted) -> None:
    bodies = [SIGNER.notification(MESSAGE) for _ in range(3 * sns.MAX_PENDING_FETCHES)]
    await asyncio.gather(*map(receiver.verify, bodies))
    assert len(http.asked) == 1


async def test_made_up_certificates_do_not_delay_known_one(
    receiver: SnsVerifier, amazon: Amazon, http: Rerouted
) -> None:
    await receiver.verify(SIGNER.notification(MESSAGE))
    hold = amazon.hold(Step.ANSWER)
    host = f"https://sns.{REGION}.amazonaws.com"
    forged = [
        asyncio.create_task(receiver.verify(naming(f"{host}/{number}.pem")))
        for number in range(sns.MAX_PENDING_FETCHES)
    ]
    await hold.reached.wait()
    async with asyncio.timeout(10):
        assert await receiver.verify(SIGNER.notification(MESSAGE))
        with pytest.raises(VerificationUnavailable, match="at once"):
            await receiver.verify(naming(f"{host}/one-more.pem"))
    assert len(http.asked) == 2
    hold.release()
    amazon.forget_rules()
    assert {type(end) for end in await asyncio.gather(*forged, return_exceptions=True)} == {ForgedEvent}
    assert len(http.asked) == 1 + sns.MAX_PENDING_FETCHES


@pytest.mark.parametrize(
    ("region", "host"),
    [
        ("us-east-1", "sns.us-west-2.amazonaws.com"),
        ("us-east-1", "sns.s3-us-west-2.amazonaws.com"),
        ("s3-us-west-2", "sns.s3-us-west-2.amazonaws.com"),
        ("us-east-1", "sns.us-east-1.amazonaws.com.cn"),
        ("cn-north-1", "sns.cn-north-1.amazonaws.com"),
        ("nowhere", "sns.nowhere.amazonaws.com"),
        ("us-east-1.evil", "sns.us-east-1.evil.amazonaws.com"),
    ],
)
async def test_certificate_must_be_from_topic_region(http: Rerouted, region: str, host: str) -> None:
    """A bucket named `sns` is served below amazonaws.com."""
    receiver = SnsVerifier(clock, AmazonCertificates(AmazonFetcher(http), clock), AmazonFetcher(http))
    topic = f"arn:aws:sns:{region}:123456789012:mail-events"
    with pytest.raises(ForgedEvent):
        await receiver.verify(naming(f"https://{host}/{SIGNER.file}", topic))
    assert http.asked == []


@pytest.mark.parametrize(
    ("partition", "region", "host"),
    [
        ("aws", "ap-southeast-4", "sns.ap-southeast-4.amazonaws.com"),
        ("aws", "mx-central-1", "sns.mx-central-1.amazonaws.com"),
        ("aws-us-gov", "us-gov-west-1", "sns.us-gov-west-1.amazonaws.com"),
        ("aws-cn", "cn-north-1", "sns.cn-north-1.amazonaws.com.cn"),
    ],
)
def test_every_region_has_its_own_host(partition: str, region: str, host: str) -> None:
    topic = f"arn:{partition}:sns:{region}:123456789012:mail-events"
    url = f"https://{host}/{SIGNER.file}"
    sns.check_certificate_url(sns.parse_envelope(naming(url, topic)))


async def test_cached_certificate_still_expires(receiver: SnsVerifier, time: ManualClock) -> None:
    await receiver.verify(SIGNER.notification(MESSAGE))
    time.advance(2 * DAY)
    with pytest.raises(ForgedEvent, match="not valid at this time"):
        await receiver.verify(SIGNER.notification(MESSAGE, Timestamp=SIGNER.stamp(timedelta(days=2))))


async def test_unavailable_certificate_is_fetched_once_a_minute(
    receiver: SnsVerifier, amazon: Amazon, http: Rerouted, time: ManualClock
) -> None:
    amazon.answer(Answer(503), times=1)
    for _ in range(3):
        with pytest.raises(VerificationUnavailable):
            await receiver.verify(SIGNER.notification(MESSAGE))
    assert len(http.asked) == 1
    time.advance(MINUTE)
    assert await receiver.verify(SIGNER.notification(MESSAGE))


async def test_certificate_cache_is_bounded(http: Rerouted, amazon: Amazon, time: ManualClock) -> None:
    certificates = AmazonCertificates(AmazonFetcher(http), time)

    async def find(number: int) -> None:
        url = f"https://sns.{REGION}.amazonaws.com/{number}.pem"
        if number % 2:
            amazon.files[f"/{number}.pem"] = SIGNER.certificate
            await certificates.find(url)
        else:
            with pytest.raises((ForgedEvent, VerificationUnavailable)):
                await certificates.find(url)

    numbers = range(4 * sns.MAX_CERTIFICATES)
    for number in numbers:
        await find(number)
    assert len(http.asked) == len(numbers)
    # From the newest on: the cache still knows the last half of the certificates and of the failures.
    fetches = []
    for number in reversed(numbers):
        before = len(http.asked)
        await find(number)
        fetches.append(len(http.asked) - before)
    assert fetches == [0] * (2 * sns.MAX_CERTIFICATES) + [1] * (2 * sns.MAX_CERTIFICATES)


# Time.


async def test_envelope_is_accepted_during_sns_retries(receiver: SnsVerifier, time: ManualClock) -> None:
    body = SIGNER.notification(MESSAGE)
    time.advance(HOUR + 5 * MINUTE)
    await receiver.verify(body)
    time.advance(HOUR)
    with pytest.raises(StaleEvent):
        await receiver.verify(body)


# Topics and subscriptions.


async def test_other_topic_is_rejected(receiver: SnsVerifier) -> None:
    for body in (SIGNER.notification(MESSAGE, TopicArn=FOREIGN_TOPIC), SIGNER.subscription(TopicArn=FOREIGN_TOPIC)):
        with pytest.raises(TopicNotAllowed):
            await receiver.verify(body)


async def test_without_topics_subscriptions_are_not_confirmed(http: Rerouted) -> None:
    receiver = SnsVerifier(clock, AmazonCertificates(AmazonFetcher(http), clock), AmazonFetcher(http))
    with capture_logs() as lines:
        for _ in range(2):
            await receiver.verify(SIGNER.notification(MESSAGE, TopicArn=FOREIGN_TOPIC))
    assert [(line["event"], line["setting"]) for line in lines] == [("sns_topics_not_set", "SNS_TOPIC_ARNS")]
    with pytest.raises(TopicNotAllowed, match="SNS_TOPIC_ARNS"):
        await receiver.verify(SIGNER.subscription())


async def test_subscription_is_confirmed_at_sns(receiver: SnsVerifier, amazon: Amazon, http: Rerouted) -> None:
    envelope = await receiver.verify(SIGNER.subscription())
    await receiver.confirm_subscription(envelope)
    assert http.asked[-1] == f"GET {envelope.subscribe_url}"
    assert f"Token={envelope.token}" in amazon.requests[-1].query


@pytest.mark.parametrize(
    "url",
    [
        "http://sns.us-east-1.amazonaws.com/?Action=ConfirmSubscription",
        "https://example.com/?Action=ConfirmSubscription",
        "https://sns.us-east-1.amazonaws.com.example.com/?Action=ConfirmSubscription",
        "https://sns.us-east-1.amazonaws.com@127.0.0.1/?Action=ConfirmSubscription",
        "https://sns.us-east-1.amazonaws.com:444/?Action=ConfirmSubscription",
        "https://sns.us-east-1.amazonaws.com/other?Action=ConfirmSubscription",
        "https://sns.us-east-1.amazonaws.com/?Action=DeleteTopic&TopicArn=" + TOPIC,
        "https://sns.us-east-1.amazonaws.com/?Action=ConfirmSubscription&TopicArn=" + FOREIGN_TOPIC + "&Token=t",
        "https://sns.us-east-1.amazonaws.com/?Action=ConfirmSubscription&TopicArn=" + TOPIC + "&Token=other",
        f"https://sns.us-east-1.amazonaws.com/?Action=ConfirmSubscription&TopicArn={TOPIC}&Token=t&Action=DeleteTopic",
        "file:///etc/passwd",
        "",
    ],
)
async def test_signed_foreign_subscribe_url_is_not_visited(receiver: SnsVerifier, http: Rerouted, url: str) -> None:
    envelope = await receiver.verify(SIGNER.subscription(SubscribeURL=url, Token="t"))
    fetched = len(http.asked)
    with pytest.raises(ForgedEvent):
        await receiver.confirm_subscription(envelope)
    assert len(http.asked) == fetched


@pytest.mark.parametrize("answer", [Answer(500), Answer(302, b"", {"Location": "/elsewhere"})])
async def test_failed_confirmation_is_reported(receiver: SnsVerifier, amazon: Amazon, answer: Answer) -> None:
    envelope = await receiver.verify(SIGNER.subscription())
    amazon.answer(answer)
    with pytest.raises(VerificationUnavailable):
        await receiver.confirm_subscription(envelope)


# Certificates from a folder.


async def test_certificates_can_come_from_a_folder(http: Rerouted, tmp_path: Path) -> None:
    own = Signer(clock.now(), key="rehearsal", issuer="Us", subject="rehearsal")
    receiver = SnsVerifier(clock, FolderCertificates(own.keep(tmp_path)), AmazonFetcher(http), [TOPIC])
    assert (await receiver.verify(own.notification(MESSAGE))).message == MESSAGE
    with pytest.raises(ForgedEvent):
        await receiver.verify(SIGNER.notification(MESSAGE))
    old = Signer(clock.now(), key="rehearsal", expired=True)
    old.keep(tmp_path)
    with pytest.raises(ForgedEvent):
        await receiver.verify(old.notification(MESSAGE))
    for body in forgeries(own, MESSAGE).values():
        with pytest.raises(EventRejected):
            await receiver.verify(body)
    assert http.asked == []
