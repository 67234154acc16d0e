"""Thousands of repeated, shuffled and invalid webhooks have the effect of each valid one once, in order."""

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import select

from mailwright.domain.clock import SystemClock
from mailwright.domain.message import NewMessage
from mailwright.domain.report import Report
from mailwright.domain.states import OnDoubt
from mailwright.events.reports import REPORTABLE, Reports
from mailwright.outbox.claim import Claims
from mailwright.providers.sendgrid import events as sendgrid
from mailwright.providers.ses import event_format as ses
from mailwright.storage.database import Database
from mailwright.storage.tables import contacts, deliveries, events, messages, reports, suppressions
from tests.builders import SENT, UNKNOWN, a_newsletter, a_result, a_settler
from tests.faults.figures import Figures
from tests.faults.stage import Stage
from tests.standins.sendgrid import SendGridStandIn
from tests.standins.sns import TOPIC, Signer, ses_event

REPEATED, MALFORMED = 0.30, 0.01
CLIENTS = 16
MAILS_PER_READER = 3
LOCK_TTL = 600_000
BATCH = 500


@dataclass(frozen=True, slots=True)
class Webhook:
    """One request, created when it is sent, because a SendGrid signature is valid for ten minutes only."""

    path: str
    made: Callable[[], tuple[dict[str, str], bytes]]
    reports: tuple[Report, ...] = ()
    is_good: bool = True


async def run(in_order: Stage, shuffled: Stage, *, webhooks: int, seed: int = 12) -> Figures:
    figures = Figures()
    chance = random.Random(seed)
    script = Script(int(webhooks * (1 - REPEATED - MALFORMED)))
    for stage in (in_order, shuffled):
        await stage.accept_all(script.messages)
        await _send(stage.database, script)

    once = list(script.webhooks())
    told = Reports(in_order.database, SystemClock())
    for webhook in once:
        await told.receive(webhook.reports)

    repeated = [chance.choice(once) for _ in range(int(webhooks * REPEATED))]
    nonsense = [script.nonsense(number) for number in range(webhooks - len(once) - len(repeated))]
    everything = [*once, *repeated, *nonsense]
    chance.shuffle(everything)
    certificates = script.signer.keep(shuffled.folder / "certificates")
    _, port = await shuffled.api(
        "--no-worker",
        MAILWRIGHT_SNS_CERTS=certificates,
        SNS_TOPIC_ARNS=TOPIC,
        SENDGRID_WEBHOOK_PUBLIC_KEY=script.sendgrid.public_key,
    )
    started = time.monotonic()
    answers = await _post_all(port, everything)
    seconds = time.monotonic() - started

    figures.note("webhooks", len(everything))
    figures.note("of these repeated, malformed or forged", f"{len(repeated)}, {len(nonsense)}")
    figures.note("answers by status", dict(Counter(status for _, status in answers)))
    figures.note("webhooks a second", round(len(everything) / seconds))
    figures.none("good ones that were not taken", sum(each.is_good and status != 200 for each, status in answers))
    bad = [str(status) for each, status in answers if not each.is_good and not 400 <= status < 500]
    figures.none("bad ones that were not refused", bad)
    expected, found = await _state(in_order.database), await _state(shuffled.database)
    for name, rows in expected.items():
        figures.note(f"{name} in order", sum(rows.values()))
        figures.none(f"{name} that differ", [str(row) for row in (rows - found[name]) + (found[name] - rows)])
    for stage, name in ((in_order, "in order"), (shuffled, "shuffled")):
        holds = await stage.identity_holds()
        figures.expect(f"audit identity, {name}", holds, "True", when=holds)
    return figures


