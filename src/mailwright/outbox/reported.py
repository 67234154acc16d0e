"""Find the messages that provider reports are about."""

from collections.abc import Collection
from itertools import groupby
from operator import attrgetter

import orjson

from mailwright.domain import address
from mailwright.domain.clock import Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import Event
from mailwright.domain.states import REPORTED_UNSENT, EventType
from mailwright.outbox.settle import append_events, event_row
from mailwright.storage.database import Database
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement

FIND_BY_OUTBOX_ID = statement(__package__, "find_reported_by_outbox_id")
FIND_BY_PROVIDER_ID = statement(__package__, "find_reported_by_provider_id")
FIND_BY_RECIPIENT = statement(__package__, "find_reported_by_recipient")
FIND_DELETED_BY_OUTBOX_ID = statement(__package__, "find_deleted_by_outbox_id")
FIND_DELETED_BY_RECIPIENT = statement(__package__, "find_deleted_by_recipient")
FIND_COPIED_PAYLOADS = statement(__package__, "find_copied_payloads")
FIND_KEPT_COPIES = statement(__package__, "find_kept_copies")
FORGET_RECIPIENTS = statement(__package__, "forget_recipients")
HOLD_REPORTED = statement(__package__, "hold_reported")
FIND_REPORTED_UNSENT = statement(__package__, "find_reported_unsent")

REPORTED_UNSENT_REASON = (
    "The provider reported this message before Mailwright sent it. Another copy of this database may have sent it."
)


@dataclass(frozen=True, slots=True)
class ReportedMessage:
    message_key: int
    tenant_id: int
    to_email: str
    is_certain: bool = True  # The message was found by an ID, not only by the recipient's address.
    was_never_sent: bool = False  # The message was found by our ID, but this database has no attempt for it.
    is_deleted: bool = False  # Retention has deleted the message, so only its recipients are known.
    provider: str | None = None  # The provider of the last attempt.
    is_shared: bool = False  # Messages to other recipients have the same provider message ID.
    copies: frozenset[str] = frozenset()  # The recipients in Cc and Bcc of a deleted message.
    sent_at: Instant | None = None  # When the provider accepted the message, or when the last attempt began.


async def hold_unsent(tx: Runner, message_keys: Collection[int], now: Instant) -> None:
    """Put messages in doubt that a provider reported before they were sent, so that a person decides about each."""
    rows = await tx.run(
        HOLD_REPORTED,
        reported=[{"message_key": key} for key in sorted(message_keys)],
        now=now,
        error_code=REPORTED_UNSENT,
        error_reason=REPORTED_UNSENT_REASON,
    )
    event = Event(EventType.IN_DOUBT, now, {"errorCode": REPORTED_UNSENT, "errorMessage": REPORTED_UNSENT_REASON})
    await append_events(tx, [event_row(row.message_key, row.tenant_id, event) for row in rows])


async def find_unsent(database: Database, since: Instant) -> list[str]:
    """Return the IDs of undecided messages that were reported since a time and before they were sent."""
    async with database.read() as tx:
        return [row.outbox_id for row in await tx.run(FIND_REPORTED_UNSENT, error_code=REPORTED_UNSENT, since=since)]


async def find_by_outbox_id(tx: Runner, outbox_ids: Collection[str]) -> dict[str, ReportedMessage]:
    if not outbox_ids:
        return {}
    rows = await tx.run(FIND_BY_OUTBOX_ID, wanted=[{"outbox_id": outbox_id} for outbox_id in sorted(outbox_ids)])
    return {
        row.outbox_id: ReportedMessage(
            row.message_key,
            row.tenant_id,
            row.to_email,
            was_never_sent=bool(row.was_never_sent),
            provider=row.provider,
            sent_at=row.sent_at,
        )
        for row in rows
    }


