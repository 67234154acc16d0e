"""Measure the CPU time of the application per inbound webhook event, without the HTTP server.

The requests are made and signed beforehand and given to the application directly, so that the load of the machine and
the program that sends them do not count.
"""

import asyncio
import json
import tempfile
import time
from base64 import b64encode
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from fastapi import FastAPI
from sqlalchemy import update
from tests.standins.sns import TOPIC, Signer

from bench.children import NotMeasured
from bench.in_process import answer
from bench.migrated import migrated
from mailwright.app.wiring import Engine, open_engine
from mailwright.domain.clock import SystemClock
from mailwright.domain.ids import uuid7s
from mailwright.domain.message import NewMessage, Source
from mailwright.ops.settings import load
from mailwright.storage.tables import deliveries
from mailwright.web.app import create_app

EVENTS_PER_REQUEST = 1_000
# SNS sends its notifications in parallel.
CONNECTIONS = 32
ACCEPTED = 1_000


class Request(NamedTuple):
    path: str
    body: bytes
    headers: Sequence[tuple[bytes, bytes]] = ()


def milliseconds_per_event(source: str, database_url: str, count: int) -> float:
    """Processor time per event of `ses` (one event per request) or `sendgrid` (a thousand)."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_measure(source, database_url, count, Path(folder)))


async def _measure(source: str, database_url: str, count: int, folder: Path) -> float:
    now = SystemClock().now()
    signer, key = Signer(now), ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    settings = load(
        database_url=await migrated(database_url),
        sns_certs=signer.keep(folder),
        sns_topic_arns=TOPIC,
        sendgrid_webhook_public_key=b64encode(public).decode(),
    )
    async with open_engine(settings) as engine:
        ids = await _sent_messages(engine, source, count)
        requests = _from_sns(signer, ids) if source == "ses" else _from_sendgrid(key, ids, now)
        return await _answered(create_app(engine), [*requests]) / count


async def _sent_messages(engine: Engine, provider: str, count: int) -> list[str]:
    now = engine.clock.now()
    ids = uuid7s(now, count)
    for start in range(0, count, ACCEPTED):
        await engine.acceptor.accept(
            [
                NewMessage(
                    outbox_id=outbox_id,
                    tenant_id=1,
                    source=Source.API,
                    request_id="bench",
                    to_email=_address(number),
                    subject="Hello",
                    payload={"to": _address(number), "subject": "Hello", "text": "Hello"},
                    external_id=str(number),
                )
                for number, outbox_id in enumerate(ids[start : start + ACCEPTED], start)
            ]
        )
    async with engine.database.write() as tx:
        await tx.execute(update(deliveries).values(status="SENT", sent_at=now, attempts=1, provider=provider))
    return ids


def _from_sns(signer: Signer, ids: Sequence[str]) -> Iterator[Request]:
    for number, outbox_id in enumerate(ids):
        at, recipient = signer.now.isoformat(), _address(number)
        headers = {"From": "news@harbour.example", "To": recipient, "Subject": "Hello", "MIME-Version": "1.0"}
        event = {
            "eventType": "Delivery",
            "mail": {
                "timestamp": at,
                "messageId": f"0100019-{number}",
                "destination": [recipient],
                "headers": [{"name": name, "value": value} for name, value in headers.items()],
                "tags": {"ses:configuration-set": ["bench"], "mailwright-message": [outbox_id]},
            },
            "delivery": {"timestamp": at, "recipients": [recipient], "smtpResponse": "250 2.0.0 OK"},
        }
        yield Request("/ses-events", signer.notification(json.dumps(event)))


def _from_sendgrid(key: ec.EllipticCurvePrivateKey, ids: Sequence[str], now: int) -> Iterator[Request]:
    at = str(now // 1000)
    for start in range(0, len(ids), EVENTS_PER_REQUEST):
        events = [
            {
                "email": _address(number),
                "timestamp": int(at),
                "event": "delivered",
                "sg_event_id": f"event-{number}",
                "sg_message_id": f"message-{number}.filter",
                "response": "250 OK",
                "mailwright_message": outbox_id,
            }
            for number, outbox_id in enumerate(ids[start : start + EVENTS_PER_REQUEST], start)
        ]
        body = json.dumps(events).encode()
        signature = b64encode(key.sign(at.encode() + body, ec.ECDSA(hashes.SHA256())))
        name = b"x-twilio-email-event-webhook"
        yield Request(
            "/sendgrid-events", body, [(name + b"-signature", signature), (name + b"-timestamp", at.encode())]
        )


async def _answered(app: FastAPI, requests: Sequence[Request]) -> float:
    """Send all requests and return the processor time in milliseconds."""
    waiting = iter(requests)

    async def connection() -> None:
        for request in waiting:
            await _post(app, request)

    started = time.process_time()
    await asyncio.gather(*(connection() for _ in range(CONNECTIONS)))
    return (time.process_time() - started) * 1000


async def _post(app: FastAPI, request: Request) -> None:
    status, body = await answer(app, "POST", request.path, request.body, request.headers)
    if status != 200 or b'"unknown":0' not in body:
        raise NotMeasured(f"{request.path} answered {status}: {body!r}")


def _address(number: int) -> str:
    return f"reader{number}@readers.example"
