"""An SNS for tests: wraps and signs messages like Amazon, with its own certificate.

signer = Signer(now)
signer.keep(folder)  # for MAILWRIGHT_SNS_CERTS
body = signer.notification('{"eventType": "Send", …}')

`forgeries` makes every envelope that must not be believed, by name.
"""

import hashlib
import json
import time
import uuid
from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.x509.oid import NameOID

from tests.standins.options import StandInOptions, post

REGION = "us-east-1"
TOPIC = f"arn:aws:sns:{REGION}:123456789012:mail-events"
FOREIGN_TOPIC = f"arn:aws:sns:{REGION}:210987654321:mail-events"
DAY = timedelta(days=1)

CONFIRMED = ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type")
NOTIFIED = ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type")
ALGORITHMS = {"1": hashes.SHA1(), "2": hashes.SHA256()}

Envelope = dict[str, Any]


@cache
def a_key(name: str, bits: int = 2048) -> RSAPrivateKey:
    """Create a key, cached by name because it is slow."""
    return generate_private_key(65537, bits)


class Signer:
    """Signs envelopes at `now` (milliseconds); its certificate is valid for a day before and after."""

    def __init__(
        self,
        now: int,
        *,
        key: str = "signer",
        bits: int = 2048,
        issuer: str = "Amazon",
        subject: str = "sns.amazonaws.com",
        expired: bool = False,
    ) -> None:
        self.now = datetime.fromtimestamp(now / 1000, UTC)
        self._key = a_key(key, bits)
        self._pem = self._certified(issuer, subject, expired=expired)
        self.file = f"SimpleNotificationService-{hashlib.md5(self._pem).hexdigest()}.pem"

    @property
    def certificate_url(self) -> str:
        return f"https://sns.{REGION}.amazonaws.com/{self.file}"

    @property
    def certificate(self) -> bytes:
        return self._pem

    def keep(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / self.file).write_bytes(self._pem)
        return folder

    # The three types.

    def notification(self, message: Any, *, subject: str | None = None, version: str = "2", **changes: Any) -> bytes:
        return body_of(self.notified(message, subject=subject, version=version, **changes))

    def notified(self, message: Any, *, subject: str | None = None, version: str = "2", **changes: Any) -> Envelope:
        unsubscribe = {"Action": "Unsubscribe", "SubscriptionArn": f"{TOPIC}:{uuid.uuid4()}"}
        envelope = {
            **self._common("Notification", message if isinstance(message, str) else json.dumps(message)),
            **({"Subject": subject} if subject is not None else {}),
            "UnsubscribeURL": f"https://sns.{REGION}.amazonaws.com/?{urlencode(unsubscribe)}",
            **changes,
        }
        return self.signed(envelope, version)

    def subscription(self, *, version: str = "2", **changes: Any) -> bytes:
        return body_of(self._confirmation("SubscriptionConfirmation", version, changes))

    def unsubscription(self, *, version: str = "2", **changes: Any) -> bytes:
        return body_of(self._confirmation("UnsubscribeConfirmation", version, changes))

    def signed(self, envelope: Envelope, version: str = "2") -> Envelope:
        """Sign the fields as given. Unknown versions are signed as version 2."""
        fields = NOTIFIED if envelope["Type"] == "Notification" else CONFIRMED
        text = "".join(f"{name}\n{envelope[name]}\n" for name in fields if envelope.get(name) is not None)
        signature = self._key.sign(text.encode(), PKCS1v15(), ALGORITHMS.get(version, hashes.SHA256()))
        return {
            **envelope,
            "SignatureVersion": version,
            "Signature": b64encode(signature).decode(),
            "SigningCertURL": self.certificate_url,
        }

    def _confirmation(self, kind: str, version: str, changes: Mapping[str, Any]) -> Envelope:
        token = hashlib.sha256(uuid.uuid4().bytes).hexdigest()
        topic = changes.get("TopicArn", TOPIC)
        confirm = {"Action": "ConfirmSubscription", "TopicArn": topic, "Token": token}
        envelope = {
            **self._common(kind, "You have chosen to subscribe.\nVisit the SubscribeURL to confirm."),
            "Token": token,
            "SubscribeURL": f"https://sns.{REGION}.amazonaws.com/?{urlencode(confirm, safe=':')}",
            **changes,
        }
        return self.signed(envelope, version)

    def _common(self, kind: str, message: str) -> Envelope:
        return {
            "Type": kind,
            "MessageId": str(uuid.uuid4()),
            "TopicArn": TOPIC,
            "Message": message,
            "Timestamp": self.stamp(),
        }

    def stamp(self, later: timedelta = timedelta()) -> str:
        return (self.now + later).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def _certified(self, issuer: str, subject: str, *, expired: bool) -> bytes:
        authority = x509.Name(
            [
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, issuer),
                x509.NameAttribute(NameOID.COMMON_NAME, f"{issuer} stand-in"),
            ]
        )
        ends = self.now + (-DAY if expired else DAY)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
            .issuer_name(authority)
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self.now - 2 * DAY)
            .not_valid_after(ends)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .sign(a_key("authority"), hashes.SHA256())
        )
        return certificate.public_bytes(serialization.Encoding.PEM)