async def find_by_provider_id(
    tx: Runner, names: Collection[tuple[str, str]]
) -> dict[tuple[str, str], list[ReportedMessage]]:
    """Find messages by provider and provider message ID. One ID may belong to several messages."""
    if not names:
        return {}
    wanted = [{"provider": provider, "provider_message_id": name} for provider, name in sorted(names)]
    found: dict[tuple[str, str], list[ReportedMessage]] = {}
    for row in await tx.run(FIND_BY_PROVIDER_ID, wanted=wanted):
        message = ReportedMessage(
            row.message_key, row.tenant_id, row.to_email, provider=row.provider, sent_at=row.sent_at
        )
        found.setdefault((row.provider, row.provider_message_id), []).append(message)
    return found


async def find_latest_by_recipient(
    tx: Runner, recipients: Collection[tuple[str, str, Instant]]
) -> dict[tuple[str, str, Instant], ReportedMessage]:
    """Find the latest message that each provider accepted for an address before a time."""
    if not recipients:
        return {}
    wanted = [{"provider": provider, "email": email, "at": at} for provider, email, at in sorted(recipients)]
    return {
        (row.provider, row.email, row.at): ReportedMessage(
            row.message_key, row.tenant_id, row.to_email, is_certain=False, provider=row.provider, sent_at=row.sent_at
        )
        for row in await tx.run(FIND_BY_RECIPIENT, wanted=wanted)
    }


async def find_deleted_by_outbox_id(tx: Runner, outbox_ids: Collection[str]) -> dict[str, ReportedMessage]:
    """Find messages that retention deleted."""
    if not outbox_ids:
        return {}
    wanted = [{"outbox_id": outbox_id} for outbox_id in sorted(outbox_ids)]
    found: dict[str, ReportedMessage] = {}
    for outbox_id, group in groupby(await tx.run(FIND_DELETED_BY_OUTBOX_ID, wanted=wanted), attrgetter("outbox_id")):
        rows = list(group)
        own = "" if rows[0].is_copy else rows[0].to_email  # The contact may have been erased.
        copies = frozenset(row.to_email for row in rows if row.is_copy)
        found[outbox_id] = _deleted(rows[0].tenant_id, own, rows[0].provider, copies)
    return found


async def find_deleted_by_recipient(
    tx: Runner, recipients: Collection[tuple[str, str, Instant]]
) -> dict[tuple[str, str, Instant], ReportedMessage]:
    """Find the latest deleted message that each provider had for an address before a time."""
    if not recipients:
        return {}
    wanted = [{"provider": provider, "email": email, "at": at} for provider, email, at in sorted(recipients)]
    return {
        (row.provider, row.email, row.at): _deleted(row.tenant_id, row.to_email, row.provider)
        for row in await tx.run(FIND_DELETED_BY_RECIPIENT, wanted=wanted)
    }


async def load_copies(tx: Runner, message_keys: Collection[int]) -> dict[int, set[str]]:
    """Return the recipients in Cc and Bcc of messages. Retention keeps them when it deletes the body."""
    found = await load_stored_copies(tx, message_keys)
    for row in await tx.run(FIND_KEPT_COPIES, wanted=[(key,) for key in sorted(message_keys)]):
        found.setdefault(row.message_key, set()).add(row.to_email)
    return found


async def load_stored_copies(tx: Runner, message_keys: Collection[int]) -> dict[int, set[str]]:
    """Return the recipients in Cc and Bcc of messages that still have their body."""
    rows = await tx.run(FIND_COPIED_PAYLOADS, wanted=[(key,) for key in sorted(message_keys)])
    return {row.message_key: copies for row in rows if (copies := _copies(row.payload))}


def _copies(payload: str) -> set[str]:
    message = orjson.loads(payload)
    emails = (address.normal_mailbox(each) for kind in ("cc", "bcc") for each in message.get(kind, ()))
    return {email for email in emails if email is not None}


def _deleted(
    tenant_id: int, to_email: str, provider: str | None, copies: frozenset[str] = frozenset()
) -> ReportedMessage:
    known = {"is_certain": False, "is_deleted": True}
    return ReportedMessage(0, tenant_id, to_email, **known, provider=provider, copies=copies)


async def forget_recipients(tx: Runner, before: Instant, most: int) -> None:
    """Delete a batch of recipients of messages that retention deleted before a time."""
    await tx.count(FORGET_RECIPIENTS, deleted_before=before, most=most)