class Script:
    """Messages and the events of SES and SendGrid about them; some messages are in doubt."""

    def __init__(self, webhooks: int) -> None:
        now = time.time_ns() // 1_000_000
        self.signer = Signer(now)
        self.sendgrid = SendGridStandIn()
        self._count = webhooks
        self._at = datetime.fromtimestamp(now / 1000, UTC)
        readers = max(1, webhooks // (MAILS_PER_READER * 2))
        self.messages: list[NewMessage] = [
            replace(a_newsletter(to=f"reader{number % readers}@example.com"), on_doubt=OnDoubt.HOLD)
            for number in range(max(1, webhooks // 2))
        ]
        self._numbers = {message.outbox_id: number for number, message in enumerate(self.messages)}

    def provider_of(self, outbox_id: str) -> tuple[str, str]:
        number = self._numbers[outbox_id]
        return ("ses", f"0100-{number}") if number % 2 == 0 else ("sendgrid", f"sg{number}")

    def is_in_doubt(self, outbox_id: str) -> bool:
        return self._numbers[outbox_id] % 10 == 9

    def webhooks(self) -> Iterator[Webhook]:
        """Return the requested number of events in order."""
        made = 0
        for number, message in enumerate(self.messages):
            story = self._of_ses(number, message) if number % 2 == 0 else self._of_sendgrid(number, message)
            for webhook in story:
                yield webhook
                made += 1
                if made == self._count:
                    return

    def _of_ses(self, number: int, message: NewMessage) -> Iterator[Webhook]:
        kinds: tuple[tuple[str, dict[str, Any]], ...] = {
            0: (("Send", {}), ("Delivery", {})),
            1: (("Send", {}), ("Bounce", {})),
            2: (("Delivery", {}), ("Complaint", {})),
            3: (("Send", {}), ("Bounce", {"bounceType": "Transient", "bounceSubType": "MailboxFull"})),
            4: (("Delivery", {}), ("Bounce", {})),
            5: (("Send", {}), ("Open", {})),
        }[number // 2 % 6]
        for later, (kind, changes) in enumerate(kinds):
            event = ses_event(
                kind,
                message.to_email,
                at=self._at + timedelta(milliseconds=later),
                message_id=f"0100-{number}",
                outbox_id=message.outbox_id if number % 4 else None,
                **changes,
            )
            yield self._ses_webhook(event)

    def _ses_webhook(self, event: dict[str, Any]) -> Webhook:
        text = json.dumps(event)
        told = ses.parse_event(text, int(self._at.timestamp() * 1000) + 60_000)
        signed = self.signer.notification(text)
        return Webhook("/ses-events", lambda: ({}, signed), told.reports)

    def _of_sendgrid(self, number: int, message: NewMessage) -> Iterator[Webhook]:
        names: tuple[dict[str, Any], ...] = {
            0: ({"event": "processed"}, {"event": "delivered"}),
            1: ({"event": "processed"}, {"event": "bounce", "type": "bounce", "status": "5.1.1"}),
            2: ({"event": "delivered"}, {"event": "spamreport"}),
            3: ({"event": "deferred"}, {"event": "bounce", "type": "blocked", "status": "5.7.1"}),
            4: ({"event": "delivered"}, {"event": "group_unsubscribe", "asm_group_id": 7}),
            5: ({"event": "dropped", "reason": "Unsubscribed Address"}, {"event": "open"}),
        }[number // 2 % 6]
        for later, fields in enumerate(names):
            event = {
                **fields,
                "email": message.to_email,
                "timestamp": int(self._at.timestamp()) - 1 + later,
                "sg_event_id": f"event-{number}-{later}",
                "sg_message_id": f"sg{number}.filter0001.0",
                **({"mailwright_message": message.outbox_id} if number % 3 else {}),
            }
            yield self._sendgrid_webhook([event])

    def _sendgrid_webhook(self, told: list[dict[str, Any]]) -> Webhook:
        read = sendgrid.parse_events(json.dumps(told).encode(), int(self._at.timestamp() * 1000) + 60_000)
        return Webhook("/sendgrid-events", lambda: self._signed(told), read.reports)

    def nonsense(self, number: int) -> Webhook:
        """Forged events that would suppress an address if they were accepted."""
        reader = self.messages[number % len(self.messages)].to_email
        bounce = ses_event("Bounce", reader, message_id=f"forged-{number}")
        spam = [{"event": "spamreport", "email": reader, "sg_event_id": f"forged-{number}"}]
        stranger = Signer(time.time_ns() // 1_000_000, key="stranger")
        made: tuple[tuple[str, Callable[[], tuple[dict[str, str], bytes]]], ...] = (
            ("/ses-events", lambda: ({}, self.signer.notification(bounce)[:-20])),
            ("/ses-events", lambda: ({}, self.signer.notification(bounce).replace(b"forged", b"Forged"))),
            ("/ses-events", lambda: ({}, stranger.notification(bounce))),
            ("/ses-events", lambda: ({}, json.dumps(bounce).encode())),
            ("/ses-events", lambda: ({}, self.signer.notification('{"eventType": "Bounce"}'))),
            ("/sendgrid-events", lambda: ({}, json.dumps(spam).encode())),
            ("/sendgrid-events", lambda: (self._signed(spam)[0], json.dumps(spam).encode())),
            ("/sendgrid-events", lambda: self._signed(spam, hours_ago=30)),
        )
        path, make = made[number % len(made)]
        return Webhook(path, make, is_good=False)

    def _signed(self, told: Sequence[dict[str, Any]], hours_ago: int = 0) -> tuple[dict[str, str], bytes]:
        return self.sendgrid.signed_events(told, timestamp=int(time.time()) - hours_ago * 3600)


async def _send(database: Database, script: Script) -> None:
    """Send every message; one in ten gets no response."""
    clock = SystemClock()
    claims, settling = Claims(database, clock, "stage", LOCK_TTL), a_settler(database, clock)
    while claimed := await claims.claim(BATCH):
        begun = await settling.exchange([], claimed)
        assert len(begun.message_keys) == len(claimed)
        outcomes = []
        for each in claimed:
            provider, message_id = script.provider_of(each.outbox_id)
            result = UNKNOWN if script.is_in_doubt(each.outbox_id) else replace(SENT, provider_message_id=message_id)
            outcomes.append(a_result(each, replace(result, provider=provider), clock.now(), LOCK_TTL))
        await settling.exchange(outcomes, [])


async def _post_all(port: int, webhooks: Sequence[Webhook]) -> list[tuple[Webhook, int]]:
    waiting = iter(webhooks)
    answers: list[tuple[Webhook, int]] = []

    async def client() -> None:
        async with _connected(port) as (reader, writer):
            for webhook in waiting:
                headers, body = webhook.made()
                lines = [f"POST {webhook.path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}"]
                lines += [f"{name}: {value}" for name, value in headers.items()]
                writer.write("\r\n".join([*lines, "", ""]).encode() + body)
                answers.append((webhook, await _status(reader)))

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return answers


@asynccontextmanager
async def _connected(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def _status(reader: asyncio.StreamReader) -> int:
    async with asyncio.timeout(60):
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        await reader.readexactly(int(head.partition("content-length: ")[2].partition("\r\n")[0]))
    return int(head.split(" ")[1])


async def _state(database: Database) -> dict[str, Counter[tuple[Any, ...]]]:
    """Return the effects of events, without times and order."""
    message = events.join(messages, messages.c.id == events.c.message_key)
    delivery = deliveries.join(messages, messages.c.id == deliveries.c.message_key)
    wanted = {
        "contacts": select(contacts.c.email, contacts.c.status, contacts.c.bounce_type, contacts.c.bounce_subtype),
        "suppressions": select(suppressions.c.email, suppressions.c.list_key),
        "reports": select(reports.c.key, reports.c.type, reports.c.verdict, reports.c.email, reports.c.at),
        "states of messages": select(messages.c.outbox_id, deliveries.c.status).select_from(delivery),
        "events of providers": select(messages.c.outbox_id, events.c.type, events.c.metadata, events.c.created_at)
        .select_from(message)
        .where(events.c.type.in_(sorted(REPORTABLE))),
    }
    async with database.read() as tx:
        return {name: Counter(tuple(row) for row in await tx.execute(query)) for name, query in wanted.items()}