def body_of(envelope: Envelope) -> bytes:
    return json.dumps(envelope, ensure_ascii=False).encode()


HEADERS = {"Content-Type": "text/plain; charset=UTF-8", "User-Agent": "Amazon Simple Notification Service Agent"}


def forgeries(signer: Signer, message: Any) -> dict[str, bytes]:
    """Envelopes with one defect each, except those that need another certificate."""
    good = signer.notified(message, subject="About a message")
    host = f"https://sns.{REGION}.amazonaws.com"
    stranger = Signer(int(signer.now.timestamp() * 1000), key="stranger")
    changed = {
        "other message": {"Message": good["Message"] + " "},
        "other id": {"MessageId": str(uuid.uuid4())},
        "other time": {"Timestamp": signer.stamp(timedelta(seconds=1))},
        "other subject": {"Subject": "Another"},
        "no subject": {"Subject": None},
        "other type": {"Type": "UnsubscribeConfirmation", "Token": "t", "SubscribeURL": f"{host}/?Action=x"},
        "other signature": {"Signature": b64encode(bytes(256)).decode()},
        "empty signature": {"Signature": ""},
        "version said to be 1": {"SignatureVersion": "1"},
        "future version": {"SignatureVersion": "3"},
        "version with a space": {"SignatureVersion": "2 "},
        "another's key": {"Signature": stranger.signed(good)["Signature"]},
    }
    addresses = {
        "no https": f"http://sns.{REGION}.amazonaws.com/{signer.file}",
        "other host": f"https://sns.example.com/{signer.file}",
        "bucket": f"https://sns.s3.{REGION}.amazonaws.com/{signer.file}",
        "longer host": f"{host}.example.com/{signer.file}",
        "longer name": f"https://evil-sns.{REGION}.amazonaws.com/{signer.file}",
        "user": f"https://sns.{REGION}.amazonaws.com@example.com/{signer.file}",
        "user before": f"https://user@sns.{REGION}.amazonaws.com/{signer.file}",
        "port": f"{host}:8443/{signer.file}",
        "query": f"{host}/{signer.file}?x=.pem",
        "query only": f"{host}/?file={signer.file}",
        "fragment": f"{host}/{signer.file}#.pem",
        "other file": f"{host}/certificate.crt",
        "up": f"{host}/../{signer.file}",
        "folder": f"{host}/folder/{signer.file}",
        "escape": f"{host}/%2e%2e/{signer.file}",
        "backslash": f"https://example.com\\@sns.{REGION}.amazonaws.com/{signer.file}",
        "line break": f"{host}/{signer.file}\n",
        "no region": f"https://sns.amazonaws.com/{signer.file}",
        "unicode dot": f"https://sns.{REGION}.amazonaws。com/{signer.file}",
    }
    stale = {"long ago": timedelta(hours=-3), "in the future": timedelta(hours=3)}
    return {
        **{name: body_of({**good, **change}) for name, change in changed.items()},
        **{f"certificate at: {name}": body_of({**good, "SigningCertURL": url}) for name, url in addresses.items()},
        **{name: signer.notification(message, Timestamp=signer.stamp(by)) for name, by in stale.items()},
        "unknown certificate": body_of({**good, "SigningCertURL": f"{host}/SimpleNotificationService-0.pem"}),
    }


