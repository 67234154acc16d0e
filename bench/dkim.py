"""DKIM signatures with RSA-2048 against `openssl speed`, both by processor time."""

import re
import time

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from bench import job
from bench.children import NotMeasured, call
from bench.debian import tool
from mailwright.content.dkim import DkimSigner
from mailwright.content.dkim_key import DkimKey
from mailwright.content.layout import Layout, RecipientHeaders, SharedHeaders
from mailwright.content.mime import Mailbox, message_id
from mailwright.domain.clock import SystemClock

_SIGNED_PER_SECOND = re.compile(r"^rsa +2048 bits +\S+ +\S+ +([\d.]+)", re.M)


def milliseconds_per_email(count: int) -> float:
    """Processor time to sign an email of the job."""
    key = rsa.generate_private_key(65537, 2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    signer, now = DkimSigner([DkimKey.load(pem, "harbour.example", "bench")]), SystemClock().now()
    layout = Layout.compile(
        SharedHeaders(Mailbox(job.SENDER_ADDRESS)), subject=job.SUBJECT, html=job.HTML, text=job.TEXT
    )
    person = job.recipient(1)
    headers = RecipientHeaders(Mailbox(person["email"]), message_id("1", "harbour.example"), now, "1")
    email = layout.fill(headers, {**person, "unsubscribe_url": f"{job.UNSUBSCRIBE_BASE}{person['token']}"})
    signer.sign(email, now)
    started = time.process_time()
    for _ in range(count):
        signer.sign(email, now)
    return (time.process_time() - started) * 1000 / count


def milliseconds_of_openssl() -> float:
    """Processor time of a bare signature: `openssl speed` counts its own processor time."""
    printed = call([tool("openssl", "openssl"), "speed", "-seconds", "2", "rsa2048"])
    if found := _SIGNED_PER_SECOND.search(printed):
        return 1000 / float(found[1])
    raise NotMeasured(f"openssl printed no figure for RSA-2048: {printed[-200:]}")