def malformed(signer: Signer, message: Any) -> dict[str, bytes]:
    good = signer.notified(message)
    without = {f"no {name}": {key: value for key, value in good.items() if key != name} for name in good}
    del without["no UnsubscribeURL"]  # not signed and not used
    typed = {f"{name} is a number": {**good, name: 7} for name in good if name != "UnsubscribeURL"}
    return {
        **{name: body_of(envelope) for name, envelope in (without | typed).items()},
        "empty": b"",
        "not JSON": b"{",
        "a list": b"[]",
        "a number": b"7",
        "not UTF-8": b'{"Type": "\xff"}',
        "deep": b"[" * 100_000,
        "unknown type": body_of({**good, "Type": "Surprise"}),
        "message as an object": body_of({**good, "Message": {"eventType": "Send"}}),
        "no time": body_of({**good, "Timestamp": "yesterday"}),
        "time without a zone": body_of({**good, "Timestamp": "2027-01-15T08:00:00"}),
        "signature not base64": body_of({**good, "Signature": "EXAMPLE-SIGNATURE=="}),
        "long field": body_of({**good, "MessageId": "m" * 5_000}),
        "raw delivery": json.dumps({"eventType": "Send", "mail": {}, "send": {}}).encode(),
    }


# SES events inside the envelope.


def ses_event(
    kind: str,
    email: str,
    *,
    at: datetime | None = None,
    message_id: str = "0100-standin",
    outbox_id: str | None = None,
    **changes: Any,
) -> Envelope:
    """An event in the event publishing format about one recipient; `changes` override its details."""
    moment = (at or datetime.now(UTC)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    feedback = {"timestamp": moment, "feedbackId": f"{message_id}-{kind}"}
    recipient = {"emailAddress": email}
    parts: dict[str, tuple[str, Any]] = {
        "Bounce": (
            "bounce",
            {
                **feedback,
                "bounceType": "Permanent",
                "bounceSubType": "General",
                "bouncedRecipients": [{**recipient, "action": "failed", "status": "5.1.1"}],
            },
        ),
        "Complaint": ("complaint", {**feedback, "complainedRecipients": [recipient], "complaintFeedbackType": "abuse"}),
        "Delivery": ("delivery", {"timestamp": moment, "recipients": [email], "smtpResponse": "250 ok"}),
        "Open": ("open", {"timestamp": moment, "userAgent": "Mailer/1.0"}),
        "Send": ("send", {}),
    }
    name, part = parts[kind]
    tags = {"mailwright-message": [outbox_id]} if outbox_id else {}
    message = {"timestamp": moment, "messageId": message_id, "destination": [email], "tags": tags}
    return {"eventType": kind, "mail": message, name: {**part, **changes}}


def certificates() -> Path:
    """The folder with the certificate that signs the events."""
    folder = Path("var/sns-certificates").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


async def serve(host: str, port: int, asked: StandInOptions) -> None:
    """Post events about a message, or about none, to a running server."""
    signer = Signer(time.time_ns() // 1_000_000, key=uuid.uuid4().hex)
    folder = signer.keep(certificates())
    print(f"Events for http://{host}:{port or 8025}/ses-events. The server there needs:")
    print(f"  export MAILWRIGHT_SNS_CERTS={folder} SNS_TOPIC_ARNS={TOPIC}")
    for kind in [asked.type.title()] if asked.type else ["Send", "Delivery", "Bounce", "Complaint"]:
        message_id = f"standin-{uuid.uuid4().hex[:8]}"
        event = ses_event(kind, asked.email, message_id=message_id, outbox_id=asked.outbox_id)
        answer = await post(f"http://{host}:{port or 8025}/ses-events", signer.notification(event), HEADERS)
        print(f"{kind}: {answer}", flush=True)
    (folder / signer.file).unlink()
